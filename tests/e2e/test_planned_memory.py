"""The memory that ranks need is what `lockstep plan` says, with any sharding strategy that divides gradients."""

import json
import sys

import numpy as np
import pytest

import processes
from conftest import long
from processes import LOCKSTEP, TRAINER, free_port

RANKS = 2
MODEL = {"name": "gpt", "vocab_size": 2000, "context": 64, "layers": 8, "heads": 8, "width": 512}  # 26 million parameters
TINY = ["model.layers=1", "model.heads=1", "model.width=8"]

# Starts the ranks of a job and prints the largest resident set of each, in bytes. In a process of little memory, because the
# kernel's number includes that of the process that starts them.
START = """
import os, subprocess, sys
port, ranks, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
started = [subprocess.Popen(command, stdout=subprocess.DEVNULL,
                            env={**os.environ, **variables, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(ranks)]
for rank in started:
    _, status, usage = os.wait4(rank.pid, 0)
    assert status == 0, status
    print(1024 * usage.ru_maxrss)
"""


def peak_memory(job, *overrides):
    """Of the rank that needs most."""
    command = [sys.executable, "-c", START, free_port(), RANKS, TRAINER, job.file, *overrides]
    ended = processes.run(command, job.directory)
    assert ended.code == 0, ended.err
    return max(int(line) for line in ended.out.split())


@pytest.fixture
def gpt(job):
    text = job.directory / "text.bin"
    np.random.default_rng(0).integers(0, MODEL["vocab_size"], 64 * 100 + 1).astype(np.uint16).tofile(text)
    job.config["model"] = MODEL
    job.config["data"] = {"train": {"name": "tokens", "path": str(text), "length": 64}, "per_rank_batch_size": 8, "workers": 0}
    job.config["optimizer"] = {"name": "adamw", "lr": 0.001}
    job.config["train"] = {"max_steps": 3}
    job.config["checkpoint"] = {"async": False}
    job.write()
    return job


@pytest.mark.parametrize("backend, strategy, recompute", [
    ("auto", "gradients", "none"), long("auto", "full", "blocks"), long("gloo", "gradients", "none"), ("gloo", "full", "blocks")])
def test_ranks_need_the_planned_memory(gpt, backend, strategy, recompute):
    settings = [f"distributed.backend={backend}", f"distributed.shard={strategy}", f"train.recompute={recompute}"]
    shown = processes.run([LOCKSTEP, "plan", "-n", RANKS, "--json", gpt.file, *settings], gpt.directory)
    memory = json.loads(shown.out)["memory"]
    process = peak_memory(gpt, *settings, *TINY)
    # The kernel also counts memory that peers have allocated and this rank reads: their part of the gradients and weights.
    of_peers = 0
    if backend == "auto":
        weights = memory["weights"] / (1 if strategy == "full" else RANKS)
        of_peers = (RANKS - 1) * (memory["gradients"] + weights)
    planned = process + memory["bytes"] + of_peers
    peak = peak_memory(gpt, *settings)
    print(f"{backend} {strategy}, recompute {recompute}: peak {peak / 1e6:.0f} MB, planned {planned / 1e6:.0f} MB, "
          f"of which {process / 1e6:.0f} MB for the process and {of_peers / 1e6:.0f} MB of peers: {peak / planned:.3f}")
    assert 0.8 * planned < peak < 1.1 * planned
