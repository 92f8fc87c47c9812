"""Times the rendezvous of many launchers, a vote, and continuing after a lost node, without workers.

Usage: .venv/bin/python bench/rendezvous.py     (builds the driver; writes bench/results/rendezvous.json)
"""

import json
import subprocess
import tempfile

import measuring

COUNTS = (10, 100, 300, 1000)
ROUNDS = 3


def measure(count, directory):
    driver = measuring.BIN / "lockstep_bench_rendezvous"
    return json.loads(measuring.output_of([driver, count], directory, 300))


def main():
    subprocess.run(["cmake", "--build", measuring.BIN.parent, "-j1", "--target", "lockstep_bench_rendezvous"],
                   check=True, stdout=subprocess.DEVNULL)
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        machine = measuring.machine(directory)
        for count in COUNTS:
            rounds = [measure(count, directory) for _ in range(ROUNDS)]
            for what in ("meet_s", "vote_s", "lose_one_s"):
                values = [one[what] * 1000 for one in rounds]
                per_node = round(sorted(values)[ROUNDS // 2] / count, 4)
                rows.append(measuring.row(f"{count} nodes {what[:-2]}", "ms", values, per_node_ms=per_node))
            memory = [one["coordinator_mb"] for one in rounds]
            rows.append(measuring.row(f"{count} nodes, memory of the coordinator", "MB", memory, 1))
    measuring.print_table("rendezvous", rows)
    result = {"command": "bench/rendezvous.py", "commit": measuring.commit(), "machine": machine, "rows": rows}
    path = measuring.SOURCE / "bench" / "results" / "rendezvous.json"
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
