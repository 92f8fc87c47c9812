"""Rows of the cost of logging in training."""

import json
import shutil
import sys

import tracking_cost
from measuring import BIN, output_of
from rows_collectives import compared

DRIVER = BIN / "lockstep_bench_logging"


def train(settings, scalars):
    run = settings["directory"] / "logging" / "bench"
    run.parent.mkdir(exist_ok=True)
    result = json.loads(output_of([DRIVER, run, scalars], settings["directory"], 900, OMP_NUM_THREADS="1"))
    text = output_of([BIN / "lockstep", "runs", "export", "bench", "--format", "csv", "--dir", run.parent],
                     settings["directory"], 300)
    shutil.rmtree(run)
    recorded = sum(line.startswith("train/metric-") for line in text.splitlines())
    if result["dropped"] or recorded != result["scalars"]:
        raise RuntimeError(f"the log has {recorded} of {result['scalars']} scalars; {result['dropped']} were dropped")
    return result


def peer(settings):
    own = settings["directory"] / "tensorboard"
    own.mkdir(exist_ok=True)
    count = max(1000, int(20_000 * settings["scale"]))
    found = json.loads(output_of([sys.executable, tracking_cost.PEERS, "tensorboard", own, count], own, 600).splitlines()[-1])
    shutil.rmtree(own)
    return min(result["calling_s"] / result["scalars"] * 1e6 for result in found)


def rows(settings):
    """Logs a million scalars over all rounds, or 50,000 with --quick."""
    scalars = int((1e6 if settings["scale"] == 1 else 5e4) / settings["rounds"])
    results, peers = [], []
    for _ in range(settings["rounds"]):
        results.append(train(settings, scalars))
        peers.append(peer(settings))
    logged = sum(result["scalars"] for result in results)
    yield {**compared(f"{logged:,} logged scalars inside training, step", "µs", [result["logged_us"] for result in results],
                      [result["silent_us"] for result in results], "the same without logging", goal=0.99,
                      limit="none lost: counted in the event log"),
           "added_percent": [result["added_percent"] for result in results]}
    yield compared("a scalar logged inside training", "µs", [result["scalar_us"] for result in results], peers,
                   "SummaryWriter.add_scalar", at_most=1, limit="a ring of memory: 0.05 to 0.1 µs")
