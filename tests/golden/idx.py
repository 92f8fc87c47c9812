"""Reads MNIST's IDX files the way Python users do."""

import gzip
from pathlib import Path

import numpy as np
import torch


def read_idx(path):
    """The elements of a plain or .gz IDX file of unsigned bytes, as a numpy array."""
    raw = Path(path).read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    if raw[:3] != b"\0\0\x08":
        raise ValueError(f"{path}: not an IDX file of unsigned bytes")
    num_dims = raw[3]
    dims = np.frombuffer(raw, ">u4", num_dims, offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * num_dims).reshape(dims.astype(int))


def write_idx(path, array):
    """`array` (uint8) as a plain IDX file."""
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    Path(path).write_bytes(header + array.astype(np.uint8).tobytes())


def load_split(directory, split, limit=None, mean=None, std=None):
    """(images float32 [N, 1, H, W], labels int64 [N]) as dataset "idx" gives them."""
    prefix = Path(directory) / {"train": "train", "test": "t10k"}[split]
    images = read_idx(f"{prefix}-images-idx3-ubyte")[:limit]
    labels = read_idx(f"{prefix}-labels-idx1-ubyte")[:limit]
    images = torch.tensor(images).unsqueeze(1).float() / 255
    if mean is not None:
        images = (images - mean) / std
    return images, torch.tensor(labels).long()
