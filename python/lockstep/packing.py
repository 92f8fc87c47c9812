"""Writes the package file: an uncompressed zip archive. docs/compiled.md describes the format."""

import json
import os
import platform
import secrets
import zipfile
import zlib
from pathlib import Path

import torch
from safetensors.torch import save

FORMAT = 2

# Instruction sets that -march=native may use, as in /proc/cpuinfo, which has no names for AVX-IFMA, AVX-VNNI-INT8 and AMX-FP16.
X86_FLAGS = ("avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "popcnt", "movbe", "abm", "sse4_1", "sse4_2", "ssse3", "aes",
             "pclmulqdq", "vaes", "vpclmulqdq", "sha_ni", "adx", "rdrand", "rdseed", "sse4a", "clwb", "avx512f", "avx512bw",
             "avx512cd", "avx512dq", "avx512vl", "avx512ifma", "avx512vbmi", "avx512_vbmi2", "avx512_vnni",
             "avx512_bitalg", "avx512_vpopcntdq", "avx512_vp2intersect", "avx512_bf16", "avx512_fp16", "avx_vnni",
             "amx_tile", "amx_int8", "amx_bf16", "gfni", "xop", "fma4", "tbm")


def cpu_flags() -> list[str]:
    """The instruction sets of this machine that compiled code may use."""
    key = "flags" if platform.machine() == "x86_64" else "Features"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            have = value.split()
            return [flag for flag in (X86_FLAGS if key == "flags" else sorted(have)) if flag in have]
    return []


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def describe(name: str, tensor: torch.Tensor, **more: object) -> dict[str, object]:
    return {"name": name, "dtype": dtype_name(tensor.dtype), "shape": list(tensor.shape), **more}


def write_package(path: Path, manifest: dict[str, object], members: dict[str, bytes]) -> None:
    """Atomic: writes a temporary file in the same directory and renames it."""
    manifest["members"] = {name: {"bytes": len(content), "crc32": zlib.crc32(content)} for name, content in members.items()}
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    try:
        with open(part, "xb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                archive.writestr("manifest.json", json.dumps({"format": FORMAT, **manifest}, indent=1))
                for name, content in members.items():
                    archive.writestr(name, content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def pack_weights(tensors: dict[str, torch.Tensor]) -> bytes:
    return save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()})
