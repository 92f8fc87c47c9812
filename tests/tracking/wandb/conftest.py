"""Fixtures for tests of the sink wandb: a W&B server, and a directory for the files of a run."""
import pytest

from wandb_server import WandbServer


@pytest.fixture
def server():
    with WandbServer() as server:
        yield server


@pytest.fixture
def run_dir(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    return path
