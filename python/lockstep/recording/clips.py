"""Sounds, videos and HTML pages: arrays become WAV files, files are recorded as they are."""

import io
import numbers
import os
import struct
from pathlib import Path
from typing import Any

MAX_BYTES = 15 << 20  # a record has at most 16 MiB


class Clip:
    """The bytes of a file, and its MIME type. `problem`: why it cannot be recorded, or ""."""

    what, kinds = "", ""  # of the subclass, for messages

    def __init__(self, data: Any, caption: str | None) -> None:
        self.caption = "" if caption is None else str(caption)
        self.type, self.bytes, self.problem = "", b"", ""
        if isinstance(data, Clip):
            self.type, self.bytes, self.problem = data.type, data.bytes, data.problem
        elif isinstance(data, (bytes, bytearray)):
            self._use(bytes(data), "the data")
        elif isinstance(data, (str, Path)):
            path = Path(data)
            size = path.stat().st_size
            with open(path, "rb") as file:
                self._use(file.read(MAX_BYTES + 1), str(path), size)

    def _use(self, content: bytes, name: str, size: int = 0) -> None:
        self.type = self._type_of(content)
        if not self.type:
            raise ValueError(f"{self.what}: {name} is not a file of these kinds: {self.kinds}")
        self.bytes = content
        self._verify_size(name, max(size, len(content)))

    def _verify_size(self, name: str, size: int) -> None:
        if size > MAX_BYTES:
            self.bytes = b""
            self.problem = f"{name} has {size / (1 << 20):.1f} MiB, more than {MAX_BYTES >> 20} MiB"

    @staticmethod
    def _type_of(content: bytes) -> str:
        """By its first bytes; "" if it is of no known kind."""
        raise NotImplementedError


class Audio(Clip):
    """`data`: a path or the bytes of a WAV, FLAC, Ogg, MP3 or M4A file, an array of samples [x channels], or a tensor of [channels x] samples.

    Floats are -1 to 1. Arrays of int8, int16, int32, uint8 and uint16 have the range of their type, other integers that of int16.
    `sample_rate`: samples per second, of an array.
    """

    what, kinds = "a sound", "WAV, FLAC, Ogg, MP3, M4A"

    def __init__(self, data: Any = None, sample_rate: float | None = None, caption: str | None = None, *, data_or_path: Any = None,
                 **_ignored: Any) -> None:
        data = data_or_path if data is None else data
        super().__init__(data, caption)
        if not self.type:
            if not isinstance(sample_rate, numbers.Real) or sample_rate != sample_rate // 1 or not 1 <= sample_rate <= 1 << 20:
                raise ValueError(f"a sound: sample_rate={sample_rate!r}: expected the samples per second of the array")
            self.type = "audio/wav"
            self._verify_size("the sound", 2 * _count(data))  # before it is copied
            if not self.problem:
                samples, channels = _samples_of(data)
                self.bytes = _wav(samples, channels, int(sample_rate))
                self._verify_size("the sound", len(self.bytes))

    @staticmethod
    def _type_of(content: bytes) -> str:
        if content[:4] == b"RIFF" and content[8:12] == b"WAVE":
            return "audio/wav"
        if content[4:8] == b"ftyp":
            return "audio/mp4"
        if content[:3] == b"ID3" or (len(content) > 1 and content[0] == 0xFF and content[1] & 0xE0 == 0xE0):
            return "audio/mpeg"
        return {b"fLaC": "audio/flac", b"OggS": "audio/ogg"}.get(content[:4], "")


class Video(Clip):
    """`data`: a path or the bytes of an MP4 or WebM file. Browsers play H.264, VP8, VP9 and AV1."""

    what, kinds = "a video", "MP4, WebM"

    def __init__(self, data: Any = None, caption: str | None = None, *, data_or_path: Any = None, **_ignored: Any) -> None:
        data = data_or_path if data is None else data
        super().__init__(data, caption)
        if hasattr(data, "dtype"):
            self.problem = "arrays are not recorded as videos: give the path or the bytes of an MP4 or WebM file"
        elif not self.type:
            raise ValueError("a video: expected the path or the bytes of an MP4 or WebM file")

    @staticmethod
    def _type_of(content: bytes) -> str:
        if content[4:8] == b"ftyp":
            return "video/mp4"
        return "video/webm" if content[:4] == b"\x1a\x45\xdf\xa3" and b"webm" in content[:64] else ""


class Html(Clip):
    """`data`: HTML, the path of a file of HTML, or an open file. Text that is the path of a file is that file, unless `data_is_not_path`.

    The dashboard shows it in a sandbox: scripts in the page run, but nothing can be loaded from elsewhere.
    """

    what, kinds = "a page", "HTML in UTF-8"

    def __init__(self, data: Any = None, inject: bool = True, data_is_not_path: bool = False, caption: str | None = None, **_ignored: Any) -> None:
        if isinstance(data, str) and (data_is_not_path or not _is_file(data)):
            data = data.encode("utf-8", "replace")
        elif hasattr(data, "read"):
            if hasattr(data, "seek"):
                data.seek(0)
            data = data.read()
            data = data.encode("utf-8", "replace") if isinstance(data, str) else data
        super().__init__(data, caption)
        if not self.type:
            raise ValueError("a page: expected HTML, the path of a file, or an open file")

    @staticmethod
    def _type_of(content: bytes) -> str:
        try:
            content[:MAX_BYTES].decode("utf-8")
        except UnicodeDecodeError as error:
            # Of a file that is too large, the last character may be cut off.
            return "text/html" if len(content) > MAX_BYTES and error.start > MAX_BYTES - 4 else ""
        return "text/html"


def _is_file(text: str) -> bool:
    try:
        return os.path.isfile(text)
    except ValueError:  # a zero byte
        return False


def _count(data: Any) -> int:
    """The number of samples."""
    shape = getattr(data, "shape", None)
    if shape is None:
        first = data[0] if isinstance(data, (list, tuple)) and data else None
        return (len(data) if isinstance(data, (list, tuple)) else 0) * (len(first) if isinstance(first, (list, tuple)) else 1)
    count = 1
    for size in shape:
        count *= int(size)
    return count


def _samples_of(data: Any) -> tuple[bytes, int]:
    """16-bit samples, interleaved by channel, and the number of channels."""
    is_tensor = type(data).__module__.partition(".")[0] == "torch"
    if is_tensor:
        data = data.detach().float().cpu() if data.is_floating_point() else data.detach().cpu()
        data = data.numpy()
    if not hasattr(data, "dtype"):
        return _samples_of_lists(data)
    if data.ndim == 2 and is_tensor:
        data = data.T
    if data.ndim not in (1, 2) or data.size == 0 or data.dtype.kind not in "fiu" or (data.ndim == 2 and not 1 <= data.shape[1] <= 64):
        raise ValueError("a sound: expected samples [x channels] of numbers")
    kind, bits = data.dtype.kind, 8 * data.dtype.itemsize
    if kind == "f":
        data = data.astype("f8")
        data[data != data] = 0
        data = (data.clip(-1, 1) * 32767).round()
    else:
        data = data.astype("i8")
        if kind == "u" and bits <= 16:
            data -= 1 << bits - 1
        if bits < 64:
            data = data >> bits - 16 if bits > 16 else data << 16 - bits
    return data.clip(-32768, 32767).astype("<i2").tobytes(), 1 if data.ndim == 1 else data.shape[1]


def _samples_of_lists(data: Any) -> tuple[bytes, int]:
    try:
        rows = [list(row) if isinstance(row, (list, tuple)) else [row] for row in data]
        channels = len(rows[0])
        flat = [value for row in rows for value in row]
        if len(flat) != channels * len(rows) or not 1 <= channels <= 64:
            raise TypeError
        if all(isinstance(value, numbers.Integral) for value in flat):
            flat = [int(value) for value in flat]
        else:
            flat = [round(32767 * min(1.0, max(-1.0, value))) if value == value else 0 for value in flat]
        return struct.pack(f"<{len(flat)}h", *(min(32767, max(-32768, value)) for value in flat)), channels
    except (TypeError, IndexError, struct.error):
        raise ValueError("a sound: expected samples [x channels] of numbers") from None


def _wav(samples: bytes, channels: int, sample_rate: int) -> bytes:
    import wave

    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(samples)
    return out.getvalue()
