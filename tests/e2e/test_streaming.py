"""Training on shards with a shuffle buffer: stopped and resumed anywhere, with other numbers of ranks and workers."""

import os
import random

import numpy as np
import pytest

from conftest import MNIST
from processes import finish
from test_ending import start_stepping

SHARDS, SAMPLES = 20, 1008  # 21 steps of 48, so that no sample is repeated on any number of ranks
CONSTANT_WEIGHTS = ["optimizer={name: sgd, lr: 1.0e-30}"]  # constant weights, so that losses of steps can be compared


def first_of_mnist():
    images = np.fromfile(MNIST / "train-images-idx3-ubyte", np.uint8, SAMPLES * 784, offset=16)
    labels = np.fromfile(MNIST / "train-labels-idx1-ubyte", np.uint8, SAMPLES, offset=8)
    return images.reshape(SAMPLES, 1, 28, 28), labels.astype(np.int64)


@pytest.fixture
def shards(job):
    """Files of different sizes, shuffled some 150 samples at a time."""
    folder = job.directory / "shards"
    folder.mkdir()
    images, labels = first_of_mnist()
    cuts = np.linspace(0, SAMPLES**2, SHARDS + 1) ** 0.5
    for number, (begin, end) in enumerate(zip(cuts.astype(int), cuts[1:].astype(int))):
        np.savez(folder / f"{number:02}.npz", image=images[begin:end], label=labels[begin:end])
    scaled = {"image": {"dtype": "float32", "divide_by": 255}, "label": {}}
    job.config["data"]["train"] = {"name": "npy", "path": str(folder), "fields": scaled}
    job.config["data"]["shuffle_buffer"] = 150
    job.config["train"].update(epochs=2, log_every="1 step")
    job.write()
    return job


@pytest.mark.long  # every_dataset.py does the same with each dataset
def test_stopped_at_20_random_points_on_other_ranks_and_workers(shards):
    whole = shards.series(shards.train(*CONSTANT_WEIGHTS, "data.workers=2", ranks=2).name, "train/loss")
    rng = random.Random(3)
    stops = sorted(rng.sample(range(1, 42), 20))
    run = shards.train(*CONSTANT_WEIGHTS, f"train.max_steps={stops[0]}", "data.workers=2", ranks=2)
    for stop in [*stops[1:], 42]:
        ranks, workers = rng.choice([None, 2, 3]), rng.randrange(4)
        changes = [f"train.max_steps={stop}", f"data.workers={workers}"]
        ended = shards.run(*CONSTANT_WEIGHTS, *changes, ranks=ranks, options=["--resume", run.name])
        assert ended.code == 0, ended.err
    series = shards.series(run.name, "train/loss")
    assert [step for step, _ in series] == [step for step, _ in whole] == list(range(1, 43))
    assert [loss for _, loss in series] == pytest.approx([loss for _, loss in whole], rel=1e-5)


def test_the_same_order_on_any_number_of_ranks(shards):
    first, *others = (
        shards.series(shards.train(*CONSTANT_WEIGHTS, "data.shuffle_lanes=4", ranks=ranks).name, "train/loss")
        for ranks in (None, 2, 4)
    )
    for other in others:
        assert [loss for _, loss in other] == pytest.approx([loss for _, loss in first], rel=1e-5)


def test_learns_like_from_memory(shards):
    run = shards.train("train.epochs=8", "train.log_every=10 steps", ranks=2)
    assert shards.series(run.name, "eval/accuracy")[-1][1] > 0.8


@pytest.mark.parametrize("ranks, may_be_bad", [(None, 0), (2, SAMPLES)])
def test_file_truncated_while_read_is_named_in_the_error(shards, ranks, may_be_bad):
    """Access to its missing pages raises SIGBUS unless handled. It does not count as bad samples."""
    image, label = first_of_mnist()
    folder = shards.directory / "mapped"
    folder.mkdir()
    np.save(folder / "image.npy", image)
    np.save(folder / "label.npy", label)
    shards.config["data"]["train"]["path"] = str(folder)
    del shards.config["data"]["shuffle_buffer"]
    shards.config["data"]["max_bad_samples"] = may_be_bad
    shards.write()
    started = start_stepping(shards, ranks=ranks)
    os.truncate(folder / "image.npy", 5000)
    ended = finish(started)
    assert ended.code == 75, ended.err
    assert "image.npy: was truncated to 5000 bytes while it was being read" in ended.err
    assert shards.list()[0]["state"] == "failed"


def test_settings_without_effect_are_rejected(shards):
    for change, text in (
        ("data.shuffle=false", "data.shuffle_buffer: has no effect without data.shuffle: true"),
        ("data.train={name: synthetic}", "has no shards"),
    ):
        ended = shards.run(change)
        assert ended.code == 78 and ended.err.count("\n") == 1 and text in ended.err, ended.err
