"""--lora and --adapter of lockstep-compile hf:DIR: which adapters are trained. Does not import torch."""

import difflib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from lockstep.compile.hf.directory import MAX_CONFIG, read_json
from lockstep.compile.package_cache import checksum
from lockstep.compile.sources import Refused

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"


@dataclass(frozen=True)
class Lora:
    """New adapters. The names and defaults are those of `lora` in a run file. No targets: all linear layers except the last one."""

    rank: int
    alpha: float = 16
    dropout: float = 0
    targets: tuple[str, ...] = ()
    rslora: bool = False
    dora: bool = False
    modules_to_save: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """For messages."""
        return "--lora"

    def facts(self) -> object:
        """What a package depends on."""
        return vars(self)


class AdapterDirectory:
    """An adapter to continue, as PEFT's save_pretrained() writes it. Raises Refused."""

    def __init__(self, path: str):
        self.path = Path(path)
        for name in (CONFIG, WEIGHTS):
            if not (self.path / name).is_file():
                raise Refused(f"--adapter {path}: has no {name}: expected a directory written by PEFT's save_pretrained()")
        kind = read_json(self.path / CONFIG, MAX_CONFIG).get("peft_type")
        if kind != "LORA":
            raise Refused(f"{self.path / CONFIG}: peft_type '{kind}' is not supported, only LORA")

    @property
    def source(self) -> str:
        return str(self.path)

    def facts(self) -> object:
        return [checksum(self.path / name) for name in (CONFIG, WEIGHTS)]


class Returned:
    """Adapters in the model of PEFT that a user's function returns."""

    source = "the model of PEFT"  # for messages


def names_in(text: str) -> tuple[str, ...]:
    names = tuple(text.split("+"))
    if not all(names):
        raise ValueError
    return names


def number_in(low: Callable[[float], bool]) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = float(text)
        if not (math.isfinite(value) and low(value)):
            raise ValueError
        return value

    return parse


def whole_number(text: str) -> int:
    if not 1 <= int(text) <= 1 << 20:
        raise ValueError
    return int(text)


def flag(text: str) -> bool:
    return {"true": True, "false": False}[text]


# name: how its value is read, and what is valid
SETTINGS: dict[str, tuple[Callable[[str], object], str]] = {
    "rank": (whole_number, "an integer of at least 1"),
    "alpha": (number_in(lambda value: value > 0), "a number above 0"),
    "dropout": (number_in(lambda value: 0 <= value < 1), "a number of at least 0 and below 1"),
    "targets": (names_in, "names of layers, e.g. q_proj+v_proj"),
    "rslora": (flag, "true or false"),
    "dora": (flag, "true or false"),
    "modules_to_save": (names_in, "names of modules, e.g. lm_head+embed_tokens"),
}


def lora_of(text: str) -> Lora:
    """Parses rank=16,alpha=32,targets=q_proj+v_proj. Raises Refused."""
    given: dict[str, object] = {}
    for word in text.split(","):
        name, _, value = word.partition("=")
        if name not in SETTINGS:
            near = difflib.get_close_matches(name, SETTINGS, 1)
            raise Refused(f"--lora {text}: unknown setting '{name}'; " + (f"did you mean '{near[0]}'?" if near else
                          f"valid: {', '.join(SETTINGS)}, as in rank=16,alpha=32,targets=q_proj+v_proj"))
        parse, valid = SETTINGS[name]
        try:
            given[name] = parse(value)
        except (ValueError, KeyError):
            raise Refused(f"--lora {text}: {name}: '{value}' is not valid, expected {valid}") from None
    if "rank" not in given:
        raise Refused(f"--lora {text}: rank is missing, e.g. --lora rank=16,alpha=32")
    return Lora(**given)  # type: ignore[arg-type]


def missing_peft() -> Refused:
    return Refused("adapters need the Python package peft, which is not installed: pip install 'lockstep[hf]', or pip install peft==0.21.2")
