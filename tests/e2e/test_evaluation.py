"""Evaluation counts every sample exactly once, so its result does not depend on the ranks."""

import io
import json
import tarfile

import numpy
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch
from PIL import Image
from safetensors.numpy import load_file
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

import processes
import test_hugging_face
from conftest import MNIST
from processes import LOCKSTEP, TRAINER
from refusals import error_lines, refuse
from safetensors_file import last_weights

# 301 samples in batches of 50: seven batches, not divisible by 2 or 3 ranks.
EVALUATION = ["data.eval.limit=301", "data.eval_batch_size=50"]
# One step too small to change any bit: the weights are the initial ones on any number of ranks.
SAME_WEIGHTS = ["train.max_steps=1", "optimizer={name: sgd, lr: 1e-30}"]


def evaluations(job, run_dir):
    """The last value of each evaluation metric, as text: compared digit by digit."""
    entry = next(entry for entry in job.list() if entry["id"] == run_dir.name)
    return {name: repr(v) for name, v in entry["summary"].items() if name.startswith("eval/")}


def evaluate(job, *overrides, world_size):
    run_dir = job.train(*SAME_WEIGHTS, *overrides, ranks=world_size)
    return evaluations(job, run_dir)


@pytest.mark.parametrize(
    "overrides",
    [
        EVALUATION,
        ["data.eval.limit=300", "data.eval_batch_size=50"],
        ["data.eval.limit=7", "data.eval_batch_size=3"],
        ["data.eval.limit=301", "data.eval_batch_size=50", "model={name: cnn, hidden: 16}"],
    ],
    ids=["7 batches", "6 batches", "3 small batches", "cnn"],
)
def test_same_results_on_1_2_and_3_ranks(job, overrides):
    alone = evaluate(job, *overrides, world_size=1)
    assert set(alone) == {"eval/loss", "eval/accuracy"}
    assert evaluate(job, *overrides, world_size=2) == alone
    assert evaluate(job, *overrides, world_size=3) == alone


@pytest.mark.parametrize("limit", [1, 50])
def test_more_ranks_than_evaluation_batches(job, limit):
    overrides = [f"data.eval.limit={limit}", "data.eval_batch_size=50"]
    alone = evaluate(job, *overrides, world_size=1)
    assert evaluate(job, *overrides, world_size=3) == alone


@pytest.mark.parametrize("kind, changed", [("mixture", "train"), ("mixture", "eval"), ("parquet", "train"), ("parquet", "eval")])
def test_classes_and_means_are_those_of_the_training_data(job, kind, changed):
    """Also if one of both sets is of another kind."""
    (job.directory / "train.csv").write_text("x,kind\n" + "".join(f"{i % 3},{'abc'[i % 3]}\n" for i in range(60)))
    (job.directory / "eval.csv").write_text("x,kind\n" + "".join(f"{i % 2 + 1},{'bc'[i % 2]}\n" for i in range(20)))
    tables = {name: {"name": "csv", "path": str(job.directory / f"{name}.csv"), "label": "kind"} for name in ("train", "eval")}
    job.config["model"] = {"name": "mlp", "input": "features", "inputs": 1, "hidden": [4], "classes": 3}
    job.config["data"] = {**tables, "batch_size": 20, "shuffle": False}
    job.write()
    expected = job.series(job.train().name, "eval/loss")
    file = tables[changed]["path"]
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(file), file + ".parquet")
    other = {"mixture": {"parts": [{"data": tables[changed]}]}, "parquet": {"path": file + ".parquet", "label": "kind"}}
    job.config["data"][changed] = {"name": kind, **other[kind]}
    job.write()
    assert job.series(job.train().name, "eval/loss") == expected


def test_classes_of_images_are_numbered_as_in_the_training_data(job):
    """Also of a folder next to an archive; another order is refused."""
    folder, archive = job.directory / "folder", job.directory / "images.tar"
    with tarfile.open(archive, "w") as tar:
        for number in range(20):
            name = "ab"[number % 2]
            (folder / name).mkdir(parents=True, exist_ok=True)
            file = folder / name / f"{number:02}.png"
            Image.new("RGB", (4, 4), (number * 9, 255 * (number % 2), 0)).save(file)
            tar.add(file, f"{number:02}.png")
            label = tarfile.TarInfo(f"{number:02}.cls")
            label.size = 1
            tar.addfile(label, io.BytesIO(name.encode()))
    images = {"transforms": [{"name": "resize", "size": [4, 4]}]}
    train = {"name": "webdataset", "path": str(archive), "classes": ["b", "a"], **images}
    job.config["model"] = {"name": "mlp", "inputs": 48, "hidden": [4], "classes": 2}
    job.config["data"] = {"train": train, "eval": train, "batch_size": 20, "shuffle": False}
    job.write()
    ((_, expected),) = job.series(job.train("train.epochs=1").name, "eval/loss")
    job.config["data"]["eval"] = {"name": "image_folder", "path": str(folder), **images}
    job.write()
    assert job.series(job.train("train.epochs=1").name, "eval/loss") == [(1, pytest.approx(expected))]
    job.config["data"]["eval"] = {**train, "classes": ["a", "b"]}
    job.write()
    ended = job.run()
    assert ended.code == 78
    assert "class 0 is 'b' in data.train, but 'a' in data.eval: name the same classes in the same order" in ended.err


def test_run_without_evaluation_prints_no_results(job):
    del job.config["data"]["eval"], job.config["data"]["eval_batch_size"]
    job.write()
    ended = job.run("train.max_steps=1")
    assert ended.code == 0, ended.err
    assert f"done\nrun: {job.only_run()}\n" in ended.out
    assert "done:" not in ended.out


def test_accuracy_is_a_count_over_all_samples(job):
    """With 301 samples it is k / 301 for a whole k: no sample was padded or dropped."""
    metrics = evaluate(job, *EVALUATION, world_size=3)
    correct = float(metrics["eval/accuracy"]) * 301
    assert abs(correct - round(correct)) < 1e-9


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_equal_to_python(job, peers, world_size):
    run_dir = job.train(*EVALUATION, "data.train.limit=301", ranks=world_size)
    ours = {name: float(value) for name, value in evaluations(job, run_dir).items()}
    arguments = "--seed 7 --limit 301 --batch-size 48 --momentum 0.9 --eval-limit 301"
    model = ["--config", '{"hidden": [32]}']
    theirs = peers.train(world_size, job.directory / "peer.safetensors", *arguments.split(), *model)
    assert theirs["num_samples"] == 301
    assert ours["eval/loss"] == pytest.approx(theirs["loss"], rel=1e-6)
    assert ours["eval/accuracy"] == theirs["accuracy"]


def test_each_epoch_is_evaluated_and_recorded(job):
    run_dir = job.train("train.epochs=3", "train.eval_every=1 epoch", *EVALUATION, ranks=2)
    steps = [step for step, _ in job.series(run_dir.name, "eval/loss")]
    assert steps == [21, 42, 63]


def test_without_an_evaluation_set(job):
    del job.config["data"]["eval"], job.config["data"]["eval_batch_size"]
    job.write()
    run_dir = job.train("train.max_steps=2", ranks=2)
    assert evaluations(job, run_dir) == {}


def media_of(job, world_size):
    """{name: [record, ...]} of the media of one evaluation, without times, and {name: value}; with the run."""
    media = "tracking.media={confusion: true, histograms: true, worst_samples: 4}"
    run_dir = job.train(*SAME_WEIGHTS, *EVALUATION, media, "tracking.sinks=[jsonl]", ranks=world_size)
    shown, values = {}, {}
    (records,) = run_dir.glob("sinks/jsonl/*/records.jsonl")
    for line in records.read_text().splitlines():
        record = json.loads(line)
        if record["type"] in ("table", "image", "histogram"):
            record.pop("time")
            shown.setdefault((record["type"], record["name"]), []).append(record)
        elif record["type"] == "scalars":
            values.update({name: value for name, value in record["values"].items() if name.startswith("eval/")})
    return shown, values, run_dir


def predictions_of(job, run_dir):
    """Logits and labels of the samples that it was evaluated on."""
    file = job.directory / "predictions.safetensors"
    ended = job.run(*EVALUATION, options=["--predict", file, "--resume", run_dir.name])
    assert ended.code == 0, ended.err
    labels = (MNIST / "t10k-labels-idx1-ubyte").read_bytes()[8 : 8 + 301]
    logits = torch.from_numpy(load_file(file)["predictions"])
    return logits, torch.tensor(list(labels))


def test_confusion_and_worst_samples_match_scikit_learn(job):
    shown, values, run_dir = media_of(job, 1)
    logits, label = predictions_of(job, run_dir)
    predicted = logits.argmax(1)

    (confusion,) = shown["table", "eval/confusion"]
    expected = confusion_matrix(label, predicted, labels=range(10))
    pairs = {(str(a), str(p)): expected[a][p] for a in range(10) for p in range(10) if expected[a][p]}
    assert {(a, p): n for a, p, n in confusion["rows"]} == pairs
    (classes,) = shown["table", "eval/classes"]
    *scores, support = precision_recall_fscore_support(label, predicted, zero_division=0)
    assert [row[1] for row in classes["rows"]] == list(support)
    for column, (name, score) in enumerate(zip(["precision", "recall", "f1"], scores), 2):
        assert [row[column] for row in classes["rows"]] == pytest.approx(score)
        assert values[f"eval/{name}"] == pytest.approx(score.mean())

    (worst,) = shown["table", "eval/worst"]
    losses = torch.nn.functional.cross_entropy(logits, label, reduction="none")
    assert [row[0] for row in worst["rows"]] == losses.topk(4).indices.tolist()
    assert [row[3] for row in worst["rows"]] == pytest.approx(losses.topk(4).values.tolist())
    assert [(image["width"], image["height"]) for image in shown["image", "eval/worst"]] == [(28, 28)] * 4
    assert worst["rows"][0][1] in shown["image", "eval/worst"][0]["caption"]

    (weights,) = shown["histogram", "parameters/layers.0.weight"]
    assert sum(weights["counts"]) == 784 * 32
    assert sum(shown["histogram", "gradients/layers.0.weight"][0]["counts"]) == 784 * 32


@pytest.mark.parametrize("kind", ["int32", "bool"])
def test_small_integer_labels_are_counted(job, kind):
    """The loss accepts such labels, so the confusion matrix must too."""
    labels = numpy.arange(301) % 2
    inputs = numpy.random.default_rng(0).standard_normal((301, 4), numpy.float32)
    numpy.savez(job.directory / "data.npz", image=inputs, label=labels.astype(kind))
    job.config["data"]["train"] = job.config["data"]["eval"] = {"name": "npy", "path": str(job.directory / "data.npz")}
    job.config["model"] = {"name": "mlp", "inputs": 4, "hidden": [4], "classes": 2}
    job.write()
    shown, _, _ = media_of(job, 1)
    (confusion,) = shown["table", "eval/confusion"]
    assert sum(n for _, _, n in confusion["rows"]) == 301
    assert len(shown["table", "eval/worst"][0]["rows"]) == 4


@pytest.mark.parametrize(
    "overrides, text",
    [
        (["tracking.media.confusion=true", "model.loss=mse", "model.outputs=1"], "tracking.media.confusion needs a classifier"),
        (["tracking.media.confusion=true", "model.classes=1001"], "tracking.media.confusion is for up to 1000 classes; the model has 1001"),
    ],
    ids=["values", "too many classes"],
)
def test_media_that_cannot_be_shown_are_refused(job, overrides, text):
    inputs = numpy.random.default_rng(0).standard_normal((301, 4), numpy.float32)
    label = numpy.ones(301, numpy.float32 if "model.loss=mse" in overrides else numpy.int64)
    numpy.savez(job.directory / "data.npz", image=inputs, label=label)
    job.config["data"]["train"] = job.config["data"]["eval"] = {"name": "npy", "path": str(job.directory / "data.npz")}
    job.config["model"] = {"name": "mlp", "inputs": 4, "hidden": [4]}
    job.write()
    refuse(job, overrides, [text], None)


def test_evaluation_media_are_the_same_on_3_ranks(job):
    alone, alone_values, _ = media_of(job, 1)
    shown, values, _ = media_of(job, 3)
    assert set(shown) == set(alone)
    for name in alone:
        if name[0] != "histogram":  # gradients of different batches differ
            assert shown[name] == alone[name]
    assert values == alone_values


def evaluated(job, *overrides, ranks=None, options=()):
    """The lines that --evaluate prints on rank 0, and its JSON. It creates no run."""
    before = sorted(job.runs.glob("*"))
    out = job.directory / "metrics.json"
    out.unlink(missing_ok=True)
    command = [TRAINER, "--evaluate", *options, job.file, *overrides, "--out", out]
    if ranks:
        command = [LOCKSTEP, "launch", "-n", ranks, "--evaluate", *options, job.file, *overrides, "--", "--out", out]
    ended = processes.run(command, job.directory)
    assert (ended.code, ended.err) == (0, ""), ended.err
    assert sorted(job.runs.glob("*")) == before
    return [line.removeprefix("[rank 0] ") for line in ended.out.splitlines()], json.loads(out.read_text())


def test_weights_are_evaluated_without_training(job):
    """What the run has recorded, to the bit, on any number of ranks; also of averaged weights, and of other data."""
    metrics = ["train.eval_metrics=[f1, roc_auc_per_class]", "train.ema={decay: 0.5}"]
    run_dir = job.train(*EVALUATION, *metrics, "train.max_steps=3", ranks=2)
    recorded = {name.removeprefix("eval/"): value for name, value in evaluations(job, run_dir).items()}
    assert {"loss", "accuracy", "f1", "roc_auc/7"} <= set(recorded)
    for ranks in (None, 3):
        shown, found = evaluated(job, *EVALUATION, *metrics, ranks=ranks, options=["--resume", run_dir.name])
        assert {name: repr(value) for name, value in found["metrics"].items()} == recorded
        assert found["samples"] == 301 and found["weights"] == f"averaged, {run_dir} after step 3"
        table = dict(line.split() for line in shown[: len(recorded)])
        assert {name: float(value) for name, value in table.items()} == pytest.approx(found["metrics"], rel=1e-5)
        assert shown[len(recorded) :] == ["samples: 301", f"weights: {found['weights']}"]
    plain = [*EVALUATION[1:], "data.eval.limit=40", f"train.init_from={last_weights(run_dir)}"]
    others = evaluated(job, *plain)[1]
    assert others != found and others["samples"] == 40 and others["warnings"] == []
    ended = processes.run([TRAINER, "--evaluate", job.file, *plain, "--out", "/proc/metrics.json"], job.directory)
    assert ended.code == 75 and "/proc/metrics.json" in error_lines(ended, None)[0]
    assert "samples: 40\n" in ended.out, "the result is not lost with the file"


def test_a_base_model_has_the_metrics_of_transformers(job):
    model = test_hugging_face.make("llama 3", job.directory / "hf")
    inputs, targets = test_hugging_face.configure(job, job.directory / "hf")
    with torch.no_grad():
        logits = model(inputs).logits.flatten(0, 1)
    loss = torch.nn.functional.cross_entropy(logits, targets.flatten()).item()
    expected = {"loss": loss, "perplexity": numpy.exp(loss), "accuracy": (logits.argmax(1) == targets.flatten()).float().mean().item()}
    found = [evaluated(job, "train.eval_metrics=[perplexity, accuracy]", ranks=ranks)[1] for ranks in (None, 2)]
    assert found[0]["metrics"] == pytest.approx(expected, rel=1e-5)
    assert found[0] == found[1]
    assert found[0]["weights"] == str(job.directory / "hf" / "model.safetensors")


@pytest.mark.parametrize("arguments, text", [
    (["--resume", "none-20260101-000000-aaaa"], "--resume none-20260101-000000-aaaa: there is no such run in "),
    ([], "--evaluate needs weights: --resume RUN_ID uses the last checkpoint of a run, train.init_from a file"),
    (["--out", "none/metrics.json"], "--out: the directory none does not exist"),
    (["--seed", "3"], "--seed has no effect without --generate FILE or --prompt TEXT"),
    (["--prompt", "x"], "--prompt cannot be combined with --evaluate"),
    (["--predict", "x"], "--predict cannot be combined with --evaluate"),
    (["--dry-run"], "--dry-run cannot be combined with --evaluate"),
])
def test_evaluations_that_are_refused(job, arguments, text):
    ended = processes.run([TRAINER, "--evaluate", job.file, *arguments], job.directory)
    assert ended.code == 78 and text in error_lines(ended, None)[0], ended.err
    assert not job.runs.exists()


def test_an_evaluation_needs_data(job):
    del job.config["data"]["eval"], job.config["data"]["eval_batch_size"]
    job.write()
    ended = processes.run([LOCKSTEP, "launch", "--evaluate", job.file], job.directory)
    assert ended.code == 78 and "--evaluate needs evaluation data: set data.eval or data.split.eval in the run file" in ended.err
    ended = processes.run([LOCKSTEP, "launch", "--evaluate", "--predict", "x", job.file], job.directory)
    assert ended.code == 78 and "--predict, --evaluate and --generate exclude each other" in ended.err
