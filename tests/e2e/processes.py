"""Starts programs, waits for them with a deadline, and finds running processes."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

BIN = Path(os.environ["LOCKSTEP_BIN"])
SOURCE = Path(os.environ["LOCKSTEP_SOURCE"])

sys.path.insert(0, str(SOURCE / "tests"))
from free_port import free_port  # noqa: E402,F401
LOCKSTEP = str(BIN / "lockstep")
TRAINER = str(BIN / "lockstep-trainer")

# Timeout after which a process counts as hung. Far more than a slow, busy machine needs.
TIMEOUT_S = 120

# Variables that an outer launcher may have set; tests set them explicitly.
_FOREIGN = ("RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "ROLE_", "MASTER_", "TORCHELASTIC_")
_FOREIGN += ("LOCKSTEP_", "SLURM_", "OMPI_", "PMI", "OMP_")


@dataclass
class Ended:
    code: int
    out: str
    err: str


def environment(**changes):
    """The environment of a program: one thread per rank unless overridden by `changes`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    kept["OMP_NUM_THREADS"] = "1"
    kept.update({name: str(value) for name, value in changes.items() if value is not None})
    for name in (name for name, value in changes.items() if value is None):
        kept.pop(name, None)
    return kept


def start(command, cwd, env=None, **streams):
    """The program, in a new process group."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    command = [str(part) for part in command]
    return subprocess.Popen(
        command, cwd=cwd, env=env or environment(), text=True, start_new_session=True, **streams
    )


def finish(process, timeout=TIMEOUT_S):
    """Output and exit code of `process`; fails if it does not exit in time."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate(timeout=TIMEOUT_S)
        raise AssertionError(
            f"{process.args} still ran after {timeout} s\nstdout: {out}\nstderr: {err}"
        ) from None
    return Ended(process.returncode, out, err)


def run(command, cwd, env=None, timeout=TIMEOUT_S):
    return finish(start(command, cwd, env), timeout)


def find(marker):
    """{pid: command line} of every other process that has `marker` in its command line."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(marker) in line:
            found[int(entry.name)] = line
    return found


def variables_of(pid):
    """The environment that a process was started with; empty if the process is gone."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def parent_of(pid):
    """None if the process is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def trainers(marker):
    """The trainers that have `marker` in their command line; not their forked children before exec, and not the
    template from which they are forked."""
    named = {pid: line for pid, line in find(marker).items() if "lockstep-trainer" in line.split(" ")[0]}
    return [pid for pid, line in named.items() if parent_of(pid) not in named and " --warm-template " not in line]


def templates(marker):
    """The processes from which ranks are forked."""
    return [pid for pid, line in find(marker).items() if " --warm-template " in line]


def first_address(pid):
    """Of its memory. Addresses are random: only processes forked from one another have the same."""
    return Path(f"/proc/{pid}/maps").read_text().partition("-")[0]


def ranks_of(marker):
    """{rank: pid} of the trainers."""
    ranks = {pid: variables_of(pid).get("RANK") for pid in trainers(marker)}
    return {int(rank): pid for pid, rank in ranks.items() if rank is not None}


def wait_until(condition, timeout, what):
    """Returns the first true value of `condition()`; fails after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, f"timed out after {timeout} s: {what}"
        time.sleep(0.02)
    return value
