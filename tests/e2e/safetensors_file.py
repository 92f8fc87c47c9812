"""Reads a safetensors file without any library: what the bytes say, nothing else."""

import json
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
