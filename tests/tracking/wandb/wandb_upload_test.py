"""Records of the wandb sink reach a W&B server through the real wandb-core and the real `wandb sync`."""
import base64
import hashlib
import json
import math
import os
import re
import subprocess
import sys

import pytest
import wandb_records
from wandb_server import CONSOLE, EVENTS, HISTORY, KEY
from wandb_sink import CONFIG, INFO, Sink

START = INFO["created"]
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==")


def steps(run):
    return [row["step"] for row in run.history]


def test_every_value_arrives_unchanged(server, run_dir):
    with Sink(run_dir, server.url) as sink:
        sink.start(info={"group": "sweep", "job_type": "rank"})
        sink.scalars(1, {"train/loss": 0.1, "a": "nan", "b": "inf", "c": "-inf", "system/gpu.0.utilization": 87.5}, epoch=0.25)
        sink.scalars(2, {"train/loss": 1e-30, "step": 5, "_step": 6, "": 7, "größe": 1e300})
        sink.scalars(3, {"system/cpu_percent": 12.0})
        sink.flush()
        sink.call("text", time=START + 4, level="info", line="epoch 1 begins")
        sink.call("console", time=START + 4, rank=0, is_error=True, line="a warning \u00e9")
        sink.call("summary", values={"test/accuracy": 0.97, "note": "best", "nested": {"deep": [1, 2]}})
        sink.call("alert", time=START, level="error", title="NaN", text="the loss is NaN")
        sink.scalars(1, {"train/loss": 0.3})  # after a rewind
        sink.finish()
    run = server.run(INFO["id"])
    places = [{key: row[key] for key in ("step", "epoch", "_step", "_timestamp", "_runtime")} for row in run.history]
    assert places == [
        {"step": 1, "epoch": 0.25, "_step": 0, "_timestamp": START + 1, "_runtime": 1},
        {"step": 2, "epoch": 0, "_step": 1, "_timestamp": START + 2, "_runtime": 2},
        {"step": 1, "epoch": 0, "_step": 2, "_timestamp": START + 1, "_runtime": 1}]
    values = [{key: value for key, value in row.items() if key not in places[0]} for row in run.history]
    assert values[0].keys() == {"train/loss", "a", "b", "c"} and math.isnan(values[0]["a"])
    assert (values[0]["train/loss"], values[0]["b"], values[0]["c"]) == (0.1, math.inf, -math.inf)
    assert values[1:] == [
        {"train/loss": 1e-30, "metric/step": 5, "metric/_step": 6, "metric/": 7, "größe": 1e300}, {"train/loss": 0.3}]
    system = [{key: row[key] for key in row if key != "_wandb"} for row in run.rows(EVENTS)]
    assert system == [{"_timestamp": START + 1, "_runtime": 1, "system.gpu.0.utilization": 87.5},
                      {"_timestamp": START + 3, "_runtime": 3, "system.cpu_percent": 12}]
    texts = [re.sub(r"\d{4}-\d\d-\d\dT\S+ ", "", line) for line in run.lines(CONSOLE)]
    assert texts == ["epoch 1 begins", "ERROR a warning é"]
    assert run.summary["test/accuracy"] == 0.97 and run.summary["note"] == "best" and run.summary["nested"] == {"deep": [1, 2]}
    assert run.summary["train/loss"] == 0.3 and run.summary["_step"] == 2
    assert run.alerts == [{"title": "NaN", "text": "the loss is NaN", "severity": "ERROR", "waitDuration": 60000}]
    assert run.config == CONFIG
    assert run.metrics["train/loss"] == "step" and run.metrics["größe"] == "step" and "step" not in run.metrics
    bucket = {key: run.bucket.get(key) for key in ("project", "groupName", "jobType", "displayName", "host")}
    assert bucket == {"project": "lockstep", "groupName": "sweep", "jobType": "rank", "displayName": "mnist", "host": "node7"}
    assert run.complete and run.exit_code == 0 and not run.preempting


def test_rows_arrive_during_the_run(server, run_dir):
    with Sink(run_dir, server.url) as sink:
        sink.start()
        for step in range(3):
            sink.scalars(step, {"loss": step})
            sink.flush()
            server.wait_for(lambda: server.runs and len(server.run().streams[HISTORY]) == step + 1)
        assert not server.run().complete
        (core,) = sink.core_pids()
        sink.finish()
        assert sink.core_pids() == [] and not os.path.exists(f"/proc/{core}")
    assert steps(server.run()) == [0, 1, 2]
    assert not (run_dir / "sinks/wandb" / INFO["id"] / "wandb-core").exists()


@pytest.mark.parametrize("end, exit_code, preempting", [
    ({"state": "finished"}, 0, False),
    ({"state": "failed", "exit": 3}, 3, False),
    ({"state": "failed", "exit": 0, "reason": "rank 1 was lost"}, 1, False),
    ({"state": "killed", "exit": 137, "signal": 9}, 137, False),
    ({"state": "killed", "exit": 0, "signal": 15}, 143, False),
    ({"state": "preempted", "exit": 75}, 75, True)])
def test_the_outcome_is_uploaded(server, run_dir, end, exit_code, preempting):
    with Sink(run_dir, server.url) as sink:
        sink.start()
        sink.scalars(1, {"loss": 1})
        sink.finish(**end)
    run = server.run()
    assert (run.complete, run.exit_code, run.preempting) == (True, exit_code, preempting)


def test_a_lost_run_is_not_marked_complete(server, run_dir):
    with Sink(run_dir, server.url) as sink:
        sink.start()
        sink.scalars(1, {"loss": 1})
        sink.finish("lost")
    assert steps(server.run()) == [1] and not server.run().complete


def test_media_are_files_referenced_by_the_history(server, run_dir):
    table = {"columns": ["label", "p"], "data": [["7", 0.5], [None, "x"]]}
    with Sink(run_dir, server.url) as sink:
        sink.start()
        sink.call("histogram", name="weights/fc1", step=1, time=START, edges=[-1.0, 0.0, 2.5], counts=[3.0, 4.0])
        sink.call("image", name="seen/../digit 1", step=2, time=START, width=1, height=1, caption="a seven",
                  png={"hex": PNG.hex()})
        for media_type, name in (("audio/wav", "tone"), ("video/webm", "rollout"), ("text/html", "page"), ("image/svg+xml", "drawing")):
            sink.call("clip", name=name, step=2, time=START, media_type=media_type, caption="low", bytes={"hex": b"RIFF".hex()})
        sink.call("table", name="worst", step=3, time=START, columns=table["columns"], rows=table["data"])
        sink.finish()
    histogram, image, *clips, shown = server.run().history
    for row, name, kind, folder in zip(clips, ("tone", "rollout", "page"), ("audio-file", "video-file", "html-file"), ("audio", "videos", "html"), strict=True):
        clip = row[name]
        assert (clip["_type"], clip["caption"], clip["size"], clip["sha256"]) == (kind, "low", 4, hashlib.sha256(b"RIFF").hexdigest())
        assert clip["path"].startswith(f"media/{folder}/{name}_") and server.files[f"{INFO['id']}/{clip['path']}"] == b"RIFF"
    assert histogram["weights/fc1"] == {"_type": "histogram", "bins": [-1, 0, 2.5], "values": [3, 4]}
    assert histogram["step"] == 1
    image = image["seen/../digit 1"]
    assert image.pop("path").startswith("media/images/seen_.._digit_1_1_") and image == {
        "_type": "image-file", "format": "png", "width": 1, "height": 1, "caption": "a seven", "size": len(PNG),
        "sha256": hashlib.sha256(PNG).hexdigest()}
    path = server.run().history[1]["seen/../digit 1"]["path"]
    assert server.files[f"{INFO['id']}/{path}"] == PNG
    content = server.files[f"{INFO['id']}/{shown['worst']['path']}"]
    assert json.loads(content) == table
    assert shown["worst"] == {
        "_type": "table-file", "path": shown["worst"]["path"], "ncols": 2, "nrows": 2, "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest()}


def test_artifacts_of_the_run_are_uploaded_with_their_files(server, run_dir):
    files = {"weights.bin": b"\x00\x01" * 5000, "meta/info.json": b"{}"}
    for path, content in files.items():
        (run_dir / "model" / path).parent.mkdir(parents=True, exist_ok=True)
        (run_dir / "model" / path).write_bytes(content)
    with Sink(run_dir, server.url) as sink:
        digest = sink.call("publish", name="mnist-model", artifact_type="model", run_dir=str(run_dir),
                           source=str(run_dir / "model"))["digest"]
        known = {"time": START, "artifact_type": "model", "version": 1, "digest": digest, "aliases": ["best"], "metadata": {"acc": 0.9}}
        for _ in range(2):
            sink.state = None  # repeat as if the first upload had not been recorded
            sink.start()
            sink.call("artifact", name="mnist-model", made=True, **known)
            sink.call("artifact", name="removed-model", made=True, **known)
            sink.call("artifact", name="mnist-data", made=False, **known)
            sink.finish()
    (artifact,) = server.artifacts
    assert (artifact["artifactCollectionName"], artifact["artifactTypeName"]) == ("mnist-model", "model")
    assert [alias["alias"] for alias in artifact["aliases"]] == ["best"]
    assert json.loads(artifact["metadata"]) == {"acc": 0.9, "lockstep_version": "v1"}
    assert "CommitArtifact" in server.operations
    for path, content in files.items():
        assert server.files[f"artifact/{path}"] == content
    (manifest,) = [json.loads(content) for name, content in server.files.items() if "manifest" in name]
    sums = {path: (entry["digest"], entry["size"]) for path, entry in manifest["contents"].items()}
    assert sums == {path: (base64.b64encode(hashlib.md5(content).digest()).decode(), len(content))
                    for path, content in files.items()}
    fact = {"version": 1, "type": "model", "digest": digest}
    assert server.run().config == {**CONFIG, "made_artifact/removed-model": fact, "used_artifact/mnist-data": fact}


def test_unset_config_values_come_from_the_environment(server, run_dir):
    names = {"WANDB_ENTITY": "team", "WANDB_PROJECT": "from env", "WANDB_RUN_GROUP": "g", "WANDB_TAGS": "a, b,",
             "WANDB_NOTES": "from env", "WANDB_NAME": "fast", "WANDB_JOB_TYPE": "train"}
    with Sink(run_dir, server.url, **names) as sink:
        sink.start(config={"project": "mine", "notes": "from config"}, info={"job_type": "rank", "id": "mnist-rank-1", "rank": 1})
        sink.finish()
    bucket = server.run("mnist-rank-1").bucket
    given = ("entity", "project", "groupName", "tags", "notes", "displayName", "jobType")
    assert [bucket[key] for key in given] == ["team", "mine", "g", ["a", "b"], "from config", "fast-rank-1", "rank"]


def test_the_key_can_come_from_netrc_and_the_server_from_the_config(server, run_dir):
    netrc = run_dir.parent / ".netrc"
    netrc.write_text(f"machine api.wandb.ai\n  login user\n  password {'x' * 40}\nmachine 127.0.0.1 login user password {KEY}\n")
    with Sink(run_dir, WANDB_API_KEY=None) as sink:
        sink.start(config={"base_url": server.url + "/"})
        sink.scalars(1, {"loss": 1})
        sink.finish()
    assert steps(server.run()) == [1]


def test_an_invalid_id_is_converted_to_a_valid_one(server, run_dir):
    with Sink(run_dir, server.url) as sink:
        sink.start(info={"id": "ResNet.50-" + "x" * 90})
        sink.finish()
    (name,) = server.runs
    assert re.fullmatch(r"resnet-50-x+-[0-9a-f]{8}", name) and len(name) == 64


def test_the_runs_of_many_ranks_share_one_wandb_core(server, run_dir):
    with Sink(run_dir, server.url) as first:
        sinks = [first, *(Sink(run_dir, server.url, calls=first.calls) for _ in range(7))]
        for rank, sink in enumerate(sinks):
            sink.start(info={"id": f"mnist-rank-{rank}", "rank": rank})
            sink.scalars(1, {"loss": rank})
            sink.flush()
        server.wait_for(lambda: len(server.runs) == 8 and all(run.streams[HISTORY] for run in server.runs.values()))
        (core,) = first.core_pids()
        for rank, sink in enumerate(sinks):
            sink.scalars(2, {"loss": 10 + rank})
            sink.finish(exit=rank, state="failed" if rank else "finished")
            assert first.core_pids() == ([core] if rank < 7 else [])
    for rank in range(8):
        run = server.run(f"mnist-rank-{rank}")
        assert [row["loss"] for row in run.history] == [rank, 10 + rank]
        assert run.complete and run.exit_code == rank


def test_a_long_run_directory_path_works(server, tmp_path):
    run_dir = tmp_path / ("deep" * 50) / ("deeper" * 30)
    run_dir.mkdir(parents=True)
    with Sink(run_dir, server.url) as sink:
        sink.start()
        sink.scalars(1, {"loss": 1})
        sink.finish()
    assert steps(server.run()) == [1]


def wandb_sync(directory, server, home):
    variables = {"PATH": os.environ["PATH"], "HOME": str(home), "WANDB_API_KEY": KEY, "WANDB_BASE_URL": server.url,
                 "WANDB_ERROR_REPORTING": "false", "WANDB_DIR": str(home)}
    command = [sys.executable, "-c", "from wandb.cli.cli import cli; cli()", "sync", str(directory)]
    result = subprocess.run(command, env=variables, cwd=home, capture_output=True, text=True, timeout=90)
    assert result.returncode == 0, result.stderr
    return result.stderr + result.stdout


def test_wandb_sync_uploads_the_file_of_an_offline_run(server, run_dir, tmp_path):
    with Sink(run_dir, server.url, WANDB_MODE="offline") as sink:
        sink.start()
        for step in range(3000):
            sink.scalars(step, {"train/loss": step / 7, "lr": 0.1})
        sink.call("text", time=START, level="info", line="a line")
        sink.finish("failed", 3)
        assert sink.core_pids() == [] and not server.operations
    assert sink.file().stat().st_size > 10 * 32768
    home = tmp_path / "home"
    home.mkdir()
    wandb_sync(sink.file().parent.parent, server, home)
    run = server.run()
    assert [row["train/loss"] for row in run.history] == [step / 7 for step in range(3000)]
    assert steps(run) == list(range(3000)) and run.exit_code == 3 and run.config == CONFIG
    assert len(run.lines(CONSOLE)) == 1 and run.bucket["displayName"] == "mnist"


def test_a_resumed_run_is_one_file_without_the_first_end(server, run_dir):
    with Sink(run_dir, server.url) as sink:
        sink.start()
        sink.scalars(1, {"loss": 1})
        sink.finish("preempted", 75)
        first = server.run()
        assert (first.exit_code, first.preempting, steps(first)) == (75, True, [1])
        first.preempting = first.complete = False
        sink.start(run_config={**CONFIG, "epochs": 9})
        sink.scalars(2, {"loss": 2})
        sink.finish()
    run = server.run()
    assert steps(run) == [1, 2] and (run.exit_code, run.preempting) == (0, False)
    assert run.config == {**CONFIG, "epochs": 9}
    assert wandb_records.kinds(sink.file()).count("exit") == 1


def test_records_after_the_last_flush_are_stored_once_after_a_crash(server, run_dir):
    with Sink(run_dir, server.url) as sink:
        sink.start()
        sink.scalars(1, {"loss": 1})
        sink.flush()
        server.wait_for(lambda: server.runs and len(server.run().streams[HISTORY]) == 1)
        stored = sink.state
        sink.scalars(2, {"loss": 2})
        sink.call("text", time=START, level="info", line="two")
        sink.flush()  # the agent is killed before it stores this state
        server.wait_for(lambda: len(server.run().streams[HISTORY]) == 2)
        sink.scalars(3, {"loss": 3})
        sink.call("close")
        sink.state = stored
        sink.start()
        for step in (2, 3, 4):
            sink.scalars(step, {"loss": step})
            sink.call("text", time=START, level="info", line=f"line {step}")
        sink.finish()
    run = server.run()
    assert [(row["step"], row["loss"], row["_step"]) for row in run.history] == [(n, n, n - 1) for n in (1, 2, 3, 4)]
    assert [line.split(" ", 1)[1] for line in run.lines(CONSOLE)] == ["line 2", "line 3", "line 4"]
    assert run.num_lines_sent[HISTORY] > 4  # it was sent again, under the same numbers


def test_disabled_writes_nothing(run_dir):
    with Sink(run_dir, WANDB_MODE="disabled") as sink:
        sink.start()
        sink.scalars(1, {"loss": 1})
        sink.call("text", time=START, level="info", line="a")
        sink.finish()
    assert not list(run_dir.rglob("*.wandb"))


def test_wandb_dir_sets_the_location_of_the_file(run_dir, tmp_path):
    with Sink(run_dir, WANDB_MODE="offline", WANDB_DIR=str(tmp_path / "there")) as sink:
        sink.start()
        sink.scalars(1, {"loss": 1})
        sink.finish()
    (path,) = (tmp_path / "there/wandb").glob("offline-run-20261118_110640-*/run-*.wandb")
    assert [row["loss"] for row in wandb_records.rows(path)] == ["1"]
