"""Splits the graph of a training step into segments that run in sequence.

The first segment contains the forward pass and the backward pass to the gradients of the last parameters; each further
segment continues to the gradients of the preceding parameters. Gradients of one segment can then be averaged while the next
is computed. Values are numbered: the inputs of the whole graph, then the values kept by each segment, in order.
"""

import copy
import operator
from collections.abc import Set
from dataclasses import dataclass

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from lockstep.compile.errors import CompileError
from lockstep.compile.graphs import Graph, fresh_fakes, separate_outputs

Node = torch.fx.Node
MAX_PASSES = 3  # of functionalize(): operators that it introduces may change their inputs, too


@dataclass
class Part:
    """Takes the values `takes`, as arguments; returns its outputs, including `gradients`, then `keeps` values for later parts."""

    module: torch.fx.GraphModule
    takes: list[int]
    gradients: int = 0
    keeps: int = 0


def segment_names(parts: list[Part], training: bool) -> list[str]:
    name = "train" if training else "eval"
    return [name if i == 0 else f"{name}.{i + 1}" for i in range(len(parts))]


def split(graph: Graph, num_segments: int) -> list[Part]:
    """The parts have about the same number of bytes of gradients."""
    if num_segments == 1:
        nodes = list(graph.module.graph.nodes)
        body, sources = ([node for node in nodes if chosen(node)] for chosen in (is_computed, is_input))
        part = extract(graph.module, body, sources, list(nodes[-1].args[0]))
        return [Part(part, list(range(len(sources))), graph.num_gradients)]
    if graph.dynamic:
        raise CompileError("--segments cannot be combined with --dynamic-batch: remove one of them")
    module = functional(graph.module)
    outputs = list(output_node(module).args[0])
    scalars, end = graph.num_scalars, graph.num_scalars + graph.num_gradients
    groups = cut([node.meta["val"].nbytes for node in outputs[scalars:end]], num_segments)
    wanted = [outputs[scalars + begin:scalars + end] for begin, end in groups]
    wanted[0] = [*outputs[:scalars], *wanted[0], *outputs[end:]]
    parts = link(module, wanted)
    for part, (begin, end) in zip(parts, groups):
        part.gradients = end - begin
    return parts


def functional(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of the graph of a pass without in-place changes."""
    made = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    for _ in range(MAX_PASSES):
        if not any(map(changes_in_place, made.graph.nodes)):
            break
        values = [node.meta["val"] for node in made.graph.nodes if is_input(node)]
        with torch.no_grad():
            made = make_fx(torch.func.functionalize(made, remove="mutations"), tracing_mode="symbolic")(values)
    for node in filter(changes_in_place, made.graph.nodes):
        raise CompileError(f"the model calls {node.target}, which changes its input and has no form that does not: use another operator")
    return made


def changes_in_place(node: Node) -> bool:
    # native_batch_norm does not declare its changes; functionalize() replaces it by an operator that does.
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and schema is not None and (schema.is_mutable or node.target is torch.ops.aten.native_batch_norm.default)


def is_input(node: Node) -> bool:
    return node.op == "placeholder"


def is_computed(node: Node) -> bool:
    return node.op not in ("placeholder", "get_attr", "output")


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


def link(module: torch.fx.GraphModule, wanted: list[list[Node]], roots: list[list[Node]] | None = None,
         free: Set[Node] | None = None) -> list[Part]:
    """Builds the parts. `wanted`: the outputs of each part. `roots`: other nodes that it computes. `free`: nodes that every part
    computes for itself; default: views."""
    nodes = list(module.graph.nodes)
    free = {node for node in nodes if is_view(node)} if free is None else free
    roots = [[] for _ in wanted] if roots is None else roots
    numbers = {node: i for i, node in enumerate(filter(is_input, nodes))}
    done: set[Node] = set()
    bodies: list[list[Node]] = []
    for outputs, more in zip(wanted, roots):
        found = needed([*more, *outputs], done)
        bodies.append([node for node in nodes if node in found and is_computed(node)])
        done |= {node for node in bodies[-1] if node not in free}
    parts = []
    for i, (body, outputs) in enumerate(zip(bodies, wanted)):
        later = {node for user in sum(bodies[i + 1:], []) for node in user.all_input_nodes} | set(sum(wanted[i + 1:], []))
        kept = [node for node in body if node in later and node not in free and not is_tuple(node)]
        used = {node for user in body for node in user.all_input_nodes} | set(outputs)
        sources = sorted((node for node in used if node in numbers), key=lambda node: numbers[node])
        part = extract(module, body, sources, [*outputs, *kept], {base_of(node) for node in kept})
        parts.append(Part(part, [numbers[node] for node in sources], keeps=len(kept)))
        numbers |= {node: len(numbers) + j for j, node in enumerate(kept)}
    return parts


def is_tuple(node: Node) -> bool:
    return any(user.target is operator.getitem for user in node.users)


def extract(module: torch.fx.GraphModule, body: list[Node], inputs: list[Node], outputs: list[Node],
            kept: Set[Node] = frozenset()) -> torch.fx.GraphModule:
    """`body` as a graph that takes tensors and returns a list. Copies outputs that share memory with `kept`, which later parts read.
    Names do not depend on `module`, so that equal blocks have equal graphs."""
    graph = torch.fx.Graph()
    constants: dict[str, object] = {}
    copies: dict[Node, Node] = {}

    def copy_of(node: Node) -> Node:
        if node not in copies:
            assert node.op == "get_attr", node
            name = f"constant_{len(constants)}"
            constants[name] = operator.attrgetter(node.target)(module)
            copies[node] = graph.get_attr(name)
            copies[node].meta = dict(node.meta)
        return copies[node]

    for i, (node, value) in enumerate(zip(inputs, fresh_fakes([node.meta["val"] for node in inputs]))):
        copies[node] = graph.placeholder(f"value_{i}")
        copies[node].meta = {"val": value}
    for node in body:
        args, kwargs = (torch.fx.node.map_arg(given, copy_of) for given in (node.args, node.kwargs))
        copies[node] = graph.create_node(node.op, node.target, args, kwargs)
        copies[node].meta = dict(node.meta)
    given = []
    for node in outputs:
        value = copy_of(node)
        if is_view(node) and base_of(node) in kept:
            value = graph.call_function(torch.ops.aten.clone.default, (value,))
        given.append(value)
    graph.output(given)
    made = torch.fx.GraphModule(constants, graph)
    separate_outputs(made)
    return made


def count_targets(graph: Graph, num_state: int) -> Part:
    """The part that computes the number of targets from the fields of a batch. `graph`: the training graph."""
    module = graph.module
    sources = [node for node in module.graph.nodes if is_input(node)]
    fields = range(num_state, len(sources) - 1)
    target = output_node(module).args[0][graph.num_scalars - 1]
    found = needed([target], set())
    if any(node in found for i, node in enumerate(sources) if i not in fields):
        raise CompileError("the 'targets' of the loss function depend on the model: they must depend only on the batch")
    body = [node for node in module.graph.nodes if node in found and is_computed(node)]
    return Part(extract(module, body, [sources[i] for i in fields], [target]), list(fields))
