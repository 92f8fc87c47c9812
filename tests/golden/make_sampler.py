"""Writes sampler.json: what Python's DistributedSampler gives, for tests/data/sampler_test.cpp.

Usage: .venv/bin/python tests/golden/make_sampler.py > tests/golden/sampler.json
"""

import json

from torch.utils.data import DistributedSampler

CASES = [
    dict(n=10, world=3, seed=0, epoch=0, shuffle=True, drop_last=False),
    dict(n=10, world=3, seed=0, epoch=1, shuffle=True, drop_last=False),
    dict(n=10, world=3, seed=0, epoch=0, shuffle=True, drop_last=True),
    dict(n=10, world=3, seed=0, epoch=0, shuffle=False, drop_last=True),
    dict(n=10, world=1, seed=0, epoch=0, shuffle=True, drop_last=False),
    dict(n=2, world=5, seed=0, epoch=0, shuffle=False, drop_last=False),
    dict(n=2, world=5, seed=0, epoch=0, shuffle=False, drop_last=True),
    dict(n=11, world=4, seed=42, epoch=7, shuffle=True, drop_last=False),
    dict(n=1, world=3, seed=2**40, epoch=3, shuffle=True, drop_last=False),
]


def indices(case, rank):
    sampler = DistributedSampler(
        range(case["n"]),
        num_replicas=case["world"],
        rank=rank,
        shuffle=case["shuffle"],
        seed=case["seed"],
        drop_last=case["drop_last"],
    )
    sampler.set_epoch(case["epoch"])
    return list(sampler)


def main():
    rows = [
        json.dumps({**case, "ranks": [indices(case, rank) for rank in range(case["world"])]})
        for case in CASES
    ]
    print("[\n  " + ",\n  ".join(rows) + "\n]")


if __name__ == "__main__":
    main()
