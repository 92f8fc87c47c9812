"""Maps the fields of a batch to the arguments of a transformers model, and finds its loss."""

import inspect

import torch
from torch import nn

from lockstep.compile.errors import CompileError
from lockstep.compile.losses import TARGETS, Batch, Loss, find_loss

OF_WHOLE_SAMPLES = ("sequence-classification", "image-classification", "audio-classification")
INPUTS = {"tokens": "input_ids", "image": "pixel_values"}  # names in Lockstep's datasets


def arguments_for(module: nn.Module, fields: list[str]) -> dict[str, str]:
    """{argument of forward(): field}. Fields that the model does not take are left out, except for one target."""
    takes = inspect.signature(module.forward).parameters
    found = {}
    for field in fields:
        name = field if field in takes else INPUTS.get(field, field)
        if name in takes and name not in TARGETS:
            found[name] = field
    if not found:
        raise CompileError(f"the model takes none of the fields of the batch, which has {', '.join(fields)}; it takes "
                           f"{', '.join(inputs_of(module))}")
    target = next((name for name in TARGETS if name in fields), None)
    if target is None:
        raise CompileError(f"the batch has no target: it has {', '.join(fields)}; expected one of {', '.join(TARGETS)}")
    return {**found, "labels": target}


def inputs_of(module: nn.Module) -> list[str]:
    """The tensors that a model usually takes: its main input, and the mask."""
    takes = inspect.signature(module.forward).parameters
    names = [getattr(module, "main_input_name", "input_ids"), "attention_mask", "token_type_ids", "decoder_input_ids"]
    return [name for name in names if name in takes]


def loss_of(task: str, module: nn.Module, batch: Batch) -> Loss:
    """The model's loss on the fields of `batch`, whatever their names.

    Lockstep's `targets` of a causal language model are the next tokens; transformers' `labels` are the tokens themselves.
    """
    arguments = arguments_for(module, list(batch))
    target = arguments["labels"]
    if task in OF_WHOLE_SAMPLES:
        set_problem_type(module, batch[target])
    shifted = task == "causal-lm" and target in ("target", "targets")
    renamed = {name: batch[field] for name, field in arguments.items()}
    found = find_loss("cross_entropy" if shifted else "model", module, renamed)

    def function(model: nn.Module, given: Batch) -> object:
        return found.function(model, {name: given[field] for name, field in arguments.items()})

    def field_of(name: str) -> str:
        return arguments.get(name, "")

    return Loss(function, found.name, field_of(found.all_count), field_of(found.classes))  # type: ignore[arg-type]


def set_problem_type(module: nn.Module, labels: torch.Tensor) -> None:
    """As the classification models of transformers find it themselves; some branch on the labels for that."""
    config = getattr(module, "config", None)
    if config is None or getattr(config, "problem_type", "") is not None:
        return
    several = "multi_label_classification" if labels.is_floating_point() else "single_label_classification"
    config.problem_type = "regression" if config.num_labels == 1 else several


def described(batch: Batch) -> str:
    return ", ".join(f"{name} {str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}" for name, tensor in batch.items())
