"""Reads event logs, finished or still growing.

The checksums of frames that the Python client wrote are verified, except within long series of rows; those of other writers are not, since
Python computes CRC-32C slowly (`lockstep verify` and all other commands do).
"""

import fcntl
import functools
import os
import struct
import sys
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from lockstep.event_log import frames, message_pack
from lockstep.event_log.frames import (ALERT, CLIP, CONFIG, END, HEAD, HEADER_BYTES, HISTOGRAM, IDENTITY, IMAGE, KEY, MAX_FRAME_LENGTH, REWIND, SCALARS,
                                       SUMMARY, TABLE, TEXT, ZLIB_CHECKSUM)

_LONG_LOG = 64 << 10  # from here on, numpy reads series of rows where it is installed
_NONE: Any = ()  # ten thousand logs without rows need no lists
_FRAME_HEAD = struct.Struct("<IIB")  # length, checksum and kind


class Rows(NamedTuple):
    """Consecutive rows with the same metrics. Lists, or arrays of numpy for long logs."""

    names: list[str]
    steps: Any
    times: Any
    epochs: Any
    columns: list[Any]  # of values, per name


class Log:
    """The content of an event log. `problem`: why it cannot be read, or "".

    `with_rows` False: without rows, texts and media, but with the last value of each metric.
    """

    __slots__ = ("path", "with_rows", "_first_identity", "_identity", "_config", "_last", "rows", "summary", "end", "texts", "media", "problem")

    def __init__(self, path: str, with_rows: bool = True) -> None:
        self.path = path
        self.with_rows = with_rows
        self._first_identity = self._identity = self._config = b""
        self._last: dict[str, float] = {}
        self.rows: list[Rows] = [] if with_rows else _NONE
        self.summary: dict[str, Any] = {}
        self.end: dict[str, Any] | None = None
        self.texts: list[tuple[float, int, str]] = [] if with_rows else _NONE
        self.media: list[tuple[int, dict[str, Any]]] = [] if with_rows else _NONE  # histograms, images, tables, clips and alerts
        self.problem = ""

    @property
    def identity(self) -> dict[str, Any]:
        """Of the last process that wrote the log, with the time of the first. Empty if it cannot be read."""
        if not self._identity:
            return {}
        return {**self._map(self._identity), "created": self._map(self._first_identity).get("created")}

    @property
    def config(self) -> dict[str, Any]:
        """Empty if it cannot be read."""
        return self._map(self._config) if self._config else {}

    def last_values(self) -> dict[str, float]:
        last = dict(self._last)
        for rows in self.rows:
            last.update(zip(rows.names, (float(column[-1]) for column in rows.columns)))
        return last

    def _map(self, payload: bytes) -> dict[str, Any]:
        try:
            value = message_pack.unpacked(payload)
        except message_pack.Unreadable as error:
            value = error
        if isinstance(value, dict):
            return value
        self.problem = self.problem or f"{self.path}: expected a map, not {value!r:.80}"
        return {}


class _RowsNeeded(Exception):
    """A rewind: the last values are then those of earlier rows."""


def read_log(path: str, with_rows: bool = True, has_segments: bool = True) -> Log:
    """`with_rows` False: only the last value of each metric. `has_segments` False: there is only this file."""
    log = Log(path, with_rows)
    keys: list[str] = []
    try:
        for number, data in _segments(path) if has_segments else ((0, content(path)),):
            frames.verify_header(data, path)
            keys = max(keys, _read_segment(log, data, [] if number else keys, number > 0), key=len)
    except _RowsNeeded:
        return read_log(path, True, has_segments)
    except (frames.NotALog, OSError) as error:
        log.problem = str(error)
    return log


def has_writer(path: str) -> bool:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(file)


def _segments(path: str) -> Iterator[tuple[int, bytes]]:
    yield 0, content(path)
    number = 1
    while True:
        try:
            data = content(str(frames.segment_path(Path(path), number)))
        except FileNotFoundError:
            return
        if frames.begun_at(data, number):
            yield number, data
        number += 1


def content(path: str) -> bytes:
    """Of a file. Raises OSError."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(file).st_size
        data = os.read(file, size)
        while len(data) < size and (more := os.read(file, size - len(data))):
            data += more
        return data
    finally:
        os.close(file)


def _numpy(size: int) -> Any:
    if size < _LONG_LOG and "numpy" not in sys.modules or size < 4096:
        return None
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def _read_segment(log: Log, data: bytes, keys: list[str], is_continued: bool) -> list[str]:
    """Returns `keys`, the names of the metrics, with those of the segment."""
    at, size = HEADER_BYTES, len(data)
    copies_end = frames.begun_at(data, _segment_number(data)) if is_continued else 0
    numpy = _numpy(size)
    while at + 9 <= size:
        stored, checksum, kind = _FRAME_HEAD.unpack_from(data, at)
        length = stored & ~ZLIB_CHECKSUM
        end = at + 8 + length
        if length == 0 or length > MAX_FRAME_LENGTH or end > size:
            break
        if kind == SCALARS:
            try:
                at = _read_rows(log, data, at, length + 8, keys, numpy)
            except (IndexError, struct.error):
                break
            continue
        body = data[at + 8:end]
        if stored & ZLIB_CHECKSUM and not frames.is_intact(body, stored, checksum):
            break
        try:
            if kind == KEY:
                keys.append(body[5:].decode("utf-8", "replace"))
            elif end > copies_end or kind in (IDENTITY, CONFIG):
                _take(log, kind, body[1:], end <= copies_end)
        except (message_pack.Unreadable, struct.error, TypeError):
            break
        at = end
    return keys


def _segment_number(data: bytes) -> int:
    first = next(frames.frames(data[:64]))
    return int(struct.unpack_from("<I", first.payload)[0])


def _take(log: Log, kind: int, payload: bytes, is_copy: bool) -> None:
    if kind == IDENTITY:
        log._identity = payload
        log._first_identity = log._first_identity or payload
        log.end = log.end if is_copy else None
    elif kind == CONFIG:
        log._config = payload
    elif kind == SUMMARY:
        log.summary.update(log._map(payload))
    elif kind == END:
        log.end = log._map(payload)
    elif kind == REWIND:
        if not log.with_rows:
            raise _RowsNeeded
        _rewind(log, struct.unpack("<q", payload)[0])
    elif not log.with_rows:
        return
    elif kind == TEXT:
        time, level = struct.unpack_from("<dB", payload)
        log.texts.append((time, level, payload[9:].decode("utf-8", "replace")))
    elif kind in (HISTOGRAM, IMAGE, TABLE, CLIP, ALERT):
        if media := log._map(payload):
            log.media.append((kind, media))


def _rewind(log: Log, step: int) -> None:
    kept = []
    for rows in log.rows:
        if max(rows.steps) > step:
            chosen = [i for i, one in enumerate(rows.steps) if one <= step]
            if not chosen:
                continue
            pick = (lambda part: part[chosen]) if hasattr(rows.steps, "dtype") else (lambda part: [part[i] for i in chosen])
            rows = Rows(rows.names, pick(rows.steps), pick(rows.times), pick(rows.epochs), [pick(column) for column in rows.columns])
        kept.append(rows)
    log.rows = kept
    log.media = [(kind, media) for kind, media in log.media if kind == ALERT or media.get("step", 0) <= step]


class _RowFormat:
    """How rows with `num_values` values are unpacked."""

    __slots__ = ("ids", "alike", "values", "row")

    def __init__(self, num_values: int) -> None:
        self.ids = struct.Struct("<33x" + "I8x" * num_values).unpack_from
        self.alike = struct.Struct("<I4xB24x" + "I8x" * num_values).unpack_from  # what rows of a series have in common
        self.values = struct.Struct("<33x" + "4xd" * num_values).unpack_from
        self.row = struct.Struct("<9xqdd" + "4xd" * num_values)


_row_format = functools.lru_cache(1024)(_RowFormat)


def _read_rows(log: Log, data: bytes, at: int, stride: int, keys: list[str], numpy: Any) -> int:
    """Reads rows of the same metrics from `at`; returns the offset after them."""
    num_values = (stride - 33) // 12
    if num_values * 12 + 33 != stride:
        raise struct.error("a row")
    form = _row_format(num_values)
    ids = form.ids(data, at)
    names = [keys[key] for key in ids]
    count = _num_alike(data, at, stride, form, ids, numpy)
    end = at + count * stride
    if not log.with_rows:
        log._last.update(zip(names, form.values(data, end - stride)))
    elif numpy is not None and count > 8:
        part = lambda kind, offset: numpy.ndarray((count,), kind, data, at + offset, (stride,))  # noqa: E731
        log.rows.append(Rows(names, part("<i8", 9), part("<f8", 17), part("<f8", 25), [part("<f8", 37 + 12 * i) for i in range(num_values)]))
    else:
        steps, times, epochs, *columns = map(list, zip(*form.row.iter_unpack(memoryview(data)[at:end])))
        log.rows.append(Rows(names, steps, times, epochs, columns))
    return end


def _num_alike(data: bytes, at: int, stride: int, form: _RowFormat, ids: tuple[int, ...], numpy: Any) -> int:
    """How many rows from `at` have the length, the kind and the metrics of the first."""
    limit = (len(data) - at) // stride
    alike_to = limit if numpy is None or limit < 128 else 8
    read = form.alike
    first = read(data, at)
    count, begin = 1, at + stride
    while count < alike_to and read(data, begin) == first:
        count, begin = count + 1, begin + stride
    piece = 64
    while alike_to <= count < limit:
        more = min(piece, limit - count)
        begin = at + count * stride
        alike = numpy.ndarray((more,), "<u4", data, begin, (stride,)) == first[0]
        alike &= numpy.ndarray((more,), "u1", data, begin + 8, (stride,)) == SCALARS
        for i, key in enumerate(ids):
            alike &= numpy.ndarray((more,), "<u4", data, begin + 33 + 12 * i, (stride,)) == key
        if not alike.all():
            return count + int(alike.argmin())
        count += more
        piece *= 8
    return count
