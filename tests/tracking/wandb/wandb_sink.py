"""The wandb sink under test, driven call by call, and what it leaves behind."""
import importlib.util
import json
import os
import select
import subprocess
from pathlib import Path

from wandb_server import KEY

CORE_DIR = Path(importlib.util.find_spec("wandb").submodule_search_locations[0]) / "bin"
INFO = {"id": "mnist-20261121-060309-4f2a9c", "name": "mnist", "job_id": "mnist-20261121-060309-4f2a9c", "rank": 0,
        "world_size": 1, "host": "node7", "pid": 1, "created": 1795000000.25, "command": ["train"]}
CONFIG = {"model": {"name": "mlp", "hidden": [256, 64]}, "seed": 7}


class SinkError(Exception):
    def __init__(self, kind, message):
        super().__init__(f"{kind}: {message}")
        self.kind, self.message = kind, message


class Sink:
    """With the environment of a user who has W&B's package, its server and a key."""

    def __init__(self, run_dir, url=None, timeout=60, **environment):
        self.run_dir, self.timeout = Path(run_dir), timeout
        self.state = None
        variables = {"PATH": f"{CORE_DIR}:/usr/bin:/bin", "HOME": str(run_dir.parent), "WANDB_API_KEY": KEY}
        if url:
            variables["WANDB_BASE_URL"] = url
        variables.update(environment)
        self.process = subprocess.Popen(
            [os.environ["LOCKSTEP_WANDB_SINK_DRIVER"], str(self.run_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={key: value for key, value in variables.items() if value is not None})

    def call(self, do, **arguments):
        self.process.stdin.write((json.dumps({"do": do, **arguments}) + "\n").encode())
        self.process.stdin.flush()
        assert select.select([self.process.stdout], [], [], self.timeout)[0], f"{do} takes too long"
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise SinkError(answer["error"], answer["message"])
        return answer

    def start(self, info=None, config=None, run_config=None):
        """A new object with the state of the last flush()."""
        config = {"upload_every": 1, "finish_timeout": 20, **(config or {})}
        self.call("start", config=config, state=self.state, info={**INFO, **(info or {})}, run_config=run_config or CONFIG)

    def scalars(self, step, values, time=None, epoch=0.0):
        self.call("scalars", step=step, time=INFO["created"] + step if time is None else time, epoch=epoch, values=values)

    def flush(self):
        self.state = self.call("flush")["state"]

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

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.close()
