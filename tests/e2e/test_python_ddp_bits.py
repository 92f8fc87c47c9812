"""The same run file and seed give the weights of Python's DistributedDataParallel, bit for bit."""

import json

import numpy as np
import pytest

from ddp_comparison import ADAMW, CNN, FEW, MANY, MLP, SGD, compare
from conftest import cases, long
from safetensors_file import assert_same_bits, checkpoints, last_weights, read_raw

GPT_SIZES = {"vocab_size": 61, "context": 16, "layers": 2, "heads": 2, "width": 32}


@pytest.mark.parametrize("world_size", [long(1), long(2), 3])
@pytest.mark.parametrize("optimizer", [SGD, ADAMW], ids=["sgd", "adamw"])
@pytest.mark.parametrize("model, data", [(MLP, MANY), (CNN, FEW)], ids=["mlp", "cnn"])
def test_weights_after_an_epoch(job, peers, model, data, optimizer, world_size):
    run_dir = compare(job, peers, world_size, model, data, optimizer)
    assert checkpoints(run_dir) == [{1003: 21, 301: 26}[int(data[1][1])]]


@pytest.mark.parametrize("world_size", [long(2), 3])
def test_gradients_in_the_shared_segment(job, peers, world_size):
    """Gradients of at least 1 MiB are stored in shared memory; a width of 512 has 1.6 MB."""
    model = (["model={name: mlp, hidden: [512]}"], ["--model", "mlp", "--config", '{"hidden": [512]}'])
    compare(job, peers, world_size, model, FEW, ADAMW)


@pytest.mark.parametrize("world_size", [long(1), 3])
def test_adam(job, peers, world_size):
    adam = (["optimizer={name: adam, lr: 0.01, weight_decay: 0.02}"], ["--optimizer", "adam", "--lr", "0.01", "--weight-decay", "0.02"])
    compare(job, peers, world_size, MLP, FEW, adam)


def test_adamw_with_weight_decay_on_matrices(job, peers):
    kept = (["optimizer.weight_decay_on=matrices"], ["--decay-matrices"])
    run_dir = compare(job, peers, 2, MLP, FEW, ADAMW, kept)
    plain = job.train(*MLP[0], *FEW[0], *ADAMW[0], ranks=2)
    with pytest.raises(AssertionError, match="the bytes of .* differ"):
        assert_same_bits(last_weights(run_dir), last_weights(plain))


def test_a_changed_setting_changes_the_bits(job, peers):
    """The comparison can fail: another seed of the peer is detected."""
    run_dir = job.train(*MLP[0], *FEW[0], ranks=1)
    peer_file = job.directory / "peer.safetensors"
    peers.train(1, peer_file, "--seed", "8", *MLP[1], *FEW[1], *SGD[1])
    with pytest.raises(AssertionError, match="the bytes of .* differ"):
        assert_same_bits(last_weights(run_dir), peer_file)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """301 samples of 16 random tokens below 61."""
    path = tmp_path_factory.mktemp("text") / "text.bin"
    numbers = np.random.default_rng(0).integers(0, GPT_SIZES["vocab_size"], 301 * 16 + 1)
    numbers.astype(np.uint16).tofile(path)
    return path


def train_gpt(job, peers, text, world_size, accumulate, *parts):
    limit = 301 if accumulate == 1 else 300  # so that all groups are complete
    train = f"data={{train: {{name: tokens, path: '{text}', length: 16, limit: {limit}}}, batch_size: 12}}"
    model = (
        [f"model={json.dumps({'name': 'gpt', **GPT_SIZES})}", train, f"train.accumulate={accumulate}"],
        ["--model", "gpt", "--config", json.dumps(GPT_SIZES), "--data", text, "--limit", limit]
        + ["--batch-size", "12", "--accumulate", accumulate],
    )
    run_dir = job.train(*[override for part in (model, *parts) for override in part[0]], ranks=world_size)
    peer_file = job.directory / "peer.safetensors"
    peers.train(world_size, peer_file, "--seed", "7", *[argument for part in (model, *parts) for argument in part[1]])
    assert_same_bits(last_weights(run_dir), peer_file)
    assert checkpoints(run_dir) == [{1: 26, 2: 13}[accumulate]]


@pytest.mark.parametrize("world_size, accumulate", [long(1, 1), long(2, 1), (3, 1), long(1, 2), (2, 2)])
@pytest.mark.parametrize("optimizer", [SGD, ADAMW], ids=["sgd", "adamw"])
def test_a_gpt_over_tokens(job, peers, text, optimizer, accumulate, world_size):
    """Its loss is a mean over tokens; with the same number on every rank, the weights are exactly 1."""
    train_gpt(job, peers, text, world_size, accumulate, optimizer)


BF16 = (["train.precision=bf16"], ["--precision", "bf16"])


@pytest.mark.parametrize("world_size", [long(1), long(2), 3])
def test_a_gpt_under_autocast(job, peers, text, world_size):
    train_gpt(job, peers, text, world_size, 1, ADAMW, BF16)


RESNET = {"depth": 18, "classes": 10, "in_channels": 1, "stem": "small"}
VIT = {"image_size": 28, "patch_size": 7, "layers": 2, "heads": 2, "width": 16, "mlp_width": 32, "classes": 10, "in_channels": 1}


@pytest.mark.parametrize("world_size", [long(1), 2, long(3)])
@pytest.mark.parametrize("name, sizes", [("resnet", RESNET), ("vit", VIT)], ids=["resnet", "vit"])
def test_image_models(job, peers, name, sizes, world_size):
    """The running means of a resnet are buffers, which rank 0 broadcasts: they are equal too."""
    model = ([f"model={json.dumps({'name': name, **sizes})}"], ["--model", name, "--config", json.dumps(sizes)])
    data = (["data.train.limit=59", "data.batch_size=12"], ["--limit", "59", "--batch-size", "12"])
    run_dir = compare(job, peers, world_size, model, data, SGD)
    assert checkpoints(run_dir) == [5]


EXTRAS = {
    "two epochs": (["train.epochs=2"], ["--epochs", "2"]),
    "sgd with weight decay": (["optimizer.weight_decay=0.01"], ["--weight-decay", "0.01"]),
    "decay of matrices": (
        ["optimizer.weight_decay=0.1", "optimizer.weight_decay_on=matrices"],
        ["--weight-decay", "0.1", "--decay-matrices"],
    ),
    "drop_last": (["data.drop_last=true"], ["--drop-last"]),
    "clip_grad_norm": (["train.clip_grad_norm=0.5"], ["--clip-grad-norm", "0.5"]),
    "small buckets": (["distributed.bucket_cap_mb=0.001"], ["--bucket-cap-mb", "0.001"]),
    "gradients as bucket views": (
        ["distributed.gradient_as_bucket_view=true"],
        ["--gradient-as-bucket-view"],
    ),
    "together": (
        ["train.epochs=2", "optimizer.weight_decay=0.1", "optimizer.weight_decay_on=matrices", "data.drop_last=true",
         "train.clip_grad_norm=0.5", "distributed.bucket_cap_mb=0.001"],
        ["--epochs", "2", "--weight-decay", "0.1", "--decay-matrices", "--drop-last", "--clip-grad-norm", "0.5", "--bucket-cap-mb", "0.001"],
    ),
}


@pytest.mark.parametrize("extra", cases(EXTRAS, "gradients as bucket views", "together"))
def test_settings(job, peers, extra):
    """On 3 ranks, where dividing by the number of ranks rounds."""
    compare(job, peers, 3, MLP, FEW, SGD, extra)


@pytest.mark.parametrize("backend, world_size", [("auto", 2), long("gloo", 2), ("gloo", 3)])
@pytest.mark.parametrize("kind", ["fp16", "bf16"])
def test_compressed_gradients(job, peers, kind, backend, world_size):
    """The result differs from that without compression. Shared memory rounds a sum of three once, Gloo twice."""
    compression = ([f"distributed.gradient_compression={kind}"], ["--gradient-compression", kind])
    backend = [f"distributed.backend={backend}"]
    run_dir = compare(job, peers, world_size, MLP, FEW, ADAMW, compression, (backend, []))
    plain = job.train(*MLP[0], *FEW[0], *ADAMW[0], ranks=world_size)
    with pytest.raises(AssertionError, match="the bytes of .* differ"):
        assert_same_bits(last_weights(run_dir), last_weights(plain))


@pytest.mark.parametrize("world_size", [long(1), 2, long(3)])
@pytest.mark.parametrize("model, data", [(MLP, MANY), (CNN, FEW)], ids=["mlp", "cnn"])
def test_under_autocast(job, peers, model, data, world_size):
    """The result differs from that without autocast."""
    run_dir = compare(job, peers, world_size, model, data, ADAMW, BF16)
    plain = job.train(*model[0], *data[0], *ADAMW[0], ranks=world_size)
    with pytest.raises(AssertionError, match="the bytes of .* differ"):
        assert_same_bits(last_weights(run_dir), last_weights(plain))


def test_accumulated_under_autocast(job, peers):
    """A cast of a parameter must not outlive the step."""
    data = (["data.train.limit=960", "data.batch_size=48"], ["--limit", 960, "--batch-size", 48])
    compare(job, peers, 2, MLP, data, SGD, BF16, (["train.accumulate=2"], ["--accumulate", 2]))


@pytest.mark.parametrize("world_size", [long(1), 2])
@pytest.mark.parametrize("accumulate", [2, long(4)])
def test_accumulated_batches(job, peers, accumulate, world_size):
    """960 samples are 20 batches, so all groups are complete."""
    data = (["data.train.limit=960", "data.batch_size=48"], ["--limit", 960, "--batch-size", 48])
    groups = ([f"train.accumulate={accumulate}"], ["--accumulate", accumulate])
    run_dir = compare(job, peers, world_size, MLP, data, SGD, groups)
    assert checkpoints(run_dir) == [20 // accumulate]


def test_accumulation_into_bucket_views(job, peers):
    data = (["data.train.limit=960", "data.batch_size=48"], ["--limit", 960, "--batch-size", 48])
    groups = (["train.accumulate=2"], ["--accumulate", 2])
    views = EXTRAS["gradients as bucket views"]
    compare(job, peers, 2, MLP, data, ADAMW, groups, views)


def test_normalized_pixels(job, peers):
    pixels = (
        ["data.train.mean=0.1307", "data.train.std=0.3081"],
        ["--mean", "0.1307", "--std", "0.3081"],
    )
    compare(job, peers, 2, CNN, FEW, ADAMW, pixels)


@pytest.mark.parametrize("name, hidden", [("mlp", [32]), ("cnn", 16)])
def test_python_loads_our_checkpoint(job, name, hidden):
    import torch
    from lockstep import models
    from safetensors.torch import load_file

    run_dir = job.train(f"model={{name: {name}, hidden: {hidden}}}", "train.max_steps=3")
    weights = last_weights(run_dir)
    module = models.build(name, 0, hidden=hidden)
    loaded = load_file(weights)
    module.load_state_dict(loaded, strict=True)
    raw = read_raw(weights)
    assert list(raw) == [key for key, _ in module.named_parameters()]
    for key, tensor in module.state_dict().items():
        assert tensor.dtype == torch.float32
        assert tensor.numpy().tobytes() == raw[key][2]
