"""Fixture for tests of sinks: a process that executes their calls (sink_calls.py)."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from sink_calls import Process  # noqa: E402


@pytest.fixture
def process():
    with Process() as made:
        yield made
