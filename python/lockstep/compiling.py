"""compile_step(): the whole way from a module to a file."""

import contextlib
import copy
import io
import os
import platform
import traceback
from pathlib import Path
from typing import Callable, Iterator, Mapping

import torch
from torch import nn

from lockstep.comparing import TOLERANCE, Comparison, compare
from lockstep.compiler import compiled, verify_compiler
from lockstep.errors import CompileError, one_line
from lockstep.graphs import Graph, State, Step, trace
from lockstep.losses import LOSSES, Batch, Loss, LossFunction, find_loss
from lockstep.packing import cpu_flags, describe, pack_weights, write_package
from lockstep.segments import Part, count_targets, segment_names, split

Report = Callable[[str], None]


def compile_step(
    module: nn.Module,
    loss: str | LossFunction,
    example_batch: Mapping[str, torch.Tensor],
    path: str | os.PathLike[str] = "model.ls2",
    *,
    dynamic_batch: bool = False,
    segments: int = 1,
    precision: str = "fp32",
    device: str = "cpu",
    threads: int = 1,
    name: str | None = None,
    report: Report = lambda line: None,
) -> Path:
    """Compiles forward pass, loss and gradients of `module`, and its evaluation, into the file `path`.

    loss: "cross_entropy", "mse", "model" (the module returns its loss itself) or a function; see lockstep.losses.
    example_batch: field name to tensor, samples along dimension 0. Training takes batches of its size, or of any size
    with `dynamic_batch`; evaluation always takes any size.
    segments: parts of the backward pass; gradients of one are averaged over ranks while the next is computed.
    precision: "fp32", or "bf16" for autocast to bfloat16; parameters stay as they are.
    threads: of the generated loops on a CPU; matrix products use as many as the process has.
    Raises CompileError: one line that says what cannot be compiled, and where. OSError: no g++, a full disk.
    CompilerFault: g++ failed, or what it made does not give the numbers of `module`.
    """
    path = Path(path)
    if precision not in TOLERANCE:
        raise CompileError(f"unknown precision '{precision}'; valid: {', '.join(TOLERANCE)}")
    if isinstance(loss, str) and loss not in LOSSES:
        raise CompileError(f"unknown loss '{loss}'; valid: {', '.join(LOSSES)}, or a function")
    if device == "cuda" and not torch.cuda.is_available():
        raise CompileError("this machine has no GPU to compile for: device cuda")
    batch = {key: tensor.to(device) for key, tensor in example_batch.items()}
    size = batch_size(batch)
    module = copy.deepcopy(module).to(device)
    state = State.of(module)
    if not state.trainable:
        raise CompileError("the model has no parameters to train")
    chosen = find_loss(loss, module, batch)
    step = Step(module, chosen.function, list(batch), device if precision == "bf16" else None)
    verify_compiler()
    report("tracing")
    train = traced(step, state, batch, size, dynamic_batch, training=True)
    evaluation = traced(step, state, batch, size, True, training=False)
    verify_outputs(train, evaluation)
    for unused in train.unused:
        report(f"warning: parameter '{unused}' has no part in the loss; its gradient is always zero")
    train_parts, others = parts_of(train, evaluation, len(state.names()), segments)
    report("compiling (g++; half a minute to some minutes)")
    with told_as_export():
        programs = {name: part.program() for name, part in [*zip(segment_names(segments), train_parts), *others.items()]}
    members = {f"{name}.pt2": compiled(program, device, threads) for name, program in programs.items()}
    report("comparing with the model as it is")
    compare(Comparison(step, state, batch, members, TOLERANCE[precision]), train, train_parts, evaluation, report)
    members["weights.safetensors"] = pack_weights({**state.parameters, **state.buffers})
    manifest = describe_package(state, batch, train, evaluation, train_parts)
    manifest |= describe_loss(chosen, train) | describe_classes(chosen, step, batch, evaluation)
    manifest |= {"name": name or type(module).__name__, "torch": torch.__version__.split("+")[0], "device": device,
                 "architecture": platform.machine(), "cpu_flags": cpu_flags(), "gpu": gpu_name(device), "threads": threads,
                 "precision": precision, "batch_size": size, "dynamic_batch": dynamic_batch}
    write_package(path, manifest, members)
    return path


def gpu_name(device: str) -> str:
    """Its architecture: code for it runs on no other."""
    if device != "cuda":
        return ""
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def parts_of(train: Graph, evaluation: Graph, num_state: int, segments: int) -> tuple[list[Part], dict[str, Part]]:
    """Those of training, and the others by name."""
    with told_as_export():
        others = {"eval": Part(evaluation.module, [], evaluation.inputs, evaluation.shapes)}
        if train.has_targets:
            others["count"] = count_targets(train, num_state)
        return split(train, segments), others


def verify_outputs(train: Graph, evaluation: Graph) -> None:
    if train.sums != evaluation.sums:
        raise CompileError(f"the loss function gives other sums in training ({names_of(train.sums)}) than in evaluation "
                           f"({names_of(evaluation.sums)}): they must be the same")
    if train.has_targets != evaluation.has_targets:
        raise CompileError("the loss function gives 'targets' in training or in evaluation: it must in both")


def names_of(names: list[str]) -> str:
    return ", ".join(names) or "none"


def batch_size(batch: Batch) -> int:
    if not batch:
        raise CompileError("the example batch has no fields")
    sizes = {name: tensor.shape[0] if tensor.dim() else 0 for name, tensor in batch.items()}
    if len(set(sizes.values())) != 1:
        raise CompileError("the fields of the example batch have different numbers of samples: "
                           + ", ".join(f"{name} {size}" for name, size in sizes.items()))
    size = next(iter(sizes.values()))
    if size < 2:
        raise CompileError(f"the example batch has {size} samples: it needs at least 2, so that its first dimension is known")
    return size


def traced(step: Step, state: State, batch: Batch, size: int, dynamic: bool, training: bool) -> Graph:
    with told_as_export(" with a batch of any size" if dynamic else ""):
        return trace(step, state, batch, size, dynamic, training)


@contextlib.contextmanager
def told_as_export(what: str = "") -> Iterator[None]:
    """What goes wrong is told in one line that ends with the user's own."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # torch.export prints graphs beside its errors
            yield
    except CompileError:
        raise
    except Exception as error:
        raise CompileError(f"the model cannot be exported{what}: {one_line(error)}{place_of(error)}") from error


def place_of(error: BaseException) -> str:
    """The last line of code of an error that belongs neither to torch nor to this package."""
    ours = (os.path.dirname(torch.__file__), os.path.dirname(__file__), os.path.dirname(os.__file__))
    models = os.path.join(os.path.dirname(__file__), "models.py")  # which is like one of the user
    seen = error
    places: list[traceback.FrameSummary] = []
    while seen is not None and not places:
        places = [frame for frame in traceback.extract_tb(seen.__traceback__)
                  if (not frame.filename.startswith(ours) or frame.filename == models) and not frame.filename.startswith("<")
                  and f"{os.sep}site-packages{os.sep}" not in frame.filename]
        seen = seen.__cause__ or seen.__context__
    if not places or not os.path.exists(places[-1].filename):
        return ""
    return f" ({places[-1].filename}:{places[-1].lineno}: {places[-1].line})"


def describe_package(state: State, batch: Batch, train: Graph, evaluation: Graph, parts: list[Part]) -> dict[str, object]:
    return {
        "parameters": [describe(name, tensor, trainable=name in state.trainable) for name, tensor in state.parameters.items()],
        "buffers": [describe(name, tensor, changed=name in train.changed_buffers) for name, tensor in state.buffers.items()],
        # The first dimension is the sample.
        "fields": [{**describe(name, tensor), "shape": list(tensor.shape[1:])} for name, tensor in batch.items()],
        "sums": train.sums,
        "predictions": evaluation.has_predictions,
        "segments": [{"takes": part.takes, "gradients": part.gradients, "keeps": part.keeps} for part in parts],
    }


def describe_classes(loss: Loss, step: Step, batch: Batch, evaluation: Graph) -> dict[str, object]:
    """So that a class outside of them is found before the compiled code meets it."""
    if not loss.classes or not evaluation.has_predictions:
        return {"class_field": "", "num_classes": 0}
    with torch.no_grad():
        predictions = copy.deepcopy(step).eval()(list(batch.values()))[-1]
    return {"class_field": loss.classes, "num_classes": predictions.shape[-1]}


def describe_loss(loss: Loss, train: Graph) -> dict[str, object]:
    return {"targets": loss.name if train.has_targets else "", "all_count": loss.all_count}
