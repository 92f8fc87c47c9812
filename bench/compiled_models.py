"""What bench/compiled.py compiles."""

import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"))
import models

BATCH, SIDE = 32, 8


def mlp():
    return models.Mlp(hidden=[64] * 4, inputs=SIDE * SIDE)


def batch():
    return {"image": torch.rand(BATCH, 1, SIDE, SIDE), "label": torch.randint(0, 10, (BATCH,))}
