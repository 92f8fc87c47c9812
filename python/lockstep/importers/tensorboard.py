"""Reads the event files of TensorBoard: scalars, histograms, images (PNG) and texts."""

import struct
from pathlib import Path
from typing import Any, Iterator

from lockstep.event_log.frames import HISTOGRAM, IMAGE
from lockstep.importers import ImportedRun
from lockstep.importers.protobuf import Truncated, double, fields, signed, text

_FLOATS = {1: "<f", 2: "<d", 3: "<i", 9: "<q"}  # of a tensor's bytes, by type
_REPEATED = {1: (5, "<f"), 2: (6, "<d")}


def import_runs(path: Path, directory: Path) -> list[str]:
    """One run for each directory below `path` with event files. Returns their ids."""
    folders = sorted({file.parent for file in path.rglob("*tfevents*") if file.is_file()} | ({path} if path.is_file() else set()))
    return [_import(folder, path, directory) for folder in folders]


def _import(folder: Path, root: Path, directory: Path) -> str:
    files = [folder] if folder.is_file() else sorted(folder.glob("*tfevents*"))
    events = [event for file in files for event in _events(file)]
    name = folder.name if folder == root else str(folder.relative_to(root)).replace("/", "-")
    run = ImportedRun(directory, name, min((double(event, 1) for event in events), default=0.0), {})
    rows: dict[tuple[int, float], dict[str, float]] = {}
    for event in events:
        step, time = signed(event, 2), double(event, 1)
        for summary in event.get(5, []):
            for value in fields(summary).get(1, []):
                _take(run, rows, step, time, fields(value))
    for (step, time), values in rows.items():
        run.row(step, time, values)
    return run.finish()


def _events(file: Path) -> Iterator[dict[int, list[Any]]]:
    data = file.read_bytes()
    at = 0
    while at + 12 <= len(data):
        size = int.from_bytes(data[at:at + 8], "little")
        if at + 16 + size > len(data):
            return  # being written
        try:
            yield fields(data[at + 12:at + 12 + size])
        except Truncated:
            return
        at += 16 + size


def _take(run: ImportedRun, rows: dict[Any, dict[str, float]], step: int, time: float, value: dict[int, list[Any]]) -> None:
    tag = text(value, 1)
    moment = {"name": tag, "step": step, "time": time, "epoch": 0.0}
    number: float | None = None
    if 2 in value:
        number = struct.unpack("<f", value[2][-1])[0]
    elif 8 in value:
        number = _of_tensor(run, tag, fields(value[8][-1]))
    elif 5 in value:
        histogram = fields(value[5][-1])
        limits, counts = (_doubles(histogram.get(field, [])) for field in (6, 7))
        if limits and len(limits) == len(counts):
            low = min(double(histogram, 1), limits[0])
            run.media(HISTOGRAM, {**moment, "edges": [low, *limits], "counts": counts})
    elif 4 in value:
        image = fields(value[4][-1])
        png = image.get(4, [b""])[-1]
        if png[:4] == b"\x89PNG":
            run.media(IMAGE, {**moment, "width": signed(image, 2), "height": signed(image, 1), "caption": "", "png": png})
    if number is not None:
        row = rows.setdefault((step, time), {})
        if tag in row:  # twice at the same moment
            run.row(step, time, {tag: number})
        else:
            row[tag] = number


def _of_tensor(run: ImportedRun, tag: str, tensor: dict[int, list[Any]]) -> float | None:
    """The number in a tensor of one; texts are recorded as such."""
    kind = signed(tensor, 1)
    if kind == 7:
        for line in tensor.get(8, []):
            run.text(f"{tag}: {line.decode('utf-8', 'replace')}")
        return None
    content = tensor.get(4, [b""])[-1]
    if kind in _FLOATS and len(content) == struct.calcsize(_FLOATS[kind]):
        return float(struct.unpack(_FLOATS[kind], content)[0])
    if kind in _REPEATED:
        field, form = _REPEATED[kind]
        packed = b"".join(tensor.get(field, []))
        if len(packed) == struct.calcsize(form):
            return float(struct.unpack(form, packed)[0])
    return None


def _doubles(values: list[bytes]) -> list[float]:
    packed = b"".join(values)
    return list(struct.unpack(f"<{len(packed) // 8}d", packed))
