"""A model directory of transformers, timm or diffusers: config.json and, optionally, weights. Does not import torch."""

import json
from pathlib import Path

from lockstep.compile.package_cache import checksum
from lockstep.compile.sources import Refused

MAX_CONFIG = 1 << 20  # bytes
MAX_INDEX = 64 << 20
TIMM = "timm_wrapper"  # the model_type of timm's models in transformers
WEIGHTS = "model.safetensors"
INDEX_ENDING = ".safetensors.index.json"
INDEX = f"model{INDEX_ENDING}"
WEIGHTS_OF_DIFFUSERS = "diffusion_pytorch_model.safetensors"
PIPELINE = "model_index.json"  # of diffusers; the model and its scheduler are in subdirectories
VERSIONS = {"timm": "1.0.31", "diffusers": "0.42.1"}  # tested
DENOISERS = ("unet", "transformer")
SCHEDULE = "scheduler_config.json"
PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack", "diffusion_pytorch_model.bin")


class ModelDirectory:
    """Reads and verifies the files, except for the tensors. Raises Refused."""

    def __init__(self, path: str):
        self.path = Path(path)
        if not self.path.is_dir():
            raise Refused(f"hf:{path}: no such directory; expected one with config.json, as save_pretrained of transformers writes")
        pipeline = (self.path / PIPELINE).is_file()
        self.schedule_path = self.path / "scheduler" / SCHEDULE if pipeline else self.path / SCHEDULE
        self.schedule = read_json(self.schedule_path, MAX_CONFIG) if self.schedule_path.is_file() else {}
        if pipeline:
            self.path = self._denoiser()
        self.config = read_json(self.path / "config.json", MAX_CONFIG, "a model directory of transformers has one")
        self.index = f"{WEIGHTS_OF_DIFFUSERS}.index.json" if self.is_of_diffusers else INDEX
        self.weights = self._weights()

    @property
    def is_of_diffusers(self) -> bool:
        return "_class_name" in self.config and "model_type" not in self.config

    @property
    def library(self) -> str:
        return "timm" if self.is_of_timm else "diffusers" if self.is_of_diffusers else "transformers"

    def missing_library(self) -> Refused:
        """timm or diffusers."""
        return Refused(f"{self.path / 'config.json'}: a model of {self.library} needs the Python package {self.library}, which is not "
                       f"installed: pip install 'lockstep[{self.library}]', or pip install {self.library}=={VERSIONS[self.library]}")

    @property
    def is_of_timm(self) -> bool:
        """timm writes no model_type."""
        return self.config.get("model_type", TIMM) == TIMM and "pretrained_cfg" in self.config

    def checksums(self) -> dict[str, str]:
        """Of every file that the package depends on."""
        names = ["config.json", "generation_config.json", self.index, *self.weights]
        found = {name: checksum(self.path / name) for name in names if (self.path / name).is_file()}
        return {**found, SCHEDULE: checksum(self.schedule_path)} if self.schedule_path.is_file() else found

    def _denoiser(self) -> Path:
        """The directory of the model in a pipeline."""
        for name in DENOISERS:
            if (self.path / name / "config.json").is_file():
                return self.path / name
        raise Refused(f"{self.path / PIPELINE}: the pipeline has no model to train; expected {' or '.join(DENOISERS)} with config.json")

    def _weights(self) -> list[str]:
        """The names of the files; none if the directory contains no weights."""
        whole = WEIGHTS_OF_DIFFUSERS if self.is_of_diffusers else WEIGHTS
        if (self.path / whole).is_file():
            return [whole]
        if (self.path / self.index).is_file():
            return files_of_index(self.path / self.index)
        pickled = [name for name in PICKLED if (self.path / name).is_file()]
        if pickled:
            raise Refused(f"{self.path / pickled[0]}: only weights in safetensors are read; convert them with "
                          f"save_pretrained of transformers, or remove the file to start from random weights")
        return []


def files_of_index(path: Path) -> list[str]:
    """The names of the files of an index of weights, which are next to it. Raises Refused."""
    files = read_json(path, MAX_INDEX).get("weight_map")
    if not isinstance(files, dict) or not files or not all(isinstance(name, str) for name in files.values()):
        raise Refused(f"{path}: expected weight_map, an object of tensor and file names")
    names = sorted(set(files.values()))
    for name in names:
        if Path(name).name != name:
            raise Refused(f"{path}: '{name}' is not the name of a file in the same directory")
        if not (path.parent / name).is_file():
            raise Refused(f"{path}: names {name}, which does not exist")
    return names


def read_json(path: Path, limit: int, why: str = "") -> dict:
    """A JSON object. Raises Refused."""
    try:
        with open(path, "rb") as file:
            content = file.read(limit + 1)
    except FileNotFoundError:
        raise Refused(f"{path}: no such file{f': {why}' if why else ''}") from None
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    if len(content) > limit:
        raise Refused(f"{path}: larger than {limit >> 20} MB")
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path}: not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise Refused(f"{path}: expected a JSON object")
    return found
