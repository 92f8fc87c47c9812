"""A cache of compiled code, keyed by a hash of all its inputs.

One file per graph below XDG_CACHE_HOME. Corrupt files are ignored; read and write errors only make compiling slower.
"""

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from lockstep.packing import cpu_flags

MAX_BYTES = 2 << 30
STALE_S = 24 * 3600  # age at which the writer of a temporary file no longer exists


@dataclass
class Code:
    """`turning_points`: see batch_sizes.turning_points()."""

    library: bytes
    turning_points: list[int]


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".cache") / "lockstep" / "compiled"


def key_of(program: torch.export.ExportedProgram, settings: dict[str, object], compiler: str, sources: list[str]) -> str:
    """`sources`: Python files that generate the code. `compiler`: the C++ compiler."""
    found = hashlib.sha256()
    with torch._inductor.config.patch({"aot_inductor.metadata": {}}):  # the first compilation of a process sets it
        config = torch._inductor.config.save_config_portable()
    facts = [torch.__version__, torch.version.git_version, settings, cpu_flags(), facts_of_compiler(compiler), config, gpu_facts()]
    found.update(json.dumps(facts, sort_keys=True, default=str).encode())
    for source in sources:
        found.update(Path(source).read_bytes())
    add_module(found, program.graph_module)
    found.update(str(program.graph_signature).encode())
    found.update(str(program.range_constraints).encode())
    for name, tensor in sorted({**program.state_dict, **program.constants}.items()):
        found.update(f"{name} {getattr(tensor, 'dtype', '')} {getattr(tensor, 'shape', '')}".encode())
        if isinstance(tensor, torch.Tensor):
            found.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def add_module(found: "hashlib._Hash", module: torch.fx.GraphModule) -> None:
    for node in module.graph.nodes:
        found.update(f"{node.op} {node.name} {node.target} {node.args} {node.kwargs}".encode())
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            found.update(f"{value.dtype} {value.shape} {value.stride()} {value.device}".encode())
        if isinstance(value, torch.Tensor) and node.op == "placeholder":  # the sizes that select code
            found.update(str([getattr(getattr(size, "node", None), "hint", size) for size in value.shape]).encode())
    for name, child in module.named_children():
        if isinstance(child, torch.fx.GraphModule):
            found.update(name.encode())
            add_module(found, child)


def facts_of_compiler(compiler: str) -> list[object]:
    path = shutil.which(compiler) or compiler
    with contextlib.suppress(OSError):
        status = os.stat(path)
        version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
        return [os.path.realpath(path), status.st_size, status.st_mtime_ns, version]
    return [path]


def gpu_facts() -> str:
    return str(torch.cuda.get_device_properties(0)) if torch.cuda.is_available() else ""


def key_of_processor(compiler: str) -> str:
    facts = [torch.__version__, torch.version.git_version, cpu_flags(), facts_of_compiler(compiler)]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


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
    folder = cache_folder()
    part = folder / f"{key}.{secrets.token_hex(8)}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            part.write_bytes(json.dumps(head).encode() + b"\n" + code.library)
            part.replace(folder / key)
        finally:
            part.unlink(missing_ok=True)
        remove_oldest(folder)
    except OSError:
        pass


def remove_oldest(folder: Path) -> None:
    """Removes entries until the rest is within MAX_BYTES, and temporary files of killed processes."""
    entries = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # another process may also remove files
            status = path.stat()
            if path.suffix == ".part":
                if time.time() - status.st_mtime > STALE_S:
                    path.unlink()
            else:
                entries.append((status.st_mtime, status.st_size, path))
    size = sum(entry[1] for entry in entries)
    for _, bytes_of, path in sorted(entries):
        if size <= MAX_BYTES:
            break
        path.unlink(missing_ok=True)
        size -= bytes_of
