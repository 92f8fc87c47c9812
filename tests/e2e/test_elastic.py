"""Failures of workers, launchers, hosts and links: the job restarts from the last checkpoint."""

import os
import signal
import time

import pytest

import processes
from cluster import GONE_S, RUN_S
from conftest import Job, long
from processes import TIMEOUT_S, wait_until
from safetensors_file import assert_same_bits, checkpoints, last_weights
from test_ending import steps_of

NUM_HOSTS = 3
STEPS = 2000
GRACE_S = 30  # --stop-grace
# Some seconds of training, with a checkpoint every few steps.
LONG = [f"train.max_steps={STEPS}", "train.epochs=1000", "checkpoint.every=10 steps"]
# The first one is written long before the last, however fast the steps are.
LONG += ["checkpoint.async=false"]
LONG += ["train.eval_every=1000 epochs"]
# Test hosts share memory, through which ranks could communicate without the network.
NETWORK = "distributed.backend=gloo"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The weights of the same job on two ranks without failures."""
    return last_weights(Job(tmp_path_factory.mktemp("undisturbed")).train(*LONG, ranks=2, timeout=RUN_S))


def assert_whole(run_dir, weights):
    """The run finished, with the weights of an undisturbed one, and logged each step once."""
    assert checkpoints(run_dir)[-1] == STEPS
    assert_same_bits(last_weights(run_dir), weights)


def assert_each_step_once(job, run_dir):
    steps = [step for step, _ in job.series(run_dir.name, "train/loss")]
    assert steps == sorted(set(steps)) and steps[-1] == STEPS


# One host


@pytest.mark.parametrize("victim", [0, long(1)])
def test_killed_worker_is_restarted(job, undisturbed, victim):
    launcher = job.start(*LONG, ranks=2, options=["--max-restarts", 1])
    wait_until(lambda: list(job.runs.glob("*/checkpoints/[0-9]*")), TIMEOUT_S, "a first checkpoint")
    os.kill(processes.ranks_of(job.directory)[victim], signal.SIGKILL)
    ended = processes.finish(launcher, RUN_S)
    assert ended.code == 0, ended.err
    note = f"lockstep: restart 1 of 1: rank {victim} (of 2) failed first: killed by SIGKILL"
    assert note in ended.err
    run_dir = job.only_run()
    assert sorted(p.name for p in (run_dir / "logs").iterdir()) == ["attempt_0", "attempt_1"]
    assert_whole(run_dir, undisturbed)
    assert_each_step_once(job, run_dir)
    assert [entry["state"] for entry in job.list()] == ["finished"]


def shell(job, script, *options, ranks=2):
    command = [processes.LOCKSTEP, "launch", "-n", ranks, *options, "--program", "sh", "--", "-c", script]
    return processes.run(command, job.directory)


def test_number_of_restarts_is_limited(job):
    ended = shell(job, "echo $TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS; exit 5",
                  "--max-restarts", 2, ranks=1)
    assert ended.code == 5
    assert ended.out.split("\n")[:-1] == ["[rank 0] 0 2", "[rank 0] 1 2", "[rank 0] 2 2"]
    assert "restart 2 of 2 in 1 s: rank 0 (of 1) failed first: exited with code 5" in ended.err
    assert "after 2 restarts" in ended.err


def test_input_error_is_not_retried(job):
    ended = job.run("model.name=mpl", ranks=2, options=["--max-restarts", 3])
    assert ended.code == 78
    assert "restart" not in ended.err
    assert "unknown model 'mpl'" in ended.err
    assert not job.runs.exists()


@pytest.mark.parametrize("end", ["exit 75", "exit 70", "kill -SEGV $$"])
def test_other_failures_are_retried(job, end):
    script = f"test $TORCHELASTIC_RESTART_COUNT = 1 && exit 0; {end}"
    assert shell(job, script, "--max-restarts", 1).code == 0


def test_signal_prevents_restarts(job):
    """SIGTERM while the ranks of a failed attempt are still being stopped."""
    # Rank 0 ignores SIGTERM and then writes to a FIFO, on which rank 1 waits before it fails.
    script = 'trap "" TERM; if [ $RANK = 1 ]; then read x < ready; exit 9; fi; '
    script += "echo > ready; touch here; while true; do read x < fifo; done"
    for name in ("ready", "fifo"):
        os.mkfifo(job.directory / name)
    command = [processes.LOCKSTEP, "launch", "-n", 2, "--max-restarts", 5, "--stop-grace", "1s"]
    command += ["--program", "sh", "--", "-c", script]
    launcher = processes.start(command, job.directory)
    wait_until(lambda: (job.directory / "here").exists(), TIMEOUT_S, "rank 0 runs")
    os.kill(launcher.pid, signal.SIGTERM)
    ended = processes.finish(launcher, GONE_S)
    assert ended.code in (9, 128 + signal.SIGTERM)
    assert "restart 2" not in ended.err


# Two hosts


def test_killed_worker_on_another_host(job, cluster, undisturbed):
    cluster.start_all(*LONG, options=["--max-restarts", 1])
    cluster.wait_for_checkpoint()
    cluster.kill_rank(cluster.hosts[1])
    first, second = (cluster.finish(host) for host in cluster.hosts)
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert "restart 1 of 1: rank 1 (of 2) on beta" in first.err
    assert_whole(cluster.run_dir(), undisturbed)
    assert_each_step_once(job, cluster.run_dir())


def test_killed_launcher_is_replaced(cluster, undisturbed):
    """Both nodes are needed: the other one waits for a replacement."""
    alpha, beta = cluster.hosts
    cluster.start_all(*LONG, options=["--max-restarts", 1])
    cluster.wait_for_checkpoint()
    cluster.kill_launcher(beta)
    assert cluster.finish(beta).code == -signal.SIGKILL
    wait_until(lambda: not cluster.ranks_on(alpha), GONE_S, "the ranks of alpha were stopped")
    cluster.start(beta, *LONG, options=["--max-restarts", 1])
    ended = [cluster.finish(host) for host in cluster.hosts]
    assert [end.code for end in ended] == [0, 0], ended
    assert f"restart 1 of 1: node 1 on beta ({beta.address}): lost: " in ended[0].err
    assert_whole(cluster.run_dir(), undisturbed)


def test_batch_not_divisible_for_some_number_of_nodes(job, cluster):
    """Reported before anything starts, not when a node is lost."""
    alpha, _ = cluster.hosts
    cluster.start(alpha, "data.batch_size=100", nodes="2:4", options=["--max-restarts", 10])
    ended = cluster.finish(alpha, GONE_S)
    assert ended.code == 78
    assert ended.err.count("\n") == 1 and "100 is not divisible by 3 ranks, which --nnodes 2:4 allows" in ended.err
    assert "96 or 108" in ended.err and "data.batch_remainder: uneven" in ended.err
    assert not job.runs.exists()


@pytest.mark.long
@pytest.mark.parametrize("cluster", [3], indirect=True)
def test_uneven_batches_on_remaining_nodes(job, cluster, tmp_path):
    """Of three nodes one is lost: three ranks do not divide the batch, two do not have to divide the last one of an epoch."""
    rule = ["data.batch_size=50", "data.batch_remainder=uneven"]
    settings = [*LONG, NETWORK, *rule, "train.max_steps=600"]
    cluster.start_all(*settings, nodes="2:3", options=["--max-restarts", 1])
    cluster.wait_for_checkpoint()
    cluster.kill_launcher(cluster.hosts[2])
    ended = [cluster.finish(host) for host in cluster.hosts[:2]]
    assert [end.code for end in ended] == [0, 0], ended
    assert job.list()[0]["world_size"] == 2
    (tmp_path / "whole").mkdir()
    whole = Job(tmp_path / "whole")
    theirs = whole.series(whole.train(*LONG, *rule, "train.max_steps=600", ranks=1).name, "train/loss")
    ours = job.series(cluster.run_dir().name, "train/loss")
    assert [step for step, _ in ours] == [step for step, _ in theirs]
    assert [loss for _, loss in ours] == pytest.approx([loss for _, loss in theirs], rel=1e-2)


def test_remaining_nodes_continue(job, cluster, tmp_path):
    """1:2 nodes; one loses power, so its connections are not closed."""
    alpha, beta = cluster.hosts
    even = "data.train.limit=1008"  # no sample is repeated, on one rank or on two
    cluster.start_all(*LONG, NETWORK, even, nodes="1:2", options=["--max-restarts", 1], conf="last_call_timeout=5")
    cluster.wait_for_checkpoint()
    cluster.network.cut(beta)
    beta.crash()
    try:
        ended = cluster.finish(alpha)
    finally:
        cluster.network.restore(beta)
    assert ended.code == 0, ended.err
    assert f"node 1 on beta ({beta.address}): lost: no message for 3 s" in ended.err
    assert checkpoints(cluster.run_dir())[-1] == STEPS
    assert job.list()[0]["world_size"] == 1
    assert_each_step_once(job, cluster.run_dir())
    # Each step has the same samples on one rank as on two: only the rounding of sums differs.
    (tmp_path / "whole").mkdir()
    whole = Job(tmp_path / "whole")
    theirs = whole.series(whole.train(*LONG, even, "train.max_steps=300", ranks=2).name, "train/loss")
    ours = job.series(cluster.run_dir().name, "train/loss")[: len(theirs)]
    assert [loss for _, loss in ours] == pytest.approx([loss for _, loss in theirs], rel=1e-2)


def test_sigterm_to_a_job_of_two_hosts(job, cluster, undisturbed):
    """A checkpoint of the last step, all ranks gone, and the resumed run is unaffected."""
    alpha, beta = cluster.hosts
    named = ["--run-id", "mine"]
    cluster.start_all(*LONG, options=named)
    cluster.wait_for_checkpoint()
    cluster.kill_launcher(alpha, signal.SIGTERM)
    first, second = (cluster.finish(host, GRACE_S) for host in cluster.hosts)
    assert (first.code, second.code) == (143, 143), first.err + second.err
    assert not processes.ranks_of(job.directory)
    run_dir = job.only_run()
    step = checkpoints(run_dir)[-1]
    assert f"preempted by SIGTERM after step {step} of {STEPS}" in first.out
    assert [entry["state"] for entry in job.list()] == ["preempted"]
    assert "resume with: the same command and --resume mine" in first.out
    cluster.start_all(*LONG, options=[*named, "--resume", "mine"])
    ended = [cluster.finish(host) for host in cluster.hosts]
    assert [end.code for end in ended] == [0, 0], ended
    assert_whole(run_dir, undisturbed)
    assert_each_step_once(job, run_dir)


@pytest.mark.parametrize("where, number", [long("rank of alpha", signal.SIGTERM), ("rank of beta", signal.SIGTERM),
                                           ("launcher of alpha", signal.SIGUSR1), long("launcher of beta", signal.SIGUSR1)])
def test_signal_to_ranks_ends_the_job_on_every_node(job, cluster, where, number):
    """No launcher exits with success: a restarted one would wait for the others."""
    what, _, name = where.partition(" of ")
    host = next(host for host in cluster.hosts if host.name == name)
    cluster.start_all(*LONG, options=["--max-restarts", 5])
    cluster.wait_for_checkpoint()
    (cluster.kill_rank if what == "rank" else cluster.kill_launcher)(host, number)
    ended = [cluster.finish(each, GRACE_S) for each in cluster.hosts]
    assert [end.code for end in ended] == [128 + number] * 2, ended
    assert all(f"the ranks exited after {number.name}" in end.err for end in ended), ended
    assert f"preempted by {number.name} after step {checkpoints(job.only_run())[-1]} of {STEPS}" in ended[0].out
    assert [entry["state"] for entry in job.list()] == ["preempted"]


def test_new_node_joins_at_the_next_restart(job, cluster):
    alpha, beta = cluster.hosts
    options = ["--max-restarts", 1]
    endless = [*LONG, "train.max_steps=1000000", "train.epochs=1000000"]
    log = job.directory / "alpha.err"
    with open(log, "w") as file:
        cluster.streams = {"stderr": file}
        cluster.start(alpha, *endless, nodes="1:2", options=options)
    cluster.streams = {}
    cluster.wait_for_checkpoint()
    cluster.start(beta, *endless, nodes="1:2", options=options)
    joined = f"beta ({beta.address}) joined: it will take part after the next restart"
    wait_until(lambda: joined in log.read_text(), TIMEOUT_S, "beta has joined")
    assert not cluster.ranks_on(beta)
    cluster.kill_rank(alpha)
    reached = checkpoints(cluster.run_dir())[-1]
    wait_until(lambda: cluster.ranks_on(beta), TIMEOUT_S, "beta takes part")
    cluster.wait_for_checkpoint(reached)
    job.query("stop", cluster.run_dir().name)
    first, second = cluster.finish(alpha), cluster.finish(beta)
    assert (first.code, second.code) == (0, 0), log.read_text() + second.err
    assert job.list()[0]["world_size"] == 2


def test_short_network_outage_is_harmless(cluster, undisturbed):
    alpha, beta = cluster.hosts
    cluster.start_all(*LONG, NETWORK, options=["--max-restarts", 0], conf="keep_alive_max_attempt=50")
    cluster.wait_for_checkpoint()
    cluster.network.cut(beta)
    moment = time.monotonic() + 1
    wait_until(lambda: time.monotonic() > moment, 5, "a second")
    cluster.network.restore(beta)
    ended = [cluster.finish(host) for host in cluster.hosts]
    assert [end.code for end in ended] == [0, 0], ended
    assert_whole(cluster.run_dir(), undisturbed)


@pytest.mark.long
def test_silent_node_is_reported_without_blaming_its_ranks(job, cluster):
    """The last known state of its ranks is not a reason to blame one."""
    alpha, beta = cluster.hosts
    log = job.directory / "alpha.err"
    with open(log, "w") as file:
        cluster.streams = {"stderr": file}
        # Outside of steps, e.g. in a checkpoint, ranks wait longer before a hang is reported.
        endless = [NETWORK, "train.epochs=1000000", "train.eval_every=1000000 epochs", "checkpoint.every=1000000 epochs"]
        cluster.start_all(*endless, conf="keep_alive_max_attempt=50")
    wait_until(lambda: any(step > 100 for step, _ in steps_of(job)), TIMEOUT_S, "100 steps")
    cluster.network.cut(beta)
    try:
        wait_until(lambda: "the other ranks have waited" in log.read_text(), TIMEOUT_S, "the report")
        text = log.read_text()
    finally:
        cluster.network.restore(beta)
    assert "no message from beta for" in text
    assert "kept the others waiting" not in text


@pytest.mark.long
def test_disconnected_node_rejoins(cluster, undisturbed):
    alpha, beta = cluster.hosts
    cluster.start_all(*LONG, NETWORK, options=["--max-restarts", 1])
    cluster.wait_for_checkpoint()
    cluster.network.cut(beta)
    try:
        wait_until(lambda: not processes.ranks_of(cluster.job.directory), GONE_S, "all ranks stop")
    finally:
        cluster.network.restore(beta)
    ended = [cluster.finish(host) for host in cluster.hosts]
    assert [end.code for end in ended] == [0, 0], ended
    assert f"lost alpha ({alpha.address}:29400), which serves the rendezvous: no message for" in ended[1].err
    assert_whole(cluster.run_dir(), undisturbed)


@pytest.mark.long
def test_stopped_host_rejoins(cluster, undisturbed):
    """SIGSTOP of its launcher and rank: it stops responding, and the job cannot finish without it."""
    alpha, beta = cluster.hosts
    cluster.start_all(*LONG, options=["--max-restarts", 1])
    cluster.wait_for_checkpoint()
    stopped = beta.pids()
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: not cluster.ranks_on(alpha), GONE_S, "the ranks of alpha were stopped")
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    ended = [cluster.finish(host) for host in cluster.hosts]
    assert [end.code for end in ended] == [0, 0], ended
    assert_whole(cluster.run_dir(), undisturbed)


def test_coordinator_node_dies(job, cluster):
    """Every other node stops with an error; the job continues when it is started again."""
    alpha, beta = cluster.hosts
    cluster.start_all(*LONG, options=["--max-restarts", 3])
    cluster.wait_for_checkpoint()
    cluster.kill_launcher(alpha)
    ended = cluster.finish(beta, GONE_S)
    assert ended.code == 75
    assert f"lost alpha ({alpha.address}:29400), which serves the rendezvous: the connection" in ended.err
    assert cluster.finish(alpha).code == -signal.SIGKILL
    wait_until(lambda: not processes.ranks_of(job.directory), GONE_S, "every rank is gone")
    run = job.only_run().name
    cluster.start_all(*LONG, options=["--resume", run])
    assert [cluster.finish(host).code for host in cluster.hosts] == [0, 0]
    assert checkpoints(job.only_run())[-1] == STEPS
