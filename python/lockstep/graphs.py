"""From a module and a loss to graphs of tensors alone: one with gradients for training, one for evaluation.

torch.export traces the module first, because it handles what people write in Python; make_fx then runs over the exported
module, which is plain operators, and records its backward pass too.
"""

import copy
import warnings
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from lockstep.errors import CompileError
from lockstep.losses import Batch, LossFunction

MODULE = "module."  # what the names of parameters begin with in Step


class Shape:
    """What a loss function turned out to return. An object of its own: torch.export puts back what a module changes."""

    def __init__(self) -> None:
        self.sums: list[str] = []
        self.has_targets = False
        self.has_predictions = False


class Step(nn.Module):
    """The module and its loss as one module whose input is a list of tensors and whose output is a flat tuple."""

    def __init__(self, module: nn.Module, loss: LossFunction, fields: list[str], autocast: str | None):
        super().__init__()
        self.module = module
        self.loss = loss
        self.fields = fields
        self.autocast = autocast
        self.shape = Shape()

    def forward(self, tensors: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        batch = dict(zip(self.fields, tensors))
        if self.autocast is None:
            given = self.loss(self.module, batch)
        else:
            with torch.autocast(self.autocast, dtype=torch.bfloat16):
                given = self.loss(self.module, batch)
        given = {"loss": given} if isinstance(given, torch.Tensor) else dict(given)
        loss = self._scalar("loss", given.pop("loss", None))
        targets = given.pop("targets", None)
        predictions = given.pop("predictions", None)
        self.shape.has_targets = targets is not None
        self.shape.has_predictions = predictions is not None
        self.shape.sums = sorted(given)
        sums = [self._scalar(name, given[name]) for name in self.shape.sums]
        counted = [] if targets is None else [self._scalar("targets", targets).long()]
        return (loss.float(), *sums, *counted, *([] if predictions is None else [predictions]))

    @staticmethod
    def _scalar(name: str, value: object) -> torch.Tensor:
        if not isinstance(value, torch.Tensor):
            raise CompileError(f"the loss function gives no tensor as '{name}' but {type(value).__name__}")
        what = {"loss": "the mean over the samples", "targets": "how many there are"}.get(name, "a sum over the samples")
        if value.dim() != 0:
            raise CompileError(f"the loss function gives '{name}' of shape {list(value.shape)}: it must be a scalar, {what}")
        if name == "loss" and not value.is_floating_point():
            raise CompileError(f"the loss function gives a loss of {value.dtype}: it must be of a floating-point type")
        if name == "targets" and (value.is_floating_point() or value.dtype == torch.bool):
            raise CompileError(f"the loss function gives 'targets' of {value.dtype}: it must be an integer, {what}")
        return value


@dataclass
class State:
    """Parameters and buffers of a module, in its order. Of tied ones, the first name."""

    parameters: dict[str, torch.Tensor]
    buffers: dict[str, torch.Tensor]
    trainable: list[str]

    @staticmethod
    def of(module: nn.Module) -> "State":
        kept = module.state_dict(keep_vars=True)
        named = dict(module.named_parameters())
        buffers = {name: buffer for name, buffer in module.named_buffers() if name in kept}
        trainable = [name for name, parameter in named.items() if parameter.requires_grad]
        return State({name: parameter.detach() for name, parameter in named.items()}, buffers, trainable)

    def tensors(self) -> list[torch.Tensor]:
        return [tensor.detach().clone() for tensor in (*self.parameters.values(), *self.buffers.values())]

    def names(self) -> list[str]:
        return [*self.parameters, *self.buffers]


@dataclass
class Graph:
    """A graph over (state tensors, batch tensors[, weight]), and what it returns: loss, sums, [targets], and of training
    gradients and changed buffers, of evaluation [predictions]."""

    module: torch.fx.GraphModule
    inputs: list[torch.Tensor]
    shapes: list[dict | None] | None
    training: bool
    sums: list[str]
    has_targets: bool
    has_predictions: bool
    num_gradients: int = 0
    changed_buffers: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)

    @property
    def num_scalars(self) -> int:
        return 1 + len(self.sums) + self.has_targets

    def program(self) -> torch.export.ExportedProgram:
        return export_graph(self.module, self.inputs, self.shapes)


class _Holder(nn.Module):
    """torch.export wants a module."""

    def __init__(self, graph: nn.Module):
        super().__init__()
        self.graph = graph

    def forward(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        return self.graph(tensors)


def export_graph(graph: nn.Module, inputs: list[torch.Tensor], shapes: list[dict | None] | None) -> torch.export.ExportedProgram:
    """`graph`: takes and gives lists of tensors. `shapes`: which dimensions of the inputs are dynamic; None: none is."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(_Holder(graph), (inputs,), dynamic_shapes=None if shapes is None else (shapes,),
                                   strict=False)


def dynamic_shapes(batch: Batch, size: int) -> list[dict | None]:
    rows = torch.export.Dim("batch", min=1, max=1 << 20)
    return [{0: rows} if tensor.dim() and tensor.shape[0] == size else None for tensor in batch.values()]


def _export(step: Step, batch: Batch, size: int, dynamic: bool) -> torch.export.ExportedProgram:
    return torch.export.export(step, (list(batch.values()),),
                               dynamic_shapes=(dynamic_shapes(batch, size),) if dynamic else None, strict=False)


def trace(step: Step, state: State, batch: Batch, size: int, dynamic: bool, training: bool) -> Graph:
    """`size`: samples of the example batch; with `dynamic`, any number of them will do later."""
    step.module.train(training)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _trace(step, state, batch, size, dynamic, training)


def _trace(step: Step, state: State, batch: Batch, size: int, dynamic: bool, training: bool) -> Graph:
    exported = _export(step, batch, size, dynamic)
    flat = exported.module(check_guards=False)
    changed = changed_buffers(step, state, batch) if training else []
    names, num_state, num_parameters = state.names(), len(state.names()), len(state.parameters)
    is_trainable = [name in set(state.trainable) for name in state.parameters]
    num_scalars = 1 + len(step.shape.sums) + step.shape.has_targets
    unused: list[str] = []

    def run(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        values = [tensor.detach() for tensor in tensors[:num_state]]
        for i in range(num_parameters):
            values[i].requires_grad_(training and is_trainable[i])
        values[num_parameters:] = [buffer.clone() for buffer in values[num_parameters:]]
        given = dict(zip((MODULE + name for name in names), values))
        outputs = torch.func.functional_call(flat, given, (list(tensors[num_state:num_state + len(batch)]),))
        if not training:
            return list(outputs)
        wanted = [value for value, trained in zip(values, is_trainable) if trained]
        gradients = torch.autograd.grad(outputs[0] * tensors[-1], wanted, allow_unused=True)
        unused[:] = [name for name, gradient in zip(state.trainable, gradients) if gradient is None]
        gradients = [torch.zeros_like(value) if gradient is None else gradient.contiguous()
                     for gradient, value in zip(gradients, wanted)]
        after = [values[names.index(name)].detach() for name in changed]
        return [*(output.detach() for output in outputs[:num_scalars]), *gradients, *after]

    inputs = [*state.tensors(), *batch.values(), *([torch.ones(())] if training else [])]
    inputs[-1] = inputs[-1].to(inputs[0].device) if training else inputs[-1]
    with torch.set_grad_enabled(training):
        graph = make_fx(run, tracing_mode="symbolic" if dynamic else "real", _allow_non_fake_inputs=True)(inputs)
    separate_outputs(graph)
    shapes = [*[None] * num_state, *dynamic_shapes(batch, size), *([None] if training else [])] if dynamic else None
    shape = step.shape
    return Graph(graph, inputs, shapes, training, list(shape.sums), shape.has_targets, shape.has_predictions and not training,
                 len(state.trainable) if training else 0, changed, unused)


def changed_buffers(step: Step, state: State, batch: Batch) -> list[str]:
    """By trying: operators such as batch_norm do not say that they change one."""
    tried = copy.deepcopy(step).train()
    with torch.no_grad():
        tried(list(batch.values()))
    after = dict(tried.module.named_buffers())
    return [name for name, buffer in state.buffers.items() if not torch.equal(buffer, after[name])]


def separate_outputs(graph: torch.fx.GraphModule) -> None:
    """No output is an input or another output: gradients are changed in place later."""
    node = next(iter(reversed(graph.graph.nodes)))
    seen: set[torch.fx.Node] = set()
    outputs = []
    for value in node.args[0]:
        if value in seen or value.op in ("placeholder", "get_attr"):
            with graph.graph.inserting_before(node):
                value = graph.graph.call_function(torch.ops.aten.clone.default, (value,))
        seen.add(value)
        outputs.append(value)
    node.args = (outputs,)
    graph.recompile()
