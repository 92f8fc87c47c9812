"""train.audit: flipped bits that are found, false alarms, and what the audits cost.

    .venv/bin/python bench/audit.py [--flips 1000] [--steps 10000] [--out bench/results/audit.json]

1. Four ranks train an MLP with AdamW. Bits of weights, optimizer state and gradients of audited shards are flipped, at random, each on
   one rank: the audit that follows must fail on all ranks, and name that rank and the tensor. Before that, --steps steps without flipped
   bits: no audit may fail. A comparison is that of the checksum of one tensor on two ranks. Needs:
   cmake --build build --target lockstep_bench_audit
2. Cost: CPU time of the ranks of a GPT of 0.8 million parameters with AdamW, two ranks, 400 steps, with and without
   train.audit: {every: 100, gradients_every: 100}, alternating. Goal: at most 3 % of the time.
"""

import argparse
import array
import json
import os
import pathlib
import random
import statistics
import subprocess
import tempfile

import measuring
from measuring import BIN, SOURCE

RANKS = 4
COST_STEPS = 400
EVERY = 100


def find_flips(flips, steps, seed, directory):
    command = [BIN / "lockstep", "launch", "-n", RANKS, "--program", BIN / "lockstep_bench_audit", "--log-dir", f"{directory}/logs", "--tee", 0,
               "--", flips, steps, seed]
    measuring.output_of(command, directory, 3600, OMP_NUM_THREADS="1")
    (log,) = pathlib.Path(directory).glob("logs/**/0/stdout.log")
    return json.loads(log.read_text().splitlines()[-1])


def cpu_seconds(directory, audited):
    """User and system time of all processes of a run."""
    directory = pathlib.Path(directory)
    tokens = array.array("H", list(random.Random(1).randbytes(200_000)))  # below 256, 16 bits each
    (directory / "text.bin").write_bytes(tokens.tobytes())
    settings = [f"train.max_steps={COST_STEPS}", "train.epochs=1000", f"run.dir={directory}/runs", "tracking.sinks=[]",
                "train.log_every=100 steps", "checkpoint.every=1000 epochs", "distributed.virtual_shards=4", "distributed.device=cpu"]
    if audited:
        settings += [f"train.audit.every={EVERY}", f"train.audit.gradients_every={EVERY}"]
    config = {
        "run": {"name": "audit", "seed": 7},
        "model": {"name": "gpt", "vocab_size": 256, "context": 64, "layers": 4, "heads": 4, "width": 128},
        "data": {"train": {"name": "tokens", "path": str(directory / "text.bin"), "length": 64}, "batch_size": 16, "workers": 0},
        "optimizer": {"name": "adamw", "lr": 0.001},
    }
    (directory / "run.yaml").write_text(json.dumps(config))
    words = [str(word) for word in (BIN / "lockstep", "launch", "-n", 2, directory / "run.yaml", *settings)]
    process = subprocess.Popen(words, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env=measuring.environment(directory, OMP_NUM_THREADS="1"), start_new_session=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(output[-2000:])
    return usage.ru_utime + usage.ru_stime


def measure_cost(rounds):
    times = {False: [], True: []}
    for i in range(2 * rounds):
        audited = (i + i // 2) % 2 == 1  # ABBA
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
            times[audited].append(cpu_seconds(directory, audited))
    plain, audited = (statistics.median(times[which]) for which in (False, True))
    return {"what": f"CPU time of a run of {COST_STEPS} steps of a GPT on two ranks, audited every {EVERY} steps, against one without audits",
            "seconds_without": [round(value, 2) for value in times[False]], "seconds_with": [round(value, 2) for value in times[True]],
            "median_ratio": round(audited / plain, 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=4, help="of the cost")
    parser.add_argument("--out", type=pathlib.Path, help="also write the result as JSON")
    arguments = parser.parse_args()
    machine = measuring.machine(SOURCE)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        result = find_flips(arguments.flips, arguments.steps, arguments.seed, directory)
    result["cost"] = measure_cost(arguments.rounds)
    result.update(machine=machine, commit=measuring.commit(),
                  command=f"bench/audit.py --flips {arguments.flips} --steps {arguments.steps} --seed {arguments.seed} --rounds {arguments.rounds}")
    print(json.dumps(result, indent=2))
    measuring.save(result, arguments.out)


if __name__ == "__main__":
    main()
