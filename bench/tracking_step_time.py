"""Measures how much tracking adds to a training step, with working sinks and with failing servers.

The agent of a run is active in every other window of 250 ms, and stopped (SIGSTOP, with its children) in between, because the
difference between two runs is larger than the effect. After a stop the agent catches up, so the active windows contain all
of its work. The time of a step is the difference between two records in the event log, which is always
written.
"""

import contextlib
import csv
import fcntl
import http.server
import io
import json
import math
import os
import pathlib
import shutil
import signal
import socketserver
import statistics
import subprocess
import sys
import threading
import time

import measuring

UNIT = "ms per step"
GOAL = 1.01
WINDOW_S, START_S, LONGEST_S = 0.25, 1, 600
KEY = "0" * 40  # not a real key
# A response that every sink accepts.
ANSWER = {
    "experiment": {"experiment_id": "1"},
    "run": {"info": {"run_id": "1", "experiment_id": "1", "artifact_uri": "mlflow-artifacts:/1/1/artifacts"}},
    "data": {"serverInfo": {"features": []}, "viewer": {"id": "u", "entity": "e", "flags": "{}", "teams": {"edges": []}},
             "upsertBucket": {"inserted": True, "bucket": {
                 "id": "b", "name": "b", "displayName": "b", "config": "{}", "historyLineCount": 0,
                 "project": {"id": "p", "name": "p", "entity": {"id": "e", "name": "e"}}}}},
}


class Server:
    """On a free port of the loopback interface: "down", "hanging", "slow" (one second per response) or "answering 500"."""

    def __init__(self, way):
        self.way, self.over, self.num_requests = way, threading.Event(), 0
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                server.num_requests += 1
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if server.way == "slow":
                    server.over.wait(1)
                body = json.dumps(ANSWER).encode()
                self.send_response(200 if server.way == "slow" else 500)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = answer

            def log_message(self, *_):
                pass

            def handle(self):
                with contextlib.suppress(ConnectionError):
                    if server.way == "hanging":
                        server.num_requests += 1
                        server.over.wait()  # accepts the connection but never responds
                    else:
                        super().handle()

        class Threads(socketserver.ThreadingMixIn, socketserver.TCPServer):
            daemon_threads, block_on_close = True, False

        self.http = Threads(("127.0.0.1", 0), Handler, bind_and_activate=False)
        self.http.server_bind()
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.05,))
        if way != "down":  # a bound port without a listener
            self.http.server_activate()
            self.thread.start()

    def close(self):
        self.over.set()
        if self.thread.is_alive():
            self.http.shutdown()
            self.thread.join()
        self.http.server_close()


def variants(servers):
    """Workloads of the agent, as overrides of the run file."""
    found = {"console": {"tracking.sinks": "[console]"}, "files": {"tracking.sinks": "[console, csv, jsonl, tensorboard]"}}
    for way, server in servers.items():
        sinks = ["console", {"name": "mlflow", "tracking_uri": server.url}, {"name": "wandb", "base_url": server.url},
                 {"name": "webhook", "url": server.url}]
        # Raises an alert at the first step, so that the webhook sends a message.
        found[f"servers {way}"] = {"tracking.sinks": json.dumps(sinks),
                                   "tracking.alerts.conditions": '["train/lr > 0"]'}
    return found


def command_of(directory, run_id, ranks, options, every, overrides):
    settings = {"run.dir": directory / "runs", "train.max_steps": options.train_steps, "train.epochs": 1000,
                "train.log_every": f"{every} steps", "train.eval_every": "1000 epochs", "checkpoint.every": "1000 epochs",
                "tracking.finish_timeout": "1 ms", "tracking.upload_timeout": "1 s", **overrides}
    for split in ("train", "eval"):
        settings[f"data.{split}.path"] = measuring.SOURCE / ".data" / "mnist"
    return [measuring.BIN / "lockstep", "launch", "-n", ranks, "--run-id", run_id, measuring.SOURCE / "configs" / "mnist.yaml",
            *[f"{name}={value}" for name, value in settings.items()]]


def agent_ended(run):
    """Whether the lock of the run's tracking agent is free."""
    lock = run / "sinks" / "agent-00000.lock"
    if not lock.exists():
        return True
    with open(lock) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def step_ends(directory, run_id):
    """Unix times at which steps were recorded."""
    command = [measuring.BIN / "lockstep", "runs", "export", run_id, "--format", "csv", "--dir", directory / "runs"]
    rows = csv.DictReader(io.StringIO(measuring.output_of(command, directory, timeout=60)))
    return [float(row["time"]) for row in rows if row["metric"] == "train/loss"]


def agent_of(run):
    """The agent of a run and its child processes."""
    parents = {}
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(path.name)] = (int(path.joinpath("stat").read_text().rpartition(")")[2].split()[1]),
                                       path.joinpath("cmdline").read_bytes().split(b"\0"))
    found = [pid for pid, (_, words) in parents.items() if b"track" in words[:2] and str(run).encode() in words]
    for pid in found:
        found += [child for child, (parent, _) in parents.items() if parent == pid]
    return found


def signal_all(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def alternate(run, trains, works):
    """Stops the agent in every other window (in all windows unless `works`).
    Returns the windows as (begin, end, is_active)."""
    windows = []
    measuring.wait_until("the tracking agent", lambda: agent_of(run) or not trains(), timeout=60)
    time.sleep(START_S)  # wandb-core starts, files are created
    try:
        at_work, latest = False, time.monotonic() + LONGEST_S
        while trains():
            if time.monotonic() > latest:
                raise RuntimeError(f"the training did not end within {LONGEST_S} s")
            at_work = not at_work
            signal_all(agent_of(run), signal.SIGCONT if at_work and works else signal.SIGSTOP)
            begin = time.time()
            time.sleep(WINDOW_S)
            windows.append((begin, time.time(), at_work))
    finally:
        signal_all(agent_of(run), signal.SIGCONT)
    return windows[:-1]  # the last window may contain the end of the training


def mean_step(ends, every, begin, end):
    """Mean step time in ms within a window that has a record every `every` steps."""
    inside = [at for at in ends if begin <= at <= end]
    if len(inside) <= 10 // every + 2:
        return None
    return (inside[-1] - inside[0]) / (len(inside) - 1) / every * 1e3


def train(directory, ranks, options, every, overrides, works=True):
    """Mean step times in ms of each pair of adjacent windows, with the agent active and stopped."""
    run_id = "bench"
    run = directory / "runs" / run_id
    command = command_of(directory, run_id, ranks, options, every, overrides)
    environment = measuring.environment(directory, WANDB_API_KEY=KEY, WANDB_MODE="online", VIRTUAL_ENV=sys.prefix,
                                        OMP_NUM_THREADS=str(options.rank_threads))
    with open(directory / "launch.log", "w") as log:
        process = subprocess.Popen([str(word) for word in command], cwd=directory, stdout=log, stderr=log, env=environment,
                                   start_new_session=True)
        try:
            windows = alternate(run, lambda: process.poll() is None, works)
            process.wait(LONGEST_S)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode != 0:
        raise RuntimeError(f"the training exited with {process.returncode}: {(directory / 'launch.log').read_text()[-2000:]}")
    measuring.wait_until("the end of the tracking agent", lambda: agent_ended(run), timeout=60)
    ends = step_ends(directory, run_id)
    if len(ends) != options.train_steps // every:
        raise RuntimeError(f"{len(ends)} steps were recorded, not {options.train_steps // every}")
    shutil.rmtree(run)
    means = [mean_step(ends, every, begin, end) for begin, end, _ in windows]
    return [pair for pair in zip(means[0::2], means[1::2]) if None not in pair]


def row_of(name, pairs):
    """The ratio of the mean step time to that with the agent stopped, and its standard error over the pairs."""
    logs = [math.log((at_work + stopped) / 2 / stopped) for at_work, stopped in pairs]
    ratio = math.exp(statistics.mean(logs))
    error = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf
    return measuring.row(name, UNIT, [(at_work + stopped) / 2 for at_work, stopped in pairs], pairs=len(pairs),
                         at_work=round(statistics.median(at_work for at_work, _ in pairs), 3), stopped=round(statistics.median(stopped for _, stopped in pairs), 3), to_stopped=round(ratio, 4),
                         standard_error=round(error, 4), goal=GOAL, within=ratio <= GOAL)


def measure_world(options, directory, ranks, every, servers):
    pairs = {}
    chosen = variants(servers)
    for _ in range(options.rounds):
        pairs.setdefault("always stopped", []).extend(train(directory, ranks, options, every, chosen["files"], works=False))
        for name, overrides in chosen.items():
            pairs.setdefault(name, []).extend(train(directory, ranks, options, every, overrides))
    logging = "every step" if every == 1 else f"every {every} steps"
    return [row_of(f"W={ranks}, logs {logging}, {name}", found) for name, found in pairs.items()]


def measure(options, directory):
    ways = ("down", "hanging", "slow", "answering 500")
    with contextlib.ExitStack() as stack:
        servers = {way: stack.enter_context(contextlib.closing(Server(way))) for way in ways}
        rows = []
        for ranks in options.worlds:
            for every in options.log_every:
                rows += measure_world(options, directory, ranks, every, servers)
        for way, server in servers.items():
            if way != "down" and server.num_requests == 0:
                raise RuntimeError(f"the server {way} got no requests: nothing was measured")
        return rows
