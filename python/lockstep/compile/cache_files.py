"""Folders of cached files in the user's cache directory, with a size limit. Does not import torch."""

import contextlib
import os
import secrets
import time
from pathlib import Path
from typing import Iterable

STALE_S = 24 * 3600  # age at which the writer of a temporary file no longer exists


def folder_of(name: str) -> Path:
    """The folder `name` below XDG_CACHE_HOME, or ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".cache") / "lockstep" / name


def store(folder: Path, key: str, content: Iterable[bytes], max_bytes: int) -> None:
    """Writes the file `key` atomically, then removes the least recently used ones beyond `max_bytes`. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = folder / f"{key}.{secrets.token_hex(8)}.part"
    try:
        with open(part, "xb") as file:
            for piece in content:
                file.write(piece)
        part.replace(folder / key)
    finally:
        part.unlink(missing_ok=True)
    remove_oldest(folder, max_bytes)


def remove_oldest(folder: Path, max_bytes: int) -> None:
    """Removes files until the rest is within `max_bytes`, and temporary files of killed processes."""
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
        if size <= max_bytes:
            break
        path.unlink(missing_ok=True)
        size -= bytes_of
