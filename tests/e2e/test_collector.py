"""A trainer that sends its run to a collector while it trains: identical files, whatever is killed meanwhile."""

import json
import os
import random
import signal

import pytest

import processes
from processes import LOCKSTEP, TIMEOUT_S, environment, free_port, wait_until
from test_tracking import agents_of

TOKEN = "a token of the tests"
NUM_KILLS = int(os.environ.get("LOCKSTEP_COLLECTOR_KILLS", "6"))
SEED = int(os.environ.get("LOCKSTEP_COLLECTOR_SEED", "5"))
NUM_RESTARTS = 3  # of an agent, by the trainer
ENDLESS = ["train.epochs=1000000", "train.log_every=1 step", "checkpoint.every=1000 epochs", "train.eval_every=1000 epochs"]


class Collector:
    """On `host` of a network, or here."""

    def __init__(self, directory, host=None):
        self.host, self.address = host, host.address if host else "127.0.0.1"
        self.runs, self.port = directory / "collected", free_port()
        self.runs.mkdir()
        self.token_file = directory / "token"
        self.token_file.write_text(TOKEN)
        self.token_file.chmod(0o600)
        self.process, self.more = None, []
        self.start()

    def start(self):
        command = [LOCKSTEP, "ui", "--receive", "--dir", self.runs, "--token-file", self.token_file, "--host", self.address,
                   "--port", str(self.port), *self.more]
        self.process = (self.host or processes).start(command, self.runs)
        assert "dashboard of" in self.process.stdout.readline(), self.process.stderr.read()

    def kill(self):
        self.process.kill()
        self.process.communicate(timeout=TIMEOUT_S)

    def bytes_of(self, run):
        return sum(log.stat().st_size for log in (self.runs / run).glob("events/*"))

    def list(self):
        ended = processes.run([LOCKSTEP, "runs", "list", "--json", "--dir", self.runs], self.runs)
        assert ended.code == 0, ended.err
        return {entry["id"]: entry["state"] for entry in json.loads(ended.out)}


@pytest.fixture
def collector(tmp_path):
    started = Collector(tmp_path)
    yield started
    started.kill()


def options(collector, more=""):
    sink = f"{{name: collector, url: 'http://{collector.address}:{collector.port}', timeout: 2 s{more}}}"
    return ["tracking.ranks=all", "tracking.system_every=1 s", f"tracking.sinks=[{sink}]"]


def contents(run_dir):
    """{name: bytes} of the files that describe a run."""
    files = [*run_dir.glob("*.json"), *run_dir.glob("*.yaml"), *run_dir.glob("events/*"), *run_dir.glob("ends/*")]
    return {str(file.relative_to(run_dir)): file.read_bytes() for file in files
            if file.name not in ("received.json", "stop_request.json")}


def complete_bytes(log):
    """The length of the complete records: a killed rank's log ends with a part of a record or with reserved space."""
    at = 16
    while True:
        length = int.from_bytes(log[at:at + 4], "little")
        if not 0 < length <= 16 << 20 or at + 8 + length > len(log):
            return at
        at += 8 + length


def states(job):
    return {entry["id"]: entry["state"] for entry in job.list()}


def wait_for_growth(collector, run, more):
    before = collector.bytes_of(run)
    wait_until(lambda: collector.bytes_of(run) > before + more, TIMEOUT_S, "records that arrive at the collector")


def stop_and_compare(job, collector, training, run_dir):
    """The run ends, and its copy has the same bytes and state."""
    job.query("stop", run_dir.name)
    assert processes.finish(training).code == 0
    wait_until(lambda: not agents_of(run_dir), TIMEOUT_S, "the agent's end")
    assert contents(collector.runs / run_dir.name) == contents(run_dir)
    assert collector.list() == states(job)


def test_kills_of_agent_and_collector_lose_and_duplicate_nothing(job, collector):
    chosen = random.Random(SEED)
    training = job.start(*ENDLESS, *options(collector), ranks=2, env=environment(LOCKSTEP_COLLECTOR_TOKEN=TOKEN))
    wait_until(lambda: list(job.runs.glob("*/run.json")), TIMEOUT_S, "the run")
    run_dir = job.only_run()
    run = run_dir.name
    wait_for_growth(collector, run, 0)
    by_hand = []
    for kill in range(NUM_KILLS):
        wait_for_growth(collector, run, chosen.randrange(20_000))
        if kill % 2:
            victims = agents_of(run_dir)
            for agent in victims:
                os.kill(agent, signal.SIGKILL)
            if kill // 2 >= NUM_RESTARTS:
                by_hand.append(processes.start([LOCKSTEP, "track", run_dir, "--logs", 2], job.directory,
                                               environment(LOCKSTEP_COLLECTOR_TOKEN=TOKEN)))
            wait_until(lambda: set(agents_of(run_dir)) - set(victims), TIMEOUT_S, "another agent")
        else:
            collector.kill()
            assert set(collector.list().values()) == {"lost"}  # the sender has not ended, and is not connected
            collector.start()
    wait_for_growth(collector, run, 0)
    assert set(wait_until(lambda: set(collector.list().values()) == {"running"} and collector.list(), TIMEOUT_S,
                          "the running run")) == {f"{run}-rank-0", f"{run}-rank-1"}
    job.query("stop", run, "--reason", "enough")
    assert processes.finish(training).code == 0
    for agent in by_hand:
        processes.finish(agent)
    wait_until(lambda: not agents_of(run_dir), TIMEOUT_S, "the agent's end")
    assert contents(collector.runs / run) == contents(run_dir)
    assert collector.list() == states(job) and set(states(job).values()) == {"finished"}


def test_a_collector_that_is_down_delays_nothing_and_receives_the_run_later(job, collector):
    collector.kill()
    ended = job.run(*options(collector), "tracking.finish_timeout=1 s", "tracking.upload_timeout=1 s",
                    env=environment(LOCKSTEP_COLLECTOR_TOKEN=TOKEN))
    assert ended.code == 0
    run_dir = job.only_run()
    wait_until(lambda: not agents_of(run_dir), TIMEOUT_S, "the agent's end")
    assert not (collector.runs / run_dir.name).exists()
    collector.start()
    ended = processes.run([LOCKSTEP, "sync", run_dir], job.directory, environment(LOCKSTEP_COLLECTOR_TOKEN=TOKEN))
    assert ended.code == 0, ended.err
    assert contents(collector.runs / run_dir.name) == contents(run_dir)
    assert collector.list() == states(job)
    assert TOKEN not in "".join(file.read_text(errors="replace") for file in run_dir.rglob("*") if file.is_file())


def test_a_killed_rank_is_a_killed_run_at_the_collector(job, collector):
    training = job.start(*ENDLESS, *options(collector), ranks=2, env=environment(LOCKSTEP_COLLECTOR_TOKEN=TOKEN))
    wait_until(lambda: list(job.runs.glob("*/run.json")), TIMEOUT_S, "the run")
    run_dir = job.only_run()
    wait_for_growth(collector, run_dir.name, 10_000)
    os.kill(processes.ranks_of(job.file)[1], signal.SIGKILL)
    assert processes.finish(training).code == 75
    wait_until(lambda: not agents_of(run_dir), TIMEOUT_S, "the agent's end")
    received = contents(collector.runs / run_dir.name)
    assert received.keys() == contents(run_dir).keys()
    for name, bytes_here in contents(run_dir).items():
        is_log = name.startswith("events/")
        assert received[name] == (bytes_here[:complete_bytes(bytes_here)] if is_log else bytes_here), name
    assert collector.list() == states(job) and set(states(job).values()) == {"killed"}


def test_a_run_that_vanishes_and_tokens_that_change_while_it_is_sent(job, collector):
    tokens = collector.runs.parent / "tokens"
    secret = processes.run([LOCKSTEP, "ui", "token", "add", "node", "--role", "send", "--tokens", tokens], job.directory).out.strip()
    collector.kill()
    collector.more = ["--tokens", tokens]
    collector.start()
    training = job.start(*ENDLESS, *options(collector), ranks=2, env=environment(LOCKSTEP_COLLECTOR_TOKEN=secret))
    wait_until(lambda: list(job.runs.glob("*/run.json")), TIMEOUT_S, "the run")
    run_dir = job.only_run()
    wait_for_growth(collector, run_dir.name, 10_000)
    (collector.runs / run_dir.name).rename(collector.runs.parent / "moved away")
    wait_until((collector.runs / run_dir.name / "run.json").exists, TIMEOUT_S, "the run, sent again from its start")
    for name in ("ada", "bob", "cy"):
        assert processes.run([LOCKSTEP, "ui", "token", "add", name, "--role", "read", "--tokens", tokens], job.directory).code == 0
    wait_for_growth(collector, run_dir.name, 10_000)
    tokens.chmod(0o644)
    status = run_dir / "sinks" / "agent-00000.json"
    wait_until(lambda: "status 503" in status.read_text(), TIMEOUT_S, "the report of the problem")
    tokens.chmod(0o600)
    wait_for_growth(collector, run_dir.name, 10_000)
    stop_and_compare(job, collector, training, run_dir)


@pytest.fixture
def remote_collector(tmp_path, cluster):
    """On alpha."""
    started = Collector(tmp_path, cluster.hosts[0])
    yield started
    started.kill()


@pytest.mark.parametrize("shares_disk", [True, False])
def test_several_hosts_send_one_run(job, cluster, remote_collector, shares_disk):
    job.runs.mkdir()
    if not shares_disk:
        (job.directory / "disk of beta").mkdir()
        cluster.hosts[1].mounts[job.runs] = job.directory / "disk of beta"
    run_dir = cluster.train(*options(remote_collector, f", token_file: {remote_collector.token_file}"))
    wait_until(lambda: not agents_of(run_dir), TIMEOUT_S, "the agents' end")
    names = sorted(name for name in contents(run_dir) if name.startswith("events/"))
    assert names == ["events/node-00000.lsev", "events/node-00001.lsev", "events/rank-00000.lsev", "events/rank-00001.lsev"]
    assert contents(remote_collector.runs / run_dir.name) == contents(run_dir)
    assert remote_collector.list() == states(job) and set(states(job).values()) == {"finished"}


def test_network_cuts(job, cluster, network, remote_collector):
    beta = cluster.hosts[1]
    training = beta.start(job.command(*ENDLESS, *options(remote_collector), ranks=1), job.directory,
                          environment(LOCKSTEP_COLLECTOR_TOKEN=TOKEN))
    wait_until(lambda: list(job.runs.glob("*/run.json")), TIMEOUT_S, "the run")
    run_dir = job.only_run()
    for _ in range(2):
        wait_for_growth(remote_collector, run_dir.name, 10_000)
        network.cut(beta)
        status = run_dir / "sinks" / "agent-00000.json"
        wait_until(lambda: "the collector at" in status.read_text(), TIMEOUT_S, "the report of the outage")
        network.restore(beta)
    wait_for_growth(remote_collector, run_dir.name, 0)
    stop_and_compare(job, remote_collector, training, run_dir)
