"""Compiled code beside the model that it was made of."""

import copy
import ctypes
import os
import tempfile
from dataclasses import dataclass
from typing import Callable

import torch

from lockstep.errors import CompilerFault
from lockstep.graphs import Graph, State, Step
from lockstep.losses import Batch
from lockstep.segments import Part, segment_names

TOLERANCE = {"fp32": 1e-3, "bf16": 5e-2}  # of a value's greatest element, compiled against eager
# Of a gradient's norm: where a number lies at the kink of a ReLU, rounding decides whether it has a gradient.
KINKS = 5e-2


@dataclass
class Comparison:
    step: Step
    state: State
    batch: Batch
    members: dict[str, bytes]
    tolerance: float

    def run(self, name: str, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        with tempfile.NamedTemporaryFile(suffix=".pt2") as file, torch.no_grad():
            file.write(self.members[name + ".pt2"])
            file.flush()
            return list(torch._inductor.aoti_load_package(file.name, run_single_threaded=True)(inputs))

    def train(self, graph: Graph, parts: list[Part]) -> list[torch.Tensor]:
        """As the graph before it was split."""
        values, gradients = list(graph.inputs), []
        for i, (name, part) in enumerate(zip(segment_names(len(parts)), parts)):
            made = self.run(name, [values[number] for number in part.takes])
            values += made[len(made) - part.keeps:]
            made = made[:len(made) - part.keeps]
            if i == 0:
                scalars, made = made[:graph.num_scalars], made[graph.num_scalars:]
                buffers, made = made[part.gradients:], made[:part.gradients]
            gradients[:0] = made
        return [*scalars, *gradients, *buffers]


def compare(given: Comparison, train: Graph, parts: list[Part], evaluation: Graph, report: Callable[[str], None]) -> None:
    """A graph whose numbers are not the model's must not be trained."""
    # The libraries rely on a process that has LibTorch's symbols in sight, as lockstep-trainer has.
    ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"), ctypes.RTLD_GLOBAL)
    for kind, graph in (("train", train), ("eval", evaluation)):
        expected = eager(given.step, given.state, given.batch, graph)
        if any(not torch.equal(a, b) for a, b in zip(expected, eager(given.step, given.state, given.batch, graph))):
            report(f"the {kind} pass draws random numbers: it is not compared")
            continue
        results = given.train(graph, parts) if graph.training else given.run(kind, graph.inputs)
        outputs = list(zip(results, expected, strict=True))
        gradients = range(graph.num_scalars, graph.num_scalars + graph.num_gradients)
        largest = max((expected[i].norm().item() for i in gradients), default=0.0)
        for i, (got, want) in enumerate(outputs):
            if i in gradients:
                difference, allowed = (got - want).norm().item(), KINKS * want.norm().item() + 1e-3 * largest
            else:
                difference, allowed = greatest(got.double() - want.double()), given.tolerance * max(1e-3, greatest(want))
                allowed = max(allowed, 0.0 if want.is_floating_point() else 1.0)  # one that is counted otherwise
            if not difference <= allowed:
                raise CompilerFault(f"output {i} of the compiled {kind} pass differs from the model's own by {difference:.3g} "
                                    f"where at most {allowed:.3g} is expected: this is a fault of the compiler")
    if train.has_targets:
        (counted,) = given.run("count", list(given.batch.values()))
        if counted.item() != expected[train.num_scalars - 1].item():
            raise CompilerFault("the compiled number of targets differs from the model's own: this is a fault of the compiler")


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
    return [*(output.detach() for output in outputs[:graph.num_scalars]),
            *(torch.zeros_like(value) if gradient is None else gradient for gradient, value in zip(gradients, wanted)),
            *(buffers[name] for name in graph.changed_buffers)]
