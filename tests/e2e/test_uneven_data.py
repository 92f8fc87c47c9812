"""Ranks that have different data: nobody waits for a batch that does not come, and all are told before the first step."""

import shutil

import pytest

from odd_rank import use_odd_rank
from test_streaming import shards  # noqa: F401


@pytest.fixture
def shards_of_beta(shards, cluster):  # noqa: F811
    """A copy of its own, where the other host has the shards."""
    folder = shards.directory / "shards"
    own = shutil.copytree(folder, shards.directory / "own")
    cluster.hosts[1].mounts[folder] = own
    return own


def refused(cluster):
    """What the first host is told when neither trains."""
    cluster.start_all()
    ended = [cluster.finish(host) for host in cluster.hosts]
    assert [end.code for end in ended] == [78, 78], ended
    assert not cluster.job.runs.exists() or not list(cluster.job.runs.glob("*/run.json"))
    return ended[0].err


def test_shards_that_are_not_the_same_on_every_host(shards_of_beta, cluster):
    """One host lacks the last shard, as after a copy that was cut off. Over a network a rank would wait."""
    max(shards_of_beta.iterdir()).unlink()
    said = refused(cluster)
    assert "data.train has 1008 samples on rank 0, but " in said
    assert " on rank 1: every rank must see the same data" in said


def test_shards_that_are_cut_otherwise_on_one_host(shards_of_beta, cluster):
    """As many samples, but a shuffle that goes by shards would visit others."""
    first, second = sorted(shards_of_beta.iterdir())[:2]
    spare = shards_of_beta / "spare"
    first.rename(spare)
    second.rename(first)
    spare.rename(second)
    assert "data.train has other shards on rank 1 than on rank 0" in refused(cluster)


def run_odd(job, backend, **how):
    use_odd_rank(job, **how)
    return job.run(f"distributed.backend={backend}", ranks=2)


@pytest.mark.parametrize("backend", ["shm", "gloo"])
def test_a_plugin_that_gives_each_rank_its_own_number(job, backend):
    ended = run_odd(job, backend, more_on_each_rank=30)
    assert ended.code == 78, ended.err
    assert "data.train has 100 samples on rank 0, but 130 on rank 1" in ended.err
    assert not job.runs.exists()


@pytest.mark.parametrize("backend", ["shm", "gloo"])
def test_a_plugin_that_runs_out_on_one_rank(job, backend):
    """What it promised does not come: that rank is named, and the others do not wait."""
    ended = run_odd(job, backend, ends_on=1)
    assert ended.code == 75, ended.err
    assert "rank 1 (of 2) failed first" in ended.err
    assert "there is nothing more on rank 1" in ended.err
