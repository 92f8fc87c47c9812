"""Measures the cost of a scalar on the logging thread: Tracker::log with its event log on disk, compared with peers."""

import json
import pathlib
import shutil
import sys

import measuring

UNIT = "us per scalar"
PEERS = pathlib.Path(__file__).resolve().parent / "tracking_peers.py"
SHARES = {"tensorboard": 1, "wandb": 1, "mlflow": 0.005}  # of --peer-scalars: slow calls need fewer repetitions


def lockstep(driver, directory, num_scalars):
    results = []
    for per_call in (1, 10):
        run = directory / f"run-{per_call}"
        command = [driver, "scalars", run, num_scalars, per_call]
        result = json.loads(measuring.output_of(command, directory, timeout=300))
        if result.pop("dropped"):
            raise RuntimeError("records were dropped")
        results.append({"way": "lockstep Tracker::log", "per_call": per_call, **result})
        shutil.rmtree(run)
    return results


def peer(name, directory, num_scalars):
    own = directory / name
    own.mkdir(exist_ok=True)
    count = max(int(num_scalars * SHARES[name]), 20)
    results = json.loads(measuring.output_of([sys.executable, PEERS, name, own, count], own, timeout=3600).splitlines()[-1])
    if name != "mlflow":  # creating its database is slow, so it is reused
        shutil.rmtree(own)
    return results


def measure(options, directory):
    """Runs each variant once per round."""
    found = {}
    for _ in range(options.rounds):
        results = lockstep(options.driver, directory, options.scalars)
        for name in SHARES:
            results += peer(name, directory, options.peer_scalars)
        for result in results:
            found.setdefault((result["way"], result["per_call"]), []).append(result)
    return rows_of(found)


def rows_of(found):
    own = {}
    rows = []
    for (way, per_call), results in found.items():
        costs = [result["calling_s"] / result["scalars"] * 1e6 for result in results]
        closed = [result["closed_s"] / result["scalars"] * 1e6 for result in results]
        line = measuring.row(way, UNIT, costs, per_call=per_call, scalars=results[0]["scalars"],
                             until_on_disk=measuring.row("", UNIT, closed)["median"])
        own.setdefault(per_call, line["median"])  # lockstep comes first
        base = own.get(per_call) if per_call in (1, 10) else own[10]
        rows.append({**line, "times_lockstep": round(line["median"] / base, 1)})
    return rows
