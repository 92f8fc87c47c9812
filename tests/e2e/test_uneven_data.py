"""Ranks that have different data: nobody waits for a batch that does not come, and all are told before the first step."""

import shutil

import pytest

from odd_rank import use_odd_rank
from test_streaming import shards  # noqa: F401


def test_shards_that_are_not_the_same_on_every_host(shards, cluster):  # noqa: F811
    """One host lacks the last shard, as after a copy that was cut off. Over a network a rank would wait."""
    alpha, beta = cluster.hosts
    folder = shards.directory / "shards"
    own = shutil.copytree(folder, shards.directory / "own")
    last = max(own.iterdir())
    beta.mounts[folder] = own
    last.unlink()
    cluster.start_all()
    ended = [cluster.finish(host) for host in cluster.hosts]
    assert [end.code for end in ended] == [78, 78], ended
    assert "data.train has 1008 samples on rank 0, but " in ended[0].err
    assert " on rank 1: every rank must see the same data" in ended[0].err
    assert not shards.runs.exists() or not list(shards.runs.glob("*/run.json"))


def test_shards_that_are_cut_otherwise_on_one_host(shards, cluster):  # noqa: F811
    """As many samples, but a shuffle that goes by shards would visit others."""
    alpha, beta = cluster.hosts
    folder = shards.directory / "shards"
    own = shutil.copytree(folder, shards.directory / "own")
    first, second = sorted(own.iterdir())[:2]
    spare = own / "spare"
    first.rename(spare)
    second.rename(first)
    spare.rename(second)
    beta.mounts[folder] = own
    cluster.start_all()
    ended = [cluster.finish(host) for host in cluster.hosts]
    assert [end.code for end in ended] == [78, 78], ended
    assert "data.train has other shards on rank 1 than on rank 0" in ended[0].err


@pytest.mark.parametrize("backend", ["shm", "gloo"])
def test_a_plugin_that_gives_each_rank_its_own_number(job, backend):
    use_odd_rank(job, more_on_each_rank=30)
    ended = job.run(f"distributed.backend={backend}", ranks=2)
    assert ended.code == 78, ended.err
    assert "data.train has 100 samples on rank 0, but 130 on rank 1" in ended.err
    assert not job.runs.exists()


@pytest.mark.parametrize("backend", ["shm", "gloo"])
def test_a_plugin_that_runs_out_on_one_rank(job, backend):
    """What it promised does not come: that rank is named, and the others do not wait."""
    use_odd_rank(job, ends_on=1)
    ended = job.run(f"distributed.backend={backend}", ranks=2)
    assert ended.code == 75, ended.err
    assert "rank 1 (of 2) failed first" in ended.err
    assert "there is nothing more on rank 1" in ended.err
