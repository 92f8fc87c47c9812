"""Evaluation counts every sample exactly once, so its result does not depend on the ranks."""

import pytest

# 301 samples in batches of 50: seven batches, which neither 2 nor 3 ranks divide.
EVALUATION = ["data.eval.limit=301", "data.eval_batch_size=50"]
# One step too small to change any bit: the weights are those of the initialisation on any number of
# ranks.
SAME_WEIGHTS = ["train.max_steps=1", "optimizer={name: sgd, lr: 1e-30}"]


def evaluations(job, run_dir):
    """The last value of each evaluation metric, as text: compared digit by digit."""
    entry = next(entry for entry in job.list() if entry["id"] == run_dir.name)
    return {name: repr(v) for name, v in entry["summary"].items() if name.startswith("eval/")}


def evaluate(job, *overrides, world_size):
    run_dir = job.train(*SAME_WEIGHTS, *overrides, ranks=world_size)
    return evaluations(job, run_dir)


@pytest.mark.parametrize(
    "overrides",
    [
        EVALUATION,
        ["data.eval.limit=300", "data.eval_batch_size=50"],
        ["data.eval.limit=7", "data.eval_batch_size=3"],
        ["data.eval.limit=301", "data.eval_batch_size=50", "model={name: cnn, hidden: 16}"],
    ],
    ids=["7 batches", "6 batches", "3 small batches", "cnn"],
)
def test_the_same_numbers_on_1_2_and_3_ranks(job, overrides):
    alone = evaluate(job, *overrides, world_size=1)
    assert set(alone) == {"eval/loss", "eval/accuracy"}
    assert evaluate(job, *overrides, world_size=2) == alone
    assert evaluate(job, *overrides, world_size=3) == alone


@pytest.mark.parametrize("limit", [1, 50])
def test_more_ranks_than_evaluation_batches(job, limit):
    overrides = [f"data.eval.limit={limit}", "data.eval_batch_size=50"]
    alone = evaluate(job, *overrides, world_size=1)
    assert evaluate(job, *overrides, world_size=3) == alone


def test_accuracy_is_a_count_over_all_samples(job):
    """With 301 samples it is k / 301 for a whole k: nothing was padded, nothing left out."""
    metrics = evaluate(job, *EVALUATION, world_size=3)
    correct = float(metrics["eval/accuracy"]) * 301
    assert abs(correct - round(correct)) < 1e-9


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_equal_to_python(job, peers, world_size):
    run_dir = job.train(*EVALUATION, "data.train.limit=301", ranks=world_size)
    ours = {name: float(value) for name, value in evaluations(job, run_dir).items()}
    arguments = "--seed 7 --limit 301 --batch-size 48 --momentum 0.9 --eval-limit 301"
    model = ["--config", '{"hidden": [32]}']
    theirs = peers.train(world_size, job.directory / "peer.safetensors", *arguments.split(), *model)
    assert theirs["num_samples"] == 301
    assert ours["eval/loss"] == pytest.approx(theirs["loss"], rel=1e-6)
    assert ours["eval/accuracy"] == theirs["accuracy"]


def test_each_epoch_is_evaluated_and_recorded(job):
    run_dir = job.train("train.epochs=3", "train.eval_every=1 epoch", *EVALUATION, ranks=2)
    steps = [step for step, _ in job.series(run_dir.name, "eval/loss")]
    assert steps == [21, 42, 63]


def test_without_an_evaluation_set(job):
    del job.config["data"]["eval"], job.config["data"]["eval_batch_size"]
    job.write()
    run_dir = job.train("train.max_steps=2", ranks=2)
    assert evaluations(job, run_dir) == {}
