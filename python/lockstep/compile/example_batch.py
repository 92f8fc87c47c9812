"""Reads the example batch from a function, an array file, or the data of a run file, which lockstep-trainer reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.compile.sources import Refused, Sources, user_code
from lockstep.programs import BUILT, find_program

if TYPE_CHECKING:
    import torch

TRAINER = "lockstep-trainer"
RUN_FILES = (".yaml", ".yml", ".json")
READ_TIMEOUT_S = 600  # the data may be on slow remote storage


def read_batch(text: str, sources: Sources, ranks: int, overrides: list[str]) -> dict[str, torch.Tensor]:
    """`ranks` and `overrides`: used with a run file."""
    if text.endswith(RUN_FILES):
        return batch_of_run(text, ranks, overrides)
    if overrides:
        raise Refused(f"--set {overrides[0]}: --batch {text} is not a run file")
    if text.endswith(".npz"):
        return arrays_of(text)
    import torch

    function = sources.find(text)
    with user_code():
        given = function()
    if not isinstance(given, dict) or not all(isinstance(value, torch.Tensor) for value in given.values()):
        raise Refused(f"--batch {text}: the function must return a dictionary of tensors")
    return given


def arrays_of(path: str) -> dict[str, torch.Tensor]:
    import numpy
    import torch

    try:
        with numpy.load(path, allow_pickle=False) as arrays:
            return {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    except FileNotFoundError:
        raise Refused(f"{path}: no such file") from None
    except Exception as error:
        raise Refused(f"{path}: not a usable .npz file: {error}") from error


def batch_of_run(path: str, ranks: int, overrides: list[str]) -> dict[str, torch.Tensor]:
    """The first batch of a rank."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "batch.safetensors")
        write_batch_of_run(file, path, ranks, overrides)
        return in_order(str(file))


def write_batch_of_run(file: Path, path: str, ranks: int, overrides: list[str]) -> None:
    """Writes the first batch of a rank to `file`: the trainer reads it with the run's dataset, sampler and transforms."""
    rank = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}  # required variables; no connection is made
    environment = {**os.environ, **rank, **master}
    try:
        ended = subprocess.run([trainer(), "--first-batch", file, path, *overrides], env=environment, text=True,
                               stdin=subprocess.DEVNULL, capture_output=True, timeout=READ_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise OSError(f"--batch {path}: reading a batch timed out after {READ_TIMEOUT_S} s") from None
    if ended.returncode != 0:
        raise trainer_error(path, ended)


def trainer() -> str:
    found = find_program(TRAINER)
    if found is None:
        raise Refused(f"--batch with a run file requires {TRAINER} to read its data, which was not found on PATH, next to {sys.executable} "
                      f"or in {BUILT}; build it, or use an .npz file or a function")
    return found


def trainer_error(path: str, ended: "subprocess.CompletedProcess[str]") -> Exception:
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    line = lines[-1].removeprefix(f"{TRAINER}: error: ") if lines else f"{TRAINER} failed with exit code {ended.returncode}"
    return Refused(f"--batch {path}: {line}") if ended.returncode == 78 else OSError(f"--batch {path}: {line}")


def in_order(file: str) -> dict[str, torch.Tensor]:
    """The fields in the order of the file, which is that of the dataset; load_file() would sort them."""
    from safetensors.torch import load_file

    with open(file, "rb") as content:
        header = json.loads(content.read(int.from_bytes(content.read(8), "little")))
    tensors = load_file(file)
    return {name: tensors[name] for name in header if name in tensors}
