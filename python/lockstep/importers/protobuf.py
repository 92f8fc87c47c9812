"""The wire format of Protocol Buffers, as far as importers need it."""

import struct
from typing import Any


class Truncated(ValueError):
    """The bytes end within a field."""

    def __init__(self) -> None:
        super().__init__("the file is cut off or corrupt")


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Truncated
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def fields(data: bytes) -> dict[int, list[Any]]:
    """{number: values}: int for a varint, bytes for everything else."""
    found: dict[int, list[Any]] = {}
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        value: Any
        if kind == 0:
            value, at = varint(data, at)
        else:
            if kind == 2:
                size, at = varint(data, at)
            elif kind in (1, 5):
                size = 8 if kind == 1 else 4
            else:
                raise Truncated
            value, at = data[at:at + size], at + size
            if at > len(data):
                raise Truncated
        found.setdefault(tag >> 3, []).append(value)
    return found


def text(message: dict[int, list[Any]], number: int) -> str:
    values = message.get(number)
    return values[-1].decode("utf-8", "replace") if values else ""


def double(message: dict[int, list[Any]], number: int) -> float:
    values = message.get(number)
    return float(struct.unpack("<d", values[-1])[0]) if values else 0.0


def signed(message: dict[int, list[Any]], number: int) -> int:
    values = message.get(number)
    value = int(values[-1]) if values else 0
    return value - (1 << 64) if value >= 1 << 63 else value
