"""Losses by name, and how a module is called with the fields of a batch.

A loss is a function of the module and the batch, a dictionary of tensors. It returns the mean over the samples, or a
dictionary with "loss", perhaps "predictions", and any other scalars: sums over the samples, such as how many were right
("accuracy"), which Lockstep reports divided by the number of samples.

With "targets" in it, an integer scalar made of the batch alone, loss and sums are over that many targets in the place of
the samples: tokens of padded text, say. With no target the loss must be 0.
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
# Losses of transformers that are means over targets, and how many of the first ones of a sample are not among them.
LEFT_OUT = {"ForCausalLMLoss": 1, "ForMaskedLMLoss": 0, "ForTokenClassification": 0}


def target_field(batch: Batch) -> str | None:
    return next((name for name in TARGETS if name in batch), None)


def target_of(batch: Batch) -> str:
    name = target_field(batch)
    if name is None:
        raise CompileError(f"the batch has no field for what is to be learned; it has {', '.join(batch)}; "
                           f"valid names: {', '.join(TARGETS)}; or give a loss function of your own")
    return name


def has_ignored(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() and bool((tensor.long() == IGNORED).any())


def target_name(tensor: torch.Tensor) -> str:
    """What people call those that the loss is a mean over."""
    return "tokens" if tensor.dim() > 1 else "targets"


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


class CrossEntropy:
    """Of logits [B, K] and classes [B], or [B, T, K] and [B, T]: a mean over targets where `counted`."""

    def __init__(self, counted: bool):
        self.counted = counted

    def __call__(self, module: nn.Module, batch: Batch) -> Mapping[str, torch.Tensor]:
        target = target_of(batch)
        logits, classes = predictions_of(call_module(module, batch, target)), batch[target]
        given = {"predictions": logits, "accuracy": (logits.argmax(-1) == classes).sum()}
        if not self.counted:
            return {**given, "loss": F.cross_entropy(logits.flatten(0, -2), classes.flatten())}
        targets = (classes != IGNORED).sum()
        total = F.cross_entropy(logits.flatten(0, -2), classes.flatten(), reduction="sum", ignore_index=IGNORED)
        return {**given, "loss": total / targets.clamp_min(1), "targets": targets}


def mean_squared_error(module: nn.Module, batch: Batch) -> Mapping[str, torch.Tensor]:
    target = target_of(batch)
    predictions = predictions_of(call_module(module, batch, target))
    return {"loss": F.mse_loss(predictions, batch[target].reshape(predictions.shape)), "predictions": predictions}


class OwnLoss:
    """The loss that the module returns itself: a tensor, or `loss` of what a transformers model returns.

    `left_out`: it is a mean over targets but so many first ones of each sample; None: over samples.
    """

    def __init__(self, left_out: int | None):
        self.left_out = left_out

    def __call__(self, module: nn.Module, batch: Batch) -> Mapping[str, torch.Tensor]:
        if self.left_out is None:
            return self._called(module, batch)
        target = target_of(batch)
        targets = (batch[target][:, self.left_out:] != IGNORED).sum()
        # A mean over no target is no number, and its gradient neither: then it is over all, times 0.
        given = self._called(module, {**batch, target: torch.where(targets > 0, batch[target], 0)})
        return {**given, "loss": given["loss"] * (targets > 0), "targets": targets}

    @staticmethod
    def _called(module: nn.Module, batch: Batch) -> dict[str, torch.Tensor]:
        output = call_module(module, batch)
        loss = getattr(output, "loss", output)
        if not isinstance(loss, torch.Tensor):
            raise CompileError(f"the model returns a {type(output).__name__} without a loss; does the batch have its labels?")
        logits = getattr(output, "logits", None)
        return {"loss": loss} if logits is None else {"loss": loss, "predictions": logits}


LOSSES = ("cross_entropy", "mse", "model")


class Loss:
    """What a loss is a mean over, decided by the model and the example batch.

    name: of the targets, in plural; "": it is a mean over samples.
    all_count: the field whose targets must all count then, as they do in the example batch; "": none.
    classes: the field whose numbers are places in the last dimension of the predictions, or do not count; "": none.
    """

    def __init__(self, function: LossFunction, name: str = "", all_count: str = "", classes: str = ""):
        self.function, self.name, self.all_count, self.classes = function, name, all_count, classes


def find_loss(loss: str | LossFunction, module: nn.Module, batch: Batch) -> Loss:
    if not isinstance(loss, str):
        return Loss(loss, "targets")  # if it gives any
    target = target_field(batch)
    if loss == "cross_entropy":
        field = target_of(batch)
        counted = batch[field].dim() > 1 or has_ignored(batch[field])
        named = target_name(batch[field]) if counted else ""
        return Loss(CrossEntropy(counted), named, "" if counted else field, field)
    if loss == "mse":
        return Loss(mean_squared_error)
    left_out = LEFT_OUT.get(getattr(getattr(module, "loss_function", None), "__name__", ""))
    if target is None or batch[target].is_floating_point():
        return Loss(OwnLoss(None))
    if left_out is not None and batch[target].dim() > 1:
        return Loss(OwnLoss(left_out), target_name(batch[target]), classes=target)
    if has_ignored(batch[target]):
        raise CompileError(f"the field '{target}' of the example batch has targets of {IGNORED}, which count for nothing, and the "
                           "model does not say over which its loss is a mean: write a loss function of your own that also "
                           "returns how many \"targets\" count")
    return Loss(OwnLoss(None), "", target)
