"""Traces a module and its loss to tensor graphs: one with gradients for training, one for evaluation.

torch.export traces the module first, because it supports most Python code; make_fx then traces the exported module, which
consists of plain operators, including its backward pass.
"""

import copy
import re
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext, StrictMinMaxConstraint
from torch.utils._sympy.value_ranges import ValueRanges

from lockstep.compile.batch_sizes import LARGEST, hint_of, turning_points, verify_not_fixed
from lockstep.compile.errors import CompileError, quiet
from lockstep.compile.losses import Batch, LossFunction

MODULE = "module."  # prefix of parameter names in Step


class Shape:
    """What the loss function returned. A separate object, because torch.export restores attributes of the module."""

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
        if not isinstance(given, (torch.Tensor, Mapping)):
            raise CompileError(f"the loss function returns a {type(given).__name__}, expected a tensor or a dictionary with 'loss'")
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
            raise CompileError(f"the loss function returns a {type(value).__name__} as '{name}', expected a tensor")
        what = {"loss": "the mean over the samples", "targets": "their number"}.get(name, "a sum over the samples")
        if value.dim() != 0:
            raise CompileError(f"the loss function returns '{name}' of shape {list(value.shape)}: it must be a scalar, {what}")
        if name == "loss" and not value.is_floating_point():
            raise CompileError(f"the loss function returns a loss of {value.dtype}: it must be a floating-point number")
        if name == "targets" and (value.is_floating_point() or value.dtype == torch.bool):
            raise CompileError(f"the loss function returns 'targets' of {value.dtype}: it must be an integer, {what}")
        return value


@dataclass
class State:
    """Parameters and buffers of a module, in its order. Tied parameters have their first name."""

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
    """A graph with inputs (state tensors, batch tensors[, weight]) and outputs: loss, sums, [targets], and in training
    gradients and changed buffers, in evaluation [predictions]."""

    module: torch.fx.GraphModule
    inputs: list[torch.Tensor]
    dynamic: bool  # the number of samples
    training: bool
    sums: list[str]
    has_targets: bool
    has_predictions: bool
    trained: list[str] = field(default_factory=list)  # parameters, in the order of their gradients
    changed_buffers: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)  # parameters without a gradient
    turning_points: list[int] = field(default_factory=list)  # see batch_sizes.turning_points()

    @property
    def num_gradients(self) -> int:
        return len(self.trained)

    @property
    def num_scalars(self) -> int:
        return 1 + len(self.sums) + self.has_targets


def dynamic_shapes(batch: Batch) -> list[dict | None]:
    rows = torch.export.Dim("batch", min=1, max=LARGEST)
    return [{0: rows} for _ in batch]


def trace(step: Step, state: State, batch: Batch, dynamic: bool, training: bool, changed: Sequence[str] = ()) -> Graph:
    """`dynamic`: support any number of samples. `changed`: buffers that training changes."""
    step = without_traces(step)
    step.module.train(training)
    with quiet():
        shapes = (dynamic_shapes(batch),) if dynamic else None
        exported = torch.export.export(step, (list(batch.values()),), dynamic_shapes=shapes, strict=False)
        verify_operators(exported.graph)
        return _Tracer(step, state, batch, dynamic, training, list(changed)).trace(exported)


def without_traces(step: Step) -> Step:
    """A copy with the same tensors, because forward() may keep a tensor of the trace in the module, where it would remain."""
    same = (*step.parameters(), *step.buffers(), step.shape)
    return copy.deepcopy(step, {id(value): value for value in same})


class _Tracer:
    """Traces an exported step, with its backward pass, to a graph of tensors."""

    def __init__(self, step: Step, state: State, batch: Batch, dynamic: bool, training: bool, changed: list[str]):
        self.step, self.state, self.batch = step, state, batch
        self.dynamic, self.training, self.changed = dynamic, training, changed
        self.names, self.num_state, self.num_parameters = state.names(), len(state.names()), len(state.parameters)
        self.unused: list[str] = []

    def trace(self, exported: torch.export.ExportedProgram) -> Graph:
        self.flat = exported.module(check_guards=False)
        weight = [torch.ones((), device=next(iter(self.state.parameters.values())).device)] if self.training else []
        inputs = [*self.state.tensors(), *self.batch.values(), *weight]
        env = ShapeEnv()
        try:
            # Compiled code cannot call the backward pass of oneDNN's LSTM; without oneDNN the layer becomes plain operators.
            with torch.set_grad_enabled(self.training), torch.backends.mkldnn.flags(enabled=False):
                graph = make_fx(lambda tensors: self.run(tensors), tracing_mode="symbolic" if self.dynamic else "fake",
                                _allow_non_fake_inputs=True)(self.fakes(inputs, env))
        except Exception as error:
            error.line_of_user = line_of_user(self.flat, error)  # type: ignore[attr-defined]
            raise
        verify_not_fixed(env)
        verify_operators(graph.graph)
        separate_outputs(graph)
        size = next(iter(self.batch.values())).shape[0]
        shape = self.step.shape
        trained = [name for name in self.state.trainable if self.training and name not in self.unused]
        return Graph(graph, inputs, self.dynamic, self.training, list(shape.sums), shape.has_targets,
                     shape.has_predictions and not self.training, trained, self.changed, self.unused,
                     turning_points(env, size))

    def fakes(self, inputs: list[torch.Tensor], env: ShapeEnv) -> list[torch.Tensor]:
        fields = range(self.num_state, self.num_state + len(self.batch)) if self.dynamic else ()
        mode = FakeTensorMode(allow_fallback_kernels=not self.dynamic, allow_non_fake_inputs=True, shape_env=env)
        return fakes_of(inputs, [{0: LARGEST} if i in fields else {} for i in range(len(inputs))], mode)

    def run(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        values = [tensor.detach() for tensor in tensors[:self.num_state]]
        trained = {name: value for name, value in zip(self.names, values[:self.num_parameters]) if name in self.state.trainable}
        for value in trained.values():
            value.requires_grad_(self.training)
        values[self.num_parameters:] = [buffer.clone() for buffer in values[self.num_parameters:]]
        given = dict(zip((MODULE + name for name in self.names), values))
        fields = list(tensors[self.num_state:self.num_state + len(self.batch)])
        outputs = torch.func.functional_call(self.flat, given, (fields,))
        if not self.training:
            return list(outputs)
        gradients = torch.autograd.grad(outputs[0] * tensors[-1], list(trained.values()), allow_unused=True)
        self.unused = [name for name, gradient in zip(trained, gradients) if gradient is None]
        after = [values[self.names.index(name)].detach() for name in self.changed]
        num_scalars = 1 + len(self.step.shape.sums) + self.step.shape.has_targets
        return [*(output.detach() for output in outputs[:num_scalars]),
                *(gradient.contiguous() for gradient in gradients if gradient is not None), *after]


def fakes_of(tensors: Iterable[torch.Tensor], dynamic: list[dict[int, int | None]], mode: FakeTensorMode) -> list[torch.Tensor]:
    """Tensors without data. `dynamic`: for each, the dimensions that depend on the batch size, with their limits. Only these are
    symbolic, so that they are not unified with dimensions of the model."""
    made = []
    for i, (tensor, limits) in enumerate(zip(tensors, dynamic)):
        sizes = [DimDynamic.DUCK if dim in limits else DimDynamic.STATIC for dim in range(tensor.dim())]
        ranges = [StrictMinMaxConstraint(warn_only=False, vr=ValueRanges(1, limits[dim])) if limits.get(dim) else None
                  for dim in range(tensor.dim())]
        context = StatelessSymbolicContext(dynamic_sizes=sizes, constraint_sizes=ranges)
        made.append(mode.from_tensor(tensor, source=ConstantSource(f"input{i}"), symbolic_context=context))
    return made


def fresh_fakes(fakes: list[torch.Tensor]) -> list[torch.Tensor]:
    """The same without what was found out about the batch size, e.g. that it is at least 16: the compiler of one part of a graph need
    not assume what holds for another."""
    dynamic = [{dim: LARGEST if size.node.expr.is_symbol else None for dim, size in enumerate(fake.shape) if isinstance(size, torch.SymInt)}
               for fake in fakes]
    if not any(dynamic):
        return fakes
    tensors = (torch.empty_strided([*map(hint_of, fake.shape)], [*map(hint_of, fake.stride())], dtype=fake.dtype, device=fake.device)
               for fake in fakes)
    return fakes_of(tensors, dynamic, FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv()))


def line_of_user(flat: torch.fx.GraphModule, error: BaseException) -> str:
    """The line of user code at which the exported graph `flat` failed."""
    lines = [frame.line for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith("<eval_with_key>")]
    nodes = {node.name: node for node in flat.graph.nodes}
    name = (lines[-1] or "").partition(" = ")[0].strip() if lines else ""
    places = re.findall(r'File "([^"]+)", line (\d+)[^\n]*\n([^\n]*)', nodes[name].stack_trace or "") if name in nodes else []
    return f" ({places[-1][0]}:{places[-1][1]}: {places[-1][2].strip()})" if places else ""


# The operator namespaces of LibTorch, which is all that lockstep-trainer loads. Operators in them that LibTorch does not have
# are detected when the code runs without Python's operators (running.py).
OWN_OPERATORS = ("aten", "prims", "prim", "mkldnn", "onednn", "quantized", "inductor", "_quantized")


def verify_operators(graph: torch.fx.Graph) -> None:
    """Raises CompileError for unsupported operators. Called before make_fx for the model, after it for the backward pass."""
    for node in graph.nodes:
        name = node.target.name() if isinstance(node.target, torch._ops.OpOverload) else ""
        if not name or name.partition("::")[0] in OWN_OPERATORS or _is_composite(node.target):
            continue
        places = re.findall(r'File "([^"]+)", line (\d+)', node.stack_trace or "")
        raise foreign_operator(name, f" ({places[-1][0]}:{places[-1][1]})" if places else "")


def foreign_operator(name: str, place: str = "") -> CompileError:
    hint = ", with experts_implementation='batched_mm' in the config" if name.startswith("transformers::grouped_mm") else ""
    return CompileError(f"the model calls the operator {name}, which is not part of LibTorch and not available in "
                        f"lockstep-trainer; use PyTorch's built-in operators instead{hint}{place}")


def _is_composite(operator: torch._ops.OpOverload) -> bool:
    """Whether it decomposes into other operators, which are verified instead."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeImplicitAutograd")


def separate_outputs(graph: torch.fx.GraphModule) -> None:
    """Clones outputs that are inputs or other outputs: gradients are changed in place later."""
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
