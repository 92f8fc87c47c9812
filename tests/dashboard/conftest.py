"""Real logs, written by a program that the tests command, and a real dashboard that shows them."""

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
PATIENCE = 20


class LogWriter:
    """One process that writes event logs; see log_driver.cpp."""

    def __init__(self, runs):
        self.runs = runs
        self.process = subprocess.Popen([str(DRIVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.num_logs = 0

    def do(self, op, **more):
        self.process.stdin.write(json.dumps({"op": op, **more}) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ok\n", (op, more)

    def run(self, name, ranks=1, nodes=0, config=None, **more):
        """Makes the run and opens its logs; returns the numbers of the logs."""
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
        self.process.wait(PATIENCE)

    def close(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    def json(self):
        return json.loads(self.body)


class Dashboard:
    def __init__(self, runs, *options):
        self.process = subprocess.Popen([str(LOCKSTEP), "ui", "--dir", str(runs), *options], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline() if ready else ""
        match = re.search(r"http://([^ /]+)/(\S*)", line)
        assert match, line + self.process.stderr.read()
        self.address, self.entrance = match.group(1), "/" + match.group(2)

    def request(self, method, path, headers=None, body=None, **params):
        if params:
            path += "?" + urllib.parse.urlencode(params, doseq=True)
        connection = http.client.HTTPConnection(self.address, timeout=PATIENCE)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, **params):
        answer = self.request("GET", path, **params)
        assert answer.status == 200, (path, answer.status, answer.body)
        return answer.json()

    def refused(self, path, **params):
        answer = self.request("GET", path, **params)
        return answer.status, answer.json()["error"]

    def write(self, method, path, body, headers=None):
        return self.request(method, path, body=json.dumps(body), headers={
            "X-Lockstep-Request": "1", "Content-Type": "application/json", **(headers or {})})

    def wait_for(self, what, condition):
        latest = time.monotonic() + PATIENCE
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < latest, what
            select.select([], [], [], 0.05)

    def wait_for_runs(self, count):
        self.wait_for(f"{count} runs", lambda: self.get("/api/runs")["matching"] == count)

    def processor_seconds(self):
        words = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def memory_kb(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1))

    def end(self, with_signal=signal.SIGTERM):
        self.process.send_signal(with_signal)
        begin = time.monotonic()
        self.process.wait(PATIENCE)
        return time.monotonic() - begin


@pytest.fixture
def runs(tmp_path):
    path = tmp_path / "runs"
    path.mkdir()
    return path


@pytest.fixture
def writer(runs):
    writers = LogWriter(runs)
    yield writers
    if writers.process.poll() is None:
        writers.kill()


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
        dashboard.process.wait(PATIENCE)
