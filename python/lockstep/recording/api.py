"""init(), and the functions of the module `lockstep` that act on the run of this process."""

import atexit
import builtins
import os
import signal as signals
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping

from lockstep.event_log.frames import NotALog
from lockstep.event_log.writer import LogWriter
from lockstep.programs import find_program
from lockstep.recording import agent as agents
from lockstep.recording import ranks as _ranks
from lockstep.recording import run_files
from lockstep.recording.ranks import Policy
from lockstep.recording.run import Run, describe, warn
from lockstep.recording.values import plain

_runs: list[Run] = []  # open ones; the last is that of the module's functions
_inherited: Run | None = None  # in a forked child: the run of its parent, whose config can be read
_launched_is_taken = False  # a run of this process is, or was, that of `lockstep launch`
_exit_code = 0
_failure: tuple[Any, Any] | None = None
_has_hooks = False

MODES = (None, "disabled", "online", "offline", "shared", "run", "dryrun")  # W&B's
RESUME = (None, True, False, "allow", "must", "never", "auto")


def init(project: str | None = None, *, name: str | None = None, config: Any = None, group: str | None = None,
         dir: str | os.PathLike[str] | None = None, tags: str | Iterable[str] | None = None, notes: str | None = None, id: str | None = None,
         resume: bool | str | None = None, job_type: str | None = None, ranks: Policy = "main", sinks: list[Any] | None = None,
         agent: bool = True, git_diff: bool = True, mode: str | None = None, **ignored: Any) -> Run:
    """Starts a run in `dir`/<id> ("runs" by default), or continues it.

    `name`: for display; begins the id. `config`: a dict or a namespace. `tags`, `notes`: as `lockstep runs tag` sets them.
    `id`, `resume`: "allow" continues the run `id` if it exists, "must" requires it, "never" requires a new one. Under `lockstep launch`, the
    first run of a process is that of the job, which is continued after a restart. Values that were recorded for later steps are then replaced.
    `ranks`: which ranks record: "main", "node", "all" or a list. `sinks`: names or settings, as in the section `tracking` of a run file.
    `agent`: start `lockstep track`, if that command is found. `git_diff`: it records the uncommitted changes of the working directory's
    repository. `mode="disabled"`: record nothing.

    Raises ValueError for invalid arguments. If the run cannot be written, it says so in one line and returns a run that records nothing.
    """
    if resume not in RESUME:
        raise ValueError(f"resume={resume!r}: expected 'allow', 'must' or 'never'")
    for argument, text in (("project", project), ("name", name), ("group", group), ("id", id)):
        if not isinstance(text, (str, type(None))):
            raise ValueError(f"{argument}={text!r}: expected a text")
    if mode not in MODES:
        raise ValueError(f"mode={mode!r}: expected 'disabled', or one of W&B's other modes, which change nothing here")
    global _launched_is_taken
    place = _ranks.place_of_process()
    is_logging = _ranks.logs(ranks, place) and mode != "disabled"
    if is_logging:
        _report_misspelled(ignored)
        if resume in (True, "auto") and not id and "LOCKSTEP_RUN_ID" not in os.environ:
            warn(f"init(resume={resume!r}) without id= starts a new run; give the id of the run to continue")
    display = name or project or _script_name()
    members = _config_of(config)
    launched = os.environ.get("LOCKSTEP_RUN_ID", "")
    run_id = id or ("" if _launched_is_taken else launched) or run_files.new_run_id(display)
    if not run_files.is_run_id(run_id):
        raise ValueError(f"id={run_id!r}: expected up to 200 of A-Z a-z 0-9 _ . -, not starting with a dot")
    if place.world_size > 1 and ranks != "main" and not id and run_id != launched:
        start = "" if launched else ", or start them with lockstep launch"
        raise ValueError(f"ranks={ranks!r}: all ranks need the same id; give it with id={start}")
    run_dir = Path(dir if dir is not None else "runs").absolute() / run_id
    entry = _ranks.entry_of(ranks, place, run_id, display, group, job_type)
    labels = [tags] if isinstance(tags, str) else [str(tag) for tag in tags or []]
    log = None
    if is_logging:
        _verify_resume(run_dir, place.rank, resume, is_given=bool(id) and not launched)
        run_files.verify_tags(labels, notes or "")
        log = _opened_log(run_dir, place.rank, labels, notes or "")
    if mode != "disabled" and run_id == launched:
        _launched_is_taken = True
    if log is None:
        is_left_out = not is_logging and mode != "disabled"  # such a rank reports its failure, too
        run = Run(id=run_id, name=entry.name, group=entry.group, dir=run_dir, log=None, config=members, tags=labels, notes=notes or "")
        return _opened(run, place if is_left_out else None)
    continues = log.identity is not None
    identity = _identity(entry, run_id, place)
    if place.rank == 0 or ranks != "main" and not (run_dir / "run.json").exists():
        _write_files(run_dir, identity, display, group, continues)
        _write_settings(run_dir, sinks, git_diff)
    log.write_identity(identity)
    if continues and not members and isinstance(log.config, dict):
        members = log.config
    log.write_config(plain(members))
    run = Run(id=run_id, name=entry.name, group=entry.group, dir=run_dir, log=log, config=members, takes_back=continues, tags=labels,
              notes=notes or "", agent=_started_agent(run_dir, place, ranks) if agent and place.local_rank == 0 else None)
    return _opened(run, place)


def _report_misspelled(ignored: Mapping[str, Any]) -> None:
    """Arguments of W&B that have no meaning here are ignored without a message."""
    if not ignored:
        return
    import difflib
    import inspect

    for name in ignored:
        for near in difflib.get_close_matches(name, list(inspect.signature(init).parameters)[:-1], 1, 0.75):
            warn(f"init({name}=...) has no effect; did you mean '{near}'?")


def _verify_resume(run_dir: Path, rank: int, resume: bool | str | None, is_given: bool) -> None:
    exists = (run_dir / "events" / f"rank-{rank:05}.lsev").exists()
    if exists and (resume == "never" or not resume and is_given):  # after a restart, that of `lockstep launch` exists
        raise ValueError(f"the run {run_dir.name} exists in {run_dir.parent}; continue it with resume='allow', "
                         "or add to it with lockstep.attach()")
    if resume == "must" and not exists:
        raise ValueError(f"resume='must': there is no run {run_dir.name} in {run_dir.parent}")


def _opened_log(run_dir: Path, rank: int, tags: list[str], note: str) -> LogWriter | None:
    """None, after one line, if it cannot be written."""
    try:
        (run_dir / "events").mkdir(parents=True, exist_ok=True)
        if tags or note:
            run_files.write_tags(run_dir, tags, note)
        return LogWriter(run_dir / "events" / f"rank-{rank:05}.lsev", warn)
    except (OSError, NotALog) as error:
        warn(f"{_reason(error)}; this run is not recorded")
        return None


def _identity(entry: _ranks.Entry, job: str, place: _ranks.Place) -> dict[str, Any]:
    return {"id": entry.id, "name": entry.name, "group": entry.group, "job_type": entry.job_type, "job_id": job, **place._asdict(),
            "host": run_files.host_name(), "pid": os.getpid(), "created": time.time(), "command": run_files.command_line(),
            "planned": {"steps": None, "epochs": None}}


def attach(id: str, *, dir: str | os.PathLike[str] = "runs") -> Run:
    """Adds to the run `id`, finished or still running in another process, e.g. the results of an evaluation.

    A run that is over keeps its outcome. While another process records it, the additions are a separate entry, `<id>-added-<n>`.
    Raises ValueError if there is no such run; a run that cannot be written is one line, as in init().
    """
    run_dir = Path(dir).absolute() / id
    logs = sorted((run_dir / "events").glob("rank-*.lsev")) if run_files.is_run_id(id) else []
    logs = [path for path in logs if path.stem.count(".") == 0]
    if not logs:
        raise ValueError(f"there is no run {id} in {run_dir.parent}")
    try:
        try:
            log = LogWriter(logs[0], warn)
            config = log.config if isinstance(log.config, dict) else {}
            identity = log.identity or {}
            return _opened(Run(id=id, name=str(identity.get("name") or id), group=identity.get("group"), dir=run_dir, log=log,
                               is_addition=True, config=config))
        except BlockingIOError:
            return _opened(_added_entry(id, run_dir, logs))
    except (OSError, NotALog) as error:
        warn(f"{_reason(error)}; nothing is added to {id}")
        return _opened(Run(id=id, name=id, group=None, dir=run_dir, log=None))


def _added_entry(id: str, run_dir: Path, logs: list[Path]) -> Run:
    number = int(logs[-1].stem.removeprefix("rank-")) + 1
    job = run_files.read_json(run_dir / "run.json") or {}
    number = max(number, int(job.get("world_size", 1)))
    while True:
        try:
            log = LogWriter(run_dir / "events" / f"rank-{number:05}.lsev", warn)
            break
        except BlockingIOError:  # another process that adds to the run has begun meanwhile
            number += 1
    name = f"{job.get('name') or id}-added-{number}"
    group = job.get("group") or id
    entry = _ranks.Entry(f"{id}-added-{number}", name, group, "added")
    log.write_identity(_identity(entry, id, _ranks.Place(rank=number, world_size=int(job.get("world_size", 1)), local_rank=number)))
    log.write_config({})
    run = Run(id=id, name=name, group=id, dir=run_dir, log=log)
    run._begin_summary(logs[0])
    return run


def _write_files(run_dir: Path, identity: dict[str, Any], name: str, group: str | None, continues: bool) -> None:
    job = {"id": identity["job_id"], "name": name, "group": group, **{key: identity[key] for key in ("world_size", "created", "host", "command")}}
    try:
        if continues:
            run_files.clear_end(run_dir)
        run_files.write_run_json(run_dir, job)
        run_files.write_software(run_dir)
    except OSError as error:
        warn(_reason(error))


def _write_settings(run_dir: Path, sinks: list[Any] | None, git_diff: bool) -> None:
    try:
        run_files.write_config_yaml(run_dir, sinks, git_diff)
    except OSError as error:
        warn(_reason(error))


def _started_agent(run_dir: Path, place: Any, policy: Policy) -> agents.Agent | None:
    command = find_program("lockstep")
    if command is None:
        return None
    try:
        return agents.Agent(command, run_dir, place.node_rank, _ranks.number_logging(policy, place))
    except OSError as error:
        warn(f"cannot start the tracking agent '{command}': {error.strerror}")
        return None


def _opened(run: Run, place: _ranks.Place | None = None) -> Run:
    """`place`: of this process in the job that it reports a failure of."""
    _runs.append(run)
    run.on_finish.append(lambda: _runs.remove(run) if run in _runs else None)
    if place is not None:
        run.on_finish.append(lambda: _report_failure(run, place))
    _add_hooks()
    return run


# How the process ends.

def _add_hooks() -> None:
    global _has_hooks
    if _has_hooks:
        return
    _has_hooks = True
    atexit.register(_finish_all)
    os.register_at_fork(after_in_child=_detach_all)
    before = sys.excepthook

    def on_error(kind: Any, error: Any, traceback: Any) -> None:
        global _failure
        _failure = (kind, error)
        before(kind, error, traceback)

    sys.excepthook = on_error
    sys.exit = _noting_the_code(sys.exit)
    for name in () if hasattr(sys, "ps1") else ("exit", "quit"):  # of the module site; a prompt shows how to use them
        if hasattr(builtins, name):
            setattr(builtins, name, _noting_the_code(getattr(builtins, name)))


def _noting_the_code(leave: Callable[[Any], Any]) -> Any:
    def on_exit(code: Any = None) -> Any:
        global _exit_code
        if threading.current_thread() is threading.main_thread():  # in others, it ends the thread
            _exit_code = code if isinstance(code, int) else 0 if code is None else 1
        leave(code)

    return on_exit


def _finish_all() -> None:
    global _failure
    error = getattr(sys, "last_value", None)  # also if another hook has replaced ours
    if _failure is None and error is not None and not hasattr(sys, "ps1"):
        _failure = (type(error), error)
    for run in list(_runs):
        if _failure is None:
            run.finish(_exit_code)
        elif issubclass(_failure[0], KeyboardInterrupt):
            run.finish(130, reason="interrupted", signal=int(signals.SIGINT))
        else:
            run.finish(1, reason=describe(*_failure))


def _detach_all() -> None:
    global _inherited
    _inherited = current()
    for run in list(_runs):
        run.detach()
    _runs.clear()


def _report_failure(run: Run, place: Any) -> None:
    failure = run.failure or _failure
    if failure is not None and not issubclass(failure[0], KeyboardInterrupt) and Path(run.dir, "events").is_dir():
        run_files.write_end_fact(Path(run.dir), place.rank, {"state": "failed", "exit": 1, "rank": place.rank, "reason": describe(*failure)})


# The module's functions.

def current() -> Run | None:
    return _runs[-1] if _runs else _inherited


def _current_or_warn(call: str) -> Run | None:
    run = current()
    if run is None:
        warn(f"lockstep.{call} before lockstep.init(): not recorded")
    return run


def log(values: Mapping[str, Any], step: int | None = None, commit: bool | None = None, **_ignored: Any) -> None:
    """Run.log() of the current run."""
    run = _runs[-1] if _runs else _current_or_warn("log()")
    if run is not None:
        run.log(values, step, commit)


def _forwarded(name: str) -> Any:
    def call(*arguments: Any, **more: Any) -> Any:
        run = _current_or_warn(f"{name}()")
        return None if run is None else getattr(run, name)(*arguments, **more)

    call.__name__ = name
    call.__doc__ = f"Run.{name}() of the current run."
    return call


alert = _forwarded("alert")
define_metric = _forwarded("define_metric")
watch = _forwarded("watch")
unwatch = _forwarded("unwatch")
log_artifact = _forwarded("log_artifact")
use_artifact = _forwarded("use_artifact")


def finish(exit_code: int | None = None, quiet: bool | None = None) -> None:
    """Run.finish() of the current run."""
    if _runs:
        _runs[-1].finish(exit_code)


def _script_name() -> str:
    return Path(sys.argv[0]).stem if sys.argv and sys.argv[0] not in ("", "-c", "-m") else "run"


def _config_of(config: Any) -> dict[str, Any]:
    if config is None:
        return {}
    if hasattr(config, "items"):
        return {str(key): value for key, value in config.items()}
    if hasattr(config, "__dict__"):
        return dict(vars(config))
    raise ValueError(f"config of {type(config).__name__}: expected a dict or a namespace")


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


