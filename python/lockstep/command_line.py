"""lockstep-compile: the command."""

import argparse
import contextlib
import importlib.util
import sys
import time
import warnings
from pathlib import Path
from types import ModuleType
from typing import Callable, Iterator

USAGE = """\
usage: lockstep-compile MODEL.py:FUNCTION --loss LOSS --batch BATCH [-o model.ls2]

Compiles the model that FUNCTION() returns, with its loss and gradients, into one file, which
lockstep-trainer trains on any number of ranks and without Python: model: {name: compiled, package: model.ls2}

      --loss arg         cross_entropy, mse, model (the model returns its loss itself), or the name of a
                         function (model, batch) in MODEL.py or FILE.py:FUNCTION
      --batch arg        an example: a .npz file with an array per field, samples first, or the name of a
                         function in MODEL.py or FILE.py:FUNCTION that returns {field: tensor}
  -o, --out arg          what is written (default: model.ls2)
      --dynamic-batch    train on batches of any size; default: of the example's size only, which is often
                         faster. Evaluation always takes any size
      --precision arg    fp32, or bf16 for autocast to bfloat16 (default: fp32)
      --device arg       cpu or cuda, the GPU of this machine (default: cpu)
      --threads arg      of the generated loops on a CPU (default: 1)
      --seed arg         of torch.manual_seed before FUNCTION() (default: 0)
      --help             this text

Fields: forward() of the model gets the fields that it names, or else all but the target, in their order. The target of
cross_entropy and mse is the field label, labels, target or targets. g++ is needed here, and not where the model is trained.

The loss is a mean over samples. Targets of -100, which count for nothing, are refused with cross_entropy and model: a function
of your own can weight them, and for text the model gpt, which needs no compiling, takes means over tokens.

Exit codes: 0 done, 78 the input is wrong, 75 a full disk or no g++, 70 a fault of this package or the compiler.
"""


class Refused(Exception):
    pass


@contextlib.contextmanager
def code_of_the_user() -> Iterator[None]:
    """Whatever goes wrong in it is input that is wrong."""
    try:
        yield
    except Exception as error:
        raise Refused(described(error)) from error


def described(error: Exception) -> str:
    from lockstep.compiling import place_of
    from lockstep.errors import one_line

    return f"{type(error).__name__}: {one_line(error)}{place_of(error)}"


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise Refused(f"{message}; see lockstep-compile --help")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("model")
    parser.add_argument("--loss", required=True)
    parser.add_argument("--batch", required=True)
    parser.add_argument("-o", "--out", default="model.ls2")
    parser.add_argument("--dynamic-batch", action="store_true")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


class Sources:
    """Python files of the user, each loaded once."""

    def __init__(self, model: str):
        self.file, self.function = split(model)
        if not self.function:
            raise Refused(f"'{model}' names no function: write FILE.py:FUNCTION")
        self._modules: dict[str, ModuleType] = {}

    def load(self, file: str) -> ModuleType:
        if file not in self._modules:
            path = Path(file)
            if not path.is_file():
                raise Refused(f"{file}: no such file")
            sys.path.insert(0, str(path.resolve().parent))
            spec = importlib.util.spec_from_file_location(path.stem, path)
            if spec is None or spec.loader is None:
                raise Refused(f"{file}: is no Python file")
            module = importlib.util.module_from_spec(spec)
            sys.modules.setdefault(path.stem, module)
            with code_of_the_user():
                spec.loader.exec_module(module)
            self._modules[file] = module
        return self._modules[file]

    def find(self, text: str) -> Callable[..., object]:
        """The function FILE.py:NAME, or NAME in the model's file."""
        file, name = split(text)
        if not name:
            file, name = self.file, text
        module = self.load(file)
        found = getattr(module, name, None)
        if not callable(found):
            functions = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")
                         and getattr(value, "__module__", "") == module.__name__]
            raise Refused(f"{file} has no function '{name}'; it has {', '.join(functions) or 'none'}")
        return found


def split(text: str) -> tuple[str, str]:
    file, colon, name = text.rpartition(":")
    return (file, name) if colon else (text, "")


def read_batch(text: str, sources: Sources) -> dict[str, object]:
    import numpy
    import torch

    if not text.endswith(".npz"):
        function = sources.find(text)
        with code_of_the_user():
            given = function()
        if not isinstance(given, dict) or not all(isinstance(value, torch.Tensor) for value in given.values()):
            raise Refused(f"--batch {text}: the function must return a dictionary of tensors")
        return given
    try:
        with numpy.load(text, allow_pickle=False) as arrays:
            return {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    except FileNotFoundError:
        raise Refused(f"{text}: no such file") from None
    except Exception as error:
        raise Refused(f"{text}: is no usable .npz file: {error}") from error


def act(options: argparse.Namespace) -> None:
    if options.threads < 1:
        raise Refused("--threads: expected at least 1")
    out = Path(options.out)
    if not out.resolve().parent.is_dir():
        raise Refused(f"--out {out}: there is no folder {out.resolve().parent}")
    if out.is_dir():
        raise Refused(f"--out {out}: is a folder")
    import torch
    from torch import nn

    from lockstep.compiling import compile_step
    from lockstep.losses import LOSSES

    begin = time.monotonic()
    sources = Sources(options.model)
    make_model = sources.find(options.model)
    torch.manual_seed(options.seed)
    with code_of_the_user():
        module = make_model()
    if not isinstance(module, nn.Module):
        raise Refused(f"{options.model} returns a {type(module).__name__}, not a torch.nn.Module")
    loss = options.loss if options.loss in LOSSES else sources.find(options.loss)
    compile_step(module, loss, read_batch(options.batch, sources), out, dynamic_batch=options.dynamic_batch,
                 precision=options.precision, device=options.device, threads=options.threads,
                 report=lambda line: print(line, flush=True))
    print(f"done: {out} ({out.stat().st_size / 1e6:.1f} MB, {time.monotonic() - begin:.0f} s)\n"
          f"train: model: {{name: compiled, package: {out}}} in a run file")


def main(arguments: list[str] | None = None) -> int:
    """`arguments`: of the command line when there are none. Returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or "--help" in arguments or "-h" in arguments:
        print(USAGE, end="")
        return 0 if arguments else 78
    warnings.simplefilter("ignore")  # of torch, about itself
    try:
        act(parse(arguments))
        return 0
    except Exception as error:
        code, message = told(error)
        print(f"lockstep-compile: error: {message}", file=sys.stderr)
        return code


def told(error: Exception) -> tuple[int, str]:
    """The exit code and the message."""
    if isinstance(error, Refused):
        return 78, str(error)
    from lockstep.compiling import place_of
    from lockstep.errors import CompileError, CompilerFault

    if isinstance(error, CompileError):
        return 78, str(error)
    if isinstance(error, CompilerFault):
        return 70, str(error)
    if place_of(error):
        return 78, described(error)
    return (75, str(error)) if isinstance(error, OSError) else (70, described(error))


if __name__ == "__main__":
    sys.exit(main())
