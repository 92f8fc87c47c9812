"""Goodput under faults: 8 ranks on two hosts (network namespaces), one of which is killed every 10 s, picked at random. Its steps per
second, as a fraction of those of the same job without faults.

    .venv/bin/python bench/goodput.py [--cycles 3] [--seed 1] [--only NAME] [--out bench/results/goodput.json]

Each job goes through cycles of 120 s with faults, 15 s that do not count, and 30 s without faults, so that other work on the machine affects
both alike.

Lockstep starts killed ranks again, which join the others (--on-rank-loss continue), without and with spares, or restarts all ranks from the
last checkpoint; torchrun restarts a script of Python DDP, which loads its last checkpoint. Both train the same MLP on MNIST over Gloo with
batches of 512, and save a checkpoint every 20 steps. Steps that are repeated after a restart count once: the result is the difference of the
last checkpoints. The first cycle begins with the first checkpoint, so it includes all later starts. A job that ends early has failed. Needs root.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import select
import signal
import subprocess
import sys
import tempfile
import time

import measuring
import restart
from measuring import BIN, SOURCE
from two_hosts import PORT, TOKEN, Network

RANKS = 8
BATCH = 512
MANY = 1_000_000
FAULTS_S, EVERY_S = 120, 10  # of each cycle; between two faults
SETTLE_S, QUIET_S = 15, 30
EVERY_STEPS = 20  # a checkpoint, as the peer
TRAINING = 3  # phases of core/system/progress_page.h from this one on: the process has a place in the group
PHASE_AT = 16  # bytes


def lockstep(*options, settings=()):
    def command(number, hosts, directory):
        words = restart.lockstep_command(directory, options, [f"data.batch_size={BATCH}", "distributed.backend=gloo", *settings])
        words[words.index("-n") + 1] = RANKS // len(hosts)
        at = words.index("launch") + 1
        words[at:at] = ["--nnodes", len(hosts), "--node-rank", number, "--rdzv-endpoint", f"{hosts[0].address}:{PORT}"]
        return words
    return command


def torchrun(number, hosts, directory):
    words = restart.torchrun_command(directory)
    at = words.index("--standalone")
    words[at : at + 1] = ["--nnodes", len(hosts), "--rdzv-backend", "c10d", "--rdzv-id", "goodput", "--rdzv-endpoint", f"{hosts[0].address}:{PORT}",
                          "--rdzv-conf", f"is_host={int(number == 0)}", "--local-addr", hosts[number].address]
    words[words.index("--nproc-per-node") + 1] = RANKS // len(hosts)
    words[words.index("--max-restarts") + 1] = MANY
    return words


CONTINUE = ["--on-rank-loss", "continue", "--rank-restarts", MANY, "--max-restarts", MANY]
SHARDS = [f"distributed.virtual_shards={RANKS}"]
VARIANTS = {
    "lockstep, killed ranks started again": lockstep(*CONTINUE, settings=SHARDS),
    "lockstep, the same with 2 spares": lockstep(*CONTINUE, "--spares", 1, settings=SHARDS),
    "lockstep, restarts from checkpoints": lockstep("--max-restarts", MANY),
    "torchrun, restarts from checkpoints": torchrun,
}


def is_training(pid, variables):
    """Of a rank of Lockstep: it has a place in the group; of another program: it is a rank."""
    page = variables.get("LOCKSTEP_PROGRESS_FD")
    if page is None:
        return "RANK" in variables
    with open(f"/proc/{pid}/fd/{page}", "rb") as memory:
        memory.seek(PHASE_AT)
        return int.from_bytes(memory.read(4), "little") >= TRAINING


def ranks_in(hosts, directory):
    """The processes of the ranks that train."""
    found = []
    for pid in sorted(pid for host in hosts for pid in host.pids()):
        try:
            line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
            entries = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
            variables = dict(entry.split("=", 1) for entry in entries if "=" in entry)
            is_rank = "RANK" in variables and "track" not in line and any(str(directory) in word for word in line)
            if is_rank and is_training(pid, variables):
                found.append(pid)
        except OSError:  # it has ended
            continue
    return found


def num_steps(directory):
    """Of the last checkpoint; 0: there is none."""
    if list(pathlib.Path(directory).glob("runs/*/run.json")):
        return max(restart.checkpoints(directory), default=0)
    lines = [line for line in pathlib.Path(directory, "output").read_text().splitlines() if line.startswith("step ")]
    return int(lines[-1].split()[1]) // EVERY_STEPS * EVERY_STEPS if lines and len(lines[-1].split()) == 2 else 0


def start(command, hosts, directory):
    variables = measuring.environment(directory, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="eth0", LOCKSTEP_RDZV_TOKEN=TOKEN)
    launchers = []
    with open(f"{directory}/output", "a") as output, open(f"{directory}/errors", "a") as errors:
        for number, host in enumerate(hosts):
            words = [str(word) for word in command(number, hosts, directory)]
            launchers.append(subprocess.Popen(host.command(words), cwd=directory, stdout=output, stderr=errors, env=variables))
    return launchers


def wait_for_end(launchers, seconds):
    """Waits until a launcher that runs has ended, for this long at most."""
    with contextlib.ExitStack() as stack:
        running = [os.pidfd_open(launcher.pid) for launcher in launchers if launcher.poll() is None]
        for fd in running:
            stack.callback(os.close, fd)
        select.select(running, [], [], seconds)


def rest(launchers, until):
    """Waits until then; raises RuntimeError if the job ends."""
    while (now := time.monotonic()) < until:
        if any(launcher.poll() is not None for launcher in launchers):
            raise RuntimeError("the job has ended")
        wait_for_end(launchers, until - now)


def kill_ranks(network, launchers, rng, directory):
    """A random rank every 10 s, for 120 s. Returns how many."""
    begin, kills = time.monotonic(), 0
    for fault in range(FAULTS_S // EVERY_S):
        rest(launchers, begin + fault * EVERY_S)
        if ranks := ranks_in(network.hosts, directory):  # otherwise all of them are being started
            os.kill(rng.choice(ranks), signal.SIGKILL)
            kills += 1
    rest(launchers, begin + FAULTS_S)
    return kills


def measure(command, cycles, rng, directory):
    """A row of the result; raises RuntimeError."""
    network = Network(2)
    network.write_hosts_files(pathlib.Path(directory))  # torchrun resolves the name of the host
    launchers = start(command, network.hosts, directory)
    steps, seconds, kills = {"faults": 0, "undisturbed": 0}, {"faults": 0.0, "undisturbed": 0.0}, 0

    @contextlib.contextmanager
    def counted(what):
        first, begin = num_steps(directory), time.monotonic()
        yield
        steps[what] += num_steps(directory) - first
        seconds[what] += time.monotonic() - begin

    def has_begun():
        if any(launcher.poll() is not None for launcher in launchers):
            raise RuntimeError("the job has ended")
        return num_steps(directory) > 0

    try:
        measuring.wait_until("the first checkpoint", has_begun, restart.PATIENCE_S)
        for _ in range(cycles):
            with counted("faults"):
                kills += kill_ranks(network, launchers, rng, directory)
            rest(launchers, time.monotonic() + SETTLE_S)
            with counted("undisturbed"):
                rest(launchers, time.monotonic() + QUIET_S)
            print(f"  {kills} kills, {steps}", file=sys.stderr, flush=True)
    except RuntimeError as error:
        raise RuntimeError(f"{error}\n" + pathlib.Path(directory, "errors").read_text()[-2000:]) from error
    finally:
        network.close()
        for launcher in launchers:
            launcher.wait(restart.PATIENCE_S)
    if steps["undisturbed"] == 0:
        raise RuntimeError("no steps without faults")
    rates = {what: round(steps[what] / seconds[what], 2) for what in steps}
    return {"kills": kills, "seconds": round(seconds["faults"]), "steps per second": rates,
            "goodput": round(rates["faults"] / rates["undisturbed"], 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=3, help="of each job, 165 s each")
    parser.add_argument("--seed", type=int, default=1, help="of the choice of ranks")
    parser.add_argument("--only", help="variants whose name contains this")
    parser.add_argument("--out", type=pathlib.Path, help="also write the result as JSON")
    arguments = parser.parse_args()
    machine, rows = measuring.machine(SOURCE), {}
    for name in VARIANTS:
        if arguments.only and arguments.only not in name:
            continue
        try:
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
                rows[name] = measure(VARIANTS[name], arguments.cycles, random.Random(arguments.seed), directory)
        except RuntimeError as error:
            rows[name] = {"failed": str(error).splitlines()[-1] if str(error) else "it did not start"}
            print(f"{name}: {error}", file=sys.stderr)
        print(name, json.dumps(rows[name]), flush=True)
    result = {"what": f"steps per second with a killed rank every {EVERY_S} s, divided by those without, of one job",
              "rows": rows, "machine": machine, "commit": measuring.commit(),
              "command": f"bench/goodput.py --cycles {arguments.cycles} --seed {arguments.seed}"}
    print(json.dumps(result, indent=2))
    measuring.save(result, arguments.out)


if __name__ == "__main__":
    main()
