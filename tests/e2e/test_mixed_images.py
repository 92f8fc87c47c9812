"""Mixup and cutmix: batches are mixtures of two images, with the loss of both labels, on any number of ranks and workers."""

import numpy
import pytest
import torch
from lockstep import models
from safetensors.torch import load_file
from torch.nn import functional as F

from conftest import MNIST
from refusals import refuse

LIMIT, BATCH = 200, 48


def images():
    pixels = numpy.frombuffer((MNIST / "train-images-idx3-ubyte").read_bytes(), numpy.uint8, LIMIT * 784, 16)
    labels = numpy.frombuffer((MNIST / "train-labels-idx1-ubyte").read_bytes(), numpy.uint8, LIMIT, 8)
    return torch.from_numpy(pixels.reshape(LIMIT, 1, 28, 28).copy()), torch.from_numpy(labels.copy()).long()


def first_batch(job, mix, *overrides):
    file = job.directory / "batch.safetensors"
    file.unlink(missing_ok=True)
    ended = job.run(f"data.mix={mix}", f"data.train.limit={LIMIT}", *overrides, options=["--first-batch", file])
    assert ended.code == 0, ended.err
    return load_file(file)


def plain(job):
    """The unmixed images as the model gets them, in the order of the first batch: and all of them."""
    batch = first_batch(job, "{}", "data.shuffle=false", f"data.batch_size={LIMIT}")
    return batch["image"], batch["label"]


@pytest.mark.parametrize("mix", ["{mixup: 0.4}", "{cutmix: 1.0}"])
def test_an_image_is_a_mixture_of_two(job, mix):
    all_images, all_labels = plain(job)
    batch = first_batch(job, mix, "data.shuffle=false")
    assert torch.equal(batch["label"], all_labels[:BATCH])
    shares = batch["mix"]
    assert ((0 <= shares) & (shares <= 1)).all() and shares.unique().numel() > BATCH // 2
    for i in range(BATCH):
        share, mixed, own = shares[i], batch["image"][i], all_images[i]
        partners = all_images[all_labels == batch["mixed_label"][i]]
        if "mixup" in mix:
            expected = share * own + (1 - share) * partners
            assert (expected - mixed).abs().amax((1, 2, 3)).min() < 1e-5
        else:
            fits = ((mixed == own) | (mixed == partners)).all(3).all(2).all(1)
            assert fits.any()
            assert (mixed != own).float().mean() <= 1 - share + 1e-6


def test_the_loss_is_that_of_soft_targets(job):
    job.config["data"]["train"]["limit"] = LIMIT
    job.config["data"]["mix"] = {"mixup": 0.4, "cutmix": 1.0, "probability": 0.8}
    job.config["data"]["workers"] = 0
    job.config["train"]["log_every"] = "1 step"
    job.write()
    batch = first_batch(job, "{mixup: 0.4, cutmix: 1.0, probability: 0.8}")
    assert (batch["mix"] == 1).any() and (batch["mix"] < 1).any()
    one_hot = [F.one_hot(batch[name], 10).float() for name in ("label", "mixed_label")]
    shares = batch["mix"][:, None]
    soft = shares * one_hot[0] + (1 - shares) * one_hot[1]
    expected = F.cross_entropy(models.build("mlp", 7, hidden=[32])(batch["image"]), soft).item()
    curves = []
    for ranks, workers in ((None, 0), (None, 2), (2, 1)):
        run_dir = job.train("train.max_steps=6", f"data.workers={workers}", ranks=ranks)
        curves.append([value for _, value in job.series(run_dir.name, "train/loss")])
    assert curves[0][0] == pytest.approx(expected, abs=1e-6)
    assert curves[1] == curves[0]
    assert curves[2] == pytest.approx(curves[0], abs=1e-5)


def test_samples_that_cannot_be_mixed_are_refused(job):
    numpy.savez(job.directory / "data.npz", image=numpy.zeros((20, 4), numpy.float32), label=numpy.zeros(20, numpy.int64))
    data = f"{{name: npy, path: {job.directory}/data.npz}}"
    refuse(job, ["data.mix={mixup: 0.2}", f"data.train={data}", f"data.eval={data}"], ["data.mix needs samples of equal shape"], None)
    refuse(job, ["data.mix={probability: 0.2}"], ["data.mix.probability", "data.mix.mixup"], None)
