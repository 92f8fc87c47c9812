"""`checkpoint.writers: all`: every rank writes its share, and together they equal the checkpoint of a single writer."""

import json
import os
import signal

import pytest

import processes
from conftest import long
from cluster import Cluster
from disk import Disk
from network import Network
from refusals import error_lines
from safetensors_file import assert_usable, checkpoints, read_raw

ALL = "checkpoint.writers=all"
ADAMW = "optimizer={name: adamw, lr: 0.01}"
EVERY_EPOCH = ["checkpoint.every=1 epoch", "checkpoint.keep_last=10"]


@pytest.fixture
def whole(tmp_path_factory):
    """A separate directory, for the run that one rank writes."""
    from conftest import Job

    return Job(tmp_path_factory.mktemp("whole"))


def last(run_dir):
    return run_dir / "checkpoints" / str(checkpoints(run_dir)[-1])


def files_of(checkpoint, kind):
    return sorted(path.name for path in checkpoint.glob(f"{kind}*.safetensors"))


def tensors_of(checkpoint, kind):
    """Of all files, each tensor once."""
    tensors = {}
    for name in files_of(checkpoint, kind):
        for tensor, value in read_raw(checkpoint / name).items():
            assert tensor not in tensors, f"{tensor} is in two files"
            tensors[tensor] = value
    return tensors


def assert_same(one, other):
    assert checkpoints(one)[-1] == checkpoints(other)[-1]
    for kind in ("model", "optimizer", "rng"):
        ours, theirs = (tensors_of(last(run), kind) for run in (one, other))
        assert ours == theirs, f"{kind} differs"


def shares_of(kind, count):
    return [f"{kind}-{i:05}-of-{count:05}.safetensors" for i in range(1, count + 1)]


def resume(job, run_dir, *overrides, ranks):
    ended = job.run(*overrides, ranks=ranks, options=["--resume", run_dir.name], timeout=120)
    assert ended.code == 0, ended.err
    return ended


@pytest.mark.parametrize("background", ["true", "false"])
def test_two_ranks_write_the_same_checkpoint_as_one(job, whole, background):
    settings = [ADAMW, "train.epochs=2", f"checkpoint.async={background}", *EVERY_EPOCH]
    run_dir = job.train(*settings, ALL, ranks=2)
    assert checkpoints(run_dir) == [21, 42]
    for step in ("21", "42"):
        directory = run_dir / "checkpoints" / step
        assert files_of(directory, "model") == shares_of("model", 2)
        assert files_of(directory, "optimizer") == shares_of("optimizer", 2)
        assert files_of(directory, "rng") == ["rng.safetensors"]
        sizes = [(directory / name).stat().st_size for name in shares_of("model", 2) + shares_of("optimizer", 2)]
        assert max(sizes) < sum(sizes)
    index = json.loads((last(run_dir) / "model.safetensors.index.json").read_text())
    tensors = tensors_of(last(run_dir), "model")
    assert index["weight_map"].keys() == tensors.keys()
    assert index["metadata"]["total_size"] == sum(len(raw) for _, _, raw in tensors.values())
    assert_usable(run_dir)
    assert_same(run_dir, whole.train(*settings, ranks=2))


@pytest.mark.parametrize("ranks", [2, 3, 1])
def test_resumed_on_another_number_of_ranks(job, whole, ranks):
    """A checkpoint written by two ranks resumes bit-identically to one written by a single rank."""
    begin = [ADAMW, "train.max_steps=9", "data.batch_size=48", *EVERY_EPOCH]
    shared, single = job.train(*begin, ALL, ranks=2), whole.train(*begin, ranks=2)
    continued = [ADAMW, "train.max_steps=30", "train.epochs=2", *EVERY_EPOCH]
    resume(job, shared, *continued, ALL, ranks=ranks)
    resume(whole, single, *continued, ranks=ranks)
    assert files_of(last(shared), "model") == (shares_of("model", ranks) if ranks > 1 else ["model.safetensors"])
    assert_same(shared, single)


def test_artifact_contains_all_shares(job):
    """Also while the shares are written by a thread of each rank: a version is whole, and equals its checkpoint."""
    run_dir = job.train(ALL, ADAMW, "train.epochs=2", "tracking.checkpoints=all", *EVERY_EPOCH, ranks=2)
    for version, step in ((1, "21"), (2, "42")):
        name, got = f"e2e-model:v{version}", job.directory / f"got-{version}"
        for command in (["get", name, "-o", got], ["verify", name]):
            ended = processes.run([processes.LOCKSTEP, "artifacts", *command, "--dir", job.runs], job.directory)
            assert ended.code == 0, ended.err
        expected = {path.name: path.read_bytes() for path in (run_dir / "checkpoints" / step).iterdir()}
        assert {path.name: path.read_bytes() for path in got.iterdir()} == expected
        assert expected.keys() >= {*shares_of("model", 2), *shares_of("optimizer", 2), "model.safetensors.index.json"}


# Writing it takes most of a second.
LARGE = ["model.hidden=[4096,4096]", "data.train.limit=96", "data.eval.limit=10", "train.epochs=100"]


@pytest.mark.parametrize("rank", [long(0), 1])
def test_rank_killed_while_writing(job, rank):
    started = job.start(*LARGE, ALL, "checkpoint.every=2 steps", ranks=2)

    def is_writing_another():
        return [*job.runs.glob("*/checkpoints/[0-9]*")] and [*job.runs.glob("*/checkpoints/.tmp-[0-9]*/*")]

    processes.wait_until(is_writing_another, 60, "a partial checkpoint")
    os.kill(processes.ranks_of(job.directory)[rank], signal.SIGKILL)
    assert processes.finish(started, 120).code != 0
    (run_dir,) = job.runs.iterdir()
    kept = checkpoints(run_dir)
    ended = resume(job, run_dir, *LARGE, ALL, f"train.max_steps={kept[-1] + 1}", ranks=2)
    assert "cannot be used" not in ended.out
    assert checkpoints(run_dir)[-1] == kept[-1] + 1
    assert not list((run_dir / "checkpoints").glob(".tmp-*"))


def flip_a_byte(path):
    content = bytearray(path.read_bytes())
    content[-5] ^= 0x10
    path.write_bytes(content)


DAMAGES = {"missing": lambda path: path.unlink(), "altered": flip_a_byte}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_corrupt_share(job, damage):
    settings = ["checkpoint.every=10 steps", "checkpoint.keep_last=10"]
    run_dir = job.train(*settings, ALL, "train.max_steps=20", ranks=2)
    name = "model-00002-of-00002.safetensors"
    damage(run_dir / "checkpoints" / "20" / name)
    ended = resume(job, run_dir, *settings, "train.max_steps=15", ranks=2)
    (warning,) = [line for line in ended.out.splitlines() if "cannot be used" in line]
    assert "checkpoint 20" in warning and name in warning
    assert checkpoints(run_dir) == [10, 15]


def test_only_corrupt_shares(job):
    run_dir = job.train(ALL, "train.max_steps=2", ranks=2)
    name = "optimizer-00001-of-00002.safetensors"
    (last(run_dir) / name).unlink()
    ended = job.run("train.max_steps=3", ALL, ranks=2, options=["--resume", run_dir.name])
    assert ended.code == 75
    assert "none of the 1 checkpoints" in ended.err.splitlines()[0] and name in ended.err.splitlines()[0]


def test_fine_tuning_from_shares(job, whole):
    made = job.train(ALL, "train.max_steps=3", ranks=2)
    index = last(made) / "model.safetensors.index.json"
    tuned = whole.train(f"train.init_from={index}", "train.max_steps=1", "optimizer.lr=1e-30")
    assert tensors_of(last(tuned), "model") == tensors_of(last(made), "model")

    share = last(made) / "model-00002-of-00002.safetensors"
    share.rename(share.with_name("elsewhere"))
    ended = whole.run(f"train.init_from={index}", ranks=2)
    assert ended.code == 78
    assert "train.init_from" in ended.err.splitlines()[0] and share.name in ended.err.splitlines()[0]


@pytest.fixture
def disk(job, nothing_keeps_running):
    disk = Disk(job.directory / "disk")
    yield disk
    disk.unmount()


def test_disk_fills_up(job, disk):
    """The rank that fails reports it; existing checkpoints are kept, and the run resumes from them."""
    disk.mount("size=4m")
    settings = [f"run.dir={disk.path}/runs", "model.hidden=[64]", ALL, "train.epochs=100"]
    settings += ["checkpoint.every=1 step", "checkpoint.keep_last=1000"]
    ended = job.run(*settings, ranks=2, timeout=120)
    assert ended.code == 75, ended.err
    reported = error_lines(ended, 2)
    assert any("No space left on device" in line and "checkpoints" in line for line in reported)
    (run_dir,) = (disk.path / "runs").iterdir()
    saved = checkpoints(run_dir)
    disk.mount("size=64m")
    job.runs = disk.path / "runs"
    ended = resume(job, run_dir, *settings, f"train.max_steps={saved[-1] + 2}", ranks=2)
    assert "cannot be used" not in ended.out
    assert [path.name for path in sorted((run_dir / "checkpoints").iterdir(), key=lambda path: int(path.name))] == [
        str(step) for step in [*saved, saved[-1] + 1, saved[-1] + 2]]


@pytest.fixture
def two_disks(job, tmp_path):
    network = Network(2)
    job.runs.mkdir(exist_ok=True)
    (tmp_path / "other").mkdir()
    network.hosts[1].mounts = {job.runs: tmp_path / "other"}
    cluster = Cluster(job, network, ranks=2)
    yield cluster
    cluster.stop()
    network.close()


def test_nodes_with_separate_disks(job, whole, two_disks):
    """Ranks that do not see the directory of rank 0 write nothing, and the run logs a warning."""
    run_dir = two_disks.train(ALL, ADAMW, "train.max_steps=4")
    assert files_of(last(run_dir), "model") == shares_of("model", 2)
    assert_usable(run_dir)
    assert not list((run_dir.parent.parent / "other").glob("*/checkpoints"))
    assert_same(run_dir, whole.train(ADAMW, "train.max_steps=4", "distributed.backend=gloo", ranks=4))
