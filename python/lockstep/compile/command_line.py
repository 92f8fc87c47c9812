"""lockstep-compile: the command."""

import argparse
import contextlib
import os
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Iterator

from lockstep.compile import export_command
from lockstep.compile.errors import fault_of_target
from lockstep.compile.hf.command import PREFIX, compile_directory
from lockstep.compile.sources import Parser, Refused, Sources, arguments_of, user_code, described

if TYPE_CHECKING:
    from torch import nn

    from lockstep.compile.packing import Adapter

USAGE = """\
usage: lockstep-compile MODEL.py:FUNCTION [NAME=VALUE ...] --loss LOSS --batch BATCH [-o model.ls2]
       lockstep-compile hf:DIR [NAME=VALUE ...] [--task TASK] [--batch BATCH] [--length N] [--lora SETTINGS] [-o model.ls2]
       lockstep-compile export CHECKPOINT --format aoti|pt2 -o FILE.pt2    (see lockstep-compile export --help)

Compiles the model that FUNCTION(NAME=VALUE, ...) returns, with its loss and gradients, into one file, which
lockstep-trainer trains on any number of ranks without Python: model: {name: compiled, package: model.ls2}
MODEL.py can also be a module: lockstep.models contains Lockstep's built-in models, e.g. mlp, cnn and gpt.
hf:DIR is a model directory of transformers, timm or diffusers: config.json and, optionally, weights. NAME=VALUE change its
config.

      --loss arg         cross_entropy, mse, model (the model returns its loss), or the name of a function
                         (model, batch) in MODEL.py, or FILE.py:FUNCTION
      --batch arg        example batch: a run file, RUN.yaml, whose first batch is used; an .npz file with one
                         array per field, samples first; or the name of a function in MODEL.py, or
                         FILE.py:FUNCTION, that returns {field: tensor}; for hf:DIR also a number of samples,
                         of which an example is made (default: 8)
      --task arg         for hf:DIR: causal-lm, masked-lm, sequence-classification, token-classification, seq2seq-lm,
                         image-classification or audio-classification (default: from its config.json)
      --length arg       for hf:DIR and a number of samples: tokens (default: 128), sound samples or frames of each, or
                         the side of an image (default: from its config)
      --lora arg         for hf:DIR: train new low-rank adapters instead of the weights, e.g. rank=16,alpha=32; as `lora` in a
                         run file also dropout=0.1, targets=q_proj+v_proj, rslora=true, dora=true, modules_to_save=lm_head
      --adapter arg      for hf:DIR: continue the adapter in this directory, as PEFT's save_pretrained() writes it
      --base-dtype arg   with --lora and --adapter: fp32, or bf16 for the weights that are not trained (default: fp32)
      --set KEY=VALUE    override a key of the run file, as for lockstep-trainer; may be repeated
      --ranks arg        number of ranks that share the run file's data.batch_size (default: 1)
  -o, --out arg          output file (default: model.ls2)
      --dynamic-batch    train on batches of any size; default: only the size of the example, which is often
                         faster. Evaluation always accepts any size
      --segments arg     number of segments of the backward pass: gradients of one segment are averaged over
                         ranks while the next is computed (default: 1; more help on GPUs and between hosts);
                         or blocks: both passes are cut at the blocks of the model, the elements of its
                         ModuleList or Sequential, for distributed.shard: full and train.recompute
      --precision arg    fp32, or bf16 for autocast to bfloat16 (default: fp32)
      --device arg       cpu, or cuda for the GPU of this machine (default: cpu)
      --threads arg      number of threads of the generated loops on a CPU (default: 1)
      --seed arg         seed of torch.manual_seed before FUNCTION() is called (default: 0)
      --no-cache         do not use the caches in ~/.cache/lockstep (or $XDG_CACHE_HOME): compiled graphs, up to
                         2 GB, and packages of hf:DIR, up to 4 GB
      --help             show this help

Fields: the model's forward() receives the fields that it names, otherwise all except the target, in order. The target of
cross_entropy and mse is the field label, labels, target or targets. Compiling requires g++; training does not.

The loss is a mean over samples. For cross_entropy and model with sequences, or if the example has targets of -100, which
are ignored, it is a mean over all other targets, so that each has the same weight in every batch and on every rank.

Exit codes: 0 success, 78 invalid input, 75 disk full or no g++, 70 internal error of this package or the compiler,
130 interrupted.
"""


EXTRAS = {"torch": "compile", "numpy": "compile", "safetensors": "compile", "transformers": "hf", "peft": "hf"}  # of this package, with what it needs


def segments(text: str) -> int | str:
    return text if text == "blocks" else int(text)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("model")
    parser.add_argument("arguments", nargs="*")
    parser.add_argument("--loss")
    parser.add_argument("--batch")
    parser.add_argument("--task")
    parser.add_argument("--length", type=int)
    parser.add_argument("--lora")
    parser.add_argument("--adapter")
    parser.add_argument("--base-dtype", choices=["fp32", "bf16"])
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("-o", "--out", default="model.ls2")
    parser.add_argument("--dynamic-batch", action="store_true")
    parser.add_argument("--segments", type=segments, default=1)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-cache", action="store_true")
    options = parser.parse_intermixed_args(arguments)
    if ":" not in options.model:
        raise Refused(f"'{options.model}': expected FILE.py:FUNCTION, MODULE:FUNCTION such as lockstep.models:gpt, hf:DIR, or the command export")
    for name in ("ranks", "segments", "threads", "length"):
        if isinstance(getattr(options, name), int) and getattr(options, name) < 1:
            raise Refused(f"--{name}: expected at least 1")
    for name, of_directory in (("loss", False), ("batch", False), ("task", True), ("length", True), ("lora", True), ("adapter", True),
                               ("base_dtype", True)):
        if not options.model.startswith(PREFIX) and (getattr(options, name) is None) != of_directory:
            option = name.replace("_", "-")
            raise Refused(f"--{option}: only for hf:DIR" if of_directory else f"--{option} is required; see lockstep-compile --help")
    return options


def act(options: argparse.Namespace) -> None:
    out = Path(options.out)
    if fault := fault_of_target(out):
        raise Refused(f"--out {out}: {fault}")
    begin = time.monotonic()
    if options.model.startswith(PREFIX):
        compile_directory(options, out, begin)
    else:
        compile_function(options, out)
    print(f"done: {out} ({out.stat().st_size / 1e6:.1f} MB, {time.monotonic() - begin:.0f} s)\n"
          f"train: model: {{name: compiled, package: {out}}} in a run file")


def compile_function(options: argparse.Namespace, out: Path) -> None:
    given = arguments_of(options.arguments)
    import torch
    from torch import nn

    from lockstep.compile.compiling import compile_step
    from lockstep.compile.example_batch import read_batch
    from lockstep.compile.losses import LOSSES

    sources = Sources(options.model)
    make_model = sources.find(options.model)
    torch.manual_seed(options.seed)
    with user_code():
        module = make_model(**given)
    if not isinstance(module, nn.Module):
        raise Refused(f"{options.model} returns a {type(module).__name__}, not a torch.nn.Module")
    loss = options.loss if options.loss in LOSSES else sources.find(options.loss)
    batch = read_batch(options.batch, sources, options.ranks, options.set)
    compile_step(module, loss, batch, out, dynamic_batch=options.dynamic_batch, segments=options.segments,
                 precision=options.precision, device=options.device, threads=options.threads, use_cache=not options.no_cache,
                 adapter=adapters_of(module), report=report)


def report(line: str) -> None:
    print(line, flush=True)


def adapters_of(module: "nn.Module") -> "Adapter | None":
    """Of a model of PEFT, whose checkpoints then contain only what is trained."""
    kind = getattr(sys.modules.get("peft"), "PeftModel", None)  # the user's code may have another module of this name
    if kind is None or not isinstance(module, kind):
        return None
    from lockstep.compile.hf.adapters import returned_adapters

    return returned_adapters(module, report)


def show(text: str) -> int:
    """Returns the exit code: also if its reader has left (`| head`), or it cannot be written."""
    try:
        print(text, end="", flush=True)
        return 0
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python still has to write
        if isinstance(error, BrokenPipeError):
            return 128 + signal.SIGPIPE
        print(f"lockstep-compile: error: cannot write the output: {error.strerror}", file=sys.stderr)
        return 75


class Stopped(KeyboardInterrupt):
    def __init__(self, number: int):
        super().__init__()
        self.number = number


def stop(number: int, frame: object) -> None:
    raise Stopped(number)


@contextlib.contextmanager
def stopping() -> Iterator[None]:
    """SIGTERM and SIGHUP end the command like Ctrl-C, so that it removes its temporary files and ends its processes."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    changed = [number for number, handler in before.items() if handler == signal.SIG_DFL]  # nohup ignores SIGHUP
    for number in changed:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code. `arguments`: default: those of the command line."""
    arguments = sys.argv[1:] if arguments is None else arguments
    exports = arguments[:1] == ["export"]
    if not arguments:
        print("lockstep-compile: error: the model is missing: MODEL.py:FUNCTION or hf:DIR; see lockstep-compile --help", file=sys.stderr)
        return 78
    if "--help" in arguments or "-h" in arguments:
        return show(export_command.USAGE if exports else USAGE)
    warnings.simplefilter("ignore")  # internal warnings of torch
    try:
        with stopping():
            export_command.export(arguments[1:]) if exports else act(parse(arguments))
        return 0
    except KeyboardInterrupt as error:
        print("lockstep-compile: interrupted", file=sys.stderr)
        return 128 + (error.number if isinstance(error, Stopped) else signal.SIGINT)
    except Exception as error:
        code, message = exit_code_and_message(error)
        print(f"lockstep-compile: error: {message}", file=sys.stderr)
        return code


def exit_code_and_message(error: Exception) -> tuple[int, str]:
    if isinstance(error, Refused):
        return 78, str(error)
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return 75, f"{error} in the environment {sys.prefix}: pip install 'lockstep[{EXTRAS[error.name]}]'"
    from lockstep.compile.errors import CompileError, CompilerFault
    from lockstep.compile.trial import place_of

    if isinstance(error, CompileError):
        return 78, str(error)
    if isinstance(error, CompilerFault):
        return 70, str(error)
    if place_of(error):
        return 78, described(error)
    return (75, str(error)) if isinstance(error, OSError) else (70, described(error))


if __name__ == "__main__":
    sys.exit(main())
