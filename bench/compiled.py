"""Compares compiled steps with C++ eager, Python DDP, and DDP with torch.compile, in one run.

    .venv/bin/python bench/compiled.py [--rounds 5] [--out bench/results/compiled.json]

An MLP with four hidden layers of width 64, 32 samples per rank; and a GPT with 4 layers of width 128, 12 samples of 64 tokens per
rank; one thread per rank. Takes about eight minutes for five rounds. Needs the driver:
cmake --build build --target lockstep_bench_compiled.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import measuring
from measuring import BIN, SOURCE, newest_run, output_of, print_table
from rows_collectives import TORCHRUN, last_json
from rows_steps import SIDE, write_images, write_text

DRIVER = BIN / "lockstep_bench_compiled"
COMPILE = pathlib.Path(sys.executable).parent / "lockstep-compile"
HIDDEN = [64] * 4
GPT = {"vocab_size": 257, "context": 64, "layers": 4, "heads": 4, "width": 128}  # nanoGPT's sizes for a CPU, with bytes as tokens
JOBS = {
    "mlp": {"config": {"hidden": HIDDEN, "inputs": SIDE * SIDE}, "batch": 32, "optimizer": {"name": "sgd", "lr": 0.05}, "steps": 4000,
            "peer": ["--inputs", SIDE * SIDE, "--hidden", ",".join(map(str, HIDDEN))]},
    "gpt": {"config": GPT, "batch": 12, "optimizer": {"name": "adamw", "lr": 1e-3}, "steps": 40, "peer": ["--gpt", json.dumps(GPT)]},
}


def data_of(kind, directory):
    return str(write_images(directory) if kind == "mlp" else write_text(directory, GPT))


def write_run_file(kind, directory, steps):
    """The run file for `directory`/KIND.ls2, whose data is also used to compile it."""
    job, path = JOBS[kind], data_of(kind, directory)
    data = {"name": "idx", "path": path, "split": "train"} if kind == "mlp" else {"name": "tokens", "path": path, "length": GPT["context"]}
    file = directory / f"{kind}.yaml"
    file.write_text(json.dumps({
        "run": {"name": "bench", "dir": str(directory / "runs")},
        "model": {"name": "compiled", "package": str(directory / f"{kind}.ls2")},
        "data": {"train": data, "per_rank_batch_size": job["batch"], "drop_last": True},
        "optimizer": job["optimizer"],
        "train": {"epochs": 1000, "max_steps": steps, "log_every": f"{max(1, steps // 8)} steps"},
        "checkpoint": {"every": "1000 epochs", "keep_last": 1},
        "tracking": {"sinks": []}}))
    return file


def compile_package(kind, directory):
    """Returns the seconds it took."""
    arguments = [f"{name}={json.dumps(value)}" for name, value in JOBS[kind]["config"].items()]
    begin = time.monotonic()
    output_of([COMPILE, f"lockstep.models:{kind}", *arguments, "--loss", "cross_entropy", "--batch", write_run_file(kind, directory, 1),
               "-o", directory / f"{kind}.ls2"], directory, 600, PATH=f"{BIN}:{os.environ['PATH']}")
    return round(time.monotonic() - begin, 1)


def compared(name, unit, ours, other, peer, goal):
    """`goal`: required speedup over the peer."""
    middle, against = statistics.median(ours), statistics.median(other)
    return {"row": name, "unit": unit, "compiled": round(middle, 4), "peer": peer, "peer's": round(against, 4),
            "ratio": round(against / middle, 2), "goal": goal, "rounds": {"compiled": ours, "peer": other}}


def alone(rounds, directory):
    model = json.dumps({"name": "mlp", **JOBS["mlp"]["config"]})
    result = last_json(output_of([DRIVER, directory / "mlp.ls2", model, rounds, 500], directory, 300, OMP_NUM_THREADS="1"))
    yield compared("MLP, forward and backward, one thread", "us", result["compiled"], result["eager"], "C++ eager", 2.5)


def trainer(kind, ranks, steps, directory):
    """Seconds of the command, and seconds per step for each eighth of the run."""
    file = write_run_file(kind, directory, steps)
    begin = time.monotonic()
    output_of([BIN / "lockstep", "launch", "-n", str(ranks), file], directory, 600, OMP_NUM_THREADS="1")
    taken = time.monotonic() - begin
    values = newest_run(directory / "runs")
    seconds = [JOBS[kind]["batch"] * ranks / speed for speed in values["train/samples_per_s"]]
    return {"command": taken, "seconds": seconds, "loss": values["train/loss"][-1]}


def peer(kind, ranks, directory, *options, cache=None):
    """`cache`: torch.compile's cache from an earlier round; None: a cold start."""
    job = JOBS[kind]
    command = [*([sys.executable] if ranks == 1 else TORCHRUN), SOURCE / "bench" / "step_peer.py", "--data", data_of(kind, directory),
               *job["peer"], "--optimizer", job["optimizer"]["name"], "--lr", job["optimizer"]["lr"], "--batch-size", job["batch"],
               "--steps", job["steps"], "--interval", job["steps"] // 8, *options]
    cache = cache or tempfile.mkdtemp(dir=directory)
    return last_json(output_of(command, directory, 600, OMP_NUM_THREADS="1", TORCHINDUCTOR_CACHE_DIR=str(cache)))


def milliseconds(result):
    return 1e3 * statistics.median(result["seconds"][1:])  # the first part warms up


def mlp_rows(rounds, directory):
    ours, plain, compiled, first = [], [], [], []
    for _ in range(rounds):
        ours.append(milliseconds(trainer("mlp", 2, JOBS["mlp"]["steps"], directory)))
        plain.append(milliseconds(peer("mlp", 2, directory)))
        result = peer("mlp", 2, directory, "--compile")
        compiled.append(milliseconds(result))
        first.append(result["first_step"])
    yield compared("MLP, step on 2 ranks", "ms", ours, plain, "Python DDP", 8)
    yield compared("MLP, step on 2 ranks", "ms", ours, compiled, "DDP and torch.compile", 4)
    starts = [trainer("mlp", 1, 1, directory)["command"] for _ in range(rounds)]
    yield compared("MLP, command to end of the first step (peer: the step alone)", "s", starts, first, "cold torch.compile", 10)


def gpt_rows(rounds, directory):
    cache = directory / "cache"
    cache.mkdir()
    for ranks, name, goal in ((1, "torch.compile", 1.0), (2, "DDP and torch.compile", 1.3)):
        ours, theirs, losses = [], [], {}
        for _ in range(rounds):
            for side, result in (("compiled", trainer("gpt", ranks, JOBS["gpt"]["steps"], directory)),
                                 ("peer", peer("gpt", ranks, directory, "--compile", cache=cache))):
                (ours if side == "compiled" else theirs).append(milliseconds(result))
                losses[side] = result["loss"]
        assert abs(losses["compiled"] - losses["peer"]) <= 1e-3, losses
        yield {**compared(f"small GPT, step on {ranks} rank{'s' * (ranks > 1)}", "ms", ours, theirs, name, goal), "losses": losses}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path, help="also write the result as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        machine = measuring.machine(directory)
        seconds = {kind: compile_package(kind, directory) for kind in JOBS}
        rows = [row for make in (alone, mlp_rows, gpt_rows) for row in make(arguments.rounds, directory)]
    result = {"command": f"bench/compiled.py --rounds {arguments.rounds}", "commit": measuring.commit(), "machine": machine,
              "load_after": os.getloadavg()[0], "date": time.strftime("%Y-%m-%d"), "compile_seconds": seconds, "rows": rows}
    print_table("compiled models", [{key: value for key, value in row.items() if key not in ("rounds", "losses")} for row in rows])
    measuring.save(result, arguments.out)


if __name__ == "__main__":
    main()
