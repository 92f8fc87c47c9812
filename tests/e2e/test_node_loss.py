"""A rank, or a whole node, of several is lost, and the others continue (--on-rank-loss continue): the bits of an undisturbed run.

LOCKSTEP_COORDINATOR_DELAYS: seconds, e.g. "0 0.01", between the loss of a rank and that of the coordinator, in one of the tests.
LOCKSTEP_NODE_LOSSES (default 3) sets the number of processes that one of the tests kills, LOCKSTEP_NODE_LOSS_SEED (1) which, and when.
"""

import os
import random
import re
import signal
import time

import pytest

import processes
from cluster import PORT
from conftest import MNIST, Job, long
from processes import TIMEOUT_S, wait_until
from safetensors_file import assert_same_bits, checkpoints, last_weights
from test_rank_loss import CONTINUE, NO_CHECKPOINT, SETTINGS, assert_same_run, assert_whole, by_rank, kill, recorded_losses, said
from test_rank_loss import shown_losses, trainers_of, wait_for_step

RANKS_PER_HOST = 2
NUM_HOSTS = 3  # that there are; most tests use two
GLOO = "distributed.backend=gloo"  # the hosts of these tests could map each other's memory
KILLS = int(os.environ.get("LOCKSTEP_NODE_LOSSES", "3"))
SEED = int(os.environ.get("LOCKSTEP_NODE_LOSS_SEED", "1"))
NODE_STEPS = 1800
DELAYS = [float(delay) for delay in os.environ.get("LOCKSTEP_COORDINATOR_DELAYS", "0.05").split()]  # s between two losses


def settings_for(num_steps):
    return [*(setting for setting in SETTINGS if not setting.startswith(("train.max_steps", "train.epochs"))),
            f"train.max_steps={num_steps}", "train.epochs=1000000"]


def train_undisturbed(directory, num_steps):
    return Job(directory).train(*settings_for(num_steps), NO_CHECKPOINT, ranks=1, timeout=600)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return train_undisturbed(tmp_path_factory.mktemp("undisturbed"), NODE_STEPS)


def start(cluster, *settings, readers=(), **how):
    """On every host, with four ranks; returns the launcher of the first of `readers`, by default alpha, whose messages said() reads."""
    readers = readers or cluster.hosts[:1]
    for host in cluster.hosts:
        start_on(cluster, host, *settings, is_reader=host in readers, **how)
    return cluster.launchers[readers[0].name]


def start_on(cluster, host, *settings, options=(), conf="", backend=GLOO, num_steps=NODE_STEPS, is_reader=False, ranks=None, has_number=True,
             **how):
    number = cluster.hosts.index(host)
    ranks = ranks or (1 if len(cluster.hosts) == 3 and number > 0 else RANKS_PER_HOST)
    with open(cluster.job.directory / ("launch.err" if is_reader else f"{host.name}.err"), "a") as log:
        cluster.streams = {"stderr": log}
        return cluster.start(host, *settings_for(num_steps), NO_CHECKPOINT, backend, *settings, ranks=ranks,
                             options=[*CONTINUE, *(("--node-rank", number) if has_number else ()), *options], conf=conf, **how)


def members_on(cluster, host, spares=False):
    """{first rank: pid} of the trainers there; of the spares with `spares`."""
    here = set(host.pids())
    found = [pid for pid, is_spare in trainers_of(cluster.job).items() if pid in here and is_spare == spares]
    return by_rank(found)


def finish_others(cluster, code=0):
    for host in cluster.hosts[1:]:
        assert cluster.finish(host).code == code, (cluster.job.directory / f"{host.name}.err").read_text()


@pytest.mark.parametrize("victim", [long(3), 0])
def test_a_rank_is_killed(cluster, undisturbed, victim):
    """Of node 1, then rank 0, which the next one of its node replaces."""
    job = cluster.job
    alpha, beta = cluster.hosts
    started = start(cluster)
    wait_for_step(job, started, 20)
    before = members_on(cluster, alpha) | members_on(cluster, beta)
    assert sorted(before) == [0, 1, 2, 3]
    kill(job, before.pop(victim), 1)
    assert members_on(cluster, alpha) | members_on(cluster, beta) == before, "the others keep their processes"
    assert_whole(job, started, undisturbed, NODE_STEPS)
    finish_others(cluster)
    assert re.search(rf"^lockstep: rank {victim} \(of 4\) was lost, killed by SIGKILL [^\n]*: continuing with 2 ranks, 1 waiting as spare$",
                     said(job), re.MULTILINE)
    (loss,) = shown_losses(job)
    assert (loss["ranks_before"], loss["ranks_after"], loss["spares"]) == (4, 2, [])


def test_a_rank_that_gets_sigterm_leaves(cluster, undisturbed):
    """Of node 1."""
    job = cluster.job
    alpha, beta = cluster.hosts
    started = start(cluster)
    wait_for_step(job, started, 20)
    before = members_on(cluster, alpha) | members_on(cluster, beta)
    os.kill(before.pop(3), signal.SIGTERM)
    wait_until(lambda: "continuing with" in said(job), TIMEOUT_S, "the others continue")
    assert members_on(cluster, alpha) | members_on(cluster, beta) == before, "the others keep their processes"
    assert_whole(job, started, undisturbed, NODE_STEPS)
    finish_others(cluster)
    assert "lockstep: rank 3 (of 4) left after SIGTERM: continuing with 2 ranks, 1 waiting as spare\n" in said(job)
    (loss,) = recorded_losses(job)
    assert loss["lost"] == [{"rank": 3, "how": "SIGTERM", "has_left": True}]


def test_spares_of_other_nodes_take_the_places(cluster, undisturbed):
    """Two losses, one on each node: the groups are on both."""
    job = cluster.job
    alpha, beta = cluster.hosts
    started = start(cluster, options=["--spares", 1])
    wait_for_step(job, started, 20)
    wait_until(lambda: said(job).count("a spare is ready") == 2, TIMEOUT_S, "the spares")
    kill(job, members_on(cluster, beta)[2], 1)
    assert "continuing with 4 ranks, 1 waiting as spare\n" in said(job)
    lost_at = wait_until(lambda: recorded_losses(job), TIMEOUT_S, "the record of the loss")[0]["step"]
    wait_for_step(job, started, lost_at + 2)
    kill(job, members_on(cluster, alpha)[0], 2)
    assert "continuing with 4 ranks\n" in said(job)
    assert_whole(job, started, undisturbed, NODE_STEPS)
    finish_others(cluster)
    losses = shown_losses(job)
    assert [(loss["ranks_before"], loss["ranks_after"]) for loss in losses] == [(4, 4), (4, 4)]
    assert sorted((*loss["spare_nodes"], *loss["spares"]) for loss in losses) == [(0, 2), (1, 2)]
    assert "with 4 ranks, with spare 2 of node 0\n" in job.query("show", job.only_run().name)


@pytest.mark.long
def test_all_ranks_of_the_first_node_are_killed(cluster, undisturbed):
    """Its launcher, which serves the rendezvous, stays; rank 0 moves to the other node, with the event log."""
    job = cluster.job
    alpha, beta = cluster.hosts
    started = start(cluster)
    wait_for_step(job, started, 20)
    for pid in members_on(cluster, alpha).values():
        os.kill(pid, signal.SIGKILL)
    assert_whole(job, started, undisturbed, NODE_STEPS)
    finish_others(cluster)
    assert shown_losses(job)[-1]["ranks_after"] == 2


@pytest.mark.parametrize("backend", ["gloo", long("auto")])
def test_a_node_crashes(cluster, undisturbed, backend):
    """Its launcher and all of its ranks are killed. With `auto`, the ranks that are left use shared memory."""
    job = cluster.job
    alpha, beta = cluster.hosts
    for host in cluster.hosts:
        host.shares_memory = backend == "gloo"
    started = start(cluster, backend=f"distributed.backend={backend}")
    wait_for_step(job, started, 20)
    before = members_on(cluster, alpha)
    beta.crash()
    wait_until(lambda: "continuing with" in said(job), TIMEOUT_S, "the others continue")
    assert members_on(cluster, alpha) == before
    assert_whole(job, started, undisturbed, NODE_STEPS)
    (loss,) = shown_losses(job)
    assert (loss["ranks_before"], loss["ranks_after"]) == (4, 2)
    assert [lost["rank"] for lost in loss["lost"]] == [2, 3]


def said_by(cluster, host):
    return (cluster.job.directory / f"{host.name}.err").read_text()


def step_after(job, started, when):
    """Waits for a step that is completed after `when`; returns its time."""
    found = []

    def has_step():
        assert started.poll() is None, said(job)
        text = "".join(file.read_text() for file in job.runs.glob("*/sinks/jsonl/*/records.jsonl"))
        times = map(float, re.findall(r'"type":"scalars","step":[0-9]+,"epoch":[0-9.]+,"time":([0-9.]+)', text[-20000:]))
        found[:] = [time for time in times if time > when]
        return found

    wait_until(has_step, TIMEOUT_S, "a step after the loss")
    return min(found)


def test_the_coordinator_crashes(cluster, undisturbed):
    """Its node, which has rank 0, too: the other node takes over."""
    job = cluster.job
    alpha, beta = cluster.hosts
    started = start(cluster, readers=[beta])
    wait_for_step(job, started, 20)
    before = members_on(cluster, beta)
    alpha.crash()
    crashed = time.time()
    wait_until(lambda: "continuing with" in said(job), TIMEOUT_S, "the others continue")
    print(f"the next step after {step_after(job, started, crashed) - crashed:.2f} s")
    assert members_on(cluster, beta) == before, "the others keep their processes"
    assert_whole(job, started, undisturbed, NODE_STEPS)
    assert re.search(rf"^lockstep: alpha \({alpha.address}\) was lost, which served the rendezvous: [^\n]*; this node serves it now$",
                     said(job), re.MULTILINE)
    (loss,) = shown_losses(job)
    assert (loss["ranks_before"], loss["ranks_after"]) == (4, 2)
    assert [lost["rank"] for lost in loss["lost"]] == [0, 1]


def test_a_restart_after_the_coordinator_crashed(cluster, undisturbed):
    """All ranks that were left are killed, too: without the first node, from the last checkpoint."""
    job = cluster.job
    alpha, beta = cluster.hosts
    for host in cluster.hosts:
        host.shares_memory = False
    started = start(cluster, "checkpoint.every=50 steps", readers=[beta], backend="distributed.backend=auto", nodes="1:2",
                    conf="last_call_timeout=60", options=["--max-restarts", 1])
    wait_for_step(job, started, 60)
    alpha.crash()
    wait_until(lambda: "continuing with 2 ranks" in said(job), TIMEOUT_S, "the others continue")
    for pid in members_on(cluster, beta).values():
        os.kill(pid, signal.SIGKILL)
    assert processes.finish(started, 600).code == 0, said(job)
    assert re.search("^lockstep: restart 1 of 1: ", said(job), re.MULTILINE)
    run_dir = job.only_run()
    assert checkpoints(run_dir)[-1] == NODE_STEPS
    assert_same_bits(last_weights(run_dir), last_weights(undisturbed))


@pytest.mark.long
@pytest.mark.parametrize("delay", DELAYS)
def test_a_rank_of_another_node_and_the_coordinator(cluster, undisturbed, delay):
    """The second loss comes while the first group is formed, or connects."""
    job = cluster.job
    alpha, beta = cluster.hosts
    started = start(cluster, readers=[beta, alpha], options=["--spares", 1])
    wait_for_step(job, started, 20)
    wait_until(lambda: said(job).count("a spare is ready") == 2, TIMEOUT_S, "the spares")
    os.kill(members_on(cluster, beta)[3], signal.SIGKILL)
    time.sleep(delay)  # the random time of the fault
    alpha.crash()
    assert processes.finish(started, 600).code == 0, said(job)
    assert_same_run(job, undisturbed, NODE_STEPS)
    losses = shown_losses(job)
    assert len(losses) == len(re.findall("was lost.*continuing with", said(job))), "each loss is recorded once"
    assert losses[-1]["ranks_after"] == 2


def test_the_coordinator_is_cut_off_and_killed(cluster, undisturbed):
    """No connection is closed: the other node notices that it is silent."""
    job = cluster.job
    alpha, beta = cluster.hosts
    started = start(cluster, readers=[beta], options=["--spares", 1], conf="keep_alive_interval=400ms,keep_alive_max_attempt=3")
    wait_for_step(job, started, 20)
    cluster.network.cut(alpha)
    alpha.crash()
    crashed = time.time()
    try:
        print(f"the next step after {step_after(job, started, crashed) - crashed:.2f} s")
        assert_whole(job, started, undisturbed, NODE_STEPS)
    finally:
        cluster.network.restore(alpha)
    assert "was lost, which served the rendezvous: no message for 1.2 s; this node serves it now\n" in said(job)
    (loss,) = shown_losses(job)
    assert [lost["rank"] for lost in loss["lost"]] == [0, 1]


@pytest.mark.long
@pytest.mark.parametrize("cluster", [3], indirect=True)
def test_two_coordinators_crash_one_after_the_other(cluster, undisturbed):
    """The third node joins the second, and then serves the rendezvous itself."""
    job = cluster.job
    alpha, beta, gamma = cluster.hosts
    started = start(cluster, readers=[gamma, beta])
    wait_for_step(job, started, 20)
    alpha.crash()
    crashed = time.time()
    wait_until(lambda: "continuing with 2 ranks" in said(job), TIMEOUT_S, "the others continue")
    step_after(job, started, crashed)
    (first,) = wait_until(lambda: recorded_losses(job), TIMEOUT_S, "the record of the loss")
    assert [lost["rank"] for lost in first["lost"]] == [0, 1]
    beta.crash()
    assert_whole(job, started, undisturbed, NODE_STEPS)
    assert re.search(r"^lockstep: alpha [^\n]* was lost, which served the rendezvous: [^\n]*; beta serves it now$", said(job), re.MULTILINE)
    assert re.search(r"^lockstep: beta [^\n]* was lost, which served the rendezvous: [^\n]*; this node serves it now$", said(job), re.MULTILINE)
    assert [loss["ranks_after"] for loss in recorded_losses(job)] == [2, 1]


@pytest.mark.long
@pytest.mark.parametrize("cluster", [3], indirect=True)
def test_the_coordinator_is_cut_off_and_lives(cluster, undisturbed):
    """The two others continue, as they are more; it ends, with its ranks."""
    job = cluster.job
    alpha, beta, gamma = cluster.hosts
    started = start(cluster, readers=[beta], conf="keep_alive_interval=2,keep_alive_max_attempt=2")
    wait_for_step(job, started, 20)
    cluster.network.cut(alpha)
    try:
        cut = time.time()
        assert cluster.finish(alpha).code == 75
        print(f"the cut-off node ended after {time.time() - cut:.2f} s, the next step after {step_after(job, started, cut + 1) - cut:.2f} s")
        assert not members_on(cluster, alpha)
        said_last = said_by(cluster, alpha).splitlines()[-1]
        assert re.fullmatch(r"lockstep: error: lost [^;]*: no message for [0-9.]+ s; another node continues the job without this one", said_last)
        assert_whole(job, started, undisturbed, NODE_STEPS)
    finally:
        cluster.network.restore(alpha)
    assert cluster.finish(gamma).code == 0, said_by(cluster, gamma)
    (loss,) = shown_losses(job)
    assert [lost["how"] for lost in loss["lost"]] == [f"with alpha ({alpha.address}): no message for 4 s"] * 2


def test_sigterm_to_a_new_coordinator_ends_the_job(cluster):
    job = cluster.job
    alpha, beta = cluster.hosts
    started = start(cluster, readers=[beta])
    wait_for_step(job, started, 20)
    cluster.kill_launcher(alpha)  # its ranks die with it
    wait_until(lambda: "continuing with" in said(job), TIMEOUT_S, "the others continue")
    os.kill(started.pid, signal.SIGTERM)
    assert processes.finish(started).code == 128 + signal.SIGTERM, said(job)
    assert not trainers_of(job)
    assert [entry["state"] for entry in job.list()] == ["preempted"]
    assert checkpoints(job.only_run())


@pytest.mark.long
def test_a_node_is_silent(cluster, undisturbed):
    """Its network fails: no connection is closed. It stops its own ranks."""
    job = cluster.job
    alpha, beta = cluster.hosts
    started = start(cluster, conf="keep_alive_interval=1,keep_alive_max_attempt=5,read_timeout=10")
    wait_for_step(job, started, 20)
    before = members_on(cluster, alpha)
    cluster.network.cut(beta)
    try:
        wait_until(lambda: "continuing with" in said(job), TIMEOUT_S, "the others continue")
        assert members_on(cluster, alpha) == before
        assert_whole(job, started, undisturbed, NODE_STEPS)
        (loss,) = shown_losses(job)
        assert [lost["how"] for lost in loss["lost"]] == [f"with beta ({beta.address}): no message for 5 s"] * 2
        assert cluster.finish(beta).code == 75
        assert said_by(cluster, beta) == (
            f"lockstep: error: lost alpha ({alpha.address}), which served the rendezvous: no message for 5 s; "
            "another node continues the job without this one\n")
    finally:
        cluster.network.restore(beta)


@pytest.mark.long
def test_a_launcher_is_stopped_for_a_while(cluster, undisturbed):
    """The others continue; when it runs again, it kills its ranks at once."""
    job = cluster.job
    alpha, beta = cluster.hosts
    started = start(cluster, options=["--stop-grace", "1000s"])
    wait_for_step(job, started, 20)
    cluster.kill_launcher(beta, signal.SIGSTOP)
    wait_until(lambda: "continuing with" in said(job), TIMEOUT_S, "the others continue")
    cluster.kill_launcher(beta, signal.SIGCONT)
    assert cluster.finish(beta).code == 75
    assert not members_on(cluster, beta)
    assert said_by(cluster, beta) == (
        f"lockstep: error: lost alpha ({alpha.address}:{PORT}), which serves the rendezvous: it dropped this node; "
        "the job has continued without this node\n")
    assert_whole(job, started, undisturbed, NODE_STEPS)


def test_the_job_is_stopped_while_a_group_is_formed(cluster):
    """One of the others does not answer yet: SIGTERM to the launcher ends the job all the same."""
    job = cluster.job
    alpha, beta = cluster.hosts
    started = start(cluster, options=["--stop-grace", "5s"])
    wait_for_step(job, started, 20)
    stopped = members_on(cluster, alpha)[1]
    os.kill(stopped, signal.SIGSTOP)
    os.kill(members_on(cluster, beta)[3], signal.SIGKILL)
    os.kill(started.pid, signal.SIGTERM)
    assert processes.finish(started).code == 128 + signal.SIGTERM, said(job)
    finish_others(cluster, 128 + signal.SIGTERM)
    assert not trainers_of(job)


def wait_for_new_step(job, started):
    """A step that the current group has completed: then all of its ranks have the weights."""
    now = time.time()

    def has_new_step():
        assert started.poll() is None, said(job)
        text = "".join(file.read_text() for file in job.runs.glob("*/sinks/jsonl/*/records.jsonl"))
        return max(map(float, re.findall(r'"type":"scalars","step":[0-9]+,"epoch":[0-9.]+,"time":([0-9.]+)', text[-5000:])), default=0) > now

    wait_until(has_new_step, TIMEOUT_S, "a new step")


def num_lost(job):
    """Of which the launcher has said so."""
    return sum(line.count(" was lost, killed by SIGKILL") for line in said(job).splitlines() if line.startswith("lockstep: "))


@pytest.mark.long
def test_processes_are_killed_at_random_times(cluster, tmp_path_factory):
    """Any process at any time: while a group trains, while the next one connects, two at once, spares; but not all that have the weights.

    The job is stopped after the last loss, however long that takes; the undisturbed run has as many steps.
    """
    job = cluster.job
    choice = random.Random(SEED)
    spares = (KILLS + 1) // 2
    started = start(cluster, "checkpoint.every=1000000 epochs", options=["--spares", spares], num_steps=10**7)
    wait_for_step(job, started, 5)
    wait_until(lambda: said(job).count("a spare is ready") == 2 * spares, TIMEOUT_S, "the spares")
    killed = since_step = 0
    while killed < KILLS:
        trainers = trainers_of(job)
        ranks = sorted(pid for pid, is_spare in trainers.items() if not is_spare)
        victims = choice.sample(ranks or sorted(trainers), min(choice.choice([1, 1, 2]), KILLS - killed, len(ranks) or 1))
        if since_step + len(victims) >= RANKS_PER_HOST * 2:
            wait_for_new_step(job, started)
            since_step = 0
        time.sleep(choice.choice([0, 0.01, 0.05, 0.2, 0.5]))  # the random time of the fault
        assert started.poll() is None, said(job)
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        killed += len(victims)
        since_step += len(victims)
        print(f"killed {killed} of {KILLS}: {victims}", flush=True)
        wait_until(lambda: num_lost(job) == killed, TIMEOUT_S, f"loss {killed}")
    wait_for_new_step(job, started)
    job.query("stop", job.only_run().name)
    assert processes.finish(started, 600).code == 0, said(job)
    finish_others(cluster)
    (last,) = checkpoints(job.only_run())
    assert_same_run(job, train_undisturbed(tmp_path_factory.mktemp("undisturbed"), last), last)
    assert len(shown_losses(job)) == len(re.findall("was lost.*continuing with", said(job))), "each loss is recorded once"


@pytest.mark.long
def test_a_stopped_rank_is_killed(cluster, undisturbed):
    """It does not ask for a place after the loss of another: the others do not wait for it longer than for a step."""
    job = cluster.job
    alpha, beta = cluster.hosts
    started = start(cluster, "distributed.step_timeout=10s")
    wait_for_step(job, started, 20)
    os.kill(members_on(cluster, alpha)[1], signal.SIGSTOP)
    kill(job, members_on(cluster, beta)[3], 1)
    assert re.search(r"^lockstep: rank 1 \(of 4\) is killed: the others have waited for it for [0-9]+ s to form a new group$", said(job), re.MULTILINE)
    assert "rank 1 (of 4) was lost, killed because the others waited for it" in said(job)
    assert_whole(job, started, undisturbed, NODE_STEPS)
    finish_others(cluster)
    assert shown_losses(job)[0]["ranks_after"] == 2


@pytest.mark.parametrize("settings, message", [
    (["distributed.virtual_shards=null"], "--on-rank-loss continue needs distributed.virtual_shards"),
    (["distributed.shard=gradients"], "--on-rank-loss continue needs distributed.shard: none on several nodes"),
    (["distributed.backend=shm"], "--on-rank-loss continue needs distributed.backend: auto or gloo on several nodes"),
    (["distributed.backend=nccl"], "distributed.backend 'nccl' does not work on device 'cpu'"),
    (["distributed.backend=hierarchical"], "distributed.virtual_shards cannot be combined with distributed.backend: hierarchical"),
    (["distributed.device=cuda", "distributed.shard=gradients"], "--on-rank-loss continue needs CPUs"),
    (["tracking.ranks=all"], "--on-rank-loss continue needs tracking.ranks: main"),
])
def test_what_cannot_continue_is_refused(cluster, settings, message):
    started = start(cluster, *settings)
    assert processes.finish(started).code == 78
    assert message in said(cluster.job)
    finish_others(cluster, 78)
    assert not list(cluster.job.runs.glob("*/run.json"))


def test_nodes_without_a_shared_file_system_are_refused(cluster):
    """Rank 0 could not continue the log on the other one."""
    job = cluster.job
    job.runs.mkdir()
    disk = job.directory / "disk of beta"
    disk.mkdir()
    cluster.hosts[1].mounts[job.runs] = disk
    started = start(cluster)
    assert processes.finish(started).code == 78
    assert "--on-rank-loss continue needs a run.dir that all nodes share, but node 1 (beta) does not see " in said(job)
    finish_others(cluster, 78)


UNTIL_STOPPED = {"num_steps": 10**7}  # however long the machine takes
NO_EPOCHS = "checkpoint.every=1000000 epochs"


def lose_second(cluster, started, by_sigterm=False):
    """The first node continues without the second."""
    job = cluster.job
    wait_for_step(job, started, 20)
    if by_sigterm:
        cluster.kill_launcher(cluster.hosts[1], signal.SIGTERM)
        assert cluster.finish(cluster.hosts[1]).code == 128 + signal.SIGTERM
    else:
        cluster.hosts[1].crash()
    wait_until(lambda: "continuing with 2 ranks" in said(job), TIMEOUT_S, "the others continue")


def stop_and_compare(job, ended, tmp_path_factory):
    """Stops the run; it has the bits of an undisturbed one."""
    job.query("stop", job.only_run().name)
    assert processes.finish(ended, 600).code == 0, said(job)
    (last,) = checkpoints(job.only_run())
    assert_same_run(job, train_undisturbed(tmp_path_factory.mktemp("undisturbed"), last), last)


@pytest.mark.parametrize("by_sigterm", [False, long(True)])
def test_a_node_comes_back(cluster, tmp_path_factory, by_sigterm):
    """After a crash, or SIGTERM to its launcher: its ranks get the state from the others. Then it replaces the coordinator, which crashes."""
    job = cluster.job
    alpha, beta = cluster.hosts
    started = start(cluster, NO_EPOCHS, readers=[alpha, beta], **UNTIL_STOPPED)
    lose_second(cluster, started, by_sigterm)
    before = members_on(cluster, alpha)
    again = start_on(cluster, beta, NO_EPOCHS, is_reader=True, **UNTIL_STOPPED)
    wait_until(lambda: "lockstep: 2 ranks joined: continuing with 4 ranks\n" in said(job), TIMEOUT_S, "the node to join")
    assert f"lockstep: beta ({beta.address}) joins as node 1: its ranks take part after a step" in said(job)
    wait_for_new_step(job, started)
    assert members_on(cluster, alpha) == before, "the others keep their processes"
    lost, joined = recorded_losses(job)
    assert (lost["ranks_after"], joined["ranks_before"], joined["ranks_after"], joined["lost"]) == (2, 2, 4, [])
    assert (joined["spares"], joined["spare_nodes"]) == ([0, 1], [1, 1])
    assert joined["step"] >= lost["step"]
    assert all(rank.get("has_left", False) == by_sigterm for rank in lost["lost"])
    assert len(lost["lost"]) == 2 or by_sigterm, "a rank that sees SIGTERM a step later waits for a place, and ends"
    assert [entry["world_size"] for entry in job.list()] == [4]
    shown = job.query("show", job.only_run().name)
    assert re.search(rf"^joined +2 ranks joined; continued after step {joined['step']} with 4 ranks, with spares 0 of node 1, 1 of node 1$",
                     shown, re.MULTILINE)
    alpha.crash()
    wait_until(lambda: said(job).count("continuing with 2 ranks") == 2, TIMEOUT_S, "the others continue")
    wait_for_new_step(job, again)
    stop_and_compare(job, again, tmp_path_factory)


def test_the_node_of_the_coordinator_comes_back(cluster, tmp_path_factory):
    """Its launcher starts again before the other node has taken over. Then it takes over itself."""
    job = cluster.job
    alpha, beta = cluster.hosts
    started = start(cluster, NO_EPOCHS, readers=[alpha, beta], **UNTIL_STOPPED)
    wait_for_step(job, started, 20)
    alpha.crash()
    again = start_on(cluster, alpha, NO_EPOCHS, is_reader=True, **UNTIL_STOPPED)
    wait_until(lambda: "lockstep: 2 ranks joined: continuing with 4 ranks\n" in said(job), TIMEOUT_S, "the node to join")
    assert f"lockstep: alpha ({alpha.address}) joins as node 0: its ranks take part after a step" in said(job)
    wait_for_new_step(job, again)
    beta.crash()
    wait_until(lambda: said(job).count("continuing with 2 ranks") == 2, TIMEOUT_S, "the others continue")
    wait_for_new_step(job, again)
    stop_and_compare(job, again, tmp_path_factory)
    assert not list(job.runs.glob(".lockstep-*"))


@pytest.mark.parametrize("cluster", [3], indirect=True)
def test_a_spare_node_follows_the_rendezvous_twice(cluster, tmp_path_factory):
    """Two nodes train, and one waits. The first one crashes, starts again and waits; then the new coordinator crashes."""
    job = cluster.job

    def begin(host):
        return start_on(cluster, host, NO_EPOCHS, is_reader=True, nodes="1:2", ranks=RANKS_PER_HOST, has_number=False, **UNTIL_STOPPED)

    def wait_for(text, count=1):
        wait_until(lambda: said(job).count(text) == count, TIMEOUT_S, f"{text!r}, {count} times")

    alpha, beta, gamma = cluster.hosts
    begin(alpha)
    started = begin(beta)
    wait_for_step(job, started, 20)
    last = begin(gamma)
    wait_for(f"gamma ({gamma.address}) joined: it will take part after the next restart, or in place of a node that is lost")
    alpha.crash()
    wait_for("2 ranks joined: continuing with 4 ranks")
    started = begin(alpha)
    wait_for(f"alpha ({alpha.address}) joined: it will take part")
    beta.crash()
    wait_for("2 ranks joined: continuing with 4 ranks", 2)
    wait_for_new_step(job, started)
    stop_and_compare(job, last, tmp_path_factory)
    assert processes.finish(started).code == 0, said(job)


def shorten(file, copy, count):
    """A copy of an IDX file with `count` images or labels."""
    content = file.read_bytes()
    item = 28 * 28 if content[3] == 3 else 1
    header = 16 if content[3] == 3 else 8
    copy.write_bytes(content[:4] + count.to_bytes(4, "big") + content[8 : header + count * item])


def test_nodes_that_cannot_join_are_refused(cluster, tmp_path_factory):
    """And some that die; the ranks that train notice nothing, or lose them as any others."""
    job = cluster.job
    alpha, beta = cluster.hosts
    data, fewer = job.directory / "data", job.directory / "fewer"
    train = job.config["data"]["train"]
    for directory, count in ((data, train.pop("limit")), (fewer, 1000)):
        directory.mkdir()
        for file in MNIST.glob("train-*-ubyte"):
            shorten(file, directory / file.name, count)
    train["path"] = str(data)
    job.write()
    started = start(cluster, NO_EPOCHS, **UNTIL_STOPPED)
    lose_second(cluster, started)
    before = members_on(cluster, alpha)

    def refused(message, *settings, **how):
        start_on(cluster, beta, *(settings or [NO_EPOCHS]), **UNTIL_STOPPED, **how)
        assert cluster.finish(beta).code == 78
        assert re.search(message, said_by(cluster, beta)), said_by(cluster, beta)

    refused("does not have the job's token|another token", token="another secret of the tests, long enough")
    refused("the list of overrides and arguments", NO_EPOCHS, "optimizer.lr=0.3")
    refused(r"--node-rank 0 is already used by alpha", options=["--node-rank", 0])
    refused(r"beta \([0-9.]+\) has 3 ranks and 0 spares, but beta [^\n]*, had 2 and 0: start it with the same -n and --spares", ranks=3)
    beta.mounts[data] = fewer
    refused("it sees another run file or other data than they do")
    wait_until(lambda: "could not join the running job: " in said(job), TIMEOUT_S, "the note")
    beta.mounts.clear()
    assert members_on(cluster, alpha) == before
    assert recorded_losses(job)[1:] == []
    for count in (2, 3):  # one dies while it starts, one when it has just got its places
        start_on(cluster, beta, NO_EPOCHS, **UNTIL_STOPPED)
        wait_until(lambda: said(job).count(" joins as node 1") == count, TIMEOUT_S, "the node to join")
        if count == 3:
            wait_until(lambda: "continuing with 4 ranks" in said(job), TIMEOUT_S, "the places")
        beta.crash()
    wait_until(lambda: said(job).count("continuing with 2 ranks") == 2, TIMEOUT_S, "the others continue")
    wait_for_new_step(job, started)
    assert members_on(cluster, alpha) == before
    start_on(cluster, beta, NO_EPOCHS, **UNTIL_STOPPED)
    wait_until(lambda: said(job).count("continuing with 4 ranks") == 2, TIMEOUT_S, "the node to join")
    wait_for_new_step(job, started)
    stop_and_compare(job, started, tmp_path_factory)
    finish_others(cluster)
    assert [loss["ranks_after"] for loss in recorded_losses(job)] == [2, 4, 2, 4]


def test_all_launchers_get_sigterm(cluster):
    """As from a scheduler: the job stops with a checkpoint, also if the ranks of one node begin to leave."""
    job = cluster.job
    alpha, beta = cluster.hosts
    started = start(cluster, **UNTIL_STOPPED)
    wait_for_step(job, started, 20)
    for host in (beta, alpha):
        cluster.kill_launcher(host, signal.SIGTERM)
    assert processes.finish(started).code == 128 + signal.SIGTERM, said(job)
    finish_others(cluster, 128 + signal.SIGTERM)
    assert not trainers_of(job)
    assert [entry["state"] for entry in job.list()] == ["preempted"]
    assert checkpoints(job.only_run())
