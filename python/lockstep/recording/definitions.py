"""What define_metric() says of metrics: which of their values the summary has, and which metric is their step."""

from typing import Any, Callable, Iterable, Mapping

SUMMARIES = ("min", "max", "mean", "first", "last", "best", "copy")
GOALS = {"minimize": "min", "maximize": "max"}


class Definition:
    """Of the metrics that `name` matches: a name, or the begin of names and "*"."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.summaries: tuple[str, ...] = ()  # of min, max, mean, first, last; none: the last value
        self.step_metric: str | None = None


class _Totals:
    """Of the values of a metric, without NaN."""

    __slots__ = ("count", "sum", "min", "max", "first", "last")

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0.0

    def add(self, value: float) -> None:
        if value != value:
            return
        if self.count == 0:
            self.first = self.min = self.max = value
        self.count += 1
        self.sum += value
        self.last = value
        if value < self.min:
            self.min = value
        elif value > self.max:
            self.max = value

    @property
    def mean(self) -> float:
        return self.sum / self.count


class Definitions:
    """Those of a run. `warn` gets one line per problem."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._all: dict[str, Definition] = {}
        self._known: dict[str, Definition | None] = {}  # by the name of the metric
        self._step_metrics: dict[str, float | None] = {}  # and their last value
        self._totals: dict[str, _Totals] = {}
        self.are_new = False  # since start_with()

    def define(self, name: Any, step_metric: Any, summary: Any, step_sync: Any, goal: Any, overwrite: Any) -> Definition | None:
        """None if `name` is invalid. Other invalid arguments are ignored."""
        if not isinstance(name, str) or not name or "*" in name[:-1]:
            self._warn(f"define_metric(): {name!r}: expected a name, or the begin of names and '*' such as 'val/*'; it is ignored")
            return None
        definition = self._all.get(name)
        if definition is None or overwrite:
            definition = self._all[name] = Definition(name)
        if summary is not None:
            definition.summaries = tuple(dict.fromkeys((*definition.summaries, *self._summaries(name, summary, goal))))
        if step_metric is not None:
            step = getattr(step_metric, "name", step_metric)
            if isinstance(step, str) and step and "*" not in step:
                definition.step_metric = step if step_sync is None or step_sync else None
            else:
                self._warn(f"define_metric('{name}'): step_metric={step!r}: expected the name of a metric; it is ignored")
        for one in self._all.values():
            if one.step_metric:
                self._step_metrics.setdefault(one.step_metric, None)
        self._known.clear()
        self.are_new = True
        return definition

    def _summaries(self, name: str, summary: Any, goal: Any) -> tuple[str, ...]:
        found: list[str] = []
        for word in str(summary).split(","):
            word = word.strip()
            if word == "best":
                word = GOALS.get(str(goal), "")
                if not word:
                    self._warn(f"define_metric('{name}'): summary='best' needs goal='minimize' or goal='maximize'")
            elif word not in SUMMARIES:
                self._warn(f"define_metric('{name}'): summary='{word}': expected one of {', '.join(SUMMARIES)}; the summary has the last value")
                word = ""
            word = "last" if word == "copy" else word
            if word and word not in found:
                found.append(word)
        return () if found == ["last"] else tuple(found)

    def of(self, name: str) -> Definition | None:
        """The most specific one."""
        if name not in self._known:
            matching = [one for one in self._all if one == name or one[-1] == "*" and name.startswith(one[:-1])]
            exact = name if name in self._all else max(matching, key=len, default=None)
            self._known[name] = self._all[exact] if exact is not None else None
        return self._known[name]

    def concern(self, names: Iterable[str]) -> bool:
        """Whether logging `names` needs update() and steps_of()."""
        return bool(self._all) and any(name in self._step_metrics or (one := self.of(name)) and (one.summaries or one.step_metric)
                                       for name in names)

    def steps_of(self, names: list[str]) -> dict[str, float]:
        """The last values of the step metrics of `names` that are not among them."""
        steps: dict[str, float] = {}
        for name in names:
            definition = self.of(name)
            step = definition.step_metric if definition else None
            value = self._step_metrics[step] if step and step not in names else None
            if step and value is not None:
                steps[step] = value
        return steps

    def start_with(self, columns: Iterable[tuple[str, Iterable[float]]], last: Mapping[str, float]) -> dict[str, float]:
        """Values that were recorded before: all, and the last of each metric. Returns those of the summary."""
        self.are_new = False
        self._totals.clear()
        self._step_metrics = {name: last.get(name) for name in self._step_metrics}
        summary: dict[str, float] = {}
        for name, values in columns:
            if (definition := self.of(name)) and definition.summaries:
                totals = self._totals.setdefault(name, _Totals())
                for value in values:
                    totals.add(float(value))
                summary.update(_values(definition, name, totals))
        return summary

    def update(self, values: Iterable[tuple[str, float]]) -> dict[str, float]:
        """Adds a row; returns the values of the summary that changed."""
        changed: dict[str, float] = {}
        for name, value in values:
            if name in self._step_metrics:
                self._step_metrics[name] = value
            definition = self.of(name)
            if definition is None or not definition.summaries:
                continue
            totals = self._totals.setdefault(name, _Totals())
            before = _values(definition, name, totals)
            totals.add(value)
            changed.update(_values(definition, name, totals).items() - before.items())
        return changed


def _values(definition: Definition, name: str, totals: _Totals) -> dict[str, float]:
    if totals.count == 0:
        return {}
    return summary_values(name, {word: getattr(totals, word) for word in definition.summaries})


def summary_values(name: str, values: Mapping[str, float]) -> dict[str, float]:
    """`values`, by "min", "max", ..., as the summary of a run has them: only one is the value of the metric."""
    return {name if len(values) == 1 else f"{name}.{word}": value for word, value in values.items()}
