"""Models for tests of compiled packages: plain Python models, example batches, and models that cannot be compiled."""

import sys
from pathlib import Path

import torch
from lockstep import models
from torch import nn
from torch.nn import functional as F

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "examples" / "compiled"))
import model

BATCH = 24  # per rank
TOKENS = 16


def mlp():
    return models.Mlp(hidden=[32])


def mlp_with_nan():
    """Loss, one prediction of each sample and all gradients are NaN."""
    model = mlp()
    with torch.no_grad():
        list(model.parameters())[-2][0] = float("nan")
    return model


def net():
    """The recipe in examples/compiled: convolutions with batch normalization, whose buffers training changes."""
    return model.make_model()


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=64, n_positions=TOKENS, attn_pdrop=0.0, resid_pdrop=0.0,
                        embd_pdrop=0.0, use_cache=False, bos_token_id=0, eos_token_id=0)
    return GPT2LMHeadModel(config)


def digits():
    return {"image": torch.rand(BATCH, 1, 28, 28), "label": torch.randint(0, 10, (BATCH,))}


def padded():
    """One target is ignored."""
    batch = digits()
    batch["label"][3] = -100
    return batch


def text():
    return {"input_ids": torch.randint(0, 64, (BATCH, TOKENS)), "labels": torch.randint(0, 64, (BATCH, TOKENS))}


class Branch(nn.Module):
    """Data-dependent control flow, which cannot be in a graph."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(784, 10)

    def forward(self, image):
        x = self.layer(image.flatten(1))
        if x.sum() > 0:  # the line that the message names
            x = x * 2
        return x


def a_loss_per_sample(model, batch):
    return F.cross_entropy(model(batch["image"]), batch["label"], reduction="none")


def sums_of_training(model, batch):
    loss = F.cross_entropy(model(batch["image"]), batch["label"])
    return {"loss": loss, "steps": torch.ones(())} if model.training else {"loss": loss}


def twice_the_loss(model, batch):
    from lockstep.compile.losses import CrossEntropy

    given = dict(CrossEntropy(counted=False)(model, batch))
    return {**given, "loss": 2 * given["loss"]}


class LossWithTemperature(nn.Module):
    def __init__(self):
        super().__init__()
        self.temperature = nn.Parameter(torch.ones(()))

    def forward(self, model, batch):
        return F.cross_entropy(model(batch["image"]) / self.temperature, batch["label"])


loss_with_temperature = LossWithTemperature()


def targets_of_the_model(model, batch):
    logits = model(batch["image"])
    return {"loss": F.cross_entropy(logits, batch["label"]), "targets": (logits > 0).sum()}


def half_a_target(model, batch):
    return {"loss": F.cross_entropy(model(batch["image"]), batch["label"]), "targets": torch.tensor(0.5)}


def no_file():
    return open("/nowhere/weights")


def no_model():
    return [1, 2]
