"""What tests of sinks have: a process that makes their calls (sink_calls.py)."""
import pytest

from sink_calls import Process


@pytest.fixture
def process():
    with Process() as made:
        yield made
