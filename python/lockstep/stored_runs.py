"""Reads recorded runs, also while they are recorded: lockstep.runs()."""

import json
import os
import sys
from typing import Any, Callable, Iterable, Iterator, Sequence, overload

from lockstep.event_log.reader import Log, Rows, has_writer, read_log
from lockstep.recording.run_files import read_json
from lockstep.recording.values import plain

FORMATS = ("pandas", "polars", "arrow", "lists")
_SEVERITY = {"finished": 0, "running": 1, "lost": 2}
_JOB_MEMBERS = {"name": str, "group": (str, type(None)), "created": (int, float)}


class StoredRun:
    """A run directory. What is read is kept until refresh()."""

    def __init__(self, directory: str | os.PathLike[str], event_files: list[str] | None = None) -> None:
        """`event_files`: the names in its directory `events`, if they are known."""
        self.dir = str(directory)
        self.id = os.path.basename(self.dir)
        self.refresh()
        self._event_files = event_files

    def refresh(self) -> None:
        """Forgets what was read, so that a run that is being recorded is read again."""
        self._event_files: list[str] | None = None
        self._logs: Sequence[Log] | None = None
        self._job: dict[str, Any] | None = None
        self._ends: Sequence[dict[str, Any]] | None = None

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    @property
    def name(self) -> str:
        return str(self._job_file().get("name") or self._first().identity.get("name") or self.id)

    @property
    def group(self) -> str | None:
        job = self._job_file()
        group = job["group"] if "group" in job else self._first().identity.get("group")
        return None if group in (None, self.id) else str(group)

    @property
    def created(self) -> float:
        """Unix time, in seconds."""
        return _seconds(self._job_file().get("created")) or _seconds(self._first().identity.get("created"))

    @property
    def config(self) -> dict[str, Any]:
        for log in self._rank_logs():
            if config := log.config:
                return config
        return {}

    @property
    def summary(self) -> dict[str, Any]:
        """The last value of each metric of the lowest logging rank, and what the script set."""
        log = self._first()
        return {**log.last_values(), **log.summary}

    @property
    def state(self) -> str:
        """running, finished, failed, killed, preempted or lost."""
        facts = self._end_facts()
        states = [self._state_of(log, facts) for log in self._rank_logs()] or [facts[0]["state"] if facts else "lost"]
        return _worst(states)

    @property
    def tags(self) -> list[str]:
        tags = _json(f"{self.dir}/tags.json").get("tags")
        return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []

    @property
    def note(self) -> str:
        note = _json(f"{self.dir}/tags.json").get("note")
        return note if isinstance(note, str) else ""

    @property
    def problems(self) -> list[str]:
        """Why a log cannot be read, one line each."""
        return [log.problem for log in self._rank_logs() if log.problem]

    def metrics(self, names: str | Iterable[str] | None = None, ranks: Iterable[int] | None = None, *, system: bool = False,
                format: str | None = None) -> Any:
        """All values: the columns metric, step, time (Unix seconds), epoch, value and rank.

        `names`: those to read; "train/*" stands for all that begin with "train/". `system`: also system metrics, whose rank is -1.
        `format`: "pandas", "polars", "arrow" or "lists" (a dict of lists); by default the first of them that is installed.
        Reads the logs as they are now.
        """
        wanted = [names] if isinstance(names, str) else None if names is None else list(names)
        chosen = None if ranks is None else set(ranks)
        parts = []
        for rank, path in self._log_paths("rank-"):
            if chosen is None or rank in chosen:
                parts += [(rank, rows) for rows in read_log(path).rows]
        for _, path in self._log_paths("node-") if system else ():
            parts += [(-1, rows) for rows in read_log(path).rows]
        return _table(parts, wanted, format)

    def texts(self) -> list[tuple[float, int, str]]:
        """Messages: time, level (0 debug to 3 error) and line."""
        return [text for _, path in self._log_paths("rank-") for text in read_log(path).texts]

    # Files.

    def _log_paths(self, begin: str, names: list[str] | None = None) -> list[tuple[int, str]]:
        names = _names(f"{self.dir}/events") if names is None else names
        numbers = ((name[len(begin):-len(".lsev")], name) for name in names if name.startswith(begin) and name.endswith(".lsev"))
        return sorted((int(number), f"{self.dir}/events/{name}") for number, name in numbers if number.isdigit())

    def _rank_logs(self) -> Sequence[Log]:
        if self._logs is None:
            names = _names(f"{self.dir}/events") if self._event_files is None else self._event_files
            self._event_files = None
            paths = self._log_paths("rank-", names)
            self._logs = tuple(read_log(path, False, has_segments=len(names) > len(paths)) for _, path in paths)
        return self._logs

    def _first(self) -> Log:
        logs = self._rank_logs()
        return logs[0] if logs else Log(self.dir)

    def _job_file(self) -> dict[str, Any]:
        if self._job is None:
            job = _json(f"{self.dir}/run.json")
            self._job = {key: job[key] for key, kinds in _JOB_MEMBERS.items() if key in job and isinstance(job[key], kinds)}
        return self._job

    def _end_facts(self) -> Sequence[dict[str, Any]]:
        """The most decisive first, as in tracking/runs/end_facts.h."""
        if self._ends is None:
            ends = f"{self.dir}/ends"
            files = [f"{ends}/{name}" for name in (_names(ends) if os.access(ends, os.F_OK) else ()) if name.endswith(".json")]
            facts = [fact for fact in map(_json, files) if _has_state(fact) and fact.get("by") in ("launcher", "trainer", "agent")]
            if not facts and os.access(f"{self.dir}/end.json", os.F_OK) and _has_state(end := _json(f"{self.dir}/end.json")):
                facts = [{**end, "by": "launcher"}]
            self._ends = tuple(sorted(facts, key=lambda fact: (_standing(fact), _seconds(fact.get("time")), _seconds(fact.get("number")))))
        return self._ends

    @staticmethod
    def _state_of(log: Log, facts: Sequence[dict[str, Any]]) -> str:
        logged = str(log.end.get("state") or "") if log.end else ""
        if facts and not (facts[0]["by"] == "trainer" and facts[0]["state"] == "finished" and logged):
            return str(facts[0]["state"])
        return logged or ("running" if has_writer(log.path) else "lost")


class BucketRun(StoredRun):
    """A run in a bucket: its copy in a directory of this machine, which refresh() brings up to date."""

    def __init__(self, bucket: str, directory: str, state: str) -> None:
        super().__init__(directory)
        self._bucket, self._state = bucket, state

    def refresh(self) -> None:
        """Raises OSError if the bucket cannot be read, or no longer has the run."""
        super().refresh()
        if hasattr(self, "_bucket"):
            self._state = _worst(rank["state"] for rank in _read_bucket(self._bucket, "show", self.id)["ranks"])

    @property
    def state(self) -> str:
        """As of the last refresh()."""
        return self._state


def _fetch(bucket: str) -> dict[str, str]:
    """Brings the copies of the runs of a bucket up to date. Returns their directories and states."""
    states: dict[str, str] = {}
    for entry in _read_bucket(bucket, "list"):
        states[entry["dir"]] = _worst((states.get(entry["dir"], "finished"), entry["state"]))
    return states


def _read_bucket(bucket: str, *words: str) -> Any:
    """What `lockstep runs` prints as JSON, after it has fetched these runs. Its warnings are printed. Raises OSError."""
    import subprocess

    from lockstep.programs import find_program

    command = find_program("lockstep")
    if command is None:
        raise FileNotFoundError(f"{bucket}: runs in a bucket are fetched by `lockstep`, which is neither on PATH nor next to the interpreter")
    ended = subprocess.run([command, "runs", *words, "--json", "--dir", bucket], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    begin = "lockstep: error: "
    errors = [line for line in ended.stderr.splitlines() if ended.returncode and line.startswith(begin)][-1:]
    for line in ended.stderr.splitlines():
        if line not in errors:
            print(line, file=sys.stderr)
    if ended.returncode:
        raise OSError(errors[0].removeprefix(begin) if errors else f"{bucket}: lockstep ended with code {ended.returncode}")
    return json.loads(ended.stdout)


def _worst(states: Iterable[str]) -> str:
    return max(states, key=lambda state: _SEVERITY.get(state, 3))


def _standing(fact: dict[str, Any]) -> int:
    if fact.get("consequence"):
        return 5 if fact["by"] == "launcher" else 4
    return {"launcher": 0, "trainer": 3 if fact["state"] == "finished" else 1, "agent": 2}[fact["by"]]


def _has_state(fact: dict[str, Any]) -> bool:
    return isinstance(fact.get("state"), str) and fact["state"] != ""


def _seconds(value: Any) -> float:
    """0 for other values than numbers, and for those that are not finite."""
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1e15 else 0.0


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _json(path: str) -> dict[str, Any]:
    value = read_json(path)
    return value if isinstance(value, dict) else {}


class Runs(Sequence[StoredRun]):
    """Runs, the newest first."""

    def __init__(self, runs: list[StoredRun]) -> None:
        self._runs = runs

    @overload
    def __getitem__(self, index: int) -> StoredRun: ...
    @overload
    def __getitem__(self, index: slice) -> "Runs": ...
    def __getitem__(self, index: Any) -> Any:
        return Runs(self._runs[index]) if isinstance(index, slice) else self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[StoredRun]:
        return iter(self._runs)

    def rows(self) -> list[dict[str, Any]]:
        """One dict per run: id, name, group, state, created, config.<key> and summary.<metric>."""
        return [_row_of(run) for run in self._runs]

    def df(self) -> Any:
        """rows() as a DataFrame of pandas where that is installed, else of polars; without both, rows() itself."""
        rows = self.rows()
        try:
            import pandas

            return pandas.DataFrame(rows)
        except ImportError:
            pass
        try:
            import polars

            return polars.DataFrame(rows, infer_schema_length=None)
        except ImportError:
            return rows


def _row_of(run: StoredRun) -> dict[str, Any]:
    row: dict[str, Any] = {"id": run.id, "name": run.name, "group": run.group, "state": run.state, "created": run.created}
    _flatten(run.config, "config.", row)
    row.update((f"summary.{name}", value) for name, value in run.summary.items())
    return row


def _flatten(value: Any, prefix: str, row: dict[str, Any]) -> None:
    for key, item in value.items() if isinstance(value, dict) else ():
        if isinstance(item, dict) and item:
            _flatten(item, f"{prefix}{key}.", row)
        else:
            row[f"{prefix}{key}"] = item


def runs(dir: str | os.PathLike[str] = "runs", *, id: str | None = None, name: str | None = None, group: str | None = None, state: str | None = None,
         tag: str | None = None, config: dict[str, Any] | None = None, where: Callable[[StoredRun], bool] | None = None,
         order: str = "-created") -> Runs:
    """The runs in `dir`, the newest first: a directory, or the path of the sink `bucket`, such as "s3://bucket/prefix".

    `id`: begins with this. `config`: values that the run has, by key ("optimizer.lr") or nested. `where`: any condition.
    `order`: a column of Runs.rows(), such as "summary.loss"; "-summary.accuracy" has the largest first. Runs without it, or with NaN, are last.
    Raises ValueError if there are runs, and none has that column, and OSError if the directory or bucket cannot be read.
    """
    found = []
    for run in _runs_in(str(dir), id or ""):
        if (name is None or run.name == name) and (group is None or run.group == group) and (state is None or run.state == state) and (
                tag is None or tag in run.tags) and (config is None or _has(run.config, config)) and (where is None or where(run)):
            found.append(run)
    found.sort(key=lambda run: (-run.created, run.id))
    return Runs(found if order == "-created" else _ordered(found, order))


def _runs_in(place: str, id: str) -> Iterator[StoredRun]:
    if "://" in place:
        copies = (BucketRun(place, directory, state) for directory, state in _fetch(place).items())
        yield from (run for run in copies if run.id.startswith(id))
        return
    for entry in os.scandir(place):
        if entry.name.startswith(".") or not entry.name.startswith(id):
            continue
        try:
            yield StoredRun(entry.path, os.listdir(f"{entry.path}/events"))
        except OSError:  # not a run
            continue


def _ordered(runs: list[StoredRun], order: str) -> list[StoredRun]:
    column = order.lstrip("+-")
    values = [_row_of(run).get(column) for run in runs]
    if runs and all(value is None for value in values):
        raise ValueError(f"order={order!r}: no run has '{column}'; valid are id, name, group, state, created, config.KEY and summary.METRIC")
    numbers = [("", value) if isinstance(value, (int, float)) else (str(value), 0) for value in values]  # texts after numbers
    chosen = sorted((i for i, value in enumerate(values) if value is not None and value == value), key=numbers.__getitem__,
                    reverse=order.startswith("-"))
    rest = sorted({*range(len(runs))}.difference(chosen))
    return [runs[i] for i in chosen + rest]


def _has(config: dict[str, Any], wanted: dict[str, Any]) -> bool:
    flat: dict[str, Any] = {}
    flat_wanted: dict[str, Any] = {}
    _flatten(config, "", flat)
    _flatten(wanted, "", flat_wanted)
    return all(key in flat and flat[key] == plain(value) for key, value in flat_wanted.items())


# Tables.

def _matches(name: str, wanted: list[str] | None) -> bool:
    return wanted is None or any(name == one or one.endswith("*") and name.startswith(one[:-1]) for one in wanted)


def _table(parts: list[tuple[int, Rows]], wanted: list[str] | None, format: str | None) -> Any:
    if format is not None and format not in FORMATS:
        raise ValueError(f"format={format!r}: expected one of {', '.join(FORMATS)}")
    pieces = [(rank, name, rows, column) for rank, rows in parts for name, column in zip(rows.names, rows.columns) if _matches(name, wanted)]
    for one in (format,) if format else FORMATS:
        try:
            return _MAKERS[one](pieces)
        except ImportError:
            if format:
                raise
    raise AssertionError


def _arrays(pieces: list[Any]) -> tuple[list[str], Any, dict[str, Any]]:
    """Names, the index of the name of each value, and the other columns."""
    import numpy

    names = sorted({name for _, name, _, _ in pieces})
    place = {name: i for i, name in enumerate(names)}
    sizes = [len(column) for _, _, _, column in pieces]
    total = sum(sizes)
    codes, ranks = numpy.empty(total, "i4"), numpy.empty(total, "i4")
    others = {"step": numpy.empty(total, "i8"), "time": numpy.empty(total), "epoch": numpy.empty(total), "value": numpy.empty(total)}
    at = 0
    dense: dict[int, Any] = {}  # the columns that all metrics of a row share are gathered once
    for (rank, name, rows, column), size in zip(pieces, sizes):
        if id(rows) not in dense:
            dense[id(rows)] = [numpy.ascontiguousarray(part) for part in (rows.steps, rows.times, rows.epochs)]
        steps, times, epochs = dense[id(rows)]
        part = slice(at, at + size)
        codes[part], ranks[part] = place[name], rank
        for key, values in (("step", steps), ("time", times), ("epoch", epochs), ("value", column)):
            others[key][part] = values
        at += size
    return names, codes, {**others, "rank": ranks}


def _pandas_table(pieces: list[Any]) -> Any:
    import pandas

    names, codes, others = _arrays(pieces)
    metric = pandas.Categorical.from_codes(codes, categories=names)
    return pandas.DataFrame({"metric": metric, **others}, copy=False)


def _arrow_table(pieces: list[Any]) -> Any:
    import pyarrow

    names, codes, others = _arrays(pieces)
    metric = pyarrow.DictionaryArray.from_arrays(pyarrow.array(codes), pyarrow.array(names, pyarrow.string()))
    return pyarrow.table({"metric": metric, **others})


def _polars_table(pieces: list[Any]) -> Any:
    import polars

    names, codes, others = _arrays(pieces)
    metric = polars.Series(names, dtype=polars.String).gather(polars.Series(codes)) if names else polars.Series([], dtype=polars.String)
    return polars.DataFrame({"metric": metric, **others})


def _lists(pieces: list[Any]) -> dict[str, list[Any]]:
    table: dict[str, list[Any]] = {name: [] for name in ("metric", "step", "time", "epoch", "value", "rank")}
    for rank, name, rows, column in pieces:
        table["metric"] += [name] * len(column)
        table["rank"] += [rank] * len(column)
        for key, values in (("step", rows.steps), ("time", rows.times), ("epoch", rows.epochs), ("value", column)):
            table[key] += values.tolist() if hasattr(values, "tolist") else values
    return table


_MAKERS: dict[str, Callable[[list[Any]], Any]] = {"pandas": _pandas_table, "polars": _polars_table, "arrow": _arrow_table, "lists": _lists}
