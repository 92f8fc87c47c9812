"""The files of a run directory besides its event logs."""

import json
import os
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from lockstep.event_log.reader import content

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}")
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/=-]{0,63}")
MAX_NOTE_BYTES = 4096
MAX_PACKAGES = 2000


def new_run_id(name: str) -> str:
    safe = _UNSAFE.sub("-", name[:80])
    if not name.endswith("-"):
        safe = safe.rstrip("-")
    if not safe or safe[0] in ".-":
        safe = "run" + safe
    return f"{safe}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(3).hex()}"


def is_run_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def write_file(path: Path, text: str) -> None:
    """A kill leaves the old file or the new one."""
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    with open(temporary, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def read_json(path: str | Path) -> Any:
    """None if it does not exist or is corrupt."""
    try:
        return json.loads(content(str(path)).decode())
    except (OSError, ValueError):
        return None


def write_json(path: Path, value: Any) -> None:
    write_file(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def command_line() -> list[str]:
    return [sys.executable or "python", *sys.argv]


def write_run_json(run_dir: Path, job: dict[str, Any]) -> None:
    """Keeps the time of creation of an existing run."""
    path = run_dir / "run.json"
    before = read_json(path)
    if isinstance(before, dict) and isinstance(before.get("created"), (int, float)):
        job = {**job, "created": before["created"]}
    git = git_state(Path.cwd())
    write_json(path, {**job, "git": git} if git else job)


def write_config_yaml(run_dir: Path, sinks: list[Any] | None, git_diff: bool) -> None:
    """The settings for `lockstep track` and `lockstep sync`. JSON is YAML."""
    path = run_dir / "config.yaml"
    before = read_json(path)
    settings = dict(before["tracking"]) if isinstance(before, dict) and isinstance(before.get("tracking"), dict) else {}
    if sinks:
        settings["sinks"] = sinks
    settings.pop("git_diff", None)
    if not git_diff:
        settings["git_diff"] = False
    if settings or before is not None:
        write_json(path, {"tracking": settings})


def write_software(run_dir: Path) -> None:
    software: dict[str, Any] = {"python": sys.version.split()[0], "packages": installed_packages(), "nvidia_driver": nvidia_driver_version()}
    write_json(run_dir / "software.json", {key: value for key, value in software.items() if value})


def installed_packages() -> dict[str, str]:
    """Versions of the distributions on sys.path, from the names of their directories: reading their metadata would take 100 times as long."""
    found: dict[str, str] = {}
    for place in sys.path:
        try:
            names = os.listdir(place or ".")
        except OSError:
            continue
        for name in names:
            stem, _, kind = name.rpartition(".")
            words = stem.split("-")
            if kind in ("dist-info", "egg-info") and len(words) > 1:
                found.setdefault(words[0].lower().replace("_", "-"), words[1])
    return dict(sorted(found.items())[:MAX_PACKAGES])


def nvidia_driver_version() -> str:
    try:
        line = Path("/proc/driver/nvidia/version").read_text().partition("\n")[0]
    except OSError:
        return ""
    return next((word for word in line.split() if re.fullmatch(r"\d+\.[\d.]+", word)), "")


def is_tag(text: str) -> bool:
    return _TAG.fullmatch(text) is not None


def verify_tags(tags: list[str], note: str) -> None:
    """Raises ValueError."""
    for tag in tags:
        if not is_tag(tag):
            raise ValueError(f"tag {tag!r}: expected 1 to 64 of A-Z a-z 0-9 . _ : / = -, starting with a letter or digit")
    if len(note.encode("utf-8", "replace")) > MAX_NOTE_BYTES:
        raise ValueError(f"the note has more than {MAX_NOTE_BYTES} bytes")


def write_tags(run_dir: Path, tags: list[str], note: str) -> None:
    """Adds the tags; replaces the note if it is not empty."""
    before = read_json(run_dir / "tags.json")
    before = before if isinstance(before, dict) else {}
    merged = sorted({*before.get("tags", []), *tags})
    write_json(run_dir / "tags.json", {"tags": merged, "note": note or before.get("note", "")})


def clear_end(run_dir: Path) -> None:
    """The run continues: removes how it ended."""
    old = run_dir / f"ends.tmp-{os.getpid()}"
    try:
        os.rename(run_dir / "ends", old)
        shutil.rmtree(old, ignore_errors=True)
    except OSError:
        pass
    (run_dir / "end.json").unlink(missing_ok=True)


def write_end_fact(run_dir: Path, rank: int, end: dict[str, Any]) -> None:
    """A rank that failed reports it, also if it does not log."""
    (run_dir / "ends").mkdir(exist_ok=True)
    write_json(run_dir / "ends" / f"trainer-{rank:05}.json", {**end, "by": "trainer", "number": rank, "consequence": False, "time": time.time()})


def host_name() -> str:
    return os.uname().nodename


def git_state(directory: Path) -> dict[str, str] | None:
    """Commit and branch, read from .git."""
    try:
        for parent in (directory, *directory.parents):
            git = parent / ".git"
            if git.is_file() and git.read_text().startswith("gitdir: "):  # a linked working tree
                git = parent / git.read_text()[8:].strip()
            if not (git / "HEAD").is_file():
                continue
            head = (git / "HEAD").read_text().strip()
            if not head.startswith("ref: "):
                return {"commit": head, "branch": ""}
            return {"commit": _commit_of(git, head[5:]), "branch": head[5:].removeprefix("refs/heads/")}
    except OSError:
        pass
    return None


def _commit_of(git: Path, ref: str) -> str:
    shared = git / (git / "commondir").read_text().strip() if (git / "commondir").is_file() else git
    if (shared / ref).is_file():
        return (shared / ref).read_text().strip()
    if (shared / "packed-refs").is_file():
        for line in (shared / "packed-refs").read_text().splitlines():
            if line.endswith(" " + ref):
                return line.split(" ", 1)[0]
    return ""
