"""Training in float16 with loss scaling: bit-identical to Python, skipped steps on overflow, resume."""

import pytest

from conftest import long
from ddp_comparison import ADAMW, CNN, FEW, MANY, MLP, SGD, compare
from safetensors_file import assert_same_bits, last_weights

FP16 = (["train.precision=fp16"], ["--precision", "fp16"])
# Pixels of up to 400: the gradients of the first steps are too large for float16.
LARGE = (["data.train.mean=0.1", "data.train.std=0.0025"], ["--mean", "0.1", "--std", "0.0025"])
EVERY_STEP = (["train.log_every=1 step"], [])


def skipped(job, run_dir):
    return sum(value for _, value in job.series(run_dir.name, "train/skipped_steps"))


@pytest.mark.parametrize("world_size", [long(1), 2, long(3)])
@pytest.mark.parametrize("model, data, optimizer", [(MLP, MANY, ADAMW), (CNN, FEW, SGD)], ids=["mlp", "cnn"])
def test_bit_identical_to_python(job, peers, model, data, optimizer, world_size):
    run_dir = compare(job, peers, world_size, model, data, optimizer, FP16, EVERY_STEP)
    assert job.series(run_dir.name, "train/loss_scale")[-1][1] == 65536 / 2 ** skipped(job, run_dir)


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("clip", [False, True])
def test_steps_with_overflowing_gradients_are_skipped(job, peers, accumulate, clip):
    data = (["data.train.limit=288", "data.batch_size=12"], ["--limit", "288", "--batch-size", "12"])
    groups = ([f"train.accumulate={accumulate}"], ["--accumulate", accumulate])
    norm = (["train.clip_grad_norm=0.5"], ["--clip-grad-norm", "0.5"]) if clip else ([], [])
    run_dir = compare(job, peers, 2, MLP, data, ADAMW, FP16, LARGE, EVERY_STEP, groups, norm)
    steps = 24 // accumulate
    assert len(job.series(run_dir.name, "train/loss_scale")) == steps
    assert 0 < skipped(job, run_dir) < steps


@pytest.mark.parametrize("stop", [1, 12], ids=["before the first step that counts", "later"])
@pytest.mark.parametrize("optimizer", [ADAMW, SGD], ids=["adamw", "sgd"])
def test_loss_scale_is_restored(job, optimizer, stop):
    arguments = [value for part in (MLP, FEW, optimizer, FP16, LARGE, EVERY_STEP) for value in part[0]]
    arguments.append("train.non_finite=ignore")  # SGD diverges here: the scale keeps falling
    whole = job.train(*arguments, "train.max_steps=20", ranks=2)
    stopped = job.train(*arguments, f"train.max_steps={stop}", ranks=2)
    assert 0 < skipped(job, stopped)
    ended = job.run(*arguments, "train.max_steps=20", ranks=2, options=["--resume", stopped.name])
    assert ended.code == 0, ended.err
    assert_same_bits(last_weights(whole), last_weights(stopped))
    assert job.series(whole.name, "train/loss_scale") == job.series(stopped.name, "train/loss_scale")
