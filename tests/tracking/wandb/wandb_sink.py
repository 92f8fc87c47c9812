"""The wandb sink under test, driven call by call, and its output files and processes."""
import importlib.util
from pathlib import Path

from sink_calls import Entry, Process, SinkError, plain  # noqa: F401
from wandb_server import KEY

CORE_DIR = Path(importlib.util.find_spec("wandb").submodule_search_locations[0]) / "bin"
INFO = {"id": "mnist-20261121-060309-4f2a9c", "name": "mnist", "job_id": "mnist-20261121-060309-4f2a9c", "rank": 0,
        "world_size": 1, "host": "node7", "pid": 1, "created": 1795000000.25, "command": ["train"]}
CONFIG = {"model": {"name": "mlp", "hidden": [256, 64]}, "seed": 7}


class Sink:
    """A sink in the environment of a user with W&B's package, server and key. `calls`: the process of another sink, to share."""

    def __init__(self, run_dir, url=None, timeout=120, calls=None, **environment):
        self.run_dir, self.state = Path(run_dir), None
        variables = {"PATH": f"{CORE_DIR}:/usr/bin:/bin", "HOME": str(self.run_dir.parent), "WANDB_API_KEY": KEY}
        if url:
            variables["WANDB_BASE_URL"] = url
        variables.update(environment)
        self.environment = {key: value for key, value in variables.items() if value is not None}
        self.calls = calls or Process(limit=timeout)
        self.process = self.calls.process
        self.entry = self.entry_of()

    def entry_of(self, info=None, config=None, run_config=None):
        return Entry(self.calls, "wandb", self.run_dir, {**INFO, **(info or {})},
                     config={"upload_every": 1, "finish_timeout": 20, **(config or {})}, environment=self.environment,
                     run_config=run_config or CONFIG)

    def call(self, call, **arguments):
        return self.entry.call(call, **arguments)

    def start(self, **how):
        """Recreates the sink with the state of the last flush()."""
        self.entry = self.entry_of(**how)
        self.entry.state = self.state
        self.entry.open()

    def scalars(self, step, values, time=None, epoch=0.0):
        self.call("scalars", step=step, time=INFO["created"] + step if time is None else time, epoch=epoch,
                  values=[[name, plain(value)] for name, value in values.items()])

    def flush(self):
        self.state = self.call("flush")

    def finish(self, state="finished", exit=0, **end):
        self.call("finish", end={"state": state, "exit": exit, **end})
        self.flush()

    def core_pids(self):
        """wandb-core processes of this sink."""
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def file(self):
        (path,) = self.run_dir.glob("sinks/wandb/*/offline-run-*/run-*.wandb")
        return path

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.calls.__exit__()
