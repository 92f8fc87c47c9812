"""train.ema: the moving average of the weights equals Python's, is evaluated, and is stored in checkpoints."""

import numpy
import pytest
from lockstep import models
from safetensors.numpy import load_file

from refusals import refuse
from safetensors_file import assert_same_bits, checkpoints, last_weights, read_raw
from test_resume import assert_same_checkpoint, resume, whole  # noqa: F401, a fixture

FEW = (["data.train.limit=301", "data.batch_size=12"], ["--limit", "301", "--batch-size", "12"])
MLP = (["model={name: mlp, hidden: [32]}"], ["--model", "mlp", "--config", '{"hidden": [32]}'])
SGD = (["optimizer.lr=0.1", "optimizer.momentum=0.9"], ["--lr", "0.1", "--momentum", "0.9"])


def averaged_weights(run_dir):
    return last_weights(run_dir).parent / "ema.safetensors"


def last(job, run_dir, metric):
    return job.series(run_dir.name, metric)[-1][1]


@pytest.mark.parametrize("world_size, ours, theirs", [
    (1, ["train.ema.decay=0.9"], ["--ema-decay", "0.9"]),
    (2, ["train.ema={decay: 0.95, every: 3}"], ["--ema-decay", "0.95", "--ema-every", "3"]),
    (3, ["train.ema={decay: 0.999, warmup: true}"], ["--ema-decay", "0.999", "--ema-warmup"]),
], ids=["decay", "every", "warmup"])
def test_bit_identical_to_python_and_evaluated(job, peers, world_size, ours, theirs):
    ours = [*MLP[0], *FEW[0], *SGD[0], *ours, "data.eval.limit=301"]
    run_dir = job.train(*ours, ranks=world_size)
    files = [job.directory / name for name in ("peer.safetensors", "peer_ema.safetensors")]
    arguments = ["--seed", "7", "--eval-limit", "301", "--ema-out", files[1], *MLP[1], *FEW[1], *SGD[1], *theirs]
    evaluation = peers.train(world_size, files[0], *arguments)
    assert_same_bits(last_weights(run_dir), files[0])
    assert_same_bits(averaged_weights(run_dir), files[1])
    assert list(read_raw(averaged_weights(run_dir))) == list(read_raw(last_weights(run_dir)))
    assert last(job, run_dir, "eval/loss") == pytest.approx(evaluation["loss"], rel=1e-6)
    assert last(job, run_dir, "eval/accuracy") == evaluation["accuracy"]


def test_training_is_unchanged_by_ema(job):
    """The average is swapped in only for evaluations."""
    settings = ["train.eval_every=5 steps", "train.log_every=1 step"]
    plain = job.train(*settings, ranks=2)
    averaged = job.train(*settings, "train.ema.decay=0.9", ranks=2)
    assert_same_bits(last_weights(averaged), last_weights(plain))
    assert job.series(averaged.name, "train/loss") == job.series(plain.name, "train/loss")
    ours, theirs = (job.series(run.name, "eval/loss") for run in (averaged, plain))
    assert [step for step, _ in ours] == [step for step, _ in theirs] and ours != theirs
    assert not averaged_weights(plain).exists()


def test_weights_are_evaluated_before_the_first_update(job):
    plain = job.train("train.max_steps=4")
    averaged = job.train("train.max_steps=4", "train.ema={decay: 0.9, every: 5}")
    assert last(job, averaged, "eval/loss") == last(job, plain, "eval/loss")
    assert not averaged_weights(averaged).exists()


@pytest.mark.parametrize("ranks, saving", [(None, "async: true"), (2, "async: false")])
def test_resumed_run_equals_uninterrupted_run(job, whole, ranks, saving):  # noqa: F811
    settings = ["train.epochs=2", "train.ema={decay: 0.95, every: 2, warmup: true}", f"checkpoint={{{saving}}}"]
    never_stopped = whole.train(*settings, ranks=ranks)
    stopped = job.train(*settings, "train.max_steps=9", ranks=ranks)
    resume(job, stopped, *settings, "train.max_steps=30", ranks=ranks)
    resume(job, stopped, *settings, ranks=ranks)
    assert_same_checkpoint(stopped, never_stopped)
    assert_same_bits(averaged_weights(stopped), averaged_weights(never_stopped))
    assert last(job, stopped, "eval/loss") == last(whole, never_stopped, "eval/loss")


def test_checkpoint_written_by_all_ranks(job, whole):  # noqa: F811
    settings = ["train.ema.decay=0.9"]
    never_stopped = whole.train(*settings, ranks=2)
    stopped = job.train(*settings, "train.max_steps=9", "checkpoint.writers=all", ranks=2)
    assert len(list(last_weights(stopped).parent.glob("ema-*-of-00002.safetensors"))) == 2
    resume(job, stopped, *settings, ranks=2)
    assert_same_bits(averaged_weights(stopped), averaged_weights(never_stopped))


def test_enabled_and_disabled_at_resume(job):
    """The average starts from the current weights; without EMA the checkpoint has none."""
    run_dir = job.train("train.max_steps=4")
    resume(job, run_dir, "train.max_steps=5", "train.ema.decay=0.9")
    assert_same_bits(averaged_weights(run_dir), last_weights(run_dir))
    resume(job, run_dir, "train.max_steps=6")
    assert checkpoints(run_dir)[-1] == 6 and not averaged_weights(run_dir).exists()


def test_fine_tuning_starts_from_the_average(job):
    averaged = job.train("train.max_steps=9", "train.ema.decay=0.9")
    tuned = job.train(f"train.init_from={averaged_weights(averaged)}", "train.max_steps=1", "optimizer.lr=1e-30")
    assert last(job, tuned, "eval/loss") == last(job, averaged, "eval/loss")


def test_python_loads_it(job):
    run_dir = job.train("train.max_steps=3", "train.ema.decay=0.9")
    loaded = load_file(averaged_weights(run_dir))
    assert set(loaded) == set(models.build("mlp", 0, hidden=[32]).state_dict())
    assert all(numpy.isfinite(array).all() for array in loaded.values())


@pytest.mark.parametrize("override, texts", [
    ("train.ema.decay=1", ["train.ema.decay", "1", "expected less than 1"]),
    ("train.ema.decay=0", ["train.ema.decay", "0", "expected more than 0"]),
    ("train.ema.decay=high", ["train.ema.decay", "high", "number"]),
    ("train.ema={decay: 0.9, every: 0}", ["train.ema.every", "at least 1"]),
    ("train.ema.every=2", ["train.ema.every: has no effect without train.ema.decay"]),
    ("train.ema={decya: 0.9}", ["train.ema", "decya", "did you mean 'decay'"]),
])
def test_invalid_settings(job, override, texts):
    refuse(job, [override], texts, None)
