"""A cache of whole packages, keyed by a hash of everything that one was compiled from. Does not import torch, which takes
seconds. Corrupt files are ignored; write errors of the cache only make compiling slower."""

import contextlib
import hashlib
import importlib.util
import json
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import BinaryIO, Iterator

from lockstep.compile import cache_files
from lockstep.compile.processor import cpu_flags, facts_of_compiler

MAX_BYTES = 4 << 30
PIECE = 1 << 22
MAX_HEAD = 1 << 20  # bytes of the first line of an entry


class CorruptEntry(Exception):
    """Its content has another checksum."""


def cache_folder() -> Path:
    return cache_files.folder_of("packages")


def key_of(facts: object) -> str:
    """`facts`: what the package is made from, as JSON; this adds the versions, the sources of this package and the machine."""
    machine = [platform.machine(), cpu_flags(), facts_of_compiler(os.environ.get("CXX", "g++"))]
    settings = sorted((name, value) for name, value in os.environ.items()
                      if name.startswith(("TORCH", "AOT_INDUCTOR")) and not name.endswith("_DIR"))
    all_facts = [facts, machine, settings, platform.python_version(), *map(version_of, ("torch", "transformers")), own_sources()]
    return hashlib.sha256(json.dumps(all_facts, sort_keys=True).encode()).hexdigest()


def version_of(name: str) -> list[str]:
    """The version of an installed package; of torch also that of its sources."""
    spec = importlib.util.find_spec(name)
    own = Path(spec.origin).with_name("version.py") if spec is not None and spec.origin else None
    return [name, metadata.version(name), own.read_text() if own is not None and own.is_file() else ""]


def own_sources() -> str:
    found = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


def checksum(path: Path) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in pieces_of(file):
            found.update(piece)
    return found.hexdigest()


def pieces_of(file: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: file.read(PIECE), b"")


def load_package(key: str, out: Path) -> list[str] | None:
    """Copies the package to `out`, atomically. Returns the lines that were reported when it was compiled; None if there is
    no valid entry. Raises OSError if `out` cannot be written."""
    try:
        entry = open(cache_folder() / key, "rb")
    except OSError:
        return None
    with entry:
        try:
            head = json.loads(entry.readline(MAX_HEAD))
            lines, expected = [str(line) for line in head["lines"]], head["sha256"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        found = hashlib.sha256()
        try:
            with cache_files.new_file(out) as file:
                for piece in pieces_of(entry):
                    found.update(piece)
                    file.write(piece)
                if found.hexdigest() != expected:
                    raise CorruptEntry
        except CorruptEntry:
            return None
    with contextlib.suppress(OSError):
        os.utime(cache_folder() / key)  # for LRU eviction
    return lines


def store_package(key: str, package: Path, lines: list[str]) -> None:
    """Does not store packages larger than the cache."""
    with contextlib.suppress(OSError):
        if package.stat().st_size < MAX_BYTES:
            cache_files.store(cache_folder(), key, entry_of(package, lines), MAX_BYTES)


def entry_of(package: Path, lines: list[str]) -> Iterator[bytes]:
    yield json.dumps({"sha256": checksum(package), "lines": lines}).encode() + b"\n"
    with open(package, "rb") as file:
        yield from pieces_of(file)
