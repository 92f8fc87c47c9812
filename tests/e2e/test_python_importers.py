"""Importers of the Python client, of files that the real packages wrote: value by value."""

import json
import math
import os
import shutil
import sys
from pathlib import Path

import pytest

import lockstep
import processes
from lockstep.event_log.reader import read_log
from processes import LOCKSTEP


def imported(tmp_path, tracker, path):
    ended = processes.run([sys.executable, "-m", "lockstep.importers", tracker, path, "--dir", tmp_path / "runs"], tmp_path)
    assert ended.code == 0, ended.err
    return [lockstep.runs(tmp_path / "runs", id=run_id)[0] for run_id in ended.out.split()]


def values_of(run):
    table = run.metrics(format="lists")
    return sorted((name, step, str(value)) for name, step, value in zip(table["metric"], table["step"], table["value"]))


def exported(tmp_path, run):
    ended = processes.run([LOCKSTEP, "runs", "export", run.id, "--format", "jsonl", "--dir", tmp_path / "runs"], tmp_path)
    assert (ended.code, ended.err) == (0, "")
    return sorted((row["metric"], row["step"], str(float(row["value"]))) for row in map(json.loads, ended.out.splitlines()))


def test_event_files_of_tensorboard(tmp_path):
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    numpy = pytest.importorskip("numpy")
    for name in ("first", "second"):
        with tensorboard.SummaryWriter(tmp_path / "tb" / name) as writer:
            for step in range(20):
                writer.add_scalar("train/loss", 1 / (step + 3), step, walltime=1e9 + step)
                writer.add_scalar("train/new", step, step, new_style=True)
            writer.add_scalar("nan", math.nan, -1)
            writer.add_histogram("weights", numpy.array([0.0, 1, 1, 2]), 3)
            writer.add_image("image", numpy.zeros((3, 4, 5), "u1"), 4)
            writer.add_text("note", "hello", 5)
    runs = imported(tmp_path, "tensorboard", tmp_path / "tb")
    assert sorted(run.name for run in runs) == ["first", "second"]
    expected = [("train/loss", step, str(float(numpy.float32(1 / (step + 3))))) for step in range(20)]
    expected += [("train/new", step, str(float(step))) for step in range(20)] + [("nan", -1, "nan")]
    for run in runs:
        assert values_of(run) == exported(tmp_path, run) == sorted(expected)
        times = run.metrics("train/loss", format="lists")["time"]
        assert times == [1e9 + step for step in range(20)] and run.state == "finished"
        media = {value["name"]: value for path in Path(run.dir).glob("events/*") for _, value in read_log(str(path)).media}
        assert sum(media["weights"]["counts"]) == 4 and (media["image"]["width"], media["image"]["height"]) == (5, 4)
        assert [line for *_, line in run.texts()] == ["note/text_summary: hello"]


def test_steps_after_a_restart_replace_those_before(tmp_path):
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    for first, purge, number in ((0, None, 1.0), (3, 3, 2.0)):
        with tensorboard.SummaryWriter(tmp_path / "tb", purge_step=purge) as writer:
            for step in range(first, 5):
                writer.add_scalar("loss", number, step)
    (run,) = imported(tmp_path, "tensorboard", tmp_path / "tb")
    assert values_of(run) == exported(tmp_path, run) == [("loss", step, "1.0" if step < 3 else "2.0") for step in range(5)]


def test_images_and_histograms_as_tensorflow_2_writes_them(tmp_path):
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    numpy = pytest.importorskip("numpy")
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.histogram import metadata as histograms
    from tensorboard.plugins.image import metadata as images
    from tensorboard.util.tensor_util import make_tensor_proto

    png = lockstep.Image(numpy.zeros((4, 5), "u1")).png
    buckets = numpy.array([[0.0, 1.0, 2.0], [1.0, 3.0, 5.0]])
    with tensorboard.SummaryWriter(tmp_path / "tb") as writer:
        for step in range(2):
            values = [Summary.Value(tag="image", tensor=make_tensor_proto([b"5", b"4", png])),
                      Summary.Value(tag="pair", tensor=make_tensor_proto([b"5", b"4", png, png])),
                      Summary.Value(tag="weights", tensor=make_tensor_proto(buckets)), Summary.Value(tag="none", tensor=make_tensor_proto(buckets * 0))]
            if step == 0:  # TensorFlow leaves it out later
                for value, kind in zip(values, (images, images, histograms, histograms)):
                    value.metadata.CopyFrom(kind.create_summary_metadata(None, None))
            writer._get_file_writer().add_summary(Summary(value=values), step)
    (run,) = imported(tmp_path, "tensorboard", tmp_path / "tb")
    media = [value for _, value in read_log(str(next(Path(run.dir).glob("events/*")))).media]
    assert [(value["name"], value["step"]) for value in media] == [(name, step) for step in range(2) for name in ("image", "pair/0", "pair/1", "weights")]
    assert all((value["width"], value["height"], value["png"]) == (5, 4, png) for value in media if value["name"] != "weights")
    assert (media[3]["edges"], media[3]["counts"], run.texts()) == ([0, 1, 3], [2, 5], [])


def test_the_file_store_of_mlflow(tmp_path):
    mlflow = pytest.importorskip("mlflow")
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    try:
        client = mlflow.MlflowClient((tmp_path / "mlruns").as_uri())
        experiment = client.create_experiment("exp")
    except Exception as error:  # later versions have no file store
        pytest.skip(f"this MLflow has no file store: {error}")
    run_id = client.create_run(experiment, run_name="net 1", tags={"team": "a", "other tag": "x y"}).info.run_id
    client.log_param(run_id, "lr", 0.1)
    for step in range(5):
        client.log_metric(run_id, "train/loss", 1 / (step + 3), timestamp=1_700_000_000_000 + step, step=step)
    client.log_metric(run_id, "nan", math.nan, step=1)
    client.set_terminated(run_id, "FAILED")
    (run,) = imported(tmp_path, "mlflow", tmp_path / "mlruns")
    expected = [(metric.key, metric.step, str(metric.value)) for name in ("train/loss", "nan") for metric in client.get_metric_history(run_id, name)]
    assert values_of(run) == exported(tmp_path, run) == sorted(expected)
    assert (run.name, run.group, run.config, run.state, run.tags) == ("net 1", "exp", {"lr": "0.1"}, "failed", ["team=a"])
    assert run.metrics("train/loss", format="lists")["time"] == [1_700_000_000 + step / 1000 for step in range(5)]


def test_offline_files_of_wandb(tmp_path):
    pytest.importorskip("wandb")
    script = tmp_path / "script.py"
    script.write_text("""
import math, numpy, wandb
run = wandb.init(mode="offline", project="p", name="w", group="g", tags=["t"], notes="hello", config={"lr": 0.1, "net": {"width": 3}})
for step in range(50):
    run.log({"loss": 1 / (step + 3), "nested": {"a": step}, "text": "x" * 3000})
run.log({"loss": math.nan}, step=60)
run.define_metric("low", summary="min"), run.define_metric("both", summary="min,max")
run.log({"low": 1, "both": 1})
run.log({"low": 2, "both": 2, "h": wandb.Histogram(np_histogram=numpy.histogram([1, 2, 4], 4)), "img": wandb.Image(numpy.zeros((4, 5, 3), "u1"))})
run.summary["best"] = 0.25
run.finish()
""")
    ended = processes.run([sys.executable, script], tmp_path, processes.environment(WANDB_SILENT="true", WANDB_DIR=tmp_path, HOME=tmp_path))
    assert ended.code == 0, ended.err
    (tmp_path / "wandb" / "a.wandb").write_bytes(b"")
    ended = processes.run([sys.executable, "-m", "lockstep.importers", "wandb", "wandb", "--dir", "others"], tmp_path)
    assert (ended.code, len(ended.out.split()), ended.err) == (78, 1, "lockstep.importers: error: wandb/a.wandb: not a file of W&B\n")
    (tmp_path / "wandb" / "a.wandb").unlink()
    (run,) = imported(tmp_path, "wandb", tmp_path / "wandb")
    expected = [("loss", step, str(1 / (step + 3))) for step in range(50)] + [("nested/a", step, str(float(step))) for step in range(50)]
    assert values_of(run) == exported(tmp_path, run) == sorted([*expected, ("loss", 60, "nan"), *((name, 59 + value, f"{value}.0") for name in ("low", "both") for value in (1, 2))])
    assert (run.name, run.group, run.config, run.state, run.tags, run.note) == (
        "w", "g", {"lr": 0.1, "net": {"width": 3}}, "finished", ["t"], "hello")
    assert [run.summary[name] for name in ("best", "low", "both.min", "both.max")] == [0.25, 1, 1, 2]
    ((_, histogram),) = read_log(str(next(Path(run.dir).glob("events/*")))).media
    assert (histogram["name"], histogram["step"], histogram["counts"], histogram["edges"]) == ("h", 61, [1, 1, 0, 1], [1, 1.75, 2.5, 3.25, 4])


def test_a_line_of_mlflow_that_is_cut_off_is_left_out(tmp_path):
    folder = tmp_path / "mlruns" / "1" / "run"
    (folder / "metrics").mkdir(parents=True)
    (folder / "meta.yaml").write_text("run_name: net\nstatus: 3\n")
    (folder / "metrics" / "loss").write_text("1700000000000 0.5 1\n1700000000001 0.25 2\n17000")
    shutil.copytree(folder, folder.with_name("deleted"))
    (folder.with_name("deleted") / "meta.yaml").write_text("run_name: gone\nstatus: 3\nlifecycle_stage: deleted\n")
    ended = processes.run([sys.executable, "-m", "lockstep.importers", "mlflow", "mlruns"], tmp_path)
    assert ended.code == 0 and ended.err == ("lockstep: warning: mlruns/1/run/metrics/loss:3: expected a time, a value and a step; "
                                             "this line is not imported\n")
    (run,) = lockstep.runs(tmp_path / "runs")
    assert values_of(run) == [("loss", 1, "0.5"), ("loss", 2, "0.25")]


def test_bad_paths_are_one_line(tmp_path):
    (tmp_path / "x.wandb").write_text("no")
    for tracker, path, problem in [("wandb", "x.wandb", "not a file of W&B"), ("mlflow", "none", "does not exist"), ("tensorboard", ".", "no runs of")]:
        ended = processes.run([sys.executable, "-m", "lockstep.importers", tracker, path], tmp_path)
        assert ended.code == 78 and problem in ended.err and len(ended.err.splitlines()) == 1, ended.err
