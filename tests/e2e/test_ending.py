"""Runs that end before their last step: by a signal, on request, or by early stopping."""

import os
import signal

import pytest

import processes
from processes import LOCKSTEP, TIMEOUT_S, ranks_of, wait_until
from safetensors_file import checkpoints
from test_resume import assert_same_checkpoint, assert_steps_once, only, resume, whole  # noqa: F401

LONG = ["train.epochs=100000", "train.log_every=1 step", "checkpoint.every=1000 epochs",
        "train.eval_every=1000 epochs"]
GRACE_S = 30  # --stop-grace


def steps_of(job):
    """Steps that the run here has logged so far."""
    if not list(job.runs.glob("*/run.json")):
        return []
    return job.series(job.list()[0]["id"], "train/loss")


def start_stepping(job, *overrides, ranks):
    started = job.start(*LONG, *overrides, ranks=ranks)
    wait_until(lambda: started.poll() is not None or steps_of(job), TIMEOUT_S, "the first step")
    assert started.poll() is None, started.communicate()
    return started


@pytest.mark.parametrize("ranks", [None, 2])
@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1"])
def test_preempted_with_a_checkpoint_of_the_last_step(job, whole, name, ranks):  # noqa: F811
    started = start_stepping(job, ranks=ranks)
    started.send_signal(getattr(signal, name))
    ended = processes.finish(started, GRACE_S)
    assert ended.code == 128 + getattr(signal, name), ended.err
    run = only(job.list())
    assert run["state"] == "preempted"
    run_dir = only(job.runs.iterdir())
    step = checkpoints(run_dir)[-1]
    assert f"preempted by {name} after step {step}" in ended.out
    assert job.series(run_dir.name, "train/loss")[-1][0] == step
    # The resumed run is bit-identical to an uninterrupted one.
    last = f"train.max_steps={step + 15}"
    never_stopped = whole.train(*LONG, last, ranks=ranks)
    resume(job, run_dir, *LONG, last, ranks=ranks)
    assert_same_checkpoint(run_dir, never_stopped)
    assert_steps_once(job, run_dir.name, list(range(1, step + 16)))


def test_max_steps_without_epochs_takes_as_many_epochs_as_it_needs(job):
    del job.config["train"]["epochs"]
    job.config["data"]["train"]["limit"] = 96
    job.config["train"]["max_steps"] = 5  # 2 in an epoch
    job.write()
    run = job.train()
    assert checkpoints(run)[-1] == 5
    assert only(job.list())["planned"] == {"steps": 5, "epochs": None}


def test_signal_to_one_rank_stops_all_at_the_same_step(job):
    started = start_stepping(job, "tracking.ranks=all", ranks=2)
    os.kill(ranks_of(job.directory)[1], signal.SIGUSR1)
    ended = processes.finish(started)
    assert ended.code == 128 + signal.SIGUSR1, ended.err
    assert "error" not in ended.err
    run_dir = only(job.runs.iterdir())
    step = checkpoints(run_dir)[-1]
    for run in job.list():
        assert run["state"] == "preempted"
    losses = [row["step"] for row in job.export(run_dir.name) if row["metric"] == "rank/loss"]
    assert losses.count(step) == 2 and max(losses) == step


def test_simultaneous_signals_count_once(job):
    """A scheduler signals launcher and ranks together."""
    started = start_stepping(job, ranks=2)
    for pid in [*ranks_of(job.directory).values(), started.pid, started.pid]:
        os.kill(pid, signal.SIGTERM)
    ended = processes.finish(started)
    assert ended.code == 143, ended.err
    assert only(job.list())["state"] == "preempted"


@pytest.mark.parametrize("ranks", [None, 2])
def test_stopped_on_request(job, ranks):
    started = start_stepping(job, ranks=ranks)
    running = only(job.list())
    run_id = running["id"]
    planned = {"steps": 21 * 100_000, "epochs": 100_000}
    assert (running["state"], running["planned"]) == ("running", planned)
    for pid in [started.pid, *ranks_of(job.directory).values()]:
        os.kill(pid, signal.SIGPIPE)  # as after a broken connection; must be ignored
    stopped = processes.run([LOCKSTEP, "runs", "stop", run_id, "--dir", job.runs, "--reason", "enough"],
                            job.directory)
    assert stopped.code == 0, stopped.err
    ended = processes.finish(started)
    assert ended.code == 0, ended.err
    assert "stopped on request after step" in ended.out and "enough" in ended.out
    run = only(job.list())
    assert run["state"] == "finished"
    run_dir = only(job.runs.iterdir())
    step = checkpoints(run_dir)[-1]
    assert f"{step} of {planned['steps']}\n" in job.query("show", run_id)
    resume(job, run_dir, *LONG, f"train.max_steps={step + 3}", ranks=ranks)
    assert checkpoints(run_dir)[-1] == step + 3
    assert only(job.list())["planned"] == {**planned, "steps": step + 3}
    again = processes.run([LOCKSTEP, "runs", "stop", run_id, "--dir", job.runs], job.directory)
    assert again.code == 78
    assert "is not running: it is finished" in again.err


def test_signal_during_long_evaluation(job):
    """The evaluation is canceled: some take longer than a grace period of 30 s."""
    evaluation = ["train.eval_every=1 step", "data.eval_batch_size=1", "data.eval.split=train",
                  "data.eval.limit=60000", "train.epochs=3", "train.log_every=1 step"]
    started = job.start(*evaluation, ranks=2)
    wait_until(lambda: steps_of(job), TIMEOUT_S, "the first step")
    started.send_signal(signal.SIGTERM)
    ended = processes.finish(started)
    assert ended.code == 143, ended.err
    assert checkpoints(only(job.runs.iterdir()))[-1] <= 2


@pytest.mark.parametrize("ranks", [None, 2])
def test_early_stop(job, ranks):
    """With a learning rate of nearly 0, nothing improves."""
    ended = job.run("train.epochs=50", "optimizer.lr=1e-30", "train.early_stop.patience=3", ranks=ranks)
    assert ended.code == 0, ended.err
    assert "eval/loss has not improved for 3 evaluations" in ended.out
    run_dir = only(job.runs.iterdir())
    assert checkpoints(run_dir)[-1] == 4 * 21
    assert len(job.series(run_dir.name, "eval/loss")) == 4
    assert only(job.list())["state"] == "finished"


def test_early_stop_counter_survives_resume(job):
    settings = ["train.epochs=50", "optimizer.lr=1e-30", "train.early_stop.patience=3"]
    run_dir = job.train(*settings, "train.max_steps=42")
    resume(job, run_dir, *settings)
    assert checkpoints(run_dir)[-1] == 4 * 21
    assert len(job.series(run_dir.name, "eval/loss")) == 4
    # A run that stopped early is finished, unless patience is increased.
    ended = resume(job, run_dir, *settings)
    assert "eval/loss has not improved for 3 evaluations" in ended.out
    assert checkpoints(run_dir)[-1] == 4 * 21
    resume(job, run_dir, *settings, "train.early_stop.patience=4")
    assert checkpoints(run_dir)[-1] == 5 * 21
    assert len(job.series(run_dir.name, "eval/loss")) == 5
    # Another metric is watched: the counter restarts.
    resume(job, run_dir, *settings, "train.early_stop={patience: 2, metric: accuracy, mode: max}")
    assert checkpoints(run_dir)[-1] == 8 * 21


def test_canceled_evaluation_runs_after_resume(job):
    evaluation = ["train.eval_every=1 step", "train.log_every=1 step", "train.epochs=100000"]
    started = job.start(*evaluation, ranks=2)
    wait_until(lambda: steps_of(job), TIMEOUT_S, "the first step")
    started.send_signal(signal.SIGTERM)
    assert processes.finish(started).code == 143
    run_dir = only(job.runs.iterdir())
    last = checkpoints(run_dir)[-1] + 2
    resume(job, run_dir, *evaluation, f"train.max_steps={last}", ranks=2)
    assert [step for step, _ in job.series(run_dir.name, "eval/loss")] == list(range(1, last + 1))


def test_evaluation_after_resume_is_recorded_once_despite_kills(job):
    evaluation = ["train.eval_every=1 step", "train.log_every=1 step", "train.epochs=100000", "checkpoint.every=100000 epochs"]
    started = job.start(*evaluation, ranks=2)
    wait_until(lambda: steps_of(job), TIMEOUT_S, "the first step")
    started.send_signal(signal.SIGTERM)
    assert processes.finish(started).code == 143
    run_dir = only(job.runs.iterdir())
    stopped_at = checkpoints(run_dir)[-1]
    assert stopped_at not in dict(job.series(run_dir.name, "eval/loss"))
    for _ in range(2):
        started = job.start(*evaluation, options=["--resume", run_dir.name])
        wait_until(lambda: stopped_at + 1 in dict(job.series(run_dir.name, "eval/loss")), TIMEOUT_S, "the step after the resume")
        started.kill()
        processes.finish(started)
    resume(job, run_dir, *evaluation, f"train.max_steps={stopped_at + 2}", ranks=2)
    assert [step for step, _ in job.series(run_dir.name, "eval/loss")] == list(range(1, stopped_at + 3))


@pytest.mark.parametrize("override, text", [
    ("train.early_stop={patience: 2, metric: accurcy}", "did you mean 'accuracy'"),
    ("train.early_stop={patience: 0}", "train.early_stop.patience"),
    ("train.early_stop={patience: 2, mode: least}", "valid: min, max"),
])
def test_early_stop_bad_input(job, override, text):
    ended = job.run(override)
    assert ended.code == 78
    assert text in ended.err, ended.err


def test_step_times_of_all_ranks(job):
    run_dir = job.train("train.log_every=7 steps", ranks=2)
    rows = job.export(run_dir.name)
    names = {row["metric"] for row in rows}
    for part in ["step", "data_wait", "forward", "backward", "communication", "optimizer"]:
        assert {f"time/{part}/{which}" for which in ["min", "median", "max"]} <= names
    last = {row["metric"]: row["value"] for row in rows}
    assert 0 < last["time/step/min"] <= last["time/step/median"] <= last["time/step/max"]
    assert last["time/slowest_rank"] in (0, 1)
    parts = sum(last[f"time/{p}/min"] for p in ["data_wait", "forward", "backward", "optimizer"])
    assert parts <= last["time/step/max"]
