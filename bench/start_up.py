"""Compares start-up time and memory of two ranks: Lockstep and torchrun with Python DDP, alternating.

    .venv/bin/python bench/start_up.py [--rounds 5] [--out bench/results/start_up.json]

Both train the same MLP on the same MNIST images for 20 steps. Prints medians and their ratio.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path, help="also write the result as JSON")
    arguments = parser.parse_args()
    load_before = os.getloadavg()[0]
    result = measure(arguments.rounds)
    result["machine"] = {"cores": os.cpu_count(), "system": platform.platform(), "load_before": load_before}
    result["command"] = f"bench/start_up.py --rounds {arguments.rounds}"
    print(json.dumps(result, indent=2))
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
