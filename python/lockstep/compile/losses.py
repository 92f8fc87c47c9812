"""Built-in losses, and calling a module with the fields of a batch.

A loss is a function of the module and the batch, a dictionary of tensors. It returns the mean over the samples, or a
dictionary with "loss", optionally "predictions", and other scalars: sums over the samples, such as the number of correct
predictions ("accuracy"), which Lockstep divides by the number of samples.

If the dictionary has "targets", an integer scalar that depends only on the batch, loss and sums are over that number of
targets instead of samples, e.g. tokens of padded text. With 0 targets the loss must be 0.
"""

import inspect
from typing import Callable, Mapping, Union

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional as F

from lockstep.compile.errors import CompileError, quiet
from lockstep.compile.packing import dtype_name

Batch = dict[str, torch.Tensor]
LossFunction = Callable[[nn.Module, Batch], Union[torch.Tensor, Mapping[str, torch.Tensor]]]

TARGETS = ("label", "labels", "target", "targets")
IGNORED = -100  # ignore_index of torch.nn.functional.cross_entropy and transformers
# Losses of transformers that are means over targets, and the number of leading targets of each sample that they skip.
LEFT_OUT = {"ForCausalLMLoss": 1, "ForMaskedLMLoss": 0, "ForTokenClassification": 0}


def target_field(batch: Batch) -> str | None:
    return next((name for name in TARGETS if name in batch), None)


def target_of(batch: Batch) -> str:
    name = target_field(batch)
    if name is None:
        raise CompileError(f"the batch has no target field; it has {', '.join(batch)}; "
                           f"valid names: {', '.join(TARGETS)}; or use a custom loss function")
    return name


def has_ignored(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() and bool((tensor.long() == IGNORED).any())


def target_name(tensor: torch.Tensor) -> str:
    """The name of the unit that the loss averages over."""
    return "tokens" if tensor.dim() > 1 else "targets"


def call_module(module: nn.Module, batch: Batch, without: str | None = None) -> object:
    """Calls `module(**batch)` if its forward has **kwargs; otherwise passes the fields that forward names; if it names none,
    all except `without`, in order."""
    given = {name: tensor for name, tensor in batch.items() if name != without}
    parameters = inspect.signature(module.forward).parameters
    required = [name for name, parameter in parameters.items() if parameter.default is parameter.empty
                and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)]
    if any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters.values()) and set(required) <= set(given):
        return module(**given)
    named = {name: tensor for name, tensor in given.items() if name in parameters}
    return module(**named) if named else module(*given.values())


def part_of(output: object, name: str, default: object = None) -> object:
    """Of a dictionary, or of what a transformers model returns."""
    return output.get(name) if isinstance(output, Mapping) else getattr(output, name, default)


def predictions_of(output: object) -> torch.Tensor:
    """The tensor itself, or its `logits`."""
    logits = part_of(output, "logits", output)
    if not isinstance(logits, torch.Tensor):
        raise CompileError(f"the model returns a {type(output).__name__}, but the loss needs a tensor; "
                           "use a custom loss function")
    return logits


def shape_of(tensor: torch.Tensor) -> str:
    return f"{dtype_name(tensor.dtype)} [{', '.join(str(size) for size in tensor.shape)}]"


def verify_classes(logits: torch.Tensor, classes: torch.Tensor, field: str) -> None:
    if classes.dtype != torch.int64:
        raise CompileError(f"cross_entropy needs int64 classes, but '{field}' is {shape_of(classes)}: convert it in the data, "
                           "with .long() or astype(numpy.int64), or use a custom loss function")
    if logits.shape[:-1] != classes.shape:
        raise CompileError(f"cross_entropy needs logits [B, K] with classes [B], or [B, T, K] with [B, T]; the model returns "
                           f"{shape_of(logits)}, and '{field}' is {shape_of(classes)}: reshape '{field}' in the data, or use a "
                           "custom loss function")
    if isinstance(classes, FakeTensor) or classes.numel() == 0:
        return  # no data
    wrong = classes[((classes < 0) | (classes >= logits.shape[-1])) & (classes != IGNORED)]
    if wrong.numel():
        raise CompileError(f"'{field}' of the example batch has {wrong[0].item()}, but the model has {logits.shape[-1]} classes: "
                           f"0 to {logits.shape[-1] - 1} are valid")


def count_correct(logits: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    return (logits.argmax(-1) == classes).sum()


class CrossEntropy:
    """For logits [B, K] and classes [B], or [B, T, K] and [B, T]. `counted`: a mean over targets that are not ignored."""

    def __init__(self, counted: bool):
        self.counted = counted

    def __call__(self, module: nn.Module, batch: Batch) -> Mapping[str, torch.Tensor]:
        target = target_of(batch)
        logits, classes = predictions_of(call_module(module, batch, target)), batch[target]
        verify_classes(logits, classes, target)
        given = {"predictions": logits, "accuracy": count_correct(logits, classes)}
        if not self.counted:
            return {**given, "loss": F.cross_entropy(logits.flatten(0, -2), classes.flatten())}
        targets = (classes != IGNORED).sum()
        total = F.cross_entropy(logits.flatten(0, -2), classes.flatten(), reduction="sum", ignore_index=IGNORED)
        return {**given, "loss": total / targets.clamp_min(1), "targets": targets}


def fits(predictions: torch.Tensor, target: torch.Tensor) -> bool:
    """Whether their values have the same order: they have one shape, apart from dimensions of 1, or one of them is flat."""
    if predictions.shape[:1] != target.shape[:1] or predictions.numel() != target.numel():
        return False
    shapes = [[size for size in tensor.shape[1:] if size != 1] for tensor in (predictions, target)]
    return shapes[0] == shapes[1] or min(map(len, shapes)) == 1


def mean_squared_error(module: nn.Module, batch: Batch) -> Mapping[str, torch.Tensor]:
    target = target_of(batch)
    predictions = predictions_of(call_module(module, batch, target))
    if not batch[target].is_floating_point():
        raise CompileError(f"mse needs a floating-point target, but '{target}' is {shape_of(batch[target])}: convert it in the data, "
                           "with .float() or astype(numpy.float32), or use a custom loss function")
    if not fits(predictions, batch[target]):
        raise CompileError(f"mse needs predictions of the shape of '{target}', which is {shape_of(batch[target])}; the model returns "
                           f"{shape_of(predictions)}")
    return {"loss": F.mse_loss(predictions, batch[target].reshape(predictions.shape)), "predictions": predictions}


class ModelLoss:
    """The loss returned by the module: a tensor, or `loss` of a dictionary or of the output of a transformers model.

    `left_out`: the loss is a mean over targets, without this number of leading targets of each sample; None: over samples.
    """

    def __init__(self, left_out: int | None):
        self.left_out = left_out

    def __call__(self, module: nn.Module, batch: Batch) -> Mapping[str, torch.Tensor]:
        if self.left_out is None:
            return self._called(module, batch)
        target = target_of(batch)
        targets = (batch[target][:, self.left_out:] != IGNORED).sum()
        # The mean over 0 targets and its gradient would be NaN: compute the mean over all instead, times 0.
        given = self._called(module, {**batch, target: torch.where(targets > 0, batch[target], 0)})
        given |= {"accuracy": given["accuracy"] * (targets > 0)} if "accuracy" in given else {}
        return {**given, "loss": given["loss"] * (targets > 0), "targets": targets}

    def _called(self, module: nn.Module, batch: Batch) -> dict[str, torch.Tensor]:
        output = call_module(module, batch)
        loss = part_of(output, "loss", output)
        if not isinstance(loss, torch.Tensor):
            raise CompileError(f"the model returns a {type(output).__name__} without a loss: does the batch have its labels? "
                               f"it has {', '.join(batch)}")
        logits, classes = part_of(output, "logits"), batch.get(target_field(batch) or "")
        if not isinstance(logits, torch.Tensor):
            return {"loss": loss}
        given = {"loss": loss, "predictions": logits}
        if classes is None or classes.is_floating_point() or logits.shape[:-1] != classes.shape:
            return given
        if self.left_out is None and classes.dim() > 1:  # the number of targets is unknown
            return given
        if self.left_out:
            logits, classes = logits[:, :-self.left_out], classes[:, self.left_out:]
        return {**given, "accuracy": count_correct(logits, classes)}


LOSSES = ("cross_entropy", "mse", "model")


def left_out_of(module: nn.Module) -> int | None:
    """None if the loss is not known to be a mean over targets."""
    with quiet():  # transformers warns about models that do not name their loss
        left_out = LEFT_OUT.get(getattr(getattr(module, "loss_function", None), "__name__", ""))
    # Encoder-decoder models do not call it: they shift the input tokens, and use all labels.
    return 0 if left_out and getattr(getattr(module, "config", None), "is_encoder_decoder", False) else left_out


class Loss:
    """A loss and the unit that it averages over, derived from the model and the example batch.

    name: the targets, in plural; "": samples.
    all_count: with "", the field that must not have ignored targets, like the example batch; "": none.
    classes: the field with indices into the last dimension of the predictions, or ignored targets; "": none.
    """

    def __init__(self, function: LossFunction, name: str = "", all_count: str = "", classes: str = ""):
        self.function, self.name, self.all_count, self.classes = function, name, all_count, classes


def verify_untrained(loss: LossFunction) -> None:
    names = [name for name, parameter in loss.named_parameters() if parameter.requires_grad] if isinstance(loss, nn.Module) else []
    if names:
        raise CompileError(f"the loss, a {type(loss).__name__}, has the parameter '{names[0]}', which would not be trained: make it a "
                           "parameter of the model")


def find_loss(loss: str | LossFunction, module: nn.Module, batch: Batch) -> Loss:
    if not isinstance(loss, str):
        verify_untrained(loss)
        return Loss(loss, "targets")  # if it returns any
    target = target_field(batch)
    if loss == "cross_entropy":
        field = target_of(batch)
        counted = batch[field].dim() > 1 or has_ignored(batch[field])
        named = target_name(batch[field]) if counted else ""
        return Loss(CrossEntropy(counted), named, "" if counted else field, field)
    if loss == "mse":
        return Loss(mean_squared_error)
    left_out = left_out_of(module)
    if target is None or batch[target].is_floating_point():
        return Loss(ModelLoss(None))
    if left_out is not None and batch[target].dim() > 1:
        return Loss(ModelLoss(left_out), target_name(batch[target]), classes=target)
    if has_ignored(batch[target]):
        raise CompileError(f"the field '{target}' of the example batch has targets of {IGNORED}, which are ignored, and it is "
                           "unknown over which targets the model's loss is a mean: use a custom loss function that also returns "
                           "the number of \"targets\"")
    return Loss(ModelLoss(None), "", target)
