"""Fixture for tests of sinks: a process that executes their calls (sink_calls.py)."""
import pytest

from sink_calls import Process


@pytest.fixture
def process():
    with Process() as made:
        yield made
