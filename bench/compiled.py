"""Compiled steps against C++ eager, Python DDP and DDP under torch.compile, side by side in one run.

    .venv/bin/python bench/compiled.py [--rounds 5] [--out bench/results/compiled.json]

An MLP 64 wide of four hidden layers, 32 samples per rank, one thread per rank. Needs the driver:
cmake --build build --target lockstep_bench_compiled.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import measuring
from measuring import BIN, SOURCE, output_of, print_table
from rows_collectives import TORCHRUN, last_json
from rows_steps import write_images

MODEL = "{name: mlp, inputs: 64, hidden: [64, 64, 64, 64]}"
HIDDEN = "64,64,64,64"
STEPS = 4000
DRIVER = BIN.parent / "bin" / "lockstep_bench_compiled"
COMPILE = pathlib.Path(sys.executable).parent / "lockstep-compile"


def compile_package(directory):
    package = directory / "mlp.ls2"
    begin = time.monotonic()
    subprocess.run([COMPILE, f"{SOURCE}/bench/compiled_models.py:mlp", "--loss", "cross_entropy", "--batch", "batch",
                    "-o", package], check=True, stdout=subprocess.DEVNULL, timeout=600)
    return package, time.monotonic() - begin


def compared(name, unit, ours, other, peer, goal):
    """`goal`: how many times faster than the peer."""
    middle, against = statistics.median(ours), statistics.median(other)
    return {"row": name, "unit": unit, "compiled": round(middle, 4), "peer": peer, "peer's": round(against, 4),
            "ratio": round(against / middle, 2), "goal": goal, "rounds": {"compiled": ours, "peer": other}}


def alone(package, rounds, directory):
    result = last_json(output_of([DRIVER, package, MODEL, rounds, 500], directory, 300, OMP_NUM_THREADS="1"))
    yield compared("forward and backward, one thread", "us", result["compiled"], result["eager"], "C++ eager", 2.5)


def trainer(package, ranks, steps, directory):
    """Seconds per step of the second half of a run."""
    file = directory / "bench.yaml"
    file.write_text(json.dumps({
        "run": {"name": "bench", "dir": str(directory / "runs")},
        "model": {"name": "compiled", "package": str(package)},
        "data": {"train": {"name": "idx", "path": str(write_images(directory)), "split": "train"}, "per_rank_batch_size": 32},
        "optimizer": {"name": "sgd", "lr": 0.05},
        "train": {"epochs": 1000, "max_steps": steps, "log_every": f"{max(1, steps // 8)} steps"},
        "checkpoint": {"every": "1000 epochs", "keep_last": 1},
        "tracking": {"sinks": []}}))
    begin = time.monotonic()
    output_of([BIN / "lockstep", "launch", "-n", str(ranks), file], directory, 600, OMP_NUM_THREADS="1")
    taken = time.monotonic() - begin
    newest = max((directory / "runs").iterdir(), key=lambda path: path.stat().st_mtime)
    text = subprocess.run([BIN / "lockstep", "runs", "export", newest.name, "--format", "jsonl", "--dir", newest.parent],
                          check=True, capture_output=True, text=True).stdout
    records = [json.loads(line) for line in text.splitlines()]
    speeds = [record["value"] for record in records if record["metric"] == "train/samples_per_s"]
    return {"command": taken, "seconds": [32 * ranks / speed for speed in speeds]}


def peer(ranks, steps, directory, *options):
    command = [*([sys.executable] if ranks == 1 else TORCHRUN), SOURCE / "bench" / "step_peer.py", "--data",
               write_images(directory), "--inputs", 64, "--hidden", HIDDEN, "--optimizer", "sgd", "--lr", 0.05,
               "--batch-size", 32, "--steps", steps, "--interval", max(1, steps // 8), *options]
    cache = tempfile.mkdtemp(dir=directory)  # torch.compile begins cold
    return last_json(output_of(command, directory, 600, OMP_NUM_THREADS="1", TORCHINDUCTOR_CACHE_DIR=cache))


def together(package, rounds, directory):
    ours, plain, compiled, first = [], [], [], []
    for _ in range(rounds):
        ours.append(1e3 * statistics.median(trainer(package, 2, STEPS, directory)["seconds"][1:]))
        plain.append(1e3 * statistics.median(peer(2, STEPS, directory)["seconds"][1:]))
        result = peer(2, STEPS, directory, "--compile")
        compiled.append(1e3 * statistics.median(result["seconds"][1:]))
        first.append(result["first_step"])
    yield compared("step on 2 ranks", "ms", ours, plain, "Python DDP", 8)
    yield compared("step on 2 ranks", "ms", ours, compiled, "DDP and torch.compile", 4)
    starts = [trainer(package, 1, 1, directory)["command"] for _ in range(rounds)]
    yield compared("command to end of the first step (peer: the step alone)", "s", starts, first, "cold torch.compile", 10)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path, help="also write the result as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        machine = measuring.machine(directory)
        package, seconds = compile_package(directory)
        rows = [*alone(package, arguments.rounds, directory), *together(package, arguments.rounds, directory)]
    result = {"command": f"bench/compiled.py --rounds {arguments.rounds}", "commit": measuring.commit(), "machine": machine,
              "load_after": os.getloadavg()[0], "date": time.strftime("%Y-%m-%d"), "compile_seconds": round(seconds, 1),
              "rows": rows}
    print_table("compiled MLP 64 wide", [{key: value for key, value in row.items() if key != "rounds"} for row in rows])
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
