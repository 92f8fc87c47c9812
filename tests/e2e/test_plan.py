"""`lockstep plan` estimates steps, samples and sizes as in the run, and rejects what the run would reject."""

import json

import pytest

import processes
from processes import LOCKSTEP

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
    assert planned["memory"] == {"weights": weights, "gradients": weights, "in_flight": 0, "optimizer": state,
                                 "average": weights, "snapshot": whole, "checkpoint": whole}
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
    assert hybrid["gradients"]["sent_per_rank"] == 2 * PARAMETERS * 2 // 3, "a ring of three hosts"


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
