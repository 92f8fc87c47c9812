"""Counts the floating-point operations of a graph, with the formulas of torch.utils.flop_counter."""

from collections.abc import Callable

import sympy
import torch
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

SIZES = range(2, 7)  # batch sizes whose counts give the coefficients


def cpu_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: object, **__: object) -> int:
    return sdpa_flop_count(query.shape, key.shape, value.shape)


def cpu_attention_backward(grad: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: object, **__: object) -> int:
    return sdpa_backward_flop_count(grad.shape, query.shape, key.shape, value.shape)


FORMULAS: dict[object, Callable[..., int]] = {
    **flop_registry,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: cpu_attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: cpu_attention_backward,
}


def count_flops(module: torch.fx.GraphModule) -> list[int]:
    """The coefficients [f0, f1, ...]: a batch of B samples takes f0 + f1 B + f2 B² + ... operations. Without a dynamic dimension,
    only f0. Empty: the number is not of this form."""
    nodes = [node for node in module.graph.nodes if getattr(node.target, "overloadpacket", None) in FORMULAS]
    values = [value for node in nodes for value in tensors_of(node)]
    if all(isinstance(size, int) for value in values for size in value.shape):
        return [sum(flops_of(node, 0) for node in nodes)]
    counts = [sum(flops_of(node, size) for node in nodes) for size in SIZES]
    batch = sympy.Symbol("batch")
    number = sympy.Poly(sympy.interpolate(list(zip(SIZES, counts)), batch), batch)
    coefficients = [int(value) for value in reversed(number.all_coeffs()) if value.is_integer and value >= 0]
    is_exact = len(coefficients) == len(number.all_coeffs()) and number.degree() < len(SIZES) - 1
    return coefficients if is_exact else []


def tensors_of(node: torch.fx.Node) -> list[torch.Tensor]:
    values = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    return [value for value in values if isinstance(value, torch.Tensor)]


def flops_of(node: torch.fx.Node, size: int) -> int:
    """With a batch of `size` samples. Formulas get plain numbers: comparing symbols would add guards."""
    def plain(value: object) -> object:
        if isinstance(value, torch.Tensor):
            return torch.empty([plain(each) for each in value.shape], device="meta")
        if isinstance(value, torch.SymInt):
            expression = value.node.expr
            return int(expression.xreplace({symbol: sympy.Integer(size) for symbol in expression.free_symbols}))
        return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value

    arguments = torch.fx.node.map_arg(node.args, lambda each: each.meta["val"])
    options = torch.fx.node.map_arg(node.kwargs, lambda each: each.meta["val"])
    return FORMULAS[node.target.overloadpacket](*(plain(each) for each in arguments), **{name: plain(value) for name, value in options.items()},
                                                out_val=plain(node.meta["val"]))
