"""Compiles graphs to libraries with torch's compiler, and converts its errors."""

import contextlib
import copy
import itertools
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch._inductor.codecache import BypassFxGraphCache, CacheBase
from torch._inductor.cpp_builder import get_cpp_compiler
from torch._inductor.cpu_vec_isa import VecISA, pick_vec_isa, supported_vec_isa_list, valid_vec_isa_list, x86_isa_checker
from torch._inductor.exc import CppCompileError, InductorError, InvalidCxxCompiler
from torch._inductor.fx_passes import joint_graph
from torch._inductor.package import package_aoti
from torch._inductor.utils import clear_caches
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx._graph_pickler import GraphPickler
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from lockstep.compile import batch_sizes
from lockstep.compile.batch_sizes import FixedSize, shape_env_of, traced_size, turning_points, verify_not_fixed
from lockstep.compile.code_cache import Code, key_of, key_of_processor, load_code, store_code
from lockstep.compile.errors import CompilerFault, quiet
from lockstep.compile.headers import HEADER, quick_headers
from lockstep.compile.processes import in_forks, in_new_processes, number_of_cores, results_of, variables

BYTES_OF_PROCESS = 4 << 30  # of a GPU's memory, for a process that compiles: its context, and kernels that are tried


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
        with variables(places):
            clear_caches()  # in-memory caches contain paths
            try:
                yield
            finally:
                clear_caches()


@contextlib.contextmanager
def probed_processor(key: str) -> Iterator[None]:
    """Probes only the instruction set that torch would choose, and once per processor: torch probes all of them each time, by
    compiling a program for each, which takes longer than a graph. If the probe fails, torch probes as usual."""
    works = load_code(key) is not None
    if not works:
        with temporary_cache(), quiet():
            works = any(itertools.islice(filter(is_supported, supported_vec_isa_list), 1))
        if works:
            store_code(key, Code(b"", []))
    with torch._inductor.config.patch({"cpp.vec_isa_ok": True}) if works else contextlib.nullcontext():
        yield


def is_supported(isa: VecISA) -> bool:
    """By the processor; the compiler may not."""
    have = x86_isa_checker()
    return bool(have) and set(str(isa).split()) <= set(have)


@contextlib.contextmanager
def instruction_sets(settings: dict[str, object]) -> Iterator[None]:
    """Those of `settings`; torch remembers those of the first graph."""
    if "cpp.vec_isa_ok" not in settings:
        yield
        return
    valid_vec_isa_list.cache_clear()
    try:
        with torch._inductor.config.patch({"cpp.vec_isa_ok": settings["cpp.vec_isa_ok"]}):
            yield
    finally:
        valid_vec_isa_list.cache_clear()


def compiled(modules: Mapping[str, torch.fx.GraphModule], device: str, threads: int, use_cache: bool,
             stage: Callable[[str], None]) -> dict[str, Code | FixedSize]:
    """The code of each graph, or why it is valid for one batch size only. Equal graphs are compiled once. Raises OSError (disk full),
    CompilerFault, or an exception of torch's compiler."""
    # docs/decisions/0008-compiled-steps.md explains why LibTorch is not linked on a CPU. Precompiled headers, 100 MB each,
    # are disabled because they are stored outside of the cache directory and would remain.
    settings = {**settings_of(device, threads), "aot_inductor.link_libtorch": device != "cpu"}
    compiler = os.environ.get("CXX", "g++")
    keys = {name: key_of(module, {**settings, "device": device}, compiler, [__file__, batch_sizes.__file__, HEADER])
            for name, module in modules.items()}
    found: dict[str, Code | FixedSize] = {}
    for key in keys.values():
        if use_cache and key not in found and (code := load_code(key)) is not None:
            found[key] = code
    missing = {key: name for name, key in keys.items() if key not in found}
    if missing:
        with probed_processor(key_of_processor(compiler)) if use_cache and device == "cpu" else contextlib.nullcontext():
            made = compile_all([modules[name] for name in missing.values()], device, settings, stage)
        found |= zip(missing, made)
    for key in missing:
        if use_cache and isinstance(found[key], Code):
            store_code(key, found[key])
    return {name: found[key] for name, key in keys.items()}


def compile_all(modules: Sequence[torch.fx.GraphModule], device: str, settings: dict[str, object],
                stage: Callable[[str], None]) -> list[Code | FixedSize]:
    def progress(done: int) -> None:
        if done < len(modules):
            stage(f"{what}: {done} done")

    what = f"code for {len(modules)} graph{'s' if len(modules) > 1 else ''}"
    stage(what)
    if device == "cpu":
        with temporary_cache(), quiet():
            pick_vec_isa()  # once for all graphs
    if len(modules) == 1:
        return [compile_one(modules[0], settings)]
    if not torch.cuda.is_initialized():
        prepare_for_forks()
        return results_of(in_forks(lambda i: compile_one(modules[i], settings)), len(modules), number_of_cores(), progress)
    contents = [stored(module) for module in modules] if "cpp.vec_isa_ok" in settings else []  # each would probe them
    if contents and all(contents):
        limit = min(number_of_cores(), processes_of_gpu(), len(modules))
        threads = {"TORCHINDUCTOR_COMPILE_THREADS": str(max(1, number_of_cores() // limit))}  # otherwise, one per core in each process
        start = in_new_processes(compile_stored, [(content, settings) for content in contents], threads)
        return results_of(start, len(modules), limit, progress)
    made = []
    for module in modules:
        made.append(compile_one(module, settings))
        progress(len(made))
    return made


def prepare_for_forks() -> None:
    """Does once what torch's compiler would do in each process, which takes seconds: it hashes Triton, and traces its patterns."""
    with contextlib.suppress(AttributeError, TypeError):  # another version of torch
        CacheBase.get_system()
        joint_graph.lazy_init(torch.device("cpu"))


def compile_one(module: torch.fx.GraphModule, settings: dict[str, object]) -> Code | FixedSize:
    try:
        return _compiled(copy.deepcopy(module), settings)
    except FixedSize as error:
        return error


def stored(module: torch.fx.GraphModule) -> bytes | None:
    """None if it has operators that another process may not have. The compiler needs only the shapes of inputs."""
    module = copy.deepcopy(module)
    for node in module.graph.nodes:
        if node.op != "placeholder":
            node.meta = {}
    try:
        return GraphPickler.dumps(module)
    except (BypassFxGraphCache, pickle.PicklingError, TypeError, AttributeError):
        return None


def compile_stored(content: bytes, settings: dict[str, object]) -> Code | FixedSize:
    mode = FakeTensorMode(allow_fallback_kernels=True, allow_non_fake_inputs=True, shape_env=ShapeEnv())
    return compile_one(GraphPickler.loads(content, mode), settings)


def processes_of_gpu() -> int:
    """Those that fit the free memory of the GPU."""
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    return max(1, free // BYTES_OF_PROCESS)


def settings_of(device: str, threads: int) -> dict[str, object]:
    settings: dict[str, object] = {"cpp.threads": threads, "aot_inductor.precompile_headers": False}
    if device != "cpu":
        settings["aot_inductor.embed_kernel_binary"] = True  # in the library, not in separate files
        settings["cpp.vec_isa_ok"] = False  # no vector instructions on the CPU, which would be probed for a minute
    return settings


def compiled_for_loaders(program: torch.export.ExportedProgram, device: str, threads: int, metadata: dict[str, str]) -> Code:
    """As compiled(), for AOTInductor's own loaders: links LibTorch. Not cached, because it contains the weights. Raises FixedSize."""
    settings = {**settings_of(device, threads), "aot_inductor.link_libtorch": True, "aot_inductor.metadata": metadata}
    with probed_processor(key_of_processor(os.environ.get("CXX", "g++"))) if device == "cpu" else contextlib.nullcontext():
        return _compiled(program.module(check_guards=False), settings)


def _compiled(module: torch.fx.GraphModule, settings: dict[str, object]) -> Code:
    """Changes `module`."""
    env = shape_env_of(module)
    given = tuple(node.meta["val"] for node in module.graph.nodes if node.op == "placeholder")
    with (tempfile.TemporaryDirectory() as directory, temporary_cache(), torch.no_grad(), quiet(), quick_headers(),
          instruction_sets(settings)):
        file = os.path.join(directory, "graph.pt2")
        pick_vec_isa()  # here because probes must link LibTorch to succeed; the result is kept
        try:
            files = torch._inductor.aot_compile(module, given, options={**settings, "aot_inductor.package": True})
            package_aoti(file, files)
        except InductorError as error:
            raise _reason(error.inner_exception) from error
        except CppCompileError as error:
            raise _reason(error) from error
        if env is not None:
            verify_not_fixed(env)
        return Code(Path(file).read_bytes(), turning_points(env, traced_size(given)))


def _reason(error: Exception) -> Exception:
    if not isinstance(error, CppCompileError):
        return error
    lines = [line.strip() for line in error.output.splitlines() if line.strip()]
    line = next((line for line in lines if "error" in line), lines[-1] if lines else "no reason given")
    if "No space left on device" in line:
        return OSError(f"g++ failed: {line}")
    return CompilerFault(f"g++ failed: {line}")
