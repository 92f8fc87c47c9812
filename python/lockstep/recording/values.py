"""Images, histograms and tables, and the conversion of any Python value to what an event log holds."""

import math
import struct
import zlib
from pathlib import Path
from typing import Any, Iterable, Sequence

from lockstep.event_log.message_pack import MAX_DEPTH, MAX_KEYS
from lockstep.recording.clips import Clip

MAX_TEXT = 1 << 20
DEFAULT_BINS = 64


def plain(value: Any, depth: int = 0) -> Any:
    """`value` as None, bool, int of 64 bits, float, str, list or dict. Never raises: what is none of them is its text."""
    if value is None or isinstance(value, (float, str)):
        return value
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 64:
        return value
    if isinstance(value, type):
        return value.__qualname__
    try:
        return _plain_members(value, depth) if depth < MAX_DEPTH - 4 else str(value)[:MAX_TEXT]
    except Exception:
        return _text_of(value)


def _text_of(value: Any) -> str:
    try:
        return str(value)[:MAX_TEXT]
    except Exception:  # also of an int with more than 4300 digits
        return f"({type(value).__name__})"


def _plain_members(value: Any, depth: int) -> Any:
    if isinstance(value, dict):
        return {str(key): plain(item, depth + 1) for key, item in list(value.items())[:MAX_KEYS]}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, depth + 1) for item in value]
    if hasattr(value, "tolist"):  # numpy, torch
        return plain(value.tolist(), depth + 1)
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name), depth + 1) for name in value.__dataclass_fields__}
    if isinstance(getattr(value, "__dict__", None), dict) and type(value).__name__ == "Namespace":
        return plain(vars(value), depth)
    if hasattr(value, "items"):  # other mappings
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    return str(value)


def number_of(value: Any) -> float | None:
    """A number, or an array of one number; None for anything else."""
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if isinstance(value, (str, bytes, list, tuple, dict)) or value is None:
        return None
    if getattr(value, "ndim", 0) != 0 and getattr(value, "size", None) != 1 and getattr(value, "numel", lambda: 0)() != 1:
        return None
    try:
        return float(value.item() if hasattr(value, "item") else value)
    except Exception:  # of the user's type
        return None


def numbers_in(values: Any) -> list[float]:
    """All numbers of an array or a nested sequence. Raises ValueError."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().float().numpy() if hasattr(values, "numpy") else values
    if hasattr(values, "ravel"):
        values = values.ravel()
    if hasattr(values, "tolist"):
        values = values.tolist()
    found: list[float] = []
    stack = [values]
    while stack:
        item = stack.pop()
        if isinstance(item, (list, tuple)):
            stack.extend(reversed(item))
            continue
        number = number_of(item)
        if number is None:
            raise ValueError(f"a histogram of {type(item).__name__}: expected numbers")
        found.append(number)
    return found


class Histogram:
    """The distribution of `sequence` (numbers, an array or a tensor), or (counts, edges) as numpy.histogram returns them."""

    def __init__(self, sequence: Any = None, np_histogram: Any = None, num_bins: int = DEFAULT_BINS) -> None:
        if np_histogram is not None:
            counts, edges = np_histogram
            self.counts, self.edges = numbers_in(counts), numbers_in(edges)
            if len(self.edges) != len(self.counts) + 1:
                raise ValueError(f"{len(self.counts)} counts need {len(self.counts) + 1} edges, not {len(self.edges)}")
        else:
            self.counts, self.edges = _binned(numbers_in(sequence), num_bins)


def _binned(values: Sequence[float], num_bins: int) -> tuple[list[float], list[float]]:
    values = [value for value in values if math.isfinite(value)]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if low == high:
        margin = max(0.5, abs(low) * 1e-6)
        low, high = low - margin, high + margin
    counts = [0.0] * num_bins
    for value in values:
        counts[min(int((value - low) / (high - low) * num_bins), num_bins - 1)] += 1
    return counts, edges_between(low, high, num_bins)


def edges_between(low: float, high: float, num_bins: int) -> list[float]:
    return [low + (high - low) * i / num_bins for i in range(num_bins)] + [high]


class Image:
    """`data`: a path of an image, a PIL image, an array of height x width [x 1, 3 or 4], or a tensor of channels x height x width.

    Integers are 0 to 255; floats 0 to 1, or -1 to 1 if there are negative ones.
    """

    def __init__(self, data: Any, caption: str | None = None, mode: str | None = None, **_ignored: Any) -> None:
        self.caption = "" if caption is None else str(caption)
        if isinstance(data, Image):
            self.png, self.width, self.height = data.png, data.width, data.height
        elif isinstance(data, (str, Path)):
            self._read(Path(data))
        elif hasattr(data, "save") and hasattr(data, "size") and hasattr(data, "mode"):
            self._convert(data)
        else:
            self._encode(data)

    def _read(self, path: Path) -> None:
        content = path.read_bytes()
        if content[:8] == b"\x89PNG\r\n\x1a\n":
            self.png = content
            self.width, self.height = struct.unpack_from(">II", content, 16)
            return
        try:
            from PIL import Image as pillow
        except ImportError:
            raise ValueError(f"{path}: not a PNG file; other formats need Pillow") from None
        self._convert(pillow.open(path))

    def _convert(self, image: Any) -> None:
        import io

        file = io.BytesIO()
        (image if image.mode in ("L", "LA", "RGB", "RGBA") else image.convert("RGB")).save(file, "PNG")
        self.png = file.getvalue()
        self.width, self.height = image.size

    def _encode(self, data: Any) -> None:
        if hasattr(data, "detach"):  # a tensor: channels first
            data = data.detach().cpu()
            data = data.float() if data.is_floating_point() else data
            data = (data.permute(1, 2, 0) if data.ndim == 3 and data.shape[0] in (1, 3, 4) else data).numpy()
        if str(getattr(data, "dtype", "")) == "uint8" and data.ndim in (2, 3) and data.shape[2:] in ((), (1,), (3,), (4,)) and data.size:
            self.height, self.width = data.shape[:2]
            channels = data.shape[2] if data.ndim == 3 else 1
            raw = b"".join(b"\0" + row.tobytes() for row in data)
            self.png = _png(self.width, self.height, channels, raw)
            return
        rows = _pixel_rows(data)
        self.height, self.width = len(rows), len(rows[0])
        channels = len(rows[0][0])
        raw = b"".join(b"\0" + bytes(byte for pixel in row for byte in pixel) for row in rows)
        self.png = _png(self.width, self.height, channels, raw)


def _pixel_rows(data: Any) -> list[list[list[int]]]:
    if hasattr(data, "tolist"):
        data = data.tolist()
    try:
        rows = [[list(pixel) if isinstance(pixel, (list, tuple)) else [pixel] for pixel in row] for row in data]
        channels = len(rows[0][0])
    except (TypeError, IndexError):
        raise ValueError("an image: expected height x width [x 1, 3 or 4] numbers") from None
    if channels not in (1, 3, 4) or any(len(row) != len(rows[0]) or any(len(pixel) != channels for pixel in row) for row in rows):
        raise ValueError("an image: expected height x width [x 1, 3 or 4] numbers")
    flat = [number for row in rows for pixel in row for number in pixel]
    if all(isinstance(number, int) for number in flat):
        scale, shift = 1.0, 0.0
    else:
        finite = [number for number in flat if math.isfinite(number)] or [0.0]
        low, high = min(finite), max(finite)
        scale, shift = (127.5, 127.5) if -1 <= low < 0 and high <= 1 else (255.0, 0.0) if low >= 0 and high <= 1 else (1.0, 0.0)
    return [[[round(min(255.0, max(0.0, number * scale + shift))) if number == number else 0 for number in pixel] for pixel in row] for row in rows]


def _png(width: int, height: int, channels: int, raw: bytes) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw, 6)) + chunk(b"IEND", b"")


class Table:
    """Rows of values. `dataframe`: a pandas DataFrame instead of columns and data."""

    def __init__(self, columns: Iterable[Any] | None = None, data: Any = None, rows: Any = None, dataframe: Any = None, **_ignored: Any) -> None:
        if dataframe is None and hasattr(data, "columns") and hasattr(data, "values"):
            dataframe = data
        if dataframe is not None:
            columns, data = list(dataframe.columns), dataframe.values.tolist()
        data = data if data is not None else rows if rows is not None else []
        data = data.tolist() if hasattr(data, "tolist") else data
        width = len(data[0]) if data else 3
        self.columns = [str(column) for column in columns] if columns is not None else [f"column {i + 1}" for i in range(width)]
        self.data: list[list[Any]] = []
        self.has_media = False
        for row in data:
            self.add_data(*row)

    def add_data(self, *row: Any) -> None:
        if len(row) != len(self.columns):
            raise ValueError(f"a row of {len(row)} values for {len(self.columns)} columns")
        media = [isinstance(value, (Image, Histogram, Table, Clip)) for value in row]
        self.has_media = self.has_media or any(media)
        self.data.append([_caption_of(value) if is_media else plain(value) for value, is_media in zip(row, media)])


def _caption_of(media: Any) -> str:
    return getattr(media, "caption", "") or f"({type(media).__name__.lower()})"
