"""One forward and backward pass in C++ and in Python, from the same seed over the same images.

Every bit of the initialization, the batch, the logits, the loss and the gradients must be equal.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision
from lockstep import models
from torch.nn import functional as F

sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("golden", "printer")]
import idx  # noqa: E402
import printer  # noqa: E402
import tokens  # noqa: E402

BATCH_SIZE = 48
VIT = dict(name="vit", image_size=28, patch_size=4, layers=2, heads=4, width=16, mlp_width=24)
VIT.update(in_channels=1, classes=10)
CASES = {
    "mlp": (dict(name="mlp"), models.Mlp, {}),
    "mlp-narrow": (dict(name="mlp", hidden=[17, 5, 3]), models.Mlp, {}),
    "mlp-linear": (dict(name="mlp", hidden=[]), models.Mlp, {}),
    "mlp-normalized": (dict(name="mlp", hidden=[64]), models.Mlp, dict(mean=0.1307, std=0.3081)),
    "cnn": (dict(name="cnn"), models.Cnn, {}),
    "resnet": (dict(name="resnet", stem="small", in_channels=1, classes=10), models.Resnet, {}),
    "resnet-50": (
        dict(name="resnet", depth=50, in_channels=1, classes=10, zero_init_residual=True),
        models.Resnet,
        {},
    ),
    "vit": (dict(VIT, attention_dropout=0.1, dropout=0.2), models.Vit, {}),
    "vit-plain": (VIT, models.Vit, {}),
    "cnn-small": (
        dict(name="cnn", channels=[3, 5, 7], hidden=11),
        models.Cnn,
        dict(mean=0.5, std=0.25),
    ),
}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Random images with all 256 byte values, as IDX files."""
    directory = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    idx.write_idx(directory / "train-images-idx3-ubyte", rng.integers(0, 256, (BATCH_SIZE, 28, 28)))
    idx.write_idx(directory / "train-labels-idx1-ubyte", rng.integers(0, 10, BATCH_SIZE))
    return directory


def run_cpp(config, directory):
    """Names of the parameters in order, and every tensor as raw bytes."""
    (directory / "job.yaml").write_text(json.dumps(config))
    result = printer.run("model", directory / "job.yaml", directory)
    assert result.returncode == 0, result.stderr
    return result.stdout.split(), {path.stem: path.read_bytes() for path in directory.glob("*.bin")}


def run_python(seed, model_class, arguments, images, scaling):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model = model_class(**arguments)
    image, label = idx.load_split(images, "train", **scaling)
    logits = model(image)
    loss = F.cross_entropy(logits, label)
    loss.backward()
    tensors = {"batch.image": image, "batch.label": label, "logits": logits, "loss": loss}
    tensors["sum.accuracy"] = (logits.argmax(1) == label).sum()
    for name, parameter in model.named_parameters():
        tensors[f"parameter.{name}"] = parameter
        tensors[f"gradient.{name}"] = parameter.grad
    tensors.update((f"buffer.{name}", buffer) for name, buffer in model.named_buffers())
    names = [name for name, _ in model.named_parameters()]
    return names, {name: tensor.detach().numpy().tobytes() for name, tensor in tensors.items()}


@pytest.mark.parametrize("case, seed", [(case, seed) for case in CASES for seed in (0, 1234567) if seed == 0 or "resnet" not in case])
def test_every_bit_is_equal(case, seed, images, tmp_path):
    model, model_class, scaling = CASES[case]
    data = {"name": "idx", "path": str(images), **scaling}
    names, tensors = run_cpp(
        {"seed": seed, "batch_size": BATCH_SIZE, "model": model, "data": data}, tmp_path
    )
    arguments = {key: value for key, value in model.items() if key != "name"}
    python_names, python_tensors = run_python(seed, model_class, arguments, images, scaling)
    assert names == python_names
    assert tensors.keys() == python_tensors.keys()
    for name, expected in python_tensors.items():
        assert tensors[name] == expected, f"{name} differs"


GPTS = {
    "tied": dict(vocab_size=61, context=16, layers=2, heads=2, width=32),
    "untied": dict(vocab_size=97, context=20, layers=3, heads=3, width=24, tied_embeddings=False),
    "dropout": dict(vocab_size=61, context=16, layers=2, heads=2, width=32, dropout=0.2),
}
TOKENS_PER_SAMPLE = 16


def make_text(path, vocabulary, separator=None):
    """48 samples of random tokens; with `separator`, of different length."""
    rng = np.random.default_rng(0)
    text = rng.integers(1, vocabulary, BATCH_SIZE * TOKENS_PER_SAMPLE + 1)
    if separator is not None:
        lengths = rng.integers(2, TOKENS_PER_SAMPLE + 1, BATCH_SIZE)
        documents = [[*rng.integers(1, vocabulary, length), separator] for length in lengths]
        text = np.concatenate(documents)
    tokens.write_tokens(path, text)


def run_python_gpt(seed, sizes, tokens_BT, targets_BT):
    torch.set_num_threads(1)
    model = models.build("gpt", seed, **sizes)
    logits = model(tokens_BT)
    loss = F.cross_entropy(logits.flatten(0, 1), targets_BT.flatten())
    loss.backward()
    tensors = {"batch.tokens": tokens_BT, "batch.targets": targets_BT, "logits": logits}
    tensors.update(loss=loss, targets=(targets_BT != -100).sum())
    for name, parameter in model.named_parameters():
        tensors[f"parameter.{name}"] = parameter
        tensors[f"gradient.{name}"] = parameter.grad
    names = [name for name, _ in model.named_parameters()]
    return names, {name: tensor.detach().numpy().tobytes() for name, tensor in tensors.items()}


@pytest.mark.parametrize("separator", [None, 0], ids=["windows", "documents"])
@pytest.mark.parametrize("case", GPTS)
def test_every_bit_of_a_gpt_is_equal(case, separator, tmp_path):
    """Also with ignored padding targets."""
    sizes, path = GPTS[case], tmp_path / "text.bin"
    make_text(path, sizes["vocab_size"], separator)
    data = {"name": "tokens", "path": str(path), "length": TOKENS_PER_SAMPLE}
    if separator is None:
        batch = tokens.load_windows(path, TOKENS_PER_SAMPLE)
    else:
        data["separator"] = separator
        batch = tokens.load_documents(path, TOKENS_PER_SAMPLE, separator)
    config = {"seed": 3, "batch_size": BATCH_SIZE, "model": {"name": "gpt", **sizes}, "data": data}
    path_of_results = tmp_path / "results"
    path_of_results.mkdir()
    names, ours = run_cpp(config, path_of_results)
    python_names, theirs = run_python_gpt(3, sizes, *batch)
    assert names == python_names
    assert ours.keys() == theirs.keys()
    for name, expected in theirs.items():
        assert ours[name] == expected, f"{name} differs"


TWINS = {
    "resnet18": (models.Resnet, {}, torchvision.models.resnet18, {}),
    "resnet34": (models.Resnet, dict(depth=34), torchvision.models.resnet34, {}),
    "resnet50": (
        models.Resnet,
        dict(depth=50, classes=7, zero_init_residual=True),
        torchvision.models.resnet50,
        dict(num_classes=7, zero_init_residual=True),
    ),
    "vit": (
        models.Vit,
        dict(image_size=32, patch_size=8, layers=2, heads=2, width=16, mlp_width=32, dropout=0.1),
        torchvision.models.VisionTransformer,
        dict(image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=32)
        | dict(dropout=0.1),
    ),
}


def train_step(model_class, arguments):
    """The state of a model before and after a step, and its outputs."""
    torch.manual_seed(5)
    model = model_class(**arguments)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    torch.manual_seed(6)
    logits = model(torch.rand(3, 3, 32, 32))
    F.cross_entropy(logits, torch.arange(3)).backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return [before, model.state_dict(), gradients, {"logits": logits.detach()}]


@pytest.mark.parametrize("case", TWINS)
def test_reference_modules_match_torchvision(case):
    torch.set_num_threads(1)
    twin, arguments, original, original_arguments = TWINS[case]
    ours, theirs = train_step(twin, arguments), train_step(original, original_arguments)
    for mine, other in zip(ours, theirs):
        assert list(mine) == list(other)
        for name, expected in other.items():
            assert torch.equal(mine[name], expected), name
