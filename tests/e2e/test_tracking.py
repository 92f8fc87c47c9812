"""Recording of runs and delivery to sinks: rank policies, sinks, agents and dead ranks."""

import csv
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import processes
from conftest import long
from processes import LOCKSTEP, SOURCE, TIMEOUT_S, TRAINER, wait_until

sys.path.insert(0, str(SOURCE / "tests" / "tracking" / "mlflow"))
from receiver import Receiver  # noqa: E402


def sync(job, *arguments, code=0):
    ended = processes.run([LOCKSTEP, "sync", *arguments, "--dir", job.runs], job.directory)
    assert ended.code == code, ended.err
    return ended


def agents_of(run_dir):
    """Process ids of the tracking agents of a run."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"track" in words and str(run_dir).encode() in words:
                found.append(int(entry.name))
    return found


def jsonl_records(run_dir, entry):
    lines = (run_dir / "sinks" / "jsonl" / entry / "records.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def logged(job, entry):
    """{(metric, step): value} of the event log of an entry, without system metrics."""
    rows = [row for row in job.export(entry) if not row["metric"].startswith("system/")]
    values = {(row["metric"], row["step"]): row["value"] for row in rows}
    assert len(values) == len(rows), "a step is duplicated"
    return values


def of_jsonl(run_dir, entry):
    values = {}
    for record in jsonl_records(run_dir, entry):
        if record["type"] != "scalars":
            continue
        for name, value in record["values"].items():
            if not name.startswith("system/"):
                assert (name, record["step"]) not in values, "a step is duplicated"
                values[name, record["step"]] = value
    return values


def of_csv(run_dir, entry):
    values = {}
    with open(run_dir / "sinks" / "csv" / entry / "metrics.csv", newline="") as file:
        for row in csv.DictReader(file):
            if not row["metric"].startswith("system/"):
                values[row["metric"], int(row["step"])] = float(row["value"])
    return values


def of_tensorboard(run_dir, entry):
    events = EventAccumulator(str(run_dir / "tensorboard" / entry), size_guidance={"scalars": 0})
    events.Reload()
    values = {}
    for tag in events.Tags()["scalars"]:
        if not tag.startswith(("system/", "summary/")):
            for event in events.Scalars(tag):
                values[tag, event.step] = event.value
    return values


def use_file_sinks(job, ranks="main", **tracking):
    job.config["tracking"] = {"ranks": ranks, "sinks": ["console", "csv", "jsonl", "tensorboard"], "system_every": "1 s",
                              "finish_timeout": "60 s", **tracking}
    job.config["train"]["log_every"] = "3 steps"
    job.write()


POLICIES = {
    "main": ("main", {0}),
    "node": ("node", {0}),
    "all": ("all", {0, 1, 2, 3}),
    "list": ([1, 3], {1, 3}),
}


@pytest.mark.parametrize("policy", POLICIES)
def test_each_policy_is_delivered_exactly_once_to_every_sink(job, policy):
    ranks, logging = POLICIES[policy]
    use_file_sinks(job, ranks)
    run_dir = job.train(ranks=4)
    entries = {run["rank"]: run for run in job.list()}
    assert set(entries) == logging
    for rank, run in entries.items():
        assert run["state"] == "finished"
        assert run["name"] == ("e2e" if policy == "main" else f"e2e-rank-{rank}")
        assert run["group"] == (None if policy == "main" else run_dir.name)
        expected = logged(job, run["id"])
        assert {name for name, _ in expected} >= {"train/loss", "eval/accuracy"}
        assert of_jsonl(run_dir, run["id"]) == expected
        assert of_csv(run_dir, run["id"]) == expected
        assert of_tensorboard(run_dir, run["id"]) == pytest.approx(expected, rel=1e-6)
    # The lowest logging rank of a node has its system metrics, which count the processes of all ranks.
    with_system = [rank for rank, run in entries.items() if "system/memory.percent" in run["summary"]]
    assert with_system == [min(logging)]
    samples = [record for record in jsonl_records(run_dir, entries[min(logging)]["id"])
               if "system/processes.count" in record.get("values", {})]
    assert max(record["values"]["system/processes.count"] for record in samples) >= 4
    assert not agents_of(run_dir)


@pytest.mark.parametrize("ranks", ["main", "all"])
def test_every_gpu_of_a_node_is_reported_once(job, ranks):
    """By the lowest logging rank, whichever ranks use the GPUs; a test library replaces NVIDIA's."""
    use_file_sinks(job, ranks)
    run_dir = job.train(ranks=2, env=processes.environment(LD_LIBRARY_PATH=processes.BIN.parent / "tests/bin/fake_nvml"))
    entries = {run["rank"]: run for run in job.list()}
    for rank, run in entries.items():
        gpus = {name for name in run["summary"] if name.startswith("system/gpu.")}
        assert {name.split(".")[1] for name in gpus} == ({"0", "1"} if rank == 0 else set())
    assert entries[0]["summary"]["system/gpu.1.utilization"] == 38
    samples = [record["values"] for record in jsonl_records(run_dir, entries[0]["id"])
               if record["type"] == "scalars" and "system/memory.percent" in record["values"]]
    # Sampling does not wait for GPUs that respond slowly (docs/system_metrics.md): a sample has all of them or none.
    of_gpus = [{name for name in values if name.startswith("system/gpu.")} for values in samples]
    assert {"system/gpu.0.utilization", "system/gpu.1.utilization"} <= set().union(*of_gpus)
    assert all(names in (set(), set().union(*of_gpus)) for names in of_gpus)


def test_shared_run_has_every_rank_in_one_entry(job):
    use_file_sinks(job, "all", shared=True)
    run_dir = job.train(ranks=4)
    expected = {(f"{name}/rank-{entry['rank']}", step): value for entry in job.list()
                for (name, step), value in logged(job, entry["id"]).items()}
    assert {name for name, _ in expected} >= {f"train/loss/rank-{rank}" for rank in range(4)}
    for sink in ("jsonl", "csv"):
        assert [path.name for path in (run_dir / "sinks" / sink).iterdir()] == [run_dir.name]
    assert of_jsonl(run_dir, run_dir.name) == expected
    assert of_csv(run_dir, run_dir.name) == expected
    assert of_tensorboard(run_dir, run_dir.name) == pytest.approx(expected, rel=1e-6)


def scraped_losses(run_dir):
    """{(run, rank): the training loss that a Prometheus server would scrape now}; empty if there is no endpoint yet."""
    endpoints = list(run_dir.glob("sinks/prometheus/*/endpoint"))
    if not endpoints:
        return {}
    with urllib.request.urlopen(endpoints[0].read_text().strip(), timeout=TIMEOUT_S) as response:
        lines = response.read().decode().splitlines()
    losses = {}
    for line in lines:
        if line.startswith("lockstep_train_loss{"):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            series = labels["run"], int(labels["rank"])
            assert series not in losses, "a series is duplicated"
            losses[series] = float(line.rpartition(" ")[2])
    return losses


@pytest.mark.parametrize("policy", [policy if policy in ("node", "shared") else long(policy) for policy in [*POLICIES, "shared"]])
def test_prometheus_has_the_latest_values_of_every_logging_rank(job, policy):
    ranks, logging = POLICIES["all" if policy == "shared" else policy]
    use_file_sinks(job, ranks, shared=policy == "shared", sinks=[{"name": "prometheus", "port": 0}])
    job.config["train"]["epochs"] = 100_000
    job.write()
    started = job.start(ranks=4)
    run_dir = wait_until(lambda: next(job.runs.glob("*"), None), TIMEOUT_S, "the run")

    def of_all_ranks():
        found = scraped_losses(run_dir)
        return found if len(found) == len(logging) else None

    losses = wait_until(of_all_ranks, TIMEOUT_S, "a series of every rank")
    job.query("stop", run_dir.name)
    assert processes.finish(started).code == 0
    runs = {run["rank"]: run["id"] for run in job.list()}
    assert set(losses) == {(run_dir.name if policy == "shared" else runs[rank], rank) for rank in logging}
    for (_, rank), loss in losses.items():
        losses = [value for (name, _), value in logged(job, runs[rank]).items() if name == "train/loss"]
        assert any(loss == pytest.approx(value, rel=1e-6) for value in losses)


def test_sync_sends_to_a_new_sink_only_once(job):
    run_dir = job.train(ranks=2)
    assert not (run_dir / "sinks" / "jsonl").exists()
    for _ in range(3):
        assert "jsonl: complete" in sync(job, run_dir.name, "--sink", "jsonl").out
        assert of_jsonl(run_dir, run_dir.name) == logged(job, run_dir.name)
    records = jsonl_records(run_dir, run_dir.name)
    assert [record["type"] for record in records].count("end") == 1


def rows_of(path):
    """The rows of a CSV file, sorted: an agent interleaves the logs of ranks and nodes, `sync` writes one after another."""
    return sorted(path.read_bytes().splitlines())


def test_sync_tracks_each_destination(job):
    use_file_sinks(job)
    run_dir = job.train()
    own = run_dir / "sinks" / "csv" / run_dir.name / "metrics.csv"
    content = own.read_bytes()
    rows = rows_of(own)
    board = job.directory / "board"
    for _ in range(2):  # the second one has nothing to send
        for number in range(2):
            target = job.directory / f"out-{number}.csv"
            assert "csv: complete" in sync(job, run_dir, "--sink", f"{{name: csv, path: {target}}}").out
            assert rows_of(target) == rows
        sync(job, run_dir, "--sink", f"{{name: tensorboard, dir: {board}}}")
        assert len(list(board.rglob("events.out.*"))) == 1
        assert own.read_bytes() == content
    for path in (own, target):
        path.unlink()
    sync(job, run_dir)
    sync(job, run_dir, "--sink", f"{{name: csv, path: {target}}}")
    assert rows_of(own) == rows and rows_of(target) == rows


@pytest.mark.parametrize("words, text", [
    (["--sink", "csvv"], "lockstep sync: --sink[0].name: unknown sink 'csvv'; did you mean 'csv'? valid: "),
    (["--sink", "csv", "--sink", "{name: jsonl, pat: x}"], "lockstep sync: --sink[1].pat: unknown key; did you mean 'path'?"),
    (["--sink", "{name: csv"], "lockstep sync: --sink {name: csv: not valid YAML; expected a name, or as in a run file: "),
    (["--timeout", "soon"], "lockstep sync: --timeout: expected a duration such as '30 s'"),
    (["--sinks", "csv"], "lockstep sync: unknown option '--sinks'; did you mean '--sink'?"),
    (["csv"], "lockstep sync: unexpected argument 'csv'"),
])
def test_sync_with_invalid_arguments(tmp_path, words, text):
    shutil.copytree(SOURCE / "tests" / "golden" / "0.1-run", tmp_path / "runs")
    (run,) = (path.name for path in (tmp_path / "runs").iterdir() if path.is_dir())
    ended = processes.run([LOCKSTEP, "sync", run, *words], tmp_path)
    assert ended.code == 78 and ended.err.count("\n") == 1 and ended.err.startswith(f"lockstep: error: {text}"), ended.err


def test_sync_to_a_sink_of_lockstep_needs_no_plugin_of_the_run(tmp_path):
    shutil.copytree(SOURCE / "tests" / "golden" / "0.1-run", tmp_path / "runs")
    (run,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    text = (run / "config.yaml").read_text()
    with_plugin = text.replace('"1 s"}]\n  plugins: []', '"1 s"}, csv, {name: mine}]\n  plugins: [build/mine.so]')
    assert text != with_plugin
    (run / "config.yaml").write_text(with_plugin)
    ended = processes.run([LOCKSTEP, "sync", run.name, "--sink", "csv", "--sink", "{name: jsonl}"], tmp_path)
    assert ended.code == 0 and ended.out == "csv: complete\njsonl: complete\n", ended.err
    for words in ([], ["--sink", "mine"], ["--sink", "csv", "--sink", "mine"]):
        ended = processes.run([LOCKSTEP, "sync", run.name, *words], tmp_path)
        assert ended.code == 78 and "plugin build/mine.so: no such file" in ended.err, ended.err


def test_sync_without_permission_does_not_wait():
    with tempfile.TemporaryDirectory(prefix="lockstep-sync-") as directory:
        run_dir = pathlib.Path(directory, "runs", "old")
        shutil.copytree(next((SOURCE / "tests" / "golden" / "0.1-run").glob("*/events")), run_dir / "events")
        for path in (directory, run_dir.parent, run_dir, run_dir / "events"):
            os.chmod(path, 0o555)
        unprivileged = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        ended = processes.run([*unprivileged, LOCKSTEP, "sync", run_dir, "--sink", "csv", "--timeout", "1 h"], directory)
        for path in (directory, run_dir.parent, run_dir, run_dir / "events"):
            os.chmod(path, 0o755)
    problem = f"lockstep: error: csv is not complete: cannot create directory {run_dir}/sinks: Permission denied\n"
    assert (ended.code, ended.err) == (75, problem)


def test_embedded_run_is_synced_without_config_file(job):
    run_dir = job.train(ranks=2)
    (run_dir / "config.yaml").unlink()
    (run_dir / "run.json").unlink()
    assert "jsonl: complete" in sync(job, run_dir, "--sink", "jsonl").out
    assert of_jsonl(run_dir, run_dir.name) == logged(job, run_dir.name)
    assert "the run has no sinks; name one with --sink" in sync(job, run_dir, code=78).err


def test_job_with_several_entries_reports_its_end_once(job):
    receiver = Receiver()
    use_file_sinks(job, "all", sinks=["console", {"name": "webhook", "events": ["end"]}])
    with receiver:
        job.train(ranks=2, env=processes.environment(LOCKSTEP_WEBHOOK_URL=receiver.url))
    assert [(body["event"], body["run"]["rank"], body["text"]) for *_, body in receiver.received] == [("end", 0, "e2e: finished")]


def test_deleted_run_directory_is_reported_immediately(job):
    job.config["train"].update(epochs=100_000, eval_every="1000000 epochs")
    job.config["checkpoint"] = {"every": "1000000 epochs"}  # writing one into the deleted directory would fail
    job.write()
    with open(job.directory / "out", "w+") as out:
        started = job.start(ranks=2, stdout=out)
        run_dir = wait_until(lambda: next(job.runs.glob("*/run.json"), None), TIMEOUT_S, "the run").parent
        wait_until(lambda: "step" in (job.directory / "out").read_text(), TIMEOUT_S, "a step")
        shutil.rmtree(run_dir, ignore_errors=True)
        warning = f"the event log of this run ({run_dir}/events/rank-00000.lsev) was deleted during the run"
        wait_until(lambda: f"{warning}; training continues" in (job.directory / "out").read_text(), TIMEOUT_S, "a warning")
        run_dir.mkdir(exist_ok=True)
        (run_dir / "stop_request.json").write_text('{"time": 1, "reason": "test"}')
        ended = processes.finish(started)
        printed = (job.directory / "out").read_text()
    assert ended.code == 75
    assert f"{warning}; the last checkpoint is {run_dir}/checkpoints/" in ended.err
    assert "runs show" not in printed and "runs show" not in ended.err
    assert "done" not in printed


def test_sink_that_stopped_is_named_during_the_run(job):
    job.config["tracking"] = {"sinks": ["console", "webhook"]}
    job.config["train"]["epochs"] = 100_000
    job.write()
    printed = job.directory / "out"
    with open(printed, "w") as out:
        started = job.start(ranks=2, stdout=out)
        wait_until(lambda: "warning: sink webhook stopped: " in printed.read_text(), TIMEOUT_S, "a warning")
        job.query("stop", job.only_run().name)
        ended = processes.finish(started)
    assert ended.code == 0, ended.err
    assert "no url configured; set url or the environment variable LOCKSTEP_WEBHOOK_URL; training continues" in printed.read_text()


def test_run_without_an_agent_is_completed_by_sync(job):
    use_file_sinks(job, agent=False)
    run_dir = job.train()
    assert not (run_dir / "sinks").exists()
    sync(job, run_dir.name)
    expected = logged(job, run_dir.name)
    assert of_jsonl(run_dir, run_dir.name) == expected
    assert of_csv(run_dir, run_dir.name) == expected


def test_program_elsewhere_finds_the_agent_by_its_launcher_or_on_the_path(job):
    """A program with trainer_main() has no `lockstep` next to it."""
    use_file_sinks(job)
    program = job.directory / "program"
    shutil.copy(TRAINER, program)
    for command, path in (([LOCKSTEP, "launch", "-n", "1", "--program", program], "/usr/bin:/bin"),
                          ([program], f"{pathlib.Path(LOCKSTEP).parent}:/usr/bin:/bin")):
        ended = processes.run([*command, job.file], job.directory, env=processes.environment(PATH=path))
        assert ended.code == 0 and "not fed" not in ended.out, ended.err
        run_dir = job.only_run()
        assert of_csv(run_dir, run_dir.name) == logged(job, run_dir.name)
        shutil.rmtree(job.runs)
    ended = processes.run([program, job.file], job.directory, env=processes.environment(PATH="/usr/bin:/bin"))
    assert ended.code == 0, ended.err
    assert "warning: tracking.sinks: not fed during the run, because the program 'lockstep' was not found: " in ended.out
    assert f"; feed them afterwards with: lockstep sync {job.only_run()}\n" in ended.out


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_dead_or_stopped_agent_loses_nothing(job, how):
    """A killed agent is restarted; a stopped one is abandoned after finish_timeout. Nothing is lost or duplicated."""
    use_file_sinks(job, finish_timeout="2 s", alerts={"conditions": ["train/loss < 100"]})
    job.config["train"]["epochs"] = 100_000
    job.write()
    started = job.start(ranks=2)
    [agent] = wait_until(lambda: next(filter(None, map(agents_of, job.runs.glob("*"))), None), TIMEOUT_S, "the agent")
    run_dir = next(job.runs.iterdir())
    wait_until(lambda: (run_dir / "sinks/jsonl" / run_dir.name / "position.json").exists(), TIMEOUT_S, "a delivery")
    os.kill(agent, how)
    job.query("stop", run_dir.name)
    ended = processes.finish(started)
    assert ended.code == 0, ended.err
    if how == signal.SIGSTOP:
        os.kill(agent, signal.SIGKILL)
    wait_until(lambda: not agents_of(run_dir), TIMEOUT_S, "the agent's end")
    if how == signal.SIGSTOP:
        sync(job, run_dir.name)
    expected = logged(job, run_dir.name)
    assert of_jsonl(run_dir, run_dir.name) == expected
    assert of_csv(run_dir, run_dir.name) == expected
    texts = [json.dumps(record) for record in jsonl_records(run_dir, run_dir.name) if record["type"] == "alert"]
    assert len([text for text in texts if "train/loss < 100" in text]) == 1, texts


def test_killed_rank_is_reported_to_every_sink(job):
    use_file_sinks(job, "all")
    job.config["train"]["epochs"] = 100_000
    job.write()
    started = job.start(ranks=2)
    log = wait_until(lambda: next(job.runs.glob("*/events/rank-00001.lsev"), None), TIMEOUT_S, "the run")
    run_dir = log.parent.parent
    victim = wait_until(lambda: processes.ranks_of(job.directory).get(1), TIMEOUT_S, "rank 1")
    wait_until(lambda: (run_dir / f"sinks/jsonl/{run_dir.name}-rank-1/position.json").exists(), TIMEOUT_S, "a delivery")
    os.kill(victim, signal.SIGKILL)
    ended = processes.finish(started)
    assert ended.code != 0
    for rank in (0, 1):
        end = [record for record in jsonl_records(run_dir, f"{run_dir.name}-rank-{rank}") if record["type"] == "end"]
        assert len(end) == 1
        assert (end[0]["state"], end[0]["signal"], end[0]["rank"]) == ("killed", 9, 1)
    assert {run["state"] for run in job.list()} == {"killed"}
    # The launcher waits for their locks, which they release a moment before they exit.
    wait_until(lambda: not agents_of(run_dir), TIMEOUT_S, "the agents' end")


def test_trainer_killed_without_a_launcher_is_recorded_by_its_agent(job):
    use_file_sinks(job)
    job.config["train"]["epochs"] = 100_000
    job.write()
    started = job.start()
    position = wait_until(lambda: next(job.runs.glob("*/sinks/jsonl/*/position.json"), None), TIMEOUT_S, "a delivery")
    run_dir = position.parents[3]
    started.kill()
    processes.finish(started)
    wait_until(lambda: not agents_of(run_dir), TIMEOUT_S, "the agent's end")
    [run] = job.list()
    assert run["state"] == "killed"
    end = [record for record in jsonl_records(run_dir, run["id"]) if record["type"] == "end"]
    assert [record["state"] for record in end] == ["killed"]
    assert of_jsonl(run_dir, run["id"]) == logged(job, run["id"])


def test_resumed_run_has_each_step_once(job):
    use_file_sinks(job)
    job.config["train"]["epochs"] = 2
    job.write()
    run_dir = job.train("train.max_steps=21")
    ended = job.run(options=["--resume", run_dir.name])
    assert ended.code == 0, ended.err
    expected = logged(job, run_dir.name)
    assert max(step for _, step in expected) == 42
    assert of_jsonl(run_dir, run_dir.name) == expected
    assert of_csv(run_dir, run_dir.name) == expected
    assert of_tensorboard(run_dir, run_dir.name) == pytest.approx(expected, rel=1e-6)


def test_second_job_with_the_same_run_id_is_rejected(job):
    job.config["train"]["epochs"] = 100_000
    job.write()
    first = job.start(ranks=2, options=["--run-id", "mine"])
    wait_until(lambda: (job.runs / "mine/events/rank-00000.lsev").exists() and job.series("mine", "train/loss"), TIMEOUT_S, "the first job")
    before = {name: (job.runs / "mine" / name).read_bytes() for name in ("run.json", "config.yaml")}
    for second in (job.run("optimizer.lr=0.5", ranks=2, options=["--run-id", "mine"]), job.run("optimizer.lr=0.5", options=["--resume", "mine"])):
        assert second.code in (75, 78)
        assert "mine" in second.err and ("being written by another job" in second.err or "no checkpoint" in second.err)
    assert {name: (job.runs / "mine" / name).read_bytes() for name in before} == before
    assert [run["state"] for run in job.list()] == ["running"]
    first.terminate()
    assert processes.finish(first).code == 143
    assert [(run["id"], run["state"]) for run in job.list()] == [("mine", "preempted")]


def test_alert_reaches_the_sinks(job):
    use_file_sinks(job, alerts={"conditions": ["eval/accuracy < 2"]})
    run_dir = job.train()
    alerts = [record for record in jsonl_records(run_dir, run_dir.name) if record["type"] == "alert"]
    assert len(alerts) == 1 and "eval/accuracy" in json.dumps(alerts[0])


def test_checkpoint_is_published_as_an_artifact_after_the_barrier(job):
    use_file_sinks(job, checkpoints="all")
    job.config["train"]["epochs"] = 2
    job.write()
    run_dir = job.train(ranks=2)
    uses = [record for record in jsonl_records(run_dir, run_dir.name) if record["type"] == "artifact"]
    assert [(use["name"], use["version"]) for use in uses] == [("e2e-model", 1), ("e2e-model", 2)]
    got = job.directory / "got"
    ended = processes.run([LOCKSTEP, "artifacts", "get", "e2e-model:best", "-o", got, "--dir", job.runs], job.directory)
    assert ended.code == 0, ended.err
    shown = processes.run([LOCKSTEP, "artifacts", "show", "e2e-model:best", "--json", "--dir", job.runs], job.directory)
    artifact = json.loads(shown.out)
    assert artifact["made_by"] == run_dir.name
    step = artifact["metadata"]["step"]
    assert (got / "model.safetensors").read_bytes() == (run_dir / f"checkpoints/{step}/model.safetensors").read_bytes()


def test_output_of_ranks_is_recorded_with_their_entry(job):
    use_file_sinks(job, "all")
    job.config["train"]["epochs"] = 10
    job.write()
    run_dir = job.train(ranks=2, options=["--tee", "3"])
    for rank in (0, 1):
        lines = [record for record in jsonl_records(run_dir, f"{run_dir.name}-rank-{rank}") if record["type"] == "console"]
        assert {line["rank"] for line in lines} <= {rank}
        printed = (run_dir / f"logs/attempt_0/{rank}/stdout.log").read_text().splitlines()
        assert [line["line"] for line in lines] == printed[: len(lines)]
        assert bool(lines) == (rank == 0)


@pytest.mark.parametrize("sinks, words", [
    ("[tensorbord]", ["unknown sink 'tensorbord'", "did you mean 'tensorboard'?"]),
    ("[{name: csv, pth: x}]", ["tracking.sinks[0].pth", "path"]),
    ("[csv, csv]", ["'csv' is listed twice"]),
    ("csv", ["tracking.sinks", "expected a list"]),
])
def test_invalid_sinks_are_reported_in_one_line(job, sinks, words):
    ended = job.run(f"tracking.sinks={sinks}")
    assert ended.code == 78
    assert all(word in ended.err for word in words), ended.err
    assert not job.runs.exists()


def test_the_trainer_records_its_code_and_the_version_of_libtorch(job):
    job.write()
    for words in (["init", "-q"], ["add", "run.yaml"], ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "one"]):
        subprocess.run(["git", *words], cwd=job.directory, check=True)
    with open(job.file, "a") as file:
        file.write("# changed\n")
    run_dir = job.train("train.max_steps=2", ranks=2)
    wait_until(lambda: not agents_of(run_dir), TIMEOUT_S, "the agent exits")
    ended = processes.run([LOCKSTEP, "runs", "show", run_dir.name, "--diff", "--dir", job.runs], job.directory)
    assert (ended.code, ended.out) == (0, subprocess.run(["git", "diff", "HEAD"], cwd=job.directory, capture_output=True, text=True).stdout)
    assert "+# changed" in ended.out
    assert json.loads((run_dir / "software.json").read_text())["libtorch"].startswith("2.")
    run_dir = job.train("train.max_steps=2", "run.name=off", "tracking.git_diff=false", ranks=2)
    wait_until(lambda: not agents_of(run_dir), TIMEOUT_S, "the agent exits")
    assert not (run_dir / "code.json").exists()
