"""Feeds a sink with the calls of a script, for tests that read its output."""
import json

from sink_calls import CREATED, JOB, Entry, Process, SinkError, plain


ENTRY = f"{JOB}-rank-1"
CONFIG = {"run": {"name": "mnist", "seed": 0, "note": None}, "optimizer": {"name": "sgd", "lr": 0.1, "nesterov": True},
          "model": {"hidden": [256, 128]}}
INFO = {"id": ENTRY, "name": "mnist-rank-1", "job_id": JOB, "group": "sweep", "job_type": "rank", "rank": 1, "world_size": 2,
        "host": "node-a", "pid": 4711, "created": CREATED}


def start(entry=ENTRY, config=CONFIG):
    return {"call": "start", "info": {**INFO, "id": entry}, "config": config}


def time_of(step):
    return CREATED + step * 0.25


def scalars(step, **values):
    return row(step, list(values.items()))


def row(step, values):
    return {"call": "scalars", "step": step, "time": time_of(step), "epoch": step / 8,
            "values": [[plain(name), plain(value)] for name, value in values]}


def at(call, step, name, **more):
    return {"call": call, "step": step, "time": time_of(step), "epoch": step / 8, "name": plain(name), **more}


FLUSH, CRASH = {"call": "flush"}, {"call": "crash"}


def rewind(step):
    return {"call": "rewind", "step": step}


def finish(state="finished", code=0):
    return {"call": "finish", "end": {"state": state, "exit": code}}


class Feeding:
    """One sink, whose state is stored in a file, as the agent does, so that the next process continues from it."""

    def __init__(self, process, run_dir, sink, config):
        self.process, self.run_dir, self.sink, self.config = process, run_dir, sink, config or {}

    def take(self, call, **more):
        if call == "start":
            self.file = self.run_dir / "sinks" / self.sink / more["info"]["id"] / "state.json"
            self.entry = Entry(self.process, self.sink, self.run_dir, more["info"], self.config, run_config=more["config"])
            self.entry.state = json.loads(self.file.read_text()) if self.file.exists() else None
            self.entry.open()
        elif call == "flush":
            self.entry.flush()
            self.file.write_text(json.dumps(self.entry.state))
        elif call == "crash":
            self.entry.crash()
        else:
            self.entry.give(call, **more)


def feed(run_dir, sink, calls, config=None, limit=None):
    """Returns the exit code of a failure and its message. `limit`: maximum size of a file in bytes."""
    with Process(most_bytes=limit) as process:
        feeding = Feeding(process, run_dir, sink, config)
        try:
            for call in calls:
                feeding.take(**call)
        except SinkError as error:
            return {"config": 78, "environment": 75, "bug": 70}[error.kind], error.text + "\n"
    return 0, ""


def must_feed(*arguments, **options):
    code, said = feed(*arguments, **options)
    assert (code, said) == (0, "")


def crash_everywhere(calls):
    """The same calls with a crash between each two of them; the first call starts."""
    return [call for one in calls for call in ((one, CRASH) if one["call"] != "start" else (one,))]
