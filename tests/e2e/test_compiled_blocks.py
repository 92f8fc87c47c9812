"""A package that is cut at the blocks of its model: sharded and recomputed with the bits of the ordinary run."""

import json

import pytest
import torch
from lockstep import models
from lockstep.compile import compile_step

import processes
from conftest import Job
from safetensors_file import assert_same_bits, last_weights
from test_compiled_cases import quick_compiler  # noqa: F401, a fixture
from test_recompute import MODELS, use_model
from test_sharding import GLOO, OPTIMIZERS

pytestmark = pytest.mark.long
BATCH = 8  # per rank
STEPS = 7
SETTINGS = {
    "adamw": (3, [OPTIMIZERS["adamw"]]),
    "sgd": (2, [OPTIMIZERS["sgd"], "train.clip_grad_norm=0.5", "train.accumulate=2", "train.eval_every=5 steps", "train.ema.decay=0.9"]),
}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """With dropout."""
    path = tmp_path_factory.mktemp("package") / "gpt.ls2"
    torch.manual_seed(3)
    sizes = {key: value for key, value in MODELS["gpt"].items() if key != "name"}
    batch = {name: torch.randint(0, 61, (BATCH, 16)) for name in ("tokens", "targets")}
    compile_step(models.gpt(**sizes), "cross_entropy", batch, path, segments="blocks")
    return path


@pytest.fixture
def other(tmp_path_factory):
    return Job(tmp_path_factory.mktemp("other"))


def use(job, package):
    use_model(job, "gpt")  # its data
    job.config["model"] = {"name": "compiled", "package": str(package)}
    del job.config["data"]["batch_size"]
    job.config["data"] |= {"eval": {**job.config["data"]["train"], "limit": 50}, "eval_batch_size": 7,
                           "per_rank_batch_size": BATCH, "drop_last": True}
    job.config["train"] = {"max_steps": STEPS}
    job.write()


@pytest.mark.parametrize("ranks, settings", SETTINGS.values(), ids=SETTINGS)
def test_sharded_runs_are_bit_identical(job, other, package, ranks, settings):
    for each in (job, other):
        use(each, package)
    settings = [GLOO, "checkpoint.writers=main", *settings]
    expected = other.train(*settings, ranks=ranks)
    for strategy in ("distributed.shard=gradients", "distributed.shard=full", "distributed.shard=full train.recompute=blocks"):
        sharded = job.train(*strategy.split(), *settings, ranks=ranks)
        for file in last_weights(expected).parent.glob("*.safetensors"):
            assert_same_bits(last_weights(sharded).parent / file.name, file)
        assert job.series(sharded.name, "eval/loss") == other.series(expected.name, "eval/loss") != []


def test_recomputed_blocks_repeat_their_random_numbers(job, other, package):
    for each in (job, other):
        use(each, package)
    expected = last_weights(other.train())
    for choice in ("blocks", "[transformer.h.1]"):
        assert_same_bits(last_weights(job.train(f"train.recompute={choice}")), expected)


def plan(job, *words):
    ended = processes.run([processes.LOCKSTEP, "plan", "-n", 4, "--json", job.file, GLOO, *words], job.directory)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)["memory"]


def test_plan_counts_the_gathered_blocks(job, package):
    use(job, package)
    compiled = plan(job, "distributed.shard=full")
    job.config["model"] = MODELS["gpt"]
    job.write()
    eager = plan(job, "distributed.shard=full")
    assert compiled["gathered"] == eager["gathered"] > 0
    assert compiled["weights"] == eager["weights"]
