"""Rows about sharded models: steps of distributed.shard against FSDP2 and against our own DataParallel."""

import statistics

from rows_collectives import compared
from rows_steps import JOBS, peer, trainer

RANKS = 2
TRIES = 3  # FSDP2 over Gloo sometimes aborts


def fsdp2(job, settings, tuned):
    for number in range(TRIES):
        try:
            return peer(job, RANKS, settings, tuned, "--fsdp")
        except RuntimeError:
            if number + 1 == TRIES:
                raise


SIDES = {"full": lambda job, settings: trainer(job, RANKS, settings, False, "full"),
         "gradients": lambda job, settings: trainer(job, RANKS, settings, False, "gradients"),
         "optimizer": lambda job, settings: trainer(job, RANKS, settings, False, "optimizer"),
         "none": lambda job, settings: trainer(job, RANKS, settings, False),
         "FSDP2": lambda job, settings: fsdp2(job, settings, False),
         "tuned FSDP2": lambda job, settings: fsdp2(job, settings, True)}


def times_of(job, settings):
    times, losses = {side: [] for side in SIDES}, {}
    for _ in range(settings["rounds"]):
        for side, run in SIDES.items():
            result = run(job, settings)
            times[side].append(1e3 * statistics.median(result["seconds"][1:]))  # the first interval warms up
            losses[side] = result["loss"]
    assert len({losses[side] for side in ("full", "gradients", "optimizer", "none")}) == 1, losses
    assert abs(losses["full"] - losses["FSDP2"]) <= 1e-3, losses  # AdamW amplifies roundings
    return times, {"losses": losses}


def rows(settings):
    scale = max(0.5, settings["scale"])
    small = {**JOBS["MLP 64 wide"], "hidden": [256] * 5, "optimizer": "adamw", "lr": 1e-3, "steps": int(400 * scale) // 8 * 8}
    large = {**JOBS["10 M parameters, AdamW"], "steps": int(80 * scale) // 8 * 8}
    for name, job, goal in (("0.3 M parameters, AdamW", small, 20), ("10 M parameters, AdamW", large, 5)):
        times, more = times_of(job, settings)
        for side in ("FSDP2", "tuned FSDP2"):
            yield compared(f"{name}, 2 ranks, shard: full, step ({side})", "ms", times["full"], times[side], side, goal=goal,
                           **more)
        for strategy in ("full", "gradients", "optimizer"):
            wanted = {"goal": 1.18} if strategy == "full" and job is large else {}
            yield compared(f"{name}, 2 ranks, shard: {strategy}, step", "ms", times[strategy], times["none"], "shard: none",
                           **wanted)
