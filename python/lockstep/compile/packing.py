"""Writes the package file: an uncompressed zip archive. docs/compiled.md describes the format."""

import contextlib
import fcntl
import glob
import json
import os
import secrets
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO, Iterator

import torch
from safetensors.torch import save

from lockstep.compile import PACKAGE_FORMAT


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def describe(name: str, tensor: torch.Tensor, **more: object) -> dict[str, object]:
    return {"name": name, "dtype": dtype_name(tensor.dtype), "shape": list(tensor.shape), **more}


def write_package(path: Path, manifest: dict[str, object], members: dict[str, bytes]) -> None:
    manifest["members"] = {name: {"bytes": len(content), "crc32": zlib.crc32(content)} for name, content in members.items()}
    with new_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("manifest.json", json.dumps({"format": PACKAGE_FORMAT, **manifest}, indent=1))
        for name, content in members.items():
            archive.writestr(name, content)


@contextlib.contextmanager
def new_file(path: Path, replaces: bool = True) -> Iterator[BinaryIO]:
    """Atomic: a temporary file in the same directory, which is renamed when it is complete. Raises FileExistsError if there is
    another file by then, unless it `replaces` it. Temporary files that killed processes left are removed."""
    for left in path.parent.glob(f"{glob.escape(path.name)}.{'[0-9a-f]' * 16}.part"):
        with contextlib.suppress(OSError), open(left, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # not while a process writes it
            left.unlink()
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    try:
        with open(part, "xb") as file:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield file
            file.flush()
            os.fsync(file.fileno())
        if replaces:
            part.replace(path)
        else:
            rename_to_new(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def rename_to_new(part: Path, path: Path) -> None:
    try:
        os.link(part, path)
    except OSError:
        if os.path.lexists(path):
            raise FileExistsError(f"{path}: another program made it in the meantime") from None
        part.replace(path)  # a file system without links
    else:
        part.unlink()


def pack_weights(tensors: dict[str, torch.Tensor]) -> bytes:
    return save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()})
