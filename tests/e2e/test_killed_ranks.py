"""A rank that is killed at any moment: its log is complete, and its outcome is recorded."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

import processes
from conftest import long
from processes import LOCKSTEP, TIMEOUT_S, TRAINER, wait_until

MAX_DELAY_S = 0.25  # from the first sign of the run to the kill: steps of a fraction of a millisecond


def shown_step(run_dir):
    """The last step on the console of the rank, which shows steps that are in the event log."""
    text = "".join(path.read_text() for path in run_dir.glob("logs/**/*") if path.is_file())
    return max(map(int, re.findall(r"step ([0-9]+)/", text)), default=0)


def kill_one(job, delay):
    """The steps in the event log of a run whose rank was killed the given number of seconds after the start."""
    before = set(job.runs.glob("*/events/*"))
    started = job.start(ranks=1)
    log = wait_until(lambda: next(iter(set(job.runs.glob("*/events/rank-*.lsev")) - before), None), TIMEOUT_S, "the run")
    run_dir = log.parents[1]
    [victim] = processes.ranks_of(job.directory).values()
    time.sleep(delay)  # the time of the kill is the parameter of the test
    os.kill(victim, signal.SIGKILL)
    ended = processes.finish(started)
    assert ended.code == 75, ended.err
    assert "rank 0 (of 1) failed first: killed by SIGKILL" in ended.err
    [run] = [run for run in job.list() if run["id"] == run_dir.name]
    assert run["state"] == "killed"
    end = json.loads((run_dir / "end.json").read_text())
    assert (end["state"], end["signal"], end["rank"]) == ("killed", 9, 0)
    steps = [step for step, _ in job.series(run_dir.name, "train/loss")]
    assert steps == list(range(1, len(steps) + 1)), "a step is missing"
    assert shown_step(run_dir) <= len(steps)
    return len(steps)


@pytest.mark.parametrize("kills", [10, long(100)])
def test_rank_killed_at_random_times(job, kills):
    rarely = "1000 epochs"  # so that most kills occur while it logs
    job.config["train"].update(epochs=100_000, log_every="1 step", eval_every=rarely)
    job.config["checkpoint"] = {"every": rarely}
    job.config["tracking"] = {"sinks": ["console"]}
    job.write()
    rng = random.Random(1)
    steps = [kill_one(job, rng.uniform(0, MAX_DELAY_S)) for _ in range(kills)]
    assert len(set(steps)) >= kills / 10, "the times of the kills did not differ"


def shown_by_the_dashboard(job):
    """State and exit code of the one run."""
    command = [LOCKSTEP, "ui", "--dir", job.runs]
    dashboard = processes.start(command, job.directory, stdout=subprocess.PIPE)
    try:
        address = re.search(r"http://[^ /]+/", dashboard.stdout.readline()).group()

        def rows():
            with urllib.request.urlopen(address + "api/runs", timeout=TIMEOUT_S) as response:
                return json.load(response)["runs"]

        [row] = wait_until(rows, TIMEOUT_S, "the run")
        return row["state"], row["exit"]
    finally:
        dashboard.terminate()
        processes.finish(dashboard)


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--no-python", "--standalone", "--nproc-per-node", 2, TRAINER]
LAUNCH = [LOCKSTEP, "launch", "-n"]


@pytest.mark.parametrize("start, victim", [
    ([TRAINER], 0), ([*LAUNCH, 1], 0), ([*LAUNCH, 2], 0), ([*LAUNCH, 2], 1), (TORCHRUN, 0), (TORCHRUN, 1),
], ids=["alone", "launched alone", "launched 0", "launched 1", "torchrun 0", "torchrun 1"])
def test_killed_rank_is_reported_the_same_with_and_without_launcher(job, start, victim):
    job.config["train"].update(epochs=100_000, log_every="1 step")
    job.config["tracking"] = {"sinks": ["jsonl"]}
    job.write()
    started = processes.start([*start, job.file], job.directory)
    delivered = wait_until(lambda: list(job.runs.glob("*/sinks/jsonl/*/position.json")), TIMEOUT_S, "a delivery")
    run_dir = delivered[0].parents[3]
    os.kill(started.pid if start == [TRAINER] else processes.ranks_of(job.directory)[victim], signal.SIGKILL)
    processes.finish(started)
    wait_until(lambda: not processes.find(job.directory), TIMEOUT_S, "the agent's end")
    [run] = job.list()
    shown = json.loads(job.query("show", run["id"], "--json"))
    assert (run["state"], run["exit"]) == ("killed", 75)
    assert [shown[key] for key in ("state", "exit", "signal", "failed_rank")] == ["killed", 75, 9, victim]
    end = json.loads((run_dir / "end.json").read_text())
    assert [end[key] for key in ("state", "exit", "signal", "rank")] == ["killed", 75, 9, victim]
    records = map(json.loads, (run_dir / "sinks" / "jsonl" / run["id"] / "records.jsonl").read_text().splitlines())
    [end] = [record for record in records if record["type"] == "end"]
    assert [end[key] for key in ("state", "exit", "signal", "rank")] == ["killed", 75, 9, victim]
    assert shown_by_the_dashboard(job) == ("killed", 75)
