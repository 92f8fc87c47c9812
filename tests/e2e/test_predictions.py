"""--predict writes a row per sample, in the order of the dataset, for any number of ranks."""

import json
import os
import sys

import numpy
import pytest
import torch
from lockstep import models
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_weights

import processes
from conftest import MNIST
from processes import LOCKSTEP, SOURCE, TRAINER
from refusals import error_lines
from safetensors_file import last_weights
from test_disk import disk  # noqa: F401, a fixture

sys.path.insert(0, str(SOURCE / "tests" / "golden"))
import idx

SAMPLES = 301  # seven batches of 50, not divisible by 2 or 3 ranks


def predict(job, *overrides, ranks=None, resume=None, out="predictions.safetensors"):
    options = ["--predict", job.directory / out, *(["--resume", resume] if resume else [])]
    return job.run(*overrides, ranks=ranks, options=options)


def predicted(job, *overrides, out="predictions.safetensors", **how):
    """The contents of the file, on success."""
    before = sorted(path.name for path in job.runs.iterdir()) if job.runs.exists() else []
    ended = predict(job, *overrides, out=out, **how)
    assert ended.code == 0 and ended.err == "", ended.err
    assert sorted(path.name for path in job.runs.iterdir()) == before, "prediction creates no run"
    arrays = load_file(job.directory / out)
    assert list(arrays) == ["predictions"]
    return arrays["predictions"], ended.out


def in_python(weights, images, bf16=False, **sizes):
    module = models.build(sizes.pop("name"), 0, **sizes).eval()
    module.load_state_dict(load_weights(weights))
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        return torch.cat([module(part) for part in images.split(50)]).float().numpy()


@pytest.fixture
def trained(job):
    return job.train("train.max_steps=5", "train.ema.decay=0.5")


def test_under_autocast(job, trained):
    """The output has a dtype that numpy supports."""
    images, _ = idx.load_split(MNIST, "test", SAMPLES)
    found, _ = predicted(job, "train.ema=null", "train.precision=bf16", resume=trained.name)
    assert found.dtype == numpy.float32
    expected = in_python(last_weights(trained), images, bf16=True, name="mlp", hidden=[32])
    assert (found == expected).all() and (expected != in_python(last_weights(trained), images, name="mlp", hidden=[32])).any()


def test_same_on_1_2_and_3_ranks_and_in_python(job, trained):
    images, labels = idx.load_split(MNIST, "test", SAMPLES)
    alone, reported = predicted(job, "train.ema=null", resume=trained.name)
    assert alone.shape == (SAMPLES, 10) and alone.dtype == numpy.float32
    assert reported.splitlines() == [f"predictions: 301 x Float [10] in {job.directory}/predictions.safetensors",
                                 f"weights: {trained} after step 5"]
    expected = in_python(last_weights(trained), images, name="mlp", hidden=[32])
    assert numpy.allclose(alone, expected, rtol=1e-5, atol=1e-6)
    assert (alone.argmax(1) == expected.argmax(1)).all()
    for ranks in (1, 2, 3):
        others, _ = predicted(job, "train.ema=null", resume=trained.name, ranks=ranks)
        assert others.tobytes() == alone.tobytes()


def test_average_is_used_for_prediction(job, trained):
    """The average is evaluated: accuracy matches that of the file."""
    images, labels = idx.load_split(MNIST, "test", SAMPLES)
    averaged, reported = predicted(job, "train.ema.decay=0.5", resume=trained.name, ranks=2)
    assert f"weights: averaged, {trained} after step 5" in reported
    expected = in_python(last_weights(trained).parent / "ema.safetensors", images, name="mlp", hidden=[32])
    assert numpy.allclose(averaged, expected, rtol=1e-5, atol=1e-6)
    right = (averaged.argmax(1) == labels.numpy()).mean()
    assert job.series(trained.name, "eval/accuracy")[-1][1] == pytest.approx(right, abs=1e-12)


def test_weights_of_a_file_and_other_data(job, trained):
    """More ranks than batches; an older file is replaced."""
    out = job.directory / "predictions.safetensors"
    out.write_bytes(b"an older one")
    init = f"train.init_from={last_weights(trained)}"
    few, reported = predicted(job, init, "data.eval={name: idx, path: %s, split: train, limit: 7}" % MNIST, ranks=3)
    assert f"weights: {last_weights(trained)}" in reported
    images, _ = idx.load_split(MNIST, "train", 7)
    assert numpy.allclose(few, in_python(last_weights(trained), images, name="mlp", hidden=[32]), rtol=1e-5, atol=1e-6)


def test_other_data_after_a_split(job):
    """Words and means come from the rows that were trained on, and all rows of the other file are predicted."""
    random = numpy.random.default_rng(0)
    rows = [f"{random.normal():.3f},{random.choice(['a', 'b', 'c'])},{'yes' if random.random() < 0.5 else 'no'}" for _ in range(60)]
    parts = torch.utils.data.random_split(range(60), [0.75, 0.25], torch.Generator().manual_seed(0))
    held_out = sorted(parts[1])
    rows[held_out[3]] = "0.5,only here,no"  # a word that training does not know
    write = lambda name, lines: (job.directory / name).write_text("\n".join(["size,kind,label", *lines]) + "\n")  # noqa: E731
    write("all.csv", rows)
    write("others.csv", [rows[i] for i in held_out])
    table = {"name": "csv", "label": "label", "standardize": True}
    job.config["data"] = {"train": {**table, "path": str(job.directory / "all.csv")}, "split": {"eval": 0.25}, "batch_size": 5}
    job.config["model"] = {"name": "mlp", "input": "features", "inputs": 4, "classes": 2, "hidden": [8]}
    job.write()
    run_dir = job.train()
    expected, _ = predicted(job, resume=run_dir.name)
    other = json.dumps({**table, "path": str(job.directory / "others.csv")})
    found, _ = predicted(job, f"data.eval={other}", resume=run_dir.name, ranks=2)
    assert found.shape == (15, 2) and found.tobytes() == expected.tobytes()


def test_predictions_for_tokens(job, tmp_path):
    """The logits of every token of every sample are written."""
    numpy.random.default_rng(0).integers(0, 61, 40 * 8 + 1).astype(numpy.uint16).tofile(tmp_path / "text.bin")
    text = {"name": "tokens", "path": str(tmp_path / "text.bin"), "length": 8}
    job.config["data"] = {"train": text, "eval": text, "batch_size": 8, "eval_batch_size": 9}
    job.config["model"] = {"name": "gpt", "vocab_size": 61, "context": 8, "layers": 1, "heads": 2, "width": 16}
    job.write()
    run_dir = job.train("train.max_steps=2")
    alone, _ = predicted(job, resume=run_dir.name)
    assert alone.shape == (40, 8, 61)
    tokens = torch.from_numpy(numpy.fromfile(tmp_path / "text.bin", numpy.uint16)[:320].astype(numpy.int64)).view(40, 8)
    sizes = {key: value for key, value in job.config["model"].items()}
    module = models.build(sizes.pop("name"), 0, **sizes).eval()
    module.load_state_dict(load_weights(last_weights(run_dir)), strict=False)
    with torch.inference_mode():
        assert numpy.allclose(alone, module(tokens).numpy(), rtol=1e-4, atol=1e-5)


def refuse_prediction(job, code, texts, *overrides, ranks=None, **how):
    before = sorted(job.directory.rglob("*"))
    ended = predict(job, *overrides, ranks=ranks, **how)
    assert ended.code == code, ended.err
    for line in error_lines(ended, ranks):
        for text in texts:
            assert text in line
    assert sorted(job.directory.rglob("*")) == before


def test_no_weights(job):
    refuse_prediction(job, 78, ["--predict needs weights: --resume RUN_ID", "train.init_from"])
    for ranks in (None, 2):
        refuse_prediction(job, 78, ["--resume nowhere: there is no such run in ", "`lockstep runs list`"], resume="nowhere", ranks=ranks)
    refuse_prediction(job, 78, ["train.init_from: ", "nowhere.safetensors"], "train.init_from=nowhere.safetensors")


def test_weights_of_another_model(job, trained):
    refuse_prediction(job, 78, [f"{trained}/checkpoints/", ": 'layers.0.weight' is [32,784] in the checkpoint and [16,784] in the model"],
                      "model.hidden=[16]", resume=trained.name)


def test_no_evaluation_data(job, trained):
    del job.config["data"]["eval"], job.config["data"]["eval_batch_size"]
    job.write()
    refuse_prediction(job, 78, ["set data.eval or data.split.eval"], resume=trained.name)


def test_unwritable_output(job, trained, disk):  # noqa: F811
    refuse_prediction(job, 75, ["cannot create", "nowhere/out", "No such file"], resume=trained.name, out="nowhere/out", ranks=2)
    refuse_prediction(job, 78, [str(job.runs), "is a directory"], resume=trained.name, out="runs")
    os.mkfifo(job.directory / "pipe")
    refuse_prediction(job, 78, ["/pipe: it is a device or pipe, not a file"], resume=trained.name, out="pipe")
    disk.mount("size=8k")
    (disk.path / "older").write_bytes(b"an older one")
    refuse_prediction(job, 75, ["cannot reserve", str(disk.path / "older"), "No space left"],
                      resume=trained.name, out=disk.path / "older")
    assert [path.read_bytes() for path in disk.path.iterdir()] == [b"an older one"]


def test_unreadable_sample(job, trained):
    """Either every sample has a prediction, or no file is written."""
    numpy.savez(job.directory / "data.npz", image=numpy.zeros((9, 1, 27, 28), numpy.float32))
    data = f"data.eval={{name: npy, path: {job.directory}/data.npz}}"
    refuse_prediction(job, 78, ["784"], data, resume=trained.name)


def test_options(job):
    ended = processes.run([TRAINER, "--predict"], job.directory)
    assert (ended.code, ended.err) == (78, "lockstep-trainer: error: --predict needs a file\n")
    ended = processes.run([TRAINER, "--predict", "out"], job.directory)
    assert ended.code == 78 and "no run file given" in ended.err
    ended = processes.run([LOCKSTEP, "launch", "--help"], job.directory, dict(os.environ))
    assert "--predict FILE" in ended.out
