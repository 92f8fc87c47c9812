"""Measures the Python client (docs/python.md) by CPU time: logging and watching against wandb offline, and reading.

    .venv/bin/python bench/python_client.py [--rounds 5] [--runs 10000] [--out bench/results/python_client.json]

Lockstep and wandb alternate in each round, in new processes. A row of 10 values is logged 10,000 times. A watched model has 200
parameters, and nothing is recorded between two records; a record is a histogram of a million values. Reading: configs and summaries of
`--runs` runs of 50 steps as a DataFrame; its limit is to list the same directories and read the same files.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile

from measuring import SOURCE, commit, machine, output_of, print_table, row, save

TIMED = """
import json, os, sys, time
def timed(action, times=1, repeat=5):
    found = []
    for _ in range(repeat):
        begin = time.thread_time()
        for i in range(times):
            action(i)
        found.append((time.thread_time() - begin) / times)
    return min(found)
"""
RECORD = TIMED + """
import importlib, torch
torch.set_num_threads(1)
tracker = importlib.import_module(sys.argv[1])
run = tracker.init(project="bench", **({"agent": False} if sys.argv[1] == "lockstep" else {}))
values = {f"m{i}": float(i) for i in range(10)}
found = {"log": 1e6 * timed(lambda i: run.log(values), 10_000, 1)}
model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(100)))
inputs = torch.ones(4, 8)
step = lambda i: model(inputs).sum().backward()
before = timed(step, 100)
run.watch(model, log_freq=10**9)
found["hook"] = 1e6 * (timed(step, 100) - before) / 200
run.unwatch(model)
wide = torch.nn.Linear(1000, 1000, bias=False)
wide_step = lambda i: wide(torch.ones(1, 1000)).sum().backward()
before = timed(wide_step, 3)
run.watch(wide, log_freq=1)
found["record"] = 1e3 * (timed(wide_step, 3) - before)
run.define_metric("m0", summary="min")
found["defined"] = 1e6 * timed(lambda i: run.log(values), 10_000, 1)
run.finish()
print(json.dumps(found))
"""
MAKE = """
import os, sys, lockstep
os.fsync = lambda file: None
for i in range(int(sys.argv[2])):
    config = {"lr": i / 1000, "seed": i, "model": {"name": "mlp", "width": [64, 64]}, "optimizer": {"name": "adamw", "betas": [0.9, 0.95]}}
    with lockstep.init(name=f"run {i}", id=f"r{i:06}", dir=sys.argv[1], agent=False, config=config) as run:
        for step in range(50):
            run.log({"train/loss": 1 / (step + 1), "train/lr": 0.1, "eval/loss": 0.5, "eval/accuracy": 0.5}, step=step)
"""
READ = TIMED + """
import lockstep, pandas
lockstep.runs
def files(i):
    for name in os.listdir(sys.argv[1]):
        for file in ("run.json", *(f"events/{log}" for log in os.listdir(f"{sys.argv[1]}/{name}/events"))):
            with open(f"{sys.argv[1]}/{name}/{file}", "rb", buffering=0) as opened:
                opened.read()
found = {"limit": timed(files, 1, 1), "df": timed(lambda i: lockstep.runs(sys.argv[1]).df(), 1, 1)}
assert len(lockstep.runs(sys.argv[1])) == int(sys.argv[2])
print(json.dumps(found))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--out", type=pathlib.Path, help="also write the result as JSON")
    arguments = parser.parse_args()

    def measured(script, *words):
        return json.loads(output_of([sys.executable, "-c", script, *words], scratch, 600, PYTHONPATH=str(SOURCE / "python")).splitlines()[-1])

    with tempfile.TemporaryDirectory() as scratch:
        result = {"commit": commit(), "machine": machine(scratch)}
        output_of([sys.executable, "-c", MAKE, f"{scratch}/many", arguments.runs], scratch, 600, PYTHONPATH=str(SOURCE / "python"))
        rounds = [{**{name: measured(RECORD, name) for name in ("lockstep", "wandb")}, "read": measured(READ, f"{scratch}/many", arguments.runs)}
                  for _ in range(arguments.rounds)]
    rows = [row(f"{what}, {tracker}", unit, [one[tracker][key] for one in rounds], 2)
            for key, what, unit in (("log", "log of 10 values", "us"), ("defined", "the same, one with summary=min", "us"),
                                    ("hook", "watched parameter, per backward pass", "us"), ("record", "histogram of 1 M values", "ms"))
            for tracker in ("lockstep", "wandb")]
    rows += [row(what, "s", [one["read"][key] for one in rounds], 2)
             for key, what in (("df", f"{arguments.runs:,} runs as a DataFrame"), ("limit", "the same files, only read"))]
    print_table(f"Python client, load {os.getloadavg()[0]:.1f}", rows)
    save({**result, "rows": rows}, arguments.out)


if __name__ == "__main__":
    main()
