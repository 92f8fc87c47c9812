"""torch's compiler, from a graph to the bytes of a library, and what can go wrong with it."""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Iterator

import torch
from torch._inductor.cpp_builder import get_cpp_compiler
from torch._inductor.cpu_vec_isa import pick_vec_isa
from torch._inductor.exc import CppCompileError, InductorError, InvalidCxxCompiler
from torch._inductor.utils import clear_caches

from lockstep.errors import CompilerFault


def verify_compiler() -> None:
    """Raises OSError."""
    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        raise OSError(f"no C++ compiler: '{os.environ.get('CXX', 'g++')}' cannot be run; install g++, or set CXX") from None


@contextlib.contextmanager
def own_cache() -> Iterator[None]:
    """Else torch keeps all that it ever compiled, and uses it again."""
    with tempfile.TemporaryDirectory() as directory:
        places = {"TORCHINDUCTOR_CACHE_DIR": directory, "TRITON_CACHE_DIR": os.path.join(directory, "triton")}
        before = {name: os.environ.get(name) for name in places}
        os.environ.update(places)
        clear_caches()  # those in memory hold paths
        try:
            yield
        finally:
            clear_caches()
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


def compiled(program: torch.export.ExportedProgram, device: str, threads: int) -> bytes:
    """Raises OSError for a full disk, CompilerFault, or what torch's compiler does."""
    # Why nothing of LibTorch is linked to it on a CPU: docs/decisions/0008-compiled-steps.md of Lockstep. Precompiled
    # headers, 100 MB each, would stay: they are kept in one place whatever the cache.
    settings: dict[str, object] = {"cpp.threads": threads, "aot_inductor.link_libtorch": device != "cpu",
                                   "aot_inductor.precompile_headers": False}
    with tempfile.TemporaryDirectory() as directory, own_cache(), torch.no_grad():
        file = os.path.join(directory, "graph.pt2")
        # Found out, and remembered, while a probe may still link LibTorch: without it none is found.
        pick_vec_isa()
        try:
            torch._inductor.aoti_compile_and_package(program, package_path=file, inductor_configs=settings)
        except InductorError as error:
            raise _reason(error.inner_exception) from error
        except CppCompileError as error:
            raise _reason(error) from error
        return Path(file).read_bytes()


def _reason(error: Exception) -> Exception:
    if not isinstance(error, CppCompileError):
        return error
    lines = [line.strip() for line in error.output.splitlines() if line.strip()]
    line = next((line for line in lines if "error" in line), lines[-1] if lines else "no reason given")
    if "No space left on device" in line:
        return OSError(f"g++ failed: {line}")
    return CompilerFault(f"g++ failed: {line}")
