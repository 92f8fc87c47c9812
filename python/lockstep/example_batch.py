"""Where the example batch comes from: a function, a file of arrays, or the data of a run file, read by Lockstep itself."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch

from lockstep.sources import Refused, Sources, code_of_the_user

TRAINER = "lockstep-trainer"
RUN_FILES = (".yaml", ".yml", ".json")
READING_S = 600  # a run's data may lie far away


def read_batch(text: str, sources: Sources, ranks: int, overrides: list[str]) -> dict[str, torch.Tensor]:
    """`ranks` and `overrides`: of the run, for a run file."""
    if text.endswith(RUN_FILES):
        return batch_of_run(text, ranks, overrides)
    if overrides:
        raise Refused(f"--set {overrides[0]}: changes a run file, but --batch {text} is none")
    if text.endswith(".npz"):
        return arrays_of(text)
    function = sources.find(text)
    with code_of_the_user():
        given = function()
    if not isinstance(given, dict) or not all(isinstance(value, torch.Tensor) for value in given.values()):
        raise Refused(f"--batch {text}: the function must return a dictionary of tensors")
    return given


def arrays_of(path: str) -> dict[str, torch.Tensor]:
    import numpy

    try:
        with numpy.load(path, allow_pickle=False) as arrays:
            return {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    except FileNotFoundError:
        raise Refused(f"{path}: no such file") from None
    except Exception as error:
        raise Refused(f"{path}: is no usable .npz file: {error}") from error


def batch_of_run(path: str, ranks: int, overrides: list[str]) -> dict[str, torch.Tensor]:
    """The first batch of a rank, as the trainer loads it: the run's own reader, sampler and transforms."""
    place = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    nobody = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}  # part of a rank's place; none is asked
    environment = {**os.environ, **place, **nobody}
    with tempfile.TemporaryDirectory() as directory:
        file = os.path.join(directory, "batch.safetensors")
        try:
            ended = subprocess.run([trainer(), "--first-batch", file, path, *overrides], env=environment, text=True,
                                   stdin=subprocess.DEVNULL, capture_output=True, timeout=READING_S)
        except subprocess.TimeoutExpired:
            raise OSError(f"--batch {path}: no batch was read within {READING_S} s") from None
        if ended.returncode != 0:
            raise wrong(path, ended)
        return in_order(file)


def trainer() -> str:
    """On the search path, or built in the sources that this package is a part of."""
    built = Path(__file__).resolve().parents[2] / "build" / "bin" / TRAINER
    found = shutil.which(TRAINER) or (str(built) if os.access(built, os.X_OK) else None)
    if found is None:
        raise Refused(f"--batch of a run file needs {TRAINER}, which reads its data: it is neither on the PATH nor in "
                      f"{built.parent}; build it, or give an .npz file or a function")
    return found


def wrong(path: str, ended: "subprocess.CompletedProcess[str]") -> Exception:
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    line = lines[-1].removeprefix(f"{TRAINER}: error: ") if lines else f"{TRAINER} ended with {ended.returncode}"
    return Refused(f"--batch {path}: {line}") if ended.returncode == 78 else OSError(f"--batch {path}: {line}")


def in_order(file: str) -> dict[str, torch.Tensor]:
    """Fields in the order of the file, which is the dataset's: safetensors sorts them."""
    from safetensors.torch import load_file

    with open(file, "rb") as content:
        header = json.loads(content.read(int.from_bytes(content.read(8), "little")))
    tensors = load_file(file)
    return {name: tensors[name] for name in header if name in tensors}
