"""distributed.slow_ranks: a rank that is slower than the others is replaced by a spare, excluded or kept; no bit of the result changes."""

import json

import pytest

import processes
from odd_rank import use_odd_rank
from safetensors_file import assert_same_bits, last_weights
from test_rank_loss import CONTINUE, recorded_losses, said, trainers_of

SETTINGS = ["distributed.virtual_shards=2", "train.log_every=1 step", "train.epochs=1000", "tracking.sinks=[]", "data.workers=0"]


def run(job, policy, steps, *options):
    """Rank 1 takes 100 ms longer per step than rank 0."""
    use_odd_rank(job, slow_on=1)
    settings = [*SETTINGS, f"train.max_steps={steps}", f"distributed.slow_ranks={{policy: {policy}, factor: 20, time: 400 ms}}"]
    with open(job.directory / "launch.err", "w") as log:
        started = job.start(*settings, ranks=2, options=[*CONTINUE, *options], stderr=log)
    assert processes.finish(started).code == 0, said(job)


def assert_bits_of_undisturbed(job, steps, tmp_path_factory):
    from conftest import Job
    other = Job(tmp_path_factory.mktemp("undisturbed"))
    use_odd_rank(other)
    undisturbed = other.train(*SETTINGS, f"train.max_steps={steps}")
    assert_same_bits(last_weights(job.only_run()), last_weights(undisturbed))


@pytest.mark.parametrize("policy, options, left, spares", [
    ("replace", ["--spares", 1], "2 ranks", [2]),
    ("exclude", ["--spares", 1], "2 ranks", [2]),
    ("exclude", [], "1 rank", []),
])
def test_a_slow_rank_leaves(job, tmp_path_factory, policy, options, left, spares):
    steps = 600  # most of them without it: it would take a minute
    run(job, policy, steps, *options)
    (loss,) = recorded_losses(job)
    assert (loss["ranks_before"], loss["ranks_after"], loss["spares"]) == (2, 1 + len(spares), spares)
    (lost,) = loss["lost"]
    assert lost["rank"] == 1 and lost["has_left"] and lost["how"].endswith("times as long per step as the other ranks")
    assert f"lockstep: rank 1 (of 2) left after {lost['how']}: continuing with {left}\n" in said(job)
    assert 5 <= loss["step"] < steps
    assert_bits_of_undisturbed(job, steps, tmp_path_factory)
    times = {metric: dict(job.series(job.only_run().name, f"time/{metric}")) for metric in ("slowest_rank", "slowest_rank_s")}
    assert times["slowest_rank"][loss["step"]] == 1 and times["slowest_rank_s"][loss["step"]] >= 0.1
    assert max(times["slowest_rank_s"].get(step, 0) for step in range(steps - 20, steps)) < 0.1, "the spare is not slow"


@pytest.mark.parametrize("policy, options", [("replace", CONTINUE), ("keep", [])])
def test_a_slow_rank_is_kept(job, tmp_path_factory, policy, options):
    steps = 30
    run(job, policy, steps)
    assert recorded_losses(job) == []
    kept = said(job).count("times as long per step as the other ranks, but keeps its place: no spare is ready\n")
    assert kept == (1 if policy == "replace" else 0), "it is reported once"
    assert [step for step, _ in job.series(job.only_run().name, "train/loss")] == list(range(1, steps + 1))
    assert_bits_of_undisturbed(job, steps, tmp_path_factory)


def test_slow_ranks_cannot_leave_without_the_option(job):
    for ranks, options in ((2, []), (2, ["--on-rank-loss", "restart"]), (None, [])):
        ended = job.run("distributed.slow_ranks.policy=replace", ranks=ranks, options=options)
        assert ended.code == 78, ended.err
        assert "distributed.slow_ranks.policy: replace needs `lockstep launch --on-rank-loss continue`" in ended.err
    assert not job.runs.exists()
    ended = job.run("distributed.slow_ranks.factor=1")
    assert ended.code == 78 and "distributed.slow_ranks.factor" in ended.err, ended.err
