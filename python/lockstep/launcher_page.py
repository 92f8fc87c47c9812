"""What this rank does, in memory that it shares with `lockstep launch` (core/system/progress_page.h)."""

import mmap
import os
import struct
import sys
import threading
import time
import traceback

PHASES = {"starting": 0, "data": 3, "training": 4, "evaluating": 9, "saving": 10, "finishing": 11}
OPERATION = b"a step of the script"
POLL_S = 0.25

SIZE = 29104
_PID_RANK, _PHASE, _STEP, _TIMES, _STEP_SINCE, _STACKS_REQUESTED, _STACKS_PUBLISHED = 0, 16, 24, 64, 88, 120, 124
_OPERATION, _STACKS, _STACK_BYTES = 128, 4504, 16384

_TWO = struct.Struct("<qq")
_PHASE_AND_WAIT = struct.Struct("<II")
_STEPS = struct.Struct("<qqQ")
_SINCE = struct.Struct("<qqq")
_NUMBER = struct.Struct("<I")

_page: mmap.mmap | None = None
_pid = 0
_num_calls = 0


def progress(step: int, total_steps: int = 0, phase: str = "training") -> None:
    """Says that this rank has done `step` steps of `total_steps`. Call it once per step on every rank, from one thread.

    `lockstep launch` reports a rank that stays behind, with the stacks of its Python threads, and counts a restart after progress as such.
    `phase`: "evaluating" or "saving" before something that takes longer than a step. Without that launcher it does nothing.
    """
    global _num_calls
    page = _page if _pid == os.getpid() else _opened()
    if page is None:
        return
    try:
        now = time.monotonic_ns()
        since, longest = _TWO.unpack_from(page, _STEP_SINCE)
        if _num_calls:
            _TWO.pack_into(page, _STEP_SINCE, now, max(longest * 127 // 128, now - since if since else 0))
        else:
            _TWO.pack_into(page, _STEP_SINCE, now, 0)
        _num_calls += 1
        _PHASE_AND_WAIT.pack_into(page, _PHASE, PHASES.get(phase, PHASES["training"]), 1)
        _STEPS.pack_into(page, _STEP, step, total_steps, _num_calls)
        _SINCE.pack_into(page, _TIMES, now, now, now)
    except (struct.error, TypeError, ValueError):
        pass


def _opened() -> mmap.mmap | None:
    global _page, _pid, _num_calls
    _page, _pid, _num_calls = None, os.getpid(), 0
    text = os.environ.get("LOCKSTEP_PROGRESS_FD", "")
    try:
        if not text.isdigit() or os.fstat(int(text)).st_size != SIZE:
            return None
        page = mmap.mmap(int(text), SIZE)
    except (OSError, ValueError):
        return None
    if _TWO.unpack_from(page, _PID_RANK)[0] not in (0, _pid) and os.getppid() == _TWO.unpack_from(page, _PID_RANK)[0]:
        return None  # a child of the rank, which reports for itself
    _write_text(page, _OPERATION, OPERATION, 128)
    rank = os.environ.get("RANK", "0")
    _TWO.pack_into(page, _PID_RANK, _pid, int(rank) if rank.isdigit() else 0)
    threading.Thread(target=_serve_stacks, args=(page, _pid), name="lockstep-stacks", daemon=True).start()
    _page = page
    return page


# The version is odd during a write; the launcher reads again then.
def _write_text(page: mmap.mmap, at: int, text: bytes, limit: int) -> None:
    text = text[:limit]
    version = _NUMBER.unpack_from(page, at)[0]
    page[at:at + 4] = _NUMBER.pack((version + 1) & 0xFFFFFFFF)
    page[at + 4:at + 8] = _NUMBER.pack(len(text))
    page[at + 8:at + 8 + len(text)] = text
    page[at:at + 4] = _NUMBER.pack((version + 2) & 0xFFFFFFFF)


def _serve_stacks(page: mmap.mmap, pid: int) -> None:
    seen = _NUMBER.unpack_from(page, _STACKS_REQUESTED)[0]
    while True:
        time.sleep(POLL_S)
        requested = _NUMBER.unpack_from(page, _STACKS_REQUESTED)[0]
        if requested != seen:
            seen = requested
            _write_text(page, _STACKS, _stacks().encode("utf-8", "replace"), _STACK_BYTES)
            page[_STACKS_PUBLISHED:_STACKS_PUBLISHED + 4] = _NUMBER.pack(seen)


def _stacks() -> str:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    text = []
    for ident, frame in sys._current_frames().items():
        if names.get(ident) == "lockstep-stacks":
            continue
        text.append(f"{names.get(ident, 'a thread')}")
        for entry in reversed(traceback.extract_stack(frame)):
            text.append(f"  {entry.name} ({entry.filename}:{entry.lineno})")
    return "\n".join(text) + "\n"
