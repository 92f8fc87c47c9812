"""Compares `lockstep sweep` with Optuna: the best value after 100 trials of standard functions, and the wall time of trials.

    .venv/bin/python bench/sweep.py [--seeds 20] [--trials 100] [--timed 10] [--rounds 3] [--out bench/results/sweep.json]

Quality: each searcher optimizes each function with `--seeds` seeds. A row has the mean of the best values found (less is
better) with its 95 % interval, and the interval of the difference to Optuna's (bootstrap of the seeds); "not worse" means that
this interval does not lie above 0.
Time: trials of a short training on two ranks with one thread each, by `lockstep sweep` and by Optuna with one torchrun per
trial (DistributedDataParallel, tuned), alternately. `lockstep sweep` runs all 200 trials; of Optuna with torchrun, `--timed` trials
per round are measured, and 200 are extrapolated.
With `--seeds 0` or `--rounds 0`, the part that is not measured is kept from `--out`.
Needs: cmake --build build --target lockstep_bench_sweep lockstep lockstep-trainer
"""

import argparse
import json
import math
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import optuna
import yaml

from measuring import BIN, SOURCE, commit, environment, machine, print_table, row

DRIVER = BIN / "lockstep_bench_sweep"
PYTHON = SOURCE / ".venv" / "bin" / "python"
TRIALS = 200
STEPS, BATCH, HIDDEN = 600, 64, 64  # a training of about 1 s with DistributedDataParallel


def values(point):
    return [point[f"x{i}"] for i in range(len(point))]


def sphere(point):
    return sum((x - 1) ** 2 for x in values(point))


def rosenbrock(point):
    x = values(point)
    return sum(100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in zip(x, x[1:]))


def rastrigin(point):
    return sum(x * x - 10 * math.cos(2 * math.pi * x) + 10 for x in values(point))


def ackley(point):
    x = values(point)
    return (-20 * math.exp(-0.2 * math.sqrt(sum(v * v for v in x) / len(x)))
            - math.exp(sum(math.cos(2 * math.pi * v) for v in x) / len(x)) + 20 + math.e)


def branin(point):
    a, b = values(point)
    return ((b - 5.1 / (4 * math.pi ** 2) * a * a + 5 / math.pi * a - 6) ** 2
            + 10 * (1 - 1 / (8 * math.pi)) * math.cos(a) + 10)


def levy(point):
    w = [1 + (x - 1) / 4 for x in values(point)]
    return (math.sin(math.pi * w[0]) ** 2 + (w[-1] - 1) ** 2 * (1 + math.sin(2 * math.pi * w[-1]) ** 2)
            + sum((v - 1) ** 2 * (1 + 10 * math.sin(math.pi * v + 1) ** 2) for v in w[:-1]))


def styblinski_tang(point):
    return sum(x ** 4 - 16 * x * x + 5 * x for x in values(point)) / 2


HARTMANN = [([10, 3, 17, 3.5, 1.7, 8], [.1312, .1696, .5569, .0124, .8283, .5886], 1.0),
            ([.05, 10, 17, .1, 8, 14], [.2329, .4135, .8307, .3736, .1004, .9991], 1.2),
            ([3, 3.5, 1.7, 10, 17, 8], [.2348, .1451, .3522, .2883, .3047, .6650], 3.0),
            ([17, 8, .05, 10, .1, 14], [.4047, .8828, .8732, .5743, .1091, .0381], 3.2)]


def hartmann6(point):
    x = values(point)
    return -sum(c * math.exp(-sum(a * (v - p) ** 2 for a, v, p in zip(rates, x, centers)))
                for rates, centers, c in HARTMANN)


def training(point):
    """Like the loss of a training: by the order of magnitude of the rate, with an interaction, a width and a useless setting."""
    best = {"sgd": -1.0, "adamw": -3.0}[point["name"]] - 0.5 * (point["width"] > 128)
    loss = 0.3 * (math.log10(point["rate"]) - best) ** 2 + 0.2 * (math.log2(point["width"] / 200)) ** 2 / 10
    if point["name"] == "sgd":
        loss += 0.1 + abs(point["momentum"] - 0.9)
    return loss


def integers(point):
    return sum(abs(x - 3 * i) for i, x in enumerate(values(point)))


def box(count, low, high):
    return {f"x{i}": {"uniform": [low, high]} for i in range(count)}


FUNCTIONS = {
    "sphere, 5": (sphere, box(5, -5, 5)),
    "Rosenbrock, 4": (rosenbrock, box(4, -2, 2)),
    "Rastrigin, 4": (rastrigin, box(4, -5.12, 5.12)),
    "Ackley, 5": (ackley, box(5, -10, 10)),
    "Branin, 2": (branin, {"x0": {"uniform": [-5, 10]}, "x1": {"uniform": [0, 15]}}),
    "Levy, 5": (levy, box(5, -10, 10)),
    "Styblinski-Tang, 4": (styblinski_tang, box(4, -5, 5)),
    "Hartmann, 6": (hartmann6, box(6, 0, 1)),
    "integers, 5": (integers, {f"x{i}": {"int": [0, 20]} for i in range(5)}),
    "training, conditional": (training, {"name": {"choice": ["sgd", "adamw"]}, "rate": {"log_uniform": [1e-6, 1]},
                                         "width": {"log_int": [8, 1024]}, "unused": {"uniform": [0, 1]},
                                         "momentum": {"uniform": [0, 0.99], "when": {"name": "sgd"}}}),
}


def best_by_lockstep(directory, method, function, space, seed, trials):
    file = directory / "sweep.yaml"
    file.write_text(yaml.safe_dump({"run": "run.yaml", "space": space, "search": {"name": method},
                                    "objective": {"metric": "value"}, "budget": {"trials": trials}}))
    driver = subprocess.Popen([DRIVER, file, str(seed), str(trials)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    best = math.inf
    for line in driver.stdout:
        value = function(json.loads(line))
        best = min(best, value)
        print(repr(value), file=driver.stdin, flush=True)
    if driver.wait() != 0:
        raise RuntimeError(f"{DRIVER} ended with {driver.returncode}")
    return best


def suggest(trial, space):
    point = {}
    for key, parameter in space.items():
        if any(point.get(name) != value for name, value in parameter.get("when", {}).items()):
            continue
        (kind, bounds), = ((kind, bounds) for kind, bounds in parameter.items() if kind != "when")
        if kind == "choice":
            point[key] = trial.suggest_categorical(key, bounds)
        elif "int" in kind:
            point[key] = trial.suggest_int(key, *bounds, log=kind == "log_int")
        else:
            point[key] = trial.suggest_float(key, *bounds, log=kind == "log_uniform")
    return point


def best_by_optuna(sampler, function, space, trials):
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda trial: function(suggest(trial, space)), n_trials=trials)
    return study.best_value


def interval(statistic, *samples, rounds=2000):
    """95 % of `statistic` of resampled `samples` (bootstrap)."""
    randomness = random.Random(0)
    found = sorted(statistic(*([randomness.choice(each) for _ in each] for each in samples)) for _ in range(rounds))
    return [round(found[int(share * rounds)], 4) for share in (0.025, 0.975)]


def mean(numbers):
    numbers = list(numbers)
    return sum(numbers) / len(numbers)


def measure_quality(args, directory):
    rows = []
    for name, (function, space) in FUNCTIONS.items():
        searchers = {
            "lockstep tpe": lambda seed: best_by_lockstep(directory, "tpe", function, space, seed, args.trials),
            "lockstep gp": lambda seed: best_by_lockstep(directory, "gp", function, space, seed, args.trials),
            "lockstep random": lambda seed: best_by_lockstep(directory, "random", function, space, seed, args.trials),
            "lockstep sobol": lambda seed: best_by_lockstep(directory, "sobol", function, space, seed, args.trials),
            "optuna tpe": lambda seed: best_by_optuna(optuna.samplers.TPESampler(seed=seed), function, space, args.trials),
            "optuna random": lambda seed: best_by_optuna(optuna.samplers.RandomSampler(seed=seed), function, space, args.trials),
        }
        found = {searcher: [search(seed) for seed in range(args.seeds)] for searcher, search in searchers.items()}
        line = {"function": name}
        for searcher, bests in found.items():
            line[searcher] = round(mean(bests), 4)
            line[f"{searcher}, 95 %"] = interval(mean, bests)
        for peer in ("tpe", "random"):
            difference = interval(lambda ours, theirs: mean(ours) - mean(theirs), found["lockstep tpe"], found[f"optuna {peer}"])
            line[f"minus optuna {peer}, 95 %"] = difference
            line[f"not worse than optuna {peer}"] = difference[0] <= 0
        rows.append(line)
        print(json.dumps(line), flush=True)
    return rows


RUN = {"run": {"name": "timed"}, "model": {"name": "mlp", "hidden": [HIDDEN]},
       "data": {"train": {"name": "idx", "path": str(SOURCE / ".data" / "mnist"), "split": "train"},
                "batch_size": 2 * BATCH, "workers": 2},
       "optimizer": {"name": "sgd", "lr": 0.1}, "train": {"max_steps": STEPS, "epochs": 100, "log_every": f"{STEPS} steps"},
       "distributed": {"device": "cpu"}, "checkpoint": {"every": "100 epochs"}}
RATES = [0.01, 0.3]


def time_lockstep(directory, trials, seed):
    (directory / "run.yaml").write_text(yaml.safe_dump(RUN))
    (directory / f"s{seed}.yaml").write_text(yaml.safe_dump(
        {"run": "run.yaml", "space": {"optimizer.lr": {"log_uniform": RATES}}, "search": {"seed": seed},
         "objective": {"metric": "train/loss"}, "budget": {"trials": trials}}))
    begin = time.perf_counter()
    subprocess.run([BIN / "lockstep", "sweep", f"s{seed}.yaml", "-n", "2", "--json"], cwd=directory, check=True,
                   stdout=subprocess.DEVNULL, env=environment(directory, OMP_NUM_THREADS="1"))
    return time.perf_counter() - begin


def run_torchrun(directory, rate):
    """The output and the seconds of a trial. PyTorch sometimes hangs when a model with a communication hook is destroyed: such a
    trial is repeated, and only the repetition counts."""
    command = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", SOURCE / "bench" / "step_peer.py",
               "--data", SOURCE / ".data" / "mnist", "--inputs", "784", "--hidden", str(HIDDEN), "--optimizer", "sgd", "--lr",
               str(rate), "--batch-size", str(BATCH), "--steps", str(STEPS), "--interval", str(STEPS), "--tuned"]
    for _ in range(5):
        begin = time.perf_counter()
        process = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                   env=environment(directory, OMP_NUM_THREADS="1"), start_new_session=True)
        try:
            out = process.communicate(timeout=60)[0]
        except subprocess.TimeoutExpired:
            for child in descendants(process.pid):
                os.kill(child, signal.SIGKILL)
            process.communicate()
            print("a trial of torchrun hangs: repeated", flush=True)
            continue
        if process.returncode != 0:
            raise RuntimeError(f"torchrun ended with {process.returncode}")
        return out, time.perf_counter() - begin
    raise RuntimeError("five trials of torchrun hang")


def descendants(pid):
    """Of this process, which starts workers in new sessions, and itself."""
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue  # it has ended
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found


def time_optuna(directory, trials, seed):
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    total = 0
    for _ in range(trials):
        begin = time.perf_counter()
        trial = study.ask()
        rate = trial.suggest_float("lr", *RATES, log=True)
        total += time.perf_counter() - begin
        out, seconds = run_torchrun(directory, rate)
        total += seconds
        study.tell(trial, json.loads(out.splitlines()[-1])["loss"])
    return total / trials


def measure_time(args, directory):
    ours, peers, load = [], [], os.getloadavg()[0]
    for index in range(args.rounds):
        ours.append(time_lockstep(directory, TRIALS, index))
        peers.append(TRIALS * time_optuna(directory, args.timed, index))
        print(f"round {index}: {ours[-1]:.1f} s, {peers[-1]:.1f} s", flush=True)
    busy = f"the cores were also used by other programs (load {load:.0f})" if load >= 1 else ""
    extrapolated = f"extrapolated from {args.timed} trials per round"
    rows = [row("200 trials of a short training, 2 ranks: lockstep sweep", "s", ours, 1, note=busy),
            row("200 trials of a short training, 2 ranks: Optuna + torchrun", "s", peers, 1,
                note="; ".join(filter(None, [extrapolated, busy])))]
    rows.append({"row": "ratio", "median": round(rows[1]["median"] / rows[0]["median"], 2), "goal": ">= 10; with warm starts >= 25"})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--timed", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path, default=SOURCE / "bench" / "results" / "sweep.json")
    args = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        result = json.loads(args.out.read_text()) if args.out.exists() else {}
        if args.seeds or not result:
            result |= {"commit": commit(), "machine": machine(directory), "optuna": optuna.__version__,
                       "python": sys.version.split()[0], "seeds": args.seeds, "trials": args.trials}
        if args.seeds:
            result["quality"] = measure_quality(args, directory)
        if args.rounds:
            result |= {"time": measure_time(args, directory), "time_commit": commit()}
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    if args.rounds:
        print_table("time", result["time"])


if __name__ == "__main__":
    main()
