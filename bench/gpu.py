"""Compares training steps on one GPU: Lockstep (eager, compiled, CUDA graphs) and PyTorch (eager, fused, torch.compile), in one run.

    bench/gpu.sh [--rounds 5] [--only gpt2 mlp ...]
    .venv/bin/python bench/gpu.py --device cpu --quick         # tests the harness with small models, without a GPU

gpt2: GPT-2 124M with autocast to bfloat16, 32 samples of 1,024 tokens. mlp: three layers of width 256, 64 samples: bound by
kernel launches. Python's batches are tensors on the GPU; Lockstep uses its loader. "first step" is the time of the command
without the steps after the first.
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
from measuring import BIN, SOURCE, newest_run, output_of, print_table
from rows_collectives import last_json
from rows_steps import SIDE, write_images, write_text

GPT2 = {"vocab_size": 50257, "context": 1024, "layers": 12, "heads": 12, "width": 768}
SMALL_GPT = {"vocab_size": 257, "context": 32, "layers": 2, "heads": 2, "width": 64}
MLP = {"hidden": [256] * 3, "inputs": SIDE * SIDE}
PEERS = {"eager": [], "fused": ["--tuned"], "torch.compile": ["--tuned", "--compile"]}
MODES = {"gpt2": "max-autotune", "mlp": "reduce-overhead"}
# Required speedup over each peer.
GOALS = {"gpt2": {"eager": 1.05, "torch.compile": 1}, "mlp": {"eager": 5, "torch.compile, reduce-overhead": 1.2}}


def jobs(quick):
    """Jobs by name. tolerance: of the mean loss of the last steps."""
    return {
        "gpt2": {"kind": "gpt", "model": SMALL_GPT if quick else GPT2, "batch": 4 if quick else 32, "lr": 6e-4,
                 "steps": 16 if quick else 64, "precision": "bf16", "unit": "tokens/s", "per_sample": (SMALL_GPT if quick else GPT2)["context"],
                 "tolerance": 0.05},
        "mlp": {"kind": "mlp", "model": MLP, "batch": 64, "lr": 1e-3, "steps": 80 if quick else 8000, "precision": "fp32",
                "unit": "samples/s", "per_sample": 1, "tolerance": 1e-3},
    }


def data_of(job, directory):
    return write_text(directory, job["model"]) if job["kind"] == "gpt" else write_images(directory)


def write_run_file(job, settings, steps, package=None, graph=False):
    path = str(data_of(job, settings.directory))
    data = {"name": "tokens", "path": path, "length": job["model"]["context"]} if job["kind"] == "gpt" \
        else {"name": "idx", "path": path, "split": "train"}
    file = settings.directory / "bench.yaml"
    file.write_text(json.dumps({
        "run": {"name": "bench", "dir": str(settings.directory / "runs")},
        "model": {"name": "compiled", "package": str(package)} if package else {"name": job["kind"], **job["model"]},
        "data": {"train": data, "per_rank_batch_size": job["batch"], "drop_last": True, "workers": 1},
        "optimizer": {"name": "adamw", "lr": job["lr"]},
        "train": {"epochs": 1000, "max_steps": steps, "log_every": f"{max(1, steps // 8)} steps",
                  "precision": "fp32" if package else job["precision"], **({"cuda_graph": True} if graph else {})},
        "distributed": {"device": settings.device},
        "checkpoint": {"every": "1000 epochs", "keep_last": 1},
        "tracking": {"sinks": []}}))
    return file


def compile_package(name, job, settings):
    package = settings.directory / f"{name}.ls2"
    arguments = [f"{key}={json.dumps(value)}" for key, value in job["model"].items()]
    output_of([sys.executable, "-m", "lockstep.compile.command_line", f"lockstep.models:{job['kind']}", *arguments, "--loss", "cross_entropy",
               "--precision", job["precision"], "--device", settings.device, "--batch", write_run_file(job, settings, 1),
               "-o", package], settings.directory, 3600, PATH=f"{BIN}:{os.environ['PATH']}", PYTHONPATH=str(SOURCE / "python"))
    return package


def later_steps(job, seconds):
    """Estimated seconds of all steps but the first, from the mean of each eighth of the run; the first eighth is warm-up."""
    return (sum(seconds[1:]) + seconds[1]) * (job["steps"] // 8) - seconds[1]


def lockstep(job, settings, package=None, graph=False):
    file = write_run_file(job, settings, job["steps"], package, graph)
    begin = time.monotonic()
    output_of([BIN / "lockstep-trainer", file], settings.directory, 3600)
    taken = time.monotonic() - begin
    values = newest_run(settings.directory / "runs")
    seconds = [job["batch"] / speed for speed in values["train/samples_per_s"]]
    return {"seconds": seconds, "loss": values["train/loss"][-1], "first_step": taken - later_steps(job, seconds)}


def peer(job, settings, *options):
    model = ["--gpt", json.dumps(job["model"])] if job["kind"] == "gpt" else \
        ["--inputs", job["model"]["inputs"], "--hidden", ",".join(map(str, job["model"]["hidden"]))]
    begin = time.monotonic()
    result = last_json(output_of(
        [sys.executable, SOURCE / "bench" / "step_peer.py", "--data", data_of(job, settings.directory), *model, "--optimizer", "adamw",
         "--lr", job["lr"], "--batch-size", job["batch"], "--steps", job["steps"], "--interval", job["steps"] // 8,
         "--device", settings.device, "--precision", job["precision"], *options], settings.directory, 3600,
        PYTHONPATH=str(SOURCE / "python"), TORCHINDUCTOR_CACHE_DIR=tempfile.mkdtemp(dir=settings.directory)))
    return {**result, "first_step": time.monotonic() - begin - later_steps(job, result["seconds"])}


def rows(name, job, settings):
    """Compares each variant of Lockstep with each of Python, including the first step."""
    package = compile_package(name, job, settings)
    mode = MODES[name]
    ours = {"lockstep": {}, "lockstep compiled": {"package": package}}
    if settings.device == "cuda":
        ours |= {f"{name}, CUDA graph": {**how, "graph": True} for name, how in ours.items()}
    sides = {**{name: lambda h=how: lockstep(job, settings, **h) for name, how in ours.items()},
             **{key: lambda o=options: peer(job, settings, *o) for key, options in PEERS.items()},
             f"torch.compile, {mode}": lambda: peer(job, settings, "--tuned", "--compile", "--compile-mode", mode)}
    speed, first, loss = ({side: [] for side in sides} for _ in range(3))
    for _ in range(settings.rounds):
        for side, run in sides.items():
            result = run()
            seconds = statistics.median(result["seconds"][1:])  # the first part warms up
            speed[side].append(job["batch"] * job["per_sample"] / seconds)
            first[side].append(result["first_step"])
            loss[side].append(result["loss"])
    wrong = {side: values for side, values in loss.items() if abs(values[-1] - loss["eager"][-1]) > job["tolerance"]}
    assert not wrong, f"{name}: the loss of {wrong} differs from eager, {loss['eager']}"
    for way in ours:
        for other in list(sides)[len(ours):]:
            yield compared(f"{name}: {way} against {other}", job["unit"], speed[way], speed[other],
                           statistics.median(speed[way]) / statistics.median(speed[other]), GOALS[name].get(other))
            yield compared(f"{name}: first step, {way} against {other}", "s", first[way], first[other],
                           statistics.median(first[other]) / statistics.median(first[way]), None)


def compared(name, unit, ours, other, ratio, goal):
    return {"row": name, "unit": unit, "lockstep": round(statistics.median(ours), 3), "peer": round(statistics.median(other), 3),
            "ratio": round(ratio, 2), "goal": goal, "rounds": {"lockstep": ours, "peer": other}}


def gpu_name(device):
    if device == "cpu":
        return "none: the harness was tried on a CPU"
    return subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                          check=True, capture_output=True, text=True).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=jobs(True), help="run only these jobs")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--quick", action="store_true", help="small models, few steps: no measurement")
    parser.add_argument("--out", type=pathlib.Path, help="also write the result as JSON")
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        settings.directory = pathlib.Path(name)
        machine = {**measuring.machine(name), "gpu": gpu_name(settings.device)}
        chosen = {name: job for name, job in jobs(settings.quick).items() if name in (settings.only or jobs(True))}
        found = [row for name, job in chosen.items() for row in rows(name, job, settings)]
    print_table("one GPU", [{key: value for key, value in row.items() if key != "rounds"} for row in found])
    if settings.out:
        settings.out.write_text(json.dumps({"command": "bench/gpu.py " + " ".join(sys.argv[1:]), "commit": measuring.commit(),
                                            "machine": machine, "date": time.strftime("%Y-%m-%d"), "rows": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
