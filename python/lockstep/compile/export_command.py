"""lockstep-compile export: the evaluation graph of a package with the weights of a checkpoint, for other programs."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.compile import PACKAGE_FORMAT
from lockstep.compile.cache_files import new_file
from lockstep.compile.hf.directory import INDEX_ENDING, files_of_index
from lockstep.compile.sources import Parser, Refused

if TYPE_CHECKING:
    import torch

    from lockstep.compile.losses import Batch
    from lockstep.compile.prediction import Predictor

USAGE = """\
usage: lockstep-compile export CHECKPOINT --format aoti|pt2 --out FILE.pt2 [--package PACKAGE]

Writes the evaluation graph of a compiled package, from the fields of a batch to the predictions, with the weights of a
checkpoint of a run: RUN/checkpoints/STEP; the averaged weights, if it has some. `lockstep ckpt export RUN` calls it.

      --format arg       aoti: compiled by AOTInductor, for its loaders in C++ and Python, on processors like this one;
                         pt2: for torch.export.load() in Python
  -o, --out arg          output file, which must not exist; its directory is made
      --package arg      the package (default: the one that the run trained, which must be unchanged)
      --help             show this help

aoti requires g++. Exit codes: 0 success, 78 invalid input, 75 disk full, no torch or no g++, 70 internal error.
"""


DTYPES = "bool|bfloat16|float(16|32|64)|int(8|16|32|64)|uint8"


class Checkpoint:
    """A checkpoint of Lockstep. Raises Refused if it is not one."""

    def __init__(self, path: str):
        self.path = Path(path).resolve()
        try:
            content = json.loads((self.path / "manifest.json").read_text())["content"]
            self.step, self.base = content["step"], base_of(content.get("base"))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise Refused(f"{path}: not a checkpoint; expected a directory RUN/checkpoints/STEP") from None
        self.run = self.path.parents[1].name
        averaged = sorted(self.path.glob("ema*.safetensors"))
        self.weights = "averaged" if averaged else "trained"
        self.files = averaged or sorted(self.path.glob("model*.safetensors"))

    def reference(self) -> tuple[str, int]:
        """The path of the package and the checksum of its manifest."""
        try:
            named = json.loads((self.path / "compiled_package.json").read_text())
            return str(named["package"]), int(named["manifest_crc32"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise Refused(f"{self.path}: names no package: the run did not train a compiled package; or, if it is of an earlier "
                          "version, name it with --package") from None

    def tensors(self, package: str | None) -> dict[str, torch.Tensor]:
        """With adapters, those that are not trained come from the base model: `package`, if it has them, or the file that the
        checkpoint names, the package that was trained or the file of train.init_from."""
        from safetensors.torch import load_file

        trained = {name: tensor for file in self.files for name, tensor in load_file(file).items()}
        if self.base is None:
            return trained
        path, checksums = self.base
        if package is not None and package != str(path):
            try:
                return {**base_tensors(Path(package), checksums), **trained}
            except Refused:
                if not path.exists():
                    raise
        return {**base_tensors(path, checksums), **trained}


def base_tensors(path: Path, checksums: dict[str, int]) -> dict[str, torch.Tensor]:
    """Those of a base model, verified. `path`: safetensors, an index of several, or a package."""
    import torch

    from lockstep.compile.checksums import crc32c

    try:
        stored = stored_tensors(path)
    except Refused as error:
        raise Refused(f"base model: {error}; the checkpoint contains only what was trained: put the original files there") from error
    except Exception as error:
        raise Refused(f"base model {path}: {error}; the checkpoint contains only what was trained: put the original file there") from error
    for name, checksum in checksums.items():
        changed = name in stored and crc32c(stored[name].contiguous().reshape(-1).view(torch.uint8).numpy()) != checksum
        if changed or name not in stored:
            raise Refused(f"base model {path}: '{name}' has {'changed' if changed else 'been removed'} since the checkpoint was written, "
                          "which contains only what was trained: put the original file there")
    return {name: stored[name] for name in checksums}


def stored_tensors(path: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load, load_file

    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return load(archive.read("weights.safetensors"))
    files = [path.parent / name for name in files_of_index(path)] if path.name.endswith(INDEX_ENDING) else [path]
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def base_of(described: dict[str, Any] | None) -> tuple[Path, dict[str, int]] | None:
    """The file of the base model of a checkpoint, and the checksums of the tensors that it has instead of the checkpoint. None: no
    base model."""
    return (Path(described["path"]), dict(described["checksums"])) if described and described["path"] else None


class Package:
    """A compiled package with a graph for export. `crc32`: of its manifest; None: any. Raises Refused."""

    def __init__(self, path: str, crc32: int | None):
        self.path = path
        if not os.path.isfile(path):
            raise Refused(f"{path}: no such file: put the package of the run there, or name it with --package")
        try:
            with zipfile.ZipFile(path) as archive:
                content = archive.read("manifest.json")
                self.manifest = verified(json.loads(content))
                self.graph = archive.read("predict.pt2") if "predict.pt2" in archive.namelist() else b""
        except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, RuntimeError) as error:
            raise Refused(f"{path}: not a package of lockstep-compile, or corrupt ({error})") from error
        if self.manifest["format"] > PACKAGE_FORMAT:
            raise Refused(f"{path}: has package format {self.manifest['format']}, expected at most {PACKAGE_FORMAT}: update lockstep")
        if crc32 is not None and zlib.crc32(content) != crc32:
            raise Refused(f"{path}: is another package than the one that the run trained: compiled again since? Name a package with "
                          "the graph to export with --package")
        if self.manifest["format"] < PACKAGE_FORMAT:
            raise Refused(f"{path}: has no graph for export, because an earlier version compiled it: compile the model again, and "
                          "name the new package with --package")
        if not self.graph and self.manifest.get("unexported"):
            raise Refused(f"{path}: has no graph for export, because torch could not export its predictions when it was compiled: "
                          f"{self.manifest['unexported']}")
        if not self.graph:
            raise Refused(f"{path}: its loss function returns no predictions, so there is nothing to export: return 'predictions', "
                          "compile again, and name the new package with --package")

    def inputs(self) -> list[dict[str, Any]]:
        fields = {field["name"]: field for field in self.manifest["fields"]}
        return [fields[name] for name in self.manifest["inputs"]]

    def state(self, checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
        """The weights of the checkpoint, in the order of the graph."""
        from lockstep.compile.packing import describe

        given, state = checkpoint.tensors(self.path), {}
        for spec in (*self.manifest["parameters"], *self.manifest["buffers"]):
            name = spec["name"]
            found = describe(name, given[name]) if name in given else {}
            if any(found.get(key) != spec[key] for key in ("dtype", "shape")):
                has = text_of(found) if found else "none"
                raise Refused(f"{self.path}: does not fit the checkpoint: its weight '{name}' is {text_of(spec)}, the checkpoint has {has}")
            state[name] = given[name].to(self.manifest["device"])
        return state


def verified(manifest: Any) -> dict[str, Any]:
    """The manifest. Raises ValueError if it lacks what an export reads."""
    if not isinstance(manifest, dict) or type(manifest.get("format")) is not int:
        raise ValueError("its manifest has no format")
    types = {"parameters": list, "buffers": list, "fields": list, "inputs": list, "torch": str, "device": str, "precision": str,
             "threads": int}
    for key, kind in types.items() if manifest["format"] == PACKAGE_FORMAT else []:
        if not isinstance(manifest.get(key), kind):
            raise ValueError(f"its manifest has no '{key}'")
    for key in ("parameters", "buffers", "fields") if manifest["format"] == PACKAGE_FORMAT else []:
        if not all(is_tensor(spec) for spec in manifest[key]):
            raise ValueError(f"'{key}' of its manifest has an invalid tensor")
    if manifest["format"] == PACKAGE_FORMAT and not {*map(str, manifest["inputs"])} <= {field["name"] for field in manifest["fields"]}:
        raise ValueError("'inputs' of its manifest has a name that is not in 'fields'")
    return manifest


def is_tensor(spec: Any) -> bool:
    """Whether this entry of a manifest has a name, a type and a shape."""
    return (isinstance(spec, dict) and isinstance(spec.get("name"), str) and re.fullmatch(DTYPES, str(spec.get("dtype"))) is not None
            and isinstance(spec.get("shape"), list) and all(type(size) is int and size >= 0 for size in spec["shape"]))


def text_of(spec: dict[str, Any], batch: str = "") -> str:
    return f"{spec['dtype']} [{', '.join([*([batch] if batch else []), *map(str, spec['shape'])])}]"


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(add_help=False, allow_abbrev=False, prog="lockstep-compile export")
    parser.add_argument("checkpoint")
    parser.add_argument("--format", choices=["aoti", "pt2"], required=True)
    parser.add_argument("-o", "--out", required=True)
    parser.add_argument("--package")
    options = parser.parse_args(arguments)
    out = Path(options.out)
    if out.suffix != ".pt2":
        raise Refused(f"--out {out}: must end with .pt2")
    if out.exists():
        raise Refused(f"--out {out}: exists already")
    return options


def export(arguments: list[str]) -> None:
    options = parse(arguments)
    begin = time.monotonic()
    checkpoint = Checkpoint(options.checkpoint)
    named, crc32 = (options.package, None) if options.package else checkpoint.reference()
    package = Package(named, crc32)
    try:
        import torch
        from safetensors import torch as _  # noqa: F401
    except ImportError as error:
        raise OSError(f"{error} in the environment {sys.prefix}: pip install 'lockstep[compile]'") from error
    if package.manifest["device"] == "cuda" and not torch.cuda.is_available():
        raise Refused(f"{named}: was compiled for device cuda, and this machine has no GPU")
    out = Path(options.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    largest = write(options.format, package, checkpoint, out)
    inputs = ", ".join(f"{field['name']} {text_of(field, 'B')}" for field in package.inputs())
    print(f"{checkpoint.weights} weights of step {checkpoint.step}\ninputs: {inputs}")
    if largest:
        print(f"warning: batches of at most {largest} samples: larger ones could not be compared with Python")
    print(f"done: {out} ({out.stat().st_size / 1e6:.1f} MB, {time.monotonic() - begin:.0f} s)")


def write(form: str, package: Package, checkpoint: Checkpoint, out: Path) -> int:
    """Returns the largest batch size; 0: any."""
    import torch

    from lockstep.compile.compiler import verify_compiler
    from lockstep.compile.errors import one_line, quiet
    from lockstep.compile.prediction import load_predictor, predictor_program

    if form == "aoti":
        verify_compiler()
    state = package.state(checkpoint)
    try:
        predictor = load_predictor(package.graph, state, {spec["name"] for spec in package.manifest["parameters"]})
    except Exception as error:
        raise Refused(f"{package.path}: torch {torch.__version__} cannot read its graph, of torch {package.manifest['torch']}: "
                      f"{one_line(error)}") from error
    about = {"run": checkpoint.run, "step": str(checkpoint.step), "weights": checkpoint.weights,
             "inputs": ", ".join(package.manifest["inputs"]), "torch": torch.__version__.split("+")[0]}
    with new_file(out, replaces=False) as file:
        if form == "aoti":
            library, largest = compile_predictor(predictor, package, about)
            file.write(library)
            return largest
        program = predictor_program(predictor, example_of(package, sizes_of(predictor, package)[0]))
        program.example_inputs = None  # a batch of random numbers
        with quiet():
            torch.export.save(program, file, extra_files={"lockstep.json": json.dumps(about)})
    return 0


def example_of(package: Package, size: int) -> Batch:
    """A batch of random numbers; of integers, ones, which are valid as tokens, classes and masks."""
    import torch

    made = {}
    for field in package.inputs():
        shape, dtype = [size, *field["shape"]], getattr(torch, field["dtype"])
        made[field["name"]] = (torch.randn(shape) if dtype.is_floating_point else torch.ones(shape)).to(package.manifest["device"], dtype)
    return made


def sizes_of(predictor: Predictor, package: Package) -> list[int]:
    from lockstep.compile.batch_sizes import trace_sizes

    return trace_sizes([*predictor.state_dict().values(), *example_of(package, 1).values()])


def compile_predictor(predictor: Predictor, package: Package, about: dict[str, str]) -> tuple[bytes, int]:
    """The package of AOTInductor, and the largest batch size; 0: any."""
    from lockstep.compile.batch_sizes import FixedSize
    from lockstep.compile.compiler import compiled_for_loaders
    from lockstep.compile.errors import CompileError
    from lockstep.compile.passes import bytes_of, sizes_around
    from lockstep.compile.prediction import predictor_program

    reason: Exception | None = None
    for size in sizes_of(predictor, package):
        program = predictor_program(predictor, example_of(package, size))
        try:
            code = compiled_for_loaders(program, package.manifest["device"], package.manifest["threads"], about)
        except FixedSize as error:
            reason = error
            continue
        sizes, largest = sizes_around(set(code.turning_points), size, size, bytes_of(program.graph_module))
        verify(code.library, predictor, package, sizes)
        return code.library, largest
    raise CompileError(f"{package.path}: its graph does not support batches of any size: {reason}")


def verify(library: bytes, predictor: Predictor, package: Package, sizes: list[int]) -> None:
    """Raises CompilerFault if the compiled code returns something else than the graph in Python."""
    import io

    import torch

    from lockstep.compile.comparing import TOLERANCE, allowed_for, check_equal
    from lockstep.compile.errors import quiet
    from lockstep.compile.trial import equal

    with torch.no_grad(), quiet():
        compiled = torch._inductor.aoti_load_package(io.BytesIO(library))
        for size in sizes:
            batch = tuple(example_of(package, size).values())
            expected = predictor(*batch)
            if not equal(expected, predictor(*batch)):
                print("the predictions draw random numbers: they are not compared")
                return
            check_equal(f"the prediction of the compiled code for a batch of {size}", compiled(*batch), expected,
                        allowed_for(expected, TOLERANCE[package.manifest["precision"]]))
