"""Feeds a sink through lockstep_feed_sink, for tests that read what it wrote."""
import json
import math
import os
import subprocess

ENTRY = "mnist-20261121-060309-4f2a-rank-1"
JOB = "mnist-20261121-060309-4f2a"
CREATED = 1795241000.5
CONFIG = {"run": {"name": "mnist", "seed": 0, "note": None}, "optimizer": {"name": "sgd", "lr": 0.1, "nesterov": True},
          "model": {"hidden": [256, 128]}}
INFO = {"id": ENTRY, "name": "mnist-rank-1", "job_id": JOB, "group": "sweep", "job_type": "rank", "rank": 1, "world_size": 2,
        "host": "node-a", "pid": 4711, "created": CREATED}


def start(entry=ENTRY, config=CONFIG):
    return {"call": "start", "info": {**INFO, "id": entry}, "config": config}


def plain(value):
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return {"hex": value.hex()} if isinstance(value, bytes) else value


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


def feed(run_dir, sink, calls, config=None, limit=None):
    """Returns the exit code and what was said on stderr. `limit`: the most bytes that a file may have."""
    command = [os.environ["LOCKSTEP_FEED_SINK"], sink, json.dumps(config or {}), str(run_dir)]
    if limit is not None:
        command = ["/bin/bash", "-c", f"trap '' XFSZ; ulimit -f {limit // 1024}; exec \"$@\"", "bash"] + command
    text = "".join(json.dumps(call) + "\n" for call in calls)
    done = subprocess.run(command, input=text, text=True, stderr=subprocess.PIPE, timeout=60)
    return done.returncode, done.stderr


def must_feed(*arguments, **options):
    code, said = feed(*arguments, **options)
    assert (code, said) == (0, "")


def crash_everywhere(calls):
    """The same calls with a crash behind each of them, in front of the next; the first call starts."""
    return [call for one in calls for call in ((one, CRASH) if one["call"] != "start" else (one,))]
