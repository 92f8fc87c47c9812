"""Rows of sharded training: steps with distributed.shard, compared with FSDP2 and with unsharded DataParallel."""

import os
import statistics
import sys

from rows_collectives import compared
from rows_steps import JOBS, launch_here, peer, start_here, trainer
from two_hosts import TwoHosts

RANKS = 2
TRIES = 3  # FSDP2 over Gloo sometimes aborts


def fsdp2(job, ranks, settings, tuned, start):
    for number in range(TRIES):
        try:
            return peer(job, ranks, settings, tuned, "--fsdp", start=start)
        except RuntimeError:
            if number + 1 == TRIES:
                raise


STRATEGIES = ("full", "gradients", "optimizer", "none")


def times_of(job, settings, backend, ranks=RANKS, launch=launch_here, start=start_here):
    sides = {strategy: lambda shard=strategy: trainer(job, ranks, settings, False, shard, backend, launch)
             for strategy in STRATEGIES}
    sides |= {"FSDP2": lambda: fsdp2(job, ranks, settings, False, start),
              "tuned FSDP2": lambda: fsdp2(job, ranks, settings, True, start)}
    times, losses = {side: [] for side in sides}, {}
    for _ in range(settings["rounds"]):
        for side, run in sides.items():
            result = run()
            times[side].append(1e3 * statistics.median(result["seconds"][1:]))  # the first interval warms up
            losses[side] = result["loss"]
    assert len({losses[side] for side in STRATEGIES}) == 1, losses
    assert abs(losses["full"] - losses["FSDP2"]) <= 1e-3, losses  # AdamW amplifies rounding errors
    return times, {"losses": losses}


def host_rows(settings):
    """Hybrid sharding on two hosts of two ranks; FSDP2 divides over all ranks."""
    hosts = TwoHosts()
    try:
        times, more = times_of(JOBS["small GPT"], settings, "hierarchical", 2 * RANKS, hosts.launch, hosts.torchrun)
    finally:
        hosts.close()
    name = "small GPT, 2 hosts of 2 ranks, hierarchical"
    for side in ("FSDP2", "tuned FSDP2"):
        yield compared(f"{name}, shard: full, step ({side})", "ms", times["full"], times[side], side, **more)
    for strategy in STRATEGIES[:3]:
        yield compared(f"{name}, shard: {strategy}, step", "ms", times[strategy], times["none"], "shard: none")


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
    if os.geteuid() == 0:
        yield from host_rows(settings)
    else:
        print("rows of two hosts need root: skipped", file=sys.stderr)
