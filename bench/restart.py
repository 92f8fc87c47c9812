"""Time from SIGKILL of one of two ranks to the next optimizer step: Lockstep, which restarts, or continues without the rank or
with a spare, also with sharded state, and torchrun with Python DDP, alternating.

    .venv/bin/python bench/restart.py [--rounds 5] [--kills 1] [--out bench/results/restart.json]

`--kills`: of each variant of Lockstep in a round; torchrun gets one.

Both train the same MLP on MNIST, save a checkpoint every 20 steps, and allow one restart (--max-restarts 1). If no step follows
a restart within PATIENCE_S, that time is counted and reported: Gloo ranks under torchrun sometimes wait for each other's
connection until the timeout of 30 minutes.
"""

import argparse
import json
import os
import pathlib
import selectors
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import measuring
from measuring import BIN, SOURCE

MNIST = SOURCE / ".data" / "mnist"
ENDLESS = 1_000_000
KILL_AFTER_STEP = 50
PATIENCE_S = 120


def lockstep_command(directory, options=("--max-restarts", 1), settings=()):
    overrides = [f"train.max_steps={ENDLESS}", f"train.epochs={ENDLESS}", f"run.dir={directory}/runs", "tracking.sinks=[]"]
    overrides += ["train.log_every=1 step", "checkpoint.every=20 steps", f"train.eval_every={ENDLESS} epochs"]
    overrides += [f"data.{split}.path={MNIST}" for split in ("train", "eval")]
    return [BIN / "lockstep", "launch", "-n", 2, *options, SOURCE / "configs" / "mnist.yaml", *overrides, *settings]


def continue_command(directory, spares=0, shard="none"):
    options = ["--on-rank-loss", "continue", "--rank-restarts", 0, "--spares", spares]
    return lockstep_command(directory, options, ["distributed.virtual_shards=2", f"distributed.shard={shard}"])


def spare_command(directory):
    return continue_command(directory, 1)


def continue_sharded_command(directory):
    return continue_command(directory, 0, "full")


def spare_sharded_command(directory):
    return continue_command(directory, 1, "full")


def torchrun_command(directory):
    files = [next(MNIST.glob(f"train-{what}*")) for what in ("images", "labels")]
    peer = [SOURCE / "bench" / "restart_peer.py", *files, f"{directory}/state.pt", ENDLESS]
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, "--max-restarts", 1, *peer]


def second_rank(directory):
    """The process of rank 1 that runs in `directory`."""
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            line, variables = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(directory).encode() in line and b"RANK=1" in variables and b"LOCKSTEP_SPARE=1" not in variables:
            return int(entry.name)
    raise RuntimeError("rank 1 does not exist")


def checkpoints(directory):
    return [int(path.name) for path in pathlib.Path(directory).glob("runs/*/checkpoints/*") if path.name.isdigit()]


def next_lockstep_step(process, directory):
    """Uses the run's event log, which records the time of every step."""
    measuring.wait_until("a checkpoint", lambda: max(checkpoints(directory), default=0) >= KILL_AFTER_STEP, PATIENCE_S)
    victim, before, killed = second_rank(directory), max(checkpoints(directory)), time.time()
    os.kill(victim, signal.SIGKILL)
    # Some checkpoints after `before` may be of steps before the kill.
    measuring.wait_until("a later checkpoint", lambda: max(checkpoints(directory)) > before + 200, PATIENCE_S)
    os.kill(process.pid, signal.SIGTERM)
    process.wait(20)
    (run,) = (path.parent.name for path in pathlib.Path(directory).glob("runs/*/run.json"))
    command = [BIN / "lockstep", "runs", "export", run, "--dir", f"{directory}/runs", "--format", "jsonl"]
    rows = [json.loads(line) for line in measuring.output_of(command, directory, 60).splitlines()]
    return min(row["time"] for row in rows if row["metric"] == "train/loss" and row["time"] > killed) - killed


class GaveUp(Exception):
    """The peer exited: its new processes sometimes connect to ports of the killed ones."""


def lines_of(process, directory):
    """Yields the lines of its output; raises TimeoutError after a long silence."""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        text = ""
        while selector.select(PATIENCE_S):
            chunk = os.read(process.stdout.fileno(), 65536).decode()
            if not chunk:
                errors = pathlib.Path(directory, "errors").read_text()[-1000:]
                raise GaveUp(errors)
            *lines, text = (text + chunk).split("\n")
            yield from lines
    raise TimeoutError


def next_torchrun_step(process, directory):
    """Uses the output of the peer's rank 0: after the restart, step numbers go back to the checkpoint."""
    killed, last = None, 0
    for line in lines_of(process, directory):
        if not line.startswith("step "):
            continue
        step = int(line.split()[1])
        if killed and step < last:
            return time.monotonic() - killed
        last = max(last, step)
        if not killed and step > KILL_AFTER_STEP and step % 20 == 10:
            killed = time.monotonic()
            os.kill(second_rank(directory), signal.SIGKILL)


def measure_once(make_command, next_step, directory):
    words = [str(word) for word in make_command(directory)]
    environment = measuring.environment(directory, OMP_NUM_THREADS="1")
    with open(f"{directory}/errors", "w") as errors:
        process = subprocess.Popen(words, cwd=directory, stdout=subprocess.PIPE if next_step is next_torchrun_step else errors,
                                   stderr=errors, text=True, env=environment, start_new_session=True)
    try:
        return next_step(process, directory)
    except TimeoutError:
        return PATIENCE_S
    finally:
        try:
            process.terminate()
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.stdout:
            process.stdout.close()


def percentile(values, percent):
    """The smallest value that at least `percent` of them do not exceed."""
    return round(sorted(values)[max(0, -(-len(values) * percent // 100) - 1)], 3) if values else None


def measure(rounds, kills):
    commands = {"lockstep": (lockstep_command, next_lockstep_step), "lockstep_continue": (continue_command, next_lockstep_step),
                "lockstep_spare": (spare_command, next_lockstep_step),
                "lockstep_continue_sharded": (continue_sharded_command, next_lockstep_step),
                "lockstep_spare_sharded": (spare_sharded_command, next_lockstep_step),
                "torchrun": (torchrun_command, next_torchrun_step)}
    times, gave_up = {name: [] for name in commands}, 0
    while len(times["torchrun"]) < rounds and gave_up <= rounds:
        for name, how in [each for each in commands.items() for _ in range(1 if each[0] == "torchrun" else kills)]:
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
                try:
                    times[name].append(measure_once(*how, directory))
                except GaveUp:
                    gave_up += 1
    medians = {name: statistics.median(values) if values else None for name, values in times.items()}
    return {
        "what": "two ranks, from SIGKILL of one to the next optimizer step",
        "seconds": {name: [round(value, 3) for value in values] for name, values in times.items()},
        "p50_seconds": {name: percentile(values, 50) for name, values in times.items()},
        "p99_seconds": {name: percentile(values, 99) for name, values in times.items()},
        "max_seconds": {name: round(max(values), 3) if values else None for name, values in times.items()},
        "median_seconds": {name: value and round(value, 3) for name, value in medians.items()},
        "rounds_without_a_step_in_time": {name: values.count(PATIENCE_S) for name, values in times.items()},
        "rounds_in_which_torchrun_gave_up": gave_up,
        "torchrun_to": {name: round(medians["torchrun"] / medians[name], 2) for name in list(medians)[:-1]} if medians["torchrun"] else None,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kills", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, help="also write the result as JSON")
    arguments = parser.parse_args()
    machine = measuring.machine(SOURCE)
    result = {**measure(arguments.rounds, arguments.kills), "machine": machine, "commit": measuring.commit()}
    result["command"] = f"bench/restart.py --rounds {arguments.rounds} --kills {arguments.kills}"
    print(json.dumps(result, indent=2))
    measuring.save(result, arguments.out)


if __name__ == "__main__":
    main()
