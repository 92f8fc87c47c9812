"""The sink `bucket`: a run in a bucket of a real S3 server has the same bytes as its directory, whatever is killed meanwhile, and
`lockstep runs` and the dashboard read it there."""

import json
import os
import pty
import re
import shutil
import signal
import threading
import urllib.request

import pytest

import lockstep
import processes
from lockstep.event_log import frames, message_pack
from object_server import BUCKET
from processes import LOCKSTEP, TIMEOUT_S, environment, wait_until
from test_collector import ENDLESS, contents
from test_mcp import Client
from test_tracking import agents_of

KILLS = int(os.environ.get("LOCKSTEP_BUCKET_KILLS", "3"))  # the trainer restarts an agent as often


@pytest.fixture
def sent(job, server, request):
    """A job whose runs are sent to a bucket."""
    prefix = request.node.name
    job.place = f"s3://{BUCKET}/{prefix}"
    job.bucket = server.directory / BUCKET / prefix
    job.cache = job.directory / "cache"
    job.env = environment(**server.environment(XDG_CACHE_HOME=str(job.cache)))
    job.sink = f"tracking.sinks=[{{name: bucket, path: '{job.place}', every: 1 s}}]"
    yield job
    server.proxy.reset()


def runs(job, *words):
    return processes.run([LOCKSTEP, "runs", *words, "--dir", job.place], job.directory, job.env)


def states(job, *where):
    ended = processes.run([LOCKSTEP, "runs", "list", "--json", "--dir", *where], job.directory, job.env)
    assert ended.code == 0, ended.err
    return {entry["id"]: entry["state"] for entry in json.loads(ended.out)}


def copy_of(job, run):
    (directory,) = (job.cache / "lockstep/runs").iterdir()
    return directory / run


def pieces(folder):
    """{log: [(begin, end, path)]} of a run in the bucket, by begin and end."""
    logs = {}
    for path in folder.glob("events/*/*"):
        begin, end = path.name.split("-")
        logs.setdefault(path.parent.name, []).append((int(begin), int(end), path))
    return {name: sorted(found) for name, found in logs.items()}


def log_bytes(folder):
    return sum(max(end for _, end, _ in found) for found in pieces(folder).values())


def test_the_bucket_has_the_bytes_of_the_run_and_is_read_like_a_directory(sent):
    run = sent.train(sent.sink, "tracking.ranks=all", ranks=2, env=sent.env)
    wait_until(lambda: not agents_of(run), TIMEOUT_S, "the agent's end")
    for log, found in pieces(sent.bucket / run.name).items():
        assert b"".join(path.read_bytes() for _, _, path in found) == (run / "events" / log).read_bytes()
        assert [begin for begin, _, _ in found] == [0, *(end for _, end, _ in found[:-1])]  # nothing replaced is left
    assert states(sent, sent.place) == states(sent, sent.runs)
    assert contents(copy_of(sent, run.name)) == contents(run)
    words = ["export", run.name, "--format", "jsonl"]
    there = runs(sent, *words)
    here = processes.run([LOCKSTEP, "runs", *words, "--dir", sent.runs], sent.directory, sent.env)
    assert there.code == 0 and there.out == here.out != "", there.err
    assert runs(sent, "list", "--tag", "no-such-tag").out == "no run has the tag 'no-such-tag'\n"
    for words in (["show", run.name], ["watch", run.name, "--once"]):
        assert runs(sent, *words).code == 0
        ended = runs(sent, *[word.replace(run.name, "no-such-run") for word in words])
        assert ended.code == 78 and f"there is no run 'no-such-run' in '{sent.place}'" in ended.err, ended.err


def test_nothing_is_fetched_twice(sent, server):
    run = sent.train(sent.sink, env=sent.env)
    wait_until(lambda: not agents_of(run), TIMEOUT_S, "the agent's end")
    assert runs(sent, "list").code == 0
    server.proxy.reset()
    assert runs(sent, "list").code == 0
    assert [path for method, path, _ in server.proxy.requests if "list-type" not in path] == []
    server.proxy.reset()
    assert runs(sent, "show", run.name).code == 0
    listings = [path for _, path, _ in server.proxy.requests]
    assert listings and all(f"{run.name}%2F" in path for path in listings)  # not the objects of other runs


def test_a_log_that_grows_during_its_upload(sent, server):
    """Other logs do not wait for it, and its last two pieces stay until the next one is sent."""
    server.proxy.latency_s = 0.1
    training = sent.start(*ENDLESS, sent.sink, "tracking.system_every=1 s", env=sent.env)

    def is_seen():
        found = [(method, *log.groups()) for method, path, _ in server.proxy.requests
                 if method in ("PUT", "DELETE") and (log := re.search(r"/events/(\w+)-00000.lsev/(\d+)-\d+", path))]
        return any(found[i][:2] == ("PUT", "rank") and found[i] in found[:i] and found[i + 1][1] == "node" for i in range(len(found) - 1))

    try:
        wait_until(is_seen, TIMEOUT_S, "the log of the node after a longer piece of that of the rank")
    finally:
        server.proxy.latency_s = 0
    sent.query("stop", sent.only_run().name)
    assert processes.finish(training).code == 0


def test_kills_during_uploads_leave_a_run_that_can_be_read(sent, server):
    training = sent.start(*ENDLESS, sent.sink, "tracking.system_every=1 s", env=sent.env)
    wait_until(lambda: list(sent.runs.glob("*/run.json")), TIMEOUT_S, "the run")
    run_dir = sent.only_run()
    folder = sent.bucket / run_dir.name
    for _ in range(KILLS):
        before = log_bytes(folder)
        victims = []

        def kill(method, path, number):
            if method in ("PUT", "POST", "DELETE") and "/events/" in path and not victims and log_bytes(folder) > before:
                victims.extend(agents_of(run_dir))
                for agent in victims:
                    os.kill(agent, signal.SIGKILL)
                return "refuse"
            return None

        server.proxy.fault = kill
        wait_until(lambda: victims, TIMEOUT_S, "an upload to kill")
        server.proxy.reset()
        assert states(sent, sent.place) == {run_dir.name: "running"}
        written = (copy_of(sent, run_dir.name) / "events/rank-00000.lsev").read_bytes()
        assert (run_dir / "events/rank-00000.lsev").read_bytes().startswith(written)
        wait_until(lambda: set(agents_of(run_dir)) - set(victims), TIMEOUT_S, "another agent")
    sent.query("stop", run_dir.name)
    assert processes.finish(training).code == 0
    wait_until(lambda: not agents_of(run_dir), TIMEOUT_S, "the agent's end")
    assert states(sent, sent.place) == states(sent, sent.runs) == {run_dir.name: "finished"}
    assert contents(copy_of(sent, run_dir.name)) == contents(run_dir)


def test_a_resumed_run_on_another_machine_continues_its_records(sent, server):
    checkpoints = [f"checkpoint.mirror={sent.place}-checkpoints", "checkpoint.every=2 steps", "train.log_every=1 step"]
    run = sent.train(sent.sink, *checkpoints, "train.max_steps=4", env=sent.env)
    wait_until(lambda: not agents_of(run), TIMEOUT_S, "the agent's end")
    shutil.rmtree(run)
    ended = sent.run(sent.sink, *checkpoints, "train.max_steps=8", options=["--resume", run.name], env=sent.env)
    assert ended.code == 0, ended.err
    wait_until(lambda: not agents_of(run), TIMEOUT_S, "the agent's end")
    assert [step for step, _ in sent.series(run.name, "train/loss")] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert not (run / "received.json").exists()
    assert states(sent, sent.place) == states(sent, sent.runs) == {run.name: "finished"}
    assert contents(copy_of(sent, run.name)) == contents(run)


def test_a_run_that_was_replaced_or_removed(sent, server):
    run = sent.train(sent.sink, env=sent.env)
    wait_until(lambda: not agents_of(run), TIMEOUT_S, "the agent's end")
    assert states(sent, sent.place)
    other = sent.train(sent.sink, "run.seed=7", env=sent.env)
    wait_until(lambda: not agents_of(other), TIMEOUT_S, "the agent's end")
    shutil.rmtree(sent.bucket / run.name)
    shutil.move(sent.bucket / other.name, sent.bucket / run.name)
    assert set(states(sent, sent.place)) == {other.name}  # the records name it
    assert (copy_of(sent, run.name) / "events/rank-00000.lsev").read_bytes() == (other / "events/rank-00000.lsev").read_bytes()
    for name in ("received.json", "run.json"):  # a kill during the removal of a run
        (copy_of(sent, run.name) / name).unlink()
        assert set(states(sent, sent.place)) == {other.name}
    (copy_of(sent, run.name) / "received.json").unlink()
    shutil.rmtree(sent.bucket / run.name)
    ended = runs(sent, "show", run.name)
    assert ended.code == 78 and f"there is no run '{run.name}'" in ended.err, ended.err
    assert not copy_of(sent, run.name).exists()
    ended = runs(sent, "list")
    assert ended.code == 78 and f"{sent.place}: has no runs" in ended.err, ended.err
    assert not copy_of(sent, run.name).exists()


def test_sync_sends_a_recorded_run_and_its_later_tags(sent, server):
    run = sent.train(env=sent.env)
    sync = [LOCKSTEP, "sync", run, "--sink", f"{{name: bucket, path: '{sent.place}'}}"]
    assert processes.run(sync, sent.directory, sent.env).code == 0
    assert states(sent, sent.place) == states(sent, sent.runs)
    sent.query("tag", run.name, "+good")
    assert runs(sent, "list", "--tag", "good").out.startswith("no run")
    assert processes.run(sync, sent.directory, sent.env).code == 0
    assert json.loads(runs(sent, "list", "--tag", "good", "--json").out)[0]["id"] == run.name


def test_options_in_the_path(sent, server):
    """Other settings of the environment, which are known later than the path, are added."""
    place = f"{sent.place}?endpoint_override=127.0.0.1:{server.proxy.port}&scheme=http"
    env = {name: value for name, value in sent.env.items() if name != "AWS_ENDPOINT_URL"}
    run = sent.train(f"tracking.sinks=[{{name: bucket, path: '{place}'}}]", env=env)
    wait_until(lambda: not agents_of(run), TIMEOUT_S, "the agent's end")
    ended = processes.run([LOCKSTEP, "runs", "list", "--json", "--dir", place], sent.directory, env)
    assert [entry["id"] for entry in json.loads(ended.out)] == [run.name], ended.err
    states(sent, sent.place)
    assert len(list((sent.cache / "lockstep/runs").iterdir())) == 2
    ended = sent.run(f"tracking.sinks=[{{name: bucket, path: '{sent.place}?endpoint=x'}}]", env=env)
    assert ended.code == 78 and "unknown option 'endpoint'" in ended.err, ended.err


def test_a_bucket_that_cannot_be_used_does_not_end_the_training(sent):
    assert sent.run("tracking.sinks=[{name: bucket, path: 's3://no-such-bucket/x'}]", "train.max_steps=2", env=sent.env).code == 0


def test_objects_that_no_sink_has_written(sent, server):
    """Names that lead elsewhere, large files, invalid content and gaps: skipped, or one line, and other runs are shown."""
    run = sent.train(sent.sink, env=sent.env)
    wait_until(lambda: not agents_of(run), TIMEOUT_S, "the agent's end")
    prefix = sent.bucket.name
    log = (run / "events/rank-00000.lsev").read_bytes()
    for name, content in {"odd/run.json": b"{", "odd/events/rank-00000.lsev/0-16": log[:16], "large/run.json": b" " * (300 << 10),
                          "large/events/rank-00000.lsev/0-16": log[:16], "new/run.json": (run / "run.json").read_bytes(),
                          "new/events/node-00000.lsev/0-16": log[:16],
                          f"gap/events/rank-00000.lsev/64-{len(log)}": log[64:], "gap/run.json": (run / "run.json").read_bytes(),
                          "gap/events/rank-00000.lsev/0-9999": log[:64], "gap/events/..lsev/0-64": log[:64],
                          "gap/checkpoints/x": b"x", "gap/events/rank-00000.lsev/a-b": b"x", ".hidden/run.json": b"{}"}.items():
        server.put(f"{prefix}/{name}", content)
    ended = runs(sent, "list", "--json")
    listed = [entry["id"] for entry in json.loads(ended.out)]
    assert ended.code == 0 and run.name in listed and "new" not in listed, ended.err  # its rank's log is not there yet
    assert len(ended.err.splitlines()) == 2 and "odd: " in ended.err and "large: " in ended.err, ended.err
    server.proxy.reset()
    assert runs(sent, "list", "--json").err == ended.err
    assert [path for _, path, _ in server.proxy.requests if "list-type" not in path] == []  # nothing is fetched again
    allowed = {"run.json", "config.yaml", "data.json", "software.json", "received.json", "events", "rank-00000.lsev", "node-00000.lsev"}
    copies = copy_of(sent, run.name).parent
    assert {path.name for run_copy in copies.iterdir() if run_copy.is_dir() for path in run_copy.rglob("*")} <= allowed


def test_paths_that_are_refused(sent):
    for words, text in ((["tag", "x", "+good"], "runs in a bucket can be read only"), (["delete", "x"], "can be read only")):
        ended = runs(sent, *words)
        assert ended.code == 78 and text in ended.err and len(ended.err.splitlines()) == 1, ended.err
    ended = processes.run([LOCKSTEP, "artifacts", "list", "--dir", sent.place], sent.directory, sent.env)
    assert ended.code == 78 and "the sink `bucket` sends no artifacts" in ended.err, ended.err
    ended = processes.run([LOCKSTEP, "runs", "list", "--dir", "s3://no-such-bucket"], sent.directory, sent.env)
    assert ended.code == 78 and "no such bucket" in ended.err, ended.err
    ended = sent.run("tracking.sinks=[{name: bucket, path: runs}]", env=sent.env)
    assert ended.code == 78 and "'runs' is not in a bucket; valid: s3://bucket/prefix" in ended.err, ended.err


def test_the_dashboard_follows_a_run_in_a_bucket(sent, server):
    training = sent.start(*ENDLESS, sent.sink, env=sent.env)
    wait_until(lambda: list(sent.bucket.glob("*/events/rank-00000.lsev/*")), TIMEOUT_S, "the run in the bucket")
    ui = processes.start([LOCKSTEP, "ui", "--dir", sent.place], sent.directory, sent.env)
    try:
        line = ui.stdout.readline()
        link = re.search(r"http://\S+", line)[0]
        assert sent.place in line

        def state():
            with urllib.request.urlopen(f"{link}api/runs", timeout=TIMEOUT_S) as answer:
                return [run["state"] for run in json.load(answer)["runs"]]

        wait_until(lambda: state() == ["running"], TIMEOUT_S, "the run in the dashboard")
        # The same directory, which the dashboard keeps in step.
        wait_until(lambda: list(states(sent, sent.place).values()) == ["running"], TIMEOUT_S, "the run in the list")
        assert runs(sent, "show", sent.only_run().name).code == 0
        sent.query("stop", sent.only_run().name)
        assert processes.finish(training).code == 0
        wait_until(lambda: state() == ["finished"], TIMEOUT_S, "the end of the run in the dashboard")
    finally:
        ui.kill()
        ui.communicate(timeout=TIMEOUT_S)


def test_the_python_client_and_assistants_read_a_bucket(sent, server, monkeypatch, capsys):
    first = sent.train(sent.sink, env=sent.env)
    training = sent.start(*ENDLESS, sent.sink, "run.name=endless", env=sent.env)
    wait_until(lambda: list(sent.bucket.glob("endless*/events/rank-00000.lsev/*")), TIMEOUT_S, "the run in the bucket")
    for name, value in sent.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{os.path.dirname(LOCKSTEP)}:{sent.env['PATH']}")

    def stored():
        return {run.id: run for run in lockstep.runs(sent.place)}

    wait_until(lambda: len(stored()) == 2, TIMEOUT_S, "both runs")
    (run,) = lockstep.runs(sent.place, id=first.name, state="finished")
    (here,) = lockstep.runs(sent.runs, id=first.name)
    assert run.metrics(format="lists") == here.metrics(format="lists") and run.summary == here.summary and run.config == here.config
    (endless,) = lockstep.runs(sent.place, name="endless", state="running")

    client = Client(sent.directory, sent.place, sent.env)
    assert sent.place in client.initialize()["instructions"]
    assert {entry["id"]: entry["state"] for entry in client.call("list_runs")["runs"]} == {first.name: "finished", endless.id: "running"}
    sent.query("stop", endless.id)
    assert processes.finish(training).code == 0
    wait_until(lambda: client.call("describe_run", run=endless.id)["state"] == "finished", TIMEOUT_S, "the end of the run")
    ended = processes.finish(client.process)
    assert ended.code == 0 and f"serves the runs of {sent.place}" in ended.err, ended.err
    assert endless.state == "running"
    endless.refresh()
    assert endless.state == "finished" and endless.summary == lockstep.runs(sent.runs, id=endless.id)[0].summary

    server.put(f"{sent.bucket.name}/odd/run.json", b"{")
    server.put(f"{sent.bucket.name}/odd/events/rank-00000.lsev/0-16", b"0" * 16)
    capsys.readouterr()
    assert len(stored()) == 2 and "odd: " in capsys.readouterr().err
    with pytest.raises(OSError, match="^s3://no-such-bucket: no such bucket"):
        lockstep.runs("s3://no-such-bucket")
    shutil.rmtree(sent.bucket / endless.id)
    with pytest.raises(OSError, match=f"there is no run '{endless.id}'"):
        endless.refresh()


def test_files_with_other_types_do_not_hide_runs_from_the_python_client(sent, server, monkeypatch):
    """Valid JSON, and maps and lists of an event log in places of each other."""
    for name, value in {**sent.env, "PATH": f"{os.path.dirname(LOCKSTEP)}:{sent.env['PATH']}"}.items():
        monkeypatch.setenv(name, value)
    odd = frames.HEADER + b"".join(frames.frame(kind, message_pack.packed([1])) for kind in (frames.IDENTITY, frames.CONFIG, frames.SUMMARY))
    for job in ('{"name": ["x"], "group": 7, "created": "abc"}', '{"created": 1e300}', "[]"):
        name = f"run-{len(job)}"
        for file, content in {"run.json": job.encode(), "tags.json": b'{"tags": 5, "note": []}', f"events/rank-00000.lsev/0-{len(odd)}": odd}.items():
            server.put(f"{sent.bucket.name}/{name}/{file}", content)
    found = lockstep.runs(sent.place)
    assert len(found) == 3
    assert [run.id for run in lockstep.runs(sent.place, tag="good")] == []
    assert {(row["id"], row["name"], row["group"], row["created"]) for row in found.rows()} == {(run.id, run.id, None, 0) for run in found}
    assert all("expected a map" in run.problems[0] and run.note == "" for run in found)


def test_errors_of_the_command_are_those_of_the_python_client(tmp_path, monkeypatch, capsys):
    """A warning before the error, and a command without a message, in the directory of the interpreter."""
    command = tmp_path / "lockstep"
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for script, message in (("echo lockstep: warning: a >&2; echo lockstep: error: b >&2; exit 1", "b"), ("kill -9 $$", "s3://b: lockstep ended with code -9")):
        command.write_text(f"#!/bin/sh\n{script}\n")
        command.chmod(0o755)
        with pytest.raises(OSError, match=f"^{message}$"):
            lockstep.runs("s3://b")
    assert capsys.readouterr().err == "lockstep: warning: a\n"


def collect(terminal, parts):
    """Until it is closed; without a reader, the writer would wait."""
    try:
        while True:
            parts.append(os.read(terminal, 4096))
    except OSError:
        pass


def test_commands_do_not_wait_for_the_end_of_another(sent, server):
    training = sent.start(*ENDLESS, sent.sink, env=sent.env)
    wait_until(lambda: list(sent.bucket.glob("*/events/rank-00000.lsev/*")), TIMEOUT_S, "the run in the bucket")
    terminal, stdout = pty.openpty()
    watch = processes.start([LOCKSTEP, "runs", "watch", sent.only_run().name, "--dir", sent.place], sent.directory, sent.env, stdout=stdout)
    shown = []
    reader = threading.Thread(target=collect, args=(terminal, shown))
    reader.start()
    try:
        wait_until(lambda: b"running" in b"".join(shown), TIMEOUT_S, "the run in the terminal")
        assert list(states(sent, sent.place).values()) == ["running"]
        assert runs(sent, "show", sent.only_run().name).code == 0
        watch.send_signal(signal.SIGINT)
        assert watch.wait(timeout=TIMEOUT_S) == 0
        assert list(states(sent, sent.place).values()) == ["running"]
    finally:
        watch.kill()
        watch.communicate(timeout=TIMEOUT_S)
        os.close(stdout)
        reader.join(timeout=TIMEOUT_S)
        os.close(terminal)
    sent.query("stop", sent.only_run().name)
    assert processes.finish(training).code == 0


@pytest.mark.parametrize("words", (["ui"], ["runs", "watch", "x"]))
def test_a_signal_ends_the_first_fetch(sent, server, words):
    server.proxy.fault = lambda method, path, number: "503"
    started = processes.start([LOCKSTEP, *words, "--dir", sent.place], sent.directory, sent.env)
    wait_until(lambda: len(server.proxy.requests) > 1, TIMEOUT_S, "requests")
    started.send_signal(signal.SIGINT)
    ended = processes.finish(started)
    assert ended.code == 0 and ended.out == ended.err == "", ended  # not the failure of the requests


@pytest.mark.parametrize("request_first", (False, True))
def test_a_client_that_leaves_ends_the_first_fetch_of_mcp(sent, server, request_first):
    server.proxy.fault = lambda method, path, number: "503"
    client = Client(sent.directory, sent.place, sent.env)
    wait_until(lambda: len(server.proxy.requests) > 1, TIMEOUT_S, "requests")
    if request_first:  # a client that no longer waits for the answer
        client.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "server/discover"}))
        client.process.stdout.close()
    client.process.stdin.close()
    assert client.process.wait(timeout=TIMEOUT_S) == 0
    client.process.stderr.close()
