"""Python peer of the collective benchmarks: torch.distributed with Gloo. Rank 0 prints one JSON object of medians in µs.

--first: only initializes the group, runs one all-reduce and prints the time.
"""

import json
import statistics
import sys
import time

import torch
import torch.distributed as dist

SIZES = (4, 4 << 10, 64 << 10, 1 << 20, 25 << 20, 100 << 20)


def median_us(rounds, body):
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        body()
        times.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(times)


def all_reduces(scale):
    rows = {}
    for size in SIZES:
        tensor = torch.zeros(size // 4)
        rounds = max(5, int((2000 if size <= 64 << 10 else 200 if size <= 1 << 20 else 20) * scale))
        median_us(max(3, rounds // 10), lambda: dist.all_reduce(tensor))
        rows[str(size)] = median_us(rounds, lambda: dist.all_reduce(tensor))
    return rows


def metrics(scale):
    tensors = [torch.zeros(2, dtype=torch.float64) for _ in range(16)]

    def separate():
        for tensor in tensors:
            dist.all_reduce(tensor)

    return {"separate": median_us(int(500 * scale), separate)}


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    if "--first" in sys.argv:
        dist.all_reduce(torch.ones(1))
        result = {"first_all_reduce": time.time()}
    else:
        scale = float(sys.argv[1])
        result = {"all_reduce_us": all_reduces(scale), "metrics_us": metrics(scale)}
    if dist.get_rank() == 0:
        print(json.dumps(result), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
