"""Runs jobs of the Python peer: loads torch once, then forks one process per rank for each job.

Reads one JSON object per line, {"world_size", "arguments"}, and responds to each with one line, {"ok", "output"}: the
output of the ranks. The argument is a directory for that output and for the rendezvous files, which need no port.
"""

import faulthandler
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

TIMEOUT_S = 120
GOLDEN = Path(__file__).resolve().parent.parent / "golden"
sys.path.insert(0, str(GOLDEN))

import ddp_peer  # noqa: E402
import torch._dynamo  # noqa: E402, F401  (DistributedDataParallel would load it in every rank)


def become_rank(rank, job, rendezvous, output):
    """In the forked process: runs as rank `rank` until it exits. Never returns."""
    code = 1
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        faulthandler.enable()
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(job["world_size"]))
        os.environ["INIT_METHOD"] = f"file://{rendezvous}"
        sys.argv = ["ddp_peer.py", *job["arguments"]]
        kept = ddp_peer.main()  # noqa: F841  (see there)
        code = 0
    except BaseException:  # the caller checks the exit status of the process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def wait_for(pids):
    """Returns the error as text; empty on success. At the deadline, or once one has failed, the others are terminated by a
    signal that makes them print their stacks."""
    deadline = time.monotonic() + TIMEOUT_S
    ranks, failures = dict(enumerate(pids)), ""
    while ranks:
        for rank, pid in list(ranks.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del ranks[rank]
                if status != 0:
                    failures += f"rank {rank} exited with {os.waitstatus_to_exitcode(status)}\n"
        if ranks and (failures or time.monotonic() > deadline):
            failures += f"ranks {sorted(ranks)} were killed\n"
            for pid in ranks.values():
                os.kill(pid, signal.SIGABRT)
                os.waitpid(pid, 0)
            break
        time.sleep(0.01)
    return failures


def run_job(job, directory):
    path, rendezvous = directory / "output.txt", directory / "rendezvous"
    rendezvous.unlink(missing_ok=True)
    with open(path, "w+b") as output:
        pids = []
        for rank in range(job["world_size"]):
            pid = os.fork()
            if pid == 0:
                become_rank(rank, job, rendezvous, output.fileno())
            pids.append(pid)
        failures = wait_for(pids)
    return {"ok": not failures, "output": path.read_text() + failures}


def main():
    directory = Path(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(run_job(json.loads(line), directory)), flush=True)


if __name__ == "__main__":
    main()
