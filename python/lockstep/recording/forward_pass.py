"""The calls of the modules of a model in its first forward pass, with the shapes of their outputs and where their inputs come from. torch is
not imported: only methods of the model are used."""

import sys
import weakref
from typing import Any, Callable, Iterator

from lockstep.recording.values import Table

COLUMNS = ["call", "module", "type", "output", "inside", "inputs"]
_MAX_CALLS = 5000
_MAX_SHAPES = 4


class ForwardPass:
    """Hooks on all modules of `model`, until the end of its first forward pass.

    `put` gets `name` and the table, a row per call in the order in which they begin: `inside` is the call of the module that made the call,
    `inputs` the numbers of the calls whose outputs are inputs of this one as they are, "input" if they are those of the module around it, and
    "?" for tensors that other operations computed. `warn` gets one line for an error: none is raised into the training. A compiled model,
    whose forward pass is traced, has no calls.
    """

    def __init__(self, model: Any, name: str, put: Callable[[str, Table], None], warn: Callable[[str], None]) -> None:
        self._model = weakref.ref(model)
        self._name, self._put, self._warn = name, put, warn
        self._rows: list[list[Any]] = []
        self._open: list[tuple[int, set[int]]] = []  # calls that have not returned, and the tensors that they got
        self._sources: dict[int, list[tuple[Any, int, int | None]]] = {}  # by the id of a tensor: the tensor, the call that returned it, the call around it
        self._handles: list[Any] = []
        can_detect_tracing = hasattr(getattr(sys.modules.get("torch"), "compiler", None), "is_compiling")
        if can_detect_tracing and not hasattr(model, "_orig_mod"):
            self._add_hooks(model)

    def _add_hooks(self, model: Any) -> None:
        try:
            for part, module in model.named_modules():
                self._handles.append(module.register_forward_pre_hook(self._guarded(self._begin, part or "(the model)"), with_kwargs=True))
                self._handles.append(module.register_forward_hook(self._guarded(self._end, part or "(the model)")))
        except Exception as error:  # e.g. of a scripted model
            self.remove()
            self._warn(f"watch(): the forward pass of {type(model).__name__} is not recorded: {error}")

    def is_of(self, model: Any) -> bool:
        return self._model() is model

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles, self._open, self._sources = [], [], {}

    def _guarded(self, work: Callable[..., None], name: str) -> Callable[..., None]:
        def hook(*arguments: Any) -> None:
            if sys.modules["torch"].compiler.is_compiling() or not self._handles:
                return
            try:
                work(name, *arguments)
            except Exception as error:
                self.remove()
                self._warn(f"watch(): the forward pass is not recorded: {name}: {type(error).__name__}: {error}")

        return hook

    def _begin(self, name: str, module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        if module is self._model():
            self._rows, self._open, self._sources = [], [], {}  # an earlier pass may have ended with an exception
        elif not self._open:
            return  # a part of the model that is used alone
        if len(self._rows) == _MAX_CALLS:
            raise RuntimeError(f"more than {_MAX_CALLS} calls of modules")
        around = self._open[-1][0] if self._open else None
        tensors = list(_tensors_of((arguments, named)))
        inputs = list(dict.fromkeys(self._source_of(tensor, around) for tensor in tensors)) if self._open else []
        number = len(self._rows) + 1
        self._rows.append([number, name, type(module).__name__, "", around, ", ".join(inputs)])
        self._open.append((number, {id(tensor) for tensor in tensors}))

    def _source_of(self, tensor: Any, around: int | None) -> str:
        for found, call, inside in reversed(self._sources.get(id(tensor), [])):
            if inside == around and found() is tensor:
                return str(call)
        return "input" if id(tensor) in self._open[-1][1] else "?"

    def _end(self, name: str, module: Any, arguments: tuple[Any, ...], output: Any) -> None:
        if not self._open:
            return
        number, _ = self._open.pop()
        row = self._rows[number - 1]
        if row[1] != name:
            raise RuntimeError(f"{row[1]} did not return")
        tensors = list(_tensors_of(output))
        shapes = [" × ".join(map(str, tensor.shape)) or "1" for tensor in tensors]
        row[3] = "; ".join(shapes[:_MAX_SHAPES]) + (f"; … {len(shapes)} tensors" if len(shapes) > _MAX_SHAPES else "")
        for tensor in tensors:
            self._sources.setdefault(id(tensor), []).append((weakref.ref(tensor), number, row[4]))
        if self._open:
            return
        rows = self._rows
        self.remove()
        if len(rows) > 1:
            self._put(self._name, Table(columns=COLUMNS, data=rows))


def _tensors_of(value: Any) -> Iterator[Any]:
    """The tensors in a value, also in lists, tuples and dictionaries in it."""
    if hasattr(value, "shape") and hasattr(value, "requires_grad"):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _tensors_of(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors_of(one)
