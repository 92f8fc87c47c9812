"""Training on an NVIDIA GPU: the bits of Python on the same GPU, like the CPU within rounding; resuming, CUDA graphs, sharding and
recomputation are bit-identical."""

import json
import math
import os
import signal
import sys
from pathlib import Path

import numpy
import pytest
import torch

import processes
import test_adapters as adapters
import test_dpo as dpo
import test_hugging_face as hf
from conftest import MNIST, Job
from ddp_comparison import ADAMW, CNN, FEW, MANY, MLP, SGD, compare
from processes import LOCKSTEP, SOURCE, TIMEOUT_S, wait_until
from safetensors_file import assert_same_bits, checkpoints, last_weights
from test_adapters import base  # noqa: F401, a fixture
from test_generation import rows_of, write_prompts
from test_predictions import predicted
from test_profile import modules_of
from test_python_ddp_bits import text, train_gpt  # noqa: F401, a fixture
from test_recompute import MODELS, use_model

sys.path.insert(0, str(SOURCE / "tests" / "golden"))
import idx

pytestmark = pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no NVIDIA GPU on this machine")

DEVICE = "distributed.device=cuda"
DETERMINISTIC = "train.deterministic=true"  # gradients of convolutions are sums in any order otherwise
GPU = [DEVICE, "train.log_every=1 step", "train.max_steps=40", "train.epochs=2"]
WAYS = {
    "mlp": [],
    "cnn": ["model={name: cnn}", DETERMINISTIC],
    "resnet, whose buffers change": ["model={name: resnet, depth: 18, in_channels: 1, stem: small}", DETERMINISTIC],
    "vit, with dropout": [f"model={json.dumps(MODELS['vit'])}", DETERMINISTIC],
    "bf16": ["train.precision=bf16"],
    "fp16": ["train.precision=fp16"],
    "accumulated": ["train.accumulate=3"],
    "clipped": ["train.clip_grad_norm=0.5"],
    "averaged weights": ["train.ema.decay=0.9"],
    "skipped steps": ["train.non_finite=skip"],
}
TOLERANCE = 2e-3  # of losses, for 40 steps: sums are computed in a different order


def losses(job, run_dir):
    return job.series(run_dir.name, "train/loss")


def assert_close(job, one, other, tolerance=TOLERANCE):
    pairs = list(zip(losses(job, one), losses(job, other), strict=True))
    assert pairs
    for (step, loss), (same_step, expected) in pairs:
        assert step == same_step
        assert math.isclose(loss, expected, abs_tol=tolerance), f"step {step}: {loss}, expected {expected}"


def train_with_graph(job, *overrides):
    """Trains, and checks that a graph was used."""
    before = set(job.runs.glob("*"))
    ended = job.run(*overrides, "train.cuda_graph=true")
    assert ended.code == 0 and ended.err == "", ended.err
    assert "without a graph" not in ended.out
    (run_dir,) = set(job.runs.glob("*/run.json")) - {path / "run.json" for path in before}
    return run_dir.parent


def lockstep_compile(job, *words):
    ended = processes.run(
        [sys.executable, "-m", "lockstep.compile.command_line", *words], job.directory,
        processes.environment(PYTHONPATH=SOURCE / "python", PATH=f"{processes.BIN}:{os.environ['PATH']}"), timeout=10 * TIMEOUT_S)
    assert ended.code == 0, ended.err


def compile_model(job, *words):
    package = job.directory / "model.ls2"
    lockstep_compile(job, *words, "--batch", job.file, "--seed", 7, "--device", "cuda", "-o", package)
    return f"model={{name: compiled, package: {package}}}"


# The bits of DistributedDataParallel over NCCL, with its defaults.
PARTS = {
    "mlp, sgd": (MLP, MANY, SGD),
    "mlp, adamw": (MLP, MANY, ADAMW),
    "cnn, adamw": (CNN, FEW, ADAMW, ([DETERMINISTIC], ["--deterministic"])),
    "bf16": (MLP, MANY, ADAMW, (["train.precision=bf16"], ["--precision", "bf16"])),
    "fp16": (MLP, MANY, SGD, (["train.precision=fp16"], ["--precision", "fp16"])),
    "clipped": (MLP, FEW, ADAMW, (["train.clip_grad_norm=0.5"], ["--clip-grad-norm", "0.5"])),
    "accumulated": (MLP, FEW, SGD, (["train.accumulate=2"], ["--accumulate", "2"])),
}
ON_GPU = ([DEVICE], ["--device", "cuda"])


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_bits_of_python(job, peers, parts):
    compare(job, peers, 1, *parts, ON_GPU)


@pytest.mark.parametrize("optimizer", [SGD, ADAMW], ids=["sgd", "adamw"])
def test_bits_of_python_with_a_gpt(job, peers, text, optimizer):  # noqa: F811
    train_gpt(job, peers, text, 1, 1, optimizer, ON_GPU)


def test_losses_match_the_cpu(job):
    on_gpu, on_cpu = job.train(*GPU), job.train(*GPU[1:])
    assert len(losses(job, on_gpu)) == 40
    assert_close(job, on_gpu, on_cpu)


LIKE_CPU = {
    "vit": ["model={name: vit, image_size: 28, patch_size: 7, in_channels: 1, layers: 2, heads: 2, width: 16, mlp_width: 32}"],
    "virtual shards": ["distributed.virtual_shards=4"],
    "losses and metrics": ["model.loss={name: cross_entropy, label_smoothing: 0.1}", "train.eval_metrics=[accuracy, f1]"],
    "schedule": ["schedule={name: cosine, warmup_steps: 5}"],
    **{name: [f"optimizer={{name: {name}, lr: 0.003}}"] for name in ("adam", "lion", "muon", "nadam", "radam", "rmsprop", "adamw_schedule_free")},
    "adafactor": ["optimizer={name: adafactor}"],
    "adagrad": ["optimizer={name: adagrad, lr: 0.01}"],
    "adamw, bf16 state": ["optimizer={name: adamw, lr: 0.003, state: bf16}"],
    "adamw, int8 state": ["optimizer={name: adamw, lr: 0.003, state: int8}"],
}


@pytest.mark.parametrize("way", LIKE_CPU.values(), ids=LIKE_CPU)
def test_like_the_cpu(job, way):
    on_gpu, on_cpu = job.train(*GPU, *way), job.train(*GPU[1:], *way)
    # With states of 8 bits, a difference in the last bit can become one of a whole level.
    assert_close(job, on_gpu, on_cpu, 1e-2 if "state: int8" in way[0] else TOLERANCE)
    for name in ("eval/loss", "eval/accuracy"):
        of_gpu, of_cpu = (job.series(run_dir.name, name) for run_dir in (on_gpu, on_cpu))
        assert [value for _, value in of_gpu] == pytest.approx([value for _, value in of_cpu], abs=0.02)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_cuda_graph_is_bit_identical(job, way):
    """Batches of two shapes: the last one of an epoch is smaller."""
    without, with_graph = job.train(*GPU, *way), train_with_graph(job, *GPU, *way)
    assert losses(job, with_graph) == losses(job, without)
    assert_same_bits(last_weights(with_graph), last_weights(without))


SAME = {
    "optimizer": ["distributed.shard=optimizer"],
    "gradients": ["distributed.shard=gradients"],
    "full": ["distributed.shard=full"],
    "recomputed": ["train.recompute=blocks"],
    "full, recomputed": ["distributed.shard=full", "train.recompute=blocks"],
}


@pytest.mark.parametrize("settings", SAME.values(), ids=SAME)
@pytest.mark.parametrize("model", ["gpt", "vit", "resnet"])
def test_sharded_and_recomputed_runs_are_bit_identical(job, tmp_path_factory, model, settings):
    """Over NCCL, whose group has one rank."""
    whole = Job(tmp_path_factory.mktemp("whole"))
    for each in (job, whole):
        use_model(each, model)
    common = ["checkpoint.writers=main", *([] if model == "gpt" else [DETERMINISTIC])]
    settings = [*settings, *common]
    expected = whole.train(DEVICE, *common, ranks=1)
    run_dir = job.train(DEVICE, *settings, ranks=1)
    for file in last_weights(expected).parent.glob("*.safetensors"):
        assert_same_bits(last_weights(run_dir).parent / file.name, file)


@pytest.mark.parametrize("graph", ["false", "true"])
def test_resumed_run_equals_uninterrupted_run(job, graph):
    whole = job.train(*GPU, f"train.cuda_graph={graph}")
    stopped = job.train(*GPU[:2], "train.max_steps=13", "train.epochs=2", f"train.cuda_graph={graph}")
    ended = job.run(*GPU, f"train.cuda_graph={graph}", options=["--resume", stopped.name])
    assert ended.code == 0, ended.err
    assert_same_bits(last_weights(whole), last_weights(stopped))


def test_killed_run_equals_uninterrupted_run(job):
    use_model(job, "vit")
    settings = [DEVICE, DETERMINISTIC, "train.max_steps=60", "train.epochs=5", "checkpoint.every=5 steps"]
    whole = job.train(*settings, ranks=1)
    started = job.start(*settings, ranks=1, options=["--max-restarts", "1"])

    def saved():
        return [run for run in job.runs.glob("*") if run != whole and (run / "checkpoints").exists() and checkpoints(run)]

    (run_dir,) = wait_until(saved, TIMEOUT_S, "a checkpoint")
    [victim] = processes.ranks_of(job.directory).values()
    os.kill(victim, signal.SIGKILL)
    ended = processes.finish(started)
    assert ended.code == 0, ended.err
    assert_same_bits(last_weights(run_dir), last_weights(whole))


def test_a_loss_that_is_not_finite_ends_the_run(job):
    ended = job.run(*GPU, "optimizer.lr=1e30")
    assert ended.code == 78, ended.err
    assert "the loss is" in ended.err and len(ended.err.splitlines()) == 1


def test_a_compiled_model(job):
    model = compile_model(job, "lockstep.models:mlp", "hidden=[32]", "--loss", "cross_entropy", "--dynamic-batch")
    eager = job.train(*GPU)
    for train in (job.train, lambda *overrides: train_with_graph(job, *overrides)):
        run_dir = train(*GPU, model)
        assert_close(job, run_dir, eager)
    expected, _ = predicted(job, *GPU, model, resume=run_dir.name)
    images = idx.load_split(MNIST, "test", len(expected))[0].cuda()
    for form, load in (("pt2", lambda path: torch.export.load(path).module()), ("aoti", torch._inductor.aoti_load_package)):
        out = str(job.directory / f"{form}.pt2")
        lockstep_compile(job, "export", last_weights(run_dir).parent, "--format", form, "-o", out)
        with torch.no_grad():
            assert numpy.allclose(load(out)(images).cpu(), expected, atol=1e-4)


def test_the_peak_of_a_compiled_model_is_that_of_its_precision(job):
    words = ["lockstep.models:mlp", "hidden=[32]", "--loss", "cross_entropy", "--dynamic-batch"]
    in_bf16 = job.train(*GPU, compile_model(job, *words, "--precision", "bf16"))
    eager = job.train(*GPU, "train.precision=bf16")
    assert_close(job, in_bf16, eager, 2e-2)
    assert math.isclose(peak_of(job, in_bf16), peak_of(job, eager), rel_tol=0.1)


def peak_of(job, run_dir):
    """Operations per second, up to the batch size."""
    speed, mfu, flops = (job.series(run_dir.name, f"train/{name}")[0][1] for name in ("samples_per_s", "mfu", "flops_per_step"))
    return flops * speed / mfu


def test_a_compiled_model_that_is_cut_at_its_blocks(job):
    use_model(job, "gpt")
    sizes = [f"{key}={value}" for key, value in MODELS["gpt"].items() if key not in ("name", "dropout")]
    job.config["model"]["dropout"] = 0
    job.config["data"] = {"train": job.config["data"]["train"], "per_rank_batch_size": 8, "drop_last": True, "shuffle": False}
    job.write()
    model = compile_model(job, "lockstep.models:gpt", *sizes, "--loss", "cross_entropy", "--segments", "blocks")
    eager, compiled = job.train(*GPU, ranks=1), job.train(*GPU, model, ranks=1)
    assert_close(job, compiled, eager)
    for settings in (["distributed.shard=full"], ["distributed.shard=full", "train.recompute=blocks"]):
        assert_same_bits(last_weights(job.train(*GPU, model, *settings, ranks=1)), last_weights(compiled))


def test_predictions_match_the_cpu(job):
    run_dir = job.train(*GPU)
    on_cpu, _ = predicted(job, resume=run_dir.name)
    on_gpu, _ = predicted(job, DEVICE, resume=run_dir.name)
    assert numpy.allclose(on_gpu, on_cpu, atol=1e-4)


@pytest.mark.parametrize("name", ["llama 3", "qwen 3", "mistral", "gemma 2", "gemma 3", "phi 3", "gpt-neox", "mixtral"])
def test_language_models(job, name):
    """Logits of transformers, the texts of the CPU, and a training like the CPU's; with bf16 it learns."""
    model = hf.make(name, job.directory / "hf")
    inputs, _ = hf.configure(job, job.directory / "hf", max_steps=12, log_every="1 step", eval_every="1000 epochs")
    assert (hf.logits_here(job, DEVICE) - hf.logits_of(model, inputs)).abs().max() < 1e-4
    prompts = write_prompts(job, [{"tokens": inputs[row, :length].tolist()} for row, length in enumerate((3, 9, 14))])
    options = ["--generate", prompts, "--max-tokens", "16"]
    assert rows_of(job, *options, config=[DEVICE]) == rows_of(job, *options)
    on_gpu = job.train(DEVICE)
    assert_close(job, on_gpu, job.train())
    in_bf16 = losses(job, job.train(DEVICE, "train.precision=bf16"))
    assert in_bf16[-1][1] < in_bf16[0][1] - 0.1


@pytest.mark.parametrize("kind", ["lora", "dora", "saved"])
def test_adapters(job, base, kind):  # noqa: F811
    adapter = job.directory / "adapter"
    adapters.adapt(base, adapter, kind)
    adapters.configure(job, base, {"path": str(adapter)}, max_steps=20, log_every="1 step", eval_every="1000 epochs")
    assert_close(job, job.train(DEVICE), job.train())


def test_preferences(job):
    dpo.configure(job, dpo.conversations(12), {"beta": dpo.BETA})
    assert_close(job, job.train(DEVICE), job.train(), 1e-4)


def test_profile_and_use_of_the_gpu(job):
    run_dir = job.train(DEVICE, "train.max_steps=12", "train.log_every=1 step", "train.profile.steps=5-6", "tracking.system_every=1 s")
    (file,) = (run_dir / "profiles").iterdir()
    events = json.loads(file.read_text())["traceEvents"]
    assert {"cpu_op", "kernel"} <= {event.get("cat") for event in events}
    assert all(0 < value < 1 for _, value in job.series(run_dir.name, "train/mfu"))
    assert len(job.series(run_dir.name, "train/mfu")) == 12
    metrics = {row["metric"]: row["value"] for row in job.export(run_dir.name)}
    assert metrics["system/gpu.0.memory_total_bytes"] > 1e9
    assert 0 < metrics["system/gpu.0.memory_used_bytes"] < metrics["system/gpu.0.memory_total_bytes"]
    assert "system/gpu.0.run_memory_bytes" in metrics and "system/gpu.0.power_watts" in metrics


def test_costs_of_modules(job):
    use_model(job, "gpt")
    job.config["model"]["dropout"] = 0  # else the CPU does not use a fused attention, which computes scores twice
    job.config["tracking"] = {"modules": True, "sinks": ["jsonl"]}
    job.write()
    here, on_cpu = (modules_of(job.train("train.max_steps=1", *device)) for device in ([DEVICE], []))
    assert here.keys() == on_cpu.keys()
    for name, costs in on_cpu.items():
        same = [each for each in costs if each != "activation bytes"]
        assert [here[name][each] for each in same] == [costs[each] for each in same]
        if costs["activation bytes"] is not None:  # attention keeps other tensors on a GPU
            assert costs["activation bytes"] / 3 < here[name]["activation bytes"] < costs["activation bytes"] * 3


def test_audits(job):
    job.train(DEVICE, "train.audit.every=4", ranks=1)


@pytest.mark.parametrize("hidden", ["[12000, 12000, 12000]", "[20000]"], ids=["of the weights", "of a batch"])
def test_out_of_memory_is_one_line(job, hidden):
    """LibTorch may only use a small part of the memory."""
    limited = processes.environment(PYTORCH_CUDA_ALLOC_CONF="per_process_memory_fraction:0.002")
    ended = job.run(DEVICE, f"model={{name: mlp, hidden: {hidden}}}", "data.batch_size=1000", env=limited)
    assert ended.code == 78, ended.err
    assert len(ended.err.splitlines()) == 1 and "does not fit the memory of the GPU" in ended.err, ended.err


def test_one_rank_per_gpu(job):
    gpus = torch.cuda.device_count()
    for number in ("gpu", "auto"):
        run_dir = job.train("distributed.device=auto", "train.max_steps=3", "train.log_every=1 step", ranks=number)
        assert len(job.series(run_dir.name, "train/mfu")) == 3  # the peak of GPUs is known
        assert json.loads((run_dir / "run.json").read_text())["world_size"] == gpus
    ended = job.run(DEVICE, "train.max_steps=3", ranks=gpus + 1)
    assert ended.code == 78, ended.err
    assert f"no GPU for local rank {gpus}: each rank needs one, this machine has {gpus}; start fewer ranks" in ended.err


def test_a_batch_with_an_odd_vocabulary_in_bf16(job):
    """The vocabulary is padded, which the losses do not show."""
    use_model(job, "gpt")
    job.config["train"]["log_every"] = "1 step"
    job.config["model"]["dropout"] = 0
    job.write()
    assert_close(job, job.train(DEVICE, "train.precision=bf16"), job.train(DEVICE), 2e-2)


def test_doctor(job):
    ended = processes.run([LOCKSTEP, "doctor", "--json"], job.directory)
    found = {finding["what"]: (finding["health"], finding["text"]) for finding in json.loads(ended.out)}
    assert found["GPUs"][0] == "good" and torch.cuda.get_device_name(0) in found["GPUs"][1], found["GPUs"]
