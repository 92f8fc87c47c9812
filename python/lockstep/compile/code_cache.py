"""A cache of compiled code, keyed by a hash of all its inputs.

One file per graph below XDG_CACHE_HOME. Corrupt files are ignored; read and write errors only make compiling slower.
"""

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

import torch

from lockstep.compile import cache_files
from lockstep.compile.batch_sizes import hint_of, shape_env_of
from lockstep.compile.processor import cpu_flags, facts_of_compiler

MAX_BYTES = 2 << 30


@dataclass
class Code:
    """`turning_points`: see batch_sizes.turning_points()."""

    library: bytes
    turning_points: list[int]


def cache_folder() -> Path:
    return cache_files.folder_of("compiled")


def key_of(module: torch.fx.GraphModule, settings: dict[str, object], compiler: str, sources: list[str]) -> str:
    """`sources`: Python files that generate the code. `compiler`: the C++ compiler."""
    found = hashlib.sha256()
    with torch._inductor.config.patch({"aot_inductor.metadata": {}}):  # the first compilation of a process sets it
        config = torch._inductor.config.save_config_portable()
    facts = [*facts_of_processor(compiler), settings, config, gpu_facts(), settings_of_torch()]
    found.update(json.dumps(facts, sort_keys=True, default=str).encode())
    for source in sources:
        found.update(Path(source).read_bytes())
    add_module(found, module)
    env = shape_env_of(module)
    found.update(str(sorted(str(guard.expr) for guard in env.guards) if env is not None else []).encode())
    for name, tensor in sorted(module.state_dict().items()):
        found.update(f"{name} {tensor.dtype} {tensor.shape}".encode())
        found.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def add_module(found: "hashlib._Hash", module: torch.fx.GraphModule) -> None:
    for node in module.graph.nodes:
        found.update(f"{node.op} {node.name} {node.target} {node.args} {node.kwargs}".encode())
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            found.update(f"{value.dtype} {value.shape} {value.stride()} {value.device}".encode())
        if isinstance(value, torch.Tensor) and node.op == "placeholder":  # the sizes that select code
            found.update(str([*map(hint_of, value.shape)]).encode())
    for name, child in module.named_children():
        if isinstance(child, torch.fx.GraphModule):
            found.update(name.encode())
            add_module(found, child)


def gpu_facts() -> str:
    return str(torch.cuda.get_device_properties(0)) if torch.cuda.is_available() else ""


def settings_of_torch() -> list[object]:
    """Those of the process on which generated code depends."""
    cuda = torch.backends.cuda.matmul
    return [torch.are_deterministic_algorithms_enabled(), torch.backends.mkldnn.matmul.fp32_precision, cuda.fp32_precision,
            cuda.allow_fp16_reduced_precision_reduction, cuda.allow_bf16_reduced_precision_reduction, cuda.allow_fp16_accumulation]


def key_of_processor(compiler: str) -> str:
    return hashlib.sha256(json.dumps(facts_of_processor(compiler)).encode()).hexdigest()


def facts_of_processor(compiler: str) -> list[object]:
    return [torch.__version__, torch.version.git_version, cpu_flags(), facts_of_compiler(compiler)]


def load_code(key: str) -> Code | None:
    """None if there is no valid entry."""
    path = cache_folder() / key
    try:
        head, _, library = path.read_bytes().partition(b"\n")
        facts = json.loads(head)
        if hashlib.sha256(library).hexdigest() != facts["sha256"]:
            return None
        os.utime(path)  # for LRU eviction
        return Code(library, facts["turning_points"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def store_code(key: str, code: Code) -> None:
    """Writes the entry atomically."""
    head = {"sha256": hashlib.sha256(code.library).hexdigest(), "turning_points": code.turning_points}
    with contextlib.suppress(OSError):
        cache_files.store(cache_folder(), key, [json.dumps(head).encode() + b"\n", code.library], MAX_BYTES)
