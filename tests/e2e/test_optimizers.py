"""Optimizers and groups of parameters in a run: resumed, on other numbers of ranks, averaged, sharded, refused."""

import numpy
import pytest

from refusals import refuse
from safetensors_file import assert_same_bits, checkpoints, floats, last_weights, read_raw
from test_resume import assert_same_checkpoint, resume, whole  # noqa: F401, a fixture

GROUPS = ("optimizer={name: adamw, lr: 0.01, groups: [{match: '*.bias', weight_decay: 0, lr: 0.002}, "
          "{match: '*0.weight', frozen: true}]}")
SCHEDULE_FREE = "optimizer={name: adamw_schedule_free, lr: 0.01, warmup_steps: 4}"
RUNS = {
    "groups": [GROUPS],
    "schedule-free": [SCHEDULE_FREE, "train.clip_grad_norm=1", "train.precision=fp16"],
    "packed": ["optimizer={name: adamw, state: int8}", "schedule={name: inverse_sqrt, warmup_steps: 3}"],
    "muon, averaged": ["optimizer={name: muon, adamw: {lr: 0.003}}", "train.ema.decay=0.9"],
}
SHORT = ["data.train.limit=301", "data.batch_size=12", "data.eval.limit=60", "checkpoint.keep_last=10"]


@pytest.mark.parametrize("settings", RUNS.values(), ids=RUNS.keys())
def test_resumed_with_two_ranks(job, whole, settings):  # noqa: F811
    """The run that is not stopped neither saves nor evaluates at step 17."""
    settings = [*SHORT, *settings]
    never_stopped = whole.train(*settings, "train.max_steps=42", "train.epochs=2", ranks=2)
    stopped = job.train(*settings, "train.max_steps=17", "train.eval_every=7 steps", ranks=2)
    assert checkpoints(stopped) == [17]
    resume(job, stopped, *settings, "train.max_steps=42", "train.epochs=2", ranks=2)
    assert checkpoints(stopped)[-1] == 42
    assert_same_checkpoint(stopped, never_stopped)


def test_groups(job, whole):  # noqa: F811
    start = whole.train(*SHORT, GROUPS, "train.max_steps=1", "optimizer.lr=1e-30", "checkpoint.keep_last=1")
    run_dir = job.train(*SHORT, GROUPS, ranks=2)
    first, last = (read_raw(last_weights(each)) for each in (start, run_dir))
    frozen = [name for name in first if name.endswith("0.weight")]
    assert len(frozen) == 1 and len(first) > 3
    assert [name for name in first if first[name] == last[name]] == frozen
    state = read_raw(last_weights(run_dir).with_name("optimizer.safetensors"))
    assert {name.split(".", 1)[1] for name in state} == set(first) - set(frozen)
    resume(job, run_dir, *SHORT, GROUPS, "train.epochs=2", ranks=1)


def test_groups_are_sharded(job, whole):  # noqa: F811
    settings = [*SHORT, GROUPS, "checkpoint.writers=main"]
    expected = whole.train(*settings, ranks=2)
    for strategy in ("optimizer", "full"):
        assert_same_checkpoint(job.train(*settings, f"distributed.shard={strategy}", ranks=2), expected)


def test_states_in_bf16_are_sharded(job, whole):  # noqa: F811
    settings = [*SHORT, "optimizer={name: adamw, state: bf16}", "checkpoint.writers=main"]
    expected = whole.train(*settings, ranks=3)
    assert_same_checkpoint(job.train(*settings, "distributed.shard=gradients", ranks=3), expected)


def test_checkpoints_have_the_average_of_schedule_free(job):
    settings = [*SHORT, SCHEDULE_FREE]
    run_dir = job.train(*settings, "train.eval_every=5 steps")
    file = last_weights(run_dir)
    x = floats(file)
    state = {name: numpy.frombuffer(raw, numpy.float32)
             for name, (dtype, _, raw) in read_raw(file.with_name("optimizer.safetensors")).items() if dtype == "F32"}
    for name, values in x.items():
        y, z = state[f"y.{name}"], state[f"z.{name}"]
        assert abs(y - z).max() > 1e-4
        numpy.testing.assert_allclose(0.1 * z + 0.9 * numpy.float32(values), y, atol=1e-6)
    # Evaluations change nothing.
    other = job.train(*settings, "train.eval_every=1 epoch")
    assert_same_bits(last_weights(other), file)


REFUSED = {
    "pattern": (["optimizer.groups=[{match: 'layer.0*', lr: 1}]"], ["optimizer.groups[0].match: no parameter matches 'layer.0*'"]),
    "near pattern": (["optimizer.groups=[{match: '*.baas', lr: 1}]"], ["no parameter matches '*.baas'; "]),
    "no pattern": (["optimizer.groups=[{lr: 1}]"], ["optimizer.groups[0].match: is required"]),
    "no list": (["optimizer.groups={match: a}"], ["optimizer.groups: expected a list such as"]),
    "unknown key": (["optimizer.groups=[{match: '*', betas: [0.9, 0.9]}]"], ["optimizer.groups[0].betas: unknown key", "momentum"]),
    "out of range": (["optimizer.groups=[{match: '*', lr: -1}]"], ["optimizer.groups[0].lr"]),
    "another optimizer": (["optimizer.groups=[{match: '*', name: adam}]"],
                          ["optimizer.groups[0].name: all groups have the same optimizer, 'sgd'"]),
    "frozen with a rate": (["optimizer.groups=[{match: '*', frozen: true, lr: 1}]"],
                           ["optimizer.groups[0].lr: has no effect on frozen parameters"]),
    "all frozen": (["optimizer.groups=[{match: '*', frozen: true}]"], ["frozen: no trainable weights remain"]),
    "whole parameters": (["optimizer={name: adafactor}", "distributed.shard=optimizer"],
                         ["optimizer 'adafactor' is not elementwise", "use distributed.shard: none"]),
    "sharded schedule-free": ([SCHEDULE_FREE, "distributed.shard=full"],
                              ["optimizer 'adamw_schedule_free' evaluates other weights than it trains"]),
    "averaged schedule-free": ([SCHEDULE_FREE, "train.ema.decay=0.9"],
                               ["train.ema cannot be combined with optimizer 'adamw_schedule_free'"]),
    "betas": (["optimizer={name: lion, betas: [0.9]}"], ["optimizer.betas: expected two numbers"]),
}


@pytest.mark.parametrize("overrides, texts", REFUSED.values(), ids=REFUSED.keys())
def test_refused(job, overrides, texts):
    refuse(job, overrides, texts, ranks=None)
