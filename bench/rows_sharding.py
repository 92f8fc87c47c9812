"""Rows of sharded training: steps with distributed.shard, compared with FSDP2 and with unsharded DataParallel."""

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


STRATEGIES = ("full", "gradients", "optimizer", "none")


def times_of(job, settings, backend):
    sides = {strategy: lambda shard=strategy: trainer(job, RANKS, settings, False, shard, backend) for strategy in STRATEGIES}
    sides |= {"FSDP2": lambda: fsdp2(job, settings, False), "tuned FSDP2": lambda: fsdp2(job, settings, True)}
    times, losses = {side: [] for side in sides}, {}
    for _ in range(settings["rounds"]):
        for side, run in sides.items():
            result = run()
            times[side].append(1e3 * statistics.median(result["seconds"][1:]))  # the first interval warms up
            losses[side] = result["loss"]
    assert len({losses[side] for side in STRATEGIES}) == 1, losses
    assert abs(losses["full"] - losses["FSDP2"]) <= 1e-3, losses  # AdamW amplifies rounding errors
    return times, {"losses": losses}


def rows(settings):
    scale = max(0.5, settings["scale"])
    small = {**JOBS["MLP 64 wide"], "hidden": [256] * 5, "optimizer": "adamw", "lr": 1e-3, "steps": int(400 * scale) // 8 * 8}
    large = {**JOBS["10 M parameters, AdamW"], "steps": int(80 * scale) // 8 * 8}
    for name, job, backend, goal in (("0.3 M parameters, AdamW", small, "auto", 20),
                                     ("10 M parameters, AdamW", large, "auto", 5),
                                     ("small GPT over Gloo", JOBS["small GPT"], "gloo", 2)):
        times, more = times_of(job, settings, backend)
        for side in ("FSDP2", "tuned FSDP2"):
            yield compared(f"{name}, 2 ranks, shard: full, step ({side})", "ms", times["full"], times[side], side, goal=goal,
                           **more)
        for strategy in STRATEGIES[:3]:
            wanted = {"goal": 1.18} if strategy == "full" and job is large else {}
            yield compared(f"{name}, 2 ranks, shard: {strategy}, step", "ms", times[strategy], times["none"], "shard: none",
                           **wanted)
