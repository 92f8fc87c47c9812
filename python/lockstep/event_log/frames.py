"""The bytes of an event log: header, frames and checksums."""

import struct
import zlib
from pathlib import Path
from typing import Iterator, NamedTuple

MAGIC = b"LSEVENTS"
HEADER_BYTES = 16
NEWEST_VERSION = 2  # frames with the checksum of zlib
HEADER = MAGIC + struct.pack("<II", NEWEST_VERSION, 0)
MAX_FRAME_LENGTH = 16 << 20
UNFINISHED = 1 << 31
ZLIB_CHECKSUM = 1 << 30  # in the length: the checksum is CRC-32, which Python computes fast

IDENTITY, CONFIG, KEY, SCALARS, TEXT, REWIND, SUMMARY, END = range(1, 9)
HISTOGRAM, IMAGE, TABLE, ALERT, ARTIFACT, CONSOLE, HEARTBEAT, CONTINUED, CLIP = range(9, 18)

HEAD = struct.Struct("<II")


class NotALog(ValueError):
    """The file is not an event log, or a later version wrote it. The message is one line."""


def _crc32c_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE: list[int] = []


def crc32c(data: bytes) -> int:
    """Slow: about 10 MB/s. Only for frames that other programs wrote."""
    table = _TABLE or _TABLE.extend(_crc32c_table()) or _TABLE
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def frame(kind: int, payload: bytes) -> bytes:
    body = bytes((kind,)) + payload
    return HEAD.pack(len(body) | ZLIB_CHECKSUM, zlib.crc32(body)) + body


def is_intact(body: bytes, stored_length: int, checksum: int) -> bool:
    return (zlib.crc32(body) if stored_length & ZLIB_CHECKSUM else crc32c(body)) == checksum


def verify_header(data: bytes, path: Path | str) -> None:
    """Raises NotALog. An empty header, of a log that is being created, is valid."""
    if not data[:HEADER_BYTES].strip(b"\0"):
        return
    if len(data) < HEADER_BYTES or data[:8] != MAGIC:
        raise NotALog(f"{path}: not an event log")
    version = HEAD.unpack_from(data, 8)[0]
    if not 1 <= version <= NEWEST_VERSION:
        raise NotALog(f"{path}: written by a later version of Lockstep (event log format {version}; this one reads {NEWEST_VERSION})")


class Frame(NamedTuple):
    kind: int
    payload: bytes
    end: int  # offset of the next frame


def frames(data: bytes, at: int = HEADER_BYTES, verify: bool = True) -> Iterator[Frame]:
    """Up to the first incomplete or, with `verify`, corrupt one."""
    size = len(data)
    while at + 9 <= size:
        stored, checksum = HEAD.unpack_from(data, at)
        length = stored & ~ZLIB_CHECKSUM
        end = at + 8 + length
        if length == 0 or length > MAX_FRAME_LENGTH or end > size:
            return
        body = data[at + 8:end]
        if verify and not is_intact(body, stored, checksum):
            return
        yield Frame(body[0], body[1:], end)
        at = end


def segment_path(log: Path, number: int) -> Path:
    return log if number == 0 else log.with_name(f"{log.stem}.{number}{log.suffix}")


def begun_at(data: bytes, number: int) -> int:
    """Where the records of segment `number` begin; 0 if it has not begun."""
    if number == 0:
        return HEADER_BYTES
    first = next(frames(data[:64]), None) if data[:8] == MAGIC else None
    if first is None or first.kind != CONTINUED or len(first.payload) != 12:
        return 0
    found, end = struct.unpack("<IQ", first.payload)
    return end if found == number and end <= len(data) else 0
