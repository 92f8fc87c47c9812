"""The graph from the fields of a batch to the predictions: stored in the package without weights, and exported with those of a run."""

import functools
import io
from collections.abc import Mapping

import torch
from torch import nn

from lockstep.compile.errors import one_line, quiet
from lockstep.compile.graphs import Graph, dynamic_shapes
from lockstep.compile.losses import Batch
from lockstep.compile.segments import extract, functional, is_computed, is_input, needed, output_node


def prediction_of(evaluation: Graph, fields: list[str], num_state: int) -> tuple[bytes, list[str], str]:
    """A file for torch.export.load(), whose inputs are a list of the state and of some of `fields`, and these. Empty if the loss
    function returns no predictions, or if torch cannot export them; then the reason is returned too. Training needs no file."""
    if not evaluation.has_predictions:
        return b"", [], ""
    content = io.BytesIO()
    try:
        with quiet():
            program, takes = program_of_predictions(evaluation, num_state)
            torch.export.save(program, content)
    except Exception as error:  # of any kind, from torch.export
        return b"", [], f"{type(error).__name__}: {one_line(error)}"
    return content.getvalue(), [fields[i - num_state] for i in takes if i >= num_state], ""


def program_of_predictions(evaluation: Graph, num_state: int) -> tuple[torch.export.ExportedProgram, list[int]]:
    """The program, and the inputs of the evaluation that it takes."""
    module = functional(evaluation.module)
    sources = [node for node in module.graph.nodes if is_input(node)]
    predictions = output_node(module).args[0][-1]
    size_of_one_field(module, predictions, sources[num_state:])
    found = needed([predictions], set())
    takes = [i for i, node in enumerate(sources) if i < num_state or node in found]
    body = [node for node in module.graph.nodes if node in found and is_computed(node)]
    part = _Listed(extract(module, body, [sources[i] for i in takes], [predictions]))
    given = {str(i): evaluation.inputs[i] for i in takes}
    shapes = [*[None] * num_state, *dynamic_shapes({name: tensor for name, tensor in given.items() if int(name) >= num_state})]
    with torch.no_grad():
        program = torch.export.export(part, (list(given.values()),), dynamic_shapes=(shapes,), strict=False)
    program.example_inputs = None  # they contain the weights
    for node in program.graph.nodes:  # only what defines the graph, so that the same model has the same bytes
        node.meta = {key: value for key, value in node.meta.items() if key == "val"}
    return program, takes


class _Listed(nn.Module):
    """A graph that takes a list of tensors."""

    def __init__(self, graph: nn.Module):
        super().__init__()
        self.held = graph  # not "graph", which is an attribute of GraphModule and used to look up constants

    def forward(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        return self.held(*tensors)


def size_of_one_field(module: torch.fx.GraphModule, predictions: torch.fx.Node, fields: list[torch.fx.Node]) -> None:
    """The batch size may come from any field, also from one that predictions do not depend on: takes it from one that they do."""
    found = needed([predictions], set())
    sizes = [node for node in module.graph.nodes
             if node.target is torch.ops.aten.sym_size.int and node.args[0] in fields and node.args[1] == 0]
    used = [field for field in fields if any(user in found and user not in sizes for user in field.users)]
    if not sizes or not used:
        return
    with module.graph.inserting_after(fields[-1]):
        size = module.graph.call_function(torch.ops.aten.sym_size.int, (used[0], 0))
    size.meta = dict(sizes[0].meta)
    for node in sizes:
        node.replace_all_uses_with(size)


class Predictor(nn.Module):
    """The graph with its weights, under their names: takes the fields, returns the predictions."""

    def __init__(self, graph: nn.Module, tensors: Mapping[str, torch.Tensor], parameters: set[str]):
        super().__init__()
        self.lockstep_graph = graph
        self.lockstep_names = list(tensors)
        for name, tensor in tensors.items():
            path, _, last = name.rpartition(".")
            owner = module_at(self, path)
            if name in parameters:
                owner.register_parameter(last, nn.Parameter(tensor, requires_grad=False))
            else:
                owner.register_buffer(last, tensor)

    def forward(self, *fields: torch.Tensor) -> torch.Tensor:
        state = [functools.reduce(getattr, name.split("."), self) for name in self.lockstep_names]
        (predictions,) = self.lockstep_graph([*state, *fields])
        return predictions


def module_at(root: nn.Module, path: str) -> nn.Module:
    """The module, which is made if there is none."""
    for name in path.split(".") if path else []:
        if not isinstance(getattr(root, name, None), nn.Module):
            setattr(root, name, nn.Module())
        root = getattr(root, name)
    return root


def load_predictor(content: bytes, tensors: Mapping[str, torch.Tensor], parameters: set[str]) -> Predictor:
    """`content`: of prediction_of()."""
    with quiet():
        graph = torch.export.load(io.BytesIO(content)).module(check_guards=False)
    return Predictor(graph, tensors, parameters)


def predictor_program(predictor: Predictor, batch: Batch) -> torch.export.ExportedProgram:
    """For batches of any size; `batch`: an example, with the fields of forward()."""
    with torch.no_grad(), quiet():
        return torch.export.export(predictor, tuple(batch.values()), dynamic_shapes=(tuple(dynamic_shapes(batch)),), strict=False)
