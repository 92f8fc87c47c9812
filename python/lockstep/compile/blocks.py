"""Cuts the graph of a pass at the blocks of a model, e.g. the layers of a transformer.

The parts of the forward pass come first: one up to the first block, then one for each block. The next part contains the rest of
the forward pass, in training with the loss and the beginning of the backward pass. The parts of the backward pass follow, one
for the parameters of each block. So each part reads the parameters of one block, and of layers outside of blocks.
"""

from collections.abc import Sequence

import torch
from torch import nn

from lockstep.compile.errors import CompileError
from lockstep.compile.graphs import Graph
from lockstep.compile.segments import Part, functional, is_computed, is_input, is_view, link, needed, output_node

Node = torch.fx.Node
CONTAINERS = (nn.ModuleList, nn.Sequential)
COPIES = (torch.ops.aten._to_copy.default, torch.ops.aten.clone.default)


def blocks_of(module: nn.Module, parameters: Sequence[str]) -> list[str]:
    """The elements of lists of modules that contain some of `parameters`; of nested lists, the inner elements."""
    found: list[str] = []

    def visit(layer: nn.Module, path: str) -> None:
        for key, child in layer.named_children():
            name = f"{path}.{key}".lstrip(".")
            if not isinstance(layer, CONTAINERS) or isinstance(child, CONTAINERS):
                visit(child, name)
            elif any(parameter.startswith(f"{name}.") for parameter in parameters):
                found.append(name)

    visit(module, "")
    return found


def split_at_blocks(graph: Graph, names: list[str], blocks: list[str]) -> list[Part]:
    """`names`: of the parameters and buffers, the first inputs of the graph."""
    if graph.training and graph.dynamic:
        raise CompileError("--segments cannot be combined with --dynamic-batch: remove one of them")
    module = functional(graph.module)
    sources = [node for node in module.graph.nodes if is_input(node)]
    free = free_nodes(module, set(sources[:len(names)]))
    outputs = list(output_node(module).args[0])
    owners = [block_of(name, blocks) for name in names]
    roots = forward_parts(module, free, {source: owner for source, owner in zip(sources, owners) if owner}, outputs,
                          sources[-1] if graph.training else None)
    groups = runs([block_of(name, blocks) for name in graph.trained])
    scalars, end = graph.num_scalars, graph.num_scalars + graph.num_gradients
    wanted = [outputs[scalars + begin:scalars + stop] for begin, stop in groups] if graph.training else [outputs]
    if graph.training:
        wanted[0] = [*outputs[:scalars], *wanted[0], *outputs[end:]]
    parts = link(module, [[] for _ in roots] + wanted, roots + [[] for _ in wanted], free)
    for part, (begin, stop) in zip(parts[len(roots):], groups):
        part.gradients = stop - begin
    return parts


def block_of(name: str, blocks: list[str]) -> str:
    return next((block for block in blocks if name.startswith(f"{block}.")), "")


def runs(owners: list[str]) -> list[tuple[int, int]]:
    """Ranges [begin, end) of equal owners, last first."""
    starts = [i for i in range(len(owners)) if i == 0 or owners[i] != owners[i - 1]]
    return list(zip(starts, [*starts[1:], len(owners)]))[::-1]


def free_nodes(module: torch.fx.GraphModule, state: set[Node]) -> set[Node]:
    """Nodes that every part computes for itself: views, sizes, and copies of `state`, e.g. parameters in another precision."""
    free: set[Node] = set()
    for node in module.graph.nodes:
        of_state = node.target in COPIES and all(source in state or source in free and root_of(source) in state
                                                 for source in node.all_input_nodes)
        if is_view(node) or of_state or isinstance(node.meta.get("val"), torch.SymInt):
            free.add(node)
    return free


def root_of(node: Node) -> Node:
    while node.op == "call_function" and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node


def forward_parts(module: torch.fx.GraphModule, free: set[Node], owner: dict[Node, str], outputs: list[Node],
                  weight: Node | None) -> list[list[Node]]:
    """The nodes of each part before the last block's end, in their order. A block begins where its parameters are first used."""
    alive = needed(outputs, set())
    nodes = [node for node in module.graph.nodes if node in alive and node not in free and is_computed(node)]
    if weight is not None:  # the backward pass begins with the weight of the loss
        nodes = nodes[:next(i for i, node in enumerate(nodes) if weight in node.all_input_nodes)]
    first: dict[str, int] = {}
    end = 0
    for i, node in enumerate(nodes):
        for block in {owner[source] for source in sources_of(node, free) if source in owner}:
            first.setdefault(block, i)
            end = i + 1
    bounds = sorted({0, *first.values(), end})
    return [nodes[begin:stop] for begin, stop in zip(bounds, bounds[1:])]


def sources_of(node: Node, free: set[Node]) -> set[Node]:
    """The inputs of the node, without the free nodes in between."""
    found: set[Node] = set()
    for source in node.all_input_nodes:
        found |= sources_of(source, free) if source in free else {source}
    return found
