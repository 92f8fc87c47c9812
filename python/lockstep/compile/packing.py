"""Writes the package file: an uncompressed zip archive. docs/compiled.md describes the format."""

import json
import struct
import time
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping

import torch
from safetensors.torch import save

from lockstep.compile import PACKAGE_FORMAT
from lockstep.compile.cache_files import new_file

ALIGNMENT = 64
ZIP_HEADER = 30  # bytes, of a member, without its name and extra field
ZIP64_FIELD = 20  # bytes, an extra field of large members
UNKNOWN_FIELD = 0x4C53


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


def pack_weights(tensors: dict[str, torch.Tensor]) -> bytes:
    return save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()})
