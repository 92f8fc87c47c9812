"""Fixtures of all end-to-end tests: a directory with a run file, and a check that no process keeps running.

`job` trains for real on the first samples of MNIST; runs, logs and run file are below tmp_path.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

import processes
from cluster import Cluster
from network import Network
from processes import LOCKSTEP, SOURCE, TRAINER

MNIST = Path(os.environ.get("LOCKSTEP_MNIST", SOURCE / ".data" / "mnist"))  # a folder of IDX files


def long(*values, id=None):
    """A case that only `make test-all` runs: others show the same, or it takes long."""
    return pytest.param(*values, marks=pytest.mark.long, id=id)


def cases(named, *quick):
    """The values of a dict as cases with its names; `make test` runs only those in `quick`."""
    return [pytest.param(values, marks=() if name in quick else pytest.mark.long, id=name) for name, values in named.items()]


def pytest_configure(config):
    config.addinivalue_line("markers", "long: only `make test-all` runs it")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure is reported with what the launchers of the test have printed into files."""
    report = yield
    job = item.funcargs.get("job") or getattr(item.funcargs.get("cluster"), "job", None)
    if report.when == "call" and report.failed and job is not None:
        for log in sorted(job.directory.glob("*.err")):
            report.sections.append((log.name, log.read_text(errors="replace")[-20_000:]))
    return report


def base_config(directory):
    """A small job: 21 steps per epoch on 1003 samples, a number not divisible by 2 or 3."""
    idx = {"name": "idx", "path": str(MNIST)}
    return {
        "run": {"name": "e2e", "seed": 7, "dir": str(directory / "runs")},
        "model": {"name": "mlp", "hidden": [32]},
        "data": {
            "train": {**idx, "split": "train", "limit": 1003},
            "eval": {**idx, "split": "test", "limit": 301},
            "batch_size": 48,
            "workers": 1,
            "eval_batch_size": 50,
        },
        "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9},
        "train": {"epochs": 1},
        "distributed": {"device": "cpu"},  # where the peers compute; a GPU has room for one rank
    }


class Job:
    """One run file and the runs made from it."""

    def __init__(self, directory):
        self.directory = directory
        self.config = base_config(directory)
        self.file = directory / "run.yaml"
        self.runs = directory / "runs"
        self.write()

    def write(self):
        self.config.setdefault("distributed", {"device": "cpu"})  # also if a test replaced the config
        self.file.write_text(yaml.safe_dump(self.config, sort_keys=False))

    def command(self, *overrides, ranks=None, options=()):
        """`ranks` None: lockstep-trainer alone; a number: under `lockstep launch`."""
        if ranks is None:
            return [TRAINER, self.file, *overrides, *options]
        return [LOCKSTEP, "launch", "-n", ranks, *options, self.file, *overrides]

    def start(self, *overrides, ranks=None, options=(), env=None, **streams):
        command = self.command(*overrides, ranks=ranks, options=options)
        return processes.start(command, self.directory, env, **streams)

    def run(self, *overrides, ranks=None, options=(), env=None, timeout=processes.TIMEOUT_S):
        started = self.start(*overrides, ranks=ranks, options=options, env=env)
        return processes.finish(started, timeout)

    def train(self, *overrides, **how):
        """Trains to the end and returns the run directory."""
        before = set(self.runs.glob("*/run.json"))
        ended = self.run(*overrides, **how)
        assert ended.code == 0, ended.err
        assert ended.err == ""
        new = set(self.runs.glob("*/run.json")) - before
        assert len(new) == 1, f"expected one new run, got {new}"
        return new.pop().parent

    def query(self, *arguments):
        """What `lockstep runs ARGUMENTS` prints about the runs here."""
        command = [LOCKSTEP, "runs", *arguments, "--dir", self.runs]
        ended = processes.run(command, self.directory)
        assert ended.code == 0, ended.err
        return ended.out

    def only_run(self):
        """Its directory."""
        (run,) = self.runs.glob("*/run.json")
        return run.parent

    def list(self):
        return json.loads(self.query("list", "--json"))

    def export(self, run_id):
        rows = self.query("export", run_id, "--format", "jsonl").splitlines()
        return [json.loads(row) for row in rows]

    def series(self, run_id, metric):
        """[(step, value)] of one metric, in the order it was logged."""
        rows = self.export(run_id)
        return [(row["step"], row["value"]) for row in rows if row["metric"] == metric]


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """An S3 server."""
    from object_server import ObjectServer  # imports pyarrow, which few files need

    server = ObjectServer(tmp_path_factory.mktemp("server"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def network(request):
    """NUM_HOSTS hosts (set in the test file; default: two)."""
    network = Network(getattr(request.module, "NUM_HOSTS", 2))
    yield network
    network.close()


@pytest.fixture
def cluster(job, network, request):
    """A cluster of `param` hosts (default: two), each with RANKS_PER_HOST ranks (from the test module; default: one)."""
    ranks = getattr(request.module, "RANKS_PER_HOST", 1)
    cluster = Cluster(job, network, getattr(request, "param", 2), ranks)
    yield cluster
    cluster.stop()
    for host in network.hosts:
        host.mounts.clear()
        host.shares_memory = True


@pytest.fixture(autouse=True)
def nothing_keeps_running(tmp_path):
    yield
    left = processes.find(tmp_path)
    if left and all(" track " in line for line in left.values()):  # agents exit a moment after the run
        deadline = time.monotonic() + processes.TIMEOUT_S
        while left and time.monotonic() < deadline:
            left = processes.find(tmp_path)
            time.sleep(0.02)
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    assert not left, f"still running after the test: {left}"


@pytest.fixture(scope="module")
def peers(tmp_path_factory):
    """Ranks of the Python peer; see peer_ranks.py."""
    host = PeerHost(tmp_path_factory.mktemp("peer"))
    yield host
    host.close()


class PeerHost:
    """A Python process that has loaded torch once and forks the ranks of one job after another."""

    def __init__(self, directory):
        program = [sys.executable, str(SOURCE / "tests" / "e2e" / "peer_ranks.py"), str(directory)]
        self.process = subprocess.Popen(
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=processes.environment(),
        )

    def train(self, world_size, out, *arguments):
        """Trains and writes the weights to `out`; returns the peer's own evaluation."""
        arguments = ["--data", str(MNIST), "--out", str(out), *map(str, arguments)]
        job = {"world_size": world_size, "arguments": arguments}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        response = json.loads(self.process.stdout.readline())
        assert response["ok"], response["output"]
        lines = [line for line in response["output"].splitlines() if line.startswith("{")]  # others are warnings
        return json.loads(lines[-1])

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=processes.TIMEOUT_S)
        self.process.stdout.close()
