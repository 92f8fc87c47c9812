"""Several hosts that share no file system: one run directory still has everything."""

import pytest

from processes import PATIENCE_S, find, wait_until

RANKS_PER_HOST = 2


@pytest.fixture
def disk_of_beta(job, cluster):
    """Where alpha has the runs, beta has another directory."""
    job.runs.mkdir()
    disk = job.directory / "disk of beta"
    disk.mkdir()
    cluster.hosts[1].mounts[job.runs] = disk
    return disk


def train(cluster, *overrides):
    """Returns the run's directory when the agents, which may go on after the launchers, have ended too."""
    run = cluster.train(*overrides)
    wait_until(lambda: not find(cluster.job.directory), PATIENCE_S, "the agents' end")
    return run


def test_logs_of_all_ranks_come_together(job, disk_of_beta, cluster):
    run = train(cluster, "train.epochs=2", "train.log_every=1 step", "tracking.ranks=all", "tracking.sinks=[csv]")
    names = sorted(path.name for path in (run / "events").iterdir())
    assert names == ["node-00000.lsev", "node-00001.lsev", *(f"rank-0000{rank}.lsev" for rank in range(4))]
    (apart,) = disk_of_beta.iterdir()
    assert apart.name == run.name
    for name in ("rank-00002.lsev", "rank-00003.lsev", "node-00001.lsev"):
        assert (run / "events" / name).read_bytes() == (apart / "events" / name).read_bytes()
    entries = {entry["id"]: entry for entry in job.list()}
    assert {entry["state"] for entry in entries.values()} == {"finished"}
    for rank in range(4):
        entry = f"{run.name}-rank-{rank}"
        losses = [row for row in job.export(entry) if row["metric"] == "rank/loss"]
        assert [row["step"] for row in losses] == list(range(1, 43))
        assert ("system/memory.percent" in entries[entry]["summary"]) == (rank in (0, 2))
    # The sinks were fed where the run is.
    assert len(list((run / "sinks" / "csv").glob("*/position.json"))) == 4
    assert not (apart / "sinks" / "csv").exists()
    assert not list(run.glob(".seen-by-*"))


def test_system_metrics_of_all_nodes_come_with_the_one_entry(disk_of_beta, cluster):
    run = train(cluster, "tracking.system_nodes=all", "tracking.sinks=[jsonl]")
    (file,) = (run / "sinks" / "jsonl").rglob("*.jsonl")
    text = file.read_text()
    assert "system/memory.percent" in text and "system/node-1/memory.percent" in text
