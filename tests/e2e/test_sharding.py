"""Runs with any sharding strategy are bit-identical to runs without."""

import json
import os
import random
import signal
import time

import pytest

import processes
from conftest import Job, cases, long
from processes import BIN
from safetensors_file import assert_same_bits, assert_usable, checkpoints, last_weights, read_raw
from test_recompute import use_model
from test_resume import assert_same_checkpoint, resume

SHARDED = "distributed.shard=optimizer"
STRATEGIES = ["optimizer", "gradients", "full"]
OPTIMIZERS = {
    "sgd": "optimizer={name: sgd, lr: 0.1, momentum: 0.9, weight_decay: 0.001}",
    "adamw": "optimizer={name: adamw, lr: 0.01, weight_decay_on: matrices}",
}
SETTINGS = {
    "plain": [],
    "clipping": ["train.clip_grad_norm=0.5"],
    "accumulation": ["train.accumulate=3"],
    "gloo": ["distributed.backend=gloo"],
    "average": ["train.ema.decay=0.9"],
    "bf16": ["train.precision=bf16"],
    "fp16": ["train.precision=fp16", "train.clip_grad_norm=0.5"],
    "skip": ["train.non_finite=skip"],
    "frozen": ["train.freeze=[0.weight]"],
    "cnn": ["model={name: cnn, channels: [4, 8], hidden: 16}"],
    "shares": ["checkpoint.writers=all"],
    "together": ["train.clip_grad_norm=0.5", "train.accumulate=3", "train.freeze=[0.weight]", "checkpoint.writers=all"],
}


@pytest.fixture
def whole(tmp_path_factory):
    """A separate directory, for the run that is not sharded."""
    return Job(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
@pytest.mark.parametrize("ranks", [long(2), 3, long(4)])
def test_bit_identical_to_the_unsharded_run(job, whole, ranks, optimizer):
    settings = ["train.epochs=3", "checkpoint.writers=main", optimizer]
    expected = whole.train(*settings, ranks=ranks)
    for strategy in STRATEGIES:
        sharded = job.train(f"distributed.shard={strategy}", *settings, ranks=ranks)
        assert_same_checkpoint(sharded, expected)
        assert_usable(sharded)


@pytest.mark.parametrize("settings", cases(SETTINGS, "together", "fp16", "gloo"))
def test_bit_identical_with_other_features(job, whole, settings):
    settings = [f"train.freeze=[{frozen_weight(whole)}]" if "freeze" in each else each for each in settings]
    settings = [OPTIMIZERS["adamw"], *settings]
    if "checkpoint.writers=all" not in settings:
        settings.append("checkpoint.writers=main")
    expected = whole.train(*settings, ranks=3)
    files = sorted(path.name for path in last_weights(expected).parent.glob("*.safetensors"))
    for strategy in STRATEGIES[:2] if "distributed.backend=gloo" in settings else STRATEGIES:
        sharded = job.train(f"distributed.shard={strategy}", *settings, ranks=3)
        assert sorted(path.name for path in last_weights(sharded).parent.glob("*.safetensors")) == files
        for file in files:
            assert_same_bits(last_weights(sharded).parent / file, last_weights(expected).parent / file)


GLOO = "distributed.backend=gloo"
# Of models with blocks, whose weights are gathered one block at a time over Gloo.
NETWORK_SETTINGS = {
    "adamw": ("gpt", [OPTIMIZERS["adamw"]]),
    "sgd": ("gpt", [OPTIMIZERS["sgd"]]),
    "clipping": ("gpt", ["train.clip_grad_norm=0.5"]),
    "accumulation": ("gpt", ["train.accumulate=2"]),
    "recompute": ("gpt", ["train.recompute=blocks"]),
    "frozen": ("gpt", ["train.freeze=[transformer.h.1, transformer.wpe]"]),
    "small buckets": ("gpt", ["distributed.bucket_cap_mb=0.01"]),
    "evaluation and average": ("vit", ["train.ema.decay=0.9", "train.eval_every=5 steps", "train.clip_grad_norm=1"]),
    "bf16": ("vit", ["train.precision=bf16"]),
    "fp16": ("vit", ["train.precision=fp16", "train.clip_grad_norm=0.5"]),
    "skip": ("vit", ["train.non_finite=skip"]),
    "batch norm": ("resnet", []),
    "shares": ("gpt", ["checkpoint.writers=all", "checkpoint.every=5 steps"]),
}


@pytest.mark.parametrize("name", [name if name in ("evaluation and average", "batch norm") else long(name)
                                  for name in NETWORK_SETTINGS])
def test_bit_identical_over_a_network(job, whole, name):
    """On three ranks, where dividing by the number of ranks rounds; some also on two."""
    model, settings = NETWORK_SETTINGS[name]
    also_on_two = name in ("adamw", "sgd", "clipping", "evaluation and average", "fp16", "shares")
    for each in (job, whole):
        use_model(each, model)
    if "checkpoint.writers=all" not in settings:
        settings = [*settings, "checkpoint.writers=main"]
    for ranks in (2,) if model == "resnet" else (2, 3) if also_on_two else (3,):
        expected = whole.train(GLOO, *settings, ranks=ranks)
        files = sorted(path.name for path in last_weights(expected).parent.glob("*.safetensors"))
        for strategy in ("gradients", "full"):
            sharded = job.train(GLOO, f"distributed.shard={strategy}", *settings, ranks=ranks)
            assert sorted(path.name for path in last_weights(sharded).parent.glob("*.safetensors")) == files
            for file in files:
                assert_same_bits(last_weights(sharded).parent / file, last_weights(expected).parent / file)
            assert job.series(sharded.name, "eval/loss") == whole.series(expected.name, "eval/loss")


def test_resume_with_another_strategy_over_a_network(job, whole):
    for each in (job, whole):
        use_model(each, "gpt")
    settings = [OPTIMIZERS["adamw"], GLOO, "checkpoint.every=4 steps", "checkpoint.keep_last=10", "checkpoint.writers=main",
                "train.ema.decay=0.9"]
    expected = whole.train("train.max_steps=16", *settings, ranks=3)
    changing = job.train("train.max_steps=4", "distributed.shard=full", *settings, ranks=3)
    for steps, shard in ((8, "gradients"), (12, "full"), (16, "none")):
        resume(job, changing, f"train.max_steps={steps}", f"distributed.shard={shard}", *settings, ranks=3)
    assert checkpoints(changing) == checkpoints(expected)
    assert_same_checkpoint(changing, expected)


@pytest.mark.parametrize("settings, reason, nearest", [
    (["model={name: mlp, hidden: [8]}"], "the model has no blocks (lockstep::Block)", "gradients"),
    (["tracking.media.histograms=true", "tracking.media.every=1"], "tracking.media.histograms needs whole weights and gradients", "optimizer"),
    (["distributed.static_graph=true"], "distributed.static_graph is not supported with it", "optimizer"),
])
def test_unsupported_combinations_over_a_network_are_rejected_before_ranks_connect(job, settings, reason, nearest):
    ended = job.run(GLOO, "distributed.shard=full", *settings, ranks=2)
    assert ended.code == 78, ended.err
    assert f"distributed.shard: full: {reason}" in ended.err
    assert f"use distributed.shard: {nearest}" in ended.err
    assert not job.runs.exists()


BACKENDS = {"shared memory": "distributed.backend=auto", "gloo": GLOO}


@pytest.mark.parametrize("model", ["gpt", long("vit"), long("resnet")])
def test_starts_with_the_weights_of_an_unsharded_run(job, whole, model):
    for each in (job, whole):
        use_model(each, model)
    settings = ["train.max_steps=1", "optimizer.lr=1e-3", "checkpoint.writers=main"]
    for seed in (0, 1, 2147483647) if model == "gpt" else (3,):
        expected = whole.train(*settings, f"run.seed={seed}", ranks=2)
        for backend in BACKENDS.values():
            sharded = job.train(*settings, f"run.seed={seed}", "distributed.shard=full", backend, ranks=2)
            assert_same_checkpoint(sharded, expected)


def use_probe(job, **settings):
    job.config["plugins"] = [str(BIN.parent / "tests" / "bin" / "start_probe.so")]
    job.config["model"] = {"name": "start_probe", **settings}
    job.write()


@pytest.mark.parametrize("way", [long("in place"), long("read"), "pointer", long("seed")])
def test_starts_with_the_weights_of_an_unusual_constructor(job, whole, way):
    for each in (job, whole):
        use_model(each, "gpt")  # its data
        use_probe(each, way=way)
    settings = ["train.max_steps=1", "checkpoint.writers=main"]
    expected = whole.train(*settings, ranks=2)
    for backend in BACKENDS.values():
        assert_same_checkpoint(job.train(*settings, "distributed.shard=full", backend, ranks=2), expected)


def test_starts_from_a_file_except_some_weights(job, whole):
    for each in (job, whole):
        use_model(each, "gpt")
    file = last_weights(whole.train("train.max_steps=1", "run.seed=5"))
    settings = [f"train.init_from={file}", "train.max_steps=1", "checkpoint.writers=main"]
    for excepted in ([], ["train.init_except=[transformer.h.1, transformer.wpe]"]):
        expected = whole.train(*settings, *excepted, ranks=2)
        for backend in BACKENDS.values():
            sharded = job.train(*settings, *excepted, "distributed.shard=full", backend, ranks=2)
            assert_same_checkpoint(sharded, expected)


PARTS = 40  # equal blocks of 2.5 MB


def peaks_at_start(job, parts, *settings, run_dir=None):
    """The largest resident size of each rank, in bytes, until its first forward pass."""
    use_probe(job, parts=parts, directory=str(job.directory))
    settings = ["distributed.shard=full", "checkpoint.writers=main", OPTIMIZERS["sgd"], *settings]
    if run_dir:
        resume(job, run_dir, *settings, ranks=4)
    else:
        run_dir = job.train(*settings, ranks=4)
    return [1024 * int((job.directory / f"rank.{rank}").read_text()) for rank in range(4)], run_dir


@pytest.mark.parametrize("backend", [pytest.param(BACKENDS["shared memory"], id="shared memory"), long(GLOO, id="gloo")])
def test_no_rank_holds_the_whole_model_at_the_start(job, backend):
    use_model(job, "gpt")  # its data, which needs little memory
    one_step = [backend, "train.max_steps=1"]
    base, _ = peaks_at_start(job, 1, *one_step)
    seeded, run_dir = peaks_at_start(job, PARTS, *one_step)
    size = last_weights(run_dir).stat().st_size
    block = size / PARTS
    # Over Gloo: a share of the weights and of the gradients, the blocks that are gathered first, and one parameter. In
    # shared memory: the one copy of all ranks, and one parameter.
    limit = 2 * size / 4 + 4 * block if backend == GLOO else size + 2 * block
    loaded, _ = peaks_at_start(job, PARTS, *one_step, f"train.init_from={last_weights(run_dir)}")
    job.runs.rename(job.directory / "others")
    _, run_dir = peaks_at_start(job, PARTS, *one_step)
    resumed, _ = peaks_at_start(job, PARTS, backend, "train.max_steps=2", run_dir=run_dir)
    for start, peaks in {"seed": seeded, "init_from": loaded, "resume": resumed}.items():
        more = [peak - least for peak, least in zip(peaks, base)]
        # A resumed run also has its share of the optimizer's state.
        limit_of_start = limit + size / 4 if start == "resume" else limit
        assert max(more) < limit_of_start, f"{start}: {more} of {size}, limit {limit_of_start}"


def frozen_weight(whole):
    return next(iter(read_raw(last_weights(whole.train("train.max_steps=1")))))


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_resume_with_and_without_sharding(job, whole, optimizer):
    settings = [optimizer, "checkpoint.every=1 epoch", "checkpoint.keep_last=10"]
    expected = whole.train("train.epochs=4", *settings, ranks=2)
    changing = job.train("train.epochs=1", *settings, ranks=2)
    for epochs, shard in ((2, "optimizer"), (3, "full"), (4, "none")):
        resume(job, changing, f"train.epochs={epochs}", f"distributed.shard={shard}", *settings, ranks=2)
    assert checkpoints(changing) == checkpoints(expected)
    assert_same_checkpoint(changing, expected)


def test_resume_on_another_number_of_ranks(job):
    settings = [SHARDED, OPTIMIZERS["adamw"], "train.log_every=1 step"]
    run = job.train("train.max_steps=10", *settings, ranks=4)
    resume(job, run, "train.max_steps=11", "checkpoint.every=1 step", "checkpoint.keep_last=9", *settings, ranks=3)
    assert checkpoints(run)[-1] == 11
    assert_usable(run)


def test_one_rank_is_not_sharded(job, whole):
    assert_same_checkpoint(job.train(SHARDED), whole.train())


def test_plan_reports_the_smaller_state(job):
    def plan(*overrides):
        ended = processes.run([processes.LOCKSTEP, "plan", "-n", 4, "--json", job.file, OPTIMIZERS["adamw"], *overrides], job.directory)
        assert ended.code == 0, ended.err
        return json.loads(ended.out)

    whole = plan()["memory"]
    assert plan(SHARDED)["memory"]["optimizer"] == whole["optimizer"] // 4
    for strategy in STRATEGIES:
        plain, kept = plan(f"distributed.shard={strategy}"), plan(f"distributed.shard={strategy}", "--on-rank-loss=continue")
        copies = (whole["optimizer"] + 4 * plain["model"]["trained"]) // 4
        assert (plain["memory"]["copies"], kept["memory"]["copies"]) == (0, copies)
        assert kept["memory"]["bytes"] == plain["memory"]["bytes"] + copies
    assert plan("--on-rank-loss=continue")["memory"] == whole


def test_optimizer_that_needs_whole_parameters_is_rejected_before_ranks_connect(job):
    job.config["plugins"] = [str(BIN.parent / "tests" / "bin" / "whole_optimizer.so")]
    job.config["optimizer"] = {"name": "whole"}
    job.write()
    ended = job.run(SHARDED, ranks=2)
    assert ended.code == 78, ended.err
    assert "distributed.shard: optimizer: optimizer 'whole' is not elementwise" in ended.err
    assert "use distributed.shard: none" in ended.err
    assert not job.runs.exists()
    assert job.run(ranks=2).code == 0


KILLS = int(os.environ.get("LOCKSTEP_KILLS", 6))
MAX_DELAY_S = 0.1  # from the first checkpoint to the kill; a step takes most of its time to save


@pytest.mark.parametrize("backend", ["auto", long("gloo")])
def test_killed_in_any_phase_of_a_sharded_save(job, whole, backend):
    """Resumed after each of the kills, the run ends with the weights of an undisturbed one."""
    for each in (job, whole):
        use_model(each, "gpt")
    settings = [OPTIMIZERS["adamw"], f"distributed.backend={backend}", "distributed.shard=full", "checkpoint.writers=all",
                "train.epochs=10000"]
    frequent = [*settings, "train.max_steps=100000", "checkpoint.every=1 step", "checkpoint.async=false"]
    rng = random.Random(1)
    run_dir, reached = None, 0
    for _ in range(KILLS):
        started = job.start(*frequent, ranks=2, options=["--resume", run_dir.name] if run_dir else [])

        def saved():
            for run in job.runs.glob("*/checkpoints"):
                if [step for step in checkpoints(run.parent) if step > reached]:
                    return run.parent

        run_dir = processes.wait_until(saved, processes.TIMEOUT_S, "a checkpoint")
        time.sleep(rng.uniform(0, MAX_DELAY_S))  # the time of the kill is the parameter of the test
        victim = processes.ranks_of(job.directory).get(rng.randrange(2))
        if victim:
            os.kill(victim, signal.SIGKILL)
        ended = processes.finish(started)
        assert ended.code in (75, 0), ended.err
        assert "cannot be used" not in ended.out + ended.err
        reached = checkpoints(run_dir)[-1]
    resume(job, run_dir, *settings, f"train.max_steps={reached + 5}", ranks=2)
    expected = whole.train(*settings, f"train.max_steps={reached + 5}", ranks=2)
    for file in last_weights(expected).parent.glob("*.safetensors"):
        assert_same_bits(last_weights(run_dir).parent / file.name, file)
    assert not list((run_dir / "checkpoints").glob(".tmp-*"))
