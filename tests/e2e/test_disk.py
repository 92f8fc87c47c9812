"""A full or read-only disk: code 75, one clear line, nothing half-written; the run can go on."""

import pytest

from disk import Disk
from refusals import ALONE_AND_LAUNCHED, error_lines
from safetensors_file import checkpoints


@pytest.fixture
def disk(job, nothing_keeps_running):
    disk = Disk(job.directory / "disk")
    yield disk
    disk.unmount()


@ALONE_AND_LAUNCHED
def test_disk_that_is_full_at_the_start(job, disk, ranks):
    disk.mount("size=64k")
    (disk.path / "filler").write_bytes(bytes(64 << 10))
    ended = job.run(f"run.dir={disk.path}/runs", ranks=ranks)
    assert ended.code == 75
    first = ended.err.splitlines()[0]
    assert "No space left on device" in first and str(disk.path) in first
    assert [path.name for path in disk.path.iterdir()] == ["filler"]


@ALONE_AND_LAUNCHED
def test_disk_that_fills_up_during_training(job, disk, ranks):
    disk.mount("size=4m")
    every_step = ["checkpoint.every=1 step", "checkpoint.keep_last=1000", "train.epochs=100"]
    overrides = [f"run.dir={disk.path}/runs", "model.hidden=[64]", *every_step]
    ended = job.run(*overrides, ranks=ranks)
    assert ended.code == 75, ended.err
    told = error_lines(ended, ranks)
    assert any("No space left on device" in line and "checkpoints" in line for line in told)
    run_dir = next((disk.path / "runs").iterdir())
    saved = checkpoints(run_dir)
    assert len(saved) >= 2
    names = {path.name for path in (run_dir / "checkpoints").iterdir()}
    assert names == {str(step) for step in saved}, "half a checkpoint was left"
    job.runs = disk.path / "runs"
    assert [entry["state"] for entry in job.list()] == ["failed"]

    disk.mount("size=64m")
    overrides += [f"train.max_steps={saved[-1] + 3}"]
    resumed = job.run(*overrides, ranks=ranks, options=["--resume", run_dir.name])
    assert resumed.code == 0, resumed.err
    assert "cannot be used" not in resumed.out
    assert checkpoints(run_dir)[: len(saved)] == saved
    assert [entry["state"] for entry in job.list()] == ["finished"]


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
def test_run_directory_that_is_a_file(job, ranks):
    ended = job.run(f"run.dir={job.file}", ranks=ranks)
    assert ended.code == 75
    assert str(job.file) in ended.err.splitlines()[0]
