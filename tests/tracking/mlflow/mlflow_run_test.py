"""Records of the mlflow sink, read back from a real MLflow server."""
import json
import math

import pytest

from mlflow_server import (artifact, artifact_paths, call_api, history, mlflow_server, pairs, run_tagged, runs_of)
from sink_calls import CREATED, JOB, Entry, Process, SinkError, info, time_of

PNG = bytes(range(256)) * 5


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with mlflow_server(tmp_path_factory.mktemp("mlflow")) as url:
        yield url


def entry_of(process, server, run_dir, entry=None, **more):
    """Every test has a separate experiment, named after its directory."""
    more.setdefault("config", {"tracking_uri": server, "experiment": run_dir.name})
    return Entry(process, "mlflow", run_dir, entry or info(), **more)


def milliseconds(step):
    return round(time_of(step) * 1000)


def test_values_params_and_tags(process, server, tmp_path):
    config = {"run": {"name": "mnist", "seed": 0, "note": None}, "optimizer": {"lr": 0.1, "nesterov": True, "name": ""},
              "model": {"hidden": [256, 128], "layers": [{"size": 3}, {"size": 4}], "text": "ä" * 4000},
              "many": {f"p{i}": i for i in range(250)}, "tracking": {"sinks": [{"name": "mlflow"}]}}
    one = entry_of(process, server, tmp_path, run_config=config, environment={"USER": "ada"}).open()
    for step in range(1500):
        one.scalars(step, **{"train/loss": 1 / (step + 1), "lr": 1e-300 * step})
    one.row(1500, [("a=b[0]", 1.5), ("a_b_0_", 2.5), ("x//..", 3.0), ("n" * 300, 4.0)])
    one.row(1501, [("odd", math.nan), ("high", math.inf), ("low", -math.inf)])
    one.give("summary", values={"best": 0.75, "word": "yes"})
    one.flush()
    one.finish()
    one.flush()

    run = run_tagged(server, tmp_path.name, run_id=JOB)
    assert run["info"]["run_name"] == "mnist"
    assert run["info"]["status"] == "FINISHED"
    assert run["info"]["start_time"] == round(CREATED * 1000)
    assert run["info"]["end_time"] == milliseconds(1501)
    assert history(server, run, "train/loss") == [(i, milliseconds(i), 1 / (i + 1)) for i in range(1500)]
    assert history(server, run, "lr") == [(i, milliseconds(i), 1e-300 * i) for i in range(1500)]

    names = {metric["key"] for metric in run["data"]["metrics"]}
    with_checksum = f"a_b_0_-{crc32c(b'a_b_0_'):08x}"
    cut = f"{'n' * 241}-{crc32c(b'n' * 300):08x}"
    assert names == {"train/loss", "lr", "a_b_0_", with_checksum, "x/_/__", cut, "odd", "high", "low", "summary/best"}
    assert [history(server, run, name)[0][2] for name in ("a_b_0_", with_checksum, "x/_/__", cut)] == [1.5, 2.5, 3.0, 4.0]
    assert history(server, run, "odd") == [(1501, milliseconds(1501), "NaN")]
    assert history(server, run, "high")[0][2] == 1.7976931348623157e308
    assert history(server, run, "low")[0][2] == -1.7976931348623157e308
    assert history(server, run, "summary/best") == [(1501, milliseconds(1501), 0.75)]

    params = pairs(run, "params")
    many = {f"many.p{i}": str(i) for i in range(250)}
    text = params.pop("model.text")
    assert text.endswith(" ... (cut)") and len(text.encode()) == 6000 and set(text[:-10]) == {"ä"}
    assert params == many | {"run.name": "mnist", "run.seed": "0", "run.note": "null", "optimizer.lr": "0.1",
                             "optimizer.nesterov": "true", "optimizer.name": "", "model.hidden": "[256,128]",
                             "model.layers.0.size": "3", "model.layers.1.size": "4"}

    tags = pairs(run, "tags")
    expected = {"mlflow.user": "ada", "mlflow.source.name": "lockstep", "mlflow.source.type": "LOCAL",
                "mlflow.runName": "mnist", "lockstep.command": "lockstep launch mnist.yaml", "lockstep.run_id": JOB,
                "lockstep.job_id": JOB, "lockstep.role": "run", "lockstep.rank": "0", "lockstep.world_size": "1",
                "lockstep.host": "node-a", "lockstep.pid": "4711", "lockstep.node_rank": "0", "lockstep.local_rank": "0",
                "lockstep.summary.word": "yes", "lockstep.end": "finished (exit 0)"}
    assert expected.items() <= tags.items()
    assert JOB in tags.pop("mlflow.note.content")
    assert tags == expected


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_several_images_of_a_name_and_step_are_all_stored(process, server, tmp_path):
    def give(step, *numbers, name="samples"):
        for number in numbers:
            one.give("image", time=time_of(step), step=step, name=name, width=8, height=8, caption=f"{name} {step} {number}",
                     png={"hex": PNG.hex()})

    one = entry_of(process, server, tmp_path).open()
    give(1, 0, 1)
    give(1, 0, name="other")
    give(1, 2)
    one.flush()
    give(1, 3)
    one.crash()
    give(2, 0, 1)
    one.give("rewind", step=1)
    give(2, 2, 3)
    one.flush()
    run = run_tagged(server, tmp_path.name, run_id=JOB)
    names = ["samples/step-1", "samples/step-1-2", "samples/step-1-3", "samples/step-1-4", "samples/step-2", "samples/step-2-2",
             "other/step-1"]
    assert artifact_paths(server, run) == sorted(f"images/{name}.{ending}" for name in names for ending in ("png", "txt"))
    assert [artifact(server, run, f"images/{name}.txt").decode() for name in names] == [
        "samples 1 0", "samples 1 1", "samples 1 2", "samples 1 3", "samples 2 2", "samples 2 3", "other 1 0"]


def test_artifacts(process, server, tmp_path):
    one = entry_of(process, server, tmp_path).open()
    at = {"time": time_of(4), "step": 4}
    one.give("image", **at, name="samples/grid #1", width=8, height=8, caption="größer", png={"hex": PNG.hex()})
    one.give("clip", **at, name="tone", media_type="audio/wav", caption="low", bytes={"hex": b"RIFF".hex()})
    one.give("clip", **at, name="page", media_type="text/html", caption="", bytes={"hex": b"<b>".hex()})
    one.give("histogram", **at, name="weights", edges=[0, 0.5, 2], counts=[3, 4])
    one.give("table", **at, name="errors", columns=["label", "guess"], rows=[[1, "7"], [2, None]])
    one.give("text", time=time_of(4), level="info", line="begun")
    one.give("text", time=time_of(4), level="warning", line="slow")
    one.give("console", time=time_of(5), rank=0, is_error=True, line="epoch 1 … done")
    one.give("alert", time=time_of(6), level="error", title="loss is nan", text="at once", step=6)
    one.give("alert", time=time_of(6), level="warning", title="slow", text="very")
    one.give("artifact", time=time_of(6), name="data", artifact_type="dataset", version=2, digest="abc", aliases=[],
             metadata={}, made=False)
    one.flush()
    run = run_tagged(server, tmp_path.name, run_id=JOB)
    images = ["images/samples/grid _1/step-4.png", "images/samples/grid _1/step-4.txt"]
    tables = ["histograms/weights/step-4.json", "tables/errors.json"]
    tables += ["sounds/tone/step-4.wav", "sounds/tone/step-4.txt", "pages/page/step-4.html"]
    assert artifact_paths(server, run) == sorted(images + tables)  # the console is uploaded later
    one.give("console", time=time_of(7), rank=0, is_error=False, line="last")
    one.finish("failed", 70, "loss is nan")
    one.flush()

    assert artifact_paths(server, run) == sorted(images + tables + ["logs/console.txt"])
    assert artifact(server, run, images[0]) == PNG
    assert artifact(server, run, images[1]).decode() == "größer"
    assert artifact(server, run, "sounds/tone/step-4.wav") == b"RIFF"
    assert json.loads(artifact(server, run, tables[0])) == {"columns": ["from", "to", "count"],
                                                            "data": [[0, 0.5, 3], [0.5, 2, 4]]}
    assert json.loads(artifact(server, run, tables[1])) == {"columns": ["label", "guess"], "data": [[1, "7"], [2, None]]}
    assert artifact(server, run, "logs/console.txt").decode() == \
        "begun\nwarning: slow\n[rank 0] epoch 1 … done\n[rank 0] last\n"
    run = run_tagged(server, tmp_path.name, run_id=JOB)
    tags = pairs(run, "tags")
    assert run["info"]["status"] == "FAILED"
    assert json.loads(tags["mlflow.loggedArtifacts"]) == [{"path": "tables/errors.json", "type": "table"}]
    assert {key: value for key, value in tags.items() if key.startswith(("lockstep.al", "lockstep.us", "lockstep.end"))} == {
        "lockstep.alerts": "2", "lockstep.alert.1": "error: loss is nan: at once (step 6)",
        "lockstep.alert.2": "warning: slow: very", "lockstep.used_artifact.data": "dataset:v2 abc",
        "lockstep.end": "failed (exit 70): loss is nan"}


def test_system_metrics_have_the_names_and_units_of_mlflow(process, server, tmp_path):
    ours = {"system/cpu_percent": 12.5, "system/memory.used_bytes": 3e9, "system/memory.percent": 40.0,
            "system/disk.used_bytes": 5e9, "system/disk.free_bytes": 6e9, "system/disk.percent": 45.0,
            "system/gpu.0.utilization": 99.0, "system/gpu.11.memory_used_bytes": 7e9, "system/gpu.0.power_watts": 250.5,
            "system/node-1/cpu_percent": 13.0, "system/node-1/gpu.2.utilization": 98.0, "system/load_average_1m": 1.25}
    one = entry_of(process, server, tmp_path).open()
    one.row(3, list(ours.items()))
    one.flush()
    run = run_tagged(server, tmp_path.name, run_id=JOB)
    assert {metric["key"]: metric["value"] for metric in run["data"]["metrics"]} == {
        "system/cpu_utilization_percentage": 12.5, "system/system_memory_usage_megabytes": 3000,
        "system/system_memory_usage_percentage": 40, "system/disk_usage_megabytes": 5000,
        "system/disk_available_megabytes": 6000, "system/disk_usage_percentage": 45,
        "system/gpu_0_utilization_percentage": 99, "system/gpu_11_memory_usage_megabytes": 7000,
        "system/gpu_0_power_usage_watts": 250.5, "system/node-1/cpu_utilization_percentage": 13,
        "system/node-1/gpu_2_utilization_percentage": 98, "system/load_average_1m": 1.25}


def test_ranks_are_nested_runs_of_one_parent(process, server, tmp_path):
    with Process() as other:  # another agent
        entries = [entry_of(process if rank % 2 else other, server, tmp_path, info(rank, 4)).open() for rank in range(4)]
        for rank, one in enumerate(entries):
            one.scalars(1, loss=rank + 0.5)
            one.flush()
        parent = run_tagged(server, tmp_path.name, role="group", job_id=JOB)
        assert len(runs_of(server, tmp_path.name)) == 5
        assert (parent["info"]["run_name"], parent["info"]["status"]) == (JOB, "RUNNING")
        remembered = json.loads((tmp_path / "sinks/mlflow/parent.json").read_text())
        assert remembered["run_id"] == parent["info"]["run_id"]

        for rank, state in enumerate(["finished", "killed", "finished", "failed"]):
            assert run_tagged(server, tmp_path.name, role="group")["info"]["status"] == "RUNNING"
            entries[rank].finish(state)
            entries[rank].flush()
    for rank, status in enumerate(["FINISHED", "KILLED", "FINISHED", "FAILED"]):
        run = run_tagged(server, tmp_path.name, run_id=f"{JOB}-rank-{rank}")
        tags = pairs(run, "tags")
        assert (run["info"]["run_name"], run["info"]["status"]) == (f"mnist-rank-{rank}", status)
        assert (tags["mlflow.parentRunId"], tags["lockstep.rank"]) == (parent["info"]["run_id"], str(rank))
        assert history(server, run, "loss") == [(1, milliseconds(1), rank + 0.5)]
    parent = run_tagged(server, tmp_path.name, role="group")
    assert (parent["info"]["status"], parent["info"]["end_time"]) == ("FAILED", milliseconds(1))


def test_the_parent_is_found_without_its_file(process, server, tmp_path):
    entry_of(process, server, tmp_path, info(0, 2)).open()
    (tmp_path / "sinks/mlflow/parent.json").unlink()  # as on a node without a shared disk
    entry_of(process, server, tmp_path, info(1, 2)).open()
    assert len(runs_of(server, tmp_path.name)) == 3
    parent = run_tagged(server, tmp_path.name, role="group")["info"]["run_id"]
    for rank in range(2):
        run = run_tagged(server, tmp_path.name, run_id=f"{JOB}-rank-{rank}")
        assert pairs(run, "tags")["mlflow.parentRunId"] == parent


@pytest.mark.parametrize("flushed", [False, True])
def test_a_crash_leaves_no_duplicates(process, server, tmp_path, flushed):
    one = entry_of(process, server, tmp_path, info(0, 1)).open()
    one.scalars(1, loss=1.0)
    one.give("text", time=time_of(1), level="info", line="one")
    one.give("alert", time=time_of(1), level="info", title="a", text="b")
    if flushed:
        one.flush()
    else:
        one.call("flush")  # and its state is lost
    one.crash()
    one.scalars(2, loss=2.0, other=math.nan)
    one.give("text", time=time_of(2), level="info", line="two")
    one.give("alert", time=time_of(2), level="info", title="c", text="d")
    one.call("flush")
    one.crash()
    one.finish()
    one.call("flush")
    one.crash()
    one.flush()

    assert len(runs_of(server, tmp_path.name)) == 2
    run = run_tagged(server, tmp_path.name, run_id=f"{JOB}-rank-0")
    assert run["info"]["status"] == "FINISHED"
    assert history(server, run, "loss") == [(1, milliseconds(1), 1.0), (2, milliseconds(2), 2.0)]
    assert history(server, run, "other") == [(2, milliseconds(2), "NaN")]
    assert artifact(server, run, "logs/console.txt") == b"one\ntwo\n"
    alerts = {key: value for key, value in pairs(run, "tags").items() if key.startswith("lockstep.alert")}
    assert alerts == {"lockstep.alerts": "2", "lockstep.alert.1": "info: a: b", "lockstep.alert.2": "info: c: d"}


def test_a_resumed_run_is_running_again_and_keeps_its_first_params(process, server, tmp_path):
    one = entry_of(process, server, tmp_path, run_config={"lr": 0.1, "seed": 1}).open()
    for step in range(4):
        one.scalars(step, loss=float(step))
    one.finish("preempted", 75)
    one.flush()
    assert run_tagged(server, tmp_path.name, run_id=JOB)["info"]["status"] == "KILLED"

    one.run_config = {"lr": 0.2, "seed": 1, "new": "x"}
    one.open()
    one.give("rewind", step=2)
    one.scalars(3, time=CREATED + 100, loss=30.0)
    one.flush()
    run = run_tagged(server, tmp_path.name, run_id=JOB)
    assert run["info"]["status"] == "RUNNING"
    assert pairs(run, "params") == {"lr": "0.1", "seed": "1", "new": "x"}
    tags = pairs(run, "tags")
    assert tags["lockstep.param_changed.lr"] == "0.2"
    assert "lockstep.param_changed.seed" not in tags
    assert (tags["lockstep.rewound_to_step"], tags["lockstep.end"]) == ("2", "none: resumed")
    late = (3, round((CREATED + 100) * 1000), 30.0)
    assert history(server, run, "loss") == [(i, milliseconds(i), float(i)) for i in range(4)] + [late]
    one.finish()
    one.flush()
    assert run_tagged(server, tmp_path.name, run_id=JOB)["info"]["status"] == "FINISHED"


def test_only_rejected_records_are_skipped(process, server, tmp_path):
    config = {**{f"p{i}": i for i in range(30)}, "a=": "first", "a+": "second"}  # both become the param "a_"
    one = entry_of(process, server, tmp_path, run_config=config).open()
    one.scalars(1, loss=0.5)
    one.flush()
    run = run_tagged(server, tmp_path.name, run_id=JOB)
    assert pairs(run, "params") == {**{f"p{i}": str(i) for i in range(30)}, "a_": "first"}
    assert pairs(run, "tags")["lockstep.rejected"] == "1 records, the last one of a_"
    assert history(server, run, "loss") == [(1, milliseconds(1), 0.5)]


def test_files_of_artifacts(process, server, tmp_path):
    run_dir, source = tmp_path / "runs" / "run", tmp_path / "model"
    (source / "sub").mkdir(parents=True)
    files = {"weights.bin": PNG * 5000, "sub/a b ä.txt": b"text", "empty": b""}
    for path, content in files.items():
        (source / path).write_bytes(content)
    one = entry_of(process, server, run_dir, config={"tracking_uri": server, "experiment": tmp_path.name}).open()
    made = one.call("publish", run_dir=str(run_dir), name="mnist-model", artifact_type="model", source=str(source))
    artifact_version = {"time": time_of(1), "name": "mnist-model", "artifact_type": "model", "aliases": [], "metadata": {}, "made": True}
    one.give("artifact", **artifact_version, **made)
    one.flush()
    run = run_tagged(server, tmp_path.name, run_id=JOB)
    assert pairs(run, "tags").get("lockstep.artifacts_note") is None
    assert artifact_paths(server, run) == sorted(f"artifacts/mnist-model/v1/{path}" for path in files)
    for path, content in files.items():
        assert artifact(server, run, f"artifacts/mnist-model/v1/{path}") == content
    assert pairs(run, "tags")["lockstep.artifact.mnist-model"] == f"model:v1 {made['digest']}"

    one.give("artifact", **artifact_version, version=7, digest="abc")  # not in the store
    one.flush()
    note = pairs(run_tagged(server, tmp_path.name, run_id=JOB), "tags")["lockstep.artifacts_note"]
    assert note.startswith("mnist-model:v7 was not uploaded: ")


def test_a_server_that_does_not_accept_artifacts(process, tmp_path):
    with mlflow_server(tmp_path, "--default-artifact-root", str(tmp_path / "elsewhere"), "--no-serve-artifacts") as plain:
        one = entry_of(process, plain, tmp_path / "run").open()
        one.scalars(1, loss=1.0)
        one.give("table", time=time_of(1), step=1, name="t", columns=["a"], rows=[[1]])
        one.finish()
        one.flush()
        run = run_tagged(plain, "run", run_id=JOB)
        assert run["info"]["status"] == "FINISHED"
        assert history(plain, run, "loss") == [(1, milliseconds(1), 1.0)]
        assert pairs(run, "tags")["lockstep.artifacts_note"].startswith("tables/t.json was not uploaded: this server stores")
    assert not (tmp_path / "elsewhere").exists()


def test_a_deleted_run_is_reported(process, server, tmp_path):
    one = entry_of(process, server, tmp_path).open()
    one.flush()
    run = run_tagged(server, tmp_path.name, run_id=JOB)["info"]["run_id"]
    call_api(server, "runs/delete", {"run_id": run})
    one.scalars(1, loss=1.0)
    with pytest.raises(SinkError) as caught:
        one.flush()
    assert caught.value.kind == "config" and run in caught.value.text
    with pytest.raises(SinkError) as caught:
        one.crash()
    assert (caught.value.kind, caught.value.text) == ("config", f"MLflow at {server}: the run {run} was deleted")


def test_the_experiment_has_the_name_of_the_run(process, server, tmp_path):
    config = {"run": {"name": f"named {tmp_path.name}"}}
    entry_of(process, server, tmp_path, config={}, environment={"MLFLOW_TRACKING_URI": server}, run_config=config).open()
    assert len(runs_of(server, f"named {tmp_path.name}")) == 1
    chosen = {"MLFLOW_TRACKING_URI": server, "MLFLOW_EXPERIMENT_NAME": tmp_path.name}
    entry_of(process, server, tmp_path, config={}, environment=chosen, run_config=config).open()
    assert len(runs_of(server, tmp_path.name)) == 1
