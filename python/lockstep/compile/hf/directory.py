"""A model directory of transformers: config.json and, optionally, weights. Does not import torch or transformers."""

import json
from pathlib import Path

from lockstep.compile.package_cache import checksum
from lockstep.compile.sources import Refused

MAX_CONFIG = 1 << 20  # bytes
MAX_INDEX = 64 << 20
TIMM = "timm_wrapper"  # the model_type of timm's models in transformers
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack")


class ModelDirectory:
    """Reads and verifies the files, except for the tensors. Raises Refused."""

    def __init__(self, path: str):
        self.path = Path(path)
        if not self.path.is_dir():
            raise Refused(f"hf:{path}: no such directory; expected one with config.json, as save_pretrained of transformers writes")
        self.config = self._read_json("config.json", MAX_CONFIG, "a model directory of transformers has one")
        self.weights = self._weights()

    @property
    def is_of_timm(self) -> bool:
        """timm writes no model_type."""
        return self.config.get("model_type", TIMM) == TIMM and "pretrained_cfg" in self.config

    def checksums(self) -> dict[str, str]:
        """Of every file that the package depends on."""
        names = ["config.json", "generation_config.json", INDEX, *self.weights]
        return {name: checksum(self.path / name) for name in names if (self.path / name).is_file()}

    def _weights(self) -> list[str]:
        """The names of the files; none if the directory contains no weights."""
        if (self.path / WEIGHTS).is_file():
            return [WEIGHTS]
        if (self.path / INDEX).is_file():
            return self._shards()
        pickled = [name for name in PICKLED if (self.path / name).is_file()]
        if pickled:
            raise Refused(f"{self.path / pickled[0]}: only weights in safetensors are read; convert them with "
                          f"save_pretrained of transformers, or remove the file to start from random weights")
        return []

    def _shards(self) -> list[str]:
        index = self._read_json(INDEX, MAX_INDEX)
        files = index.get("weight_map")
        if not isinstance(files, dict) or not files or not all(isinstance(name, str) for name in files.values()):
            raise Refused(f"{self.path / INDEX}: expected weight_map, an object of tensor and file names")
        names = sorted(set(files.values()))
        for name in names:
            if Path(name).name != name:
                raise Refused(f"{self.path / INDEX}: '{name}' is not the name of a file in the same directory")
            if not (self.path / name).is_file():
                raise Refused(f"{self.path / INDEX}: names {name}, which does not exist")
        return names

    def _read_json(self, name: str, limit: int, why: str = "") -> dict:
        path = self.path / name
        try:
            with open(path, "rb") as file:
                content = file.read(limit + 1)
        except FileNotFoundError:
            raise Refused(f"{path}: no such file: {why}") from None
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
