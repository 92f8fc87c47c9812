"""A run that is stopped and resumed is bit-identical to an uninterrupted one."""

import json
import os
import signal
from pathlib import Path

import pytest

import processes
from conftest import long
from safetensors_file import assert_same_bits, checkpoints, floats, last_weights

OPTIMIZERS = {
    "sgd": "optimizer={name: sgd, lr: 0.1, momentum: 0.9}",
    "adamw": "optimizer={name: adamw, lr: 0.01}",
}
EVERY_EPOCH = ["checkpoint.every=1 epoch", "checkpoint.keep_last=10"]


def only(paths):
    paths = list(paths)
    assert len(paths) == 1, paths
    return paths[0]


def resume(job, run_dir, *overrides, ranks=None):
    """Continues with --resume and checks that no other run is created."""
    ended = job.run(*overrides, ranks=ranks, options=["--resume", run_dir.name])
    assert ended.code == 0, ended.err
    assert only(job.runs.iterdir()) == run_dir
    return ended


def assert_same_checkpoint(one, other):
    """Weights, optimizer and random states of the last checkpoints are bit-identical."""
    assert checkpoints(one)[-1] == checkpoints(other)[-1]
    for name in ("model", "optimizer", "rng"):
        file = f"{name}.safetensors"
        assert_same_bits(last_weights(one).parent / file, last_weights(other).parent / file)


def assert_steps_once(job, run_id, steps):
    assert [step for step, _ in job.series(run_id, "train/loss")] == steps


@pytest.fixture
def whole(tmp_path_factory):
    """A separate directory, for the uninterrupted run."""
    from conftest import Job

    return Job(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("ranks", [long(1), 2])
@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_resume_after_an_epoch(job, whole, optimizer, ranks):
    settings = [optimizer, "train.log_every=7 steps", *EVERY_EPOCH]
    never_stopped = whole.train("train.epochs=3", *settings, ranks=ranks)
    stopped = job.train("train.epochs=1", *settings, ranks=ranks)
    assert checkpoints(stopped) == [21]
    resume(job, stopped, "train.epochs=3", *settings, ranks=ranks)
    assert checkpoints(stopped) == [21, 42, 63]
    assert_same_checkpoint(stopped, never_stopped)
    assert len(job.list()) == 1
    assert_steps_once(job, stopped.name, [7, 14, 21, 28, 35, 42, 49, 56, 63])
    assert job.series(stopped.name, "train/loss") == whole.series(never_stopped.name, "train/loss")
    assert job.series(stopped.name, "eval/loss") == whole.series(never_stopped.name, "eval/loss")


@pytest.mark.parametrize("ranks", [None, 2])
def test_resume_mid_epoch(job, whole, ranks):
    settings = ["train.epochs=2", "train.log_every=1 step", *EVERY_EPOCH]
    never_stopped = whole.train(*settings, ranks=ranks)
    stopped = job.train(*settings, "train.max_steps=8", ranks=ranks)
    resume(job, stopped, *settings, "train.max_steps=30", ranks=ranks)
    resume(job, stopped, *settings, ranks=ranks)
    assert_same_checkpoint(stopped, never_stopped)
    assert_steps_once(job, stopped.name, list(range(1, 43)))
    assert job.list()[0]["state"] == "finished"


@pytest.mark.parametrize("changed, ranks, steps", [
    ("data.batch_size=96", 1, 34), ("data.batch_size=24", 1, 59), ("train.accumulate=4", 1, 30), ("data.per_rank_batch_size=48", 2, 34)])
def test_the_epochs_are_completed_with_steps_of_another_size(job, changed, ranks, steps):
    """Stopped at step 25, in the second of two epochs of 21 steps, with 811 samples left."""
    if changed.startswith("data.per_rank"):
        job.config["data"]["per_rank_batch_size"] = job.config["data"].pop("batch_size")
        job.write()
    settings = ["train.epochs=2", "schedule={name: step, milestones: [1], gamma: 0.5}", "train.log_every=1 step"]
    run_dir = job.train(*settings, "train.max_steps=25")
    resume(job, run_dir, *settings, changed, ranks=ranks)
    assert json.loads((last_weights(run_dir).parent / "manifest.json").read_text())["content"]["epoch"] == 2
    assert checkpoints(run_dir)[-1] == steps
    assert job.list()[0]["planned"]["steps"] == steps
    rates = job.series(run_dir.name, "train/lr")
    assert rates == [(step, 0.1 if step <= 21 else 0.05) for step in range(1, steps + 1)]


def test_resume_mid_epoch_with_accumulation(job, whole):
    settings = ["train.epochs=2", "train.accumulate=2", *EVERY_EPOCH]
    never_stopped = whole.train(*settings, ranks=2)
    stopped = job.train(*settings, "train.max_steps=5", ranks=2)
    resume(job, stopped, *settings, ranks=2)
    assert_same_checkpoint(stopped, never_stopped)


# Several buckets, so that their order matters to the sums of three ranks and more.
@pytest.mark.parametrize("ranks, backend", [long(3, "shm"), (3, "gloo"), long(4, "shm")])
def test_resume_on_three_and_more_ranks(job, whole, ranks, backend):
    distributed = ["distributed.bucket_cap_mb=0.002", f"distributed.backend={backend}"]
    settings = [*distributed, "train.max_steps=6", *EVERY_EPOCH]
    never_stopped = whole.train(*settings, ranks=ranks)
    stopped = job.train(*settings, "train.max_steps=1", ranks=ranks)
    resume(job, stopped, *settings, "train.max_steps=4", ranks=ranks)
    resume(job, stopped, *settings, ranks=ranks)
    assert_same_checkpoint(stopped, never_stopped)


def test_a_restart_under_the_same_run_id_continues(job, whole):
    """As a scheduler does: the same command again, with the run id in the environment."""
    env = processes.environment(LOCKSTEP_RUN_ID="my-run")
    settings = ["train.epochs=2", *EVERY_EPOCH]
    never_stopped = whole.train(*settings)
    assert job.run(*settings, "train.max_steps=10", env=env).code == 0
    assert job.run(*settings, env=env).code == 0
    run_dir = only(job.runs.iterdir())
    assert run_dir.name == "my-run"
    assert_same_checkpoint(run_dir, never_stopped)


def test_resume_policy_never_starts_from_scratch(job):
    env = processes.environment(LOCKSTEP_RUN_ID="my-run")
    assert job.run("train.max_steps=10", env=env).code == 0
    from_scratch = ["train.max_steps=4", "checkpoint.resume=never", "train.log_every=1 step"]
    ended = job.run(*from_scratch, env=env)
    assert ended.code == 0, ended.err
    assert checkpoints(job.runs / "my-run")[-1] == 4  # those of the previous run would be resumed from
    assert_steps_once(job, "my-run", [1, 2, 3, 4])


def test_resuming_a_finished_run_trains_nothing(job):
    run_dir = job.train()
    weights = last_weights(run_dir).read_bytes()
    rows = job.export(run_dir.name)
    resume(job, run_dir, ranks=2)
    assert last_weights(run_dir).read_bytes() == weights
    assert [row for row in job.export(run_dir.name) if row["metric"].startswith("eval/")] == [
        row for row in rows if row["metric"].startswith("eval/")
    ]
    assert job.list()[0]["state"] == "finished"


def test_a_resume_with_invalid_input_leaves_the_outcome(job):
    run_dir = job.train()
    ended = job.run("optimizer.lr=-1", ranks=2, options=["--resume", run_dir.name])
    assert ended.code == 78 and "optimizer.lr" in ended.err
    assert job.list()[0]["state"] == "finished"


@pytest.mark.parametrize("ranks", [None, 2])
def test_a_resume_with_another_model_leaves_the_outcome(job, ranks):
    """The input is refused after the ranks have connected and read the checkpoint."""
    run_dir = job.train()
    ended = job.run("model.hidden=[16]", ranks=ranks, options=["--resume", run_dir.name])
    assert ended.code == 78 and "is [32,784] in the checkpoint" in ended.err, ended.err
    assert job.list()[0]["state"] == "finished"
    assert not (run_dir / "end.json").exists()


def test_a_resume_with_fewer_samples_than_were_trained_is_refused(job):
    run_dir = job.train("train.max_steps=8")
    ended = job.run("data.train.limit=100", options=["--resume", run_dir.name])
    assert ended.code == 78
    (line,) = ended.err.splitlines()
    assert "the checkpoint of step 8 is after 384 samples of an epoch, but data.train has only 100: resume with the data" in line
    assert only(job.list())["state"] == "finished"
    assert "nothing was trained" in resume(job, run_dir, "data.train.limit=100", "train.max_steps=8").out


def test_on_another_number_of_ranks(job):
    """Position and weights do not depend on the number of ranks; later results are not bit-identical."""
    stopped = job.train("train.max_steps=8", ranks=1)
    resume(job, stopped, ranks=2)
    assert checkpoints(stopped)[-1] == 21


@pytest.mark.parametrize("background", ["true", "false"])
def test_keep_last(job, background):
    run_dir = job.train("checkpoint.every=4 steps", "checkpoint.keep_last=3", f"checkpoint.async={background}")
    assert checkpoints(run_dir) == [16, 20, 21]


def test_keep_the_best_and_milestones(job):
    """Also when a later part of the run is a resume."""
    keep = ["checkpoint.every=2 steps", "checkpoint.keep_last=1", "train.eval_every=2 steps", "optimizer.lr=0.5",
            "checkpoint.keep_best={count: 2, metric: accuracy, mode: max}", "checkpoint.keep_every=10 steps"]
    run_dir = job.train(*keep, "train.max_steps=14")
    ended = job.run(*keep, options=["--resume", run_dir.name])
    assert ended.code == 0, ended.err
    accuracies = {int(step): value for step, value in job.series(run_dir.name, "eval/accuracy")}
    best = sorted(accuracies, key=lambda step: (-accuracies[step], step))[:2]
    assert checkpoints(run_dir) == sorted({10, 20, 21, *best})


def test_an_evaluation_after_a_resume_is_added_to_its_checkpoint(job):
    """As of a run that a signal stopped during an evaluation."""
    evaluation = {key: job.config["data"].pop(key) for key in ("eval", "eval_batch_size")}
    job.write()
    run_dir = job.train("train.max_steps=4")
    job.config["data"].update(evaluation)
    job.write()
    for _ in range(2):  # once
        resume(job, run_dir, "train.max_steps=4")
    manifest = json.loads((run_dir / "checkpoints" / "4" / "manifest.json").read_text())["content"]
    assert job.series(run_dir.name, "eval/loss") == [(4, pytest.approx(manifest["evaluation"]["loss"]))]
    # With a learning rate of nearly 0, no later one is better.
    resume(job, run_dir, "train.max_steps=8", "optimizer.lr=1e-30", "checkpoint.every=2 steps", "train.eval_every=2 steps",
           "checkpoint.keep_last=1", "checkpoint.keep_best={count: 1}")
    assert checkpoints(run_dir) == [4, 8]


# Writing it takes most of a second.
LARGE = ["model.hidden=[4096,4096]", "data.train.limit=96", "data.eval.limit=10", "train.epochs=100",
         "train.log_every=1 step"]


@pytest.mark.parametrize("ranks", [None, 2])
def test_killed_while_a_checkpoint_is_written(job, ranks):
    started = job.start(*LARGE, "checkpoint.every=2 steps", ranks=ranks)

    def is_writing_another():
        written = [*job.runs.glob("*/checkpoints/[0-9]*")]
        return written and [*job.runs.glob("*/checkpoints/.tmp-[0-9]*")]

    processes.wait_until(is_writing_another, 60, "a partial checkpoint")
    for pid in processes.ranks_of(job.directory).values() if ranks else [started.pid]:
        os.kill(pid, signal.SIGKILL)
    processes.finish(started)
    run_dir = only(job.runs.iterdir())
    kept = checkpoints(run_dir)
    ended = resume(job, run_dir, *LARGE, f"train.max_steps={kept[-1] + 1}", ranks=ranks)
    assert "cannot be used" not in ended.out
    assert checkpoints(run_dir) == [*kept, kept[-1] + 1][-2:]
    assert not list((run_dir / "checkpoints").glob(".tmp-*"))


def flip_a_byte(path):
    content = bytearray(path.read_bytes())
    content[-5] ^= 0x10
    path.write_bytes(content)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


DAMAGES = {
    "a flipped bit": ("model.safetensors", flip_a_byte),
    "a truncated file": ("optimizer.safetensors", truncate),
    "an empty file": ("model.safetensors", lambda path: path.write_bytes(b"")),
    "a missing file": ("rng.safetensors", lambda path: path.unlink()),
    "garbage as manifest": ("manifest.json", lambda path: path.write_text("{]")),
    "a changed manifest": (
        "manifest.json",
        lambda path: path.write_text(path.read_text().replace('"step": 21', '"step": 22')),
    ),
}


@pytest.mark.parametrize("file, damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_corrupt_checkpoint_is_skipped(job, whole, file, damage):
    settings = ["train.max_steps=30", "train.epochs=2", *EVERY_EPOCH]
    run_dir = job.train("checkpoint.every=10 steps", "checkpoint.keep_last=10")
    assert checkpoints(run_dir) == [10, 20, 21]
    damage(run_dir / "checkpoints" / "21" / file)
    ended = resume(job, run_dir, *settings, ranks=2)
    warning = only(line for line in ended.out.splitlines() if "cannot be used" in line)
    assert "checkpoint 21" in warning and file in warning
    assert checkpoints(run_dir)[-1] == 30
    assert only(job.list())["state"] == "finished"


@pytest.mark.parametrize("ranks", [None, 2])
def test_only_corrupt_checkpoints(job, ranks):
    run_dir = job.train("checkpoint.every=10 steps", "checkpoint.keep_last=10")
    for step in checkpoints(run_dir):
        flip_a_byte(run_dir / "checkpoints" / str(step) / "model.safetensors")
    ended = job.run("train.epochs=2", ranks=ranks, options=["--resume", run_dir.name])
    assert ended.code == 75
    line = ended.err.splitlines()[0]
    assert "none of the 3 checkpoints" in line and "checkpoints/21/model.safetensors" in line
    assert checkpoints(run_dir) == [10, 20, 21]
    assert only(job.list())["state"] == "failed"


@pytest.mark.parametrize("ranks", [None, 2])
def test_an_unknown_run(job, ranks):
    run_dir = job.train("train.max_steps=1")
    ended = job.run(ranks=ranks, options=["--resume", run_dir.name[:-1] + "x"])
    assert ended.code == 78
    assert run_dir.name[:-1] + "x" in ended.err.splitlines()[0]
    assert only(job.runs.iterdir()) == run_dir


OTHER_MODELS = ["model.hidden=[16]", "model.hidden=[32,32]", "model={name: cnn}"]


@pytest.mark.parametrize("model", OTHER_MODELS)
def test_checkpoint_of_another_model(job, model):
    run_dir = job.train("train.max_steps=3")
    kept = [last_weights(run_dir), run_dir / "config.yaml", run_dir / "run.json"]
    before = [path.read_bytes() for path in kept]
    ended = job.run("train.max_steps=5", model, ranks=2, options=["--resume", run_dir.name])
    assert ended.code == 78, ended.err
    assert "checkpoint" in ended.err.splitlines()[0]
    assert [path.read_bytes() for path in kept] == before


def test_checkpoint_of_another_optimizer(job):
    run_dir = job.train("train.max_steps=3")
    ended = job.run("train.max_steps=5", OPTIMIZERS["adamw"], options=["--resume", run_dir.name])
    assert ended.code == 78, ended.err
    assert "optimizer" in ended.err.splitlines()[0]


def test_printed_inspect_command_finds_the_run(job):
    """The command after "inspect with:" works as printed, also if lockstep is not in PATH."""
    on_path = processes.environment(PATH=f"{processes.BIN}:{os.environ['PATH']}")
    for environment in (None, on_path):
        ended = job.run("train.max_steps=2", env=environment)
        printed = dict(line.split(": ", 1) for line in ended.out.splitlines() if line.startswith(("run: ", "inspect with: ")))
        command = printed["inspect with"].split()
        assert (command[0] == "lockstep") == (environment is on_path)
        shown = processes.run([*command, "--json"], job.directory, environment)
        assert shown.code == 0, shown.err
        assert run_id_of(json.loads(shown.out)) == Path(printed["run"]).name


def run_id_of(shown):
    return (shown[0] if isinstance(shown, list) else shown)["id"]


# 1001 samples: 20 batches of 50 and one of 1, of which two of three ranks have no sample.
UNEVEN = ["data.train.limit=1001", "data.batch_size=50", "data.batch_remainder=uneven", "train.epochs=3"]
UNEVEN += ["train.log_every=1 step"]


def assert_same_training(job, run_dir, whole, never_stopped):
    """Up to the rounding of sums in float32: three epochs let it grow."""
    ours, theirs = (of.series(path.name, "train/loss") for of, path in ((job, run_dir), (whole, never_stopped)))
    assert [step for step, _ in ours] == [step for step, _ in theirs] == list(range(1, 64))
    assert [loss for _, loss in ours] == pytest.approx([loss for _, loss in theirs], rel=1e-4)
    ours, theirs = (floats(last_weights(path)) for path in (run_dir, never_stopped))
    for name, numbers in ours.items():
        assert numbers == pytest.approx(theirs[name], abs=1e-5), name


@pytest.mark.parametrize("accumulate", [1, 2])
def test_uneven_batches_train_like_one_rank(job, whole, accumulate):
    settings = [*UNEVEN, f"train.accumulate={accumulate}"]
    if accumulate == 2:
        settings.append("train.epochs=6")  # 11 steps in each, the last of one sample
        settings.append("train.max_steps=63")
    alone = whole.train(*settings, ranks=1)
    assert_same_training(job, job.train(*settings, ranks=3), whole, alone)


def test_uneven_batches_on_3_then_2_then_4_ranks(job, whole):
    """The order of samples continues, for any number of ranks."""
    never_stopped = whole.train(*UNEVEN, ranks=1)
    run_dir = job.train(*UNEVEN, "train.max_steps=17", ranks=3)
    resume(job, run_dir, *UNEVEN, "train.max_steps=40", ranks=2)
    resume(job, run_dir, *UNEVEN, ranks=4)
    assert_same_training(job, run_dir, whole, never_stopped)


def test_padded_batches_on_3_ranks_count_the_first_sample_twice(job, whole):
    """50 samples are padded to 51, so the mean loss of a step is that of the batch with its first one repeated."""
    settings = ["data.train.limit=50", "data.batch_size=50", "data.shuffle=false", "train.log_every=1 step"]
    padded = job.train(*settings, "data.batch_remainder=pad", "train.epochs=2", ranks=3)
    alone = whole.train(*settings, "train.epochs=1", "optimizer={name: sgd, lr: 1e-30}", ranks=1)
    first = whole.train(*settings, "data.train.limit=1", "train.epochs=1", "optimizer={name: sgd, lr: 1e-30}", ranks=1)
    loss = {path: of.series(path.name, "train/loss")[0][1] for of, path in ((job, padded), (whole, alone), (whole, first))}
    assert loss[padded] == pytest.approx((50 * loss[alone] + loss[first]) / 51, rel=1e-5)
    assert len(job.series(padded.name, "train/loss")) == 2
