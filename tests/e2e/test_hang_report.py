"""A rank that hangs is named within seconds, with its place; the job ends when its time is up."""

import os
import re
import selectors
import signal
import time

import pytest

import processes
from processes import BIN, LOCKSTEP, ranks_of
from safetensors_file import checkpoints
from test_ending import start_stepping

DRIVER = BIN.parent / "tests" / "bin" / "hang_driver"


def read_until(process, stream, pattern, timeout):
    """(seconds, text): until `pattern` stands in what `stream` of `process` says."""
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


def launch(tmp_path, mode, backend="auto"):
    options = ["-n", 2, "--log-dir", tmp_path / "logs", "--program", DRIVER]
    command = [LOCKSTEP, "launch", *options, mode, backend]
    return processes.start(command, tmp_path)


def test_a_rank_asleep_in_its_data_loader(tmp_path):
    started = launch(tmp_path, "sleep")
    seconds, text = read_until(started, started.stderr, r"stacks of rank 1:(.*\n){8}", 20)
    assert "rank 1 (" in text and "keeps the others waiting" in text
    assert "it is at step 3 of 5, waiting for data" in text
    assert "rank 0: step 3 of 5, backward: in all_reduce 'gradients' of Float [1000]" in text
    assert "poll" in text, "the stack says where it sleeps"
    waited = float(re.search(r"waiting for ([0-9.]+) s", text)[1])
    assert waited < 5
    ended = processes.finish(started, 30)
    assert ended.code == 75
    text += ended.err
    assert "error: rank 1 (" in text and "give up after 8 s" in text
    assert "note: rank 1 (" in text, "the final report names the culprit too"
    dump = (tmp_path / "logs" / "attempt_0" / "hang.txt").read_text()
    assert "rank 0 (" in dump and "rank 1 (" in dump and "sleep_in_loader" not in dump.split("rank 1")[0]


def test_a_rank_that_skips_a_collective(tmp_path):
    """Ranks of one host see at once that they do different things."""
    ended = processes.finish(launch(tmp_path, "skip"), 20)
    assert ended.code == 75
    assert "ranks do not do the same" in ended.err
    assert "rank 0 calls all_reduce of 1000 float32 (sum)" in ended.err
    assert "rank 1 calls barrier" in ended.err


def test_a_rank_that_skips_a_collective_over_a_network(tmp_path):
    """Gloo's ranks wait; the launcher says for what."""
    started = launch(tmp_path, "skip", backend="gloo")
    _, text = read_until(started, started.stderr, "warning: (.*\n){3}", 20)
    assert "they are in different operations" in text
    assert "all_reduce 'gradients'" in text and "barrier 'end of training'" in text
    assert processes.finish(started, 40).code == 75


def test_a_rank_with_a_tensor_of_another_shape(tmp_path):
    ended = processes.finish(launch(tmp_path, "shape"), 20)
    assert ended.code == 75
    assert "rank 1 calls all_reduce of 5000 float32" in ended.err


def test_a_stopped_trainer(job):
    """Nothing in it can answer; the kernel says that it is stopped. It goes on when it may."""
    started = start_stepping(job, ranks=2)
    rank = ranks_of(job.directory)[1]
    os.kill(rank, signal.SIGSTOP)
    begin = time.monotonic()
    _, text = read_until(started, started.stderr, "is stopped", 20)
    assert time.monotonic() - begin < 8
    assert "rank 1 (" in text and f"process {rank})" in text
    os.kill(rank, signal.SIGCONT)
    read_until(started, started.stderr, "the ranks go on", 20)
    started.send_signal(signal.SIGTERM)
    assert processes.finish(started, 30).code == 143
    assert checkpoints(next(job.runs.iterdir()))


def test_a_step_that_takes_too_long_ends_the_job(job):
    started = start_stepping(job, "distributed.step_timeout=6 s", "distributed.hang_warning=1 s", ranks=2)
    os.kill(ranks_of(job.directory)[0], signal.SIGSTOP)
    ended = processes.finish(started, 60)
    assert ended.code == 75, ended.err
    assert "rank 0 (" in ended.err and "is stopped" in ended.err
    assert "waited" in ended.err
