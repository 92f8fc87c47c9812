"""Runs with distributed.virtual_shards are bit-identical on any number of ranks, and change it when they resume."""

import pytest

from conftest import Job, cases
from safetensors_file import assert_same_bits, checkpoints, last_weights
from test_recompute import use_model
from test_resume import resume

FOUR = "distributed.virtual_shards=4"
ADAMW = "optimizer={name: adamw, lr: 0.01}"
# Model, settings, and ranks. The batches of mlp have 48 samples, the last one of an epoch 43.
SETTINGS = {
    "last batch smaller": ("mlp", ["train.epochs=2"], (1, 2, 4)),
    "clipping": ("mlp", [ADAMW, "train.clip_grad_norm=0.5"], (1, 4)),
    "accumulation": ("mlp", ["train.accumulate=3", ADAMW], (2, 4)),
    "average": ("mlp", ["train.ema.decay=0.9"], (1, 4)),
    "together": ("mlp", [ADAMW, "train.epochs=2", "train.clip_grad_norm=0.5", "train.accumulate=3", "train.ema.decay=0.9"], (1, 2, 4)),
    "dropout": ("vit", [], (1, 4)),
    "dropout, accumulated": ("gpt", ["train.accumulate=2"], (1, 2)),
    "bf16": ("vit", ["train.precision=bf16"], (1, 2)),
    "fp16": ("vit", ["train.precision=fp16"], (1, 4)),
    "batch norm": ("resnet", [], (1, 2)),
    "sharded gradients": ("mlp", [ADAMW, "distributed.shard=gradients"], (2, 4)),
    "sharded weights": ("gpt", ["distributed.shard=full"], (1, 2, 4)),
    "gloo": ("gpt", ["distributed.backend=gloo"], (1, 2, 4)),
    "sharded over gloo": ("gpt", ["distributed.backend=gloo", "distributed.shard=full"], (1, 2, 4)),
}


def assert_same_state(one, other):
    """The last weights and optimizer states are bit-identical."""
    assert checkpoints(one)[-1] == checkpoints(other)[-1]
    for file in ("model.safetensors", "optimizer.safetensors"):
        assert_same_bits(last_weights(one).parent / file, last_weights(other).parent / file)


@pytest.mark.parametrize("case", cases(SETTINGS, "together", "dropout", "fp16", "sharded weights", "sharded over gloo"))
def test_bit_identical_on_any_number_of_ranks(job, case):
    model, settings, ranks = case
    if model != "mlp":
        use_model(job, model)
    one, *others = [job.train(FOUR, "checkpoint.writers=main", *settings, ranks=each) for each in ranks]
    for other in others:
        assert_same_state(other, one)


@pytest.mark.parametrize("ranks", [1, 2])
def test_two_shards_are_the_run_on_two_ranks(job, ranks):
    assert_same_state(job.train("distributed.virtual_shards=2", ADAMW, ranks=ranks), job.train(ADAMW, ranks=2))


def test_the_number_of_ranks_changes_when_a_run_is_resumed(job, tmp_path_factory):
    whole = Job(tmp_path_factory.mktemp("whole"))
    settings = [FOUR, ADAMW, "checkpoint.every=5 steps", "train.epochs=2"]
    for each in (job, whole):
        use_model(each, "vit")
    expected = whole.train(*settings, "train.max_steps=26", ranks=2)
    changing = job.train(*settings, "train.max_steps=6", ranks=4)
    for steps, ranks in ((13, 2), (20, 1), (26, 4)):
        resume(job, changing, *settings, f"train.max_steps={steps}", ranks=ranks)
    assert_same_state(changing, expected)


@pytest.mark.parametrize("settings, ranks, message", [
    (["distributed.virtual_shards=6"], 2, "distributed.virtual_shards: 6 on 2 ranks: both numbers must be powers of two"),
    (["distributed.virtual_shards=2"], 4, "distributed.virtual_shards: 2 on 4 ranks"),
    ([FOUR], 3, "distributed.virtual_shards: 4 on 3 ranks: both numbers must be powers of two"),
    (["distributed.virtual_shards=32"], 1, "data.batch_size: 48 is not divisible by 32 virtual shards; nearest valid sizes: 32 or 64"),
    ([FOUR, "data.batch_size=null", "data.per_rank_batch_size=12"], 2, "data.per_rank_batch_size depends on the number of ranks"),
    ([FOUR, "data.batch_remainder=uneven"], 1, "data.batch_remainder has no effect with distributed.virtual_shards"),
    ([FOUR, "distributed.static_graph=true"], 1, "distributed.virtual_shards cannot be combined with distributed.static_graph"),
    ([FOUR, "distributed.broadcast_buffers=false"], 1,
     "distributed.virtual_shards cannot be combined with distributed.broadcast_buffers: false"),
])
def test_what_cannot_be_exact_is_refused(job, settings, ranks, message):
    ended = job.run(*settings, ranks=ranks)
    assert ended.code == 78, ended.err
    assert message in ended.err
