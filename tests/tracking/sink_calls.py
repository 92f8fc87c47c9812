"""Sinks in a separate process, for tests: every call gets a response; errors are raised here."""
import json
import math
import os
import select
import subprocess

JOB = "mnist-20261121-060309-4f2a"
CREATED = 1795241000.5
CONFIG = {"run": {"name": "mnist", "seed": 0}, "optimizer": {"name": "sgd", "lr": 0.1}}


def info(rank=None, world_size=1, **more):
    """An entry of the list of runs; with a rank, one of several of its job."""
    several = rank is not None
    entry = {"id": f"{JOB}-rank-{rank}" if several else JOB, "name": f"mnist-rank-{rank}" if several else "mnist",
             "job_id": JOB, "rank": rank or 0, "world_size": world_size, "node_rank": 0, "local_rank": rank or 0,
             "host": "node-a", "pid": 4711, "created": CREATED, "command": ["lockstep", "launch", "mnist.yaml"]}
    if several:
        entry |= {"group": JOB, "job_type": "rank"}
    return {**entry, **more}


def plain(value):
    """In a form that JSON supports."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def time_of(step):
    return CREATED + step * 0.25


class SinkError(Exception):
    def __init__(self, kind, text, pause=None):
        super().__init__(f"{kind}: {text}")
        self.kind, self.text, self.pause = kind, text, pause


class Process:
    """lockstep_sink_calls. `limit`: timeout of a response in seconds; `most_bytes`: maximum size of a file."""

    def __init__(self, limit=120, most_bytes=None):
        self.limit = limit
        command = [os.environ["LOCKSTEP_SINK_CALLS"]]
        if most_bytes is not None:
            command = ["/bin/bash", "-c", f"trap '' XFSZ; ulimit -f {most_bytes // 1024}; exec \"$@\"", "bash", *command]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            assert self.process.wait(timeout=120) == 0
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()

    def call(self, **call):
        self.process.stdin.write(json.dumps(call).encode() + b"\n")
        self.process.stdin.flush()
        line = b""
        while not line.endswith(b"\n"):
            assert select.select([self.process.stdout], [], [], self.limit)[0], f"no response to {call['call']}"
            piece = os.read(self.process.stdout.fileno(), 1 << 20)
            assert piece, f"ended at {call['call']}"
            line += piece
        said = json.loads(line)
        if "error" in said:
            raise SinkError(said["kind"], said["error"], said.get("pause"))
        return said.get("state")


class Entry:
    """One sink object at a time for one entry, fed like the agent does: its state is stored, and later calls are repeated."""

    def __init__(self, process, sink, run_dir, entry, config=None, environment=None, run_config=None):
        self.process, self.sink, self.run_dir, self.entry = process, sink, run_dir, entry
        self.config, self.environment = config or {}, environment or {}
        self.run_config = CONFIG if run_config is None else run_config
        self.state, self.since = None, []

    def call(self, call, **more):
        return self.process.call(call=call, on=self.entry["id"], **more)

    def open(self):
        self.call("open", sink=self.sink, run_dir=str(self.run_dir), info=self.entry, config=self.config,
                  environment=self.environment, run_config=self.run_config, state=self.state)
        return self

    def give(self, call, **more):
        self.since.append((call, more))
        self.call(call, **more)

    def scalars(self, step, time=None, **values):
        self.row(step, list(values.items()), time)

    def row(self, step, values, time=None):
        self.give("scalars", step=step, time=time_of(step) if time is None else time,
                  values=[[name, plain(value)] for name, value in values])

    def finish(self, state="finished", code=0, reason=""):
        self.give("finish", end={"state": state, "exit": code, "reason": reason})

    def flush(self):
        self.state = self.call("flush")
        self.since = []

    def crash(self):
        """Drops the object; a new one has the last state and receives everything since then again."""
        self.call("close")
        self.open()
        for call, more in list(self.since):
            self.call(call, **more)
