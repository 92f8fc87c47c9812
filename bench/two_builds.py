"""Compares two checkouts of Lockstep, e.g. before and after a change, in one run on this machine.

    .venv/bin/python bench/two_builds.py BEFORE [AFTER] [--rounds 5] [--quick] [--out bench/results/two_builds.json]

BEFORE and AFTER (default: this checkout) are directories with binaries in build/bin, the drivers of `make bench` among
them. Every row alternates both, round by round, each with its own drivers and run files. `ratio`: after over before, the
median of the rounds' ratios.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
STEPS = {"MLP 64 wide": 2000, "MLP 512 wide": 400, "10 M parameters, AdamW": 48, "small GPT": 48}


def measure(settings):
    """One round of the checkout whose modules are imported: {row: (unit, value)}."""
    import rows_collectives
    import rows_logging
    import rows_steps
    import start_up
    import time
    rows = {}
    begin = time.time()
    first = rows_collectives.run(rows_collectives.ours("auto", "first"), settings)
    rows["launch to first all-reduce, 2 ranks"] = "s", first["first_all_reduce"] - begin
    command = start_up.lockstep_command(settings["directory"])
    rows["20 steps, 2 ranks, from start to exit"] = "s", start_up.run(command)
    rows["memory of a rank after 20 steps"] = "MB", start_up.largest_process_mb(command)
    collectives = rows_collectives.run(rows_collectives.ours("shm", str(settings["scale"])), settings)
    for size, name in rows_collectives.NAMES.items():
        rows[f"all-reduce, {name}"] = "µs", collectives["all_reduce_us"][size]
    rows["vote of a step"] = "µs", collectives["vote_us"]
    rows["16 metrics of a step"] = "µs", collectives["metrics_us"]["packed"]
    for name, steps in STEPS.items():
        job = {**rows_steps.JOBS[name], "steps": max(40, int(steps * settings["scale"]) // 8 * 8)}
        for ranks in (1, 2):
            found = rows_steps.trainer(job, ranks, settings, False)["seconds"]
            rows[f"{name}, {ranks} rank{'s'[:ranks - 1]}, step"] = "ms", 1e3 * statistics.median(found[1:])
    logged = rows_logging.train(settings, int(100_000 * settings["scale"]))
    rows["a scalar logged inside training"] = "µs", logged["scalar_us"]
    return rows


def round_of(checkout, scale):
    """In a separate process, because both checkouts have modules of the same names."""
    words = [sys.executable, __file__, "--round", str(scale)]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "bench"), "LOCKSTEP_BIN": str(checkout / "build" / "bin"),
                   "PYTHONSAFEPATH": "1"}
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=pathlib.Path, nargs="?")
    parser.add_argument("after", type=pathlib.Path, nargs="?", default=SOURCE)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a fifth of the steps")
    parser.add_argument("--out", type=pathlib.Path, default=SOURCE / "bench" / "results" / "two_builds.json")
    parser.add_argument("--round", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.round:
        with tempfile.TemporaryDirectory() as directory:
            print(json.dumps(measure({"directory": pathlib.Path(directory), "scale": arguments.round})))
        return
    if not arguments.before:
        parser.error("BEFORE is missing: a directory with the binaries of the earlier commit in build/bin")
    sides = {"before": arguments.before.resolve(), "after": arguments.after.resolve()}
    rounds = {side: [] for side in sides}
    for number in range(arguments.rounds):
        for side in sorted(sides, reverse=number % 2 == 0):
            rounds[side].append(round_of(sides[side], 0.2 if arguments.quick else 1.0))
    rows = []
    for name, (unit, _) in rounds["after"][0].items():
        values = {side: [found[name][1] for found in rounds[side]] for side in sides}
        ratios = [after / before for after, before in zip(values["after"], values["before"])]
        rows.append({"row": name, "unit": unit, **{side: statistics.median(of_side) for side, of_side in values.items()},
                     "ratio": statistics.median(ratios), "best_ratio": min(values["after"]) / min(values["before"]),
                     "ratios": ratios})
        print("{row:45} {before:10.4g} {after:10.4g} {unit:3} {ratio:6.3f}x, of the best rounds {best_ratio:.3f}x".format(**rows[-1]), flush=True)
    commits = {side: subprocess.run(["git", "-C", path, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
               for side, path in sides.items()}
    arguments.out.write_text(json.dumps({"commits": commits, "cores": os.cpu_count(), "rounds": arguments.rounds,
                                         "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
