"""Losses by name, and how a module is called with the fields of a batch.

A loss is a function of the module and the batch, a dictionary of tensors. It returns the mean over the samples, or a
dictionary with "loss", perhaps "predictions", and any other scalars: sums over the samples, such as how many were right
("accuracy"), which Lockstep reports divided by the number of samples.
"""

import inspect
from typing import Callable, Mapping, Union

import torch
from torch import nn
from torch.nn import functional as F

from lockstep.errors import CompileError

Batch = dict[str, torch.Tensor]
LossFunction = Callable[[nn.Module, Batch], Union[torch.Tensor, Mapping[str, torch.Tensor]]]

TARGETS = ("label", "labels", "target", "targets")
IGNORED = -100  # a target that counts for nothing in torch.nn.functional.cross_entropy, and in transformers


def target_of(batch: Batch) -> str:
    for name in TARGETS:
        if name in batch:
            return name
    raise CompileError(f"the batch has no field for what is to be learned; it has {', '.join(batch)}; "
                       f"valid names: {', '.join(TARGETS)}; or give a loss function of your own")


def verify_targets(batch: Batch) -> None:
    """Of the losses that torch or transformers divide by the number of targets that count, which differs between batches."""
    for name in TARGETS:
        if name in batch and not batch[name].is_floating_point() and (batch[name].long() == IGNORED).any():
            raise CompileError(f"the field '{name}' of the example batch has targets of {IGNORED}, which count for nothing; a "
                               "compiled model's loss is a mean over samples, so each must have as many targets that count: "
                               "write a loss function of your own that is one, or, for text, train the model gpt, whose "
                               "loss is a mean over tokens")


def call_module(module: nn.Module, batch: Batch, without: str | None = None) -> object:
    """The module gets the fields that its forward names; where it names none, all but `without`, in their order."""
    named = [name for name in batch if name in inspect.signature(module.forward).parameters and name != without]
    if named:
        return module(**{name: batch[name] for name in named})
    return module(*[tensor for name, tensor in batch.items() if name != without])


def predictions_of(output: object) -> torch.Tensor:
    """The tensor itself, or `logits` of what a transformers model returns."""
    logits = getattr(output, "logits", output)
    if not isinstance(logits, torch.Tensor):
        raise CompileError(f"the model returns a {type(output).__name__}, where the loss needs a tensor; "
                           "give a loss function of your own")
    return logits


def cross_entropy(module: nn.Module, batch: Batch) -> Mapping[str, torch.Tensor]:
    """Of logits [B, K] and classes [B], or [B, T, K] and [B, T]. All targets count; see verify_targets()."""
    target = target_of(batch)
    logits, classes = predictions_of(call_module(module, batch, target)), batch[target]
    right = (logits.argmax(-1) == classes).sum()
    per_sample = max(1, classes.numel() // classes.shape[0]) if classes.dim() > 1 else 1
    return {"loss": F.cross_entropy(logits.flatten(0, -2), classes.flatten()), "predictions": logits,
            "accuracy": right if per_sample == 1 else right / per_sample}


def mean_squared_error(module: nn.Module, batch: Batch) -> Mapping[str, torch.Tensor]:
    target = target_of(batch)
    predictions = predictions_of(call_module(module, batch, target))
    return {"loss": F.mse_loss(predictions, batch[target].reshape(predictions.shape)), "predictions": predictions}


def own_loss(module: nn.Module, batch: Batch) -> Mapping[str, torch.Tensor]:
    """The loss that the module returns itself: a tensor, or `loss` of what a transformers model returns."""
    output = call_module(module, batch)
    loss = getattr(output, "loss", output)
    if not isinstance(loss, torch.Tensor):
        raise CompileError(f"the model returns a {type(output).__name__} without a loss; does the batch have its labels?")
    logits = getattr(output, "logits", None)
    return {"loss": loss} if logits is None else {"loss": loss, "predictions": logits}


LOSSES: dict[str, LossFunction] = {"cross_entropy": cross_entropy, "mse": mean_squared_error, "model": own_loss}
