"""Compares compiled code with the model in Python."""

import copy
import math
from typing import Callable

import torch

from lockstep.compile.batch_sizes import resized
from lockstep.compile.errors import CompileError, CompilerFault, one_line, quiet
from lockstep.compile.graphs import Graph, Step
from lockstep.compile.losses import Batch, shape_of
from lockstep.compile.passes import Pass
from lockstep.compile.running import Run
from lockstep.compile.segments import Part, segment_names
from lockstep.compile.trial import FAILS, equal, place_of

TOLERANCE = {"fp32": 1e-3, "bf16": 5e-2}  # relative to the largest element, compiled against eager
# Relative to a gradient's norm: at the kink of a ReLU, rounding decides whether an element has a gradient.
KINKS = 5e-2


class Comparison:
    """The compiled code of a pass, which `run` runs like lockstep-trainer, and the module from which it was compiled. `tensors`: its
    parameters and buffers."""

    def __init__(self, compiled: Pass, run: Run, tensors: list[torch.Tensor], tolerance: float):
        self.compiled, self.run, self.tensors, self.tolerance = compiled, run, tensors, tolerance

    def outputs(self, batch: Batch) -> list[torch.Tensor]:
        graph = self.compiled.graph
        inputs = [*self.tensors, *batch.values()]
        return run_parts(graph, self.compiled.parts, [*inputs, graph.inputs[-1]] if graph.training else inputs, self.run)


def verify_trace(training: Pass) -> None:
    """Raises CompileError if the graph has other gradients than the module, because torch.export leaves out code that runs only in the
    backward pass. Both run in Python, with the same random numbers; if they draw them in another order, nothing is known."""
    graph = training.graph
    inputs = [*training.state.tensors(), *(tensor.clone() for tensor in training.batch.values()), graph.inputs[-1]]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        try:
            expected = eager(training.step, training.batch, graph)
        except Exception as error:
            raise CompileError(f"{FAILS} in the backward pass: {type(error).__name__}: {one_line(error)}{place_of(error)}") from error
        torch.manual_seed(0)
        with torch.no_grad(), quiet():
            results = graph.module(inputs)
    if not torch.allclose(results[0], expected[0], rtol=1e-5, equal_nan=True):
        return
    gradients = range(graph.num_scalars, graph.num_scalars + graph.num_gradients)
    largest = max((finite(expected[i]).norm().item() for i in gradients), default=0.0)
    for name, i in zip(graph.trained, gradients):
        if norm_of_difference(results[i], expected[i]) > KINKS * finite(expected[i]).norm().item() + 1e-3 * largest:
            raise CompileError(f"the gradient of '{name}' is another one after torch.export, which ignores the backward() of a "
                               "torch.autograd.Function, and hooks on gradients: express it with operators and detach(), e.g. "
                               "x + (f(x) - x).detach() for the gradient of x")


def run_parts(graph: Graph, parts: list[Part], inputs: list[torch.Tensor], run: Run) -> list[torch.Tensor]:
    """The outputs of the graph before it was split."""
    values, gradients, scalars, buffers = inputs, [], [], []
    for name, part in zip(segment_names(parts, graph.training), parts):
        made = run(name, [values[number] for number in part.takes])
        values += made[len(made) - part.keeps:]
        made = made[:len(made) - part.keeps]
        if part.gradients and not scalars:
            scalars, made = made[:graph.num_scalars], made[graph.num_scalars:]
            buffers, made = made[part.gradients:], made[:part.gradients]
        gradients[:0] = made
    return [*scalars, *gradients, *buffers]


def compare(given: Comparison, report: Callable[[str], None]) -> int:
    """Raises CompilerFault if results differ from the model's. Returns the largest batch size that may be used; 0: no limit."""
    compiled = given.compiled
    sizes, largest = compiled.sizes_to_try(compiled.batch_size)
    for size in sizes:
        batch = resized(compiled.batch, size)
        try:
            expected = eager(compiled.step, batch, compiled.graph)
        except Exception:
            if size == compiled.batch_size:
                raise
            continue  # e.g. BatchNorm does not train on a single sample
        results = given.outputs(batch)
        if size == compiled.batch_size and is_random(given, batch, expected):
            report(f"{compiled.name} draws random numbers: its results are not compared")
            given.tolerance = math.inf
        verify(given, size, results, expected)
    return largest


def is_random(given: Comparison, batch: Batch, expected: list[torch.Tensor]) -> bool:
    return not all(map(equal, expected, eager(given.compiled.step, batch, given.compiled.graph)))


def verify(given: Comparison, size: int, results: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    graph = given.compiled.graph
    where = f"of the compiled {given.compiled.name} for a batch of {size}"
    gradients = range(graph.num_scalars, graph.num_scalars + graph.num_gradients)
    largest = max((finite(expected[i]).norm().item() for i in gradients), default=0.0)
    for i, (got, want) in enumerate(zip(results, expected, strict=True)):
        if given.tolerance == math.inf:
            distance, allowed = greatest_difference, math.inf
        elif i in gradients:
            distance, allowed = norm_of_difference, KINKS * finite(want).norm().item() + 1e-3 * largest
        else:
            distance, allowed = greatest_difference, allowed_for(want, given.tolerance)
            allowed = max(allowed, 0.0 if want.is_floating_point() else 1.0)  # counts may differ by one
        check_equal(f"output {i} {where}", got, want, allowed, distance)
    if graph.training and graph.has_targets:
        (counted,) = given.run("count", list(resized(given.compiled.batch, size).values()))
        if counted.item() != expected[graph.num_scalars - 1].item():
            raise CompilerFault(f"the number of targets {where} differs from the model in Python: this is a compiler bug")


def greatest_difference(got: torch.Tensor, want: torch.Tensor) -> float:
    return greatest(difference_of(got.double(), want.double()))


def norm_of_difference(got: torch.Tensor, want: torch.Tensor) -> float:
    return difference_of(got, want).norm().item()


def check_equal(what: str, got: torch.Tensor, want: torch.Tensor, allowed: float,
                distance: Callable[[torch.Tensor, torch.Tensor], float] = greatest_difference) -> None:
    """Raises CompilerFault if `got` has another form than `want`, or a distance from it above `allowed`; infinite: values are not
    compared."""
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        raise CompilerFault(f"{what} is {shape_of(got)}, that of the model in Python is {shape_of(want)}: this is a compiler bug")
    difference = distance(got, want) if allowed < math.inf else 0.0
    if not difference <= allowed:
        raise CompilerFault(f"{what} differs from the model in Python by {difference:.3g}, expected at most {allowed:.3g}: this is "
                            "a compiler bug")


def allowed_for(want: torch.Tensor, tolerance: float) -> float:
    return tolerance * max(1e-3, greatest(finite(want.double())))


def difference_of(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """0 where both are NaN, or the same infinity."""
    return (got - want).masked_fill((got == want) | (got.isnan() & want.isnan()), 0.0)


def finite(tensor: torch.Tensor) -> torch.Tensor:
    """With 0 for other values."""
    return tensor.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)


def greatest(tensor: torch.Tensor) -> float:
    return tensor.abs().max().item() if tensor.numel() else 0.0


def eager(step: Step, batch: Batch, graph: Graph) -> list[torch.Tensor]:
    """The expected outputs of the graph, computed by the module."""
    module = copy.deepcopy(step).train(graph.training)
    with torch.set_grad_enabled(graph.training):
        outputs = module([tensor.clone() for tensor in batch.values()])  # forward() may change them
    if not graph.training:
        return [output.detach() for output in outputs]
    named, buffers = dict(module.module.named_parameters()), dict(module.module.named_buffers())
    gradients = torch.autograd.grad(outputs[0], [named[name] for name in graph.trained])
    return [*(output.detach() for output in outputs[:graph.num_scalars]),
            *gradients, *(buffers[name] for name in graph.changed_buffers)]
