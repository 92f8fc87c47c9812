"""A rank that is killed at any moment: what it had logged is in its log, and the run says what happened to it."""

import json
import os
import random
import re
import signal
import time

import processes
from processes import PATIENCE_S, wait_until

KILLS = 100
LONGEST_S = 0.25  # from the first sign of the run to the kill: steps of a fraction of a millisecond


def shown_step(run_dir):
    """The last step that the console of the rank has shown, which it does when it is in the event log."""
    text = "".join(path.read_text() for path in run_dir.glob("logs/**/*") if path.is_file())
    return max(map(int, re.findall(r"step ([0-9]+)/", text)), default=0)


def kill_one(job, delay):
    """The steps in the event log of a run whose rank was killed so many seconds after it had begun."""
    before = set(job.runs.glob("*/events/*"))
    started = job.start(ranks=1)
    log = wait_until(lambda: next(iter(set(job.runs.glob("*/events/rank-*.lsev")) - before), None), PATIENCE_S, "the run")
    run_dir = log.parents[1]
    [victim] = processes.ranks_of(job.directory).values()
    time.sleep(delay)  # the moment is what is tried, not waited for
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


def test_a_rank_killed_at_a_hundred_moments(job):
    rarely = "1000 epochs"  # so that it is mostly killed while it logs
    job.config["train"].update(epochs=100_000, log_every="1 step", eval_every=rarely)
    job.config["checkpoint"] = {"every": rarely}
    job.config["tracking"] = {"sinks": ["console"]}
    job.write()
    rng = random.Random(1)
    steps = [kill_one(job, rng.uniform(0, LONGEST_S)) for _ in range(KILLS)]
    assert len(set(steps)) >= KILLS / 10, "the moments were not different"
