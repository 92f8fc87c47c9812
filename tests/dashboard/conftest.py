"""Fixtures: a program that writes real event logs on command, and a real dashboard that serves them."""

import http.client
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import time
import urllib.parse

import pytest

BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", pathlib.Path(__file__).resolve().parents[2] / "build" / "bin"))
LOCKSTEP = BIN / "lockstep"
DRIVER = pathlib.Path(os.environ.get("LOCKSTEP_LOG_DRIVER", BIN.parent / "tests" / "bin" / "lockstep_log_driver"))
TIMEOUT = 20


class LogWriter:
    """A process that writes event logs; see log_driver.cpp."""

    def __init__(self, runs):
        self.runs = runs
        self.process = subprocess.Popen([str(DRIVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.num_logs = 0

    def do(self, op, **more):
        self.process.stdin.write(json.dumps({"op": op, **more}) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ok\n", (op, more)

    def run(self, name, ranks=1, nodes=0, config=None, **more):
        """Creates the run and opens its logs; returns the indices of the logs."""
        where = str(self.runs / name)
        config = {} if config is None else config
        self.do("run", dir=where, world_size=ranks, config=config, **more)
        logs = []
        for rank in range(ranks):
            self.do("open", dir=where, rank=rank, world_size=ranks, config=config,
                    id=name if ranks == 1 else f"{name}-rank-{rank}", **more)
            logs.append(self.num_logs)
            self.num_logs += 1
        for node in range(nodes):
            self.do("open", dir=where, node=node, **more)
            logs.append(self.num_logs)
            self.num_logs += 1
        return logs

    def finished_run(self, name, **more):
        log, = self.run(name, **more)
        self.do("many", log=log, metrics=["train/loss"], **{"from": 0, "to": 100})
        self.do("end", log=log)

    def kill(self):
        self.process.kill()
        self.process.wait(TIMEOUT)

    def close(self):
        self.process.stdin.close()
        self.process.wait(TIMEOUT)


class Response:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    def json(self):
        return json.loads(self.body)


class Dashboard:
    def __init__(self, runs, *options):
        self.process = subprocess.Popen([str(LOCKSTEP), "ui", "--dir", str(runs), *options], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        ready, _, _ = select.select([self.process.stdout], [], [], TIMEOUT)
        line = self.process.stdout.readline() if ready else ""
        match = re.search(r"http://([^ /]+)/(\S*)", line)
        assert match, line + self.process.stderr.read()
        self.address, self.login_path = match.group(1), "/" + match.group(2)

    def request(self, method, path, headers=None, body=None, **params):
        if params:
            path += "?" + urllib.parse.urlencode(params, doseq=True)
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            return Response(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, **params):
        response = self.request("GET", path, **params)
        assert response.status == 200, (path, response.status, response.body)
        return response.json()

    def error(self, path, **params):
        response = self.request("GET", path, **params)
        return response.status, response.json()["error"]

    def write(self, method, path, body, headers=None):
        return self.request(method, path, body=json.dumps(body), headers={
            "X-Lockstep-Request": "1", "Content-Type": "application/json", **(headers or {})})

    def wait_for(self, what, condition):
        deadline = time.monotonic() + TIMEOUT
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < deadline, what
            select.select([], [], [], 0.05)

    def wait_for_runs(self, count):
        self.wait_for(f"{count} runs", lambda: self.get("/api/runs")["matching"] == count)

    def cpu_seconds(self):
        words = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def memory_kb(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1))

    def end(self, with_signal=signal.SIGTERM):
        self.process.send_signal(with_signal)
        begin = time.monotonic()
        self.process.wait(TIMEOUT)
        return time.monotonic() - begin


@pytest.fixture
def runs(tmp_path):
    path = tmp_path / "runs"
    path.mkdir()
    return path


@pytest.fixture
def writer(runs):
    log_writer = LogWriter(runs)
    yield log_writer
    if log_writer.process.poll() is None:
        log_writer.kill()


@pytest.fixture
def start(runs):
    started = []

    def start_dashboard(*options):
        started.append(Dashboard(runs, *options))
        return started[-1]

    yield start_dashboard
    for dashboard in started:
        if dashboard.process.poll() is None:
            dashboard.process.kill()
        dashboard.process.wait(TIMEOUT)
