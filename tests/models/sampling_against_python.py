"""The tokens that may be sampled, and their logits, are those of the logits processors of transformers."""

import itertools
import json
import sys
from pathlib import Path

import pytest
import torch
from transformers import MinPLogitsWarper, RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

sys.path.insert(0, str(Path(__file__).parents[1] / "printer"))
import printer  # noqa: E402

SETTINGS = [
    *itertools.product([0.3, 1.0, 2.5], [None, 1, 3, 40, 1000], [None, 0.05, 0.5, 0.9, 1.0], [None], [None]),
    *itertools.product([0.3, 1.0, 2.5], [None, 40], [None, 0.9], [None, 0.01, 0.3, 1.0], [None, 0.7, 1.3]),
]
TOKENS = [3, 0, 9, 3, 15]


def logits_of(kind):
    torch.manual_seed(2)
    if kind == "ties":
        return torch.randint(0, 4, (50,)).float()
    if kind == "flat":
        return torch.zeros(16)
    return torch.randn(200) * 3


def in_python(logits, temperature, top_k, top_p, min_p, penalty):
    scores = logits[None]
    if penalty is not None:
        scores = RepetitionPenaltyLogitsProcessor(penalty)(torch.tensor([TOKENS]), scores)
    scores = TemperatureLogitsWarper(temperature)(None, scores)
    if top_k is not None:
        scores = TopKLogitsWarper(top_k)(None, scores)
    if top_p is not None and top_p < 1:
        scores = TopPLogitsWarper(top_p)(None, scores)
    if min_p is not None:
        scores = MinPLogitsWarper(min_p)(None, scores)
    return scores[0]


@pytest.mark.parametrize("kind", ["random", "ties", "flat"])
def test_filtered_logits(kind, tmp_path):
    logits = logits_of(kind)
    names = ("temperature", "top_k", "top_p", "min_p", "penalty")
    cases = [{"logits": logits.tolist(), "tokens": TOKENS, **dict(zip(names, settings))} for settings in SETTINGS]
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    ended = printer.run("sampling", tmp_path / "cases.json")
    assert ended.returncode == 0, ended.stderr
    sizes = set()
    for settings, row in zip(SETTINGS, json.loads(ended.stdout), strict=True):
        found = torch.tensor([float("-inf") if value is None else value for value in row])
        expected = in_python(logits, *settings)
        if kind == "random":
            assert torch.equal(found, expected), settings
        else:  # which of several equal logits top_p keeps is not defined
            assert torch.equal(found.sort().values, expected.sort().values), settings
        sizes.add(int(found.isfinite().sum()))
    assert len(sizes) > 2
