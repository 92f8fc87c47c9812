"""Reads a safetensors file without any library."""

import json
import struct
from pathlib import Path


def read_raw(path):
    """{name: (dtype, shape, bytes)} in the order of the data."""
    content = Path(path).read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    data = content[8 + length :]
    in_order = sorted(header.items(), key=lambda item: item[1]["data_offsets"])
    tensors = {}
    for name, entry in in_order:
        begin, end = entry["data_offsets"]
        tensors[name] = (entry["dtype"], entry["shape"], data[begin:end])
    return tensors


def floats(path):
    """{name: numbers} of a file of float32 tensors."""
    raw = {name: (dtype, data) for name, (dtype, _, data) in read_raw(path).items()}
    assert {dtype for dtype, _ in raw.values()} == {"F32"}
    return {name: struct.unpack(f"<{len(data) // 4}f", data) for name, (_, data) in raw.items()}


def checkpoints(run_dir):
    """The steps that have a checkpoint, ascending."""
    return sorted(int(p.name) for p in (run_dir / "checkpoints").iterdir() if p.name.isdigit())


def last_weights(run_dir):
    return run_dir / "checkpoints" / str(checkpoints(run_dir)[-1]) / "model.safetensors"


def assert_same_bits(ours, theirs):
    """Names, types, shapes and bytes of two files are equal."""
    ours, theirs = read_raw(ours), read_raw(theirs)
    assert set(ours) == set(theirs)
    for name, (dtype, shape, raw) in ours.items():
        assert (dtype, shape) == theirs[name][:2], name
        assert raw == theirs[name][2], f"the bytes of {name} differ"


def _crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def assert_usable(run_dir):
    """Every checkpoint is whole: its manifest has the checksum of each tensor of its files."""
    steps = checkpoints(run_dir)
    assert steps, f"{run_dir} has no checkpoint"
    for step in steps:
        directory = run_dir / "checkpoints" / str(step)
        content = json.loads((directory / "manifest.json").read_text())["content"]
        for file, checksums in content["tensors"].items():
            found = {name: crc32c(raw) for name, (_, _, raw) in read_raw(directory / file).items()}
            assert found == checksums, directory / file
