"""compile_step(): the whole way from a module to a file."""

import contextlib
import copy
import ctypes
import io
import os
import platform
import tempfile
import traceback
from pathlib import Path
from typing import Callable, Mapping

import torch
from torch import nn

from lockstep.compiler import compiled, verify_compiler
from lockstep.errors import CompileError, CompilerFault, one_line
from lockstep.graphs import Graph, State, Step, trace
from lockstep.losses import LOSSES, Batch, LossFunction, cross_entropy, own_loss, verify_targets
from lockstep.packing import cpu_flags, describe, pack_weights, write_package

Report = Callable[[str], None]

TOLERANCE = {"fp32": 1e-3, "bf16": 5e-2}  # of a value's greatest element, compiled against eager
# Of a gradient's norm: where a number lies at the kink of a ReLU, rounding decides whether it has a gradient.
KINKS = 5e-2


def compile_step(
    module: nn.Module,
    loss: str | LossFunction,
    example_batch: Mapping[str, torch.Tensor],
    path: str | os.PathLike[str] = "model.ls2",
    *,
    dynamic_batch: bool = False,
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
    function = LOSSES[loss] if isinstance(loss, str) else loss
    if function in (cross_entropy, own_loss):
        verify_targets(batch)
    module = copy.deepcopy(module).to(device)
    state = State.of(module)
    if not state.trainable:
        raise CompileError("the model has no parameters to train")
    step = Step(module, function, list(batch), device if precision == "bf16" else None)
    verify_compiler()
    report("tracing")
    train = traced(step, state, batch, size, dynamic_batch, training=True)
    evaluation = traced(step, state, batch, size, True, training=False)
    if train.sums != evaluation.sums:
        raise CompileError(f"the loss function gives other sums in training ({names_of(train.sums)}) than in evaluation "
                           f"({names_of(evaluation.sums)}): they must be the same")
    for unused in train.unused:
        report(f"warning: parameter '{unused}' has no part in the loss; its gradient is always zero")
    report("compiling (g++; half a minute to some minutes)")
    members = {"train.pt2": compiled(train, device, threads), "eval.pt2": compiled(evaluation, device, threads)}
    report("comparing with the model as it is")
    compare(step, state, batch, members, {"train": train, "eval": evaluation}, TOLERANCE[precision], report)
    members["weights.safetensors"] = pack_weights({**state.parameters, **state.buffers})
    manifest = describe_package(state, batch, train, evaluation)
    manifest |= {"name": name or type(module).__name__, "torch": torch.__version__.split("+")[0], "device": device,
                 "architecture": platform.machine(), "cpu_flags": cpu_flags(), "threads": threads, "precision": precision,
                 "batch_size": size, "dynamic_batch": dynamic_batch}
    if device == "cuda":
        manifest["compute_capability"] = list(torch.cuda.get_device_capability())
    write_package(path, manifest, members)
    return path


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
    """trace(), with what goes wrong told in one line that ends with the user's own."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # torch.export prints graphs beside its errors
            return trace(step, state, batch, size, dynamic, training)
    except CompileError:
        raise
    except Exception as error:
        what = " with a batch of any size" if dynamic else ""
        raise CompileError(f"the model cannot be exported{what}: {one_line(error)}{place_of(error)}") from error


def place_of(error: BaseException) -> str:
    """The last line of code of an error that belongs neither to torch nor to this package."""
    ours = (os.path.dirname(torch.__file__), os.path.dirname(__file__), os.path.dirname(os.__file__))
    seen = error
    places: list[traceback.FrameSummary] = []
    while seen is not None and not places:
        places = [frame for frame in traceback.extract_tb(seen.__traceback__)
                  if not frame.filename.startswith(ours) and not frame.filename.startswith("<")
                  and f"{os.sep}site-packages{os.sep}" not in frame.filename]
        seen = seen.__cause__ or seen.__context__
    if not places or not os.path.exists(places[-1].filename):
        return ""
    return f" ({places[-1].filename}:{places[-1].lineno}: {places[-1].line})"


def compare(step: Step, state: State, batch: Batch, members: dict[str, bytes], graphs: dict[str, Graph], tolerance: float,
            report: Report) -> None:
    """A graph whose numbers are not the model's must not be trained."""
    # The libraries rely on a process that has LibTorch's symbols in sight, as lockstep-trainer has.
    ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"), ctypes.RTLD_GLOBAL)
    for kind, graph in graphs.items():
        with tempfile.NamedTemporaryFile(suffix=".pt2") as file, torch.no_grad():
            file.write(members[kind + ".pt2"])
            file.flush()
            run = torch._inductor.aoti_load_package(file.name, run_single_threaded=True)
        expected = eager(step, state, batch, graph)
        if any(not torch.equal(a, b) for a, b in zip(expected, eager(step, state, batch, graph))):
            report(f"the {kind} pass draws random numbers: it is not compared")
            continue
        outputs = list(zip(run(graph.inputs), expected, strict=True))
        gradients = range(1 + len(graph.sums), 1 + len(graph.sums) + len(state.trainable) * graph.training)
        largest = max((expected[i].norm().item() for i in gradients), default=0.0)
        for i, (got, want) in enumerate(outputs):
            if i in gradients:
                difference, allowed = (got - want).norm().item(), KINKS * want.norm().item() + 1e-3 * largest
            else:
                difference, allowed = greatest(got.double() - want.double()), tolerance * max(1e-3, greatest(want))
                allowed = max(allowed, 0.0 if want.is_floating_point() else 1.0)  # one that is counted otherwise
            if not difference <= allowed:
                raise CompilerFault(f"output {i} of the compiled {kind} pass differs from the model's own by {difference:.3g} "
                                    f"where at most {allowed:.3g} is expected: this is a fault of the compiler")


def greatest(tensor: torch.Tensor) -> float:
    return tensor.abs().max().item() if tensor.numel() else 0.0


def eager(step: Step, state: State, batch: Batch, graph: Graph) -> list[torch.Tensor]:
    """What the graph must return, by the module itself."""
    module = copy.deepcopy(step).train(graph.training)
    with torch.set_grad_enabled(graph.training):
        outputs = module(list(batch.values()))
    if not graph.training:
        return [output.detach() for output in outputs]
    named, buffers = dict(module.module.named_parameters()), dict(module.module.named_buffers())
    wanted = [named[name] for name in state.trainable]
    gradients = torch.autograd.grad(outputs[0], wanted, allow_unused=True)
    return [*(output.detach() for output in outputs[:1 + len(graph.sums)]),
            *(torch.zeros_like(value) if gradient is None else gradient for gradient, value in zip(gradients, wanted)),
            *(buffers[name] for name in graph.changed_buffers)]


def describe_package(state: State, batch: Batch, train: Graph, evaluation: Graph) -> dict[str, object]:
    return {
        "parameters": [describe(name, tensor, trainable=name in state.trainable) for name, tensor in state.parameters.items()],
        "buffers": [describe(name, tensor, changed=name in train.changed_buffers) for name, tensor in state.buffers.items()],
        # The first dimension is the sample.
        "fields": [{**describe(name, tensor), "shape": list(tensor.shape[1:])} for name, tensor in batch.items()],
        "sums": train.sums,
        "predictions": evaluation.has_predictions,
    }
