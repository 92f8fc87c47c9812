"""A full or read-only disk: exit code 75, one clear line, no partial files; the run can be resumed."""

import contextlib
import re

import pytest

from disk import Disk
from processes import TIMEOUT_S, finish, start, wait_until
from refusals import ALONE_AND_LAUNCHED, error_lines
from safetensors_file import checkpoints


@pytest.fixture
def disk(job, nothing_keeps_running):
    disk = Disk(job.directory / "disk")
    yield disk
    disk.unmount()


@ALONE_AND_LAUNCHED
def test_disk_full_at_startup(job, disk, ranks):
    disk.mount("size=64k")
    (disk.path / "filler").write_bytes(bytes(64 << 10))
    ended = job.run(f"run.dir={disk.path}/runs", ranks=ranks)
    assert ended.code == 75
    first = ended.err.splitlines()[0]
    assert "No space left on device" in first and str(disk.path) in first
    assert [path.name for path in disk.path.iterdir()] == ["filler"]


@ALONE_AND_LAUNCHED
def test_disk_fills_up_during_training(job, disk, ranks):
    disk.mount("size=4m")
    every_step = ["checkpoint.every=1 step", "checkpoint.keep_last=1000", "train.epochs=100"]
    overrides = [f"run.dir={disk.path}/runs", "model.hidden=[64]", *every_step]
    ended = job.run(*overrides, ranks=ranks)
    assert ended.code == 75, ended.err
    reported = error_lines(ended, ranks)
    assert any("No space left on device" in line and "checkpoints" in line for line in reported)
    run_dir = next((disk.path / "runs").iterdir())
    saved = checkpoints(run_dir)
    assert len(saved) >= 2
    names = {path.name for path in (run_dir / "checkpoints").iterdir()}
    assert names == {str(step) for step in saved}, "a partial checkpoint was left"
    job.runs = disk.path / "runs"
    assert [entry["state"] for entry in job.list()] == ["failed"]

    disk.mount("size=64m")
    overrides += [f"train.max_steps={saved[-1] + 3}"]
    resumed = job.run(*overrides, ranks=ranks, options=["--resume", run_dir.name])
    assert resumed.code == 0, resumed.err
    assert "cannot be used" not in resumed.out
    assert checkpoints(run_dir)[: len(saved)] == saved
    assert [entry["state"] for entry in job.list()] == ["finished"]


@pytest.mark.parametrize("backend, ranks", [("auto", 2), ("gloo", 3)])
def test_rank_that_failed_on_the_full_disk_is_named(job, disk, backend, ranks):
    """Without space even for the error file of the failed rank: its peers only detect that it is gone."""
    disk.mount("size=12m")
    overrides = [f"run.dir={disk.path}/runs", "checkpoint.every=20 steps", "train.epochs=1000", "checkpoint.async=false"]
    overrides.append(f"distributed.backend={backend}")
    started = job.start(*overrides, ranks=ranks, options=["--max-restarts", 5, "--restart-delay", 0])
    wait_until(lambda: list(disk.path.glob("runs/*/checkpoints/[0-9]*")), TIMEOUT_S, "a first checkpoint")

    def has_ended_on_a_full_disk():
        disk.fill()
        return started.poll() is not None

    wait_until(has_ended_on_a_full_disk, TIMEOUT_S, "all restarts are used up")
    ended = finish(started)
    assert ended.code == 75, ended.err
    named = re.findall(r"rank (\d) \(of \d\) failed first: .*\n  (.*)", ended.err)
    assert [rank for rank, _ in named] == ["0"] * 6, ended.err
    assert all("No space left on device" in text for _, text in named)


@contextlib.contextmanager
def logging_on_a_full_disk(job, disk):
    """A run that has logged steps when its disk becomes full: its process, and the file with its output."""
    disk.mount("size=3m")
    job.runs = disk.path / "runs"
    job.config["run"]["dir"] = str(job.runs)
    job.config["train"].update(epochs=100_000, log_every="1 step", eval_every="1000000 epochs")
    job.config["checkpoint"] = {"every": "1000000 epochs"}
    job.write()
    printed = job.directory / "out"
    with printed.open("w") as out:
        started = job.start(stdout=out)
        wait_until(lambda: "step" in printed.read_text(), TIMEOUT_S, "a step")
        disk.fill()
        wait_until(lambda: "records are kept in memory" in printed.read_text(), TIMEOUT_S, "the message that logging waits")
        yield started, printed


def test_temporarily_full_disk_loses_no_record(job, disk):
    with logging_on_a_full_disk(job, disk) as (started, printed):
        assert "cannot reserve" in printed.read_text() and "No space left on device" in printed.read_text()
        disk.make_room()
        wait_until(lambda: "the disk has space again" in printed.read_text(), TIMEOUT_S, "the message that there is space again")
        job.query("stop", job.only_run().name)
        assert finish(started).code == 0
    text = printed.read_text()
    assert "no record was dropped" in text and "not written" not in text
    (entry,) = job.list()
    assert entry["state"] == "finished"
    steps = [step for step, _ in job.series(entry["id"], "train/loss")]
    assert steps == list(range(1, steps[-1] + 1)) and steps[-1] == entry["step"]


@ALONE_AND_LAUNCHED
def test_limit_on_file_sizes(job, nothing_keeps_running, ranks):
    started = start(["prlimit", "--fsize=20480", *job.command(ranks=ranks)], job.directory)
    ended = finish(started)
    assert ended.code == 75, ended
    assert any("File too large" in line for line in error_lines(ended, ranks)), ended.err


def test_outcome_is_recorded_on_a_full_disk(job, disk):
    with logging_on_a_full_disk(job, disk) as (started, printed):
        started.terminate()
        ended = finish(started)
    assert ended.code == 75 and "No space left on device" in ended.err  # there is no space for its checkpoint
    (entry,) = job.list()
    assert (entry["state"], entry["exit"]) == ("failed", 75)


@ALONE_AND_LAUNCHED
def test_read_only_run_directory(job, disk, ranks):
    disk.mount("size=1m")
    disk.mount("ro")
    ended = job.run(f"run.dir={disk.path}/runs", ranks=ranks)
    assert ended.code == 75
    first = ended.err.splitlines()[0]
    assert "Read-only file system" in first and str(disk.path) in first
    assert not list(disk.path.iterdir())


@ALONE_AND_LAUNCHED
def test_run_directory_is_a_file(job, ranks):
    ended = job.run(f"run.dir={job.file}", ranks=ranks)
    assert ended.code == 78
    assert str(job.file) in ended.err.splitlines()[0]
