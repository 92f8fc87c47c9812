"""`lockstep ckpt`: lists, verifies and compares the checkpoints of a run."""

import json

import pytest

import processes
from processes import LOCKSTEP


def ckpt(job, *words, code=0):
    ended = processes.run([LOCKSTEP, "ckpt", *words, "--dir", job.runs], job.directory)
    assert ended.code == code, ended.out + ended.err
    return ended


@pytest.fixture
def trained(job):
    return job.train("train.epochs=2", "checkpoint.every=10 steps", "checkpoint.keep_last=9", ranks=2)


def test_list(job, trained):
    steps = json.loads(ckpt(job, "list", trained.name, "--json").out)
    assert [line["step"] for line in steps] == [10, 20, 30, 40, 42]
    last = steps[-1]
    assert last["problem"] is None and last["epoch"] == 2 and last["ranks"] == 2 and not last["averaged_weights"]
    assert last["bytes"] == sum(path.stat().st_size for path in (trained / "checkpoints" / "42").iterdir())
    assert last["evaluation"].keys() == {"loss", "accuracy"}
    lines = ckpt(job, "list", trained).out.splitlines()  # a directory, in human-readable form
    assert lines[-1].split()[:5] == ["42", "epoch", "2,", "2", "ranks,"] and "eval/accuracy" in lines[-1]


def test_corrupt_checkpoint(job, trained):
    assert all("ok, " in line for line in ckpt(job, "verify", trained.name).out.splitlines())
    weights = trained / "checkpoints" / "30" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-5] ^= 1
    weights.write_bytes(content)
    lines = ckpt(job, "verify", trained.name, code=75).out.splitlines()
    assert ["CORRUPT" in line for line in lines] == [False, False, True, False, False]
    assert "model.safetensors" in lines[2] and "layers" in lines[2], "file and tensor are named"
    assert ckpt(job, "verify", f"{trained.name}:40").out.count("\n") == 1
    ckpt(job, "verify", f"{trained.name}:30", code=75)
    manifest = trained / "checkpoints" / "20" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"epoch": 0', '"epoch": 1'))
    lines = json.loads(ckpt(job, "list", trained.name, "--json", code=75).out)
    assert [line["problem"] is None for line in lines] == [True, False, True, True, True]
    assert [line["is_corrupt"] for line in lines] == [False, True, False, False, False]
    ended = ckpt(job, "diff", f"{trained.name}:30", trained.name, code=75)
    assert len(ended.err.splitlines()) == 1 and "model.safetensors" in ended.err


def test_diff(job, trained):
    again = job.train("train.epochs=2", ranks=2)
    same = ckpt(job, "diff", trained.name, again.name).out.splitlines()
    assert [line.split()[0] for line in same] == ["model", "optimizer"]
    assert all(" 4 tensors are bit-identical, 0 differ" in line for line in same), same
    parts = json.loads(ckpt(job, "diff", f"{trained.name}:40", again.name, "--json", code=1).out)
    assert parts["model"]["different"] == 4 and parts["model"]["same"] == 0
    assert parts["model"]["largest"]["difference"] > 0 and parts["model"]["largest"]["tensor"].startswith("layers.")
    other = job.train("train.epochs=1", "model.hidden=[32, 8]", "optimizer={name: sgd, lr: 0.1}")
    text = ckpt(job, "diff", trained.name, other.name, code=1).out
    assert "are in only one of them" in text


def test_a_difference_that_is_nan_is_the_largest(job):
    settings = ["train.max_steps=4", "train.non_finite=ignore"]
    run, other = job.train(*settings), job.train(*settings, "optimizer.lr=1e38")
    parts = json.loads(ckpt(job, "diff", run.name, other.name, "--json", code=1).out)
    assert parts["model"]["largest"] == {"tensor": "layers.0.weight", "difference": None}
    assert "largest difference: layers.0.weight (nan)" in ckpt(job, "diff", run.name, other.name, code=1).out


@pytest.mark.parametrize("words, texts", [
    (["lits", "x"], ["unknown command 'lits'", "did you mean 'list'"]),
    (["list"], ["expected one run, got 0"]),
    (["diff", "x"], ["expected two runs, got 1"]),
    (["list", "nothing-like-it"], ["nothing-like-it"]),
    (["verify", "--sjon", "x"], ["unknown option '--sjon'", "'--json'"]),
    (["verify", "RUN:41"], ["has no checkpoint 41; there are 10 to 42"]),
    (["verify", "RUN:last"], ["expected RUN:STEP"]),
], ids=lambda value: " ".join(value))
def test_invalid_arguments(job, trained, words, texts):
    ended = ckpt(job, *[word.replace("RUN", trained.name) for word in words], code=78)
    assert len(ended.err.splitlines()) == 1 and all(text in ended.err for text in texts), ended.err


def test_help(job):
    assert "lockstep ckpt verify RUN" in processes.run([LOCKSTEP, "ckpt", "--help"], job.directory).out
