"""Runs the model in Python before compiling it, and rejects unsupported features with a suggested alternative."""

import copy
import os
import pickle
import random
import traceback
from typing import Callable

import numpy
import torch
from torch import nn

from lockstep.compile.errors import CompileError, one_line
from lockstep.compile.graphs import MODULE, Graph, State, Step
from lockstep.compile.losses import Batch

FAILS = "the model fails on the example batch"  # begins the message


def verify_tensors(module: nn.Module) -> None:
    """Those of the user's module: its copies have no hooks."""
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if nn.parameter.is_lazy(tensor):
            raise CompileError(f"'{name}' has no shape yet, because it is in a lazy layer: call the model once before it is returned")
        if tensor.is_meta:
            raise CompileError(f"'{name}' is on the device meta, without values: make the model on the CPU")
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
            raise CompileError(f"the parameter '{name}' has a hook on its gradient, which compiled code does not call: change the "
                               "parameter in forward(), e.g. multiply it by a mask")
    for name, tensor in _attributes_of(module).items():
        if not tensor.is_leaf:
            raise CompileError(f"'{name}' is computed from parameters before forward() is called: if it is from torch.nn.utils, use "
                               "weight_norm or spectral_norm of torch.nn.utils.parametrizations")
    verify_memory(dict(module.named_parameters()))


def verify_memory(parameters: dict[str, nn.Parameter]) -> None:
    """Different parameters in the same memory would become independent."""
    places = sorted((tensor.untyped_storage().data_ptr() + tensor.storage_offset() * tensor.element_size(), tensor.nbytes, str(tensor.device), name)
                    for name, tensor in parameters.items() if type(tensor) is nn.Parameter and tensor.numel() and tensor.is_contiguous())
    for (begin, size, device, name), (following, _, other, second) in zip(places, places[1:]):
        if following < begin + size and device == other:
            raise CompileError(f"the parameters '{name}' and '{second}' share memory, but are different parameters: tie them by assigning "
                               "the parameter itself, a.weight = b.weight, not its data")


def verify_layers(module: nn.Module) -> None:
    for name, layer in module.named_modules():
        where = f"the layer '{name}'" if name else "the model"
        if isinstance(layer, nn.SyncBatchNorm):
            raise CompileError(f"{where} is a SyncBatchNorm: compiled code computes statistics over the local batch, not over all "
                               "ranks; use BatchNorm, or remove convert_sync_batchnorm()")
        if getattr(layer, "sparse", False) is True and isinstance(layer, (nn.Embedding, nn.EmbeddingBag)):
            raise CompileError(f"{where} is an {type(layer).__name__} with sparse=True: compiled code does not support sparse "
                               "gradients; use sparse=False")


def try_out(step: Step, state: State, batch: Batch, report: Callable[[str], None]) -> list[str]:
    """The buffers that training changes, found by running it: operators such as batch_norm do not declare such changes."""
    before = _tensors_of(step.module)
    changed = _changed(before, _run(step, batch, training=True))
    for name in changed:
        if name not in state.buffers:
            raise CompileError(f"forward() changes '{name}', which is not in the state_dict, so the change would be lost: "
                               f"register it with register_buffer(..., persistent=True)")
    for name in _changed(before, _run(step, batch, training=False)):
        report(f"warning: forward() changes '{name}' in evaluation too, after model.eval(): compiled evaluation does not change it")
    return changed


def _run(step: Step, batch: Batch, training: bool) -> dict[str, torch.Tensor]:
    """The tensors of the module after a forward pass. Raises CompileError if it failed, or did what a graph cannot do."""
    tried = copy.deepcopy(step).train(training)
    numbers, drawn = [_numbers_of(tried)], _random_state()
    try:
        with torch.no_grad():
            for _ in range(2):  # the first one may make a number
                tried([tensor.clone() for tensor in batch.values()])
                numbers.append(_numbers_of(tried))
    except CompileError:
        raise
    except Exception as error:
        raise CompileError(f"{FAILS}{' in evaluation' if not training else ''}: "
                           f"{type(error).__name__}: {one_line(error)}{place_of(error)}") from error
    for before, after in zip(numbers, numbers[1:]):
        for name, number in before.items():
            if name in after and after[name] is not number and after[name] != number:  # NaN differs from itself
                raise CompileError(f"forward() changes the number '{name}', of which compiled code always uses the first value: use a "
                                   "buffer, a tensor that is registered with register_buffer()")
    if _random_state() != drawn:
        raise CompileError("forward() draws random numbers of Python or numpy, of which compiled code uses the same in every step: use "
                           "torch.rand, and torch.where instead of a branch")
    return _tensors_of(tried.module)


def _numbers_of(step: Step) -> dict[str, float]:
    """Attributes of its modules that are numbers, or lists of them."""
    found: dict[str, float] = {}
    for name, layer in step.named_modules():
        for key, value in vars(layer).items():
            own = f"{name}.{key}".removeprefix(MODULE)
            numbers = {own: value} if not isinstance(value, list) else {f"{own}[{i}]": item for i, item in enumerate(value)}
            found |= {name: number for name, number in numbers.items() if isinstance(number, (int, float))}
    return found


def _random_state() -> bytes:
    return pickle.dumps((random.getstate(), numpy.random.get_state()))


def _tensors_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Buffers, and tensors that are plain attributes."""
    return {**dict(module.named_buffers()), **_attributes_of(module)}


def _attributes_of(module: nn.Module) -> dict[str, torch.Tensor]:
    return {f"{name}.{key}".lstrip("."): value for name, layer in module.named_modules() for key, value in vars(layer).items()
            if isinstance(value, torch.Tensor)}


def _changed(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> list[str]:
    """The names of tensors that differ between `before` and `after`."""
    return [name for name, tensor in before.items() if name in after and not equal(tensor, after[name])]


def equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """With NaN equal to NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.equal(a, b) or (a.is_floating_point() and torch.allclose(a, b, rtol=0, atol=0, equal_nan=True))


def unused_fields(graph: Graph, batch: Batch, num_state: int) -> list[str]:
    """`graph`: the training graph."""
    sources = [node for node in graph.module.graph.nodes if node.op == "placeholder"]
    return [name for name, source in zip(batch, sources[num_state:]) if not source.users]


def place_of(error: BaseException) -> str:
    """The last line of the traceback that belongs neither to torch nor to this package."""
    ours = (os.path.dirname(torch.__file__), os.path.dirname(__file__), os.path.dirname(os.__file__))
    seen: BaseException | None = error
    places: list[traceback.FrameSummary] = []
    while seen is not None and not places:
        if line := getattr(seen, "line_of_user", ""):
            return line
        places = [frame for frame in traceback.extract_tb(seen.__traceback__)
                  if not frame.filename.startswith(ours) and not frame.filename.startswith("<")
                  and f"{os.sep}site-packages{os.sep}" not in frame.filename]
        seen = seen.__cause__ or seen.__context__
    if not places or not os.path.exists(places[-1].filename):
        return ""
    return f" ({places[-1].filename}:{places[-1].lineno}: {places[-1].line})"
