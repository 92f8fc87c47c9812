"""Ranks with different data: no rank waits for a missing batch, and all report the error before the first step."""

import shutil

import pytest

from odd_rank import use_odd_rank
from test_streaming import shards  # noqa: F401


@pytest.fixture
def shards_of_beta(shards, cluster):  # noqa: F811
    """A private copy, at the path where the other host has the shards."""
    folder = shards.directory / "shards"
    own = shutil.copytree(folder, shards.directory / "own")
    cluster.hosts[1].mounts[folder] = own
    return own


def refused(cluster):
    """The error of the first host, if neither trains."""
    cluster.start_all()
    ended = [cluster.finish(host) for host in cluster.hosts]
    assert [end.code for end in ended] == [78, 78], ended
    assert not cluster.job.runs.exists() or not list(cluster.job.runs.glob("*/run.json"))
    return ended[0].err


def test_shards_differ_between_hosts(shards_of_beta, cluster):
    """One host lacks the last shard, as after a copy that was cut off. Over a network, a rank would otherwise wait."""
    max(shards_of_beta.iterdir()).unlink()
    error = refused(cluster)
    assert "data.train has 1008 samples on rank 0, but " in error
    assert " on rank 1: every rank must see the same data" in error


def test_shards_are_cut_differently_on_one_host(shards_of_beta, cluster):
    """The same number of samples, but a shuffle by shards would visit different ones."""
    first, second = sorted(shards_of_beta.iterdir())[:2]
    spare = shards_of_beta / "spare"
    first.rename(spare)
    second.rename(first)
    spare.rename(second)
    assert "data.train has different shards on rank 1 than on rank 0" in refused(cluster)


def run_odd(job, backend, **how):
    use_odd_rank(job, **how)
    return job.run(f"distributed.backend={backend}", ranks=2)


@pytest.mark.parametrize("backend", ["shm", "gloo"])
def test_plugin_with_different_sample_counts_per_rank(job, backend):
    ended = run_odd(job, backend, more_on_each_rank=30)
    assert ended.code == 78, ended.err
    assert "data.train has 100 samples on rank 0, but 130 on rank 1" in ended.err
    assert not job.runs.exists()


@pytest.mark.parametrize("backend", ["shm", "gloo"])
def test_plugin_runs_out_of_samples_on_one_rank(job, backend):
    """The rank that has fewer samples than declared is named, and the others do not wait."""
    ended = run_odd(job, backend, ends_on=1)
    assert ended.code == 75, ended.err
    assert "rank 1 (of 2) failed first" in ended.err
    assert "there is nothing more on rank 1" in ended.err
