"""What tracking adds to a training step: nothing to deliver, sinks that work, and sinks whose servers fail in every way.

A step's time is that between two records of the training's own event log, which is written in any case.
"""

import contextlib
import csv
import fcntl
import http.server
import io
import json
import shutil
import socket
import socketserver
import statistics
import sys
import threading

import measuring

UNIT = "ms per step"
GOAL = 1.01
OFF = {"tracking.sinks": "[]", "tracking.agent": "false"}
KEY = "0" * 40  # of nobody
# Answers every question of a sink of ours, whichever it is.
ANSWER = {
    "experiment": {"experiment_id": "1"},
    "run": {"info": {"run_id": "1", "experiment_id": "1", "artifact_uri": "mlflow-artifacts:/1/1/artifacts"}},
    "data": {"serverInfo": {"features": []}, "viewer": {"id": "u", "entity": "e", "flags": "{}", "teams": {"edges": []}},
             "upsertBucket": {"inserted": True, "bucket": {
                 "id": "b", "name": "b", "displayName": "b", "config": "{}", "historyLineCount": 0,
                 "project": {"id": "p", "name": "p", "entity": {"id": "e", "name": "e"}}}}},
}


class Server:
    """On a free port of the loopback interface: "down", "hanging", "slow" (a second per answer) or "answering 500"."""

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
                        server.over.wait()  # accepted, and never answered
                    else:
                        super().handle()

        class Threads(socketserver.ThreadingMixIn, socketserver.TCPServer):
            daemon_threads, block_on_close = True, False

        self.http = Threads(("127.0.0.1", 0), Handler, bind_and_activate=False)
        self.http.server_bind()
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.05,))
        if way != "down":  # a port that is taken and that nobody listens to
            self.http.server_activate()
            self.thread.start()

    def close(self):
        self.over.set()
        if self.thread.is_alive():
            self.http.shutdown()
            self.thread.join()
        self.http.server_close()


def variants(servers):
    console = "[console]"
    files = "[console, csv, jsonl, tensorboard]"
    found = {"off": OFF, "off again": OFF, "default": {"tracking.sinks": console}, "files": {"tracking.sinks": files}}
    for way, server in servers.items():
        sinks = ["console", {"name": "mlflow", "tracking_uri": server.url}, {"name": "wandb", "base_url": server.url},
                 {"name": "webhook", "url": server.url}]
        # An alert at the first step, so that the webhook has something to send.
        found[f"servers {way}"] = {"tracking.sinks": json.dumps(sinks),
                                   "tracking.alerts.conditions": '["train/lr > 0"]'}
    return found


def command_of(directory, run_id, ranks, steps, overrides):
    settings = {"run.dir": directory / "runs", "train.max_steps": steps, "train.epochs": 1000,
                "train.log_every": "1 step", "train.eval_every": "1000 epochs", "checkpoint.every": "1000 epochs",
                "tracking.finish_timeout": "1 ms", "tracking.upload_timeout": "1 s", **overrides}
    for split in ("train", "eval"):
        settings[f"data.{split}.path"] = measuring.SOURCE / ".data" / "mnist"
    return [measuring.BIN / "lockstep", "launch", "-n", ranks, "--run-id", run_id, measuring.SOURCE / "configs" / "mnist.yaml",
            *[f"{name}={value}" for name, value in settings.items()]]


def agent_ended(run):
    """Nobody holds the lock of the run's tracking agent."""
    lock = run / "sinks" / "agent-00000.lock"
    if not lock.exists():
        return True
    with open(lock) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def step_times(directory, run_id, steps):
    """In ms: one less than there are steps."""
    command = [measuring.BIN / "lockstep", "runs", "export", run_id, "--format", "csv", "--dir", directory / "runs"]
    rows = csv.DictReader(io.StringIO(measuring.output_of(command, directory, timeout=60)))
    times = [float(row["time"]) for row in rows if row["metric"] == "train/loss"]
    if len(times) != steps:
        raise RuntimeError(f"{len(times)} steps were recorded, not {steps}")
    return [(after - before) * 1e3 for before, after in zip(times, times[1:])]


def agent_cpu(run):
    """Seconds of processor time of the agent and of the programs that it started and that ended; 0 without sinks."""
    status = run / "sinks" / "agent-00000.json"
    return json.loads(status.read_text())["cpu_s"] if status.exists() else 0


def train(directory, ranks, options, overrides):
    """Mean and median step time in ms, and the agent's processor time. Its end is waited for, so that it does not disturb
    who comes next."""
    steps = options.train_steps
    run_id = "bench"
    run = directory / "runs" / run_id
    measuring.output_of(command_of(directory, run_id, ranks, steps, overrides), directory, timeout=600, WANDB_API_KEY=KEY,
                        WANDB_MODE="online", VIRTUAL_ENV=sys.prefix, OMP_NUM_THREADS=str(options.rank_threads))
    measuring.wait_until("the end of the tracking agent", lambda: agent_ended(run), timeout=60)
    times = step_times(directory, run_id, steps)
    cpu = agent_cpu(run)
    shutil.rmtree(run)
    return statistics.mean(times), statistics.median(times), cpu


def measure_world(options, directory, ranks, servers):
    found = {}
    chosen = variants(servers)
    for round_number in range(options.rounds):
        names = list(chosen) if round_number % 2 == 0 else list(reversed(chosen))
        for name in names:
            found.setdefault(name, []).append(train(directory, ranks, options, chosen[name]))
    rows = []
    for name in chosen:
        means, medians, cpus = zip(*found[name])
        ratios = [mean / off for mean, (off, *_) in zip(means, found["off"])]
        ratio = statistics.median(ratios)
        rows.append(measuring.row(f"W={ranks}, {name}", UNIT, means, steps=options.train_steps,
                                  median_step=round(statistics.median(medians), 3), to_off=round(ratio, 4),
                                  to_off_min=round(min(ratios), 4), to_off_max=round(max(ratios), 4), goal=GOAL,
                                  within=ratio <= GOAL, agent_cpu_s=round(statistics.median(cpus), 3)))
    return rows


def measure(options, directory):
    ways = ("down", "hanging", "slow", "answering 500")
    with contextlib.ExitStack() as stack:
        servers = {way: stack.enter_context(contextlib.closing(Server(way))) for way in ways}
        rows = []
        for ranks in options.worlds:
            rows += measure_world(options, directory, ranks, servers)
        for way, server in servers.items():
            if way != "down" and server.num_requests == 0:
                raise RuntimeError(f"the server {way} was never asked: nothing was measured")
        return rows
