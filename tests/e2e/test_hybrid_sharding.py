"""State divided within each host and replicated between hosts: bit-identical to the unsharded hierarchical backend.

Hosts are network namespaces with separate process ids, so that their ranks cannot share memory.
"""

import pytest

import processes
from cluster import Cluster
from conftest import Job
from processes import LOCKSTEP
from safetensors_file import assert_same_bits, assert_usable, checkpoints, last_weights
from test_recompute import use_model
from test_resume import assert_same_checkpoint
from test_sharding import OPTIMIZERS

pytestmark = pytest.mark.long

NUM_HOSTS = 3
RANKS_PER_HOST = 2
HIERARCHICAL = "distributed.backend=hierarchical"
SETTINGS = {
    "sgd": ("mlp", [OPTIMIZERS["sgd"]]),
    "adamw": ("mlp", [OPTIMIZERS["adamw"]]),
    "clipping": ("mlp", ["train.clip_grad_norm=0.5"]),
    "accumulation": ("mlp", ["train.accumulate=3"]),
    "small buckets": ("mlp", ["distributed.bucket_cap_mb=0.01"]),
    "evaluation and average": ("vit", ["train.ema.decay=0.9", "train.eval_every=5 steps"]),
    "frozen": ("gpt", ["train.freeze=[transformer.h.1, transformer.wpe]"]),
    "bf16": ("vit", ["train.precision=bf16"]),
    "fp16": ("vit", ["train.precision=fp16", "train.clip_grad_norm=0.5"]),
    "skip": ("gpt", ["train.non_finite=skip"]),
    "shares": ("gpt", ["checkpoint.writers=all", "checkpoint.every=5 steps"]),
}


class Hosts:
    """Jobs on the hosts, one after another, each in a separate directory."""

    def __init__(self, directory, network):
        self.directory = directory
        self.network = network
        for host in network.hosts:
            host.shares_memory = False

    def cluster(self, name, model="mlp", num_hosts=2):
        directory = self.directory / name
        directory.mkdir()
        job = Job(directory)
        if model != "mlp":
            use_model(job, model)
        return Cluster(job, self.network, num_hosts, RANKS_PER_HOST)

    def train(self, cluster, *settings, options=()):
        try:
            return cluster.train(HIERARCHICAL, *settings, options=options)
        finally:
            cluster.stop()


@pytest.fixture
def hosts(tmp_path, network):
    yield Hosts(tmp_path, network)
    for host in network.hosts:
        host.shares_memory = True


def assert_same_files(one, other):
    """All files of the last checkpoints."""
    files = sorted(path.name for path in last_weights(other).parent.glob("*.safetensors"))
    assert sorted(path.name for path in last_weights(one).parent.glob("*.safetensors")) == files
    for file in files:
        assert_same_bits(last_weights(one).parent / file, last_weights(other).parent / file)


@pytest.mark.parametrize("model, settings", SETTINGS.values(), ids=SETTINGS)
def test_bit_identical_to_the_unsharded_run(hosts, model, settings):
    if "checkpoint.writers=all" not in settings:
        settings = [*settings, "checkpoint.writers=main"]
    whole = hosts.cluster("none", model)
    expected = hosts.train(whole, *settings)
    for strategy in ("gradients", "full"):
        sharded = hosts.cluster(strategy, model)
        found = hosts.train(sharded, f"distributed.shard={strategy}", *settings)
        assert_same_files(found, expected)
        assert_usable(found)
        assert sharded.job.series(found.name, "eval/loss") == whole.job.series(expected.name, "eval/loss")


def test_three_hosts_add_in_the_order_of_the_unsharded_run(hosts):
    settings = ["train.max_steps=12", "distributed.bucket_cap_mb=0.02", "checkpoint.writers=main"]
    expected = hosts.train(hosts.cluster("none", num_hosts=3), *settings)
    for strategy in ("gradients", "full"):
        found = hosts.train(hosts.cluster(strategy, num_hosts=3), f"distributed.shard={strategy}", *settings)
        assert_same_files(found, expected)


def test_resume_with_another_strategy(hosts):
    settings = [OPTIMIZERS["adamw"], "checkpoint.every=4 steps", "checkpoint.keep_last=10", "checkpoint.writers=main",
                "train.ema.decay=0.9", "train.epochs=3"]
    expected = hosts.train(hosts.cluster("none", "gpt"), "train.max_steps=20", *settings)
    changing = hosts.cluster("changing", "gpt")
    run = hosts.train(changing, "train.max_steps=4", "distributed.shard=full", *settings)
    for steps, shard in ((8, "none"), (12, "gradients"), (16, "optimizer"), (20, "full")):
        hosts.train(changing, f"train.max_steps={steps}", f"distributed.shard={shard}", *settings,
                    options=["--resume", run.name])
    assert checkpoints(run) == checkpoints(expected) == [4, 8, 12, 16, 20]
    assert_same_checkpoint(run, expected)


def test_resume_on_one_host_with_another_number_of_ranks(hosts):
    cluster = hosts.cluster("run")
    run = hosts.train(cluster, "train.max_steps=4", "distributed.shard=full")
    ended = cluster.job.run("train.max_steps=6", ranks=3, options=["--resume", run.name])
    assert ended.code == 0, ended.err
    assert checkpoints(run)[-1] == 6
    assert_usable(run)


def test_killed_rank_ends_the_run_on_all_hosts_and_it_resumes(hosts):
    settings = [OPTIMIZERS["adamw"], "distributed.shard=full", "train.epochs=100000", "checkpoint.writers=main"]
    cluster = hosts.cluster("killed")
    cluster.start_all(HIERARCHICAL, *settings, "checkpoint.every=1 step", "checkpoint.async=false")
    cluster.wait_for_checkpoint()
    cluster.kill_rank(cluster.hosts[1])
    ended = [cluster.finish(host) for host in cluster.hosts]
    assert {end.code for end in ended} == {75}, ended
    run = cluster.run_dir()
    longer = f"train.max_steps={checkpoints(run)[-1] + 5}"
    hosts.train(cluster, *settings, longer, options=["--resume", run.name])
    assert_same_checkpoint(run, hosts.train(hosts.cluster("whole"), *settings, longer))


def test_hosts_with_different_numbers_of_ranks_are_refused(hosts):
    cluster = hosts.cluster("uneven")
    for host, ranks in zip(cluster.hosts, (3, 2)):
        cluster.start(host, HIERARCHICAL, "distributed.shard=full", "data.batch_size=60", ranks=ranks)
    ended = [cluster.finish(host) for host in cluster.hosts]
    cluster.stop()
    assert {end.code for end in ended} == {78}, ended
    assert "distributed.shard: full: with distributed.backend: hierarchical, hosts need equal numbers of ranks" in ended[0].err
    assert "use distributed.shard: optimizer" in ended[0].err


@pytest.mark.parametrize("nodes, ranks, refused", [(2, 2, False), (2, 1, True), (1, 2, False)])
def test_one_rank_per_host_is_refused_before_ranks_connect(job, nodes, ranks, refused):
    words = [LOCKSTEP, "plan", "-n", ranks, "--nnodes", nodes, job.file, HIERARCHICAL, "distributed.shard=full"]
    ended = processes.run(words, job.directory)
    assert ended.code == (78 if refused else 0), ended.err
    if refused:
        assert "but each host has one rank; use distributed.shard: optimizer" in ended.err
