"""Random schedules of kills, drains and stalls on one host, with --on-rank-loss continue: each run must end with the weights and the
optimizer state, bit for bit, of an undisturbed run.

    .venv/bin/python bench/fault_schedules.py [--schedules 200] [--seed 1] [--first 0] [--rank-restarts 0] [--out bench/results/fault_schedules.json]

A schedule depends only on the seed and its number: the number of ranks and spares, what is sharded, and 1 to 6 faults at random times,
some of them at the same time:

- kill: SIGKILL of a rank or spare
- drain: SIGTERM to a rank or spare, which leaves
- stall: SIGSTOP of a rank or spare, and SIGCONT 50 ms to 2 s later

One of ranks 0 and 1 is neither killed nor drained, so that a process with the state of the training is left. A run that ends with
another exit code than 0, or not within LIMIT_S, counts as failed; its output is printed.
"""

import argparse
import collections
import hashlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import measuring
from measuring import BIN, SOURCE

MNIST = SOURCE / ".data" / "mnist"
STEPS = 4000
FAULTS_WITHIN_S = 4  # from the first record of the training on
LIMIT_S = 180
KINDS = ("kill", "drain", "stall")
SHARDS = ("none", "gradients", "full")


def schedule_of(seed, number):
    rng = random.Random(f"{seed} {number}")
    ranks = rng.choice((2, 4))
    shape = {"ranks": ranks, "spares": rng.choice((0, 1, 2)), "shard": rng.choice(SHARDS)}
    kept, there, times = rng.choice((0, 1)), list(range(ranks + shape["spares"])), []
    for _ in range(rng.randint(1, 6)):
        times.append(times[-1] if times and rng.random() < 0.25 else rng.uniform(0, FAULTS_WITHIN_S))
    faults = []
    for at in sorted(times):
        kind = rng.choice(KINDS if len(there) > 1 else ("stall",))
        worker = rng.choice([each for each in there if kind == "stall" or each != kept])
        faults.append({"at": at, "kind": kind, "worker": worker, "seconds": rng.uniform(0.05, 2) if kind == "stall" else 0})
        if kind != "stall":
            there.remove(worker)
    return {**shape, "faults": faults}


def command(directory, ranks, options=(), shard="none"):
    overrides = [f"train.max_steps={STEPS}", "train.epochs=1000", f"run.dir={directory}/runs", "tracking.sinks=[]"]
    overrides += ["train.log_every=5 steps", "train.eval_every=20 epochs", "checkpoint.every=300 steps", "data.train.limit=1003"]
    overrides += ["data.eval.limit=301", "optimizer={name: adamw, lr: 0.001}", "model={name: mlp, hidden: [32]}", "data.batch_size=48"]
    overrides += ["distributed.virtual_shards=4", f"distributed.shard={shard}", "distributed.device=cpu", "checkpoint.writers=main"]
    overrides += [f"data.{split}.path={MNIST}" for split in ("train", "eval")]
    words = [BIN / "lockstep", "launch", "-n", ranks, *options, SOURCE / "configs" / "mnist.yaml", *overrides]
    return [str(word) for word in words]


def workers(launcher):
    """The process ids of the launcher's workers: ranks of the first group, then spares."""
    found = {}
    for pid in map(int, pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()):
        try:
            variables = dict(entry.split("=", 1) for entry in pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0") if "=" in entry)
        except OSError:
            continue
        if "LOCAL_RANK" in variables:
            found[variables.get("LOCKSTEP_SPARE") == "1", int(variables["LOCAL_RANK"])] = pid
    return [pid for _, pid in sorted(found.items())]


def has_begun(directory):
    """Whether the training has written records to its log, which the start of the log alone does not reach."""
    return any(path.stat().st_size > 20_000 for path in pathlib.Path(directory).glob("runs/*/events/rank-*.lsev"))


def send(pid, number):
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


def inject(process, schedule, directory):
    """Returns how many faults of each kind met a process."""
    counts = collections.Counter()
    measuring.wait_until("the training begins", lambda: has_begun(directory) or process.poll() is not None, LIMIT_S)
    pids, begin, ends = workers(process.pid), time.monotonic(), []
    signals = {"kill": signal.SIGKILL, "drain": signal.SIGTERM, "stall": signal.SIGSTOP}
    actions = [(fault["at"], fault["kind"], fault["worker"], signals[fault["kind"]]) for fault in schedule["faults"]]
    actions += [(fault["at"] + fault["seconds"], "", fault["worker"], signal.SIGCONT) for fault in schedule["faults"] if fault["kind"] == "stall"]
    for at, kind, worker, number in sorted(actions):
        try:
            process.wait(max(0, begin + at - time.monotonic()))
            break
        except subprocess.TimeoutExpired:
            if worker < len(pids) and send(pids[worker], number) and kind:
                counts[kind] += 1
    return counts


def checksums(directory):
    (run,) = (path.parent for path in pathlib.Path(directory).glob("runs/*/run.json"))
    return {name: hashlib.sha256((run / "checkpoints" / str(STEPS) / f"{name}.safetensors").read_bytes()).hexdigest() for name in ("model", "optimizer")}


def run_schedule(schedule, restarts, directory):
    """Returns the checksums and the counts of faults; raises RuntimeError."""
    options = ["--on-rank-loss", "continue", "--rank-restarts", restarts, *(["--spares", schedule["spares"]] if schedule["spares"] else [])]
    words = command(directory, schedule["ranks"], options, schedule["shard"])
    with open(f"{directory}/output", "w") as output:
        process = subprocess.Popen(words, cwd=directory, stdout=output, stderr=output, env=measuring.environment(directory, OMP_NUM_THREADS="1"),
                                   start_new_session=True)
    try:
        counts = inject(process, schedule, directory)
        code = process.wait(LIMIT_S)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        code = f"none within {LIMIT_S} s"
    text = pathlib.Path(directory, "output").read_text()
    if code != 0:
        raise RuntimeError(f"exit code {code}:\n{text[-4000:]}")
    return checksums(directory), counts, text.count(": continuing with ")


def measure(arguments, write):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        subprocess.run(command(directory, 1), cwd=directory, check=True, capture_output=True, env=measuring.environment(directory, OMP_NUM_THREADS="1"))
        expected = checksums(directory)
    faults, groups, failed, differing, shapes = collections.Counter(), 0, [], [], collections.Counter()
    for number in range(arguments.first, arguments.first + arguments.schedules):
        schedule = schedule_of(arguments.seed, number)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
            try:
                found, counts, regrouped = run_schedule(schedule, arguments.rank_restarts, directory)
            except (RuntimeError, OSError, ValueError) as error:
                failed.append(number)
                print(f"schedule {number} {json.dumps(schedule)}: {error}", file=sys.stderr)
                continue
        faults += counts
        groups += regrouped
        shapes[f"{schedule['ranks']} ranks, {schedule['spares']} spares, shard: {schedule['shard']}"] += 1
        if found != expected:
            differing.append(number)
        print(f"schedule {number}: {dict(counts)}, {regrouped} new groups, {'equal' if found == expected else 'DIFFERENT'}", flush=True)
        write({"schedules": number + 1 - arguments.first, "equal": number + 1 - arguments.first - len(failed) - len(differing),
               "failed": failed, "differing": differing, "faults": dict(faults), "new_groups": groups, "shapes": dict(sorted(shapes.items()))})
    return not failed and not differing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first schedule")
    parser.add_argument("--rank-restarts", type=int, default=0, help="of `lockstep launch`: killed ranks are started again and join")
    parser.add_argument("--out", type=pathlib.Path, help="also write the result as JSON, after each schedule")
    arguments = parser.parse_args()
    about = {"what": "runs of 4,000 steps with random kills, drains and stalls; sha256 of weights and optimizer state against an undisturbed run",
             "machine": measuring.machine(SOURCE), "commit": measuring.commit(),
             "command": f"bench/fault_schedules.py --schedules {arguments.schedules} --seed {arguments.seed} --first {arguments.first}"
                        f" --rank-restarts {arguments.rank_restarts}"}

    def write(result):
        if arguments.out:
            temporary = arguments.out.with_suffix(".part")
            temporary.write_text(json.dumps({**result, **about}, indent=2) + "\n")
            temporary.replace(arguments.out)

    sys.exit(0 if measure(arguments, write) else 1)


if __name__ == "__main__":
    main()
