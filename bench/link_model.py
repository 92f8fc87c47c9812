"""Models the cost of an all-reduce: calibrated with two ranks of this machine, validated with four, extrapolated to 100,000 ranks.

    .venv/bin/python bench/link_model.py [--network-us 5] [--network-gb-s 12.5] [--mb 500] [--per-host 8]

Within a host: t = a + bytes * passes(W) / B, with a and B fitted to two ranks (4 B and 25 MiB), multiplied by ranks / cores
if ranks share cores. passes(W) for arrays in the shared segment, where gradients are stored: a rank reads its slice of all W
arrays and writes it to all W: two passes. Below 256 KiB: copy into the slot, reduce W slots (a slice of them
from 4 ranks on) and copy the slices back. Between hosts, which cannot be measured here: ring 2(n-1)a + 2(n-1)/n * S/B and tree
2 log2(n) a + 2S/B, between one leader per host; latency and bandwidth of the network are arguments.
Predictions for more ranks than were measured are modeled, not measured.
"""

import argparse
import math
import os
import statistics
import tempfile

from measuring import BIN, output_of
from rows_collectives import DRIVER, last_json

CHECKED = (65536, 1048576, 104857600)


def measure(ranks, scale):
    with tempfile.TemporaryDirectory() as directory:
        command = [BIN / "lockstep", "launch", "-n", str(ranks), "--log-dir", "logs", "--program", DRIVER, "shm", str(scale)]
        rows = last_json(output_of(command, directory, 300, OMP_NUM_THREADS="1"))["placed_all_reduce_us"]
    return {int(size): time for size, time in rows.items()}


def medians(rounds):
    """Medians over several results of measure()."""
    return {size: statistics.median(rows[size] for rows in rounds) for size in rounds[0]}


def passes(ranks, size):
    """Number of passes of a rank over its bytes; reads and writes count equally."""
    if size >= 256 << 10:
        return 2
    copy_in = 2
    return copy_in + (ranks + 1 if ranks <= 3 else (ranks + 1) / ranks + 2)


class Host:
    def __init__(self, rows):
        self.latency = rows[4]
        self.us_per_byte = (rows[26214400] - rows[4]) / 26214400 / passes(2, 26214400)

    def all_reduce(self, ranks, size, cores):
        crowd = max(1, ranks / cores)
        return crowd * (self.latency * (ranks - 1) + size * passes(ranks, size) * self.us_per_byte)


def between_hosts(hosts, size, network):
    latency, us_per_byte = network
    ring = 2 * (hosts - 1) * latency + 2 * (hosts - 1) / hosts * size * us_per_byte
    tree = 2 * math.log2(hosts) * latency + 2 * size * us_per_byte
    return {"ring": ring, "tree": tree} if hosts > 1 else {"ring": 0.0, "tree": 0.0}


def predict_all_reduce(host, ranks, size, per_host, network=(5, 1e-3 / 12.5)):
    """In ms: (a ring over all ranks, as Gloo's; shared memory within hosts and the better of ring and tree between leaders)."""
    hosts = max(1, ranks // per_host)
    flat = between_hosts(ranks, size, network)["ring"] if hosts > 1 else host.all_reduce(ranks, size, per_host)
    levels = host.all_reduce(per_host, size, per_host) + min(between_hosts(hosts, size, network).values())
    return flat / 1e3, levels / 1e3


def check(host, ranks, rows):
    for size in CHECKED:
        predicted = host.all_reduce(ranks, size, os.cpu_count())
        print(f"  {ranks} ranks, {size:>11,} B: predicted {predicted:>10,.0f} us, measured {rows[size]:>10,.0f} us, "
              f"error {100 * (predicted / rows[size] - 1):+.0f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network-us", type=float, default=5, help="assumed latency between hosts")
    parser.add_argument("--network-gb-s", type=float, default=12.5, help="assumed bandwidth between hosts (100 Gbit/s)")
    parser.add_argument("--mb", type=float, default=500, help="bytes of gradients")
    parser.add_argument("--per-host", type=int, default=8, help="ranks of one host, each with a core")
    parser.add_argument("--scale", type=float, default=0.5, help="repetitions of the measurement")
    arguments = parser.parse_args()
    two = measure(2, arguments.scale)
    host = Host(two)
    print(f"calibrated with 2 ranks: latency {host.latency:.1f} us, {1e-3 / host.us_per_byte:.1f} GB/s per pass")
    check(host, 2, two)
    check(host, 4, measure(4, arguments.scale))
    size, network = arguments.mb * 1e6, (arguments.network_us, 1e-3 / arguments.network_gb_s)
    print(f"modeled: {arguments.mb:g} MB, {arguments.per_host} ranks per host, network {arguments.network_us:g} us and "
          f"{arguments.network_gb_s:g} GB/s")
    local = host.all_reduce(arguments.per_host, size, arguments.per_host)
    for ranks in (8, 64, 256, 1024, 16384, 100_000):
        hosts = max(1, ranks // arguments.per_host)
        outside = between_hosts(hosts, size, network)
        print(f"  {ranks:>7,} ranks: in the host {local / 1e3:,.0f} ms, between {hosts:,} hosts ring {outside['ring'] / 1e3:,.1f} ms, "
              f"tree {outside['tree'] / 1e3:,.1f} ms")


if __name__ == "__main__":
    main()
