"""Utilities of the benchmarks: rows of results, machine information, isolated child processes."""

import concurrent.futures
import json
import os
import pathlib
import platform
import statistics
import subprocess
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", SOURCE / "build" / "bin"))


def copy_speed(size, threads):
    """Bytes read and written per second when `threads` threads copy arrays of `size` bytes; the best of several runs."""
    import numpy
    pairs = [(numpy.ones(size, numpy.uint8), numpy.zeros(size, numpy.uint8)) for _ in range(threads)]
    times = []
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for _ in range(20):
            begin = time.perf_counter()
            list(pool.map(lambda pair: numpy.copyto(pair[1], pair[0]), pairs))
            times.append(time.perf_counter() - begin)
    return 2 * size * threads / min(times)


def row(name, unit, values, digits=3, **more):
    """`values`: one value per round."""
    return {"row": name, "unit": unit, "median": round(statistics.median(values), digits),
            "min": round(min(values), digits), "max": round(max(values), digits), **more,
            "rounds": [round(value, digits) for value in values]}


def print_table(title, rows):
    columns = [name for name in rows[0] if name not in ("rounds", "note")]
    cells = [columns] + [[show(line.get(name, "")) for name in columns] for line in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    print(f"\n{title}")
    for line in cells:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def show(value):
    return f"{value:,}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


def environment(directory, **more):
    """Environment of a child process that keeps its files below `directory` and does not use the network."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("WANDB_", "MLFLOW_", "LOCKSTEP_", "OMP_")) and not name.lower().endswith("_proxy")}
    for name in ("HOME", "TMPDIR", "WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):
        kept[name] = str(directory)
    return {**kept, "WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", **more}


def output_of(command, directory, timeout, **more):
    """Returns the output of `command`; kills it and its children after the timeout."""
    process = subprocess.Popen([str(word) for word in command], cwd=directory, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=environment(directory, **more), start_new_session=True)
    try:
        out, err = process.communicate(timeout=timeout)
    except BaseException:
        os.killpg(process.pid, 9)
        process.communicate()
        raise
    if process.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {err[-2000:]}")
    return out


def newest_records(runs):
    """Values of the most recently modified run in `runs`, in order: {"metric", "step", "time", "value", ...}."""
    newest = max(pathlib.Path(runs).iterdir(), key=lambda path: path.stat().st_mtime)
    text = subprocess.run([BIN / "lockstep", "runs", "export", newest.name, "--format", "jsonl", "--dir", runs],
                          check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in text.splitlines()]


def newest_run(runs):
    """{metric: values in order} of the most recently modified run in `runs`."""
    values = {}
    for record in newest_records(runs):
        values.setdefault(record["metric"], []).append(record["value"])
    return values


def save(result, path):
    """Writes a result as JSON. None: nowhere."""
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=2) + "\n")


def wait_until(what, condition, timeout):
    latest = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > latest:
            raise RuntimeError(f"{what} did not happen within {timeout} s")
        time.sleep(0.02)


def machine(directory):
    names = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    disk = subprocess.run(["stat", "-f", "-c", "%T", directory], capture_output=True, text=True, check=True).stdout.strip()
    return {"cores": os.cpu_count(), "cpu": names[0] if names else "", "system": platform.platform(), "file_system": disk,
            "load_before": os.getloadavg()[0]}


def commit():
    """The commit of the sources, with "+" if files differ from it."""
    def git(*words):
        return subprocess.run(["git", "-C", SOURCE, *words], capture_output=True, text=True).stdout.strip()
    return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
