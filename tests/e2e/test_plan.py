"""`lockstep plan` estimates steps, samples and sizes as in the run, and rejects what the run would reject."""

import json
import sys

import pytest

import processes
from processes import LOCKSTEP, TRAINER

PARAMETERS = 784 * 32 + 32 + 32 * 10 + 10
TENSORS = 4


def plan(job, *words, code=0):
    return processes.run([LOCKSTEP, "plan", *words], job.directory) if code else \
        json.loads(processes.run([LOCKSTEP, "plan", "--json", *words], job.directory).out)


@pytest.mark.parametrize("drop_last", ["false", "true"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_steps_and_samples_match_the_run(job, drop_last, accumulate):
    overrides = [f"data.drop_last={drop_last}", f"train.accumulate={accumulate}", "train.epochs=2", "train.log_every=1 step"]
    planned = plan(job, "-n", 2, job.file, *overrides)
    run_dir = job.train(*overrides, ranks=2)
    assert planned["ranks"] == {"world": 2, "per_node": 2}
    steps = [step for step, _ in job.series(run_dir.name, "train/loss")]
    assert len(steps) == planned["steps"]["total"] == 2 * planned["steps"]["per_epoch"]
    data = planned["data"]
    assert data["samples"] == 1003 and data["evaluation_samples"] == 301
    expected = (960 if drop_last == "true" else 1004) // 2
    assert data["samples_per_rank"] == expected
    assert (data["repeated"], data["left_out"]) == ((0, 43) if drop_last == "true" else (1, 0))
    rates = dict(job.series(run_dir.name, "train/lr"))
    for rate in planned["learning_rate"]:
        assert rates[rate["step"]] == rate["lr"]


@pytest.mark.parametrize("optimizer, state", [
    ("{name: sgd, lr: 0.1}", 0),
    ("{name: sgd, lr: 0.1, momentum: 0.9}", 4 * PARAMETERS),
    ("{name: adamw}", 8 * PARAMETERS + 4 * TENSORS),
], ids=["sgd", "momentum", "adamw"])
def test_sizes(job, optimizer, state):
    planned = plan(job, "-n", 2, job.file, f"optimizer={optimizer}", "train.ema.decay=0.9")
    weights = 4 * PARAMETERS
    assert planned["model"] == {"name": "mlp", "parameters": PARAMETERS, "trained": PARAMETERS}
    whole = 2 * weights + state
    memory = planned["memory"]
    activations = memory["activations"]
    kept = {"weights": weights, "gradients": weights, "optimizer": state, "average": weights, "snapshot": whole}
    assert memory == {**kept, "activations": activations, "copies": 0, "gathered": 0, "in_flight": 0, "publishing": 0, "start": weights,
                      "bytes": sum(kept.values()) + activations, "checkpoint": whole}
    run_dir = job.train(f"optimizer={optimizer}", "train.ema.decay=0.9")
    (last,) = (run_dir / "checkpoints").iterdir()
    files = [last / f"{name}.safetensors" for name in ("model", "ema", "optimizer")]
    assert 0 <= sum(file.stat().st_size for file in files if file.exists()) - whole < 3000, "apart from headers"


def test_traffic(job):
    planned = plan(job, "-n", 4, "--nnodes", 3, job.file, "distributed.bucket_cap_mb=0.001")
    gradients = planned["gradients"]
    assert planned["ranks"] == {"world": 12, "per_node": 4}
    assert gradients["buckets"] == [4 * (10 + 32 * 10), 4 * (32 + 784 * 32)], "from the last parameter to the first"
    assert gradients["sent_per_rank"] == 2 * 11 * 4 * PARAMETERS // 12
    compressed = plan(job, "-n", 4, job.file, "distributed.gradient_compression=bf16")
    assert compressed["gradients"]["sent_per_rank"] == 2 * 3 * 2 * PARAMETERS // 4
    assert "gradients" not in plan(job, job.file)


def test_hybrid_sharding_divides_within_a_host(job):
    hybrid = plan(job, "-n", 4, "--nnodes", 3, job.file, "distributed.backend=hierarchical", "distributed.shard=full")
    assert hybrid["memory"]["weights"] == hybrid["memory"]["gradients"] == PARAMETERS, "a quarter of 4 bytes each"
    whole = 4 * PARAMETERS
    assert hybrid["gradients"]["sent_per_host"] == 2 * whole * 2 // 3, "a ring of three hosts"
    assert hybrid["gradients"]["sent_per_rank"] == whole * 3 // 4 + whole // 3, "in shared memory, and a quarter of the ring"


SMALL_GPT = {"name": "gpt", "vocab_size": 61, "context": 16, "layers": 3, "heads": 2, "width": 32}
GPT_BLOCK = 4 * (12 * 32 * 32 + 13 * 32)  # bytes
GPT_TABLES = 4 * (61 + 16 + 2) * 32  # embeddings and the last norm


def use_small_gpt(job, path="nowhere.bin"):
    job.config["model"] = SMALL_GPT
    job.config["data"] = {"train": {"name": "tokens", "path": path, "length": 16}, "per_rank_batch_size": 2}
    job.config["train"] = {"max_steps": 12}
    job.write()


def strategies(planned):
    return {each["name"]: each for each in planned["sharding"]["strategies"]}


def test_traffic_of_each_strategy_with_two_hosts(job):
    """Rings of 6 ranks cross from a host to the other once; each rank sends 3 of 6 slices to the other host."""
    use_small_gpt(job)
    whole = GPT_TABLES + 3 * GPT_BLOCK
    gathered = GPT_TABLES + 5 * GPT_BLOCK  # the last block stays gathered until its backward pass
    for micro_batches in (1, 2):
        planned = strategies(plan(job, "-n", 3, "--nnodes", 2, job.file, f"train.accumulate={micro_batches}"))
        assert {name: (each["sent_per_rank"], each["sent_per_host"]) for name, each in planned.items()} == {
            "none": (2 * whole * 5 // 6, 2 * whole * 5 // 6),
            "optimizer": (3 * whole * 5 // 6, 3 * whole * 5 // 6),
            "gradients": (2 * whole * 5 // 6, int(whole * 5 / 6 + whole * 3 / 2)),
            "full": (int((whole + micro_batches * gathered) * 5 / 6),
                     int(whole * 3 / 2 + micro_batches * gathered * 5 / 6)),
        }
    one_host = strategies(plan(job, "-n", 2, job.file))
    assert one_host["full"]["sent_per_rank"] == whole // 2 and one_host["full"]["sent_per_host"] == 0
    hierarchical = plan(job, "-n", 3, "--nnodes", 2, job.file, "distributed.backend=hierarchical")["gradients"]
    assert (hierarchical["sent_per_rank"], hierarchical["sent_per_host"]) == (2 * whole * 2 // 3, whole)


def test_memory_of_full_over_a_network(job):
    """Weights outside of blocks, two blocks, Gloo's copy of one, and what is exchanged."""
    use_small_gpt(job)
    memory = plan(job, "-n", 2, "--nnodes", 2, job.file, "distributed.shard=full")["memory"]
    largest = max(GPT_BLOCK, GPT_TABLES)
    assert memory["weights"] == memory["gradients"] == (GPT_TABLES + 3 * GPT_BLOCK) / 4
    assert memory["gathered"] == GPT_TABLES + 3 * GPT_BLOCK
    assert memory["in_flight"] == GPT_TABLES + GPT_BLOCK + 2 * largest


def test_plan_without_data(job):
    """All that does not depend on the data is as with them."""
    text = job.directory / "text.bin"
    text.write_bytes(bytes(2 * (400 * 16 + 1)))
    use_small_gpt(job, str(text))
    with_data = plan(job, "-n", 2, job.file)
    text.unlink()
    without = plan(job, "-n", 2, job.file)
    assert without["data"]["missing"] == str(text)
    assert without["data"]["assumed"] == "tokens int64 [16], targets int64 [16]"
    assert without["steps"] == {"per_epoch": None, "total": 12} and without["data"]["samples"] is None
    for key in ("model", "memory", "activations", "gradients", "learning_rate"):
        assert without[key] == with_data[key]
    shown = processes.run([LOCKSTEP, "plan", "-n", 2, job.file, "train.max_steps=null"], job.directory)
    assert (shown.code, shown.err) == (0, "")
    assert f"data        {text}: no such file; assumed: samples of tokens int64 [16], targets int64 [16]" in shown.out
    assert "steps       unknown without the data; set train.max_steps" in shown.out


@pytest.mark.parametrize("model, fields", [
    ({"name": "mlp", "hidden": [8]}, "image float32 [784], label int64"),
    ({"name": "mlp", "inputs": 3, "input": "features", "loss": "mse", "outputs": 2}, "features float32 [3], label float32 [2]"),
    ({"name": "cnn", "in_channels": 3, "image_size": 20}, "image float32 [3, 20, 20], label int64"),
    ({"name": "vit", "image_size": 28, "patch_size": 7, "layers": 1, "heads": 1, "width": 8, "mlp_width": 8},
     "image float32 [3, 28, 28], label int64"),
    ({"name": "resnet", "depth": 18, "stem": "small"}, "image float32 [3, 32, 32], label int64"),
], ids=lambda value: value["name"] if isinstance(value, dict) else "")
def test_samples_that_models_assume(job, model, fields):
    job.config["model"] = model
    job.config["data"]["train"]["path"] = job.config["data"]["eval"]["path"] = "nowhere"
    job.config["data"]["batch_size"] = 4
    job.write()
    planned = plan(job, "-n", 2, job.file)
    assert planned["data"]["assumed"] == fields
    assert planned["activations"]["measured"] and planned["activations"]["bytes"] > 0


def test_only_the_evaluation_data_are_missing(job):
    planned = plan(job, "-n", 2, job.file, "data.eval.path=nowhere")
    assert planned["data"]["samples"] == 1003 and planned["data"]["evaluation_samples"] is None
    assert planned["data"]["missing"] == "nowhere"


def test_activations_are_measured_or_estimated(job):
    """The estimate of a large batch is in line with the measurement of a smaller one; recomputation needs less."""
    use_small_gpt(job)
    wide = ["model.width=128", "model.context=128", "model.layers=6"]

    def activations(batch, *overrides):
        return plan(job, job.file, *wide, f"data.per_rank_batch_size={batch}", *overrides)["activations"]

    small, large = activations(16), activations(256)
    assert small["note"] == "measured in a step of 16 samples" and small["measured"]
    assert large["note"] == "estimated from batches of 1 and 2 samples for one of 256" and not large["measured"]
    assert large["bytes"] == pytest.approx(16 * small["bytes"], rel=0.05)
    assert activations(16, "train.recompute=blocks")["bytes"] < small["bytes"] / 2


@pytest.mark.long
def test_a_large_model_is_planned_in_little_memory(job):
    """24 GB with gradients and the state of adamw."""
    use_small_gpt(job)
    sizes = ["model.width=2048", "model.layers=29", "model.heads=16", "optimizer={name: adamw}", "data.per_rank_batch_size=1"]
    command = [TRAINER, "--plan", "--json", str(job.file), *sizes]
    script = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True);"
              "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)")
    ended = processes.run([sys.executable, "-c", script, *command], job.directory)
    assert ended.code == 0, ended.err
    memory = json.loads(ended.out)["memory"]
    assert memory["bytes"] > 23e9 and memory["activations"] > 0
    assert int(ended.err) * 1024 < 1.5e9


@pytest.mark.parametrize("rule, repeated", [("uneven", 0), ("pad", 20)])
def test_batches_not_divisible_by_ranks(job, rule, repeated):
    """Of 1003 samples 20 batches of 50, which are 51 when padded, and one of 3."""
    planned = plan(job, "--nnodes", "2:3", job.file, "data.batch_size=50", f"data.batch_remainder={rule}")
    assert planned["steps"]["per_epoch"] == 21 and planned["data"]["batch_size"] == 50
    assert planned["data"]["batch_size_per_rank"] == 17
    assert (planned["data"]["samples_per_rank"], planned["data"]["repeated"]) == (20 * 17 + 1, repeated)


def test_nothing_is_written(job):
    before = sorted(job.directory.rglob("*"))
    text = processes.run([LOCKSTEP, "plan", "-n", 4, job.file, "train.freeze=[layers.0]"], job.directory)
    assert text.code == 0 and text.err == ""
    assert text.out.startswith("4 ranks, 4 per node, 1 node\n") and "330 of them trained" in text.out
    assert sorted(job.directory.rglob("*")) == before


@pytest.mark.parametrize("words, texts", [
    (["-n", "5", "CONFIG"], ["data.batch_size: 48 is not divisible by 5 ranks"]),
    (["--nnodes", "2:4", "CONFIG", "data.batch_size=100"], [
        "data.batch_size: 100 is not divisible by 3 ranks, which --nnodes 2:4 allows (divisible by 2, 4); ",
        "96 or 108", "data.batch_remainder"]),
    (["--nnodes", "4:2", "CONFIG"], ["--nnodes 4:2", "MIN <= MAX"]),
    (["-n", "zero", "CONFIG"], ["-n: expected an integer from 1", "'zero'"]),
    (["-n"], ["-n needs a number"]),
    (["--on-rank-loss", "wait"], ["--on-rank-loss wait: expected 'restart' or 'continue'"]),
    ([], ["no run file given"]),
    (["--nnode", "2", "CONFIG"], ["unknown option '--nnode'", "did you mean '--nnodes'"]),
    (["CONFIG", "optimizer.lrr=1"], ["optimizer.lrr", "'lr'"]),
    (["nowhere.yaml"], ["nowhere.yaml"]),
], ids=lambda value: " ".join(value))
def test_invalid_arguments(job, words, texts):
    ended = plan(job, *[str(job.file) if word == "CONFIG" else word for word in words], code=78)
    assert ended.code == 78 and len(ended.err.splitlines()) == 1
    assert all(text in ended.err for text in texts), ended.err


def test_help(job):
    assert "lockstep plan [-n RANKS]" in processes.run([LOCKSTEP, "plan", "--help"], job.directory).out
