"""Invalid input of `lockstep-compile hf:DIR` is one line."""

import json
import shutil
import sys
from importlib import metadata

import pytest
import torch
from safetensors.torch import load_file, save_file

import hf_cases
from hf_cases import CASES, compile_here, llama, save


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
    "an unknown architecture of timm": ({"model_type": None, "architectures": None, "pretrained_cfg": {}, "num_classes": 3,
                                         "architecture": "resnet10"}, [], [
        "config.json: ", "The model architecture 'resnet10' is not supported in your version of timm"]),
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

UNET = {"_class_name": "UNet2DModel", "sample_size": 8, "in_channels": 1, "out_channels": 1, "layers_per_block": 1, "block_out_channels": [8],
        "norm_num_groups": 4, "down_block_types": ["DownBlock2D"], "up_block_types": ["UpBlock2D"]}
DENOISERS = {
    "an unknown class": ({"_class_name": "UNet2D"}, {}, [], ["config.json: 'UNet2D' is not a model of diffusers"]),
    "a model of another kind": ({"_class_name": "AutoencoderKL"}, {}, [], ["a AutoencoderKL does not predict noise"]),
    "a model of tokens": ({"_class_name": "UVit2DModel"}, {}, [], ["a UVit2DModel does not predict noise: its forward() takes input_ids, "]),
    "no text": ({"_class_name": "UNet2DConditionModel", "mid_block_type": None}, {}, [], [
        "the model fails on the example batch: ", "; the batch has no encoder_hidden_states, which the model takes: give --batch a run file "]),
    "an argument of another class": ({}, {}, ["layer_per_block=2"], ["UNet2DModel has no 'layer_per_block'", "did you mean 'layers_per_block'?"]),
    "groups that do not divide": ({"norm_num_groups": 3}, {}, [], ["config.json: ValueError: ", "divisible"]),
    "a task": ({}, {}, ["--task", "causal-lm"], ["--task causal-lm: a model of diffusers has one task"]),
    "another schedule": ({}, {"_class_name": "EDMEulerScheduler"}, [], ["scheduler_config.json: a EDMEulerScheduler has no table of noise"]),
    "another target": ({}, {"prediction_type": "flow"}, [], ["scheduler_config.json: prediction_type 'flow'", "valid: epsilon"]),
    "the variance too": ({"out_channels": 2}, {}, [], ["also predict the variance are not supported"]),
}


@pytest.mark.parametrize("name", DENOISERS)
def test_invalid_denoisers(capsys, tmp_path, name):
    changes, schedule, arguments, texts = DENOISERS[name]
    pipeline = tmp_path / "pipeline"
    for file, content in {"model_index.json": {}, "unet/config.json": {**UNET, **changes}, "scheduler/scheduler_config.json": schedule}.items():
        (pipeline / file).parent.mkdir(parents=True, exist_ok=True)
        (pipeline / file).write_text(json.dumps(content))
    line = refused(capsys, tmp_path, f"hf:{pipeline}", *arguments)
    for text in texts:
        assert text in line


def test_a_pipeline_without_a_model_and_weights_of_another(capsys, tmp_path):
    pipeline = tmp_path / "pipeline"
    pipeline.mkdir()
    (pipeline / "model_index.json").write_text("{}")
    assert "model_index.json: the pipeline has no model to train" in refused(capsys, tmp_path, f"hf:{pipeline}")
    shutil.rmtree(tmp_path / "out")
    (pipeline / "unet").mkdir()
    (pipeline / "unet" / "config.json").write_text(json.dumps(UNET))
    save_file({"conv_in.weight": torch.zeros(3)}, pipeline / "unet" / "diffusion_pytorch_model.safetensors")
    assert "'conv_in.weight' has the shape [3], but the model of config.json needs [8, 1, 3, 3]" in refused(capsys, tmp_path, f"hf:{pipeline}")


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
    from lockstep.compile.hf import command

    monkeypatch.setitem(sys.modules, "transformers", None)
    text = "which is not installed: pip install 'lockstep[hf]', or pip install transformers=="
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


def test_weights_that_lack_the_head(capsys, tmp_path):
    directory = save(CASES["distilbert"], tmp_path / "hf")
    tensors = load_file(directory / "model.safetensors")
    del tensors["classifier.weight"]
    save_file(tensors, directory / "model.safetensors", {"format": "pt"})
    assert "lacks 'classifier.weight', which the model of config.json needs" in refused(capsys, tmp_path, f"hf:{directory}")


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
