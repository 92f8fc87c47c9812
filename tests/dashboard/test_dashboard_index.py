"""The index of runs that are over: a restarted dashboard shows all runs immediately, and the logs take precedence over the index."""

import json
import os
import pathlib
import random
import re
import shutil
import subprocess

import pytest

from conftest import LOCKSTEP, LogWriter

RUNS = 220  # with fewer there is no index


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """`RUNS` runs to be copied, because writing them is slow on a disk with slow syncs."""
    path = tmp_path_factory.mktemp("prepared")
    writer = LogWriter(path)
    for i in range(RUNS):
        writer.finished_run(f"run-{i:03}", config={"optimizer": {"lr": i / 10}}, created=1000.0 + i, planned_steps=200, group="even" if i % 2 == 0 else "odd")
    writer.close()
    return path


@pytest.fixture
def filled(runs, prepared, start):
    """A copy of the `RUNS` runs, with its own inodes, and the index that a dashboard wrote for it."""
    shutil.copytree(prepared, runs, dirs_exist_ok=True)
    dashboard = start()
    dashboard.wait_for_runs(RUNS)
    index = runs / ".dashboard" / "index"
    dashboard.wait_for("the index", index.exists)
    rows = table(dashboard)
    reads = num_reads(dashboard)
    dashboard.end()
    return index, rows, reads


def table(dashboard):
    """All rows without their version, which is not persistent."""
    rows = dashboard.get("/api/runs", limit=1000, column=["config.optimizer.lr", "train/loss", "min(train/loss)", "mean(train/loss)"])["runs"]
    return [{name: value for name, value in row.items() if name != "version"} for row in rows]


def num_reads(dashboard):
    return int(re.search(r"syscr: (\d+)", pathlib.Path(f"/proc/{dashboard.process.pid}/io").read_text()).group(1))


def checked(dashboard):
    """Waits until the files of all runs have been checked."""
    dashboard.wait_for("all runs to be checked", lambda: (at := dashboard.get("/api/server")["indexing"])["done"] == at["total"] > 0)
    return dashboard


def test_a_restart_shows_the_same_runs_without_reading_the_logs(runs, filled, start):
    index, rows, reads = filled
    before = index.read_bytes()
    (index.parent / "index.tmp-2000000000").write_text("left by a process that was killed while writing")
    other = index.parent / f"index.tmp-{os.getpid()}"
    other.write_text("of a process that is writing")
    dashboard = checked(start())
    assert table(dashboard) == rows and len(rows) == RUNS
    assert num_reads(dashboard) < reads / 4
    assert dashboard.get("/api/runs/run-007")["config"] == {"optimizer": {"lr": 0.7}}
    assert dashboard.get("/api/series", run="run-007", metric="train/loss")["series"][0]["total"] == 100
    assert dashboard.get("/api/runs", filter="group = odd config.optimizer.lr > 20")["matching"] == 10
    dashboard.end()
    assert index.read_bytes() == before, "without changes, the index is not written"
    assert {path.name for path in index.parent.iterdir()} == {"index", other.name}


def test_changes_between_two_starts_are_detected(runs, filled, start):
    shutil.rmtree(runs / "run-001")
    (runs / "run-002" / "tags.json").write_text(json.dumps({"tags": ["new"], "note": "later"}))
    again = LogWriter(runs)
    log, = again.run("run-003")  # resumed
    again.do("many", log=log, metrics=["train/loss"], **{"from": 100, "to": 200})
    again.do("end", log=log, state="failed", exit=78)
    again.finished_run("run-new")
    again.close()
    corrupt = runs / "run-004/events/rank-00000.lsev"
    corrupt.write_bytes(corrupt.read_bytes()[:-1000])
    rows = {row["id"]: row for row in table(checked(start()))}
    assert len(rows) == RUNS and "run-001" not in rows and "run-new" in rows
    assert rows["run-002"]["tags"] == ["new"] and rows["run-002"]["note"] == "later"
    assert (rows["run-003"]["state"], rows["run-003"]["exit"], rows["run-003"]["step"]) == ("failed", 78, 199)
    assert "corrupt" in rows["run-004"]["problems"][0]


def test_a_file_that_is_changed_in_place_is_read_again(runs, writer, start):
    writer.finished_run("one")
    tags = runs / "one" / "tags.json"
    tags.write_text('{"tags": "not a list"}')
    dashboard = start()

    def row():
        return dashboard.get("/api/runs")["runs"][0]

    dashboard.wait_for_runs(1)
    assert "tags.json" in row()["problems"][0]
    with tags.open("r+") as file:  # the same inode: neither the directory nor a log changes
        file.truncate()
        file.write('{"tags": ["fixed"], "note": ""}')
    dashboard.wait_for("the tags", lambda: row()["tags"] == ["fixed"])
    assert row()["problems"] == []


def test_the_index_can_be_deleted_corrupt_or_not_writable(runs, filled, start):
    index, rows, _ = filled
    good = index.read_bytes()
    dice = random.Random(3)
    flipped = bytearray(good)
    for at in dice.sample(range(len(good)), 40):
        flipped[at] ^= 1 << dice.randrange(8)
    for bad in (b"", b"LSRUNIDX", good[:12], good[: len(good) // 2], bytes(flipped), b"\xff" * 10_000, good[:8] + b"\x7f" + good[9:]):
        index.write_bytes(bad)
        dashboard = checked(start())
        assert table(dashboard) == rows
        dashboard.end()
    shutil.rmtree(index.parent)
    index.parent.write_text("a file in place of the directory")
    dashboard = checked(start())
    assert table(dashboard) == rows
    dashboard.end()
    index.parent.unlink()
    dashboard = checked(start())
    dashboard.wait_for("the index", index.exists)
    assert table(dashboard) == rows
    assert len(index.read_bytes()) == len(good)


def test_a_read_only_dashboard_writes_no_index(runs, filled, start):
    index, rows, _ = filled
    shutil.rmtree(index.parent)
    dashboard = checked(start("--read-only"))
    assert table(dashboard) == rows
    dashboard.write("DELETE", "/api/runs/run-000", {"confirm": "run-000"})
    assert not index.parent.exists()


def test_the_runs_command_has_the_same_output_without_the_index_and_does_not_write_it(runs, filled):
    index, _, _ = filled
    good = index.read_bytes()

    def listed(*words):
        return subprocess.run([LOCKSTEP, "runs", *words, "--dir", runs], capture_output=True, check=True).stdout

    both = [listed("list"), listed("list", "--json"), listed("show", "run-007", "--json")]
    assert len(json.loads(both[1])) == RUNS
    for bad in (b"", good[: len(good) // 2], b"\xff" * 10_000):
        index.write_bytes(bad)
        assert [listed("list"), listed("list", "--json"), listed("show", "run-007", "--json")] == both
        assert index.read_bytes() == bad
    shutil.rmtree(index.parent)
    assert [listed("list"), listed("list", "--json"), listed("show", "run-007", "--json")] == both
    assert not index.parent.exists()
