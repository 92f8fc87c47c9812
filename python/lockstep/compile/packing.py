"""Writes the package file: an uncompressed zip archive. docs/compiled.md describes the format."""

import contextlib
import errno
import fcntl
import glob
import json
import os
import secrets
import struct
import time
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Iterator, Mapping

import torch
from safetensors.torch import save

from lockstep.compile import PACKAGE_FORMAT

ABANDONED_AFTER_S = 3600
ALIGNMENT = 64
ZIP_HEADER = 30  # bytes, of a member, without its name and extra field
ZIP64_FIELD = 20  # bytes, an extra field of large members
UNKNOWN_FIELD = 0x4C53
MAX_NAMES = 20


@dataclass(frozen=True)
class Adapter:
    """Adapters of PEFT in a model, and the files of PEFT in checkpoints.

    names: of tensors in the package, where they have another name in the module.
    config: the content of adapter_config.json.
    model_config: the content of config.json, of models with merged adapters.
    tensors: the name in adapter_model.safetensors of each tensor of the adapters, by its name in the package.
    prefix: of all names in the module, which those in the package do not have.
    """

    names: Mapping[str, str]
    config: str
    model_config: str
    tensors: Mapping[str, str]
    prefix: str = ""


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def describe(name: str, tensor: torch.Tensor, **more: object) -> dict[str, object]:
    return {"name": name, "dtype": dtype_name(tensor.dtype), "shape": list(tensor.shape), **more}


def write_package(path: Path, manifest: dict[str, object], members: dict[str, bytes]) -> None:
    manifest["members"] = {name: {"bytes": len(content), "crc32": zlib.crc32(content)} for name, content in members.items()}
    with new_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("manifest.json", json.dumps({"format": PACKAGE_FORMAT, **manifest}, indent=1))
        for name, content in members.items():
            archive.writestr(aligned(name, file.tell(), len(content)), content)


def aligned(name: str, position: int, size: int) -> zipfile.ZipInfo:
    """A member of `size` bytes whose content begins at a multiple of ALIGNMENT, so that weights can be used in the mapped file.
    `position`: of its header. The gap is an extra field of the header that no program knows (section 4.5 of the zip format)."""
    member = zipfile.ZipInfo(name, time.localtime()[:6])
    large = ZIP64_FIELD if size * 1.05 > zipfile.ZIP64_LIMIT else 0  # as zipfile decides
    gap = -(position + ZIP_HEADER + len(name.encode()) + large + 4) % ALIGNMENT
    member.extra = struct.pack("<HH", UNKNOWN_FIELD, gap) + bytes(gap)
    return member


@contextlib.contextmanager
def new_file(path: Path, replaces: bool = True) -> Iterator[BinaryIO]:
    """Atomic: a temporary file in the same directory, which is renamed when it is complete. Raises FileExistsError if there is
    another file by then, unless it `replaces` it. Temporary files that killed processes left are removed, an hour later."""
    remove_leftovers(path)
    part, file = locked_part(path)
    try:
        with file:
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


def remove_leftovers(path: Path) -> None:
    """On some file systems a lock counts on one host only, so a file that was modified lately also counts as in use."""
    for left in path.parent.glob(f"{glob.escape(path.name)}.{'[0-9a-f]' * 16}.part"):
        with contextlib.suppress(OSError), open(left, "r+b") as file:  # NFS locks only files that are open for writing
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # not while a process writes it
            if time.time() - os.fstat(file.fileno()).st_mtime > ABANDONED_AFTER_S:
                left.unlink()


def locked_part(path: Path) -> tuple[Path, BinaryIO]:
    """A new temporary file, with a lock if the file system has locks."""
    for _ in range(MAX_NAMES):
        part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
        file = open(part, "xb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another process has taken it for a leftover
            file.close()
            part.unlink(missing_ok=True)
            continue
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                file.close()
                part.unlink(missing_ok=True)
                raise
        if os.fstat(file.fileno()).st_nlink > 0:
            return part, file
        file.close()  # it was removed before the lock
    raise BlockingIOError(errno.EAGAIN, "cannot lock a new file", str(path))


def rename_to_new(part: Path, path: Path) -> None:
    try:
        os.link(part, path)
    except OSError:
        if os.path.lexists(path):
            raise FileExistsError(f"{path}: another program made it in the meantime") from None
        part.replace(path)  # a file system without links
    else:
        part.unlink(missing_ok=True)


def pack_weights(tensors: dict[str, torch.Tensor]) -> bytes:
    return save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()})
