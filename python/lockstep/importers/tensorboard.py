"""Reads the event files of TensorBoard: scalars, histograms, images (PNG) and texts."""

import struct
from pathlib import Path
from typing import Any, Iterator

from lockstep.event_log.frames import HISTOGRAM, IMAGE
from lockstep.importers import ImportedRun
from lockstep.importers.protobuf import Truncated, double, fields, signed, text
from lockstep.recording.run import warn

_FLOATS = {1: "<f", 2: "<d", 3: "<i", 9: "<q"}  # of a tensor's bytes, by type
_REPEATED = {1: (5, "<f"), 2: (6, "<d")}


def sources(path: Path) -> list[Path]:
    """The directories below `path` with event files, one for each run."""
    return sorted({file.parent for file in path.rglob("*tfevents*") if file.is_file()} | ({path} if path.is_file() else set()))


def import_run(folder: Path, root: Path, directory: Path) -> str:
    files = [folder] if folder.is_file() else sorted(folder.glob("*tfevents*"))
    events = [event for file in files for event in _events(file)]
    name = folder.name if folder == root else str(folder.relative_to(root)).replace("/", "-")
    run = ImportedRun(directory, name, min((double(event, 1) for event in events), default=0.0), {})
    rows: dict[tuple[int, float], dict[str, float]] = {}
    plugins: dict[str, str] = {}  # of each tag; later events need not say it
    for event in events:
        step, time = signed(event, 2), double(event, 1)
        if any(signed(fields(session), 1) == 1 for session in event.get(7, [])):  # a restart: later steps are replaced
            rows = {moment: values for moment, values in rows.items() if moment[0] < step}
            run.rewind(step - 1)
        for summary in event.get(5, []):
            for value in fields(summary).get(1, []):
                _take(run, rows, plugins, step, time, fields(value))
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
            warn(f"{file}: corrupt from byte {at} on; what follows is not imported")
            return
        at += 16 + size


def _take(run: ImportedRun, rows: dict[Any, dict[str, float]], plugins: dict[str, str], step: int, time: float,
          value: dict[int, list[Any]]) -> None:
    tag = text(value, 1)
    if 9 in value:
        plugins[tag] = text(fields(fields(value[9][-1]).get(1, [b""])[-1]), 1)
    moment = {"name": tag, "step": step, "time": time, "epoch": 0.0}
    number: float | None = None
    if 2 in value:
        number = struct.unpack("<f", value[2][-1])[0]
    elif 8 in value:
        number = _of_tensor(run, moment, plugins.get(tag, ""), fields(value[8][-1]))
    elif 5 in value:
        histogram = fields(value[5][-1])
        limits, counts = (_doubles(histogram.get(field, [])) for field in (6, 7))
        if limits and len(limits) == len(counts):
            low = min(double(histogram, 1), limits[0])
            run.media(HISTOGRAM, {**moment, "edges": [low, *limits], "counts": counts})
    elif 4 in value:
        image = fields(value[4][-1])
        _image(run, moment, image.get(4, [b""])[-1])
    if number is not None:
        row = rows.setdefault((step, time), {})
        if tag in row:  # twice at the same moment
            run.row(step, time, {tag: number})
        else:
            row[tag] = number


def _image(run: ImportedRun, moment: dict[str, Any], png: bytes) -> None:
    if png[:4] == b"\x89PNG":
        width, height = struct.unpack_from(">II", png, 16)
        run.media(IMAGE, {**moment, "width": width, "height": height, "caption": "", "png": png})


def _of_tensor(run: ImportedRun, moment: dict[str, Any], plugin: str, tensor: dict[int, list[Any]]) -> float | None:
    """The number in a tensor of one; texts, images and histograms, as TensorFlow 2 writes them, are recorded as such."""
    kind = signed(tensor, 1)
    if kind == 7:
        parts = tensor.get(8, [])
        images = parts[2:] if plugin == "images" else []  # after the width and the height
        for number, png in enumerate(images):
            _image(run, moment if len(images) == 1 else {**moment, "name": f"{moment['name']}/{number}"}, png)
        for line in parts if plugin == "text" else []:
            run.text(f"{moment['name']}: {line.decode('utf-8', 'replace')}")
        return None
    if plugin == "histograms" and kind == 2:
        buckets = _doubles(tensor.get(4) or tensor.get(6, []))  # left edge, right edge and count of each
        if buckets and len(buckets) % 3 == 0 and buckets[0] < buckets[-2]:
            run.media(HISTOGRAM, {**moment, "edges": [buckets[0], *buckets[1::3]], "counts": buckets[2::3]})
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
