"""Many ranks of one job log as fast as possible, and the tracking agent of their node feeds three sinks.

The time is measured from the first record until the agent exits, when every sink is complete.
"""

import contextlib
import json
import pathlib
import shutil
import subprocess
import time

import measuring

SINKS = ("csv", "jsonl", "tensorboard")
PREFIX = b"bench/metric-"  # prefix of all metric names; occurs nowhere else


def start(command, directory, **streams):
    return subprocess.Popen([str(word) for word in command], cwd=directory, env=measuring.environment(directory),
                            text=True, stderr=subprocess.DEVNULL, start_new_session=True, **streams)


@contextlib.contextmanager
def killed_at_last(process):
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def peak_mb(process):
    """Peak resident set size (VmHWM), or 0 after the process exited."""
    try:
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return 0
    return max([int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")], default=0)


def watch(agent, latest):
    """Waits for the agent; returns its peak resident set in MB."""
    peak = 0
    while agent.poll() is None:
        peak = max(peak, peak_mb(agent))
        if time.monotonic() > latest:
            raise RuntimeError("the agent did not deliver everything in time")
        time.sleep(0.02)
    if agent.returncode != 0:
        raise RuntimeError(f"the agent exited with {agent.returncode}")
    return peak


def occurrences(path):
    """Counts metrics in a file; no line and no TensorBoard event splits a name."""
    count, rest = 0, b""
    with open(path, "rb") as file:
        while piece := file.read(1 << 24):
            text = rest + piece
            count += text.count(PREFIX)
            rest = text[-(len(PREFIX) - 1):]
    return count


def delivered(run, sink):
    """Number of values in the files of each entry of a sink."""
    place = run / "tensorboard" if sink == "tensorboard" else run / "sinks" / sink
    pattern = {"csv": "metrics.csv", "jsonl": "records.jsonl", "tensorboard": "*tfevents*"}[sink]
    return {entry.name: sum(occurrences(path) for path in entry.glob(pattern)) for entry in place.iterdir()}


def check_complete(run, sink, options):
    """Verifies that the sink has each value of each rank and step exactly once."""
    expected = {f"bench-rank-{rank}": options.metrics * options.steps for rank in range(options.ranks)}
    found = delivered(run, sink)
    if found != expected:
        wrong = {entry: count for entry, count in found.items() if expected.get(entry) != count}
        raise RuntimeError(f"{sink}: {len(found)} of {len(expected)} entries; wrong: {wrong}")
    return sum(found.values())


def run_once(options, directory):
    run = directory / "runs" / "bench"
    config = {"tracking": {"ranks": "all", "sinks": list(SINKS), "upload_timeout": "1 h"}}
    driver = [options.driver, "ranks", run, options.ranks, options.metrics, options.steps, options.threads, json.dumps(config)]
    track = [measuring.BIN / "lockstep", "track", run, "--logs", options.ranks]
    with killed_at_last(start(driver, directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE)) as ranks:
        if ranks.stdout.readline() != "ready\n":
            raise RuntimeError("the ranks did not start")
        with killed_at_last(start(track, directory, stdout=subprocess.DEVNULL)) as agent:
            begin = time.monotonic()
            ranks.stdin.write("go\n")
            ranks.stdin.flush()
            peak = watch(agent, begin + 3600)
            seconds = time.monotonic() - begin
        written = json.loads(ranks.stdout.read())
    if written["dropped"]:
        raise RuntimeError("records were dropped")
    values = {sink: check_complete(run, sink, options) for sink in SINKS}
    log_mb = sum(path.stat().st_size for path in (run / "events").glob("rank-*")) / 1e6
    shutil.rmtree(run)
    return {"seconds": seconds, "peak": peak, "written": written["closed_s"], "values": values, "log_mb": log_mb}


def measure(options, directory):
    results = [run_once(options, directory) for _ in range(options.ranks_rounds)]
    records = options.ranks * options.steps
    size = {"ranks": options.ranks, "metrics": options.metrics, "steps": options.steps}

    def row(name, unit, value, digits=1, **more):
        return measuring.row(name, unit, [value(result) for result in results], digits, **more)

    complete = "; ".join(f"{sink} {count}" for sink, count in results[-1]["values"].items())
    return [
        row("all delivered to all sinks", "s", lambda r: r["seconds"], 2, **size, note=f"values found: {complete}"),
        row("ranks done writing", "s", lambda r: r["written"], 2),
        row("agent: records per sink", "records/s", lambda r: records / r["seconds"]),
        row("agent: values per sink", "values/s", lambda r: records * options.metrics / r["seconds"]),
        row("agent: peak resident set", "MB", lambda r: r["peak"]),
        row("event logs", "MB", lambda r: r["log_mb"]),
        *[row(f"complete in {sink}", "values", lambda r, sink=sink: r["values"][sink], 0) for sink in SINKS],
    ]
