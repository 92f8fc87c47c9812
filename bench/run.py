"""Compares Lockstep and Python with the same LibTorch, in one run on this machine.

    .venv/bin/python bench/run.py [--quick] [--rounds 5] [--only NAME ...] [--no-table]

Every row alternates Lockstep and its peers, round by round, so that other load affects all of them. Prints a table, writes
bench/results/run.json and updates the table in bench/README.md. Needs the drivers lockstep_bench_collectives,
_overlap, _logging and _checkpoint (`make bench` builds them).
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile
import time

import measuring
import rows_checkpoint
import rows_collectives
import rows_links
import rows_logging
import rows_sharding
import rows_steps
import table
from measuring import SOURCE

RESULTS = SOURCE / "bench" / "results" / "run.json"
GROUPS = {"start": rows_collectives.start_rows, "collectives": rows_collectives.rows, "steps": rows_steps.rows,
          "sharding": rows_sharding.rows,
          "logging": rows_logging.rows, "checkpoint": rows_checkpoint.rows, "links": rows_links.rows}


def cpu_times():
    """(busy, total) ticks of all cores since boot."""
    fields = [int(field) for field in open("/proc/stat").readline().split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)


def others_busy(seconds=1.0):
    """Load of other processes while this program sleeps, in %."""
    before = cpu_times()
    time.sleep(seconds)
    after = cpu_times()
    return round(100 * (after[0] - before[0]) / max(1, after[1] - before[1]), 1)


def measure(arguments, directory):
    rounds = arguments.rounds or (1 if arguments.quick else 5)
    settings = {"rounds": rounds, "scale": 0.2 if arguments.quick else 1.0, "directory": directory}
    rows = []
    for name in arguments.only or GROUPS:
        busy = others_busy()
        for row in GROUPS[name](settings):
            rows.append({**row, "others_busy_before": busy})
            print(table.line(row), flush=True)
        rows[-1]["others_busy_after"] = others_busy()
    return rounds, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round and fewer repetitions: under 5 minutes")
    parser.add_argument("--rounds", type=int, help="how often each side runs (5; with --quick 1)")
    parser.add_argument("--only", nargs="+", choices=GROUPS, help="measure only these groups of rows")
    parser.add_argument("--no-table", action="store_true", help="write no files, only print")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        machine = measuring.machine(directory)
        rounds, rows = measure(arguments, pathlib.Path(directory))
    result = {"command": "bench/run.py " + " ".join(sys.argv[1:]), "commit": measuring.commit(), "machine": machine,
              "load_after": os.getloadavg()[0], "date": time.strftime("%Y-%m-%d"), "rounds": rounds, "rows": rows}
    if not arguments.no_table:
        RESULTS.write_text(json.dumps(table.merged(RESULTS, result), indent=1) + "\n")
        table.renew(SOURCE / "bench" / "README.md", json.loads(RESULTS.read_text()))


if __name__ == "__main__":
    main()
