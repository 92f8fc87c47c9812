"""A rank that is killed is started again while the others train, and takes part after a step (--rank-restarts): the bits of an undisturbed run."""

import os
import signal

import pytest

import processes
from conftest import Job, long
from object_server import BUCKET
from processes import TIMEOUT_S, wait_until
from safetensors_file import checkpoints
from test_node_loss import NO_EPOCHS, UNTIL_STOPPED, members_on, stop_and_compare, wait_for_new_step
from test_node_loss import start as start_nodes
from test_object_stores import in_bucket
from test_rank_loss import SETTINGS, assert_same_run, ranks_of, recorded_losses, said, trainers_of, wait_for_step
from test_sharded_rank_loss import hold, start_held, wait_until_held
from test_web_stores import at_hub, hub, push_rows, rows_job, write_rows  # noqa: F401 (fixtures)

RANKS_PER_HOST = 2
ENDLESS = [setting for setting in SETTINGS if not setting.startswith(("train.max_steps", "train.epochs"))]
FIRST = 20  # steps, before the first fault


def settings_for(num_steps, shard="none"):
    return [*ENDLESS, f"train.max_steps={num_steps}", "train.epochs=10000000", f"distributed.shard={shard}", NO_EPOCHS]


def start(job, options=(), shard="none"):
    """Two ranks, which wait after some steps."""
    started = start_held(job, 2, settings_for(10**7, shard), ["--on-rank-loss", "continue", *options], FIRST)
    wait_until_held(job, started, FIRST)
    return started


def train_two_steps(job, started, step):
    """After which the ranks wait; returns after how many steps they do now."""
    hold(job, step + 2)
    wait_until_held(job, started, step + 2)
    return step + 2


def train_until(is_true, job, started, step):
    """Two steps at a time; returns after how many steps the ranks wait."""
    while not is_true():
        step = train_two_steps(job, started, step)
    return step


def train_until_joined(job, started, step, count=1):
    """A process has joined for the `count`-th time, and has taken part in a step."""
    joined = "lockstep: 1 rank joined: continuing with 2 ranks\n"
    step = train_until(lambda: said(job).count(joined) == count, job, started, step)
    return train_two_steps(job, started, step)


def stop(job, started, tmp_path_factory, shard="none"):
    """Stops the run; it has the bits of an undisturbed one."""
    job.query("stop", job.only_run().name)
    hold(job, 10**7)
    assert processes.finish(started, 600).code == 0, said(job)
    (last,) = checkpoints(job.only_run())
    undisturbed = Job(tmp_path_factory.mktemp("undisturbed"))
    assert_same_run(job, undisturbed.train(*settings_for(last, shard), ranks=1, timeout=600), last)


def sizes(job):
    return [(loss["ranks_before"], loss["ranks_after"]) for loss in recorded_losses(job)]


@pytest.mark.parametrize("shard", ["none", long("gradients")])
def test_a_rank_is_killed_again_and_again(job, tmp_path_factory, shard):
    """Rank 0, the other one of the first two, which has given the state to its successor, and that one: each time there are two ranks again."""
    started = start(job, shard=shard)
    step = FIRST
    victims = [pid for _, pid in sorted(ranks_of(job).items())]
    for count in (1, 2, 3):
        before = set(trainers_of(job))
        os.kill(victims[count - 1], signal.SIGKILL)
        step = train_until_joined(job, started, step, count)
        (new,) = set(trainers_of(job)) - before
        victims.append(new)
    stop(job, started, tmp_path_factory, shard)
    assert sizes(job) == [(2, 1), (1, 2)] * 3
    assert said(job).count(" was lost, killed by SIGKILL") == 3
    assert "a spare" not in said(job) and "not started again" not in said(job)
    logs = job.only_run() / "logs" / "attempt_0"
    assert sorted(path.name for path in logs.iterdir()) == ["0", "0.1", "0.2", "1", "1.1"]
    assert all((path / "stderr.log").exists() for path in logs.iterdir())


@pytest.mark.parametrize("fault", ["killed", "another run file", "no run file"])
def test_a_process_that_fails_before_it_takes_part_is_not_started_again(job, tmp_path_factory, fault):
    started = start(job)
    before = ranks_of(job)
    text = job.file.read_text()
    if fault == "another run file":
        job.file.write_text(text.replace("limit: 1003", "limit: 1002"))
    elif fault == "no run file":
        job.file.unlink()
    os.kill(before[1], signal.SIGKILL)
    hold(job, FIRST + 2)
    wait_until_held(job, started, FIRST + 2)  # so that it cannot join
    how = "exited with code 78 (the input is wrong)"
    if fault == "killed":
        (new,) = wait_until(lambda: set(trainers_of(job)) - {before[0]}, TIMEOUT_S, "the new process")
        os.kill(new, signal.SIGKILL)
        how = "killed by SIGKILL (possibly the OOM killer, or kill -9)"
    wait_until(lambda: f"lockstep: a spare was lost, {how}\n" in said(job), TIMEOUT_S, "the end of the new process")
    job.file.write_text(text)
    stop(job, started, tmp_path_factory)
    assert "lockstep: the process [rank 1] is not started again: it had not taken part in a step\n" in said(job)
    assert sizes(job) == [(2, 1)]
    assert not (job.only_run() / "logs" / "attempt_0" / "1.2").exists()


@pytest.mark.parametrize("where", ["hub", "bucket"])
def test_a_process_that_reads_other_data_cannot_join(rows_job, request, where):  # noqa: F811
    """A branch moves, or an object is replaced, while the ranks train; both versions have as many rows."""
    job, store = rows_job, request.getfixturevalue({"hub": "hub", "bucket": "server"}[where])

    def push():
        if where == "hub":
            push_rows(store, job)
        else:
            store.put("rows/0.parquet", (job.folder / "0.parquet").read_bytes())

    push()
    if where == "bucket":
        os.utime(store.directory / BUCKET / "rows" / "0.parquet", (1_000_000_000, 1_000_000_000))
    path, env = ("hf://datasets/me/rows/data", at_hub(store, job.directory)) if where == "hub" else (f"s3://{BUCKET}/rows", in_bucket(store))
    settings = [f"data.train.path={path}", "data.shuffle_lanes=2", "distributed.virtual_shards=2", "train.epochs=10000000"]
    started = start_held(job, 2, [*settings, NO_EPOCHS], ["--on-rank-loss", "continue"], FIRST, env)
    wait_until_held(job, started, FIRST)
    write_rows(job.folder / "0.parquet", 9)
    push()
    os.kill(ranks_of(job)[1], signal.SIGKILL)
    hold(job, FIRST + 2)
    wait_until_held(job, started, FIRST + 2)
    wait_until(lambda: "lockstep: a spare was lost, exited with code 78" in said(job), TIMEOUT_S, "the end of the new process")
    assert "it sees another run file or other data than they do" in said(job)
    job.query("stop", job.only_run().name)
    hold(job, 10**7)
    assert processes.finish(started).code == 0, said(job)
    assert sizes(job) == [(2, 1)]


def test_spares_are_refilled(job, tmp_path_factory):
    started = start(job, ["--spares", 1])
    step = FIRST
    for rank in (0, 1):  # of the first two
        wait_until(lambda: said(job).count("lockstep: a spare is ready\n") == rank + 1, TIMEOUT_S, "the spare")
        assert len(trainers_of(job)) == 3
        os.kill(ranks_of(job)[rank], signal.SIGKILL)
        step = train_until(lambda: said(job).count("continuing with 2 ranks\n") == rank + 1, job, started, step)
    wait_until(lambda: said(job).count("lockstep: a spare is ready\n") == 3, TIMEOUT_S, "the spare")
    stop(job, started, tmp_path_factory)
    assert sizes(job) == [(2, 2), (2, 2)]
    assert [loss["spares"] for loss in recorded_losses(job)] == [[2], [0]]


@pytest.mark.parametrize("fault", ["killed too often", "SIGTERM"])
def test_some_are_not_started_again(job, tmp_path_factory, fault):
    """One that was started as often as it may be, and one that leaves."""
    started = start(job, ["--rank-restarts", 1])
    before = ranks_of(job)
    victim, step = before[1], FIRST
    if fault == "killed too often":
        os.kill(victim, signal.SIGKILL)
        step = train_until_joined(job, started, step)
        (victim,) = set(trainers_of(job)) - {before[0]}
    os.kill(victim, signal.SIGTERM if fault == "SIGTERM" else signal.SIGKILL)
    train_until(lambda: "continuing with 1 rank\n" in said(job).rpartition("joined")[2], job, started, step)
    stop(job, started, tmp_path_factory)
    logs = sorted(path.name for path in (job.only_run() / "logs" / "attempt_0").iterdir())
    if fault == "SIGTERM":
        assert "not started again" not in said(job)
        assert logs == ["0", "1"]
    else:
        assert "lockstep: the process [rank 1] is not started again: --rank-restarts 1\n" in said(job)
        assert logs == ["0", "1", "1.1"]


def test_ranks_of_two_nodes(cluster, tmp_path_factory):
    """One of each node, then all of the second node at once, and one after the loss of the coordinator."""
    job = cluster.job
    alpha, beta = cluster.hosts
    started = start_nodes(cluster, NO_EPOCHS, options=["--rank-restarts", 3], readers=[alpha, beta], **UNTIL_STOPPED)
    wait_for_step(job, started, 20)

    def on_beta():
        here = beta.pids()
        return [pid for pid in trainers_of(job) if pid in here]

    def lose(victims, left):
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: f"continuing with {left}" in said(job).rpartition(" joined")[2], TIMEOUT_S, "the others continue")

    def wait_for_ranks(num_ranks, count):
        wait_until(lambda: said(job).count(f" joined: continuing with {num_ranks} ranks\n") == count, TIMEOUT_S, "the ranks to join")
        wait_for_new_step(job, cluster.launchers[beta.name])

    for count, victims in enumerate(([members_on(cluster, beta)[3]], [members_on(cluster, alpha)[0]], None), 1):
        lose(victims or on_beta(), "2 ranks")
        wait_for_ranks(4, count)
    alpha.crash()
    lose([], "2 ranks")
    wait_for_new_step(job, cluster.launchers[beta.name])
    lose(on_beta()[:1], "1 rank")
    wait_for_ranks(2, 1)
    stop_and_compare(job, cluster.launchers[beta.name], tmp_path_factory)
    assert "not started again" not in said(job)
