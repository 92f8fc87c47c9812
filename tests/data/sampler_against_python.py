"""The indices of DistributedSampler in C++ and Python are equal for random cases."""

import os
import random
import subprocess

import torch
from torch.utils.data import DistributedSampler, WeightedRandomSampler

NUM_CASES = 500
PROGRAM = [os.environ["LOCKSTEP_PRINTER"], "sampler"]


def random_cases():
    rng = random.Random(20)
    for i in range(NUM_CASES):
        n = rng.choice(
            [rng.randint(1, 12), rng.randint(1, 500), rng.randint(1, 70_000)]
            if i % 10 == 0
            else [rng.randint(1, 40)]
        )
        world = rng.randint(1, 20)
        seed = rng.choice([0, rng.randint(0, 100), rng.randint(0, 2**62)])
        yield n, world, rng.randrange(world), seed, rng.randint(
            0, 50
        ), rng.random() < 0.5, rng.random() < 0.8


def python_indices(n, world, rank, seed, epoch, drop_last, shuffle):
    sampler = DistributedSampler(range(n), world, rank, shuffle, seed, drop_last)
    sampler.set_epoch(epoch)
    return list(sampler)


def test_indices_equal_those_of_python():
    cases = list(random_cases())
    assert any(n < world for n, world, *_ in cases)
    text = "".join(" ".join(str(int(value)) for value in case) + " 0\n" for case in cases)
    lines = subprocess.run(
        PROGRAM, input=text, capture_output=True, text=True, check=True, timeout=60
    ).stdout.splitlines()
    assert len(lines) == NUM_CASES
    for case, line in zip(cases, lines):
        assert [int(index) for index in line.split()] == python_indices(*case), case


def test_weighted_indices_equal_those_of_python():
    rng = random.Random(3)
    cases = [(rng.randint(2, 3000), rng.randint(0, 2**40), rng.randint(0, 20)) for _ in range(40)]
    text = "".join(f"{n} 1 0 {seed} {epoch} 0 1 1\n" for n, seed, epoch in cases)
    lines = subprocess.run(
        PROGRAM, input=text, capture_output=True, text=True, check=True, timeout=60
    ).stdout.splitlines()
    assert len(lines) == len(cases)
    for (n, seed, epoch), line in zip(cases, lines):
        generator = torch.Generator().manual_seed(seed + epoch)
        weights = [i % 7 for i in range(n)]
        sampler = WeightedRandomSampler(weights, n, replacement=True, generator=generator)
        assert [int(index) for index in line.split()] == list(sampler), (n, seed, epoch)
