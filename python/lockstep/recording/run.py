"""A run that this process records."""

import contextlib
import enum
import itertools
import struct
import sys
import time
import weakref
import zlib
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping

from lockstep.event_log.frames import ALERT, ARTIFACT, CLIP, HISTOGRAM, IMAGE, MAX_FRAME_LENGTH, SCALARS, TABLE, UNFINISHED, ZLIB_CHECKSUM
from lockstep.event_log.reader import read_log
from lockstep.event_log.writer import LogWriter
from lockstep.recording import run_files
from lockstep.recording.agent import Agent
from lockstep.recording.clips import Audio, Html, Video
from lockstep.recording.definitions import Definition, Definitions
from lockstep.recording.members import Config, Summary
from lockstep.recording.values import MAX_TEXT, Histogram, Image, Table, number_of, numbers_in, plain

FINISH_TIMEOUT_S = 10.0
MAX_LAYOUTS = 1000  # sets of names whose packing is kept
LEVELS = {"debug": 0, "info": 1, "warn": 2, "warning": 2, "error": 3}


class AlertLevel(enum.Enum):
    """As in W&B."""

    INFO, WARN, ERROR = "INFO", "WARN", "ERROR"


_now = time.time
_crc32 = zlib.crc32
_LENGTH = struct.Struct("<I")


def warn(line: str) -> None:
    """One line on stderr; a closed stderr must not end the training."""
    try:
        print(f"lockstep: warning: {line}", file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        pass


class _Layout:
    """How the rows of one set of names are packed."""

    __slots__ = ("pack", "arguments", "size", "unfinished", "finished", "epoch", "names", "data", "zeros", "unpack")

    def __init__(self, names: list[str], keys: list[int]) -> None:
        packing = struct.Struct("<Bqdd" + "Id" * len(keys))
        self.pack = packing.pack
        # type, step, time, epoch, then id and value of each metric
        self.arguments: list[Any] = [SCALARS, 0, 0.0, 0.0] + [part for key in keys for part in (key, 0.0)]
        self.size = packing.size + 8
        self.unfinished = _LENGTH.pack(packing.size | UNFINISHED | ZLIB_CHECKSUM)
        self.finished = _LENGTH.pack(packing.size | ZLIB_CHECKSUM)
        self.epoch = 5 + 2 * names.index("epoch") if "epoch" in names else 0
        self.names = names
        self.unpack = packing.unpack
        self.data = b""  # of the last row; the values themselves (tensors with their graphs) are not kept
        self.zeros = [0.0] * len(keys)


class Run:
    """Made by lockstep.init(). No call raises, so that recording never ends a training: a problem is one line on stderr.

    Threads: any.
    """

    def __init__(self, *, id: str, name: str, group: str | None, dir: Path, log: LogWriter | None, agent: Agent | None = None,
                 config: Mapping[str, Any] | None = None, tags: Iterable[str] = (), notes: str = "", is_addition: bool = False,
                 takes_back: bool = False) -> None:
        self.id, self.group, self.dir = id, group, str(dir)
        self._name, self._tags, self._notes = name, tuple(tags), notes
        self.step = -1 if log is None or log.last_step is None else log.last_step  # the last one that was recorded
        self._advance: int = 1  # from there to the step of a call without one; 0 after a call with one, as in W&B
        self._log = log
        self._agent = agent
        self._is_addition = is_addition
        self._takes_back = takes_back
        self._layouts: dict[tuple[Any, ...], _Layout] = {}
        self._layouts_of_others: dict[tuple[str, ...], _Layout] = {}  # rows that log() does not pack itself
        self._pending: list[Callable[[], None]] = []  # records of signal handlers that interrupted another
        self._last: dict[str, float] = {}  # values of rows whose layouts are forgotten
        self._is_writing = False
        self._partial: dict[str, Any] = {}
        self._waiting: dict[str, Histogram | Table] = {}  # of watch(), for the next row
        self._watches: list[Any] = []
        self._numbered: dict[int, weakref.ref[Any]] = {}  # watched models, by the number in the names of what is recorded
        self._definitions = Definitions(lambda line: self._warn_once(line))
        self._warned: set[str] = set()
        self._is_over = False
        self.on_finish: list[Callable[[], None]] = []
        self.config = Config({}, lambda: None)
        self.config = Config(dict(config or {}), self._config_changed)
        self.summary = Summary(self._last_values, lambda values: self._record(lambda log: log.write_summary(values)))
        if log is not None and (takes_back or is_addition):
            self._begin_summary(log.path)

    # What scripts ask for.

    @property
    def is_logging(self) -> bool:
        return self._log is not None and not self._is_over

    @property
    def path(self) -> str:
        return self.dir

    @property
    def name(self) -> str:
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._attempt(lambda: self._rename(str(name)))

    @property
    def notes(self) -> str:
        return self._notes

    @notes.setter
    def notes(self, notes: str | None) -> None:
        self._attempt(lambda: self._label((), str(notes or "")))

    @property
    def tags(self) -> tuple[str, ...]:
        """Those that are assigned are added to the run."""
        return self._tags

    @tags.setter
    def tags(self, tags: str | Iterable[str] | None) -> None:
        self._attempt(lambda: self._label([tags] if isinstance(tags, str) else tags or (), ""))

    def save(self, glob_str: Any = None, **_ignored: Any) -> None:
        """Does nothing, since all is saved when it is recorded. Files are recorded with log_artifact()."""
        if glob_str is not None:
            self._warn_once(f"save({glob_str!r}): files are not recorded with the run; use log_artifact()")

    project = entity = None
    url: str | None = None

    def log(self, values: Mapping[str, Any], step: int | None = None, commit: bool | None = None, **_ignored: Any) -> None:
        """Records `values` at `step`, by default that of the last call if it gave one (without `commit=True`), else the one after it. They
        are safe when the call returns.

        Numbers, arrays and tensors of one number become curves; other arrays histograms; texts lines. Also Image, Audio, Video, Html, Histogram,
        Table, lists of them, and dicts, whose keys are joined with "/". With `commit=False` they wait for the next call.
        """
        try:
            layout = self._layouts[tuple(values)]
            arguments, log = layout.arguments, self._log
            with log.lock:
                if commit is False or self._is_writing or self._partial or self._waiting or log.offset + layout.size > log.room:
                    self._log_any(values, step, commit)
                    return
                self._is_writing = True
                memory, begin = log.memory, log.offset
                end = begin + layout.size
                try:
                    advance = step is None or commit is True
                    arguments[1] = at = self.step + self._advance if step is None else step if type(step) is int else int(step)
                    arguments[2] = _now()
                    arguments[5::2] = values.values()
                    if layout.epoch:
                        arguments[3] = arguments[layout.epoch]
                    data = layout.pack(*arguments)
                    memory[begin:begin + 4] = layout.unfinished
                    memory[begin + 4:end] = _crc32(data).to_bytes(4, "little") + data
                    memory[begin:begin + 4] = layout.finished
                    log.offset = end
                    layout.data = data
                    self.step, self._advance = at, advance
                except BaseException:
                    self._repair(memory, begin, end, layout)
                    raise
                finally:
                    self._is_writing = False
                    arguments[5::2] = layout.zeros
            if self._pending:
                self._log_pending()
        except Exception:
            self._log_any(values, step, commit)

    # An exception such as KeyboardInterrupt came between two stores.
    def _repair(self, memory: Any, begin: int, end: int, layout: _Layout) -> None:
        log = self._log
        if memory.closed:  # a signal handler has finished the run
            return
        if log is None or memory[begin:begin + 4] == layout.finished:
            if log is not None and log.offset == begin:
                log.offset = end
            return
        memory[begin:end] = bytes(end - begin)

    def _log_any(self, values: Any, step: Any, commit: bool | None) -> None:
        """Whatever log() does not handle itself."""
        try:
            if self._is_over or self._log is None:
                if self._is_over:
                    self._warn_once("log() after the end of the run is not recorded")
                return
            with self._log.lock:
                if self._is_writing:  # called by a signal handler, or by the value of a metric
                    row, at = dict(values), self.step if step is None else step
                    self._pending.append(lambda: self._log_any(row, at, None))
                else:
                    self._write(lambda: self._log_values(values, step, commit))
        except Exception as error:
            self._warn_once(f"log(): {type(error).__name__}: {error}; these values are not recorded")

    def _write(self, record: Callable[[], None]) -> None:
        """Runs `record`; those of a signal handler that interrupts it come after it."""
        self._is_writing = True
        try:
            record()
        finally:
            self._is_writing = False
        if self._pending:
            self._log_pending()

    def _log_pending(self) -> None:
        step, advance = self.step, self._advance
        while self._pending:
            pending, self._pending = self._pending, []
            for record in pending:
                record()
        self.step, self._advance = max(self.step, step), advance

    def _log_values(self, values: Any, step: Any, commit: bool | None) -> None:
        if not hasattr(values, "items"):
            self._warn_once(f"log() of {type(values).__name__}: expected a dict of names and values; it is not recorded")
            return
        if step is not None:
            step = int(step)
        if commit is False or (commit is None and self._partial and step == self._partial_step()):
            if self._partial and step is not None and step != self._partial_step():
                partial, at = self._partial, self._partial_step()
                self._partial = {}
                self._log_row(partial, at)
            self._partial.update(values)
            self._at_partial = step if step is not None else self._partial_step()
            return
        advance = step is None or commit is True
        if self._partial:
            partial, at = self._partial, self._partial_step()
            self._partial = {}
            if step is None or step == at:
                values, step = {**partial, **values}, at
            else:
                self._log_row(partial, at)
        self._log_row(values, self.step + self._advance if step is None else step)
        self._advance = int(advance)

    _at_partial: int | None = None
    failure: tuple[Any, Any] | None = None  # that ended the `with` block

    def _partial_step(self) -> int:
        return self.step + self._advance if self._at_partial is None else self._at_partial

    def _log_row(self, values: Mapping[Any, Any], step: int) -> None:
        self._at_partial = None
        if not -(1 << 63) <= step < 1 << 63:
            self._warn_once(f"step {step} does not fit into 64 bits; these values are not recorded")
            return
        log = self._log
        assert log is not None
        if self._takes_back:
            self._takes_back = False
            if log.last_step is not None and step <= log.last_step:
                log.write_rewind(step - 1)
                self._begin_summary(log.path)
        if self._definitions.are_new:
            self._apply_definitions(log)
        if self._waiting:
            self._log_waiting(step)
        names: list[str] = []
        numbers: list[float] = []
        is_plain = True
        for name, value in self._flattened(values, ""):
            number = number_of(value)
            if number is None:
                is_plain = False
                try:
                    self._log_other(name, value, step)
                except Exception as error:
                    self._warn_once(f"log(): '{name}' is not recorded: {describe(type(error), error)}")
                continue
            names.append(name)
            numbers.append(number)
        is_defined = self._definitions.concern(names)
        if is_defined:
            steps = self._definitions.steps_of(names)
            names += steps.keys()
            numbers += steps.values()
        ids = [log.key(name) for name in names]
        known = [(name, key, number) for name, key, number in zip(names, ids, numbers) if key is not None]
        is_plain = is_plain and len(known) == len(values)
        self.step = step
        if not known:
            return
        known_names = tuple(name for name, _, _ in known)
        layout = self._layouts_of_others.get(known_names) or _Layout(list(known_names), [key for _, key, _ in known])
        layout.arguments[1:3] = [step, _now()]
        layout.arguments[5::2] = [number for _, _, number in known]
        if layout.epoch:
            layout.arguments[3] = layout.arguments[layout.epoch]
        if layout.size - 8 > MAX_FRAME_LENGTH:
            self._warn_once(f"{len(known)} values in one call are too many; they are not recorded")
            return
        layout.data = layout.pack(*layout.arguments)
        layout.arguments[5::2] = layout.zeros
        log.append(SCALARS, layout.data[1:])
        if len(self._layouts) + len(self._layouts_of_others) >= MAX_LAYOUTS:
            self._last = self._last_values()
            self._layouts.clear()
            self._layouts_of_others.clear()
        if is_defined:
            self._update_summary(self._definitions.update((name, number) for name, _, number in known))
        if is_plain and not is_defined and not any(isinstance(v, Mapping) for v in values.values()):
            self._layouts[tuple(values)] = layout
        else:
            self._layouts_of_others[known_names] = layout

    def _log_waiting(self, step: int) -> None:
        waiting, self._waiting = self._waiting, {}
        for name, value in waiting.items():
            self._log_other(name, value, step)

    def _flattened(self, values: Mapping[Any, Any], prefix: str) -> Iterable[tuple[str, Any]]:
        for key, value in values.items():
            if not isinstance(key, str):
                self._warn_once(f"log(): the key {key!r} is not a string; it is recorded as '{key}'")
            name = f"{prefix}{key}"
            if isinstance(value, Mapping):
                yield from self._flattened(value, name + "/")
            else:
                yield name, value

    def _log_other(self, name: str, value: Any, step: int) -> None:
        log = self._log
        assert log is not None
        moment = {"name": name, "step": step, "time": _now(), "epoch": 0.0}
        if value is None:
            self._warn_once(f"log(): '{name}' is None; it is not recorded")
        elif isinstance(value, str):
            if len(value) > MAX_TEXT:
                self._warn_once(f"log(): '{name}' has {len(value)} characters; the first {MAX_TEXT} are recorded")
            log.write_text(1, f"{name}: {value[:MAX_TEXT]}")
        elif isinstance(value, Image):
            log.write_map(IMAGE, {**moment, "width": value.width, "height": value.height, "caption": value.caption, "png": value.png})
        elif isinstance(value, (Audio, Html, Video)):
            if value.problem:
                self._warn_once(f"log(): '{name}' is not recorded: {value.problem}")
            else:
                log.write_map(CLIP, {**moment, "type": value.type, "caption": value.caption, "bytes": value.bytes})
        elif isinstance(value, Histogram):
            log.write_map(HISTOGRAM, {**moment, "edges": value.edges, "counts": value.counts})
        elif isinstance(value, Table):
            if any(len(row) != len(value.columns) for row in value.data):
                raise ValueError(f"a row of the table does not have {len(value.columns)} values")
            if value.has_media:
                self._warn_once(f"log(): '{name}': of images and other media in a table, the captions are recorded")
            log.write_map(TABLE, {**moment, "columns": value.columns, "rows": value.data})
        elif isinstance(value, (list, tuple)) and value and all(isinstance(item, (Image, Audio, Html, Video, Histogram, Table)) for item in value):
            for number, item in enumerate(value):
                self._log_other(f"{name}/{number}", item, step)
        elif type(value).__name__ == "DataFrame":
            self._log_other(name, Table(dataframe=value), step)
        elif hasattr(value, "save") and hasattr(value, "mode"):
            self._log_other(name, Image(value), step)
        elif isinstance(value, (list, tuple)) or hasattr(value, "tolist"):
            self._log_other(name, Histogram(numbers_in(value)), step)
        else:
            self._warn_once(f"log(): '{name}' is of type {type(value).__name__}, which is not recorded")

    # Other records.

    def text(self, line: str, level: str = "info") -> None:
        """A message, shown with the run."""
        number = LEVELS.get(str(level).lower())
        if number is None:
            self._warn_once(f"text(): level={level!r}: expected one of {', '.join(LEVELS)}; it is recorded as info")
        self._record(lambda log: log.write_text(1 if number is None else number, str(line)[:MAX_TEXT]))

    def alert(self, title: str, text: str = "", level: str = "warning", wait_duration: Any = None) -> None:
        """Raises an alert, which sinks such as `webhook` forward."""
        number = LEVELS.get(str(getattr(level, "value", level)).lower(), 2)
        alert = {"time": _now(), "level": number, "title": str(title)[:MAX_TEXT], "text": str(text)[:MAX_TEXT]}
        if self.step >= 0:
            alert["step"] = self.step
        self._record(lambda log: log.write_map(ALERT, alert))

    def log_artifact(self, artifact: Any, name: str | None = None, type: str | None = None, aliases: Iterable[str] | None = None) -> Any:
        """Stores a version of `artifact`: an Artifact, or the path of a file or directory. Returns the Artifact."""
        from lockstep.recording.artifacts import Artifact, publish

        made = artifact if isinstance(artifact, Artifact) else Artifact(name or Path(str(artifact)).stem, type or "files")

        def store() -> None:
            if made is not artifact:
                made.add(artifact)
            self._recorded(*publish(Path(self.dir).parent, Path(self.dir).name, made, list(aliases or [])))

        self._attempt(store)
        return made

    def use_artifact(self, artifact: Any, type: str | None = None, aliases: Any = None) -> Any:
        """The artifact that `artifact` refers to, e.g. "net:best"; recorded as used."""
        from lockstep.recording.artifacts import use

        return self._attempt(lambda: self._recorded(*use(Path(self.dir).parent, Path(self.dir).name, artifact)))

    def _recorded(self, artifact: Any, record: dict[str, Any]) -> Any:
        self._record(lambda log: log.write_map(ARTIFACT, record))
        return artifact

    def define_metric(self, name: str, step_metric: Any = None, step_sync: bool | None = None, hidden: bool | None = None,
                      summary: str | None = None, goal: str | None = None, overwrite: bool | None = None, **unknown: Any) -> Definition | None:
        """Defines the metrics that `name` matches; "val/*" matches all that begin with "val/".

        `summary`: which value the summary has: "min", "max", "mean", "first", "last" or "best" (by `goal`: "minimize" or "maximize"). With
        several, such as "min,max", each is a separate value, `<name>.min` and `<name>.max`. NaN is not counted.
        `step_metric`: a metric whose last value is added to rows without it (not with `step_sync=False`). `overwrite`: forgets an earlier
        definition of `name`. Rows with defined metrics take longer to log, and "mean" records a value per row.
        """
        unsupported = [*(["hidden"] if hidden else []), *unknown]
        if unsupported:
            self._warn_once(f"define_metric(): {', '.join(unsupported)}: not supported; ignored")
        with self._log.lock if self._log is not None else contextlib.nullcontext():
            definition = self._attempt(lambda: self._definitions.define(name, step_metric, summary, step_sync, goal, overwrite))
            self._forget_layouts()
        return definition if isinstance(definition, Definition) else None

    def watch(self, models: Any, criterion: Any = None, log: str | None = "gradients", log_freq: int = 1000, idx: int | None = None,
              log_graph: bool = False) -> None:
        """Records histograms of the gradients and parameters of `models` (a torch.nn.Module or several) with every `log_freq`-th backward pass.

        `log`: "gradients" (as one backward pass computes them, before any reduction over ranks), "parameters" (that require gradients),
        "all" or None. They are recorded with the next call of log(), as `gradients/<name>` and `parameters/<name>`; names of further models
        begin with `graph_<idx>.`. Each costs passes over the tensor where it is, and a synchronization of a GPU.
        `log_graph`: records the tables `model/modules` (types and numbers of parameters) and `model/parameters` (shapes) now, and after the
        first forward pass, with the next call of log(), `model/forward` (the calls of modules, the shapes of their outputs, and where their
        inputs come from).
        """
        self._attempt(lambda: self._watch(models, log, log_freq, idx, log_graph))

    def _watch(self, models: Any, log: str | None, log_freq: int, idx: int | None, log_graph: bool) -> None:
        from lockstep.recording import forward_pass, watching

        if (log is None and not log_graph) or not self.is_logging:
            return
        if log is not None and log not in watching.KINDS:
            self._warn_once(f"watch(): log={log!r}: expected {', '.join(map(repr, watching.KINDS))} or None; nothing is watched")
            return
        if not isinstance(log_freq, int) or log_freq < 1:
            self._warn_once(f"watch(): log_freq={log_freq!r}: expected a number of backward passes; nothing is watched")
            return
        for model in models if isinstance(models, (list, tuple)) else (models,):
            if not hasattr(model, "named_parameters"):
                self._warn_once(f"watch(): {type(model).__name__}: expected a torch.nn.Module; it is not watched")
                continue
            if any(hasattr(parameter, "to_local") for _, parameter in model.named_parameters()):
                self._warn_once(f"watch(): {type(model).__name__} has sharded parameters (FSDP), which are not supported; it is not watched")
                continue
            number = self._number_of(model) if idx is None else idx
            self.unwatch(model)
            self._numbered[number] = weakref.ref(model)
            prefix = f"graph_{number}." if number else ""
            if log_graph:
                for name, table in watching.tables_of(model).items():
                    self._log_other(f"model/{prefix}{name}", table, max(self.step, 0))
                self._watches.append(forward_pass.ForwardPass(model, f"model/{prefix}forward", self._put_later, self._warn_once))
            if log is None:
                continue
            self._watches.append(watching.Watch(model, prefix, watching.KINDS[log], log_freq, self._put_later, self._warn_once))

    def _number_of(self, model: Any) -> int:
        """The number of a watched model, or the first free one."""
        own = (number for number, one in self._numbered.items() if one() is model)
        return next(own, next(number for number in itertools.count() if number not in self._numbered))

    def unwatch(self, models: Any = None) -> None:
        """Ends watch(), of all models by default."""
        chosen = models if isinstance(models, (list, tuple)) else (models,)
        self._numbered = {} if models is None else {n: one for n, one in self._numbered.items() if not any(one() is model for model in chosen)}
        for watch in [one for one in self._watches if models is None or any(map(one.is_of, chosen))]:
            self._attempt(watch.remove)
            self._watches.remove(watch)

    def _put_later(self, name: str, value: Histogram | Table) -> None:
        log = self._log
        if log is not None and not self._is_over:
            with log.lock:
                self._waiting[name] = value

    # Name, tags and notes.

    def _rename(self, name: str) -> None:
        self._name = name
        log = self._log
        if log is None or self._is_over or self._is_addition:
            return
        job = run_files.read_json(Path(self.dir, "run.json"))
        if isinstance(job, dict):
            run_files.write_json(Path(self.dir, "run.json"), {**job, "name": name})
        if log.identity is not None:
            identity = {**log.identity, "name": name}
            self._record(lambda log: log.write_identity(identity))

    def _label(self, tags: Iterable[str], notes: str) -> None:
        labels = tuple(map(str, tags))
        run_files.verify_tags(list(labels), notes)
        if self.is_logging:
            run_files.write_tags(Path(self.dir), list(labels), notes)
        self._tags, self._notes = labels or self._tags, notes or self._notes

    # The end.

    def finish(self, exit_code: int | None = None, quiet: bool | None = None, *, reason: str = "", signal: int | None = None) -> None:
        """Records the end and closes the log. Waits for the sinks, at most 10 s; they continue in the background."""
        if self._is_over:
            return
        self._attempt(self._log_partial)
        self.unwatch()
        self._is_over = True
        self._forget_layouts()
        code = exit_code or 0
        end: dict[str, Any] = {"state": "finished" if code == 0 else "killed" if signal else "failed", "exit": code}
        if signal:
            end["signal"] = signal
        if reason:
            end["reason"] = " ".join(reason.split())[:1000]
        log = self._log
        if log is not None:
            if not self._is_addition:
                self._attempt(lambda: log.write_end(end))
            self._attempt(log.close)
        for action in self.on_finish:
            self._attempt(action)
        problem = "" if self._agent is None else self._agent.finish(FINISH_TIMEOUT_S if code == 0 else 0.0)
        if problem is None and code == 0:
            warn(f"sinks are behind; they continue in the background (if that is interrupted: lockstep sync {self.dir})")
        elif problem:
            warn(f"tracking agent: {problem}")

    def _log_partial(self) -> None:
        log = self._log
        if log is None:
            return
        with log.lock:
            self._is_writing = False  # in a signal handler within log(): the row of that call is not recorded
            self._log_pending()
            if self._partial:
                partial, self._partial = self._partial, {}
                self._log_row(partial, self._partial_step())
            if self._waiting:
                self._log_waiting(max(self.step, 0))
            if self._definitions.are_new:
                self._apply_definitions(log)

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: Any, error: Any, _traceback: Any) -> None:
        self.failure = None if kind is None or issubclass(kind, SystemExit) else (kind, error)
        if kind is None or kind is SystemExit and not error.code:
            self.finish()
        elif issubclass(kind, KeyboardInterrupt):
            self.finish(130, reason="interrupted", signal=2)
        else:
            code = error.code if kind is SystemExit and isinstance(error.code, int) else 1
            self.finish(code, reason=describe(kind, error))

    def detach(self) -> None:
        """For a child process after a fork: only the parent records."""
        if self._is_over:
            return
        self._is_over = True
        self._layouts = {}
        if self._log is not None:
            self._log.abandon()
            self._log = None
        if self._agent is not None:
            self._agent.abandon()
            self._agent = None
        self._is_writing = False

    # Helpers.

    def _forget_layouts(self) -> None:
        """From here on, log() does not pack rows itself; their last values stay."""
        for layout in self._layouts.values():
            other = self._layouts_of_others.get(names := tuple(layout.names))
            if other is None or other.arguments[2] < layout.arguments[2]:
                self._layouts_of_others[names] = layout
        self._layouts.clear()

    def _last_values(self) -> dict[str, float]:
        rows = [*self._layouts.values(), *self._layouts_of_others.values()]
        last = dict(self._last)
        for layout in sorted(rows, key=lambda layout: layout.arguments[2]):
            if layout.data:
                last.update(zip(layout.names, layout.unpack(layout.data)[5::2]))
        return last

    def _begin_summary(self, log: str | Path) -> None:
        """With what the log has of earlier processes."""
        def read() -> dict[str, Any]:
            before = read_log(str(log), False)
            return {**before.last_values(), **before.summary}
        self.summary.start_with(read)

    def _apply_definitions(self, log: LogWriter) -> None:
        """To the rows that were recorded before."""
        before = read_log(str(log.path)) if self.step >= 0 else None
        columns = ((name, column) for rows in before.rows for name, column in zip(rows.names, rows.columns)) if before else ()
        self._update_summary(self._definitions.start_with(columns, before.last_values() if before else {}))

    def _update_summary(self, values: dict[str, float]) -> None:
        if values:
            self.summary.take(values)

    def _config_changed(self) -> None:
        config = plain(dict(self.config))
        self._record(lambda log: log.write_config(config))

    def _record(self, write: Callable[[LogWriter], Any]) -> None:
        log = self._log
        if log is None or self._is_over:
            return
        with log.lock:
            if self._is_writing:  # called by a signal handler, or by log()
                self._pending.append(lambda: self._record(write))
            else:
                self._attempt(lambda: self._write(lambda: write(log)))

    def _attempt(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except Exception as error:
            self._warn_once(f"{type(error).__name__}: {error}")
            return None

    def _warn_once(self, line: str) -> None:
        if line not in self._warned and len(self._warned) < 100:
            self._warned.add(line)
            warn(line[:500])


def describe(kind: Any, error: Any) -> str:
    text = " ".join(str(error).split())[:1000]
    return f"{kind.__name__}: {text}" if text else kind.__name__
