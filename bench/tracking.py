"""Measures the cost of tracking: per scalar, per training step, and of the agent that feeds the sinks of many ranks.

    cmake --build build --target lockstep_bench_tracking
    .venv/bin/python bench/tracking.py [--quick] [--only cost,step,ranks] [--rounds 5] [--out bench/results/tracking.json]

Variants alternate within each round, so that other load affects all of them. Prints tables; writes JSON with --out.
--quick only verifies in less than a minute that the benchmark works; its numbers are meaningless.
"""

import argparse
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True

import measuring  # noqa: E402
import tracking_cost  # noqa: E402
import tracking_ranks  # noqa: E402
import tracking_step_time  # noqa: E402

PARTS = {
    "cost": (tracking_cost, "cost of a scalar on the calling thread; a smaller number of calls is scaled per call, and "
                            "log_batch of 1000 is compared with 10 per call. until_on_disk: calls and close"),
    "step": (tracking_step_time, "mean time of a training step of configs/mnist.yaml, which logs every tenth step (its "
                                 "default) or every step: the agent at work in every other window, with all of the work of "
                                 "both, against the agent stopped. to_stopped: both windows, which is a run that is tracked, "
                                 "against the windows without. `always stopped` is the noise"),
    "ranks": (tracking_ranks, "ranks of one node in one group, logging as fast as they can while the agent feeds csv, jsonl "
                              "and tensorboard"),
}
QUICK = {"rounds": 1, "scalars": 100_000, "peer_scalars": 2000, "train_steps": 1500, "worlds": [1], "log_every": [1], "ranks": 8, "steps": 500,
         "ranks_rounds": 1}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny numbers, to see that it works")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS), help="parts, with commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scalars", type=int, default=1_000_000, help="cost: logged by lockstep")
    parser.add_argument("--peer-scalars", type=int, default=200_000, help="cost: logged by each peer (mlflow: 1/200 of it)")
    parser.add_argument("--train-steps", type=int, default=10000, help="step: of each training")
    parser.add_argument("--worlds", type=int, nargs="+", default=[1, 2], help="step: numbers of ranks")
    parser.add_argument("--log-every", type=int, nargs="+", default=[10, 1], help="step: steps from record to record")
    parser.add_argument("--rank-threads", type=int, default=1, help="step: threads that a rank computes with")
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--metrics", type=int, default=50)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=4, help="ranks: of the program that writes the logs")
    parser.add_argument("--ranks-rounds", type=int, default=3, help="ranks: rounds")
    parser.add_argument("--driver", type=pathlib.Path, default=measuring.BIN / "lockstep_bench_tracking")
    parser.add_argument("--dir", help="directory for temporary files, on the disk to measure (64 x 50 x 10,000: 10 GB free)")
    parser.add_argument("--out", type=pathlib.Path, help="also write the result as JSON")
    if parser.parse_known_args()[0].quick:
        parser.set_defaults(**QUICK)
    arguments = parser.parse_args()
    if unknown := set(arguments.only) - set(PARTS):
        parser.error(f"unknown part: {', '.join(sorted(unknown))}; valid: {', '.join(PARTS)}")
    arguments.driver = arguments.driver.resolve()
    if not arguments.driver.exists():
        parser.error(f"{arguments.driver} is missing: cmake --build build --target lockstep_bench_tracking")
    return arguments


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory(dir=arguments.dir, prefix="lockstep-bench-") as directory:
        result = {"what": "the cost of tracking", "quick": arguments.quick, "machine": measuring.machine(directory),
                  "commit": measuring.commit(), "command": " ".join(["bench/tracking.py", *sys.argv[1:]]), "parts": {}}
        for name in arguments.only:
            part, what = PARTS[name]
            place = pathlib.Path(directory) / name
            place.mkdir()
            rows = part.measure(arguments, place)
            measuring.print_table(f"{name}: {what}", rows)
            result["parts"][name] = {"what": what, "rows": rows}
    measuring.save(result, arguments.out)


if __name__ == "__main__":
    main()
