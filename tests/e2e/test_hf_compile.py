"""`lockstep-compile hf:DIR` compiles model directories of transformers, which then train as in Python.

By default a few architectures; LOCKSTEP_COMPILE_CASES=all, or a part of the names, selects others.
"""

import json
import os
import shutil
import sys
from importlib import metadata

import numpy
import pytest
import torch
import yaml
from safetensors.torch import load_file, load_model, save_file
from torch.nn import functional as F

import hf_cases
from hf_cases import BATCH, CASES, CLASSES, SAMPLES, TOKENS
from safetensors_file import last_weights
from test_compiled_cases import chosen, quick_compiler  # noqa: F401, a fixture

STEPS = 12
LR = 0.1
TOLERANCE = 1e-5  # of losses, relative


@pytest.fixture(autouse=True, scope="module")
def quiet_transformers():
    import transformers

    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)  # these models are small


def save(case, directory):
    hf_cases.build(case).save_pretrained(directory)
    return directory


def use(job, case, package):
    path = job.directory / "data.npz"
    numpy.savez(path, **{name: tensor.numpy() for name, tensor in hf_cases.data_of(case).items()})
    data = {"name": "npy", "path": str(path)}
    job.config["model"] = {"name": "compiled", "package": str(package)}
    job.config["data"] = {"train": data, "eval": data, "per_rank_batch_size": BATCH, "eval_batch_size": SAMPLES, "shuffle": False}
    job.config["optimizer"] = {"name": "sgd", "lr": LR}
    job.config["train"] = {"epochs": 1000, "max_steps": STEPS, "log_every": "1 step", "eval_every": "1000 epochs"}
    job.config["checkpoint"] = {"every": "1000 epochs"}
    job.write()


def compile_here(capsys, *arguments):
    """Returns the exit code and the lines of both streams."""
    from lockstep.command_line import main

    code = main([*map(str, arguments)])
    shown = capsys.readouterr()
    return code, shown.out.splitlines(), shown.err.splitlines()


def eager_loss(model, batch):
    """`targets` are the next tokens; `labels` are what transformers expects."""
    batch = dict(batch)
    if "targets" in batch:
        return F.cross_entropy(model(input_ids=batch["tokens"]).logits.flatten(0, 1), batch["targets"].flatten())
    if "image" in batch:
        batch = {"pixel_values": batch["image"], "labels": batch["label"]}
    return model(**batch).loss


def train_in_python(case, directory):
    """The model after training, its losses and that of the evaluation."""
    import transformers

    torch.manual_seed(5)
    more = {"experts_implementation": "batched_mm"} if "expert" in str(case.options) else {}
    model = getattr(transformers, case.model).from_pretrained(directory, use_cache=False, **more).train()
    data = hf_cases.data_of(case)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    losses = []
    for step in range(STEPS):
        begin = step * BATCH % SAMPLES
        optimizer.zero_grad()
        loss = eager_loss(model, {name: tensor[begin : begin + BATCH] for name, tensor in data.items()})
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        return model, losses, eager_loss(model.eval(), data).item()


@pytest.mark.parametrize("name", [name for name in chosen(CASES) if not CASES[name].refused])
def test_trains_like_python(job, capsys, name):
    """The example batch is that of the run file. A second call takes the package from the cache."""
    case = CASES[name]
    directory, package = save(case, job.directory / "hf"), job.directory / "model.ls2"
    use(job, case, package)
    command = [f"hf:{directory}", *case.changes, "--batch", job.file, "--out", package]
    code, lines, errors = compile_here(capsys, *command)
    assert (code, errors) == (0, [])
    assert any(line.startswith(f"{case.model}, ") for line in lines)
    assert any(line.startswith("[") and line.endswith("] exporting training") for line in lines)
    run_dir = job.train()
    model, losses, evaluation = train_in_python(case, directory)
    trained = [value for _, value in job.series(run_dir.name, "train/loss")]
    print(name, max(abs(a / b - 1) for a, b in zip(trained, losses)))
    assert trained == pytest.approx(losses, rel=TOLERANCE)
    assert job.series(run_dir.name, "eval/loss")[-1][1] == pytest.approx(evaluation, rel=TOLERANCE)
    expected = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    load_model(model, last_weights(run_dir))  # strict
    assert all((tensor - expected[key]).abs().max() < 1e-4 for key, tensor in model.state_dict().items() if tensor.is_floating_point())


@pytest.mark.parametrize("name", [name for name in chosen(CASES) if CASES[name].refused])
def test_cannot_be_compiled(job, capsys, name):
    case = CASES[name]
    use(job, case, job.directory / "model.ls2")
    command = [f"hf:{save(case, job.directory / 'hf')}", *case.changes, "--batch", job.file, "-o", job.directory / "model.ls2"]
    code, _, errors = compile_here(capsys, *command)
    assert code == 78 and len(errors) == 1, errors
    for part in case.refused:
        assert part in errors[0]


@pytest.mark.parametrize("name", CASES)
def test_example_of_a_number_of_samples(name):
    """It has the fields of the task, of the sizes in config.json, and the model runs on it."""
    from lockstep.hf.example import Example
    from lockstep.hf.tasks import task_of

    case = CASES[name]
    model = hf_cases.build(case)
    model.config.architectures = [case.model]
    data = hf_cases.data_of(case)
    length = {"wav2vec2": 400, "resnet": 32, "whisper": None, "ast": None}.get(name, None if "image" in data else TOKENS)
    batch = Example(model, task_of(model.config, None, "config.json"), BATCH, length).make()
    if name != "llama padded" and name != "mixtral":  # their data are not that of the dataset "tokens"
        assert {key: (value.dtype, value.shape[1:]) for key, value in batch.items()} == {
            key: (value.dtype, value.shape[1:]) for key, value in data.items()}
    assert all(len(value) == BATCH for value in batch.values())
    with torch.no_grad():
        assert eager_loss(model.eval(), batch).isfinite()


# The cache of packages.


@pytest.fixture
def stand_in(monkeypatch, tmp_path):
    """Replaces compilation, for tests of what leads to one. Returns the options of each."""
    from lockstep.hf import command

    given = []

    def compile_again(options, out, directory, changes, file, progress):
        given.append(options)
        progress.report("a line of the compiler")
        out.write_bytes(b"package" * 1000)

    monkeypatch.setattr(command, "compile_model", compile_again)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return given


def llama(directory):
    return save(CASES["llama"], directory / "hf")


def test_identical_call_takes_the_package_from_the_cache(capsys, tmp_path, stand_in):
    command = [f"hf:{llama(tmp_path)}", "--batch", 4, "-o"]
    first, again, third = (tmp_path / name for name in ("first.ls2", "again.ls2", "third.ls2"))
    compile_here(capsys, *command, first)
    code, lines, _ = compile_here(capsys, *command, again)
    assert code == 0 and len(stand_in) == 1
    assert lines[0] == "a line of the compiler" and lines[1].endswith("found in the cache of packages")
    assert first.read_bytes() == again.read_bytes()
    compile_here(capsys, *command, third, "--no-cache")
    assert len(stand_in) == 2
    assert sorted(path.suffix for path in tmp_path.iterdir() if path.is_file()) == [".ls2"] * 3


def change_config(directory):
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "rms_norm_eps": 1e-5}))


def change_weights(directory):
    path = directory / "model.safetensors"
    tensors = load_file(path)
    tensors["model.norm.weight"] += 1
    save_file(tensors, path, {"format": "pt"})


CHANGES = {
    "config": (change_config, []),
    "weights": (change_weights, []),
    "an argument": (None, ["tie_word_embeddings=false"]),
    "batch": (None, ["--batch", 5]),
    "length": (None, ["--length", 7]),
    "seed": (None, ["--seed", 1]),
    "precision": (None, ["--precision", "bf16"]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_lead_to_another_package(capsys, tmp_path, stand_in, name):
    directory = llama(tmp_path)
    change, arguments = CHANGES[name]
    compile_here(capsys, f"hf:{directory}", "-o", tmp_path / "a.ls2")
    if change is not None:
        change(directory)
    assert compile_here(capsys, f"hf:{directory}", *arguments, "-o", tmp_path / "b.ls2")[0] == 0
    assert len(stand_in) == 2


def test_data_of_the_run_file_lead_to_another_package(capsys, job, stand_in):
    case = CASES["llama"]
    use(job, case, "not-yet.ls2")
    command = [f"hf:{llama(job.directory)}", "--batch", job.file, "-o", job.directory / "a.ls2"]
    for arguments in ([], [], ["--set", "data.per_rank_batch_size=6"]):
        assert compile_here(capsys, *command, *arguments)[0] == 0
    assert len(stand_in) == 2


def test_other_versions_lead_to_another_package(capsys, tmp_path, stand_in, monkeypatch):
    version = metadata.version
    command = [f"hf:{llama(tmp_path)}", "-o", tmp_path / "a.ls2"]
    compile_here(capsys, *command)
    monkeypatch.setattr(metadata, "version", lambda name: "0" if name == "transformers" else version(name))
    compile_here(capsys, *command)
    assert len(stand_in) == 2


def test_corrupt_and_old_packages(capsys, tmp_path, stand_in, monkeypatch):
    from lockstep import package_cache

    command = [f"hf:{llama(tmp_path)}", "-o", tmp_path / "a.ls2"]
    compile_here(capsys, *command)
    (entry,) = package_cache.cache_folder().iterdir()
    entry.write_bytes(entry.read_bytes()[:-1])
    assert compile_here(capsys, *command)[0] == 0
    assert len(stand_in) == 2
    assert (tmp_path / "a.ls2").read_bytes() == b"package" * 1000
    monkeypatch.setattr(package_cache, "MAX_BYTES", 10000)  # space for one
    compile_here(capsys, *command, "--seed", 1)
    assert len(list(package_cache.cache_folder().iterdir())) == 1
    monkeypatch.setattr(package_cache, "MAX_BYTES", 5000)
    compile_here(capsys, *command, "--seed", 2)
    assert len(list(package_cache.cache_folder().iterdir())) == 1  # larger than the cache: not stored


def test_cached_package_needs_neither_torch_nor_transformers(tmp_path, stand_in, capsys):
    """Importing them takes seconds."""
    import subprocess

    command = [f"hf:{llama(tmp_path)}", "-o", str(tmp_path / "a.ls2")]
    compile_here(capsys, *command)
    code = ("import sys\nfrom lockstep.command_line import main\n"
            f"assert main({command!r}) == 0\nassert not {{'torch', 'transformers', 'numpy'}} & set(sys.modules)")
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "found in the cache" in ended.stdout


# Invalid input.


def refused(capsys, tmp_path, *arguments):
    out = tmp_path / "out"
    out.mkdir()
    code, _, errors = compile_here(capsys, *arguments, "-o", out / "model.ls2", "--no-cache")
    assert code == 78 and len(errors) == 1, errors
    assert not list(out.iterdir())
    return errors[0].removeprefix("lockstep-compile: error: ")


def config_of(directory, **changes):
    """A directory without weights. A change to None removes the key."""
    directory.mkdir(exist_ok=True)
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **hf_cases.GROUPED, **changes}
    (directory / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    return directory


CONFIGS = {
    "an unknown architecture": ({"model_type": "lama"}, [], ["config.json: model_type 'lama' is not an architecture of transformers",
                                                             "did you mean 'llama'?"]),
    "no architecture": ({"model_type": None}, [], ["model_type is missing"]),
    "a wrong type": ({"hidden_size": "16"}, [], ["config.json: ", "hidden_size"]),
    "heads that do not divide": ({"num_attention_heads": 3}, [], ["config.json: ", "not a multiple of the number of attention heads"]),
    "a model without a task": ({"architectures": ["LlamaModel"]}, [], [
        "config.json: names LlamaModel, which has none of the tasks: choose one with --task; this model has causal-lm, sequence-"]),
    "no class": ({"architectures": None}, [], ["config.json: names no architecture: choose one with --task"]),
    "a task that it does not have": ({}, ["--task", "masked-lm"], ["--task masked-lm: a model of type 'llama' has no such task; "
                                                                   "it has causal-lm, sequence-classification, token-classification"]),
    "no task at all": ({"model_type": "sam", "architectures": ["SamModel"]}, [], ["a model of type 'sam' has none of the tasks causal-lm"]),
    "an unknown task": ({}, ["--task", "lm"], ["--task lm: unknown; valid: causal-lm, masked-lm"]),
    "quantized weights": ({"quantization_config": {"bits": 4}}, [], ["quantized weights cannot be trained"]),
    "an argument of another config": ({}, ["num_hiden_layers=1"], ["num_hiden_layers=1: the config of a model of type 'llama' has no",
                                                                   "did you mean 'num_hidden_layers'?"]),
    "no argument": ({}, ["hidden_size"], ["'hidden_size': expected NAME=VALUE"]),
    "a loss": ({}, ["--loss", "mse"], ["--loss mse: a model of hf:DIR has the loss of its task"]),
    "a batch of one": ({}, ["--batch", 1], ["--batch 1: expected at least 2 samples"]),
    "a batch of nothing": ({}, ["--batch", "text"], ["--batch text: expected a number of samples, a run file or an .npz file"]),
    "no arrays": ({}, ["--batch", "nowhere.npz"], ["nowhere.npz: no such file"]),
    "no run file": ({}, ["--batch", "nowhere.yaml"], ["--batch nowhere.yaml: ", "nowhere.yaml"]),
    "a key without a run file": ({}, ["--set", "data.seed=1"], ["--set data.seed=1: --batch 8 is not a run file"]),
    "longer than the positions": ({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_positions": 16}, ["--length", 17], [
        "--length 17: config.json has max_position_embeddings 16"]),
    "a length of arrays": ({}, ["--length", 3, "--batch", "a.npz"], ["--length 3: --batch a.npz sets the length"]),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_invalid_configs_and_options(capsys, tmp_path, name):
    changes, arguments, texts = CONFIGS[name]
    line = refused(capsys, tmp_path, f"hf:{config_of(tmp_path / 'hf', **changes)}", *arguments)
    for text in texts:
        assert text in line


def test_options_of_a_directory_for_a_function(capsys, tmp_path):
    line = refused(capsys, tmp_path, "lockstep.models:mlp", "--loss", "mse", "--batch", "example", "--task", "causal-lm")
    assert line == "--task: only for hf:DIR"


def test_not_a_model_directory(capsys, tmp_path):
    assert "hf:nowhere: no such directory" in refused(capsys, tmp_path, "hf:nowhere")
    shutil.rmtree(tmp_path / "out")
    assert refused(capsys, tmp_path, f"hf:{tmp_path}") == f"{tmp_path}/config.json: no such file: a model directory of transformers has one"
    shutil.rmtree(tmp_path / "out")
    (tmp_path / "config.json").write_text("{")
    assert f"{tmp_path}/config.json: not valid JSON" in refused(capsys, tmp_path, f"hf:{tmp_path}")


@pytest.mark.parametrize("installed", [False, True])
def test_without_transformers(capsys, tmp_path, monkeypatch, installed):
    """`installed`: it cannot be imported."""
    from lockstep.hf import command

    monkeypatch.setitem(sys.modules, "transformers", None)
    text = "which is not installed: pip install 'lockstep-compile[hf]', or pip install transformers=="
    if installed:
        assert text in refused(capsys, tmp_path, f"hf:{config_of(tmp_path / 'hf')}")
        return

    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    code, _, errors = compile_here(capsys, f"hf:{config_of(tmp_path / 'hf')}", "-o", tmp_path / "model.ls2")
    assert code == 78 and len(errors) == 1 and text in errors[0]
    assert command.PREFIX == "hf:"


def rename(tensors, name, new):
    tensors[new] = tensors.pop(name)


def cut(tensors, name, rows):
    tensors[name] = tensors[name][:rows].clone()


def replace_all(tensors):
    tensors.clear()
    tensors["encoder.weight"] = torch.zeros(2)


WEIGHTS = {
    "another shape": (lambda tensors: cut(tensors, "model.norm.weight", 8), [], [
        "model.safetensors: 'model.norm.weight' has the shape [8], but the model of config.json needs [16]"]),
    "a layer less": (lambda tensors: tensors.pop("model.norm.weight"), [], [
        "model.safetensors: lacks 'model.norm.weight', which the model of config.json needs"]),
    "more layers": (lambda tensors: None, ["num_hidden_layers=2"], ["lacks 'model.layers.1.", " and 8 more, which the model of"]),
    "of another model": (replace_all, [], ["model.safetensors: has none of the tensors of LlamaForCausalLM, such as 'lm_head.weight'; "
                                           "it has 'encoder.weight'"]),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_that_do_not_fit(capsys, tmp_path, name):
    change, arguments, texts = WEIGHTS[name]
    directory = llama(tmp_path)
    tensors = load_file(directory / "model.safetensors")
    change(tensors)
    save_file(tensors, directory / "model.safetensors", {"format": "pt"})
    line = refused(capsys, tmp_path, f"hf:{directory}", *arguments)
    for text in texts:
        assert text in line


def test_weights_that_cannot_be_read(capsys, tmp_path):
    directory = llama(tmp_path)
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    assert line_about(capsys, tmp_path, directory).startswith(f"{directory}: ")
    path.unlink()
    index = directory / "model.safetensors.index.json"
    for files, text in (({}, "expected weight_map"), ({"a": "../b"}, "'../b' is not the name of a file"),
                        ({"a": "b.safetensors"}, "names b.safetensors, which does not exist")):
        index.write_text(json.dumps({"weight_map": files}))
        assert f"{index}: " in line_about(capsys, tmp_path, directory) and text in line_about(capsys, tmp_path, directory)
    index.unlink()
    (directory / "pytorch_model.bin").write_bytes(b"")
    assert "pytorch_model.bin: only weights in safetensors are read" in line_about(capsys, tmp_path, directory)


def line_about(capsys, tmp_path, directory):
    line = refused(capsys, tmp_path, f"hf:{directory}")
    (tmp_path / "out").rmdir()
    return line


def test_a_new_head_starts_from_random_weights(tmp_path):
    """Of a model of the same kind with other labels, and of another task; the rest is that of the file."""
    from lockstep.hf.directory import ModelDirectory
    from lockstep.hf.model import load_model as load_directory

    directory = save(CASES["bert"], tmp_path / "hf")
    lines = []
    model, task = load_directory(ModelDirectory(str(directory)), None, {"num_labels": 5}, 3, lines.append)
    assert task == "sequence-classification" and model.classifier.weight.shape[0] == 5
    assert lines == ["not in the weights, start from random ones: classifier.bias, classifier.weight"]
    stored = load_file(directory / "model.safetensors")
    assert torch.equal(model.bert.pooler.dense.weight, stored["bert.pooler.dense.weight"])
    again, _ = load_directory(ModelDirectory(str(directory)), None, {"num_labels": 5}, 3, lines.append)
    assert torch.equal(again.classifier.weight, model.classifier.weight)
    model, task = load_directory(ModelDirectory(str(directory)), "token-classification", {}, 3, lines.clear and lines.append)
    assert task == "token-classification" and model.classifier.weight.shape[0] == CLASSES
