"""Compiles graphs to libraries with torch's compiler, and converts its errors."""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Iterator

import torch
from torch._inductor.cpp_builder import get_cpp_compiler
from torch._inductor.cpu_vec_isa import pick_vec_isa, supported_vec_isa_list, valid_vec_isa_list, x86_isa_checker
from torch._inductor.exc import CppCompileError, InductorError, InvalidCxxCompiler
from torch._inductor.utils import clear_caches

from lockstep.compile import batch_sizes
from lockstep.compile.batch_sizes import shape_env_of, turning_points, verify_not_fixed
from lockstep.compile.code_cache import Code, key_of, key_of_processor, load_code, store_code
from lockstep.compile.errors import CompilerFault, quiet


def verify_compiler() -> None:
    """Raises OSError."""
    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        raise OSError(f"no C++ compiler: '{os.environ.get('CXX', 'g++')}' cannot be run; install g++, or set CXX") from None


@contextlib.contextmanager
def temporary_cache() -> Iterator[None]:
    """Redirects torch's caches, which would otherwise keep and reuse everything that was ever compiled."""
    with tempfile.TemporaryDirectory() as directory:
        places = {"TORCHINDUCTOR_CACHE_DIR": directory, "TRITON_CACHE_DIR": os.path.join(directory, "triton")}
        before = {name: os.environ.get(name) for name in places}
        os.environ.update(places)
        clear_caches()  # in-memory caches contain paths
        try:
            yield
        finally:
            clear_caches()
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


@contextlib.contextmanager
def probed_processor(key: str) -> Iterator[None]:
    """Probes instruction sets only once per processor: torch compiles a program for each, which takes longer than a graph."""
    if load_code(key) is not None:
        with torch._inductor.config.patch({"cpp.vec_isa_ok": True}):
            yield
        return
    yield
    have = x86_isa_checker()
    works = {str(isa) for isa in valid_vec_isa_list()}
    if have and all(str(isa) in works for isa in supported_vec_isa_list if set(str(isa).split()) <= set(have)):
        store_code(key, Code(b"", []))


def compiled(program: torch.export.ExportedProgram, device: str, threads: int, use_cache: bool = True) -> Code:
    """Raises OSError (disk full), CompilerFault, FixedSize, or an exception of torch's compiler."""
    # docs/decisions/0008-compiled-steps.md explains why LibTorch is not linked on a CPU. Precompiled headers, 100 MB each,
    # are disabled because they are stored outside of the cache directory and would remain.
    settings = {**settings_of(device, threads), "aot_inductor.link_libtorch": device != "cpu"}
    if not use_cache:
        return _compiled(program, settings)
    compiler = os.environ.get("CXX", "g++")
    key = key_of(program, {**settings, "device": device}, compiler, [__file__, batch_sizes.__file__])
    code = load_code(key)
    if code is None:
        with probed_processor(key_of_processor(compiler)):
            code = _compiled(program, settings)
        store_code(key, code)
    return code


def settings_of(device: str, threads: int) -> dict[str, object]:
    settings: dict[str, object] = {"cpp.threads": threads, "aot_inductor.precompile_headers": False}
    if device != "cpu":
        settings["aot_inductor.embed_kernel_binary"] = True  # in the library, not in separate files
    return settings


def compiled_for_loaders(program: torch.export.ExportedProgram, device: str, threads: int, metadata: dict[str, str]) -> Code:
    """As compiled(), for AOTInductor's own loaders: links LibTorch. Not cached, because it contains the weights."""
    settings = {**settings_of(device, threads), "aot_inductor.link_libtorch": True, "aot_inductor.metadata": metadata}
    with probed_processor(key_of_processor(os.environ.get("CXX", "g++"))):
        return _compiled(program, settings)


def _compiled(program: torch.export.ExportedProgram, settings: dict[str, object]) -> Code:
    env = shape_env_of(program)
    size = next((hint for hint in env.backed_var_to_val.values()), 0) if env is not None else 0
    with tempfile.TemporaryDirectory() as directory, temporary_cache(), torch.no_grad(), quiet():
        file = os.path.join(directory, "graph.pt2")
        # Called here because probes must link LibTorch to succeed; the result is cached.
        pick_vec_isa()
        try:
            torch._inductor.aoti_compile_and_package(program, package_path=file, inductor_configs=settings)
        except InductorError as error:
            raise _reason(error.inner_exception) from error
        except CppCompileError as error:
            raise _reason(error) from error
        if env is not None:
            verify_not_fixed(env)
        return Code(Path(file).read_bytes(), turning_points(env, int(size)))


def _reason(error: Exception) -> Exception:
    if not isinstance(error, CppCompileError):
        return error
    lines = [line.strip() for line in error.output.splitlines() if line.strip()]
    line = next((line for line in lines if "error" in line), lines[-1] if lines else "no reason given")
    if "No space left on device" in line:
        return OSError(f"g++ failed: {line}")
    return CompilerFault(f"g++ failed: {line}")
