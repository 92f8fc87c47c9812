"""Rows of start-up and of collectives: two ranks, one thread each."""

import json
import re
import statistics
import sys
import time

import start_up
from measuring import BIN, SOURCE, copy_speed, output_of

DRIVER = BIN.parent / "bin" / "lockstep_bench_collectives"
PEER = SOURCE / "bench" / "collectives_peer.py"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
NAMES = {"4": "4 B", "4096": "4 KiB", "65536": "64 KiB", "1048576": "1 MiB", "26214400": "25 MiB", "104857600": "100 MiB"}
GOALS = {"4": 20, "4096": 20, "65536": 20, "26214400": 8}


def last_json(text):
    return json.loads(re.findall(r"{.*}", text)[-1])  # after the rank label


def run(command, settings):
    return last_json(output_of(command, settings["directory"], 300, OMP_NUM_THREADS="1"))


def ours(backend, *arguments):
    return [BIN / "lockstep", "launch", "-n", "2", "--log-dir", "logs", "--program", DRIVER, backend, *arguments]


def compared(name, unit, lockstep, peer, peer_name, **more):
    middle, other = statistics.median(lockstep), statistics.median(peer)
    return {"row": name, "unit": unit, "lockstep": middle, "lockstep_spread": [min(lockstep), max(lockstep)],
            "peer_name": peer_name, "peer": other, "peer_spread": [min(peer), max(peer)], "ratio": other / middle,
            "rounds_lockstep": lockstep, "rounds_peer": peer, **more}


def start_rows(settings):
    sides = {"lockstep": ours("auto", "first"), "torchrun": [*TORCHRUN, PEER, "--first"]}
    times = {name: [] for name in sides}
    for _ in range(settings["rounds"]):
        for name, command in sides.items():
            begin = time.time()
            times[name].append(run(command, settings)["first_all_reduce"] - begin)
    yield compared("launch to first all-reduce, 2 ranks", "s", times["lockstep"], times["torchrun"], "torchrun", goal=9,
                   limit="loading libtorch_cpu: 0.25 s")
    memory = {"lockstep": start_up.lockstep_command(settings["directory"]),
              "torchrun": start_up.torchrun_command(settings["directory"])}
    largest = {name: [start_up.largest_process_mb(command)] for name, command in memory.items()}
    yield compared("memory of a rank after 20 steps", "MB", largest["lockstep"], largest["torchrun"], "DDP", goal=4,
                   limit="116 MB: libtorch_cpu and one tensor")


def rows(settings):
    scale = str(settings["scale"])
    sides = {"shm": ours("shm", scale), "gloo": ours("gloo", scale), "python": [*TORCHRUN, PEER, scale]}
    results = {name: [] for name in sides}
    for _ in range(settings["rounds"]):
        for name, command in sides.items():
            results[name].append(run(command, settings))
    for size, label in NAMES.items():
        times = {name: [round_["all_reduce_us"][size] for round_ in results[name]] for name in sides}
        more = {"goal": GOALS[size]} if size in GOALS else {}
        yield compared(f"all-reduce, {label}", "µs", times["shm"], times["python"], "Gloo from Python", **more,
                       gloo_from_cpp=times["gloo"], limit=limit_of(int(size)))
        if int(size) >= 1 << 20:  # the size of gradient buckets
            placed = [round_["placed_all_reduce_us"][size] for round_ in results["shm"]]
            yield compared(f"all-reduce, {label}, in the shared segment", "µs", placed, times["python"],
                           "Gloo from Python", **more,
                           limit=copy_limit(4 * int(size), int(size), 2, "both arrays read and written"))
    yield compared("vote of a step", "µs", [round_["vote_us"] for round_ in results["shm"]],
                   [round_["all_reduce_us"]["4"] for round_ in results["python"]], "one number over Gloo",
                   gloo_from_cpp=[round_["vote_us"] for round_ in results["gloo"]], limit="as an all-reduce of 4 B; the rest of the step hides it")
    packed = [round_["metrics_us"]["packed"] for round_ in results["shm"]]
    separate = [round_["metrics_us"]["separate"] for round_ in results["python"]]
    yield compared("16 metrics of a step", "µs", packed, separate, "16 all-reduces over Gloo", goal=16,
                   limit="one exchange of 1 KiB",
                   separate_shm=[round_["metrics_us"]["separate"] for round_ in results["shm"]])


def limit_of(size):
    if size <= 65536:
        return "0.2 µs: one cache-line round trip"
    return copy_limit(2 * size, size, 1, "read and write once")


def copy_limit(moved, size, threads, what):
    speed = copy_speed(size, threads)
    return (f"{moved / speed * 1e6:,.0f} µs: {what} by memcpy, {speed / 1e9:.0f} GB/s of {threads} core{'s'[:threads - 1]} "
            "(with non-temporal stores)")
