"""`lockstep verify` recomputes a stretch of a run and finds the first step whose bits differ."""

import pytest

import processes
from processes import LOCKSTEP


def verify(job, *words):
    ended = processes.run([LOCKSTEP, "verify", *words, "--dir", job.runs], job.directory)
    assert not list(job.runs.glob(".verify-*"))
    return ended


@pytest.fixture
def trained(job):
    return job.train("train.max_steps=40", "train.epochs=2", "checkpoint.every=10 steps", "checkpoint.keep_last=9",
                     "distributed.virtual_shards=2", "schedule.name=cosine", ranks=2)


def test_a_stretch_is_recomputed(job, trained):
    ended = verify(job, trained.name)
    assert ended.code == 0, ended.err
    assert f"verify: {trained.name}, steps 30 to 40 on 2 ranks" in ended.out
    assert ended.out.endswith("verify: bit-identical\n")
    ended = verify(job, trained.name, "--steps", "0:20", "-n", "1")  # not to the end, from the initial weights
    assert ended.code == 0, ended.err
    assert "step 10:" in ended.out and "step 20:" in ended.out and "step 30:" not in ended.out


def test_the_first_different_step_is_found(job, trained):
    ended = verify(job, trained.name, "--steps", "10:30", "optimizer.lr=0.2")
    assert ended.code == 1, ended.err
    assert "first: layers." in ended.out
    assert ended.out.endswith("verify: different at step 20; the checkpoints before it are bit-identical\n")


@pytest.mark.parametrize("words, text", [
    (["RUN", "--steps", "10:25"], "the run has no checkpoint of step 25; there are 10 to 40"),
    (["RUN", "--steps", "10"], "--steps 10: expected A:B"),
    (["RUN", "--steps", "20:10"], "the end must be after the begin"),
    (["nothing-like-it"], "nothing-like-it"),
    (["RUN", "--stesp", "1:2"], "stesp"),
], ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_invalid_arguments(job, trained, words, text):
    ended = verify(job, *[word.replace("RUN", trained.name) for word in words])
    assert ended.code == 78 and text in ended.err, ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_run_that_cannot_be_recomputed(job, trained):
    ended = verify(job, trained.name, "data.train.path=/nowhere")
    assert ended.code == 78 and ended.err.splitlines()[-1].endswith("the run could not be recomputed, see above")
