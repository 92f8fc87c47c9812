"""Operations of a step as torch.utils.flop_counter counts them, and traces of steps (train.profile)."""

import json

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from lockstep import models
from lockstep.compile.flops import count_flops
from lockstep.compile.graphs import State, Step, trace
from lockstep.compile.losses import find_loss
from lockstep.compile.segments import split
from refusals import refuse


def flops_here(job, *overrides, ranks=None):
    run_dir = job.train("train.max_steps=2", "train.log_every=1 step", *overrides, ranks=ranks)
    return {name: [value for _, value in job.series(run_dir.name, f"train/{name}")] for name in ("flops_per_step", "mfu")}


def flops_in_python(name, batch, **sizes):
    """Of a forward and backward pass, without the loss."""
    model = models.build(name, 0, **sizes)
    with FlopCounterMode(display=False) as counter:
        model(batch).sum().backward()
    return counter.get_total_flops()


def test_matrix_products(job):
    expected = flops_in_python("mlp", torch.zeros(48, 784), hidden=[32])
    ours = flops_here(job)
    assert ours["flops_per_step"] == [expected]
    assert ours["mfu"] == []  # the peak of this CPU is unknown
    assert flops_here(job, ranks=2)["flops_per_step"] == [expected]  # of both


def test_convolutions(job):
    expected = flops_in_python("cnn", torch.zeros(48, 1, 28, 28), hidden=16)
    ours = flops_here(job, "model={name: cnn, hidden: 16}", "train.peak_flops=1e15")
    assert ours["flops_per_step"] == [expected]
    assert all(0 < mfu < 1 for mfu in ours["mfu"])


def counted(name, batch, dynamic=False, segments=1, **sizes):
    """Of all segments of a compiled model: for a batch of the same number of samples, and for one more."""
    module = models.build(name, 0, **sizes)
    step = Step(module, find_loss("cross_entropy", module, batch).function, list(batch), None)
    graph = trace(step, State.of(module), batch, dynamic, training=True)
    size = len(next(iter(batch.values())))
    all_parts = [count_flops(part.module) for part in split(graph, segments)]
    assert all(len(flops) == (2 if dynamic else 1) for flops in all_parts)
    return [sum(factor * count**i for flops in all_parts for i, factor in enumerate(flops)) for count in (size, size + 1)]


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_models_have_the_same_operations(dynamic):
    def expected(name, shape, **sizes):
        return [flops_in_python(name, torch.zeros(48 + more, *shape), **sizes) for more in (0, dynamic)]

    labels = torch.zeros(48, dtype=torch.long)
    images = {"image": torch.zeros(48, 1, 28, 28), "label": labels}
    assert counted("mlp", images, dynamic, hidden=[32]) == expected("mlp", (784,), hidden=[32])
    assert counted("cnn", images, dynamic, hidden=16) == expected("cnn", (1, 28, 28), hidden=16)
    layers, width, length = 2, 16, 24
    tokens = torch.zeros(4, length, dtype=torch.long)
    sizes = {"vocab_size": 50, "context": length, "layers": layers, "heads": 2, "width": width}
    per_sample = 7 * 2 * layers * length * length * width + 3 * 2 * length * (12 * layers * width * width + 50 * width)
    of_text = counted("gpt", {"tokens": tokens, "targets": tokens}, dynamic, 1 if dynamic else 3, **sizes)
    assert of_text == [4 * per_sample, (5 if dynamic else 4) * per_sample]


def test_attention(job):
    """torch.utils.flop_counter counts the attention of GPUs only: here, with its formulas, 2 and 5 products per layer."""
    layers, heads, width, length, samples = 2, 2, 16, 24, 4
    torch.arange(2000, dtype=torch.int16).remainder(50).numpy().astype("uint16").tofile(job.directory / "tokens.bin")
    job.config["data"] = {"train": {"name": "tokens", "path": str(job.directory / "tokens.bin"), "length": length}, "batch_size": samples}
    sizes = {"vocab_size": 50, "context": length, "layers": layers, "heads": heads, "width": width}
    job.config["model"] = {"name": "gpt", **sizes}
    job.write()
    attention = layers * 7 * 2 * samples * heads * length * length * (width // heads)
    weights = 12 * layers * width * width + 50 * width  # per token: forward, and twice as much backward
    assert flops_here(job)["flops_per_step"][0] == attention + 3 * 2 * samples * length * weights


def modules_of(run_dir):
    """{module: its row} of the table model/modules, which is recorded once."""
    (records,) = run_dir.glob("sinks/jsonl/*/records.jsonl")
    found = [record for record in map(json.loads, records.read_text().splitlines()) if record["type"] == "table"]
    (table,) = [record for record in found if record["name"] == "model/modules"]
    assert table["step"] == 1
    return {row[0]: dict(zip(table["columns"], row)) for row in table["rows"]}


def test_costs_of_modules(job):
    layers, heads, width, length, samples = 2, 2, 16, 24, 4
    torch.arange(2000, dtype=torch.int16).remainder(50).numpy().astype("uint16").tofile(job.directory / "tokens.bin")
    job.config["data"] = {"train": {"name": "tokens", "path": str(job.directory / "tokens.bin"), "length": length}, "batch_size": samples}
    job.config["model"] = {"name": "gpt", "vocab_size": 50, "context": length, "layers": layers, "heads": heads, "width": width}
    job.config["tracking"] = {"modules": True, "sinks": ["jsonl"]}
    job.write()
    run_dir = job.train("train.max_steps=2", "train.log_every=1 step")
    costs = modules_of(run_dir)
    blocks = [costs[name] for name in costs if costs[name]["activation bytes"] is not None]
    assert len(blocks) == layers
    weights = 12 * width**2
    passes = {"attention": 7 * 2 * samples * length**2 * width, "weights": 3 * 2 * samples * length * weights}
    rest = 3 * 2 * samples * length * 50 * width
    for block in blocks:
        assert block["FLOPs"] == sum(passes.values())
        assert block["parameters"] == block["trainable"] == weights + 13 * width
        assert block["bytes"] == block["gradient bytes"] == 4 * block["parameters"]
        kept = samples * length * width * 4  # bytes of one activation: at least the input of each of four linear layers
        assert 8 * kept < block["activation bytes"] < 64 * kept
    whole = costs["(the model)"]
    assert whole["FLOPs"] == layers * sum(passes.values()) + rest == job.series(run_dir.name, "train/flops_per_step")[0][1]
    assert whole["parameters"] == sum(part.numel() for part in models.build("gpt", 0, **{k: v for k, v in job.config["model"].items() if k != "name"}).parameters())
    assert costs["(outside of the blocks)"]["FLOPs"] == rest

    # While LibTorch's profiler counts memory, activations are not counted.
    profiled = modules_of(job.train("train.max_steps=1", "train.profile={steps: 1}"))
    for block in blocks:
        assert profiled[block["module"]] == {**block, "activation bytes": None}

    # Computed twice, and with weights that are on this rank only while a block uses them: on two ranks, half of the batch.
    again = modules_of(job.train("train.max_steps=1", "train.recompute=blocks"))
    shared = modules_of(job.train("train.max_steps=1", "distributed.shard=full", ranks=2))
    for name in (block["module"] for block in blocks):
        assert again[name]["FLOPs"] == passes["attention"] * 9 // 7 + passes["weights"] * 4 // 3
        assert again[name]["activation bytes"] < costs[name]["activation bytes"] / 4
        assert shared[name]["FLOPs"] == costs[name]["FLOPs"] // 2
        assert shared[name]["bytes"] == costs[name]["bytes"]
        assert abs(shared[name]["activation bytes"] - costs[name]["activation bytes"] / 2) < 2048


def test_modules_of_models_without_blocks_have_no_operations(job):
    job.config["tracking"] = {"modules": True, "sinks": ["jsonl"]}
    job.write()
    costs = modules_of(job.train("train.max_steps=1"))
    assert costs["(the model)"]["FLOPs"] == flops_in_python("mlp", torch.zeros(48, 784), hidden=[32])
    layers = [row for row in costs.values() if row["type"] == "Linear"]
    assert [row["parameters"] for row in layers] == [784 * 32 + 32, 32 * 10 + 10]
    assert all(row["FLOPs"] is row["activation bytes"] is None for row in layers)
    assert "(outside of the blocks)" not in costs


def test_a_trace_opens_in_perfetto(job):
    """The fields of Chrome's trace format that Perfetto needs, in files whose rank, process and thread are known."""
    run_dir = job.train("train.max_steps=6", "train.profile={steps: 3-4, ranks: [0, 1]}", ranks=2)
    files = sorted((run_dir / "profiles").iterdir())
    assert [file.name for file in files] == ["rank-00000-steps-3-4.json", "rank-00001-steps-3-4.json"]
    traces = [json.loads(file.read_text()) for file in files]
    assert [trace["distributedInfo"] for trace in traces] == [{"rank": rank, "world_size": 2} for rank in (0, 1)]
    processes = [process_of(trace["traceEvents"]) for trace in traces]
    assert processes[0] != processes[1]


def process_of(events):
    """Checks the operators of a trace of two steps; returns the process id that they all have."""
    assert all({"ph", "name", "pid", "tid", "ts"} <= event.keys() for event in events)
    operators = [event for event in events if event.get("cat") == "cpu_op"]
    names = {event["name"] for event in operators}
    assert {"aten::linear", "aten::addmm", "aten::mm"} <= names
    assert sum(event["name"] == "aten::linear" for event in operators) == 2 * 2  # two layers, two steps
    for event in operators:
        assert event["ph"] == "X" and event["ts"] > 0 and event["dur"] >= 0
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
    (pid,) = {event["pid"] for event in operators}
    named = {(event["name"], event["pid"], event["tid"]) for event in events if event["ph"] == "M"}
    assert ("process_name", pid, 0) in named
    assert {("thread_name", pid, event["tid"]) for event in operators} <= named
    return pid


def test_large_products_with_onednn(job):
    """Within rounding of those of LibTorch, forward and backward; small ones stay with its BLAS."""
    steps = ["train.max_steps=6", "train.log_every=1 step", "model.hidden=[64, 16]", "data.batch_size=64"]
    plain = job.train(*steps)
    run_dir = job.train(*steps, "train.matmul=onednn", "train.profile={steps: 3}")
    (file,) = (run_dir / "profiles").iterdir()
    events = json.loads(file.read_text())["traceEvents"]
    counts = {name: sum(event.get("name") == name for event in events) for name in ("aten::addmm", "mkldnn::_linear_pointwise")}
    assert counts == {"aten::addmm": 3, "mkldnn::_linear_pointwise": 2}  # the first layer, and the gradient of its weight
    ours, theirs = (job.series(each.name, "train/loss") for each in (run_dir, plain))
    assert [value for _, value in ours] == pytest.approx([value for _, value in theirs], rel=1e-5)
    flops = [job.series(each.name, "train/flops_per_step") for each in (run_dir, plain)]
    assert flops[0] == flops[1]


def test_onednn_is_refused_where_it_has_no_effect(job):
    refuse(job, ["train.matmul=onednn", "model={name: compiled, package: model.ls2}"],
           ["train.matmul: onednn has no effect on a compiled model"], ranks=None)
    refuse(job, ["train.matmul=onednn", "train.precision=bf16"], ["train.matmul: onednn is for train.precision: fp32"], ranks=None)


@pytest.mark.parametrize(
    "profile, texts",
    [
        ("{steps: 5-4}", ["train.profile.steps", "up to 100 steps, counted from 1, such as 100-105 or 100"]),
        ("{steps: 0-4}", ["train.profile.steps"]),
        ("{steps: 1-101}", ["train.profile.steps"]),
        ("{steps: first}", ["train.profile.steps"]),
        ("{steps: 20-25}", ["train.profile.steps: 20-25: the run has 21 steps"]),
        ("{steps: 1, ranks: [1]}", ["train.profile.ranks: there is no rank 1: the run has 1"]),
        ("{ranks: [1]}", ["train.profile.ranks", "train.profile.steps"]),
    ],
)
def test_steps_that_cannot_be_profiled_are_refused(job, profile, texts):
    refuse(job, [f"train.profile={profile}"], texts, ranks=None)
