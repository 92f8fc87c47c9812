"""Files that are complete or absent, and folders of them in the user's cache directory, with a size limit. Does not import torch."""

import contextlib
import errno
import fcntl
import glob
import os
import secrets
import time
from pathlib import Path
from typing import BinaryIO, Iterable, Iterator

ABANDONED_AFTER_S = 3600
MAX_NAMES = 20
STALE_S = 24 * 3600  # age at which the writer of a temporary file no longer exists


def folder_of(name: str) -> Path:
    """The folder `name` below XDG_CACHE_HOME, or ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".cache") / "lockstep" / name


def store(folder: Path, key: str, content: Iterable[bytes], max_bytes: int) -> None:
    """Writes the file `key` atomically, then removes the least recently used ones beyond `max_bytes`. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with new_file(folder / key) as file:
        for piece in content:
            file.write(piece)
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


@contextlib.contextmanager
def new_file(path: Path, replaces: bool = True) -> Iterator[BinaryIO]:
    """Atomic: a temporary file in the same directory, which is renamed when it is complete. Raises FileExistsError if there is
    another file by then, unless it `replaces` it. Temporary files that killed processes left are removed, an hour later."""
    remove_leftovers(path)
    part, file = locked_part(path)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if replaces:
                part.replace(path)
            else:
                rename_to_new(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def remove_leftovers(path: Path) -> None:
    """On some file systems a lock counts on one host only, so a file that was modified lately also counts as in use."""
    for left in path.parent.glob(f"{glob.escape(path.name)}.{'[0-9a-f]' * 16}.part"):
        with contextlib.suppress(OSError), open(left, "r+b") as file:  # NFS locks only files that are open for writing
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # not while a process writes it
            if time.time() - os.fstat(file.fileno()).st_mtime > ABANDONED_AFTER_S:
                left.unlink()


def locked_part(path: Path) -> tuple[Path, BinaryIO]:
    """A new temporary file, with a lock if the file system has locks."""
    for _ in range(MAX_NAMES):
        part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
        file = open(part, "xb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another process has taken it for a leftover
            file.close()
            part.unlink(missing_ok=True)
            continue
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                file.close()
                part.unlink(missing_ok=True)
                raise
        if os.fstat(file.fileno()).st_nlink > 0:
            return part, file
        file.close()  # it was removed before the lock
    raise BlockingIOError(errno.EAGAIN, "cannot lock a new file", str(path))


def rename_to_new(part: Path, path: Path) -> None:
    try:
        os.link(part, path)
    except OSError:
        if os.path.lexists(path):
            raise FileExistsError(f"{path}: another program made it in the meantime") from None
        part.replace(path)  # a file system without links
    else:
        part.unlink(missing_ok=True)
