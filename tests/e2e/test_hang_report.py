"""A hanging rank is reported within seconds, with its stack; the job ends after the timeout."""

import json
import os
import re
import selectors
import signal
import time

import pytest

import processes
from conftest import long
from odd_rank import use_odd_rank
from processes import BIN, LOCKSTEP, TIMEOUT_S, ranks_of, wait_until
from safetensors_file import checkpoints
from test_ending import start_stepping, steps_of

DRIVER = BIN.parent / "tests" / "bin" / "hang_driver"


def read_until(process, stream, pattern, timeout):
    """(seconds, text) until `pattern` appears in `stream` of `process`."""
    begin = time.monotonic()
    text = ""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while not re.search(pattern, text):
            left = begin + timeout - time.monotonic()
            assert left > 0, f"no {pattern!r} within {timeout} s in: {text}"
            if selector.select(left):
                chunk = os.read(stream.fileno(), 65536).decode()
                assert chunk, f"no {pattern!r} before the end of: {text}"
                text += chunk
    return time.monotonic() - begin, text


NAMED_S = 5  # from the start of a hang until the launcher has reported the rank
TRIES = 3  # the best one counts, since other load only adds to it


def named(start, pattern):
    """(launcher, its output until `pattern`), which must appear in time; the driver prints the start time."""
    for number in range(TRIES):
        started = start(number)
        _, text = read_until(started, started.stdout, r"wrong at [0-9.]+", 60)
        wrong_at = float(re.search(r"wrong at ([0-9.]+)", text)[1])
        _, text = read_until(started, started.stderr, pattern, 20)
        if time.time() - wrong_at < NAMED_S:
            return started, text
        started.kill()
        processes.finish(started)
    raise AssertionError(f"not named within {NAMED_S} s in {TRIES} tries: {text}")


def launch(tmp_path, mode, backend="auto"):
    def start(number):
        options = ["-n", 2, "--log-dir", tmp_path / f"logs{number}", "--program", DRIVER]
        return processes.start([LOCKSTEP, "launch", *options, mode, backend], tmp_path)

    return start


def test_rank_sleeping_in_its_data_loader(tmp_path):
    started, text = named(launch(tmp_path, "sleep"), r"stacks of rank 1:(.*\n){4}")
    assert "rank 1 (" in text and "has kept the others waiting" in text
    assert "it is at step 3 of 5, waiting for data" in text
    assert "rank 0: step 3 of 5, backward: in all_reduce 'gradients' of Float [1000]" in text
    assert "poll" in text, "the stack shows where it sleeps"
    ended = processes.finish(started)
    assert ended.code == 75
    text += ended.err
    warned = float(re.search(r"warning: rank 1 .*has kept the others waiting for ([0-9.]+) s", text)[1])
    failure = re.search(r"error: rank 1 .*has kept the others waiting for ([0-9.]+) s.*give up after 8 s", text)
    assert float(failure[1]) > warned, "the seconds are current"
    report = "rank 1 (of 2) kept the others waiting until they gave up after 8 s\n  it was at step 3 of 5, waiting for data"
    assert report in text, "the final report names the culprit too"
    dump = max(tmp_path.glob("logs*/attempt_0/hang.txt")).read_text()
    assert "rank 0 (" in dump and "rank 1 (" in dump and "sleep_in_loader" not in dump.split("rank 1")[0]


def test_dataset_hangs_on_one_rank(job):
    """The trainer itself, with a plugin: its training thread waits for its loader."""
    use_odd_rank(job, sleeps_on=1)
    started, text = named(lambda _: job.start(ranks=2, options=["--stop-grace", "1s"]), r"stacks of rank 1:(.*\n){4}")
    assert re.search(r"rank 1 \(.*has kept the others waiting", text)
    assert "it is at step 26 of 50, waiting for data" in text
    assert "lockstep::data::Loader::next()" in text
    started.send_signal(signal.SIGTERM)
    assert processes.finish(started).code == 143


def test_slow_rank_is_identified_in_metrics(job):
    use_odd_rank(job, slow_on=1)
    run = job.train("train.log_every=25 steps", "data.workers=0", ranks=2)
    last = {row["metric"]: row["value"] for row in job.export(run.name)}
    assert last["time/slowest_rank"] == 1
    assert last["time/slowest_rank_s"] >= 0.1 > 2 * last["time/other_ranks_s"] > 0
    assert last["time/data_wait/max"] >= 0.1 > 2 * last["time/data_wait/min"]


def test_rank_skips_a_collective(tmp_path):
    """Ranks of one host immediately detect a collective mismatch."""
    started, text = named(launch(tmp_path, "skip"), r"failed first(.*\n){2}")
    ended = processes.finish(started)
    assert ended.code == 75
    text += ended.err
    assert "collective mismatch" in text
    assert "rank 0 called all_reduce of 1000 float32 (sum), rank 1 called barrier" in text
    assert re.search(r"\[rank 0\] .*\(step 5 of 5, backward\)", text), "each rank reports its position"
    assert re.search(r"\[rank 1\] .*\(step 5 of 5, logging\)", text)


def test_rank_skips_a_collective_over_a_network(tmp_path):
    """Ranks wait in Gloo; the launcher reports which operation they wait for."""
    started, text = named(launch(tmp_path, "skip", backend="gloo"), "warning: (.*\n){3}")
    assert "they are in different operations" in text
    assert "rank 0: step 5 of 5, backward: in all_reduce 'gradients' of Float [1000]" in text
    assert "rank 1: step 5 of 5, logging: in barrier 'end of training'" in text
    assert processes.finish(started).code == 75


def test_rank_with_mismatched_tensor_shape(tmp_path):
    started, text = named(launch(tmp_path, "shape"), r"(failed first|all 2 ranks failed)(.*\n){2}")
    ended = processes.finish(started)
    assert ended.code == 75
    text += ended.err
    assert "rank 0 called all_reduce of 1000 float32 (sum), rank 1 called all_reduce of 5000 float32" in text
    assert len(re.findall(r"\[rank [01]\] .*\(step 3 of 5, backward\)", text)) == 2


def start_and_step_on(job, *overrides):
    """Two ranks. The first step takes long, and raises the usual step time until it has decayed."""
    started = start_stepping(job, *overrides, ranks=2)
    wait_until(lambda: started.poll() is not None or len(steps_of(job)) > 300, TIMEOUT_S, "300 steps")
    assert started.poll() is None, started.communicate()
    return started


def test_stopped_trainer_is_reported(job):
    """The process cannot respond; the kernel reports that it is stopped. It continues after SIGCONT."""
    started = start_and_step_on(job)
    rank = ranks_of(job.directory)[1]
    os.kill(rank, signal.SIGSTOP)
    begin = time.monotonic()
    _, text = read_until(started, started.stderr, "is stopped", 20)
    assert time.monotonic() - begin < 8
    assert "rank 1 (" in text and f"process {rank})" in text
    os.kill(rank, signal.SIGCONT)
    read_until(started, started.stderr, "the ranks continue", 20)
    started.send_signal(signal.SIGTERM)
    assert processes.finish(started).code == 143
    assert checkpoints(next(job.runs.iterdir()))


@pytest.mark.parametrize("victim, backend", [(0, "auto"), long(0, "gloo"), long(1, "auto"), (1, "gloo")])
def test_step_timeout_ends_the_job(job, victim, backend):
    overrides = ["distributed.step_timeout=6 s", "distributed.hang_warning=1 s", f"distributed.backend={backend}"]
    started = start_and_step_on(job, *overrides)
    os.kill(ranks_of(job.directory)[victim], signal.SIGSTOP)
    ended = processes.finish(started)
    assert ended.code == 75, ended.err
    assert f"rank {victim} (of 2) kept the others waiting until they gave up after 6 s: it is stopped" in ended.err
    assert "waited" in ended.err
    [run] = job.list()
    assert run["state"] == "failed"
    end = json.loads((job.runs / run["id"] / "end.json").read_text())
    assert (end["rank"], end["exit"]) == (victim, 75)
