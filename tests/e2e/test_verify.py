"""`lockstep verify` recomputes a stretch of a run and finds the first step whose bits differ."""

import shutil

import pytest

import processes
from processes import LOCKSTEP, TRAINER


def verify(job, *words, program=LOCKSTEP):
    ended = processes.run([program, "verify", *words, "--dir", job.runs], job.directory)
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
    assert ".verify-" not in ended.out, "a directory that was removed"
    ended = verify(job, trained.name, "--steps", "0:20", "-n", "1")  # not to the end, from the initial weights
    assert ended.code == 0, ended.err
    assert "step 10:" in ended.out and "step 20:" in ended.out and "step 30:" not in ended.out


def test_the_reason_of_an_early_end_is_shown(job, trained):
    stops = ["train.eval_every=2 steps", "train.early_stop={patience: 1}", "optimizer.lr=1e-30"]
    ended = verify(job, trained.name, "--steps", "0:20", *stops)
    assert ended.code == 78 and "the training ended before step 20" in ended.err
    assert "stopped early after step 4 of 40, with a checkpoint: " in ended.out
    assert ".verify-" not in ended.out, "a directory that was removed"


def test_the_first_different_step_is_found(job, trained):
    ended = verify(job, trained.name, "--steps", "10:30", "optimizer.lr=0.2")
    assert ended.code == 1, ended.err
    assert "first: layers." in ended.out
    assert ended.out.endswith("verify: different at step 20; the checkpoints before it are bit-identical\n")


def test_a_comparison_that_is_killed_has_no_result(job):
    run = job.train("train.max_steps=2", "checkpoint.every=1 steps", "checkpoint.keep_last=9")
    programs = job.directory / "bin"
    programs.mkdir()
    shutil.copy(LOCKSTEP, programs)
    trainer = programs / "lockstep-trainer"
    trainer.write_text(f'#!/bin/sh\n[ "$1" = --checkpoints ] && kill -KILL $$\nexec \'{TRAINER}\' "$@"\n')
    trainer.chmod(0o755)
    ended = verify(job, run.name, program=programs / "lockstep")
    assert ended.code == 75, ended.err
    assert ended.err.endswith("the checkpoints cannot be compared, see above\n")
    assert "identical" not in ended.out


def test_checkpoints_at_irregular_steps(job):
    """As of a run that is preempted, or that saves by time."""
    settings = ["train.epochs=2", "checkpoint.every=10 steps", "checkpoint.keep_last=9"]
    run = job.train(*settings, "train.max_steps=25")
    assert job.run(*settings, "train.max_steps=40", options=["--resume", run.name]).code == 0
    ended = verify(job, run.name, "--steps", "20:25")
    assert ended.code == 0, ended.err
    assert "step 25:" in ended.out
    ended = verify(job, run.name, "--steps", "10:30")
    assert ended.code == 0, ended.err
    assert all(f"step {step}:" in ended.out for step in (20, 25, 30))
    assert ended.out.endswith("verify: bit-identical\n")


def test_invalid_arguments(job, trained):
    for words, text in [
        ([trained.name, "--steps", "10:25"], "the run has no checkpoint of step 25; there are 10 to 40"),
        ([trained.name, "--steps", "10"], "--steps 10: expected A:B"),
        ([trained.name, "--steps", "20:10"], "the end must be after the begin"),
        (["nothing-like-it"], "nothing-like-it"),
        ([trained.name, "--stesp", "1:2"], "'--steps'"),
    ]:
        ended = verify(job, *words)
        assert ended.code == 78 and text in ended.err, ended.err
        assert len(ended.err.splitlines()) == 1
    ended = verify(job, trained.name, "data.train.path=/nowhere")
    assert ended.code == 78 and ended.err.splitlines()[-1].endswith("the training failed, see above")


def verify_setup(job, *words):
    ended = processes.run([LOCKSTEP, "verify-setup", *words], job.directory)
    assert not list(job.runs.glob(".verify-*"))
    return ended


def test_a_run_file_is_checked_before_a_long_run(job):
    ended = verify_setup(job, "-n", 2, "--steps", 3, job.file, "distributed.virtual_shards=4", "schedule.name=cosine")
    assert ended.code == 0, ended.err
    lines = [line for line in ended.out.splitlines() if line.startswith("verify-setup:")]
    assert lines == ["verify-setup: resumed at step 3: bit-identical", "verify-setup: 1 rank instead of 2: bit-identical"]
    ended = verify_setup(job, job.file, f"run.dir={job.directory / 'other'}", "tracking.sinks=[jsonl]")
    assert ended.code == 0, ended.err
    assert not list(job.directory.glob("other/*")), "the user's runs have no trial among them"
    assert "verify-setup: other numbers of ranks: not compared" in ended.out


def test_invalid_arguments_of_verify_setup(job):
    for words, text in [
        (["--steps", "0", job.file], "must be at least 1"),
        (["--steps", "50", job.file], "the training ended before step 100"),
        (["--stesp", "1", job.file], "'--steps'"),
        (["missing.yaml"], "the training failed, see above"),
    ]:
        ended = verify_setup(job, *words)
        assert ended.code == 78 and text in ended.err, ended.err
