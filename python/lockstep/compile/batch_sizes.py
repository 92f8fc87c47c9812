"""Batch sizes for tracing a graph with dynamic batch size, and for testing its compiled code.

torch's compiler selects code by the traced size and records each choice as a guard, e.g. "s >= 16". Compiled code does not
check guards, so they are evaluated here. If the compiler specialized a graph to one size, it is traced again with another
size. For other guards, the compiled code is compared with Python on both sides of each.
"""

from collections.abc import Sequence

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from lockstep.compile.losses import Batch

LARGEST = 1 << 20  # samples in a batch
FIRST = 29  # larger than the sizes at which torch's compiler switches between CPU algorithms
ATTEMPTS = 3


class FixedSize(Exception):
    """The compiler specialized the code to one batch size."""


def trace_sizes(tensors: list[torch.Tensor]) -> list[int]:
    """Primes that cannot be confused with a dimension of `tensors`, as a batch of 16 with 16 channels."""
    used = {size for tensor in tensors for size in tensor.shape}
    found: list[int] = []
    size = FIRST
    while len(found) < ATTEMPTS:
        if sympy.isprime(size) and not any(abs(other - size) <= 1 or other and other % size == 0 for other in used):
            found.append(size)
        size += 2
    return found


def resized(batch: Batch, size: int) -> Batch:
    """`batch` with `size` samples, by repeating its samples."""
    return {name: tensor[torch.arange(size, device=tensor.device) % tensor.shape[0]] for name, tensor in batch.items()}


def shape_env_of(module: torch.fx.GraphModule) -> ShapeEnv | None:
    for node in module.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and hasattr(value, "fake_mode"):
            return value.fake_mode.shape_env
    return None


def hint_of(size: int | torch.SymInt) -> int:
    """The size with which it was traced."""
    return int(getattr(getattr(size, "node", None), "hint", size))


def traced_size(values: Sequence[object]) -> int:
    """The batch size with which a graph with these inputs was traced; 0: it has a fixed one. The shape environment has more symbols,
    whose values are arbitrary."""
    sizes = [size for value in values if isinstance(value, torch.Tensor) for size in value.shape if isinstance(size, torch.SymInt)]
    return next((hint_of(size) for size in sizes if size.node.expr.is_Symbol), 0)


def verify_not_fixed(env: ShapeEnv) -> None:
    """Raises FixedSize."""
    for symbol, value in env.replacements.items():
        if value.is_number:
            raise FixedSize(str(value))


def turning_points(env: ShapeEnv | None, size: int) -> list[int]:
    """The nearest sizes below and above `size` at which a guard no longer holds."""
    points: set[int] = set()
    for expression in {env.replace(guard.expr) for guard in env.guards} if env is not None and size > 0 else ():
        if expression.free_symbols:
            points |= _turning_points(expression, size)
    return sorted(points)


def _turning_points(expression: sympy.Basic, size: int) -> set[int]:
    def holds(count: int) -> bool:
        return expression.xreplace({symbol: sympy.Integer(count) for symbol in expression.free_symbols}) == sympy.true

    if not holds(size):  # does not depend on the batch size
        return set()
    points: set[int] = set()
    below = next((count for count in range(size - 1, 0, -1) if not holds(count)), None)
    if below is not None:
        points.add(below)
    last, step = size, 1
    while last < LARGEST:
        count = min(last + step, LARGEST)
        if not holds(count):
            while count - last > 1:
                middle = (count + last) // 2
                last, count = (middle, count) if holds(middle) else (last, middle)
            points.add(count)
            break
        last, step = count, 1 if count < 4 * size else 2 * step
    return points
