"""Makes runs of what other trackers recorded: `python -m lockstep.importers tensorboard|wandb|mlflow PATH [--dir runs]`."""

from pathlib import Path
from typing import Any, Iterable, Mapping

from lockstep.event_log.frames import SCALARS
from lockstep.event_log.writer import LogWriter
from lockstep.recording import run_files
from lockstep.recording.run import _Layout, warn
from lockstep.recording.values import plain


class ImportedRun:
    """A run that is written from records of another tracker, with their times."""

    def __init__(self, directory: Path, name: str, created: float, config: Mapping[str, Any], *, group: str | None = None,
                 host: str = "", command: Iterable[str] = (), tags: Iterable[str] = (), note: str = "") -> None:
        self.id = run_files.new_run_id(name)
        self._layouts: dict[tuple[str, ...], _Layout | None] = {}
        run_dir = directory / self.id
        (run_dir / "events").mkdir(parents=True)
        self._log = LogWriter(run_dir / "events" / "rank-00000.lsev", warn)
        job = {"id": self.id, "name": name, "group": group, "world_size": 1, "created": created, "host": host, "command": list(command)}
        self._log.write_identity({**job, "job_type": None, "job_id": self.id, "rank": 0, "node_rank": 0, "local_rank": 0, "pid": 0,
                                  "planned": {"steps": None, "epochs": None}})
        self._log.write_config(plain(dict(config)))
        tags = list(tags)
        valid = [tag for tag in tags if run_files.is_tag(tag)]
        if len(valid) < len(tags):
            warn(f"{self.id}: tags that are not valid here are left out: {', '.join(repr(tag) for tag in tags if tag not in valid)}")
        if valid or note:
            run_files.write_tags(run_dir, valid, note[:run_files.MAX_NOTE_BYTES // 4])
        run_files.write_json(run_dir / "run.json", job)

    def row(self, step: int, time_s: float, values: Mapping[str, float], epoch: float = 0.0) -> None:
        names = tuple(values)
        layout = self._layouts.get(names)
        if layout is None:
            keys = [(name, key) for name in names if (key := self._log.key(name)) is not None]
            layout = self._layouts[names] = _Layout([name for name, _ in keys], [key for _, key in keys])
        layout.arguments[1:4] = [step, time_s, epoch]
        layout.arguments[5::2] = [values[name] for name in layout.names]
        if layout.names:
            self._log.append(SCALARS, layout.pack(*layout.arguments)[1:])

    def rewind(self, step: int) -> None:
        """Discards what has a later step."""
        self._log.write_rewind(step)

    def text(self, line: str) -> None:
        self._log.write_text(1, line)

    def media(self, kind: int, members: dict[str, Any]) -> None:
        self._log.write_map(kind, members)

    def summary(self, values: Mapping[str, Any]) -> None:
        if values:
            self._log.write_summary(plain(dict(values)))

    def finish(self, state: str = "finished", code: int = 0) -> str:
        """Returns the id of the run."""
        self._log.write_end({"state": state, "exit": code})
        self._log.close()
        return self.id
