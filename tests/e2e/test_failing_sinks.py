"""Sinks whose servers fail in every way: training ends in time, nothing is lost, and `lockstep sync` completes the upload."""

import contextlib
import json
import os
import sys
import time
from pathlib import Path

import pytest

import processes
from conftest import long
from processes import LOCKSTEP, TIMEOUT_S, SOURCE, wait_until
from test_disk import Disk
from test_tracking import agents_of, jsonl_records, logged, of_csv, of_jsonl, of_tensorboard

for part in ("mlflow", "wandb"):
    sys.path.insert(0, str(SOURCE / "tests" / "tracking" / part))
import mlflow_server  # noqa: E402
import wandb_records  # noqa: E402
from fault_proxy import HANG, PASS, FaultProxy  # noqa: E402
from receiver import SECRET, Receiver  # noqa: E402
from wandb_server import KEY, WandbServer  # noqa: E402

TOKENS = {"WANDB_API_KEY": KEY, "MLFLOW_TRACKING_TOKEN": "mlflow-s3cret", "LOCKSTEP_PROMETHEUS_TOKEN": "prometheus-s3cret"}
FINISH_TIMEOUT_S = 2


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory):
    with mlflow_server.mlflow_server(tmp_path_factory.mktemp("mlflow")) as address:
        yield address


class Servers:
    """Three servers, each behind a proxy that fails on request of the test."""

    def __init__(self, stack, mlflow, down):
        self.wandb, self.receiver = stack.enter_context(WandbServer()), stack.enter_context(Receiver())
        targets = {"mlflow": mlflow, "wandb": self.wandb.url, "webhook": self.receiver.host}
        self.proxies = {name: stack.enter_context(FaultProxy(target, down=down)) for name, target in targets.items()}
        self.in_flight, self.finishes_requests = [], False
        for proxy in self.proxies.values():
            self.watch(proxy.http.RequestHandlerClass)

    def watch(self, handler):
        def handle(request):
            self.in_flight.append(request)
            try:
                handler.handle_any(request)
            finally:
                self.in_flight.remove(request)

        handler.do_GET = handler.do_POST = handler.do_PUT = handle

    def fail(self, fault):
        self.finishes_requests = fault == "slow"
        for proxy in self.proxies.values():
            proxy.rule = {"hanging": lambda *_: HANG, "slow": lambda *_: PASS if not proxy.over.wait(0.5) else HANG,
                          "answering 500": lambda *_: 500, "refusing the token": lambda *_: 401}[fault]

    def heal(self):
        for proxy in self.proxies.values():
            proxy.rule = lambda *_: PASS
            if proxy.down:
                proxy.come_up()
        if self.finishes_requests:  # the server may create the run after the agent that requested it has exited
            wait_until(lambda: not self.in_flight, TIMEOUT_S, "the requests in flight")

    def sinks(self, experiment):
        return [{"name": "mlflow", "tracking_uri": self.proxies["mlflow"].url, "experiment": experiment, "timeout": "1 s"},
                {"name": "wandb", "base_url": self.proxies["wandb"].url, "upload_every": 1, "finish_timeout": 3},
                {"name": "webhook", "events": ["alerts", "end"], "timeout": "1 s"}]

    def environment(self):
        """The environment of a user who has the W&B client installed and is logged in to all servers."""
        return processes.environment(**TOKENS, PATH=os.pathsep.join([str(SOURCE / ".venv" / "bin"), os.environ["PATH"]]),
                                     LOCKSTEP_WEBHOOK_URL=f"{self.proxies['webhook'].url}/services/{SECRET}")


def train(job, environment=None):
    """A run whose sinks fail. It ends in time: after its last record, the programs may take FINISH_TIMEOUT_S for the sinks plus
    5 s, or, on a slow machine, plus the time up to the last record."""
    begin = time.time()
    ended = processes.finish(job.start(ranks=2, env=environment))
    end = time.time()
    assert ended.code == 0, ended.err
    run_dir = job.only_run()
    last = max(row["time"] for row in job.export(run_dir.name) if not row["metric"].startswith("system/"))
    assert end - last < FINISH_TIMEOUT_S + max(5, last - begin)
    return ended, run_dir


def problems(run_dir):
    """{sink: problem} of incomplete sinks, as recorded by the agent so far."""
    status = run_dir / "sinks" / "agent-00000.json"
    sinks = json.loads(status.read_text())["sinks"] if status.exists() else []
    return {sink["name"]: sink["problem"] for sink in sinks if not sink["complete"]}


def sync(job, run_dir, environment=None):
    wait_until(lambda: not agents_of(run_dir), TIMEOUT_S, "the agent's end")
    ended = processes.run([LOCKSTEP, "sync", run_dir], job.directory, environment)
    assert ended.code == 0, ended.err
    return ended


def by_metric(values):
    found = {}
    for (metric, step), value in values.items():
        found.setdefault(metric, {})[step] = value
    return found


def check_mlflow(mlflow, experiment, run_dir, expected):
    (run,) = mlflow_server.runs_of(mlflow, experiment)
    assert mlflow_server.pairs(run, "tags")["lockstep.run_id"] == run_dir.name
    assert run["info"]["status"] == "FINISHED"
    for metric, values in by_metric(expected).items():
        points = mlflow_server.history(mlflow, run, metric)
        assert {step: value for step, _, value in points} == pytest.approx(values) and len(points) == len(values)


def check_wandb(server, run_dir, expected):
    assert list(server.runs) == [run_dir.name]
    run = server.run()
    assert run.complete and run.exit_code == 0
    for metric, values in by_metric(expected).items():
        rows = [row for row in run.history if metric in row]
        assert {row["step"]: row[metric] for row in rows} == pytest.approx(values) and len(rows) == len(values)


def check_webhook(receiver, run_dir):
    alerts = [record["title"] for record in jsonl_records(run_dir, run_dir.name) if record["type"] == "alert"]
    # A message whose response was lost is sent again with the same id (docs/sinks/webhook.md).
    messages = {body["id"]: body for *_, status, body in receiver.received if status == 200}
    assert alerts and [body.get("title", body["event"]) for body in messages.values()] == [*alerts, "end"]
    assert list(messages) == [f"{run_dir.name}/{i + 1}" for i in range(len(messages))]


def check_secrets(job, output):
    """Neither on the console nor in any file: logs, the resolved config, sinks' files, artifacts."""
    secrets = [SECRET, *TOKENS.values()]
    assert not [secret for secret in secrets if secret in output]
    for path in job.directory.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert not [secret for secret in secrets if secret.encode() in content], f"a secret is in {path}"


@pytest.mark.parametrize("fault", ["down", "hanging", long("slow"), "answering 500", "refusing the token"])
def test_failing_servers(job, mlflow, fault):
    experiment = fault.replace(" ", "-")
    with contextlib.ExitStack() as stack:
        servers = Servers(stack, mlflow, down=fault == "down")
        if fault != "down":
            servers.fail(fault)
        job.config["tracking"] = {
            "sinks": ["console", "jsonl", {"name": "prometheus", "port": 0}, *servers.sinks(experiment)],
            "finish_timeout": f"{FINISH_TIMEOUT_S} s", "upload_timeout": "3 s", "checkpoints": "last",
            "alerts": {"conditions": ["train/lr > 0"]}}
        job.config["train"]["log_every"] = "3 steps"
        job.write()
        environment = servers.environment()
        ended, run_dir = train(job, environment)
        expected = logged(job, run_dir.name)
        wait_until(lambda: not agents_of(run_dir), TIMEOUT_S, "the agent's end")
        if fault != "slow":
            assert f"lockstep sync {run_dir}" in ended.out
            assert problems(run_dir).keys() >= {"mlflow", "wandb", "webhook"}
        assert of_jsonl(run_dir, run_dir.name) == expected  # a working sink has everything

        servers.heal()
        output = ended.out + ended.err
        for _ in range(2):
            done = sync(job, run_dir, environment)
            assert "mlflow: complete" in done.out and "wandb: complete" in done.out and "webhook: complete" in done.out
            output += done.out + done.err
        check_mlflow(mlflow, experiment, run_dir, expected)
        check_wandb(servers.wandb, run_dir, expected)
        check_webhook(servers.receiver, run_dir)
        check_secrets(job, output)


def test_full_disk_of_sinks(job, nothing_keeps_running):
    disk = Disk(job.directory / "disk")
    disk.mount("size=64k")
    try:
        (disk.path / "filler").write_bytes(bytes(60 << 10))
        sinks = [{"name": "csv", "path": str(disk.path / "metrics.csv")}, {"name": "jsonl", "path": str(disk.path / "records.jsonl")},
                 {"name": "tensorboard", "dir": str(disk.path / "tensorboard")}, {"name": "wandb", "mode": "offline"}]
        job.config["tracking"] = {"sinks": ["console", *sinks], "finish_timeout": f"{FINISH_TIMEOUT_S} s", "upload_timeout": "5 s"}
        job.config["train"]["log_every"] = "1 step"
        job.write()
        environment = processes.environment(WANDB_DIR=str(disk.path))
        ended, run_dir = train(job, environment)
        assert f"lockstep sync {run_dir}" in ended.out
        # An agent without CPU time has not tried to write yet.
        full = "No space left on device"
        wait_until(lambda: any(full in problem for problem in problems(run_dir).values()), TIMEOUT_S, "the problem of a sink")
        (disk.path / "filler").unlink()
        disk.mount("size=16m")
        sync(job, run_dir, environment)
        expected = logged(job, run_dir.name)
        place = run_dir / "sinks"
        for sink, name in (("csv", "metrics.csv"), ("jsonl", "records.jsonl")):
            os.symlink(disk.path / name, place / sink / run_dir.name / name)
        os.symlink(disk.path / "tensorboard", run_dir / "tensorboard")
        assert of_csv(run_dir, run_dir.name) == expected
        assert of_jsonl(run_dir, run_dir.name) == expected
        assert of_tensorboard(run_dir, run_dir.name) == pytest.approx(expected, rel=1e-6)
        (file,) = disk.path.rglob("*.wandb")
        steps = {step for metric, step in expected if metric == "train/loss"}
        assert {int(row["step"]) for row in wandb_records.rows(file) if "train/loss" in row} == steps
    finally:
        disk.unmount()


@pytest.mark.parametrize("url", [f"https://hooks.example.com/services/T0/B0/{KEY}", f"http://ada:{KEY}@host", f"https://host/?token={KEY}"])
@pytest.mark.parametrize("sink, key", [("webhook", "url"), ("mlflow", "tracking_uri"), ("wandb", "base_url"), ("otlp", "endpoint")])
def test_secret_in_run_file_is_rejected_before_it_is_recorded(job, sink, key, url):
    job.config["tracking"] = {"sinks": ["console", {"name": sink, key: url}]}
    job.write()
    ended = job.run()
    assert ended.code == 78
    assert "contains a secret" in ended.err and f"tracking.sinks[1].{key}" in ended.err
    assert KEY not in ended.err + ended.out
    assert not job.runs.exists()


def cpu_seconds(pid):
    """CPU time of a process and its reaped children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def test_agent_with_failing_sinks_uses_little_cpu(job, mlflow):
    """Measures the agent only; it also runs at low priority."""
    with contextlib.ExitStack() as stack:
        servers = Servers(stack, mlflow, down=True)
        job.config["tracking"] = {"sinks": ["console", *servers.sinks("idle")], "finish_timeout": "1 ms", "upload_timeout": "1 s",
                                  "alerts": {"conditions": ["train/lr > 0"]}}
        job.config["train"].update(epochs=100_000, log_every="100 steps", eval_every="1000000 epochs")
        job.config["checkpoint"] = {"every": "1000000 epochs"}
        job.write()
        started = job.start(ranks=2, env=servers.environment())
        (agent,) = wait_until(lambda: next(filter(None, map(agents_of, job.runs.glob("*"))), None), TIMEOUT_S, "the agent")
        run_dir = job.only_run()
        status = run_dir / "sinks/agent-00000.json"
        wait_until(lambda: status.exists() and "mlflow" in status.read_text(), TIMEOUT_S, "a failure")
        assert os.getpriority(os.PRIO_PROCESS, agent) > os.getpriority(os.PRIO_PROCESS, started.pid)
        assert os.sched_getscheduler(agent) == os.SCHED_BATCH

        def steps():
            return max((row["step"] for row in job.export(run_dir.name)), default=0)

        shares = []
        while len(shares) < 3 and min(shares, default=1) >= 0.02:  # CPU time is higher while other processes use the caches
            begin, before, first = time.monotonic(), cpu_seconds(agent), steps()
            wait_until(lambda: time.monotonic() - begin > 5 and steps() > first, TIMEOUT_S, "training to continue")
            shares.append((cpu_seconds(agent) - before) / (time.monotonic() - begin))
        started.terminate()
        assert processes.finish(started).code == 143
        assert min(shares) < 0.02, f"{shares} of a CPU"
