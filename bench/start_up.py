"""Compares start-up time and memory of Lockstep with torchrun, alternating. Prints medians and their ratio.

    .venv/bin/python bench/start_up.py [--rounds 5] [--out bench/results/start_up.json]
    .venv/bin/python bench/start_up.py --large [--rounds 3] [--out bench/results/start_up_large.json]

Two ranks of both train the same MLP on the same MNIST images for 20 steps; torchrun with DDP. With --large, four ranks train a
Llama shape of 407 million parameters from a file, divided between them, to the end of the first step; torchrun with FSDP2.
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from measuring import newest_records, output_of, save

SOURCE = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", SOURCE / "build" / "bin"))
STEPS = 20


def lockstep_command(directory):
    overrides = [f"train.max_steps={STEPS}", f"run.dir={directory}/runs", "tracking.sinks=[]"]
    for split in ("train", "eval"):
        overrides.append(f"data.{split}.path={SOURCE}/.data/mnist")
    return [BIN / "lockstep", "launch", "-n", "2", SOURCE / "configs" / "mnist.yaml", *overrides]


def torchrun_command(directory):
    peer = [SOURCE / "tests" / "golden" / "ddp_peer.py", "--data", SOURCE / ".data" / "mnist"]
    peer += ["--config", '{"hidden": [256, 128]}', "--momentum", "0.9", "--max-steps", STEPS, "--out", f"{directory}/peer.safetensors"]
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *peer]


def run(command):
    """Seconds from start to exit, and the peak resident set in MB of any of its processes."""
    begin = time.monotonic()
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return time.monotonic() - begin


def largest_process_mb(command):
    """Runs in a separate process, because ru_maxrss covers all children."""
    code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=-3, stderr=-3);" \
           "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)"
    words = [sys.executable, "-c", code, *[str(word) for word in command]]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return float(subprocess.run(words, check=True, capture_output=True, text=True, timeout=300, env=environment).stdout)


def measure(rounds):
    """Alternates rounds, so that other load affects both."""
    times = {"lockstep": [], "torchrun": []}
    with tempfile.TemporaryDirectory() as directory:
        commands = {"lockstep": lockstep_command(directory), "torchrun": torchrun_command(directory)}
        for _ in range(rounds):
            for name, command in commands.items():
                times[name].append(run(command))
        memory = {name: largest_process_mb(command) for name, command in commands.items()}
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {
        "what": f"two ranks, {STEPS} steps, from command to exit",
        "seconds": {name: [round(value, 3) for value in values] for name, values in times.items()},
        "median_seconds": {name: round(value, 3) for name, value in medians.items()},
        "ratio": round(medians["torchrun"] / medians["lockstep"], 2),
        "largest_process_mb": {name: round(value, 1) for name, value in memory.items()},
    }


LARGE = {"vocab_size": 2048, "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
         "max_position_embeddings": 64, "tie_word_embeddings": False}
LARGE_RANKS, TOKENS = 4, 8


def write_large(directory):
    """The model in transformers' layout, and a file of tokens."""
    code = "import json, sys, transformers; config = transformers.LlamaConfig(**json.loads(sys.argv[1]));" \
           "transformers.AutoModelForCausalLM.from_config(config).save_pretrained(sys.argv[2])"
    output_of([sys.executable, "-c", code, json.dumps(LARGE), directory / "model"], directory, 600)
    import numpy
    numpy.random.default_rng(0).integers(0, LARGE["vocab_size"], 64 * TOKENS + 1).astype(numpy.uint16).tofile(directory / "tokens.bin")


def first_step_of_lockstep(directory):
    """Seconds from the command to the end of the first step."""
    runs = directory / "runs"
    file = directory / "large.yaml"
    file.write_text(json.dumps({
        "run": {"name": "large", "dir": str(runs)},
        "model": {"name": "hf", "path": str(directory / "model")},
        "data": {"train": {"name": "tokens", "path": str(directory / "tokens.bin"), "length": TOKENS}, "per_rank_batch_size": 1},
        "optimizer": {"name": "adamw", "lr": 1e-5, "weight_decay": 0.01},
        "train": {"max_steps": 1, "log_every": "1 steps"},
        "distributed": {"shard": "full"},
        "tracking": {"sinks": []}}))
    begin = time.time()
    output_of([BIN / "lockstep", "launch", "-n", LARGE_RANKS, file], directory, 600, OMP_NUM_THREADS="1")
    (record,) = [each for each in newest_records(runs) if each["metric"] == "train/loss"]
    shutil.rmtree(runs)
    return record["time"] - begin, record["value"]


def first_step_of_torchrun(directory, *options):
    peer = [SOURCE / "bench" / "step_peer.py", "--fsdp", "--hf", directory / "model", "--data", directory / "tokens.bin",
            "--length", TOKENS, "--optimizer", "adamw", "--lr", 1e-5, "--batch-size", 1, "--steps", 1, "--interval", 1, *options]
    begin = time.time()
    out = output_of([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", LARGE_RANKS, *peer],
                    directory, 600, OMP_NUM_THREADS="1")
    result = json.loads(out.splitlines()[-1])
    return result["first_step_at"] - begin, result["loss"]


def measure_large(rounds):
    sides = {"lockstep": first_step_of_lockstep, "torchrun, FSDP2": first_step_of_torchrun,
             "torchrun, tuned FSDP2": lambda directory: first_step_of_torchrun(directory, "--tuned")}
    times, losses = {name: [] for name in sides}, {}
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        write_large(directory)
        for _ in range(rounds):
            for side, run in sides.items():
                os.sync()
                seconds, losses[side] = run(directory)
                times[side].append(seconds)
    assert max(losses.values()) - min(losses.values()) <= 1e-4, losses
    medians = {side: statistics.median(values) for side, values in times.items()}
    return {
        "what": f"{LARGE_RANKS} ranks, 407 M parameters from a file, sharded, from command to end of the first step",
        "seconds": {side: [round(value, 3) for value in values] for side, values in times.items()},
        "median_seconds": {side: round(value, 3) for side, value in medians.items()},
        "ratio": {side: round(value / medians["lockstep"], 2) for side, value in medians.items() if side != "lockstep"},
        "losses": losses,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large", action="store_true", help="a sharded model of 407 million parameters")
    parser.add_argument("--out", type=pathlib.Path, help="also write the result as JSON")
    arguments = parser.parse_args()
    load_before = os.getloadavg()[0]
    result = (measure_large if arguments.large else measure)(arguments.rounds)
    result["machine"] = {"cores": os.cpu_count(), "system": platform.platform(), "load_before": load_before}
    result["command"] = f"bench/start_up.py{' --large' * arguments.large} --rounds {arguments.rounds}"
    print(json.dumps(result, indent=2))
    save(result, arguments.out)


if __name__ == "__main__":
    main()
