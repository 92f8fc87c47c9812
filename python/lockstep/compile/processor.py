"""What compiled code depends on in this machine: the processor and the C++ compiler. Does not import torch."""

import contextlib
import os
import platform
import shutil
import subprocess
from pathlib import Path

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


def facts_of_compiler(compiler: str) -> list[object]:
    path = shutil.which(compiler) or compiler
    with contextlib.suppress(OSError):
        status = os.stat(path)
        version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
        return [os.path.realpath(path), status.st_size, status.st_mtime_ns, version]
    return [path]
