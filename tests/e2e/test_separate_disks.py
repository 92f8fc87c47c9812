"""Several hosts without a shared file system: one run directory has everything, and its loss is detected."""

import shutil

import pytest

from cluster import GONE_S
from processes import TIMEOUT_S, find, wait_until
from safetensors_file import checkpoints

RANKS_PER_HOST = 2


@pytest.fixture
def disk_of_beta(job, cluster):
    """A private directory of beta at the path of the runs."""
    job.runs.mkdir()
    disk = job.directory / "disk of beta"
    disk.mkdir()
    cluster.hosts[1].mounts[job.runs] = disk
    return disk


def train(cluster, *overrides):
    """Returns the run directory once the agents, which may outlive the launchers, have exited too."""
    run = cluster.train(*overrides)
    wait_until(lambda: not find(cluster.job.directory), TIMEOUT_S, "the agents' end")
    return run


def test_logs_of_all_ranks_are_collected(job, disk_of_beta, cluster):
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
    # The sinks were written on the node with the run directory.
    assert len(list((run / "sinks" / "csv").glob("*/position.json"))) == 4
    assert not (apart / "sinks" / "csv").exists()
    assert not list(run.glob(".seen-by-*"))


def test_system_metrics_of_all_nodes_are_in_one_entry(disk_of_beta, cluster):
    run = train(cluster, "tracking.system_nodes=all", "tracking.sinks=[jsonl]")
    (file,) = (run / "sinks" / "jsonl").rglob("*.jsonl")
    text = file.read_text()
    assert "system/memory.percent" in text and "system/node-1/memory.percent" in text


@pytest.mark.parametrize("background", ["true", "false"])
def test_replaced_first_node_does_not_start_from_scratch(job, disk_of_beta, cluster, background):
    """Its checkpoints were on its own disk: the job reports that, and resumes once they are restored."""
    alpha, beta = cluster.hosts
    options = ["--run-id", "kept"]
    endless = ["train.epochs=1000000", "checkpoint.every=10 steps", f"checkpoint.async={background}"]
    endless.append("tracking.agent=false")  # that of beta would keep polling for the old alpha
    cluster.start_all(*endless, options=options)
    note = disk_of_beta / "kept" / "checkpoints-elsewhere.json"
    wait_until(note.exists, TIMEOUT_S, "beta has recorded a checkpoint")
    alpha.crash()
    assert cluster.finish(beta, GONE_S).code == 75
    cluster.finish(alpha, GONE_S)
    reached = checkpoints(job.runs / "kept")[-1]

    old = job.runs.rename(job.directory / "disk of the old alpha")
    job.runs.mkdir()  # on the new node
    cluster.start_all(*endless, options=options)
    ended = [cluster.finish(host, GONE_S) for host in cluster.hosts]
    assert [end.code for end in ended] == [78, 78], ended
    line = "run kept would start at step 0: rank 0 on alpha has no checkpoint of it, but beta has a note of checkpoints of step 10 and later"
    assert line in ended[0].err and "checkpoint.resume=never" in ended[0].err, ended[0].err
    assert f"in {job.runs}/kept/checkpoints on alpha" in ended[0].err
    assert not list(job.runs.glob("kept/checkpoints/[0-9]*"))

    shutil.copytree(old / "kept" / "checkpoints", job.runs / "kept" / "checkpoints", dirs_exist_ok=True)
    cluster.start_all(*endless, f"train.max_steps={reached + 20}", options=options)
    ended = [cluster.finish(host) for host in cluster.hosts]
    assert [end.code for end in ended] == [0, 0], ended
    assert f"step {reached + 20}/{reached + 20}" in ended[0].out
    assert min(step for step, _ in job.series("kept", "train/loss")) > reached


def test_resume_never_starts_from_scratch(job, disk_of_beta, cluster):
    short = ["train.epochs=1", "checkpoint.every=10 steps"]
    train(cluster, *short)
    (run,) = job.runs.iterdir()
    assert (disk_of_beta / run.name / "checkpoints-elsewhere.json").exists()
    shutil.rmtree(run)
    cluster.start_all(*short, "checkpoint.resume=never", options=["--run-id", run.name])
    ended = [cluster.finish(host) for host in cluster.hosts]
    assert [end.code for end in ended] == [0, 0], ended
