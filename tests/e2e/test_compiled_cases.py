"""Small models of every kind are compiled and train as in Python, or are rejected immediately with the reason and a workaround.

By default a few of them; LOCKSTEP_COMPILE_CASES=all, or a part of the names, selects others.
"""

import os
import shlex
import sys
from pathlib import Path

import numpy
import pytest
import torch
import yaml
from lockstep.compile import CompileError, compile_step, headers
from safetensors.torch import load_model
from torch.nn import functional as F

import compiled_cases
import processes
from compiled_cases import HUGGING_FACE, REFUSED, SAMPLES, TRAINED
from conftest import Job, long
from processes import BIN
from safetensors_file import last_weights

STEPS = 4
EVAL_SAMPLES, EVAL_SIZES = 41, (500, 7, 1)
CHOSEN = os.environ.get("LOCKSTEP_COMPILE_CASES", "")
COMPILED = {**TRAINED, **HUGGING_FACE}


def chosen(cases):
    if CHOSEN == "all":
        return list(cases)
    if CHOSEN:
        return [name for name in cases if CHOSEN in name]
    return [name for name, case in cases.items() if case.short or (case.refused and name in REFUSED)]


def quick_compiler_in(directory):
    """quick_compiler.py, for CXX. CXX of the environment stays: it may add a sanitizer."""
    compiler = directory / "g++"
    words = [sys.executable, str(Path(__file__).with_name("quick_compiler.py")), str(BIN.parent / "tests" / "precompiled")]
    compiler.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    compiler.chmod(0o755)
    return os.environ.get("CXX", str(compiler))


@pytest.fixture(autouse=True, scope="module")
def quick_compiler(tmp_path_factory):
    directory = tmp_path_factory.mktemp("compiler")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CXX", quick_compiler_in(directory))
        patch.setenv("XDG_CACHE_HOME", str(directory))
        yield


def build(case):
    torch.manual_seed(1)
    return case.make()


def data_of(case):
    torch.manual_seed(0)
    return case.data()


def compiled(case, out):
    """Returns the reported lines."""
    lines = []
    batch = {name: tensor[: case.batch] for name, tensor in data_of(case).items()}
    compile_step(build(case), case.loss, batch, out, report=lines.append, **case.options)
    return lines


def eager_loss(case, model, batch):
    """The mean over samples or, for text, over tokens."""
    if case.loss == "model":
        return model(**batch).loss
    if callable(case.loss):
        given = case.loss(model, batch)
        return given["loss"] if isinstance(given, dict) else given
    *fields, target = batch
    if target not in ("label", "labels", "target"):
        fields, target = [name for name in batch if name not in ("label", "extra")], "label"
    predictions = model(**{name: batch[name] for name in fields})
    if case.loss == "mse":
        return F.mse_loss(predictions, batch[target].reshape(predictions.shape))
    return F.cross_entropy(predictions.flatten(0, -2), batch[target].flatten())


def eager_evaluation(case, model, data, size):
    """The loss over the evaluation samples, in batches of `size` where that matters."""
    size = size if case.mixes_samples else EVAL_SAMPLES
    parts = [{name: tensor[begin : min(begin + size, EVAL_SAMPLES)].clone() for name, tensor in data.items()}
             for begin in range(0, EVAL_SAMPLES, size)]
    losses = [eager_loss(case, model, part).item() for part in parts]
    counts = [len(next(iter(part.values()))) for part in parts]
    return sum(loss * count for loss, count in zip(losses, counts)) / EVAL_SAMPLES


def train_eager(case):
    """The weights, the losses, and for each of EVAL_SIZES the loss in evaluation."""
    model, data = build(case), data_of(case)
    kind = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[case.optimizer["name"]]
    optimizer = kind(model.parameters(), **{name: value for name, value in case.optimizer.items() if name != "name"})
    losses = []
    model.train()
    for step in range(STEPS):
        begin = step * case.batch % SAMPLES
        optimizer.zero_grad()
        loss = eager_loss(case, model, {name: tensor[begin : begin + case.batch].clone() for name, tensor in data.items()})
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.eval()
    with torch.no_grad():
        return weights, losses, [eager_evaluation(case, model, data, size) for size in EVAL_SIZES]


def use(job, case, package):
    path = job.directory / "data.npz"
    numpy.savez(path, **{name: tensor.contiguous().numpy() for name, tensor in data_of(case).items()})
    job.config["model"] = {"name": "compiled", "package": str(package)}
    job.config["data"] = {"train": {"name": "npy", "path": str(path)}, "eval": {"name": "npy", "path": str(path), "limit": EVAL_SAMPLES},
                          "per_rank_batch_size": case.batch, "shuffle": False}
    job.config["optimizer"] = case.optimizer
    job.config["train"] = {"epochs": 1000, "max_steps": STEPS, "log_every": "1 step", "eval_every": "1000 epochs"}
    job.config["checkpoint"] = {"every": "1000 epochs"}
    job.write()


@pytest.mark.parametrize("name", [name if name == "buffers that change" else long(name)
                                  for name in chosen(COMPILED) if not COMPILED[name].refused])
def test_trains_like_python(job, capfd, name):
    """Batches of evaluation of 41, 7 and 6, 1 samples: the code is made for any size, and must be right for all."""
    case = COMPILED[name]
    package = job.directory / "model.ls2"
    lines = compiled(case, package)
    assert any(case.warned in line for line in lines)
    assert case.tolerance is None or not any("draws random numbers" in line for line in lines)
    assert capfd.readouterr().err == ""  # no output of torch or transformers
    use(job, case, package)
    weights, losses, evaluation = train_eager(case)
    evaluated = []
    for size in EVAL_SIZES:
        run_dir = job.train(f"data.eval_batch_size={size}")
        evaluated.append(job.series(run_dir.name, "eval/loss")[-1][1])
    trained = [value for _, value in job.series(run_dir.name, "train/loss")]
    if case.tolerance is None:
        assert numpy.allclose(trained, losses, rtol=0.5) and numpy.allclose(evaluated, evaluation, rtol=0.5)
        return
    assert trained == pytest.approx(losses, rel=case.tolerance)
    assert evaluated == pytest.approx(evaluation, rel=case.tolerance)
    loaded = build(case)
    load_model(loaded, last_weights(run_dir))  # strict, whatever names tied weights have
    for key, tensor in loaded.state_dict().items():
        largest = max(weights[key].double().abs().max().item(), 1e-3)
        assert (tensor.double() - weights[key].double()).abs().max().item() <= 10 * case.tolerance * largest, key


@pytest.mark.parametrize("name", [long(name) if name.startswith("an operator") else name
                                  for name in chosen({**REFUSED, **COMPILED}) if {**REFUSED, **COMPILED}[name].refused])
def test_is_rejected(tmp_path, name):
    case = {**REFUSED, **COMPILED}[name]
    with pytest.raises(CompileError) as raised:
        compiled(case, tmp_path / "model.ls2")
    for part in case.refused:
        assert part in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_the_quick_header_has_what_torch_uses_of_regex(tmp_path):
    """Another version of torch may use more: then the header is not used, and each graph takes five seconds longer."""
    folder = Path(torch.__file__).with_name("include") / "torch" / "csrc" / "inductor"
    assert headers.uses_of_regex(folder) == headers.USES
    matches = {"cpu": "cpu -", "cuda": "cuda -", "cuda:0": "cuda 0", "xpu:12": "xpu 12"}
    wrong = ["", "gpu", "cuda:", "cuda:x", "cuda:1x", ":1", "cpu "]
    use, device, match, matched = headers.USES
    source = tmp_path / "devices.cpp"
    source.write_text(f"""{use}
#include <cstdio>
int main(int argc, char** argv) {{
  for (int i = 1; i < argc; ++i) {{
    const std::string device_str = argv[i];
    {device}
    {match}
    {matched}
    std::puts(matched ? (sm[1].str() + " " + (sm[3].matched ? sm[3].str() : "-")).c_str() : "no");
  }}
}}
""")
    for folders in ("", str(Path(headers.HEADER).parent)):  # the standard library's header has the same results
        env = processes.environment(CPLUS_INCLUDE_PATH=folders)
        assert processes.run(["g++", "-std=c++17", source, "-o", tmp_path / "devices"], tmp_path, env).code == 0
        printed = processes.run([tmp_path / "devices", *matches, *wrong], tmp_path).out.splitlines()
        assert printed == [*matches.values(), *["no"] * len(wrong)]
