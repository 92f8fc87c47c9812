"""The config and the summary of a run, as scripts see them."""

from typing import Any, Callable, Mapping

from lockstep.recording.values import plain


class Config(dict[str, Any]):
    """The configuration of a run: a dict whose members are also attributes. Each change is recorded."""

    def __init__(self, members: Mapping[str, Any], changed: Callable[[], None]) -> None:
        super().__init__(members)
        object.__setattr__(self, "_changed", changed)

    def __reduce__(self) -> Any:
        """A copy, and what is saved with a checkpoint, is a dict."""
        return dict, (dict(self),)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(str(key), value)
        object.__getattribute__(self, "_changed")()

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        object.__getattribute__(self, "_changed")()

    def setdefault(self, key: Any, default: Any = None) -> Any:
        if str(key) not in self:
            self[key] = default
        return self[str(key)]

    def pop(self, *arguments: Any) -> Any:
        value = super().pop(*arguments)
        object.__getattribute__(self, "_changed")()
        return value

    def clear(self) -> None:
        super().clear()
        object.__getattribute__(self, "_changed")()

    def __ior__(self, members: Any) -> "Config":  # type: ignore[override,misc]
        self.update(members)
        return self

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the config has no '{name}'") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def update(self, members: Any = None, allow_val_change: bool | None = None, **more: Any) -> None:  # type: ignore[override]
        if members is not None:
            members = members if hasattr(members, "items") else dict(vars(members)) if hasattr(members, "__dict__") else dict(members)
            super().update({str(key): value for key, value in members.items()})
        super().update(more)
        object.__getattribute__(self, "_changed")()

    def setdefaults(self, members: Mapping[str, Any]) -> None:
        self.update({key: value for key, value in members.items() if key not in self})


class Summary(dict[str, Any]):
    """The last value of every metric, or what define_metric() says instead, and what the script sets."""

    def __init__(self, last_values: Callable[[], dict[str, float]], record: Callable[[dict[str, Any]], None]) -> None:
        super().__init__()
        object.__setattr__(self, "_before", dict)
        object.__setattr__(self, "_last_values", last_values)
        object.__setattr__(self, "_record", record)

    def start_with(self, read: Callable[[], dict[str, Any]]) -> None:
        """`read` returns that of the run that is continued; called when the summary is first read: of a long run that takes long."""
        object.__setattr__(self, "_before", read)

    def __reduce__(self) -> Any:
        return dict, (self._merged(),)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the summary has no '{name}'") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def setdefault(self, key: Any, default: Any = None) -> Any:
        if str(key) not in self:
            self[key] = default
        return self[str(key)]

    def __ior__(self, members: Any) -> "Summary":  # type: ignore[override,misc]
        self.update(members)
        return self

    def take(self, values: dict[str, float]) -> None:
        """Values that define_metric() asks for."""
        super().update(values)
        self._record(values)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.update({key: value})

    def update(self, members: Any = None, **more: Any) -> None:  # type: ignore[override]
        values = {str(key): plain(value) for key, value in {**dict(members or {}), **more}.items()}
        super().update(values)
        self._record(values)

    def __iter__(self) -> Any:
        return iter(self._merged())

    def __len__(self) -> int:
        return len(self._merged())

    def __repr__(self) -> str:
        return repr(self._merged())

    def values(self) -> Any:
        return self._merged().values()

    def __getitem__(self, key: str) -> Any:
        return self._merged()[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self._merged().get(key, default)

    def keys(self) -> Any:
        return self._merged().keys()

    def items(self) -> Any:
        return self._merged().items()

    def __contains__(self, key: object) -> bool:
        return key in self._merged()

    def __eq__(self, other: object) -> bool:
        return self._merged() == (other._merged() if isinstance(other, Summary) else other)

    def __ne__(self, other: object) -> bool:  # dict has one, too
        return not self == other

    def copy(self) -> dict[str, Any]:
        return self._merged()

    def _merged(self) -> dict[str, Any]:
        before = self._before()
        object.__setattr__(self, "_before", lambda: before)
        return {**before, **self._last_values(), **dict(super().items())}
