"""The calls of the modules of a model in its first forward pass, with the shapes of their outputs and where their inputs come from. torch is
not imported: only methods of the model are used."""

import sys
import threading
import weakref
from typing import Any, Callable, Iterator

from lockstep.recording.values import Table

COLUMNS = ["call", "module", "type", "output", "inside", "inputs"]
_MAX_CALLS = 5000
_MAX_SHAPES = 4
_MAX_WAIT = 100_000  # calls of other modules before that of the model
_MODEL = "(the model)"


class ForwardPass:
    """Waits for the first call of `model` with a hook common to all modules (of torch), and has hooks on its modules during this call only. So
    nothing is in the modules, or in copies of them, before it and after it, and modules that are compiled inside see no common hook. It ends
    with the first pass that returns, with remove(), when the model is deleted or compiled, and after `_MAX_WAIT` calls of other modules.

    `put` gets `name` and the table, a row per call in the order in which they begin: `inside` is the call of the module that made the call,
    `inputs` the numbers of the calls whose outputs are inputs of this one as they are, "input" if they are those of the module around it, and
    "?" for tensors that other operations computed. Calls in other threads than that of the model are left out. `warn` gets one line for an
    error: none is raised into the training. A compiled model, whose forward pass is traced, has no calls.
    """

    def __init__(self, model: Any, name: str, put: Callable[[str, Table], None], warn: Callable[[str], None]) -> None:
        self._model = weakref.ref(model, lambda _: self._remove_hooks())
        self._title, self._name, self._put, self._warn = type(model).__name__, name, put, warn
        self._others = 0  # calls of other modules
        self._waiting: list[Any] = []  # the handle of the hook of calls of all modules
        self._handles: list[Any] = []  # of hooks on the modules; those of the model are the first
        self._registration: Any = None  # of the hook of torch.compile()
        self._thread = self._handled = 0  # of the model's call: the thread, and the id of the exception that was being handled
        self._forget()
        can_detect_tracing = hasattr(getattr(sys.modules.get("torch"), "compiler", None), "is_compiling")
        if can_detect_tracing and not hasattr(model, "_orig_mod"):
            self._registration = sys.modules["torch"].nn.modules.module.register_module_module_registration_hook(self._on_registration)
            self._wait()

    def _forget(self) -> None:
        self._rows: list[list[Any]] = []
        self._open: list[int] = []  # calls that have not returned
        self._got: dict[int, set[int]] = {}  # by call: the ids of the tensors that it got
        self._sources: dict[int, list[tuple[Any, int, int | None]]] = {}  # by the id of a tensor: the tensor, the call that returned it, the call around it

    def _wait(self) -> None:
        self._waiting = [sys.modules["torch"].nn.modules.module.register_module_forward_pre_hook(self._on_call)]

    def is_of(self, model: Any) -> bool:
        return self._model() is model

    def remove(self) -> None:
        self._remove_hooks()
        if self._registration is not None:
            self._registration.remove()

    def _remove_hooks(self) -> None:
        for handle in self._waiting + self._handles:
            handle.remove()
        self._waiting, self._handles = [], []
        self._forget()

    def _give_up(self, reason: object) -> None:
        self._remove_hooks()
        self._warn(f"watch(): the forward pass of {self._title} is not recorded: {reason}")

    def _on_registration(self, module: Any, name: str, value: Any) -> None:
        """torch.compile() wraps a module. It warns of a common hook of calls, and compiles again when that is removed. This hook stays until
        remove(): torch iterates over those of registrations, maybe in another thread."""
        model = self._model()
        if name == "_orig_mod" and model is not None and value is not None and self._waiting and any(one is model for one in value.modules()):
            self._give_up("it was compiled before its first call")

    def _on_call(self, module: Any, arguments: tuple[Any, ...]) -> None:
        torch = sys.modules["torch"]
        if torch.compiler.is_compiling() or torch.jit.is_tracing() or not self._waiting:
            return
        if module is self._model():
            try:
                self._start(module, arguments)
            except Exception as error:  # e.g. of a scripted model
                self._give_up(error)
            return
        self._others += 1
        if self._others > _MAX_WAIT:
            self._give_up(f"{_MAX_WAIT:,} calls of modules, and none of it; watch the module that is called")

    def _start(self, model: Any, arguments: tuple[Any, ...]) -> None:
        self._remove_hooks()
        self._thread, self._handled = threading.get_ident(), id(sys.exc_info()[1])
        for part, module in model.named_modules():
            self._handles.append(module.register_forward_pre_hook(self._guarded(self._begin, part or _MODEL), with_kwargs=True))
            self._handles.append(module.register_forward_hook(self._guarded(self._end, part or _MODEL), with_kwargs=True, always_call=True))
        self._begin(_MODEL, model, arguments, {})  # torch calls the hooks that were there before; _end() gets the named arguments

    def _guarded(self, work: Callable[..., None], name: str) -> Callable[..., None]:
        def hook(*arguments: Any) -> None:
            if sys.modules["torch"].compiler.is_compiling() or not self._handles or threading.get_ident() != self._thread:
                return
            try:
                work(name, *arguments)
            except Exception as error:
                self._give_up(f"{name}: {type(error).__name__}: {error}")

        return hook

    def _begin(self, name: str, module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        if self._open and module is self._model() and _count_calls(module) < 2:
            self._forget()  # an earlier pass was interrupted (KeyboardInterrupt), of which torch calls no hook
            self._handled = id(sys.exc_info()[1])
        if len(self._rows) == _MAX_CALLS:
            raise RuntimeError(f"more than {_MAX_CALLS} calls of modules")
        around = self._open[-1] if self._open else None
        tensors = list(_tensors_of((arguments, named)))
        inputs = [self._call_of(tensor, around) or id(tensor) for tensor in tensors] if self._open else []
        number = len(self._rows) + 1
        self._rows.append([number, name, type(module).__name__, "", around, inputs])
        self._open.append(number)
        self._got[number] = {id(tensor) for tensor in tensors}

    def _call_of(self, tensor: Any, around: int | None) -> str | None:
        """The call inside `around` that returned the tensor last."""
        return next((str(call) for found, call, inside in reversed(self._sources.get(id(tensor), [])) if inside == around and found() is tensor), None)

    def _end(self, name: str, module: Any, arguments: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        """Also of a call that raises an exception: without an output."""
        if not any(self._rows[number - 1][1] == name for number in self._open):
            return
        number = self._open.pop()
        while self._rows[number - 1][1] != name:  # an earlier one did not return, e.g. as it was interrupted
            number = self._open.pop()
        row = self._rows[number - 1]
        tensors = list(_tensors_of(output))
        shapes = [" × ".join(map(str, tensor.shape)) or "1" for tensor in tensors]
        row[3] = "; ".join(shapes[:_MAX_SHAPES]) + (f"; … {len(shapes)} tensors" if len(shapes) > _MAX_SHAPES else "")
        for tensor in tensors:
            self._sources.setdefault(id(tensor), []).append((weakref.ref(tensor), number, row[4]))
        if self._open:
            return
        if id(sys.exc_info()[1]) != self._handled:
            self._wait_again(module)
            return
        self._got[number] |= {id(tensor) for tensor in _tensors_of(named)}
        self._finish()

    def _wait_again(self, model: Any) -> None:
        """After a pass that raised an exception. torch iterates over the hooks of the model: the running one must be the last to be removed now."""
        own = self._handles.pop(1)
        is_last = next(reversed(model._forward_hooks)) == own.id
        self._remove_hooks()
        if is_last:
            own.remove()
        else:
            self._handles = [own]
        self._wait()

    def _finish(self) -> None:
        rows, got = self._rows, self._got
        self._remove_hooks()
        for row in rows:
            row[5] = ", ".join(dict.fromkeys(one if isinstance(one, str) else "input" if one in got[row[4]] else "?" for one in row[5]))
        if len(rows) > 1:
            self._put(self._name, Table(columns=COLUMNS, data=rows))


def _count_calls(module: Any) -> int:
    """How often the module is being called in this thread, one call inside another."""
    count, frame = 0, sys._getframe()
    while frame is not None:
        count += frame.f_code.co_name == "_call_impl" and frame.f_locals.get("self") is module
        frame = frame.f_back
    return count


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
