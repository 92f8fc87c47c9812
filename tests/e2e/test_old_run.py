"""A run in the formats of version 0.1 is read and resumed; files of later versions are refused with one line.

tests/golden/0.1-run has the run (tests/golden/make_old_run.py). It was preempted in an early epoch of eight.
"""

import json
import shutil

import pytest
import yaml

import processes
from processes import LOCKSTEP, SOURCE
from safetensors_file import assert_usable, checkpoints, crc32c, floats, last_weights

GOLDEN = SOURCE / "tests" / "golden" / "0.1-run"
STEPS = 64
# What manifests of format 2 did not have.
SINCE_FORMAT_4 = ("shares", "early_stop", "evaluation_is_due", "gradient_order")


@pytest.fixture
def old_run(job):
    """The directory of a copy of the run; `job` has its run file."""
    (golden,) = GOLDEN.glob("old-*")
    run = job.runs / golden.name
    shutil.copytree(golden, run)
    job.config = yaml.safe_load((GOLDEN / "run.yaml").read_text())
    job.config["run"]["dir"] = str(job.runs)
    job.write()
    return run


def manifest_of(run):
    return run / "checkpoints" / str(checkpoints(run)[-1]) / "manifest.json"


def set_checkpoint_format(run, number, without=()):
    """Rewrites the manifest of the last checkpoint, with its checksum."""
    manifest = json.loads(manifest_of(run).read_text())
    content = {key: value for key, value in manifest["content"].items() if key not in without}
    assert manifest["crc32c"] == crc32c(json.dumps(manifest["content"], separators=(",", ":")).encode())
    content["format"] = number
    text = json.dumps(content, separators=(",", ":"))
    manifest_of(run).write_text(json.dumps({"crc32c": crc32c(text.encode()), "content": content}))


def set_log_format(run, number):
    log = run / "events" / "rank-00000.lsev"
    content = bytearray(log.read_bytes())
    assert content[:12] == b"LSEVENTS\1\0\0\0"
    content[8] = number
    log.write_bytes(content)
    return log


def resume(job, run, **how):
    return job.run(options=["--resume", run.name], **how)


def test_the_fixture_is_of_the_old_version():
    (run,) = GOLDEN.glob("old-*")
    assert not (run / "ends").exists(), "later versions record facts of witnesses"
    assert json.loads((run / "end.json").read_text())["confirmed"] is True
    assert "planned" not in (run / "events" / "rank-00000.lsev").read_bytes().decode("latin-1")
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert "hooks" not in config["train"] and "shard" not in config["distributed"]
    assert_usable(run)


def test_an_old_run_is_listed_shown_and_exported(job, old_run):
    (row,) = job.list()
    step = checkpoints(old_run)[-1]
    assert (row["id"], row["state"], row["exit"], row["step"]) == (old_run.name, "preempted", 143, step)
    assert row["planned"] == {"steps": None, "epochs": None}
    shown = job.query("show", old_run.name)
    assert f"preempted by SIGTERM after step {step} of {STEPS}, with a checkpoint" in shown
    assert f"checkpoints/{step}" in shown and "weight_decay_on" in shown
    losses = job.series(old_run.name, "train/loss")
    assert [at for at, _ in losses] == list(range(2, step + 1, 2))
    assert row["summary"]["train/loss"] == losses[-1][1]
    assert [at for at, _ in job.series(old_run.name, "eval/loss")] == list(range(8, step + 1, 8))


@pytest.mark.parametrize("number, without", [(4, ()), (3, ()), (2, SINCE_FORMAT_4)], ids=["4", "3", "2"])
def test_an_old_run_is_resumed(job, old_run, tmp_path_factory, number, without):
    from conftest import Job

    before = job.series(old_run.name, "train/loss")
    set_checkpoint_format(old_run, number, without)
    ended = resume(job, old_run)
    assert (ended.code, ended.err) == (0, "")
    assert [row["state"] for row in job.list()] == ["finished"]
    losses = job.series(old_run.name, "train/loss")
    assert [step for step, _ in losses] == list(range(2, STEPS + 1, 2))
    assert losses[: len(before)] == before
    assert_usable(old_run)
    assert checkpoints(old_run) == [STEPS]
    # It goes where an uninterrupted run goes. Another machine rounds differently.
    whole = Job(tmp_path_factory.mktemp("whole"))
    whole.config = {**job.config, "run": {**job.config["run"], "dir": str(whole.runs)}}
    whole.write()
    weights, expected = floats(last_weights(old_run)), floats(last_weights(whole.train()))
    assert weights.keys() == expected.keys()
    for name in expected:
        assert weights[name] == pytest.approx(expected[name], rel=1e-3, abs=1e-4), name


@pytest.mark.parametrize("number, version", [(1, "an earlier"), (6, "a later")])
def test_a_checkpoint_of_another_version_is_refused(job, old_run, number, version):
    set_checkpoint_format(old_run, number)
    ended = resume(job, old_run)
    assert ended.code == 78, ended.err
    assert len(ended.err.splitlines()) == 1
    problem = (f"{manifest_of(old_run)}: written by {version} version of Lockstep "
               f"(checkpoint format {number}; this one reads 2 to 5)")
    assert problem in ended.err
    assert len(checkpoints(old_run)) == 1, "the checkpoint is kept"
    (step,) = checkpoints(old_run)
    for command in ("list", "verify"):
        ended = processes.run([LOCKSTEP, "ckpt", command, old_run], job.directory)
        assert (ended.code, ended.err) == (78, ""), ended.out
        assert ended.out.strip() == f"{step}  OTHER VERSION: {problem}"
        (line,) = json.loads(processes.run([LOCKSTEP, "ckpt", command, old_run, "--json"], job.directory).out)
        assert (line["problem"], line["is_corrupt"]) == (problem, False)


def test_an_event_log_of_a_later_version_is_refused(job, old_run):
    log = set_log_format(old_run, 3)
    content = log.read_bytes()
    problem = "written by a later version of Lockstep (event log format 3; this one reads 2)"
    ended = resume(job, old_run)
    assert ended.code == 78, ended.err
    assert ended.err == f"lockstep-trainer: error: {log}: {problem}\n"
    assert log.read_bytes() == content
    note = f"note: {old_run.name}: {log.name}: {problem}\n"
    assert job.query("list").endswith(note) and job.query("show", old_run.name).endswith(note)
    ended = processes.run([LOCKSTEP, "runs", "export", old_run.name, "--dir", job.runs], job.directory)
    assert ended.err == note


def test_another_file_in_the_place_of_an_event_log_is_refused(job, old_run):
    log = old_run / "events" / "rank-00000.lsev"
    log.write_text("step,loss\n1,0.5\n2,0.25\n")
    ended = resume(job, old_run)
    assert ended.code == 78, ended.err
    assert ended.err == f"lockstep-trainer: error: {log}: not an event log\n"
