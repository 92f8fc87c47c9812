"""A rank is killed that alone had a part of the state (distributed.shard), and the others continue with the bits of an undisturbed run."""

import os
import random
import signal
import time

import pytest

import processes
from conftest import Job, long
from processes import BIN, TIMEOUT_S, wait_until
from safetensors_file import assert_same_bits, checkpoints, last_weights
from test_rank_loss import CONTINUE, ranks_of, recorded_losses, said, trainers_of

STEPS = 200
SEED = int(os.environ.get("LOCKSTEP_KILL_SEED", random.randrange(10**6)))
SETTINGS = ["distributed.virtual_shards=4", f"train.max_steps={STEPS}", "train.epochs=1000", "train.log_every=1 step"]
SETTINGS += ["tracking.sinks=[jsonl]", "train.eval_every=1000 epochs", "train.clip_grad_norm=1", "checkpoint.writers=main"]
EMA = "train.ema.decay=0.9"
NO_CHECKPOINT = "checkpoint.every=1000 epochs"  # only the last one
OPTIMIZERS = {
    "adamw": "optimizer={name: adamw, lr: 0.001, weight_decay_on: matrices}",
    "sgd": "optimizer={name: sgd, lr: 0.01, momentum: 0.9, weight_decay: 0.001}",
}
STRATEGIES = ["optimizer", "gradients", "full"]
PLUGIN = BIN.parent / "tests" / "bin" / "killed_optimizer.so"


def hold(job, step):
    """The ranks train up to this step, and wait."""
    new = job.directory / "hold.new"
    new.write_text(str(step))
    new.replace(job.directory / "hold")


def wait_until_held(job, started, step):
    def is_held():
        assert started.poll() is None, said(job)
        return (job.directory / f"hold.{step}").exists()

    wait_until(is_held, TIMEOUT_S, f"step {step}")


def wait_until_continued(job, started, count=1):
    """The others have continued for the `count`-th time."""
    def have_continued():
        assert started.poll() is None, said(job)
        return said(job).count("continuing with") >= count

    wait_until(have_continued, TIMEOUT_S, "the others continue")
    assert said(job).count("continuing with") == count


def start(job, ranks, settings, held_at, spares=0):
    return start_held(job, ranks, [*SETTINGS, *settings], [*CONTINUE, "--spares", spares], held_at)


def start_held(job, ranks, settings, options, held_at, env=None):
    job.config["plugins"] = [str(PLUGIN)]
    job.config["train"]["hooks"] = [{"name": "held", "file": str(job.directory / "hold")}]
    job.write()
    hold(job, held_at)
    with open(job.directory / "launch.err", "w") as log:
        return job.start(*settings, ranks=ranks, options=options, env=env, stderr=log)


def assert_whole(job, started, undisturbed):
    ended = processes.finish(started, 600)
    assert ended.code == 0, said(job)
    assert "restart" not in said(job)
    run_dir = job.only_run()
    assert checkpoints(run_dir)[-1] == STEPS
    expected = last_weights(undisturbed).parent
    files = {file.name for file in expected.glob("*.safetensors")} - {"rng.safetensors"}
    assert {"model.safetensors", "optimizer.safetensors"} <= files
    for file in files:
        assert_same_bits(last_weights(run_dir).parent / file, expected / file)
    assert [step for step, _ in job.series(run_dir.name, "train/loss")] == list(range(1, STEPS + 1))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The run that is neither disturbed nor sharded, by its settings."""
    runs = {}

    def find(*settings, prepare=lambda job: None):
        if settings not in runs:
            job = Job(tmp_path_factory.mktemp("undisturbed"))
            prepare(job)
            runs[settings] = job.train(*SETTINGS, *settings, NO_CHECKPOINT, ranks=1, timeout=600)
        return runs[settings]

    return find


def wait_for_a_spare(job):
    wait_until(lambda: "lockstep: a spare is ready" in said(job), TIMEOUT_S, "the spare")


@pytest.mark.parametrize("strategy, optimizer", list(zip(STRATEGIES, ["adamw", "sgd", "adamw"])))
def test_killed_at_random_times(job, undisturbed, strategy, optimizer):
    """Of 4 ranks and a spare, two are killed: 4, then 2 ranks continue. Checkpoints are written meanwhile."""
    chance = random.Random(f"{SEED} {strategy} {optimizer}")
    print(f"LOCKSTEP_KILL_SEED={SEED}")
    settings = [OPTIMIZERS[optimizer], *([EMA] if strategy == "optimizer" else [])]
    started = start(job, 4, [*settings, f"distributed.shard={strategy}", "checkpoint.every=10 steps"], held_at=20, spares=1)
    wait_for_a_spare(job)
    for count, begin in ((1, 20), (2, 100)):
        wait_until_held(job, started, begin)
        members = ranks_of(job) if count == 1 else trainers_of(job)
        victim = chance.choice(sorted(members.values() if count == 1 else members))
        hold(job, begin + 70)  # so that it does not end before the kill
        time.sleep(chance.random() * 0.02)  # the moment of the kill, not a wait for something
        os.kill(victim, signal.SIGKILL)
        hold(job, begin + 80)
        wait_until_continued(job, started, count)
    hold(job, STEPS)
    assert_whole(job, started, undisturbed(*settings))
    assert [loss["ranks_after"] for loss in recorded_losses(job)] == [4, 2]


# With 128, ranks read the weights of others in place.
@pytest.mark.parametrize("strategy, hidden", [long("optimizer", 128), long("gradients", 128), ("full", 128), ("optimizer", 32)])
def test_killed_in_the_middle_of_an_update(job, undisturbed, strategy, hidden):
    def use_plugin(job):
        job.config["plugins"] = [str(PLUGIN)]
        job.config["model"]["hidden"] = [hidden]
        job.config["optimizer"] = {"name": "killed", "lr": 0.01}
        job.write()

    trigger = job.directory / "trigger"
    use_plugin(job)
    trigger.touch()  # in the first step
    started = start(job, 4, [f"distributed.shard={strategy}", f"optimizer.kill_when={trigger}", NO_CHECKPOINT], held_at=20)
    for count, next_step in ((1, 20), (2, 40), (3, STEPS)):
        wait_until_continued(job, started, count)
        assert not trigger.exists()
        if count < 3:
            wait_until_held(job, started, next_step)
            trigger.touch()
        hold(job, next_step + 20)
    hold(job, STEPS)
    assert_whole(job, started, undisturbed(f"model.hidden=[{hidden}]", prepare=use_plugin))
    losses = recorded_losses(job)
    assert [loss["step"] for loss in losses] == [0, 20, 40]
    assert [loss["ranks_after"] for loss in losses] == [2, 2, 1]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_rank_leaves_with_its_shard(job, undisturbed, strategy):
    started = start(job, 4, [OPTIMIZERS["adamw"], f"distributed.shard={strategy}", NO_CHECKPOINT], held_at=20)
    wait_until_held(job, started, 20)
    os.kill(ranks_of(job)[2], signal.SIGTERM)
    hold(job, STEPS)
    assert_whole(job, started, undisturbed(OPTIMIZERS["adamw"]))
    assert "left after SIGTERM: continuing with 2 ranks" in said(job)


@pytest.mark.parametrize("strategy", ["optimizer", "full"])
def test_two_ranks_are_killed_at_once(job, undisturbed, strategy):
    started = start(job, 4, [OPTIMIZERS["adamw"], f"distributed.shard={strategy}", NO_CHECKPOINT], held_at=20)
    wait_until_held(job, started, 20)
    ranks = ranks_of(job)
    for victim in (0, 2):
        os.kill(ranks[victim], signal.SIGKILL)
    hold(job, STEPS)
    assert_whole(job, started, undisturbed(OPTIMIZERS["adamw"]))
    assert sum(len(loss["lost"]) for loss in recorded_losses(job)) == 2
