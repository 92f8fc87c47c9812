"""Reads the offline files of Weights & Biases (wandb/offline-run-*/run-*.wandb): history, config, summary and the outcome."""

import json
from pathlib import Path
from typing import Any, Callable, Iterator

from lockstep.event_log.frames import HISTOGRAM
from lockstep.importers import ImportedRun
from lockstep.importers.protobuf import Truncated, double, fields, signed, text
from lockstep.recording.definitions import SUMMARIES, summary_values

_BLOCK = 32768
_TYPED: dict[int, Callable[[dict[int, list[Any]], int], Any]] = {
    3: lambda message, number: None, 4: lambda message, number: bool(message[number][-1]),
    5: lambda message, number: _zigzag(message[number][-1]), 6: double, 7: text}
_HISTORY, _SUMMARY, _CONFIG, _RUN, _EXIT = 2, 3, 5, 17, 18


def sources(path: Path) -> list[Path]:
    """The .wandb files below `path`, one for each run."""
    return [path] if path.is_file() else sorted(path.rglob("*.wandb"))


def import_run(file: Path, _path: Path, directory: Path) -> str:
    name, group, tags, notes, host, created = file.stem, None, [], "", "", 0.0
    config: dict[str, Any] = {}
    summary: dict[str, Any] = {}
    history: list[tuple[int, dict[str, Any]]] = []
    code = None
    for record in _records(file):
        for message in map(fields, record.get(_RUN, [])):
            name = text(message, 8) or text(message, 1) or name
            group, notes, host = text(message, 6) or group, text(message, 9) or notes, text(message, 13) or host
            tags = [tag.decode() for tag in message.get(10, [])] or tags
            if 17 in message:
                stamp = fields(message[17][-1])
                created = signed(stamp, 1) + signed(stamp, 2) * 1e-9
            for part in message.get(4, []):
                _update(config, part)
        for part in record.get(_CONFIG, []):
            _update(config, part)
        for part in record.get(_SUMMARY, []):
            _update(summary, part)
        for message in map(fields, record.get(_HISTORY, [])):
            values = {}
            for key, value in map(_item, message.get(1, [])):
                is_histogram = isinstance(value, dict) and value.get("_type") == "histogram"  # one item, as before wandb 0.18
                values.update({f"{key}/{part}": one for part, one in value.items()} if is_histogram else {key: value})
            steps = [signed(fields(step), 1) for step in message.get(2, [])]
            history.append((steps[0] if steps else int(values.get("_step", 0)), values))
        for message in map(fields, record.get(_EXIT, [])):
            code = signed(message, 1)
    config.pop("_wandb", None)
    run = ImportedRun(directory, name, created, config, group=group, host=host, tags=tags, note=notes)
    for step, values in history:
        media = tuple(key.removesuffix("_type") for key in values if key.endswith("/_type"))  # their sizes are no metrics
        numbers = {key: float(value) for key, value in _flat(values) if _is_number(value) and not key.startswith(media)}
        if numbers:
            run.row(step, float(values.get("_timestamp", created)), numbers, float(numbers.get("epoch", 0.0)))
        for key in [key.removesuffix("/_type") for key, value in values.items() if key.endswith("/_type") and value == "histogram"]:
            _import_histogram(run, key, values, {"step": step, "time": float(values.get("_timestamp", created)),
                                                 "epoch": float(numbers.get("epoch", 0.0))})
    run.summary(dict(_summary_items(summary)))
    return run.finish("finished" if code == 0 else "failed" if code is not None else "killed", code or (0 if code == 0 else 1))


def _import_histogram(run: ImportedRun, name: str, values: dict[str, Any], moment: dict[str, Any]) -> None:
    counts, edges = values.get(f"{name}/values"), values.get(f"{name}/bins")
    if not isinstance(counts, list) or not isinstance(edges, list) or len(edges) != len(counts) + 1:
        return
    if edges[0] == edges[-1]:  # of equal values
        edges = [edges[0] - 0.5, *edges[1:-1], edges[-1] + 0.5]
    run.media(HISTOGRAM, {"name": name, **moment, "edges": list(map(float, edges)), "counts": list(map(float, counts))})


def _summary_items(summary: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in summary.items():
        if isinstance(value, dict) and value.keys() <= {*SUMMARIES}:  # what define_metric() makes of a value
            yield from summary_values(name, value).items()
        elif not name.startswith("_") and f"{name.rpartition('/')[0]}/_type" not in summary:  # not a part of a histogram
            yield name, value


def _zigzag(value: int) -> int:
    return value >> 1 if value % 2 == 0 else -(value >> 1) - 1


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) or value in ("NaN", "Infinity", "-Infinity")


def _flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict) and "_type" not in value:
            yield from _flat(value, f"{prefix}{key}/")
        elif not key.startswith("_"):
            yield prefix + key, value


def _update(target: dict[str, Any], data: bytes) -> None:
    """Of a config or a summary: items that are set (1) and removed (2)."""
    message = fields(data)
    for key, value in map(_item, message.get(1, [])):
        target[key] = value
    for removed in message.get(2, []):
        target.pop(text(fields(removed), 1), None)


def _item(data: bytes) -> tuple[str, Any]:
    message = fields(data)
    key = text(message, 1) or "/".join(part.decode() for part in message.get(2, []))
    for number, read in _TYPED.items():
        if number in message:
            return key, read(message, number)
    try:
        return key, json.loads(text(message, 16))
    except ValueError:
        return key, text(message, 16)


def _records(file: Path) -> Iterator[dict[int, list[Any]]]:
    """LevelDB's log format: blocks with pieces of records, after a header of 7 bytes."""
    data = file.read_bytes()
    if data[:4] != b":W&B":
        raise ValueError("not a file of W&B")
    at, pieces = 7, b""
    while at + 7 <= len(data):
        if _BLOCK - at % _BLOCK < 7:
            at += _BLOCK - at % _BLOCK
            continue
        size, kind = int.from_bytes(data[at + 4:at + 6], "little"), data[at + 6]
        if kind == 0 or at + 7 + size > len(data):
            return
        pieces = (b"" if kind in (1, 2) else pieces) + data[at + 7:at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            try:
                yield fields(pieces)
            except Truncated:
                return
