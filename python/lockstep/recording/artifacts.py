"""Artifacts: files that outlive a run, in the store next to the run directories. The command `lockstep` keeps the store."""

import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Iterable

from lockstep.programs import find_program
from lockstep.recording.values import plain

TIMEOUT_S = 600


class Artifact:
    """A version of an artifact to be made: a name, a type, and files."""

    def __init__(self, name: str, type: str = "files", description: str | None = None, metadata: dict[str, Any] | None = None) -> None:
        self.name, self.type = name, type
        self.metadata = dict(metadata or {})
        if description:
            self.metadata["description"] = description
        self.files: list[tuple[Path, str]] = []
        self.version = ""
        self.digest = ""
        self._store: Path | None = None

    def add_file(self, local_path: str, name: str | None = None, **_ignored: Any) -> None:
        path = Path(local_path)
        if not path.is_file():
            raise ValueError(f"artifact {self.name}: {path} is not a file")
        self.files.append((path, name or path.name))

    def add_dir(self, local_path: str, name: str | None = None, **_ignored: Any) -> None:
        root = Path(local_path)
        if not root.is_dir():
            raise ValueError(f"artifact {self.name}: {root} is not a directory")
        prefix = f"{name}/" if name else ""
        self.files.extend((path, prefix + str(path.relative_to(root))) for path in sorted(root.rglob("*")) if path.is_file())

    def add(self, path: Any) -> None:
        """A file or directory."""
        (self.add_dir if Path(path).is_dir() else self.add_file)(str(path))

    def wait(self, timeout: int | None = None) -> "Artifact":
        return self

    def download(self, root: str | None = None, **_ignored: Any) -> str:
        """Copies the files to a new directory, whose path it returns."""
        target = root or f"{self.name}-{self.version}"
        if self._store is None:
            raise ValueError(f"artifact {self.name}: log it or get it from use_artifact() first")
        _call("get", f"{self.name}:{self.version}", "-o", target, store=self._store)
        return target


def _call(*words: str, store: Path, wants_json: bool = False) -> Any:
    command = find_program("lockstep")
    if command is None:
        raise OSError("artifacts need the command lockstep, which is neither on PATH nor next to the interpreter")
    ended = subprocess.run([command, "artifacts", *words, "--dir", str(store), *(["--json"] if wants_json else [])], capture_output=True, text=True,
                           timeout=TIMEOUT_S)
    if ended.returncode != 0:
        raise OSError(ended.stderr.strip().removeprefix("lockstep: error: "))
    return json.loads(ended.stdout) if wants_json else None


def publish(store: Path, run: str, artifact: Artifact, aliases: Iterable[str]) -> tuple[Artifact, dict[str, Any]]:
    """The artifact, which the run `run` made, and what the event log of the run records."""
    options = ["--type", artifact.type, "--made-by", run]
    for alias in aliases:
        if alias != "latest":
            options += ["--alias", alias]
    for key, value in plain(artifact.metadata).items():
        options += ["--metadata", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
    with tempfile.TemporaryDirectory(prefix="lockstep-artifact-") as directory:
        for path, target in artifact.files:
            copy = Path(directory) / target
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.unlink(missing_ok=True)  # of two files with one name the last; a copy would be written into the first
            try:
                copy.hardlink_to(path.resolve())
            except OSError:
                shutil.copyfile(path, copy)
        made = _call("put", artifact.name, directory, *options, store=store, wants_json=True)
    return artifact, _record_of(artifact, made, store, is_made=True)


def use(store: Path, run: str, reference: Any) -> tuple[Artifact, dict[str, Any]]:
    """As publish()."""
    reference = f"{reference.name}:{reference.version}" if isinstance(reference, Artifact) else str(reference)
    found = _call("show", reference, "--used-by", run, store=store, wants_json=True)
    artifact = Artifact(found["name"], found["type"], metadata=found.get("metadata"))
    return artifact, _record_of(artifact, found, store, is_made=False)


def _record_of(artifact: Artifact, stored: dict[str, Any], store: Path, is_made: bool) -> dict[str, Any]:
    version = int(str(stored["version"]).removeprefix("v"))
    artifact.version, artifact.digest, artifact._store = f"v{version}", stored["digest"], store
    return {"time": time.time(), "name": artifact.name, "type": artifact.type, "version": version, "digest": artifact.digest,
            "aliases": list(stored.get("aliases", [])), "metadata": plain(artifact.metadata), "made": is_made}
