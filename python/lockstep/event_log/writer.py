"""Appends records to the event log of one process.

The file is mapped: a record is in the kernel's page cache when its append returns, so a SIGKILL right after it loses nothing.
Threads: any; the caller holds `lock`, or uses append().
"""

import errno
import fcntl
import mmap
import os
import struct
import threading
import time
from pathlib import Path
from typing import Any, Callable

from lockstep.event_log import frames, message_pack
from lockstep.event_log.frames import CONFIG, CONTINUED, END, HEADER_BYTES, IDENTITY, KEY, MAX_FRAME_LENGTH, REWIND, SUMMARY, TEXT

MAX_SEGMENT_BYTES = 1 << 30
MAX_HELD_BYTES = 4 << 20
END_BYTES = 4096  # reserved after every record, so that the end of the run fits on a full disk
FIRST_RESERVATION, MAX_RESERVATION = 64 << 10, 4 << 20
RETRY_S = 0.5
MAX_NAME_BYTES = 512

_LENGTH = struct.Struct("<I")


class LogWriter:
    """`path`: of the first segment. `warn`: gets one line per problem.

    Raises OSError or NotALog if the log cannot be created or continued; later failures are warnings.
    """

    def __init__(self, path: Path, warn: Callable[[str], None], max_bytes: int = MAX_SEGMENT_BYTES) -> None:
        self.lock = threading.RLock()
        self.keys: dict[str, int] = {}
        self.identity: dict[str, Any] | None = None
        self.config: Any = None
        self.last_step: int | None = None
        self.path, self._warn, self._max_bytes = path, warn, max_bytes
        self._lock_file = _locked(path)
        self._file = -1
        self.is_closed = False
        self.memory: mmap.mmap | None = None
        self._begin = 0  # of the mapped window, in the segment
        self.offset = 0  # of the next frame, in the window
        self.room = 0  # bytes of the window that records may use
        self._next_reservation = FIRST_RESERVATION
        self._invalid: set[str] = set()  # names
        self._held: list[bytes] = []
        self._held_bytes = self._dropped = 0
        self._next_try = self._outage_began = 0.0
        self._segment, self._records_begin = 0, HEADER_BYTES
        self._limit = max_bytes
        try:
            self._continue()
            if not self._grow(END_BYTES):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        except BaseException:
            self.abandon()
            raise

    # Opening.

    def _continue(self) -> None:
        number = 0
        while (following := _next_begun(self.path, number)) is not None:
            number = following
        self._segment = number
        path = frames.segment_path(self.path, number)
        data = path.read_bytes()
        frames.verify_header(data, path)
        self._records_begin = frames.begun_at(data, number)
        good = self._scan(data) if data[:8] == frames.MAGIC else 0
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        os.ftruncate(self._file, good)
        if good == 0:
            os.pwrite(self._file, frames.HEADER, 0)
            good = HEADER_BYTES
        else:
            os.pwrite(self._file, _LENGTH.pack(frames.NEWEST_VERSION), 8)
        self._begin = good  # nothing is mapped yet

    def _scan(self, data: bytes) -> int:
        good = HEADER_BYTES
        for frame in frames.frames(data):
            good = frame.end
            if frame.kind == KEY:
                self.keys.setdefault(frame.payload[4:].decode("utf-8", "replace"), len(self.keys))
            elif frame.kind in (frames.SCALARS, frames.HISTOGRAM, frames.IMAGE, frames.TABLE, frames.CLIP):
                is_row = frame.kind == frames.SCALARS
                step = struct.unpack_from("<q", frame.payload)[0] if is_row else int(message_pack.unpacked(frame.payload).get("step", 0))
                self.last_step = max(step, self.last_step if self.last_step is not None else step)
            elif frame.kind == REWIND:
                self.last_step = struct.unpack_from("<q", frame.payload)[0]
            elif frame.kind == IDENTITY:
                identity = message_pack.unpacked(frame.payload)
                if self.identity:
                    identity["created"] = self.identity.get("created")
                self.identity = identity
            elif frame.kind == CONFIG:
                self.config = message_pack.unpacked(frame.payload)
        return good

    # Appending.

    def append(self, kind: int, payload: bytes) -> bool:
        """False: dropped."""
        with self.lock:
            if self.is_closed:
                return False
            if len(payload) >= MAX_FRAME_LENGTH:
                self._warn(f"a record of {len(payload)} bytes is too large (at most {MAX_FRAME_LENGTH}); it was dropped")
                return False
            data = frames.frame(kind, payload)
            if self._held and not self._write_held():
                return self._hold(data)
            return self._write(data, END_BYTES) or self._hold(data)

    @property
    def _at(self) -> int:
        """Of the next frame, in the segment."""
        return self._begin + self.offset

    def _write(self, data: bytes, spare: int) -> bool:
        size = len(data)
        if self._at + size > self._limit and self._at > self._records_begin:
            self._begin_segment()
        if self.offset + size > self.room and not self._grow(size, spare):
            return False
        memory, begin = self.memory, self.offset
        end = begin + size
        memory[begin:begin + 4] = _LENGTH.pack(_LENGTH.unpack_from(data)[0] | frames.UNFINISHED)
        memory[begin + 4:end] = data[4:]
        memory[begin:begin + 4] = data[:4]
        self.offset = end
        return True

    def _grow(self, size: int, spare: int = END_BYTES) -> bool:
        at = self._at
        begin = at // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        for wanted in (max(self._next_reservation, size + spare), size + spare):
            length = -(-(at + wanted - begin) // mmap.PAGESIZE) * mmap.PAGESIZE
            try:
                os.posix_fallocate(self._file, begin, length)
                memory = mmap.mmap(self._file, length, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=begin)
            except OSError as error:
                self._reason = f"{self.path}: {error.strerror}"
                continue
            old, self.memory = self.memory, memory
            if old is not None:
                old.close()
            self._begin, self.offset, self.room = begin, at - begin, length - END_BYTES
            self._next_reservation = min(self._next_reservation * 2, MAX_RESERVATION)
            # Segments end at the limit: the fast path stops there too.
            self.room = max(min(self.room, self._limit - begin), self.offset)
            if self.offset + size > self.room:  # a record larger than a segment, or the end of the run on a full disk
                self.room = self.offset + size
            return True
        return False

    # A full disk: records are kept and written once there is space.

    def _hold(self, data: bytes) -> bool:
        if not self._outage_began:
            self._outage_began = time.time()
            self._next_try = time.monotonic() + RETRY_S
            self._warn(f"event log: {self._reason}; records are kept in memory (at most {MAX_HELD_BYTES >> 20} MiB) until there is space")
        if self._held_bytes + len(data) > MAX_HELD_BYTES:
            self._dropped += 1
            return False
        self.room = self.offset  # the caller has no room either
        self._held.append(data)
        self._held_bytes += len(data)
        return True

    def _write_held(self, force: bool = False) -> bool:
        now = time.monotonic()
        if not force and now < self._next_try:
            return False
        self._next_try = now + RETRY_S
        while self._held and self._write(self._held[0], END_BYTES):
            self._held_bytes -= len(self._held.pop(0))
        if self._held:
            return False
        lost = f"{self._dropped} records were dropped" if self._dropped else "no record was dropped"
        line = f"event log: the disk has space again after {time.time() - self._outage_began:.1f} s; {lost}"
        self._outage_began, self._dropped = 0.0, 0
        self._warn(line)
        self._write(frames.frame(TEXT, struct.pack("<dB", time.time(), 2) + line.encode()), END_BYTES)
        return True

    # Segments.

    def _begin_segment(self) -> None:
        number = self._segment
        file = -1
        while file < 0:
            number += 1
            path = frames.segment_path(self.path, number)
            try:
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            except FileExistsError:
                continue
            except OSError:
                self._limit = self._at + self._max_bytes // 8
                return
        copies = b""
        if self.identity is not None:
            copies += frames.frame(IDENTITY, message_pack.packed(self.identity))
        if self.config is not None:
            copies += frames.frame(CONFIG, message_pack.packed(self.config))
        for name, key in self.keys.items():
            copies += frames.frame(KEY, _LENGTH.pack(key) + name.encode("utf-8", "replace"))
        end = HEADER_BYTES + 8 + 1 + 12 + len(copies)
        beginning = frames.HEADER + frames.frame(CONTINUED, struct.pack("<IQ", number, end)) + copies
        try:
            os.pwrite(file, b"\0" * 8 + beginning[8:], 0)
        except OSError:
            os.unlink(path)
            os.close(file)
            self._limit = self._at + self._max_bytes // 8
            return
        self._close_segment()
        os.pwrite(file, beginning[:8], 0)
        self._file, self._segment, self._records_begin = file, number, end
        self._limit = self._max_bytes
        self._begin, self.offset, self.room = end, 0, 0

    def _close_segment(self) -> None:
        if self.memory is not None:
            self.memory.close()
            self.memory = None
        try:
            os.ftruncate(self._file, self._at)
            os.fsync(self._file)
        except OSError:
            pass  # zeros at the end, and an unsynced file, read the same
        os.close(self._file)
        self._file = -1

    # Records.

    def key(self, name: str) -> int | None:
        """The id of a metric; None if its name is invalid."""
        with self.lock:
            found = self.keys.get(name)
            if found is not None:
                return found
            data = name.encode("utf-8", "replace")
            if not 1 <= len(data) <= MAX_NAME_BYTES:
                if name in self._invalid:
                    return None
                self._invalid.add(name)
                self._warn(f"a metric name of {len(data)} bytes; 1 to {MAX_NAME_BYTES} are valid")
                return None
            if not self.append(KEY, _LENGTH.pack(len(self.keys)) + data):
                return None
            self.keys[name] = len(self.keys)
            return self.keys[name]

    def write_identity(self, identity: dict[str, Any]) -> None:
        self.append(IDENTITY, message_pack.packed(identity))
        self.identity = {**identity, "created": (self.identity or identity)["created"]}

    def write_config(self, config: Any) -> None:
        if self.append(CONFIG, message_pack.packed(config)):
            self.config = config

    def write_map(self, kind: int, members: dict[str, Any]) -> bool:
        return self.append(kind, message_pack.packed(members))

    def write_text(self, level: int, line: str) -> None:
        self.append(TEXT, struct.pack("<dB", time.time(), level) + line.encode("utf-8", "replace"))

    def write_rewind(self, step: int) -> None:
        self.append(REWIND, struct.pack("<q", step))

    def write_summary(self, values: dict[str, Any]) -> None:
        names = list(values)
        for at in range(0, len(names), message_pack.MAX_KEYS):  # a map with more is corrupt to readers
            self.write_map(SUMMARY, {name: values[name] for name in names[at:at + message_pack.MAX_KEYS]})

    def write_end(self, end: dict[str, Any]) -> None:
        with self.lock:
            if self.is_closed:
                return
            if self._held and not self._write_held(force=True):
                self._warn(f"event log: the last {len(self._held) + self._dropped} records were dropped: {self._reason}")
                self._held = []
            end = {**end, "reason": end["reason"][:1000]} if end.get("reason") else end
            data = frames.frame(END, message_pack.packed(end))
            self.room += END_BYTES // 2  # the space that every record leaves
            if not self._write(data, 0):
                self._warn(f"event log: the end of the run was not recorded: {self._reason}")

    def close(self) -> None:
        """Truncates the file, syncs it and releases the lock."""
        with self.lock:
            if self.is_closed:
                return
            if self._held:
                self._write_held(force=True)
            self.is_closed = True
            self._close_segment()
            os.close(self._lock_file)

    def abandon(self) -> None:
        """Closes without changing the file; for a child process, and after errors."""
        self.is_closed = True
        self.lock = threading.RLock()  # another thread of the parent may have held it
        if self.memory is not None:
            self.memory.close()
            self.memory = None
        for file in (self._file, self._lock_file):
            if file >= 0:
                os.close(file)
        self._file = self._lock_file = -1


def _locked(path: Path) -> int:
    """A reader that looks whether the log has a writer holds a shared lock for a moment."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    for _ in range(1000):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            pass
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            break
        os.sched_yield()
    os.close(file)
    raise BlockingIOError(errno.EWOULDBLOCK, "it is being written by another process", str(path))


def _next_begun(log: Path, number: int) -> int | None:
    """The number of the next segment that has begun."""
    while True:
        number += 1
        try:
            data = frames.segment_path(log, number).read_bytes()
        except FileNotFoundError:
            return None
        if frames.begun_at(data, number):
            return number

