"""Training on an NVIDIA GPU: like the CPU within rounding; resuming and CUDA graphs are bit-identical."""

import math
import sys
from pathlib import Path

import numpy
import pytest

import processes
from safetensors_file import assert_same_bits, last_weights
from test_predictions import predicted

pytestmark = pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no NVIDIA GPU on this machine")

COMPILE = Path(sys.executable).parent / "lockstep-compile"
GPU = ["distributed.device=cuda", "train.log_every=1 step", "train.max_steps=40", "train.epochs=2"]
WAYS = {
    "mlp": [],
    "cnn": ["model={name: cnn}"],
    "resnet, whose buffers change": ["model={name: resnet, depth: 18, in_channels: 1, stem: small}"],
    "bf16": ["train.precision=bf16"],
    "fp16": ["train.precision=fp16"],
    "accumulated": ["train.accumulate=3"],
    "clipped": ["train.clip_grad_norm=0.5"],
    "averaged weights": ["train.ema.decay=0.9"],
}
TOLERANCE = 2e-3  # of losses, for 40 steps: sums are computed in a different order


def losses(job, run_dir):
    return job.series(run_dir.name, "train/loss")


def train_with_graph(job, *overrides):
    """Trains, and checks that a graph was used."""
    before = set(job.runs.glob("*"))
    ended = job.run(*overrides, "train.cuda_graph=true")
    assert ended.code == 0 and ended.err == "", ended.err
    assert "without a graph" not in ended.out
    (run_dir,) = set(job.runs.glob("*/run.json")) - {path / "run.json" for path in before}
    return run_dir.parent


def test_losses_match_the_cpu(job):
    on_gpu, on_cpu = job.train(*GPU), job.train(*GPU[1:])
    pairs = list(zip(losses(job, on_gpu), losses(job, on_cpu), strict=True))
    assert len(pairs) == 40
    for (step, gpu), (same_step, cpu) in pairs:
        assert step == same_step
        assert math.isclose(gpu, cpu, abs_tol=TOLERANCE)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_cuda_graph_is_bit_identical(job, way):
    """Batches of two shapes: the last one of an epoch is smaller."""
    without, with_graph = job.train(*GPU, *way), train_with_graph(job, *GPU, *way)
    assert losses(job, with_graph) == losses(job, without)
    assert_same_bits(last_weights(with_graph), last_weights(without))


@pytest.mark.parametrize("graph", ["false", "true"])
def test_resumed_run_equals_uninterrupted_run(job, graph):
    whole = job.train(*GPU, f"train.cuda_graph={graph}")
    stopped = job.train(*GPU[:2], "train.max_steps=13", "train.epochs=2", f"train.cuda_graph={graph}")
    ended = job.run(*GPU, f"train.cuda_graph={graph}", options=["--resume", stopped.name])
    assert ended.code == 0, ended.err
    assert_same_bits(last_weights(whole), last_weights(stopped))


def test_a_compiled_model(job):
    package = job.directory / "model.ls2"
    ended = processes.run(
        [COMPILE, "lockstep.models:mlp", "hidden=[32]", "--loss", "cross_entropy", "--batch", job.file, "--dynamic-batch", "--seed", 7,
         "--device", "cuda", "-o", package], job.directory)
    assert ended.code == 0, ended.err
    model = f"model={{name: compiled, package: {package}}}"
    eager = job.train(*GPU)
    for train in (job.train, lambda *overrides: train_with_graph(job, *overrides)):
        run_dir = train(*GPU, model)
        for (_, compiled), (_, expected) in zip(losses(job, run_dir), losses(job, eager), strict=True):
            assert math.isclose(compiled, expected, abs_tol=TOLERANCE)


def test_predictions_match_the_cpu(job):
    run_dir = job.train(*GPU)
    on_cpu, _ = predicted(job, resume=run_dir.name)
    on_gpu, _ = predicted(job, "distributed.device=cuda", resume=run_dir.name)
    assert numpy.allclose(on_gpu, on_cpu, atol=1e-4)
