"""Measures the stall of training for a 512 MiB checkpoint, and the time until it is on disk, alternating with Python.

    .venv/bin/python bench/checkpoint.py [--rounds 3] [--width 6300] [--directory .] [--out bench/results/checkpoint.json]

An MLP with AdamW: parameters and two averages of each. Checkpoints are written below --directory, whose disk is measured.
Peers: torch.save (which leaves the data in the page cache, so a crash may lose it), torch.save followed by fsync, and
torch.distributed.checkpoint.async_save. Lockstep's checkpoints are synced, checksummed and renamed in every row.
Goal: a stall of at most one sixth of torch.save's. Needs: cmake --build build --target lockstep_bench_checkpoint
"""

import argparse
import json
import pathlib
import statistics
import tempfile

from measuring import BIN, SOURCE, commit, machine, output_of, print_table, row

DRIVER = BIN / "lockstep_bench_checkpoint"
TWO_RANKS = [BIN / "lockstep", "launch", "-n", 2, "--program", DRIVER, "--"]
PEER = pathlib.Path(__file__).with_name("checkpoint_peer.py")
PYTHON = SOURCE / ".venv" / "bin" / "python"
SAVES = 3  # per process; a peer's first save allocates memory, so it affects only the minimum and maximum
SETTINGS = {
    "lockstep": [DRIVER, "background"],
    "torch.save": [PYTHON, PEER, "save"],
    "torch.save + fsync": [PYTHON, PEER, "synced"],
    "torch async_save": [PYTHON, PEER, "async"],
    "lockstep, async: false": [DRIVER, "waiting"],
    "lockstep, 2 ranks": [*TWO_RANKS, "background"],
    "lockstep, 2 ranks, writers: all": [*TWO_RANKS, "shares"],
}


def measure(words, directory, options):
    *program, how = words
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        command = [*program, scratch, options.width, options.steps, SAVES, how]
        text = output_of(command, scratch, 600, OMP_NUM_THREADS="1")
        return json.loads(text[text.index("{"):])  # skips the rank label printed by the launcher


def rows_of(name, results):
    def median(key):
        return [statistics.median(values) for values in (result.get(key) for result in results) if values]

    yield row(f"{name}: stall", "ms", median("stall_ms"), 1)
    yield row(f"{name}: until written", "ms", median("written_ms"), 1)
    yield row(f"{name}: step", "ms", median("idle_step_ms"), 1)
    if writing := median("writing_step_ms"):
        yield row(f"{name}: step while writing", "ms", writing, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10, help="steps between two checkpoints")
    parser.add_argument("--width", type=int, default=6300, help="width of the hidden layers")
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path.cwd())
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    facts = machine(options.directory)
    results = {name: [] for name in SETTINGS}
    for _ in range(options.rounds):
        for name, words in SETTINGS.items():
            results[name].append(measure(words, options.directory, options))
    rows = [line for name, found in results.items() for line in rows_of(name, found)]
    print_table(f"a checkpoint of {results['lockstep'][0]['bytes'] >> 20} MiB", rows)
    median = {line["row"]: line["median"] for line in rows}
    ratio = median["torch.save: stall"] / median["lockstep: stall"]
    print(f"\nstall of torch.save / Lockstep's: {ratio:.1f} (goal: 6)")
    if options.out:
        report = {"command": f"bench/checkpoint.py --rounds {options.rounds} --width {options.width}", "commit": commit(),
                  "machine": facts, "bytes": results["lockstep"][0]["bytes"], "stall_ratio": round(ratio, 2),
                  "rows": rows}
        options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
