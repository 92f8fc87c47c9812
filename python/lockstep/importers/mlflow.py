"""Reads MLflow's file store (a directory `mlruns`): metrics, parameters, tags and the outcome."""

import re
from pathlib import Path
from typing import Any, Iterator
from urllib.parse import unquote

from lockstep.importers import ImportedRun
from lockstep.recording.run import warn

_STATES = {"3": "finished", "4": "failed", "5": "killed", "FINISHED": "finished", "FAILED": "failed", "KILLED": "killed"}


def sources(path: Path) -> list[Path]:
    """The folders of the runs of all experiments in `path`."""
    metas = [meta for pattern in ("meta.yaml", "*/meta.yaml", "*/*/meta.yaml") for meta in sorted(path.glob(pattern))]
    metas = [meta for meta in metas if _meta(meta).get("lifecycle_stage") != "deleted"]
    return [meta.parent for meta in metas if (meta.parent / "metrics").is_dir() or (meta.parent / "params").is_dir()]


def import_run(folder: Path, _path: Path, directory: Path) -> str:
    meta, tags = _meta(folder / "meta.yaml"), _texts(folder / "tags")
    name = tags.get("mlflow.runName") or meta.get("run_name") or folder.name
    created = float(meta.get("start_time") or 0) / 1000
    experiment = _meta(folder.parent / "meta.yaml").get("name")
    labels = [f"{key}={value}" for key, value in tags.items() if not key.startswith("mlflow.")]
    points = [point for file in sorted((folder / "metrics").rglob("*")) if file.is_file() for point in _points(file, folder / "metrics")]
    points.sort(key=lambda point: (point[0], point[1], point[3]))
    run = ImportedRun(directory, name, created, _texts(folder / "params"), group=experiment, command=[tags.get("mlflow.source.name", "")],
                      tags=labels, note=tags.get("mlflow.note.content", ""))
    for time, step, metric, _, value in points:
        run.row(step, time, {metric: value})
    state = _STATES.get(str(meta.get("status")), "lost")
    return run.finish(state if state != "lost" else "killed", 0 if state == "finished" else 1)


def _points(file: Path, root: Path) -> Iterator[tuple[float, int, str, int, float]]:
    """Time, step, metric, line and value."""
    metric = unquote(str(file.relative_to(root)))
    for number, line in enumerate(file.read_text().splitlines()):
        words = line.split()
        try:
            yield float(words[0]) / 1000, int(words[2]) if len(words) > 2 else 0, metric, number, float(words[1])
        except (ValueError, IndexError):
            warn(f"{file}:{number + 1}: expected a time, a value and a step; this line is not imported")


def _texts(folder: Path) -> dict[str, str]:
    return {unquote(str(file.relative_to(folder))): file.read_text() for file in sorted(folder.rglob("*")) if file.is_file()}


def _meta(path: Path) -> dict[str, Any]:
    """The scalars at the top of a YAML file."""
    try:
        content = path.read_text()
    except OSError:
        return {}
    found = {}
    for line in content.splitlines():
        if match := re.fullmatch(r"(\w+): (.*)", line):
            value = match[2].strip()
            found[match[1]] = "" if value == "null" else value[1:-1].replace("''", "'") if value[:1] == value[-1:] and value[:1] in "'\"" else value
    return found
