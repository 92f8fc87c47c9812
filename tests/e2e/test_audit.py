"""train.audit finds weights that differ between ranks and gradients that are wrong, to the bit; it names rank, step and tensor."""

import re

import pytest

from conftest import cases
from processes import BIN
from safetensors_file import checkpoints
from test_recompute import use_model
from test_virtual_shards import assert_same_state

AUDIT = "train.audit.every=4"


def flip(job, rank, step, tensor, **more):
    job.config["plugins"] = [str(BIN.parent / "tests" / "bin" / "flip_bit.so")]
    job.config["train"]["hooks"] = [{"name": "flip_bit", "rank": rank, "step": step, "tensor": tensor, **more}]
    job.write()


@pytest.mark.parametrize("settings, ranks, found", [
    ([], 3, "rank 2 differs from the others"),
    ([], 2, "ranks 0 and 1 differ"),
    (["distributed.backend=gloo"], 3, "rank 2 differs from the others"),
])
def test_one_flipped_bit_is_found(job, settings, ranks, found):
    flip(job, rank=ranks - 1, step=5, tensor="layers.0.weight")
    ended = job.run(AUDIT, "checkpoint.every=2 steps", *settings, ranks=ranks)
    assert ended.code == 75, ended.err
    # The checkpoint of step 6 is the next after the change.
    assert f"train.audit: the weights of the ranks differ after step 6: {found}; first tensor: layers.0.weight." in ended.err
    run, = job.runs.iterdir()
    assert checkpoints(run)[-1] == 4


def test_an_audit_changes_nothing_and_finds_nothing_in_a_healthy_run(job):
    job.train("train.audit.every=1", ranks=3)
    job.train("train.audit.every=1", "distributed.shard=gradients", ranks=2)
    job.train("train.audit.every=1")  # one rank


def test_an_audit_without_replicas_is_refused(job):
    ended = job.run(AUDIT, "distributed.shard=full", ranks=2)
    assert ended.code == 78 and "with distributed.shard: full each weight exists once" in ended.err, ended.err


SHARDS = "distributed.virtual_shards=4"
EACH_STEP = "train.audit.gradients_every=1"


def audited(job, ranks, found, *settings, step=6, **flipped):
    """The gradient of one rank is changed in `step`, in which the gradients are audited."""
    flip(job, step=step, tensor="layers.0.weight", gradient=True, **flipped)
    ended = job.run(SHARDS, "train.audit.gradients_every=3", "checkpoint.every=2 steps", *settings, ranks=ranks)
    assert ended.code == 75, ended.err
    assert f"in step {step} are wrong: {found}; first tensor: layers.0.weight. The optimizer has not used them" in ended.err
    shard = int(re.search(r"gradients of virtual shard ([0-9])", ended.err).group(1))
    run, = job.runs.iterdir()
    assert checkpoints(run)[-1] == step // 2 * 2 - 2
    return shard


@pytest.mark.parametrize("rank, shard", [(2, 2), (1, 1)])
def test_the_rank_that_computes_a_wrong_gradient_is_named(job, rank, shard):
    """All its passes in the step are wrong, those of the shard it has and of the one that it computes again."""
    assert audited(job, 4, f"rank {rank} is wrong, 4 of 6 computations agree", rank=rank) == shard


@pytest.mark.parametrize("passes, found", [
    ({"pass": 1}, "rank 1 is wrong, 3 of 4 computations agree"),  # its computation of the other rank's shard
    ({"pass": 2}, "rank 1 is wrong, 3 of 4 computations agree"),  # its first part: shard 2, audited in step 6
    ({}, "rank 0 or 1 is wrong, or an operator is not deterministic: no majority among 4 computations"),
])
def test_with_two_ranks_an_error_that_is_not_repeated_has_a_name(job, passes, found):
    assert audited(job, 2, found, rank=1, **passes) in (0, 2)


def test_one_rank_computes_its_own_shards_again(job):
    assert audited(job, 1, "rank 0 is wrong, 2 of 3 computations agree", rank=0, **{"pass": 1}) == 2


def test_the_shards_take_turns(job):
    """A gradient that is wrong in another part than the audited one is not found: the run ends as usual."""
    flip(job, rank=1, step=6, tensor="layers.0.weight", gradient=True, **{"pass": 3})
    job.train(SHARDS, "train.audit.gradients_every=3", ranks=2)


BITS = {
    "last batch smaller, clipping": ("mlp", ["train.epochs=2", "train.clip_grad_norm=0.5"], (2, 4)),
    "dropout, targets, accumulation": ("gpt", ["train.accumulate=2"], (2, 4)),
    "batch norm": ("resnet", ["data.max_bad_samples=1", "data.batch_size=8"], (2,)),
    "fp16": ("vit", ["train.precision=fp16"], (4,)),
    "sharded gradients": ("mlp", ["distributed.shard=gradients"], (4,)),
    "sharded over gloo": ("gpt", ["distributed.backend=gloo", "distributed.shard=full"], (2, 4)),
}


@pytest.mark.parametrize("case", cases(BITS, "dropout, targets, accumulation", "sharded over gloo"))
def test_audited_gradients_have_the_same_bits(job, case):
    model, settings, ranks = case
    if model != "mlp":
        use_model(job, model)
    without = job.train(SHARDS, "checkpoint.writers=main", *settings, ranks=ranks[0])
    for each in ranks:
        assert_same_state(job.train(SHARDS, EACH_STEP, "checkpoint.writers=main", *settings, ranks=each), without)


def test_gradients_without_virtual_shards_are_refused(job):
    ended = job.run(EACH_STEP, ranks=2)
    assert ended.code == 78 and "train.audit.gradients_every" in ended.err and "distributed.virtual_shards" in ended.err, ended.err
