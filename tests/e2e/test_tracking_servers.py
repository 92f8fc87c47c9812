"""Four ranks, each policy, into Weights & Biases' own uploader, a real MLflow server and a real OpenTelemetry collector: complete, without
duplicates, and in the right groups."""

import json
import os
import sys
from fractions import Fraction

import pytest

import processes
from conftest import long
from processes import LOCKSTEP, SOURCE

for part in ("mlflow", "otlp", "wandb"):
    sys.path.insert(0, str(SOURCE / "tests" / "tracking" / part))
import mlflow_server  # noqa: E402
from otel_collector import Collector  # noqa: E402
from otlp_receiver import OtlpReceiver  # noqa: E402
from wandb_server import EVENTS, KEY, WandbServer  # noqa: E402


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory):
    with mlflow_server.mlflow_server(tmp_path_factory.mktemp("mlflow")) as address:
        yield address


@pytest.fixture
def wandb():
    with WandbServer() as server:
        yield server


def with_tools(**changes):
    """The environment of a user who has the W&B client installed and is logged in."""
    path = os.pathsep.join([str(SOURCE / ".venv" / "bin"), os.environ["PATH"]])
    return processes.environment(PATH=path, **changes)


def values_of(job, entry, label=""):
    """{metric: {step: value}} of the event log, and how often the node was sampled for the entry."""
    values = {}
    for row in job.export(entry):
        if not row["metric"].startswith("system/"):
            values.setdefault(row["metric"] + label, {})[row["step"]] = row["value"]
    shown = json.loads(job.query("show", entry, "--json"))["metrics"]
    return values, shown.get("system/memory.percent", {}).get("count", 0)


def expected_runs(job, policy, run_dir):
    """{id of the run at a server: (entry, values, samples of the node)}; a shared run has those of all ranks."""
    entries = job.list()
    if policy != "shared":
        return {entry["id"]: (entry, *values_of(job, entry["id"])) for entry in entries}
    values, samples = {}, 0
    for entry in entries:
        of_rank = values_of(job, entry["id"], f"/rank-{entry['rank']}")
        values.update(of_rank[0])
        samples += of_rank[1]
    return {run_dir.name: ({"name": "e2e", "rank": 0}, values, samples)}


def check_mlflow(mlflow, experiment, runs, is_group, artifact):
    stored = mlflow_server.runs_of(mlflow, experiment)
    groups = [run for run in stored if mlflow_server.pairs(run, "tags").get("lockstep.role") == "group"]
    assert len(groups) == int(is_group) and len(stored) == len(runs) + len(groups)
    for run_id, (entry, values, samples) in runs.items():
        [run] = [run for run in stored if mlflow_server.pairs(run, "tags").get("lockstep.run_id") == run_id]
        assert run["info"]["status"] == "FINISHED" and run["info"]["run_name"] == entry["name"]
        tags = mlflow_server.pairs(run, "tags")
        assert tags.get("mlflow.parentRunId") == (groups[0]["info"]["run_id"] if groups else None)
        assert "lockstep.rewound_to_step" not in tags  # each log begins with a rewind to step 0
        assert mlflow_server.pairs(run, "params")["optimizer.lr"] == "0.1"
        for metric, expected in values.items():
            points = mlflow_server.history(mlflow, run, metric)
            assert {step: value for step, _, value in points} == pytest.approx(expected)
            assert len(points) == len(expected)
        assert len(mlflow_server.history(mlflow, run, "system/system_memory_usage_percentage")) == samples
        files = mlflow_server.artifact_paths(mlflow, run, "artifacts")
        assert any(path.endswith(f"{artifact}/v1/model.safetensors") for path in files) == (entry["rank"] == 0)


def check_wandb(server, runs, group, job_type, artifact):
    assert set(server.runs) == set(runs)
    for run_id, (entry, values, samples) in runs.items():
        run = server.run(run_id)
        assert run.complete and run.exit_code == 0
        assert (run.bucket.get("groupName"), run.bucket.get("jobType")) == (group, job_type)
        assert run.bucket.get("displayName") == entry["name"]
        assert run.config["optimizer"]["lr"] == 0.1
        for metric, expected in values.items():
            rows = [row for row in run.history if metric in row]
            assert {row["step"]: row[metric] for row in rows} == pytest.approx(expected)
            assert len(rows) == len(expected)
        sampled = [row for row in run.rows(EVENTS) if any(key.startswith("system.") for key in row)]
        assert len(sampled) == samples
    assert [made["artifactCollectionName"] for made in server.artifacts] == [artifact]


def use_servers(job, mlflow, wandb, experiment, ranks, **tracking):
    """Returns the environment that a run needs for them."""
    sinks = [{"name": "mlflow", "tracking_uri": mlflow, "experiment": experiment},
             {"name": "wandb", "project": "e2e", "upload_every": 1}]
    job.config["tracking"] = {"ranks": ranks, "sinks": sinks, "finish_timeout": "200 s", "system_every": "1 s",
                              "checkpoints": "last", **tracking}
    job.config["train"]["log_every"] = "5 steps"
    job.write()
    return with_tools(WANDB_BASE_URL=wandb.url, WANDB_API_KEY=KEY)


@pytest.mark.parametrize("policy", ["main", long("node"), "all", long("shared")])
def test_servers_match_the_event_logs(job, mlflow, wandb, policy):
    experiment = f"e2e-{policy}"
    is_shared = policy == "shared"
    environment = use_servers(job, mlflow, wandb, experiment, "all" if is_shared else policy, shared=is_shared)
    run_dir = job.train(ranks=4, env=environment, timeout=300)
    status = json.loads((run_dir / "sinks" / "agent-00000.json").read_text())["sinks"]
    assert [sink["name"] for sink in status if sink["complete"]] == ["mlflow", "wandb"], status
    runs = expected_runs(job, policy, run_dir)
    assert len(runs) == (4 if policy == "all" else 1)
    job_type = {"node": "node", "all": "rank"}.get(policy)
    group = run_dir.name if job_type else None
    for again in (False, True):
        if again:
            ended = processes.run([LOCKSTEP, "sync", run_dir], job.directory, environment)
            assert ended.code == 0, ended.err
        check_mlflow(mlflow, experiment, runs, group is not None, "e2e-model")
        check_wandb(wandb, runs, group, job_type, "e2e-model")
    for path in run_dir.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), f"the key is in {path}"


def test_sync_sends_a_run_to_another_experiment_and_another_project(job, mlflow, wandb):
    """Each destination gets the whole run, once, regardless of what the run's own sinks have delivered."""
    environment = use_servers(job, mlflow, wandb, "here", "main")
    run_dir = job.train(env=environment, timeout=300)
    runs = expected_runs(job, "main", run_dir)
    assert wandb.run().bucket["project"] == "e2e"

    def send(*sinks):
        wandb.runs.clear()
        wandb.artifacts.clear()
        for sink in sinks:
            ended = processes.run([LOCKSTEP, "sync", run_dir, "--sink", sink], job.directory, environment)
            assert ended.code == 0 and "complete" in ended.out, ended.err

    elsewhere = [f"{{name: mlflow, tracking_uri: '{mlflow}', experiment: there}}", "{name: wandb, project: there}"]
    send(*elsewhere)
    check_wandb(wandb, runs, None, None, "e2e-model")
    assert wandb.run().bucket["project"] == "there"
    send(*elsewhere)
    assert not wandb.runs, "a run was sent twice"
    for experiment in ("here", "there"):
        check_mlflow(mlflow, experiment, runs, False, "e2e-model")


@pytest.mark.parametrize("policy", [long("main"), "all", long("shared")])
def test_a_collector_has_the_event_logs(job, tmp_path, policy):
    is_shared = policy == "shared"
    collector = Collector(tmp_path)
    try:
        job.config["tracking"] = {"ranks": "all" if is_shared else policy, "shared": is_shared, "finish_timeout": "100 s",
                                  "sinks": [{"name": "otlp", "endpoint": collector.url}], "alerts": {"conditions": ["train/lr > 0"]}}
        job.config["train"]["log_every"] = "5 steps"
        job.write()
        run_dir = job.train(ranks=4)
        assert processes.run([LOCKSTEP, "sync", run_dir], job.directory).code == 0  # sends nothing again
        found, logs = {}, {}
        for _, attributes, time, value, resource in collector.points():
            assert resource["service.instance.id"] == attributes["run"]
            if "metric" in attributes and not attributes["metric"].startswith("system/"):
                found.setdefault((attributes["run"], attributes["metric"]), []).append((time, value))
        for record, attributes, _ in collector.logs():
            logs.setdefault(attributes["run"], []).append(record["eventName"])
    finally:
        collector.close()
    expected = {}
    for entry in job.list():
        for row in job.export(entry["id"]):
            if not row["metric"].startswith("system/"):
                metric = f"{row['metric']}/rank-{entry['rank']}" if is_shared else row["metric"]
                expected.setdefault((run_dir.name if is_shared else entry["id"], metric), []).append(
                    (round(Fraction(row["time"]) * 1_000_000_000), row["value"]))
    assert {key: sorted(points) for key, points in found.items()} == {key: sorted(points) for key, points in expected.items()}
    assert set(logs) == {run for run, _ in expected}
    for events in logs.values():
        assert events[0] == "lockstep.run.start" and events[-1] == "lockstep.run.end" and events.count("lockstep.run.start") == 1
    assert any("lockstep.alert" in events for events in logs.values())


def test_a_busy_receiver_is_not_asked_before_the_time_it_says(job):
    pause_s = 3  # the agent retries after half a second otherwise
    with OtlpReceiver() as receiver:
        receiver.answers = [(503, {"Retry-After": str(pause_s)}, b"")]
        job.config["tracking"] = {"finish_timeout": "100 s", "sinks": [{"name": "otlp", "endpoint": receiver.url}]}
        job.write()
        job.train()
        first, second = [time for time, path, *_ in receiver.requests if path == "/v1/metrics"][:2]
        assert second - first >= pause_s
