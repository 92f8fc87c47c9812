"""Rows of training steps: lockstep-trainer compared with DDP scripts on the same data and seed."""

import concurrent.futures
import json
import statistics
import sys

from measuring import BIN, SOURCE, newest_run, output_of
from rows_collectives import TORCHRUN, compared, last_json

sys.path.insert(0, str(SOURCE / "tests" / "golden"))

SIDE = 8  # pixels: the model has SIDE * SIDE inputs
SAMPLES = 64_000
JOBS = {
    "MLP 64 wide": {"hidden": [64, 64, 64], "batch": 32, "optimizer": "sgd", "lr": 0.05, "steps": 4000, "goal": 3,
                    "alone": 1.25},
    "MLP 512 wide": {"hidden": [512] * 4, "batch": 32, "optimizer": "sgd", "lr": 0.05, "steps": 800, "goal": 2, "alone": 1.4},
    "10 M parameters, AdamW": {"hidden": [1815] * 4, "batch": 16, "optimizer": "adamw", "lr": 1e-4, "steps": 80,
                               "goal": 1.5, "goal_default": 3},
    # nanoGPT's sizes for a CPU, with bytes as tokens.
    "small GPT": {"gpt": {"vocab_size": 257, "context": 64, "layers": 4, "heads": 4, "width": 128}, "batch": 12,
                  "optimizer": "adamw", "lr": 1e-3, "steps": 80, "goal": 1.3,
                  "profile": "matrix products 63 %, GELU 13 %, attention 10 %, by the same kernels as Python's"},
}


def write_data(job, directory):
    return write_text(directory, job["gpt"]) if "gpt" in job else write_images(directory)


def write_text(directory, sizes):
    import numpy
    import tokens
    target = directory / "text.bin"
    if not target.exists():
        random = numpy.random.default_rng(0)
        tokens.write_tokens(target, random.integers(0, sizes["vocab_size"], SAMPLES * sizes["context"] + 1))
    return target


def write_images(directory):
    import idx
    import numpy
    target = directory / "digits"
    if target.exists():
        return target
    target.mkdir()
    random = numpy.random.default_rng(0)
    idx.write_idx(target / "train-images-idx3-ubyte", random.integers(0, 256, (SAMPLES, SIDE, SIDE)))
    idx.write_idx(target / "train-labels-idx1-ubyte", random.integers(0, 10, SAMPLES))
    return target


def model_and_data(job, directory):
    path = str(write_data(job, directory))
    if "gpt" in job:
        return {"name": "gpt", **job["gpt"]}, {"name": "tokens", "path": path, "length": job["gpt"]["context"]}
    return ({"name": "mlp", "inputs": SIDE * SIDE, "hidden": job["hidden"]},
            {"name": "idx", "path": path, "split": "train"})


def launch_here(ranks, file, directory):
    output_of([BIN / "lockstep", "launch", "-n", ranks, file], directory, 600, OMP_NUM_THREADS="1")


def trainer(job, ranks, settings, tuned, shard="none", backend="auto", launch=launch_here):
    directory = settings["directory"]
    interval = job["steps"] // 8
    file = directory / "bench.yaml"
    model, data = model_and_data(job, directory)
    file.write_text(json.dumps({
        "run": {"name": "bench", "dir": str(directory / "runs")},
        "model": model,
        "data": {"train": data, "per_rank_batch_size": job["batch"]},
        "optimizer": {"name": job["optimizer"], "lr": job["lr"]},
        "train": {"epochs": 1000, "max_steps": job["steps"], "log_every": f"{interval} steps"},
        "distributed": {"gradient_as_bucket_view": tuned, "shard": shard, "backend": backend},
        "checkpoint": {"every": "1000 epochs", "keep_last": 1},
        "tracking": {"sinks": []}}))
    launch(ranks, file, directory)
    values = newest_run(directory / "runs")
    return {"seconds": [job["batch"] * ranks / speed for speed in values["train/samples_per_s"]], "loss": values["train/loss"][-1]}


def concurrent_jobs(job, ranks, settings, tuned):
    """Runs `ranks` independent one-rank jobs concurrently."""
    def one(number):
        directory = settings["directory"] / f"job-{number}"
        directory.mkdir(exist_ok=True)
        return trainer(job, 1, {**settings, "directory": directory}, tuned)
    with concurrent.futures.ThreadPoolExecutor(ranks) as pool:
        results = list(pool.map(one, range(ranks)))
    return {"seconds": [statistics.mean(of_interval) for of_interval in zip(*(result["seconds"] for result in results))],
            "loss": results[0]["loss"]}


def start_here(ranks, script, directory):
    return output_of([*([sys.executable] if ranks == 1 else TORCHRUN), *script], directory, 600, OMP_NUM_THREADS="1")


def peer(job, ranks, settings, tuned, *options, start=start_here):
    model = ["--gpt", json.dumps(job["gpt"])] if "gpt" in job else \
        ["--inputs", SIDE * SIDE, "--hidden", ",".join(map(str, job["hidden"]))]
    script = [SOURCE / "bench" / "step_peer.py", "--data", write_data(job, settings["directory"]), *model,
              "--optimizer", job["optimizer"], "--lr", job["lr"], "--batch-size", job["batch"], "--steps", job["steps"],
              "--interval", job["steps"] // 8, *options, *(["--tuned"] if tuned else [])]
    return last_json(start(ranks, script, settings["directory"]))


def rows(settings):
    for name, job in JOBS.items():
        job = {**job, "steps": max(40, int(job["steps"] * max(0.5, settings["scale"])) // 8 * 8)}
        sides = {"lockstep": (trainer, 2, False), "default": (peer, 2, False), "tuned": (peer, 2, True),
                 "alone": (trainer, 1, False), "python alone": (peer, 1, False)}
        if "alone" in job:
            sides["concurrent_jobs"] = (concurrent_jobs, 2, False)
        times, losses = {side: [] for side in sides}, {}
        for _ in range(settings["rounds"]):
            for side, (run, ranks, tuned) in sides.items():
                result = run(job, ranks, settings, tuned)
                times[side].append(1e3 * statistics.median(result["seconds"][1:]))  # the first interval warms up
                losses[side] = result["loss"]
        assert abs(losses["lockstep"] - losses["default"]) <= 1e-5, losses
        more = {"losses": losses, "alone_ms": times["alone"], "python_alone_ms": times["python alone"],
                "limit": f"one rank alone: {statistics.median(times['alone']):.3g} ms"
                         + (f" ({job['profile']})" if "profile" in job else "")}
        yield compared(f"{name}, 2 ranks, step", "ms", times["lockstep"], times["tuned"], "tuned DDP", goal=job["goal"], **more)
        default_goal = {"goal": job["goal_default"]} if "goal_default" in job else {}
        yield compared(f"{name}, 2 ranks, step (default)", "ms", times["lockstep"], times["default"], "default DDP",
                       **default_goal)
        if "alone" in job:
            row = compared(f"{name}, 2 ranks against one rank", "ms", times["lockstep"], times["alone"], "one rank of Lockstep")
            apart = statistics.median(times["concurrent_jobs"])
            limit = f"two concurrent one-rank runs, without communication: {apart:.3g} ms"
            yield {**row, "ratio": 1 / row["ratio"], "goal": job["alone"], "higher_is_better": False, "limit": limit,
                   "concurrent_jobs_ms": times["concurrent_jobs"]}
