"""compile_step(): compiles a module to a file."""

import copy
import os
import platform
import time
from pathlib import Path
from typing import Callable, Literal, Mapping

import torch
from torch import nn

from lockstep.compile.batch_sizes import trace_sizes
from lockstep.compile.blocks import blocks_of
from lockstep.compile.comparing import TOLERANCE, Comparison, compare, verify_trace
from lockstep.compile.compiler import compiled, verify_compiler
from lockstep.compile.errors import CompileError, fault_of_target
from lockstep.compile.flops import count_flops
from lockstep.compile.graphs import Graph, State, Step
from lockstep.compile.losses import LOSSES, Batch, Loss, LossFunction, find_loss
from lockstep.compile.packing import Adapter, describe, pack_weights, write_package
from lockstep.compile.passes import Pass
from lockstep.compile.prediction import prediction_of
from lockstep.compile.processor import cpu_flags
from lockstep.compile.running import running
from lockstep.compile.segments import Part, segment_names
from lockstep.compile.trial import try_out, unused_fields, verify_layers, verify_tensors

Report = Callable[[str], None]


def compile_step(
    module: nn.Module,
    loss: str | LossFunction | Loss,
    example_batch: Mapping[str, torch.Tensor],
    path: str | os.PathLike[str] = "model.ls2",
    *,
    dynamic_batch: bool = False,
    segments: int | Literal["blocks"] = 1,
    precision: str = "fp32",
    device: str = "cpu",
    threads: int = 1,
    name: str | None = None,
    adapter: Adapter | None = None,
    use_cache: bool = True,
    begin: float | None = None,
    report: Report = lambda line: None,
) -> Path:
    """Compiles forward pass, loss and gradients of `module`, and its evaluation, into the file `path`.

    loss: "cross_entropy", "mse", "model" (the module returns its loss), a function, or what find_loss() returns; see
    lockstep.compile.losses.
    example_batch: field name to tensor, samples along dimension 0. Training accepts batches of this size, or of any size
    with `dynamic_batch`; evaluation always accepts any size.
    segments: number of segments of the backward pass; gradients of one are averaged over ranks while the next is computed.
    "blocks": one for each block of the module (an element of a ModuleList or Sequential), and the same of the forward pass, so
    that a rank needs the weights of one block at a time (distributed.shard: full, train.recompute).
    precision: "fp32", or "bf16" for autocast to bfloat16; the type of parameters does not change.
    threads: number of threads of the generated loops on a CPU; matrix products use all threads of the process.
    adapter: of a module with adapters of PEFT, whose checkpoints then contain only what is trained, and PEFT's files.
    use_cache: whether to use and update the cache of compiled graphs; see code_cache.
    begin: time.monotonic() from which progress is reported; default: now.
    Raises CompileError: one line that states what cannot be compiled, and where. OSError: no g++, disk full.
    CompilerFault: g++ failed, or the results of the compiled code differ from those of `module`.
    """
    path = Path(path)
    if fault := fault_of_target(path):
        raise CompileError(f"path {path}: {fault}")
    if precision not in TOLERANCE:
        raise CompileError(f"unknown precision '{precision}'; valid: {', '.join(TOLERANCE)}")
    if isinstance(loss, str) and loss not in LOSSES:
        raise CompileError(f"unknown loss '{loss}'; valid: {', '.join(LOSSES)}, or a function")
    if device == "cuda" and not torch.cuda.is_available():
        raise CompileError("device cuda: this machine has no GPU")
    begin = time.monotonic() if begin is None else begin

    def stage(line: str) -> None:
        report(f"[{time.monotonic() - begin:3.0f} s] {line}")

    batch = {key: tensor.to(device).contiguous() for key, tensor in example_batch.items()}
    size = batch_size(batch)
    verify_tensors(module)
    module = contiguous(copy.deepcopy(module).to(device))
    verify_layers(module)
    state = State.of(module)
    if not state.trainable:
        raise CompileError("the model has no trainable parameters")
    chosen = loss if isinstance(loss, Loss) else find_loss(loss, module, batch)
    blocks = blocks_of(module, list(state.parameters)) if segments == "blocks" else []
    if segments == "blocks" and not blocks:
        raise CompileError("--segments blocks: the model has no ModuleList or Sequential whose elements have parameters")
    number = 1 if segments == "blocks" else segments
    step = Step(module, chosen.function, list(batch), device if precision == "bf16" else None)
    verify_compiler()
    stage("trying the model in Python")
    changed = try_out(step, state, batch, report)
    sizes = trace_sizes([*state.tensors(), *batch.values()])
    passes = [Pass(True, step, state, batch, sizes if dynamic_batch else [], changed, number, blocks),
              Pass(False, step, state, batch, sizes, [], 1, blocks)]
    for each in passes:
        stage(f"exporting {each.name}")
        each.trace()
    train, evaluation = (each.graph for each in passes)
    verify_outputs(train, evaluation)
    if not train.trained:
        raise CompileError("the loss does not depend on any parameter")
    verify_trace(passes[0])
    for unused in train.unused:
        report(f"warning: the loss does not depend on parameter '{unused}': it is not trained")
    for field in unused_fields(train, batch, len(state.names())):
        report(f"warning: field '{field}' of the batch is not used by the model or its loss")
    todo = passes
    while todo:
        code = compiled({name: graph for each in todo for name, graph in each.graphs.items()}, device, threads, use_cache, stage)
        todo = [each for each in todo if not each.take(code)]
    stage("checking the compiled code against Python")
    libraries = {name: code.library for each in passes for name, code in each.code.items()}
    tensors = state.tensors()
    with running(libraries, tensors) as run:
        largest = [compare(Comparison(each, run, tensors, TOLERANCE[precision]), report) for each in passes]
    train, evaluation = (each.graph for each in passes)
    members = {f"{name}.pt2": library for name, library in libraries.items()}
    prediction, inputs, unexported = prediction_of(evaluation, list(batch), len(state.names()))
    if unexported:
        report(f"warning: the model can be trained, but its predictions cannot be exported: {unexported}")
    if prediction:
        members["predict.pt2"] = prediction
    names = {} if adapter is None else adapter.names
    stored = {**state.parameters, **state.buffers}
    members["weights.safetensors"] = pack_weights({names.get(key, key): tensor for key, tensor in stored.items()})
    manifest = describe_package(state, batch, train, evaluation, names)
    manifest |= {} if adapter is None else {"adapter": described_adapter(adapter)}
    flops = [count_flops(passes[0].graphs[name]) for name in segment_names(passes[0].parts, training=True)]
    described = [{**part, "flops": number} for part, number in zip(describe_parts(passes[0].parts), flops)]
    manifest |= {"inputs": inputs, "unexported": unexported, "segments": described, "evaluation": describe_parts(passes[1].parts)}
    manifest |= {"units": blocks if adapter is None else [block.removeprefix(adapter.prefix) for block in blocks]}
    manifest |= describe_loss(chosen, train) | describe_classes(chosen, step, batch, evaluation)
    manifest |= {"name": name or type(module).__name__, "torch": torch.__version__.split("+")[0], "device": device,
                 "architecture": platform.machine(), "cpu_flags": cpu_flags(), "gpu": gpu_name(device), "threads": threads,
                 "precision": precision, "batch_size": size, "dynamic_batch": dynamic_batch,
                 "largest_batch": min(filter(None, largest), default=0)}
    write_package(path, manifest, members)
    return path


def contiguous(module: nn.Module) -> nn.Module:
    """Compiled code expects the strides of the tensors that it was made with; those of the trainer are contiguous."""
    for tensor in (*module.parameters(), *module.buffers()):
        tensor.data = tensor.data.contiguous()  # in place: tied weights stay tied
    return module


def described_adapter(adapter: Adapter) -> dict[str, object]:
    return {"config": adapter.config, "model_config": adapter.model_config, "tensors": dict(adapter.tensors)}


def gpu_name(device: str) -> str:
    """The GPU architecture; compiled code runs only on this architecture."""
    if device != "cuda":
        return ""
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def verify_outputs(train: Graph, evaluation: Graph) -> None:
    if train.sums != evaluation.sums:
        raise CompileError(f"the loss function returns different sums in training ({names_of(train.sums)}) than in evaluation "
                           f"({names_of(evaluation.sums)}): they must be the same")
    if train.has_targets != evaluation.has_targets:
        raise CompileError("the loss function returns 'targets' only in training or only in evaluation: it must return them in both")


def names_of(names: list[str]) -> str:
    return ", ".join(names) or "none"


def batch_size(batch: Batch) -> int:
    if not batch:
        raise CompileError("the example batch has no fields")
    sizes = {name: tensor.shape[0] if tensor.dim() else 0 for name, tensor in batch.items()}
    if len(set(sizes.values())) != 1:
        raise CompileError("the fields of the example batch have different numbers of samples: "
                           + ", ".join(f"{name} {size}" for name, size in sizes.items()))
    size = next(iter(sizes.values()))
    if size < 2:
        raise CompileError(f"the example batch has {size} samples: at least 2 are required to identify the batch dimension")
    return size


def describe_package(state: State, batch: Batch, train: Graph, evaluation: Graph, names: Mapping[str, str]) -> dict[str, object]:
    """`names`: in the package, of tensors that have another name there."""
    return {
        "parameters": [describe(names.get(name, name), tensor, trainable=name in train.trained) for name, tensor in state.parameters.items()],
        "buffers": [describe(names.get(name, name), tensor, changed=name in train.changed_buffers) for name, tensor in state.buffers.items()],
        # The first dimension is the batch.
        "fields": [{**describe(name, tensor), "shape": list(tensor.shape[1:])} for name, tensor in batch.items()],
        "sums": train.sums,
        "predictions": evaluation.has_predictions,
    }


def describe_parts(parts: list[Part]) -> list[dict[str, object]]:
    return [{"takes": part.takes, "gradients": part.gradients, "keeps": part.keeps} for part in parts]


def describe_classes(loss: Loss, step: Step, batch: Batch, evaluation: Graph) -> dict[str, object]:
    """Allows detecting classes out of range before running the compiled code."""
    if not loss.classes or not evaluation.has_predictions:
        return {"class_field": "", "num_classes": 0}
    with torch.no_grad():
        predictions = copy.deepcopy(step).eval()([tensor.clone() for tensor in batch.values()])[-1]
    return {"class_field": loss.classes, "num_classes": predictions.shape[-1]}


def describe_loss(loss: Loss, train: Graph) -> dict[str, object]:
    return {"targets": loss.name if train.has_targets else "", "all_count": loss.all_count}
