"""Traces and compiles the training and evaluation passes of a module."""

import contextlib
import io
from collections.abc import Iterator, Mapping

import torch
from torch._dynamo.exc import UserError, UserErrorType
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

from lockstep.compile.batch_sizes import FixedSize, hint_of, resized
from lockstep.compile.blocks import split_at_blocks
from lockstep.compile.code_cache import Code
from lockstep.compile.errors import CompileError, one_line
from lockstep.compile.graphs import Graph, State, Step, trace
from lockstep.compile.losses import Batch
from lockstep.compile.segments import Part, count_targets, segment_names, split
from lockstep.compile.trial import place_of

MAX_BYTES = 1 << 30  # of all tensors of a graph, for batches that are only used for testing


class Pass:
    """`sizes`: candidate sizes for tracing with dynamic batch size; empty: batches have the size of the example. `blocks`: where the
    graph is cut; if empty, the backward pass is cut into `segments`."""

    def __init__(self, training: bool, step: Step, state: State, batch: Batch, sizes: list[int], changed: list[str], segments: int,
                 blocks: list[str]):
        self.training, self.step, self.state, self.batch = training, step, state, batch
        self.sizes, self.changed, self.segments, self.blocks = list(sizes), changed, segments, blocks
        self.name = "training" if training else "evaluation"
        self.code: dict[str, Code] = {}
        self.graph: Graph
        self.parts: list[Part]

    @property
    def dynamic(self) -> bool:
        return bool(self.sizes)

    def trace(self) -> None:
        """Raises CompileError."""
        while True:
            batch = resized(self.batch, self.sizes[0]) if self.dynamic else self.batch
            try:
                with converted_export_errors(f" for batches of any size in {self.name}" if self.dynamic else ""):
                    self.graph = trace(self.step, self.state, batch, self.dynamic, self.training, self.changed)
                    self.graphs = {name: part.module for name, part in self._parts().items()}
                return
            except FixedSize as error:
                self._take_next_size(error)

    def take(self, code: Mapping[str, Code | FixedSize]) -> bool:
        """Takes the code of its graphs. False if some is valid for one batch size only; then it has traced other graphs."""
        fixed = next((code[name] for name in self.graphs if isinstance(code[name], FixedSize)), None)
        if fixed is None:
            self.code = {name: code[name] for name in self.graphs}
            return True
        self._take_next_size(fixed)
        self.trace()
        return False

    def sizes_to_try(self, size: int) -> tuple[list[int], int]:
        """The batch sizes to test, and the largest size for which the code is known to be correct; 0: any."""
        if not self.dynamic:
            return [size], 0
        points = {point for code in self.code.values() for point in code.turning_points} | set(self.graph.turning_points)
        return sizes_around(points, self.sizes[0], size, bytes_of(self.graph.module))

    @property
    def batch_size(self) -> int:
        return len(next(iter(self.batch.values())))

    def _parts(self) -> dict[str, Part]:
        if self.blocks:
            self.parts = split_at_blocks(self.graph, self.state.names(), self.blocks)
        else:
            self.parts = split(self.graph, self.segments)
        parts = dict(zip(segment_names(self.parts, self.training), self.parts))
        if not self.training or not self.graph.has_targets:
            return parts
        return {**parts, "count": count_targets(self.graph, len(self.state.names()))}

    def _take_next_size(self, error: FixedSize) -> None:
        """Raises CompileError if there is none."""
        self.sizes = self.sizes[1:]
        if not self.sizes:
            raise CompileError(f"{self.name} does not support batches of any size: {error}") from error


def sizes_around(points: set[int], traced: int, size: int, bytes_of_traced: int) -> tuple[list[int], int]:
    """The batch sizes to test: `size` first, and those around `points`, where the code may not hold; and the largest size for which
    it is known to be correct; 0: any. `bytes_of_traced`: bytes_of() for a batch of `traced`."""
    def can_try(count: int) -> bool:
        return bytes_of_traced * count / traced <= MAX_BYTES or count <= size

    largest = min((point for point in points if point > traced and not can_try(point)), default=1) - 1
    tried = {1, 2, traced, *points, *(point - 1 for point in points)}
    return [size, *sorted(count for count in tried - {0, size} if can_try(count) and (largest == 0 or count <= largest))], largest


def bytes_of(module: torch.fx.GraphModule) -> int:
    """The size of all computed tensors, with the traced batch size."""
    total = 0
    for node in module.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and node.op == "call_function":
            total += value.element_size() * hint_of(value.numel())
    return total


@contextlib.contextmanager
def converted_export_errors(what: str) -> Iterator[None]:
    """Converts errors to FixedSize and CompileError, with one line that ends with the failing line of user code."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # torch.export prints graphs in addition to errors
            yield
    except (CompileError, FixedSize):
        raise
    except Exception as error:
        if is_fixed(error):
            raise FixedSize(reason_of(error) + place_of(error)) from error
        raise CompileError(f"the model cannot be exported{what}: {text_of(error)}{place_of(error)}") from error


def is_fixed(error: Exception) -> bool:
    return isinstance(error, ConstraintViolationError) or (
        isinstance(error, UserError) and error.error_type == UserErrorType.CONSTRAINT_VIOLATION)


def reason_of(error: Exception) -> str:
    """The reason; the first line of torch's message does not contain it."""
    lines = [line.strip(" -") for line in str(error).splitlines()]
    line = next((line for line in lines if "specialized" in line or "guard" in line), one_line(error))
    return f"{line[:300]}: use x.shape[0] or -1 for the batch"


def text_of(error: Exception) -> str:
    if "_local_scalar_dense" in str(error) or "data-dependent" in str(error).lower():
        return ("its Python control flow depends on tensor data (a branch on a tensor, item(), F.one_hot without num_classes), "
                "which a graph cannot represent: use torch.where, or specify the number")
    text = one_line(error)
    if text.startswith("aten."):  # torch's message is only the name
        return f"the operator {text.split()[0]} has no form that can be traced: compute it outside of the loss, or use another"
    return text
