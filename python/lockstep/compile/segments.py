"""Splits the graph of a training step into segments that run in sequence.

The first segment contains the forward pass and the backward pass to the gradients of the last parameters; each further
segment continues to the gradients of the preceding parameters. Gradients of one segment can then be averaged while the next
is computed. Values are numbered: the inputs of the whole graph, then the values kept by each segment, in order.
"""

import operator
from collections.abc import Set
from dataclasses import dataclass

import torch
from torch import nn

from lockstep.compile.batch_sizes import FixedSize
from lockstep.compile.errors import CompileError
from lockstep.compile.graphs import Graph, export_graph, separate_outputs

Node = torch.fx.Node
BETWEEN = ("placeholder", "get_attr")  # nodes that are not computed


@dataclass
class Part:
    """Takes the values `takes`; returns its outputs, including `gradients`, then `keeps` values for later parts."""

    module: nn.Module
    takes: list[int]
    inputs: list[torch.Tensor]
    shapes: list[dict | None] | None = None
    gradients: int = 0
    keeps: int = 0

    def program(self) -> torch.export.ExportedProgram:
        """Raises FixedSize."""
        program = export_graph(self.module, self.inputs, self.shapes)
        nodes = {node.name: node for node in program.graph.nodes}
        for name, dims in zip(program.graph_signature.user_inputs, self.shapes or []):
            if any(isinstance(nodes[name].meta["val"].shape[dim], int) for dim in dims or {}):
                raise FixedSize("a part of the graph")
        return program


class _Extracted(nn.Module):
    """Wraps a graph with tensor arguments as a module with a list of tensors."""

    def __init__(self, graph: nn.Module):
        super().__init__()
        self.held = graph  # not "graph", which is an attribute of GraphModule and used to look up constants

    def forward(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        return self.held(*tensors)


def segment_names(parts: list[Part], training: bool) -> list[str]:
    name = "train" if training else "eval"
    return [name if i == 0 else f"{name}.{i + 1}" for i in range(len(parts))]


def split(graph: Graph, num_segments: int) -> list[Part]:
    """The parts have about the same number of bytes of gradients."""
    if num_segments == 1:
        return [Part(graph.module, list(range(len(graph.inputs))), graph.inputs, graph.shapes, graph.num_gradients)]
    if graph.shapes is not None:
        raise CompileError("--segments cannot be combined with --dynamic-batch: remove one of them")
    module = functional(graph)
    outputs = list(output_node(module).args[0])
    scalars, end = graph.num_scalars, graph.num_scalars + graph.num_gradients
    groups = cut([node.meta["val"].nbytes for node in outputs[scalars:end]], num_segments)
    wanted = [outputs[scalars + begin:scalars + end] for begin, end in groups]
    wanted[0] = [*outputs[:scalars], *wanted[0], *outputs[end:]]
    parts = link(module, wanted, graph.inputs)
    for part, (begin, end) in zip(parts, groups):
        part.gradients = end - begin
    return parts


def functional(graph: Graph) -> torch.fx.GraphModule:
    """The graph without in-place changes."""
    return graph.program().run_decompositions({}).module(check_guards=False)


def cut(sizes: list[int], count: int) -> list[tuple[int, int]]:
    """Non-empty ranges [begin, end) of parameters with about equal bytes, last parameters first."""
    if count > len(sizes):
        raise CompileError(f"--segments {count}: the model has only {len(sizes)} trainable parameters")
    groups, end, left = [], len(sizes), sum(sizes)
    for number in range(count, 0, -1):
        begin, taken = end - 1, sizes[end - 1]
        while begin > number - 1 and (number == 1 or taken + sizes[begin - 1] / 2 <= left / number):
            begin -= 1
            taken += sizes[begin]
        groups.append((begin, end))
        end, left = begin, left - taken
    return groups


def output_node(module: torch.fx.GraphModule) -> Node:
    return next(iter(reversed(module.graph.nodes)))


def is_view(node: Node) -> bool:
    """Whether the node is a view of another node's memory. Views are free, so every part creates its own."""
    if node.target is operator.getitem:
        return is_view(node.all_input_nodes[0])
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and schema is not None and any(value.alias_info is not None for value in schema.returns)


def base_of(node: Node) -> Node:
    """The node that owns the memory."""
    while is_view(node):
        node = node.all_input_nodes[0]
    return node


def needed(wanted: list[Node], given: set[Node]) -> set[Node]:
    """The nodes needed to compute `wanted` from `given`, including inputs and constants of the graph."""
    found: set[Node] = set()
    todo = list(wanted)
    while todo:
        node = todo.pop()
        if node not in found and node not in given:
            found.add(node)
            todo.extend(node.all_input_nodes)
    # Includes all getitem nodes of a tuple, so that no part passes a tuple on.
    found |= {user for node in found for user in node.users if user.target is operator.getitem and user not in given}
    return found


def link(module: torch.fx.GraphModule, wanted: list[list[Node]], inputs: list[torch.Tensor], roots: list[list[Node]] | None = None,
         free: Set[Node] | None = None, shapes: list[dict | None] | None = None) -> list[Part]:
    """Builds the parts. `wanted`: the outputs of each part. `roots`: other nodes that it computes. `free`: nodes that every part
    computes for itself; default: views. `shapes`: the dynamic dimensions of the inputs."""
    nodes = list(module.graph.nodes)
    free = {node for node in nodes if is_view(node)} if free is None else free
    roots = [[] for _ in wanted] if roots is None else roots
    value_shapes = None if shapes is None else [None if dims is None else dict.fromkeys(dims, torch.export.Dim.AUTO) for dims in shapes]
    numbers = {node: i for i, node in enumerate(node for node in nodes if node.op == "placeholder")}
    done: set[Node] = set()
    bodies: list[list[Node]] = []
    for outputs, more in zip(wanted, roots):
        found = needed([*more, *outputs], done)
        bodies.append([node for node in nodes if node in found and node.op not in BETWEEN])
        done |= {node for node in bodies[-1] if node not in free}
    parts, values = [], list(inputs)
    for i, (body, outputs) in enumerate(zip(bodies, wanted)):
        later = {node for user in sum(bodies[i + 1:], []) for node in user.all_input_nodes} | set(sum(wanted[i + 1:], []))
        kept = [node for node in body if node in later and node not in free and not is_tuple(node)]
        used = {node for user in body for node in user.all_input_nodes} | set(outputs)
        sources = sorted((node for node in used if node in numbers), key=lambda node: numbers[node])
        takes = [numbers[node] for node in sources]
        part = extract(module, body, sources, [*outputs, *kept], {base_of(node) for node in kept})
        given = [values[number] for number in takes]
        with torch.no_grad():
            made = part(given)
        of_parts = None if value_shapes is None else [value_shapes[number] for number in takes]
        parts.append(Part(part, takes, given, of_parts, keeps=len(kept)))
        numbers |= {node: len(values) + j for j, node in enumerate(kept)}
        values += made[len(outputs):]
        if value_shapes is not None:
            value_shapes += [dynamic_dimensions(node) for node in kept]
    return parts


def dynamic_dimensions(node: Node) -> dict | None:
    sizes = enumerate(node.meta["val"].shape)
    return {i: torch.export.Dim.AUTO for i, size in sizes if isinstance(size, torch.SymInt)} or None


def is_tuple(node: Node) -> bool:
    return any(user.target is operator.getitem for user in node.users)


def extract(module: torch.fx.GraphModule, body: list[Node], inputs: list[Node], outputs: list[Node],
            kept: Set[Node] = frozenset()) -> _Extracted:
    """`body` as a module. Copies outputs that share memory with `kept`, which later parts read."""
    graph = torch.fx.Graph()
    copies = {node: graph.placeholder(f"value_{i}") for i, node in enumerate(inputs)}

    def copy_of(node: Node) -> Node:
        if node not in copies:
            assert node.op == "get_attr", node
            copies[node] = graph.node_copy(node)
        return copies[node]

    for node in body:
        copies[node] = graph.node_copy(node, copy_of)
    given = []
    for node in outputs:
        value = copy_of(node)
        if is_view(node) and base_of(node) in kept:
            value = graph.call_function(torch.ops.aten.clone.default, (value,))
        given.append(value)
    graph.output(given)
    made = torch.fx.GraphModule(module, graph)
    separate_outputs(made)
    return _Extracted(made)


def count_targets(graph: Graph, num_state: int) -> Part:
    """The part that computes the number of targets from the fields of a batch. `graph`: the training graph."""
    module = graph.module
    sources = [node for node in module.graph.nodes if node.op == "placeholder"]
    fields = range(num_state, len(sources) - 1)
    target = output_node(module).args[0][graph.num_scalars - 1]
    found = needed([target], set())
    if any(node in found for i, node in enumerate(sources) if i not in fields):
        raise CompileError("the 'targets' of the loss function depend on the model: they must depend only on the batch")
    body = [node for node in module.graph.nodes if node in found and node.op not in BETWEEN]
    return Part(extract(module, body, [sources[i] for i in fields], [target]), list(fields), [graph.inputs[i] for i in fields],
                None if graph.shapes is None else [graph.shapes[i] for i in fields])
