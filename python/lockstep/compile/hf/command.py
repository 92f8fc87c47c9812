"""lockstep-compile hf:DIR."""

import argparse
import contextlib
import os
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Iterator

from lockstep.compile.hf.adapter_options import AdapterDirectory, Lora, lora_of, missing_peft
from lockstep.compile.hf.directory import ModelDirectory
from lockstep.compile.package_cache import checksum, key_of, load_package, store_package
from lockstep.compile.sources import Refused, arguments_of

if TYPE_CHECKING:
    from torch import nn

    from lockstep.compile.losses import Batch
    from lockstep.compile.packing import Adapter

PREFIX = "hf:"
DEFAULT_BATCH = "8"
# What a package depends on, besides the files.
OPTIONS = ("task", "length", "dynamic_batch", "segments", "precision", "device", "threads", "seed", "base_dtype")


class Progress:
    """Prints lines, and keeps those that a cached package repeats."""

    def __init__(self, begin: float) -> None:
        self.begin = begin
        self.lines: list[str] = []

    def stage(self, line: str) -> None:
        print(f"[{time.monotonic() - self.begin:3.0f} s] {line}", flush=True)

    def report(self, line: str) -> None:
        if not line.startswith("["):
            self.lines.append(line)
        print(line, flush=True)


def compile_directory(options: argparse.Namespace, out: Path, begin: float) -> None:
    verify_options(options)
    directory = ModelDirectory(options.model.removeprefix(PREFIX))
    if directory.is_of_diffusers and options.task is not None:
        raise Refused(f"--task {options.task}: a model of diffusers has one task, to predict noise")
    adapter = wanted_adapter(options, directory)
    changes = arguments_of(options.arguments)
    progress = Progress(begin)
    with batch_file(options) as file:
        key = None if options.no_cache or options.device != "cpu" else key_of_package(options, directory, changes, file, adapter)
        lines = load_package(key, out) if key is not None else None
        if lines is not None:
            for line in lines:
                print(line)
            progress.stage("found in the cache of packages")
            return
        compile_model(options, out, directory, changes, file, adapter, progress)
    if key is not None:
        store_package(key, out, progress.lines)


def verify_options(options: argparse.Namespace) -> None:
    from lockstep.compile.hf.tasks import TASKS

    if options.loss is not None:
        raise Refused(f"--loss {options.loss}: a model of hf:DIR has the loss of its task")
    if options.task is not None and options.task not in TASKS:
        raise Refused(f"--task {options.task}: unknown; valid: {', '.join(TASKS)}")
    options.batch = options.batch or DEFAULT_BATCH
    if options.batch.isdigit():
        if options.set:
            raise Refused(f"--set {options.set[0]}: --batch {options.batch} is not a run file")
        if not 2 <= int(options.batch) <= 1 << 20:
            raise Refused(f"--batch {options.batch}: expected at least 2 samples, at most {1 << 20}")
    elif options.length is not None:
        raise Refused(f"--length {options.length}: --batch {options.batch} sets the length")


def wanted_adapter(options: argparse.Namespace, directory: ModelDirectory) -> Lora | AdapterDirectory | None:
    if options.lora is None and options.adapter is None:
        if options.base_dtype is not None:
            raise Refused(f"--base-dtype {options.base_dtype}: only with --lora or --adapter: the type of the weights that are not trained")
        return None
    if options.lora is not None and options.adapter is not None:
        raise Refused("--lora starts new adapters, --adapter continues those of a directory: remove one")
    if options.base_dtype == "bf16" and options.precision != "bf16":
        raise Refused("--base-dtype bf16: needs --precision bf16")
    wanted = lora_of(options.lora) if options.adapter is None else AdapterDirectory(options.adapter)
    if directory.library != "transformers":
        raise Refused(f"{wanted.source}: adapters are for models of transformers, and {directory.path} is one of {directory.library}")
    if not directory.weights:
        raise Refused(f"{wanted.source}: {directory.path} has no weights, and adapters change those of a trained model")
    return wanted


def key_of_package(options: argparse.Namespace, directory: ModelDirectory, changes: dict[str, object], file: Path | None,
                   adapter: Lora | AdapterDirectory | None) -> str:
    from importlib.metadata import PackageNotFoundError

    library = [] if directory.library == "transformers" else [version_of(directory.library, directory.missing_library)]
    given = {name: getattr(options, name) for name in OPTIONS}
    batch = options.batch if file is None else checksum(file)
    adapted = [] if adapter is None else [adapter.facts(), version_of("peft", missing_peft), str(directory.path.resolve())]
    try:
        return key_of([given, changes, batch, directory.checksums(), *library, *adapted])
    except PackageNotFoundError as error:
        from lockstep.compile.hf.model import missing_transformers

        raise missing_transformers() from error


def version_of(name: str, missing: Callable[[], Refused]) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError as error:
        raise missing() from error


@contextlib.contextmanager
def batch_file(options: argparse.Namespace) -> Iterator[Path | None]:
    """The file of the example batch; None if --batch is a number. Reads the data of a run file."""
    from lockstep.compile.example_batch import RUN_FILES, write_batch_of_run

    if options.batch.isdigit():
        yield None
    elif options.batch.endswith(RUN_FILES):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "batch.safetensors")
            write_batch_of_run(file, options.batch, options.ranks, options.set)
            yield file
    elif options.batch.endswith(".npz"):
        if not os.path.isfile(options.batch):
            raise Refused(f"{options.batch}: no such file")
        yield Path(options.batch)
    else:
        raise Refused(f"--batch {options.batch}: expected a number of samples, a run file or an .npz file")


def compile_model(options: argparse.Namespace, out: Path, directory: ModelDirectory, changes: dict[str, object], file: Path | None,
                  adapter: Lora | AdapterDirectory | None, progress: Progress) -> None:
    progress.stage(f"importing torch and {'diffusers' if directory.is_of_diffusers else 'transformers'}")
    from lockstep.compile.compiling import compile_step
    from lockstep.compile.errors import CompileError
    from lockstep.compile.hf import denoiser
    from lockstep.compile.hf.fields import described, loss_of
    from lockstep.compile.hf.model import import_transformers, load_model, num_parameters
    from lockstep.compile.trial import FAILS

    if directory.is_of_diffusers:
        denoiser.class_of(directory)
    else:
        import_transformers()
    progress.stage("loading the model" if directory.weights else "building the model")
    if directory.is_of_diffusers:
        model, task = denoiser.load_denoiser(directory, changes, options.seed, progress.report), denoiser.TASK
    else:
        model, task = load_model(directory, options.task, changes, options.seed, progress.report)
    with_adapter = None if adapter is None else adapted(options, directory, model, task, adapter, progress)
    batch = example_of(options, model, task, file)
    loss = denoiser.loss_of_denoiser(directory, model, batch) if directory.is_of_diffusers else loss_of(task, model, batch)
    progress.report(f"{type(model).__name__}, {task}, {num_parameters(model)} parameters")
    progress.report(f"fields: {described(batch)}")
    try:
        compile_step(model, loss, batch, out, dynamic_batch=options.dynamic_batch, segments=options.segments,
                     precision=options.precision, device=options.device, threads=options.threads, adapter=with_adapter,
                     use_cache=not options.no_cache, begin=progress.begin, report=progress.report)
    except CompileError as error:
        hint = denoiser.lacking(model, batch) if directory.is_of_diffusers and str(error).startswith(FAILS) else ""
        raise CompileError(f"{error}{place_in_model(error)}{hint}") from error


def adapted(options: argparse.Namespace, directory: ModelDirectory, model: "nn.Module", task: str, wanted: Lora | AdapterDirectory,
            progress: Progress) -> "Adapter":
    from lockstep.compile.hf.adapters import add_adapters, freeze_in_bf16

    adapter = add_adapters(model, task, wanted, directory.path, options.seed, progress.report)
    if options.base_dtype == "bf16":
        freeze_in_bf16(model)
    return adapter


def place_in_model(error: BaseException) -> str:
    """The last line of the library's code of the model that led to the error."""
    seen: BaseException | None = error
    while seen is not None:
        for frame in reversed(traceback.extract_tb(seen.__traceback__)):
            if any(f"{os.sep}{library}{os.sep}models{os.sep}" in frame.filename for library in ("transformers", "diffusers")):
                return f" ({os.path.basename(frame.filename)}:{frame.lineno}: {frame.line})"
        seen = seen.__cause__ or seen.__context__
    return ""


def example_of(options: argparse.Namespace, model: object, task: str, file: Path | None) -> "Batch":
    from lockstep.compile.example_batch import arrays_of, in_order
    from lockstep.compile.hf.denoiser import TASK, example_images
    from lockstep.compile.hf.example import Example

    if file is None and task == TASK:
        return example_images(model, int(options.batch), options.length)  # type: ignore[arg-type]
    if file is None:
        return Example(model, task, int(options.batch), options.length).make()  # type: ignore[arg-type]
    return arrays_of(str(file)) if file.suffix == ".npz" else in_order(str(file))
