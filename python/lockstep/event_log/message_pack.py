"""MessagePack, as far as JSON values and bytes need it."""

import struct
from typing import Any, Callable

MAX_DEPTH = 64
MAX_KEYS = 10_000


def packed(value: Any) -> bytes:
    """`value`: None, bool, int, float, str, bytes, list, tuple or a dict with str keys."""
    out: list[bytes] = []
    _pack(value, out.append)
    return b"".join(out)


def _pack(value: Any, put: Callable[[bytes], None]) -> None:
    if value is None:
        put(b"\xc0")
    elif value is True or value is False:
        put(b"\xc3" if value else b"\xc2")
    elif isinstance(value, int):
        put(_packed_int(value))
    elif isinstance(value, float):
        put(b"\xcb" + struct.pack(">d", value))
    elif isinstance(value, str):
        data = value.encode("utf-8", "replace")
        put(_head(len(data), 0xA0, 32, b"\xd9", b"\xda", b"\xdb"))
        put(data)
    elif isinstance(value, (bytes, bytearray, memoryview)):
        put(_head(len(value), 0, 0, b"\xc4", b"\xc5", b"\xc6"))
        put(bytes(value))
    elif isinstance(value, (list, tuple)):
        put(_head(len(value), 0x90, 16, b"", b"\xdc", b"\xdd"))
        for item in value:
            _pack(item, put)
    else:
        put(_head(len(value), 0x80, 16, b"", b"\xde", b"\xdf"))
        for key, item in value.items():
            _pack(key, put)
            _pack(item, put)


def _packed_int(value: int) -> bytes:
    if 0 <= value < 128 or -32 <= value < 0:
        return struct.pack("b" if value < 0 else "B", value)
    if -(1 << 63) <= value < 1 << 63:
        return b"\xd3" + struct.pack(">q", value)
    if 0 <= value < 1 << 64:
        return b"\xcf" + struct.pack(">Q", value)
    return b"\xcb" + struct.pack(">d", float(value))


def _head(size: int, fixed: int, limit: int, one: bytes, two: bytes, four: bytes) -> bytes:
    if size < limit:
        return bytes([fixed | size])
    if one and size < 1 << 8:
        return one + bytes([size])
    if size < 1 << 16:
        return two + struct.pack(">H", size)
    return four + struct.pack(">I", size)


class Unreadable(ValueError):
    """Bytes that are not MessagePack."""


def unpacked(data: bytes) -> Any:
    """Raises Unreadable."""
    try:
        value, end = _unpack(data, 0, 0)
    except (IndexError, struct.error, UnicodeDecodeError, TypeError) as error:
        raise Unreadable(str(error)) from None
    if end != len(data):
        raise Unreadable("bytes after the value")
    return value


_NUMBERS = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
_NUMBERS_OF = {kind: struct.Struct(form) for kind, form in _NUMBERS.items()}
_DOUBLE = _NUMBERS_OF[0xCB].unpack_from
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_SIZES = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}


def _unpack(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    kind = data[at]
    at += 1
    if 0xA0 <= kind < 0xC0:
        end = at + (kind & 31)
        if end > len(data):
            raise Unreadable("truncated")
        return data[at:end].decode("utf-8", "replace"), end
    if kind < 0x80:
        return kind, at
    if kind >= 0xE0:
        return kind - 256, at
    if kind in _NUMBERS_OF:
        number = _NUMBERS_OF[kind]
        return number.unpack_from(data, at)[0], at + number.size
    if kind in _CONSTANTS:
        return _CONSTANTS[kind], at
    if kind < 0x90:
        return _unpack_map(data, at, kind & 15, depth)
    if kind < 0xA0:
        return _unpack_list(data, at, kind & 15, depth)
    if kind not in _SIZES:
        raise Unreadable(f"type {kind:#x}")
    width = _SIZES[kind]
    size = int.from_bytes(data[at:at + width], "big")
    at += width
    if kind <= 0xC6:
        return _bytes(data, at, size)
    if kind <= 0xDB:
        return _text(data, at, size)
    return (_unpack_list if kind <= 0xDD else _unpack_map)(data, at, size, depth)


def _bytes(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if at + size > len(data):
        raise Unreadable("truncated")
    return data[at:at + size], at + size


def _text(data: bytes, at: int, size: int) -> tuple[str, int]:
    if at + size > len(data):
        raise Unreadable("truncated")
    return data[at:at + size].decode("utf-8", "replace"), at + size


def _unpack_list(data: bytes, at: int, size: int, depth: int) -> tuple[list[Any], int]:
    if depth >= MAX_DEPTH or size > len(data) - at:
        raise Unreadable("too deep or truncated")
    items = []
    for _ in range(size):
        item, at = _unpack(data, at, depth + 1)
        items.append(item)
    return items, at


def _unpack_map(data: bytes, at: int, size: int, depth: int) -> tuple[dict[str, Any], int]:
    if depth >= MAX_DEPTH or size > MAX_KEYS:
        raise Unreadable("too deep or too many keys")
    members = {}
    for _ in range(size):
        kind = data[at]
        if 0xA0 <= kind < 0xC0:  # a short text, as most keys
            begin, at = at + 1, at + 1 + (kind & 31)
            key = data[begin:at].decode("utf-8", "replace")
        else:
            key, at = _unpack(data, at, depth + 1)
        kind = data[at]
        if kind == 0xCB:
            members[key], at = _DOUBLE(data, at + 1)[0], at + 9
        elif kind < 0x80:
            members[key], at = kind, at + 1
        else:
            members[key], at = _unpack(data, at, depth + 1)
    return members, at
