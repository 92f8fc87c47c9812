"""Four ranks, each policy, into Weights & Biases' own uploader and a real MLflow server: complete, once, and in their groups."""

import os
import sys

import pytest

import processes
from processes import LOCKSTEP, SOURCE

for part in ("mlflow", "wandb"):
    sys.path.insert(0, str(SOURCE / "tests" / "tracking" / part))
import mlflow_server  # noqa: E402
from wandb_server import KEY, WandbServer  # noqa: E402


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


def values_of(job, entry):
    """{metric: {step: value}} of the event log, without system metrics."""
    values = {}
    for row in job.export(entry):
        if not row["metric"].startswith("system/"):
            values.setdefault(row["metric"], {})[row["step"]] = row["value"]
    return values


def use(job, ranks, sink):
    job.config["tracking"] = {"ranks": ranks, "sinks": [sink], "finish_timeout": "30 s", "system_every": "1 s"}
    job.config["train"]["log_every"] = "5 steps"
    job.write()


@pytest.mark.parametrize("ranks", ["main", "all"])
def test_mlflow_has_what_the_event_logs_have(job, mlflow, ranks):
    experiment = f"e2e-{ranks}"
    use(job, ranks, {"name": "mlflow", "tracking_uri": mlflow, "experiment": experiment})
    run_dir = job.train(ranks=4)
    stored = mlflow_server.runs_of(mlflow, experiment)
    entries = job.list()
    groups = [] if ranks == "main" else [run for run in stored if mlflow_server.pairs(run, "tags").get("lockstep.role") == "group"]
    assert len(groups) == (0 if ranks == "main" else 1)
    assert len(stored) == len(entries) + len(groups)
    for entry in entries:
        [run] = [run for run in stored if mlflow_server.pairs(run, "tags").get("lockstep.run_id") == entry["id"]]
        assert run["info"]["status"] == "FINISHED"
        tags = mlflow_server.pairs(run, "tags")
        assert tags.get("mlflow.parentRunId") == (groups[0]["info"]["run_id"] if groups else None)
        for metric, expected in values_of(job, entry["id"]).items():
            points = mlflow_server.history(mlflow, run, metric)
            assert {step: value for step, _, value in points} == pytest.approx(expected)
            assert len(points) == len(expected)
    ended = processes.run([LOCKSTEP, "sync", run_dir], job.directory, timeout=60)
    assert ended.code == 0, ended.err
    assert len(mlflow_server.runs_of(mlflow, experiment)) == len(stored)


@pytest.mark.parametrize("ranks", ["main", "all"])
def test_wandb_has_what_the_event_logs_have(job, wandb, ranks):
    use(job, ranks, {"name": "wandb", "project": "e2e", "upload_every": 1})
    environment = with_tools(WANDB_BASE_URL=wandb.url, WANDB_API_KEY=KEY)
    run_dir = job.train(ranks=4, env=environment)
    entries = job.list()
    assert len(wandb.runs) == len(entries)
    for entry in entries:
        run = wandb.run(entry["id"])
        assert run.bucket.get("groupName") == (None if ranks == "main" else run_dir.name)
        for metric, expected in values_of(job, entry["id"]).items():
            rows = [row for row in run.history if metric in row]
            assert {row["step"]: row[metric] for row in rows} == pytest.approx(expected)
            assert len(rows) == len(expected)
    for path in run_dir.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), f"the key is in {path}"


def test_a_server_that_is_down_costs_nothing_and_sync_completes_it(job, wandb):
    use(job, "main", {"name": "mlflow", "tracking_uri": "http://127.0.0.1:9", "experiment": "later"})
    job.config["tracking"]["finish_timeout"] = "1 s"
    job.config["tracking"]["upload_timeout"] = "2 s"
    job.write()
    started = job.start(ranks=2)
    ended = processes.finish(started, 60)
    assert ended.code == 0, ended.err
    assert "mlflow is" in ended.out and "lockstep sync" in ended.out
    [run] = job.list()
    assert run["state"] == "finished"
