"""`lockstep sweep`: trials are runs, a killed sweep continues with the same trials, and a pruned trial ends at one step.

LOCKSTEP_SWEEP_KILLS=100 kills the sweep that often, and gives it more trials.
"""

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
import yaml

import lockstep
import processes
from conftest import MNIST
from processes import LOCKSTEP, SOURCE, TIMEOUT_S, TRAINER, wait_until
from safetensors_file import assert_same_bits, checkpoints, last_weights

KILLS = int(os.environ.get("LOCKSTEP_SWEEP_KILLS", 4))


class Sweep:
    """A sweep file next to the run file of a job."""

    def __init__(self, job, name, **settings):
        self.job, self.name = job, name
        job.config["data"]["train"]["limit"] = 96  # 2 steps per epoch
        job.config["data"]["eval"]["limit"] = 50
        job.config["tracking"] = {"agent": False}
        job.write()
        self.file = job.directory / f"{name}.yaml"
        self.file.write_text(yaml.safe_dump({"run": "run.yaml", "objective": {"metric": "eval/loss"}, **settings}))
        self.dir = job.runs / ".sweeps" / name

    def start(self, *options):
        return processes.start([LOCKSTEP, "sweep", self.file, *options], self.job.directory)

    def run(self, *options):
        return processes.finish(self.start(*options))

    def create(self, *points, ranks=1):
        """Creates the sweep with trials that are added by hand, and runs none."""
        assert self.run("-n", ranks, "--create").code == 0
        for point in points:
            assert self.command("add", *point).code == 0

    def command(self, command, *words):
        return processes.run([LOCKSTEP, "sweep", command, self.name, *words, "--dir", self.job.runs], self.job.directory)

    def json(self, command, *words):
        ended = self.command(command, *words, "--json")
        assert ended.code == 0, ended.err
        return json.loads(ended.out)

    def trials(self):
        return self.json("show")["trials"]


def refused(ended, text, code=78):
    assert ended.code == code, ended.err
    assert text in ended.err.splitlines()[-1], ended.err


LEARNING_RATE = {"optimizer.lr": {"log_uniform": [1e-3, 0.5]}}


def test_trials_are_runs_and_the_best_is_a_run_file(job):
    sweep = Sweep(job, "rates", space=LEARNING_RATE, search={"name": "sobol"}, budget={"trials": 3})
    ended = sweep.run("-n", "2", "--parallel", "2")
    assert ended.code == 0 and ended.err == "", ended.err
    shown = sweep.json("show")
    assert shown["state"] == "done" and shown["counts"] == {"open": 0, "finished": 3, "pruned": 0, "failed": 0}
    values = [trial["values"][0] for trial in shown["trials"]]
    (best,) = shown["best"]
    assert best["values"] == [min(values)]
    runs = {run["id"]: run for run in job.list()}
    assert len(runs) == 3
    for trial in shown["trials"]:
        run = runs[trial["runs"][0]]
        assert run["group"] == "rates" and run["name"] == f"rates-{trial['number']}" and run["world_size"] == 2
        assert run["summary"]["eval/loss"] == trial["values"][0]
        assert f"trial:{trial['number']}" in job.query("list")
    assert f"best: trial {best['number']}" in ended.out
    # The run file of the best trial gives its result again; the budget can grow.
    assert sweep.command("best", "-o", "best.yaml").code == 0
    assert processes.run([LOCKSTEP, "launch", "-n", "2", "best.yaml"], job.directory).code == 0
    assert next(run for run in job.list() if run["name"] == "e2e")["summary"]["eval/loss"] == min(values)
    table = sweep.command("export").out.splitlines()
    assert table[0] == "trial,state,by,eval/loss,optimizer.lr,runs,reason" and len(table) == 4
    # A run that exists counts as a trial, a point can be added by hand, and both are seen.
    assert sweep.json("add", "--run", runs[best["runs"][0]]["id"])["by"] == "import"
    assert sweep.json("add", "optimizer.lr=0.3")["number"] == 4
    assert sweep.run("-n", "2").code == 0
    assert [trial["state"] for trial in sweep.trials()] == ["finished"] * 5


def test_the_mean_of_several_seeds_counts(job):
    sweep = Sweep(job, "seeds", space=LEARNING_RATE, seeds=2, budget={"trials": 1})
    assert sweep.run().code == 0
    (trial,) = sweep.trials()
    losses = {run["id"]: run["summary"]["eval/loss"] for run in job.list()}
    assert sorted(losses) == sorted(trial["runs"]) and len(set(losses.values())) == 2
    assert trial["values"] == [pytest.approx(sum(losses.values()) / 2)]


def results(sweep):
    kept = ("number", "by", "parameters", "saw", "state", "values", "evaluations", "reason")
    return [{name: trial.get(name) for name in kept} for trial in sweep.trials()]


def test_a_sweep_killed_at_random_ends_with_the_same_trials(job):
    settings = {"space": {**LEARNING_RATE, "model.hidden": {"choice": [[8], [16]]}}, "search": {"startup": 2},
                "pruning": {"name": "asha", "first": 1, "factor": 2}, "budget": {"trials": 4 + KILLS // 4},
                "overrides": ["train.epochs=3"]}
    undisturbed = Sweep(job, "whole", **settings)
    begin = time.monotonic()
    assert undisturbed.run().code == 0
    limit = 3 * (time.monotonic() - begin) / settings["budget"]["trials"]
    killed = Sweep(job, "killed", **settings)
    randomness = random.Random(5)
    kills = done = 0
    for _ in range(KILLS):
        sweep = killed.start()
        try:
            sweep.communicate(timeout=randomness.uniform(0.1, limit))
        except processes.subprocess.TimeoutExpired:
            kills += 1
            (os.killpg if randomness.random() < 0.5 else os.kill)(sweep.pid, signal.SIGKILL)
            sweep.communicate(timeout=TIMEOUT_S)
        shown = killed.command("show", "--json")  # fails if the sweep was killed before it was created
        done = sum(trial["state"] != "open" for trial in json.loads(shown.out)["trials"]) if shown.code == 0 else 0
        is_late = done * KILLS < 0.8 * settings["budget"]["trials"] * kills  # the last kill should hit one of the last trials
        limit *= 1.25 if is_late else 0.8
    print(f"{kills} kills; {done} of {settings['budget']['trials']} trials had ended at the last")
    ended = killed.run()
    assert ended.code == 0, ended.err
    assert results(killed) == results(undisturbed)
    assert killed.json("show")["best"][0]["number"] == undisturbed.json("show")["best"][0]["number"]


def test_trials_are_forked_from_a_template_with_the_same_bits(job):
    space = {"optimizer.lr": {"choice": [0.1]}, "train.max_steps": {"choice": [4, 1000000]}}
    sweep = Sweep(job, "warm", space=space, budget={"trials": 3},
                  overrides=["train.epochs=1000000", "train.eval_every=4 steps", "checkpoint.every=4 steps"])
    short = ["optimizer.lr=0.1", "train.max_steps=4"]
    sweep.create(short, ["optimizer.lr=0.1", "train.max_steps=1000000"], short, ranks=2)
    started = sweep.start("-n", "2")
    trial = lambda number: next((run for run in job.runs.glob(f"*-t{number:05}") if (run / "run.json").exists()), None)

    def begun():
        """The template and the ranks of the long trial; the first trial has ended."""
        assert started.poll() is None, started.communicate()
        run = trial(1)
        if not run or not (run / "checkpoints").exists() or not checkpoints(run):
            return []
        lines = processes.find(sweep.dir)
        ranks = [pid for pid, line in lines.items() if line.startswith(f"{TRAINER} ") and " run.name=warm-1 " in line]
        return [pid for pid in processes.templates(sweep.dir) if processes.parent_of(pid) == started.pid] + ranks

    wait_until(lambda: len(begun()) == 3, TIMEOUT_S, "the long trial")
    template, *ranks = begun()
    for rank in ranks:
        assert processes.parent_of(processes.parent_of(rank)) == started.pid
        assert processes.first_address(rank) == processes.first_address(template)
    # Nothing is left when the sweep is killed; it continues.
    os.kill(started.pid, signal.SIGKILL)
    started.communicate(timeout=TIMEOUT_S)
    wait_until(lambda: not processes.find(job.directory), TIMEOUT_S, "the end of all processes")
    started = sweep.start("-n", "2")
    wait_until(lambda: len(begun()) == 3, TIMEOUT_S, "the long trial")
    # Without the template, trials start afresh.
    os.kill(begun()[0], signal.SIGKILL)
    state = lambda run: next(entry["state"] for entry in job.list() if entry["id"] == run.name)
    wait_until(lambda: state(trial(1)) == "running", TIMEOUT_S, "its continuation")
    job.query("stop", trial(1).name)
    ended = processes.finish(started)
    assert ended.code == 0, ended.err
    assert [trial["state"] for trial in sweep.trials()] == ["finished"] * 3
    assert_same_bits(last_weights(trial(0)), last_weights(trial(2)))


def test_a_sweep_that_is_process_1_reaps_orphans(job):
    """Such as the tracking agent of a rank that was killed."""
    sweep = Sweep(job, "first", space={"train.max_steps": {"choice": [1000000, 1000001]}}, budget={"trials": 2},
                  overrides=["train.epochs=1000000", "tracking.agent=true"])
    sweep.create(["train.max_steps=1000000"], ["train.max_steps=1000001"])
    started = processes.start(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", LOCKSTEP, "sweep", sweep.file], job.directory)
    agents = lambda: [pid for pid, line in processes.find(job.runs).items() if " track " in line]
    agent = wait_until(agents, TIMEOUT_S, "the tracking agent")[0]
    os.kill(processes.ranks_of(sweep.dir)[0], signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{agent}").exists(), TIMEOUT_S, "the end of the tracking agent")
    assert started.poll() is None
    os.killpg(started.pid, signal.SIGKILL)
    started.communicate()
    wait_until(lambda: not processes.find(job.directory), TIMEOUT_S, "the end of all processes")


def test_a_sweep_continues_when_its_program_is_replaced(job):
    """By a new version: trials are started with the one that has the name."""
    folder = job.directory / "bin"
    folder.mkdir()
    (folder / "lockstep-trainer").symlink_to(TRAINER)
    program, new = folder / "lockstep", folder / "new"
    for copy in (program, new):
        shutil.copy(LOCKSTEP, copy)
    space = {"train.max_steps": {"choice": [4, 1000000]}}
    sweep = Sweep(job, "replaced", space=space, budget={"trials": 2},
                  overrides=["train.epochs=1000000", "train.eval_every=4 steps", "checkpoint.every=4 steps"])
    sweep.create(["train.max_steps=1000000"], ["train.max_steps=4"])
    started = processes.start([program, "sweep", sweep.file], job.directory)
    first = lambda: next((run.name for run in job.runs.glob("*-t00000") if list(run.glob("checkpoints/[0-9]*"))), None)
    run = wait_until(first, TIMEOUT_S, "the first trial")
    new.rename(program)
    job.query("stop", run)
    ended = processes.finish(started)
    assert ended.code == 0, ended.err
    assert [trial["state"] for trial in sweep.trials()] == ["finished"] * 2


@pytest.mark.parametrize("pruning", [{"name": "asha", "factor": 2}, {"name": "median", "startup": 1}], ids=["asha", "median"])
def test_every_rank_of_a_pruned_trial_ends_at_the_same_step(job, pruning):
    space = {"optimizer.lr": {"choice": [0.1, 1e-6]}, "train.max_steps": {"choice": [4, 1000000]}}
    sweep = Sweep(job, "ranks", space=space, pruning=pruning, budget={"trials": 2},
                  overrides=["train.epochs=1000000", "train.eval_every=2 steps", "train.log_every=1 step",
                             "tracking.ranks=all", "checkpoint.every=1000000 steps"])
    sweep.create(["optimizer.lr=0.1", "train.max_steps=4"], ["optimizer.lr=1e-06", "train.max_steps=1000000"], ranks=4)
    ended = sweep.run("-n", "4")
    assert ended.code == 0, ended.err
    good, bad = sweep.trials()
    assert good["state"] == "finished" and bad["state"] == "pruned", (good, bad)
    assert "at evaluation 1" in bad["reason"] or "until evaluation 1" in bad["reason"]
    (run,) = bad["runs"]
    last = {rank: max(step for step, _ in steps) for rank, steps in steps_of_ranks(job, run).items()}
    assert sorted(last) == [0, 1, 2, 3] and len(set(last.values())) == 1, last
    assert checkpoints(job.runs / run)[-1] == last[0] < 1000000
    entry = next(entry for entry in job.list() if entry["id"].startswith(run))
    assert entry["state"] == "finished" and "pruned" in job.query("list", "--tag", "pruned")
    assert "pruned: eval/loss" in job.query("show", run)


def steps_of_ranks(job, run):
    steps = {}
    for row in job.export(run):
        if row["metric"] == "train/loss":
            steps.setdefault(row["rank"], []).append((row["step"], row["value"]))
    return steps


def test_other_programs_ask_and_tell(job):
    sweep = Sweep(job, "asked", space={"optimizer.lr": {"uniform": [0.01, 1]}}, search={"startup": 3},
                  pruning={"name": "asha", "factor": 2}, budget={"trials": 3})
    sweep.create()
    first = sweep.json("ask")
    assert first["trial"] == 0 and first["overrides"] == [f"optimizer.lr={first['parameters']['optimizer.lr']}"]
    assert sweep.json("tell", 0, "--step", 10, "--value", 0.5) == {"trial": 0, "prune": False, "reason": ""}
    assert sweep.json("tell", 0, "--value", 0.4)["prune"] is False
    assert sweep.json("ask")["trial"] == 1
    assert sweep.json("tell", 1, "--step", 10, "--value", 0.6)["prune"] is True
    assert sweep.json("tell", 1, "--pruned")["trial"] == 1
    assert sweep.json("ask")["trial"] == 2
    assert sweep.json("tell", 2, "--failed", "out of memory")["trial"] == 2
    assert sweep.json("ask") == {"trial": None}  # the budget
    assert [trial["state"] for trial in sweep.trials()] == ["finished", "pruned", "failed"]
    assert sweep.trials()[1]["reason"].startswith("eval/loss 0.6 at evaluation 1 ")
    assert sweep.json("best")[0]["number"] == 0
    refused(sweep.command("tell", 0, "--value", 1), "trial 0 is already finished")
    refused(sweep.command("tell", 7, "--value", 1), "there is no trial 7")


def test_a_trial_that_was_handed_out_is_released(job):
    """Begun again by the next that asks, or by the sweep itself; a trial that is added comes first."""
    sweep = Sweep(job, "released", space=LEARNING_RATE, budget={"trials": 3}, pruning={"name": "asha", "factor": 2})
    sweep.create(["optimizer.lr=0.1"])
    assert sweep.json("ask")["parameters"] == {"optimizer.lr": 0.1}
    first, second = sweep.json("ask"), sweep.json("ask")
    assert [first["trial"], second["trial"], sweep.json("ask")["trial"]] == [1, 2, None]
    sweep.json("tell", 1, "--step", 10, "--value", 0.5)
    refused(sweep.command("tell", 1, "--released", "--pruned"), "expected only one of --step, --pruned, --failed and --released")
    assert sweep.json("tell", 1, "--released")["trial"] == 1
    refused(sweep.command("tell", 1, "--value", 1), "trial 1 is not handed out by ask")
    assert sweep.json("ask") == first
    assert sweep.json("ask") == {"trial": None}
    sweep.json("tell", 0, "--value", 0.5)
    sweep.json("tell", 1, "--value", 0.5)
    assert "evaluations" not in sweep.trials()[1]
    assert sweep.run().code == 0  # the last one is still handed out
    assert [trial["state"] for trial in sweep.trials()] == ["finished", "finished", "open"] and job.list() == []
    sweep.json("tell", 2, "--released")
    assert sweep.run().code == 0
    last = sweep.trials()[2]
    assert last["state"] == "finished" and last["parameters"] == second["parameters"] and last["runs"] == [job.list()[0]["id"]]


def reported(job, name, values, **settings):
    """A sweep with results of another program: the objectives of each trial."""
    space = {"optimizer.lr": {"choice": [10.0**-place for place in range(4)]}}
    sweep = Sweep(job, name, **{"space": space, "search": {"name": "grid"}, **settings})
    sweep.create()
    for trial, results in enumerate(values):
        assert sweep.json("ask")["trial"] == trial
        sweep.json("tell", trial, *(word for value in results for word in ("--value", value)))
    return sweep


TWO = [{"metric": "eval/loss"}, {"metric": "eval/accuracy", "direction": "maximize"}]


def test_two_objectives_have_a_front(job):
    sweep = reported(job, "front", [(0.5, 0.9), (0.2, 0.7), (0.6, 0.8)], objective=TWO)
    assert sweep.json("ask")["trial"] == 3
    best = ["trial 0  finished  eval/loss 0.5  eval/accuracy 0.9  optimizer.lr 1",
            "trial 1  finished  eval/loss 0.2  eval/accuracy 0.7  optimizer.lr 0.1"]
    assert sweep.command("best").out.splitlines() == best
    assert [trial["number"] for trial in sweep.json("show")["best"]] == [0, 1]
    assert sweep.command("show").out.splitlines() == [
        "front: stopped",
        "trial  state     eval/loss  eval/accuracy  optimizer.lr",
        "0      finished  0.5        0.9            1",
        "1      finished  0.2        0.7            0.1",
        "2      finished  0.6        0.8            0.01",
        "3      open      -          -              0.001",
        "sweep front: 4 trials: 3 finished, 1 open",
        *(f"best: {line}" for line in best),
        f"inspect with: lockstep sweep show front --dir {job.runs}",
    ]
    refused(sweep.command("best", "-o", "best.yaml"), "2 trials are best, none in all objectives; choose one with --trial")
    assert sweep.command("best", "--trial", 2, "-o", "best.yaml").out == "trial 2  finished  eval/loss 0.6  eval/accuracy 0.8  optimizer.lr 0.01\n"
    chosen = yaml.safe_load((job.directory / "best.yaml").read_text())
    assert chosen["optimizer"] == {**job.config["optimizer"], "lr": 0.01} and chosen["data"] == job.config["data"]
    refused(sweep.command("best", "--trial", 4), "there is no trial 4")


def test_sweeps_are_listed(job):
    def listed(*options):
        return processes.run([LOCKSTEP, "sweep", "list", "--dir", job.runs, *options], job.directory)

    refused(listed(), f"there is no runs directory at '{job.runs}'")
    job.runs.mkdir()
    assert listed().out == f"no sweeps in '{job.runs}' yet\n"
    reported(job, "first", [(0.5, 0.9), (0.2, 0.7)], objective=TWO).json("ask")
    reported(job, "second", [(0.5,), (0.125,)], budget={"trials": 2})
    Sweep(job, "third", space=LEARNING_RATE, budget={"trials": 2}).create()
    (job.runs / ".sweeps" / "begun").mkdir()  # by a process that is just creating it
    assert listed().out.splitlines() == [
        "name    state    trials              best",
        "third   stopped  -                   -",
        "second  done     2 finished          trial 1  eval/loss 0.125",
        "first   stopped  1 open, 2 finished  2 trials",
    ]
    third, second, _ = json.loads(listed("--json").out)
    assert third["counts"] == {"open": 0, "finished": 0, "pruned": 0, "failed": 0} and third["best"] == []
    assert second["best"][0]["parameters"] == {"optimizer.lr": 0.1} and "trials" not in second
    (job.runs / ".sweeps" / "third" / "sweep.json").write_text("{")
    lines = listed().out.splitlines()
    assert lines[1].startswith("second ") and lines[3].startswith("third   unreadable  -")
    assert "sweep.json" in json.loads(listed("--json").out)[2]["problem"]
    refused(listed("first"), "lockstep sweep list: unexpected argument 'first'")


def test_trials_are_exported_as_json_lines(job):
    sweep = reported(job, "lines", [(0.5,)])
    sweep.json("ask")
    sweep.json("tell", 1, "--failed", "out of memory")
    row = {"by": "ask", "runs": [], "reason": ""}
    expected = [{"trial": 0, "state": "finished", "eval/loss": 0.5, "optimizer.lr": 1.0, **row},
                {"trial": 1, "state": "failed", "eval/loss": None, "optimizer.lr": 0.1, **row, "reason": "out of memory"}]
    assert [json.loads(line) for line in sweep.command("export", "--format", "jsonl").out.splitlines()] == expected
    assert sweep.command("export", "--format", "jsonl", "-o", "trials.jsonl").out == ""
    assert (job.directory / "trials.jsonl").read_text() == sweep.command("export", "--json").out
    refused(sweep.command("export", "--format", "json"), "--format 'json' is unknown; did you mean 'jsonl'?")


def test_a_sweep_ends_when_its_target_is_reached(job):
    accuracy = {"metric": "eval/accuracy", "direction": "maximize"}
    sweep = reported(job, "target", [(0.5,), (0.7,)], objective=accuracy, search={"name": "random"}, budget={"target": 0.6})
    assert sweep.json("ask") == {"trial": None}
    assert sweep.command("ask").out == "no more trials: the budget is used up\n"
    assert sweep.run().code == 0
    shown = sweep.json("show")
    assert shown["state"] == "done" and len(shown["trials"]) == 2 and job.list() == []


def test_no_trial_is_started_after_the_time(job):
    settings = {"space": LEARNING_RATE, "search": {"name": "random"}}
    sweep = Sweep(job, "time", **settings, budget={"time": "1 ms", "trials": 2})
    ended = sweep.run()
    assert ended.code == 0 and ended.err == "", ended.err
    shown = sweep.json("show")
    assert shown["state"] == "stopped" and len(shown["trials"]) <= 1  # none, if the process was slow
    Sweep(job, "time", **settings, budget={"time": "10 h", "trials": 2})
    assert sweep.run().code == 0
    assert sweep.json("show")["counts"]["finished"] == 2


def test_the_last_or_the_best_value_of_a_run_counts(job):
    with lockstep.init(name="curve", dir=job.runs, agent=False, config={"optimizer": {"lr": 0.1}}) as run:
        for step, (loss, accuracy) in enumerate([(3, 0.5), (1, 0.7), (2, 0.6)]):
            run.log({"eval/loss": loss, "eval/accuracy": accuracy}, step=step)
    for name, expected in ("last", [2, 0.6]), ("best", [1, 0.7]):
        objectives = [{**objective, "value": name} for objective in TWO]
        sweep = Sweep(job, name, space=LEARNING_RATE, objective=objectives, budget={"trials": 1})
        sweep.create()
        added = sweep.json("add", "--run", run.id)
        assert added["values"] == expected and added["parameters"] == {"optimizer.lr": 0.1}


def test_two_controllers_are_refused_and_a_stopped_sweep_leaves_its_trial_open(job):
    sweep = Sweep(job, "long", space=LEARNING_RATE, budget={"trials": 1},
                  overrides=["train.epochs=1000000", "train.eval_every=1000000 epochs", "checkpoint.every=1000000 epochs"])
    started = sweep.start()
    wait_until(lambda: started.poll() is not None or list(job.runs.glob("*/run.json")), TIMEOUT_S, "the first trial")
    refused(sweep.run(), "already run by another process")
    assert sweep.json("show")["state"] == "running"
    assert sweep.json("stop")["stop"] == "requested"
    ended = processes.finish(started)
    assert ended.code == 0, ended.err
    shown = sweep.json("show")
    assert shown["state"] == "stopped" and shown["counts"]["open"] == 1
    assert job.list()[0]["state"] == "preempted"
    refused(sweep.command("stop"), "is not running")


def test_trials_at_the_same_time_divide_the_cores(job):
    sweep = Sweep(job, "both", space=LEARNING_RATE, budget={"trials": 2},
                  overrides=["train.epochs=1000000", "train.eval_every=1000000 epochs", "checkpoint.every=1000000 epochs"])
    started = processes.start([LOCKSTEP, "sweep", sweep.file, "--parallel", 2], job.directory, processes.environment(OMP_NUM_THREADS=None))
    wait_until(lambda: started.poll() is not None or len(list(job.runs.glob("*/run.json"))) == 2, TIMEOUT_S, "two trials")
    launchers = [pid for pid, line in processes.find(sweep.dir).items() if " launch " in line]
    threads = [processes.variables_of(pid).get("OMP_NUM_THREADS") for pid in launchers]
    shell = [LOCKSTEP, "launch", "-n", "cpu", "--program", "/bin/sh", "--", "-c", "echo $WORLD_SIZE"]
    cores = int(processes.run(shell, job.directory).out.split()[-1])
    assert threads == [str(max(1, cores // 2))] * 2
    assert sweep.json("stop")["stop"] == "requested"
    assert processes.finish(started).code == 0


def test_several_processes_run_one_sweep_together(job):
    """Each trial once, although one of them is killed: the others continue its trial."""
    points = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3]
    sweep = Sweep(job, "together", space={"optimizer.lr": {"choice": points}}, search={"name": "grid"}, budget={"trials": 6})
    started = [sweep.start("--join") for _ in range(3)]
    wait_until(lambda: any(process.poll() is not None for process in started) or len(list(job.runs.glob("*/run.json"))) >= 2,
               TIMEOUT_S, "two trials")
    os.killpg(started[0].pid, signal.SIGKILL)
    for process in started[1:]:
        ended = processes.finish(process)
        assert ended.code == 0, ended.err
    started[0].communicate(timeout=TIMEOUT_S)
    shown = sweep.json("show")
    assert shown["state"] == "done" and shown["counts"]["finished"] == 6
    assert sorted(trial["parameters"]["optimizer.lr"] for trial in shown["trials"]) == points
    runs = {run["id"]: run for run in job.list()}
    assert sorted(runs) == sorted(trial["runs"][0] for trial in shown["trials"])
    assert all(run["state"] == "finished" for run in runs.values())


def test_a_sweep_that_is_run_by_one_process_is_not_joined(job):
    sweep = Sweep(job, "alone", space=LEARNING_RATE, budget={"trials": 1},
                  overrides=["train.epochs=1000000", "train.eval_every=1000000 epochs", "checkpoint.every=1000000 epochs"])
    for options, other, text in (["--join"], [], "already run by another process"), ([], ["--join"], "started without --join"):
        started = sweep.start(*options)
        wait_until(lambda: started.poll() is not None or '"state": "running"' in sweep.command("show", "--json").out, TIMEOUT_S, "the sweep")
        refused(sweep.run(*other), text)
        assert sweep.json("stop")["stop"] == "requested"
        assert processes.finish(started).code == 0


def test_failing_trials_are_counted_and_shown_and_end_the_sweep(job):
    space = {"data.batch_size": {"choice": [48, 47, 49]}}  # only 48 is divisible by 2
    sweep = Sweep(job, "failing", space=space, search={"name": "grid"}, budget={"failures": 2})
    ended = sweep.run("-n", "2")
    refused(ended, "2 trials in a row failed; the last, 2: ")
    assert [trial["state"] for trial in sweep.trials()] == ["finished", "failed", "failed"]
    assert "47" in sweep.trials()[1]["reason"]
    assert sweep.run("-n", "2").code == 0  # nothing is tried again
    assert len(sweep.trials()) == 3


def test_a_trial_that_cannot_be_continued_says_why(job):
    """Not how its run ended the last time."""
    data = job.directory / "data"
    data.symlink_to(MNIST)
    for part in ("train", "eval"):
        job.config["data"][part]["path"] = str(data)
    sweep = Sweep(job, "gone", space={"train.max_steps": {"choice": [1000000]}}, budget={"trials": 1},
                  overrides=["train.epochs=1000000", "checkpoint.every=4 steps"])
    started = sweep.start()
    wait_until(lambda: list(job.runs.glob("*/checkpoints/[0-9]*")), TIMEOUT_S, "a checkpoint")
    os.kill(started.pid, signal.SIGTERM)
    assert processes.finish(started).code == 128 + signal.SIGTERM
    data.unlink()
    refused(sweep.run(), "all trials failed; the last, 0: ")
    assert f"no file {data}" in sweep.trials()[0]["reason"]


def test_a_sweep_without_a_result_fails(job):
    sweep = Sweep(job, "typo", space=LEARNING_RATE, budget={"trials": 2}, overrides=["train.epoch=1"])
    refused(sweep.run(), "all trials failed; the last, 1: ")
    assert "train.epoch: unknown key; did you mean 'epochs'?" in sweep.trials()[1]["reason"]
    refused(sweep.run(), "all trials failed; the last, 1: ")  # nothing is tried again
    assert len(sweep.trials()) == 2


def test_the_recipe(job):
    """With less data and fewer trials."""
    recipe = yaml.safe_load((SOURCE / "configs" / "sweep_mnist.yaml").read_text())
    recipe["run"] = str(SOURCE / "configs" / recipe["run"])
    recipe["budget"]["trials"] = 2
    mnist = SOURCE / ".data" / "mnist"
    recipe["overrides"] += [f"run.dir={job.runs}", "train.max_steps=2", "data.train.limit=512", "data.eval.limit=100",
                            f"data.train.path={mnist}", f"data.eval.path={mnist}", "distributed.device=cpu"]
    job.file.with_name("recipe.yaml").write_text(yaml.safe_dump(recipe))
    ended = processes.run([LOCKSTEP, "sweep", "recipe.yaml", "-n", 2], job.directory)
    assert ended.code == 0, ended.err
    assert len(job.list()) == 2


BAD = [
    ({"objective": {"metric": "eval/lss"}}, "no trial logs 'eval/lss'; did you mean 'eval/loss'?"),
    ({"space": {"optimizer.lrr": {"uniform": [0, 1]}}}, "no key 'optimizer.lrr'; did you mean 'lr'?"),
    ({"space": {"optimizer.lr": {"uniform": [-1, 1]}}}, "cannot have the value -1"),
    ({"space": {"optimizer.lr": {"uniform": [0, 1], "when": {"model.name": "mlp"}}}}, "'model.name' is not in the space"),
    ({"run": "missing.yaml"}, "missing.yaml"),
    ({"budget": {"trails": 2}}, "did you mean 'trials'?"),
    ({"model": {"name": "mlp"}}, "bad.yaml: is a run file, not a sweep file, which has `run: bad.yaml`"),
]


@pytest.mark.parametrize("settings, text", BAD, ids=[text[:24] for _, text in BAD])
def test_bad_input(job, settings, text):
    sweep = Sweep(job, "bad", **{"space": {"optimizer.lr": {"uniform": [0.1, 1]}}, "budget": {"trials": 5}, **settings})
    ended = sweep.run()
    refused(ended, text)
    assert len(ended.err.splitlines()) == 1
    assert len(list(job.runs.glob("*/run.json"))) <= 1  # said after the first trial, not after the last


@pytest.mark.parametrize("options, text", [
    (["--max-restart", 1], "unknown option '--max-restart'; did you mean '--max-restarts'?"),
    (["-n", 2], "give -n before --"),
    (["--resume", "e2e-1"], "after --, expected options that say how `lockstep launch` starts the ranks"),
    (["optimizer.lr=1"], "after --, expected options that say how `lockstep launch` starts the ranks"),
    (["--nnodes", 2], "--standalone runs on one node, but --nnodes is 2"),
    (["--hostfile", "missing"], "--hostfile missing: there is no such file"),
])
def test_wrong_options_of_launch_are_refused_before_a_trial(job, options, text):
    sweep = Sweep(job, "wrong", space=LEARNING_RATE, budget={"trials": 1})
    refused(sweep.run("--", *options), text)
    assert not sweep.dir.exists()


def test_a_trial_is_started_with_the_options_of_launch(job):
    """In a step of a Slurm job, each of whose nodes runs trials, too: on this node only."""
    sweep = Sweep(job, "logged", space=LEARNING_RATE, budget={"trials": 1})
    step = {"JOB_ID": 7, "STEP_ID": 0, "PROCID": 0, "NODEID": 0, "STEP_NUM_NODES": 2, "STEP_NUM_TASKS": 2,
            "STEP_TASKS_PER_NODE": "1(x2)", "STEP_NODELIST": "n[1-2]"}
    env = processes.environment(**{f"SLURM_{name}": value for name, value in step.items()})
    ended = processes.run([LOCKSTEP, "sweep", sweep.file, "--", "--log-dir", "elsewhere"], job.directory, env)
    assert (ended.code, ended.err) == (0, ""), ended.err
    assert list((job.directory / "elsewhere").rglob("stdout.log"))
    (run,) = job.list()
    assert (run["state"], run["world_size"]) == ("finished", 1)
