"""train.dropout: probabilities that change over the steps, with the same bits when a run is resumed."""

import numpy as np
import pytest

from refusals import ALONE_AND_LAUNCHED, refuse
from safetensors_file import assert_same_bits, last_weights

CHANGE = "train.dropout={schedule: linear, start: 1, end: 0, after: 1, steps: 4}"
FACTORS = [1, 1, 0.75, 0.5, 0.25, 0, 0]


@pytest.fixture
def gpt(job):
    np.random.default_rng(0).integers(0, 61, 40 * 8 + 1).astype(np.uint16).tofile(job.directory / "text.bin")
    job.config["model"] = {"name": "gpt", "vocab_size": 61, "context": 8, "layers": 2, "heads": 2, "width": 16, "dropout": 0.3}
    job.config["data"] = {"train": {"name": "tokens", "path": str(job.directory / "text.bin"), "length": 8}, "batch_size": 8}
    job.config["train"] = {"epochs": 9, "max_steps": len(FACTORS), "log_every": "1 step"}
    job.write()
    return job


def logged(job, run_dir, metric):
    return [value for _, value in job.series(run_dir.name, metric)]


def test_a_resumed_run_has_the_factors_and_bits_of_an_undisturbed_one(gpt):
    whole = gpt.train(CHANGE, ranks=2)
    assert logged(gpt, whole, "train/dropout_factor") == FACTORS
    half = gpt.train(CHANGE, "train.max_steps=3", ranks=2)
    ended = gpt.run(CHANGE, ranks=2, options=["--resume", half.name])
    assert ended.code == 0, ended.err
    assert logged(gpt, half, "train/dropout_factor") == FACTORS
    assert logged(gpt, half, "train/loss") == logged(gpt, whole, "train/loss")
    assert_same_bits(last_weights(half), last_weights(whole))
    constant = gpt.train(ranks=2)
    assert logged(gpt, constant, "train/dropout_factor") == []
    assert logged(gpt, constant, "train/loss")[:2] == logged(gpt, whole, "train/loss")[:2] != logged(gpt, whole, "train/loss")[2:4]


def test_with_factor_0_a_run_has_the_bits_of_one_without_dropout(gpt):
    never = gpt.train("train.dropout={schedule: linear, after: 100}", "train.recompute=blocks")
    assert_same_bits(last_weights(never), last_weights(gpt.train("model.dropout=0")))


@ALONE_AND_LAUNCHED
@pytest.mark.parametrize(
    "overrides, texts",
    [
        (["train.dropout={schedule: linear, steps: 9}"], ["train.dropout has no effect: model 'mlp' has no dropout"]),
        (["train.dropout={schedule: cosin}"], ["train.dropout.schedule", "cosin", "did you mean 'cosine'?"]),
        (["train.dropout={steps: 5}"], ["train.dropout.steps: has no effect without train.dropout.schedule"]),
        (["train.dropout={schedule: linear, start: 1.5}"], ["train.dropout.start", "1.5", "at most 1"]),
    ],
    ids=["without dropout", "misspelled", "without schedule", "above 1"],
)
def test_refused(job, overrides, texts, ranks):
    refuse(job, overrides, texts, ranks)


def test_a_cuda_graph_replays_one_dropout(gpt):
    refuse(gpt, [CHANGE, "train.cuda_graph=true"], ["train.dropout cannot be combined with train.cuda_graph"], None)
