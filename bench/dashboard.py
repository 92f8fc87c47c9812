"""Measures the dashboard: time to the first response, zooms, filters, bands, memory, and page rendering.

    cmake --build build --target lockstep lockstep_log_driver
    .venv/bin/python bench/dashboard.py --browser --peers --out bench/results/dashboard.json
    .venv/bin/python bench/dashboard.py --quick [--only million,ranks,list,charts,live]

--peers measures TensorBoard and MLflow on the same data in the same run. --browser opens the same runs in Chromium
(tests/dashboard_browser/figures.mjs; installed by `cmake/setup.sh --peers`) and reports the page's times until the frame is drawn.
"""

import argparse
import http.client
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

sys.dont_write_bytecode = True

import dashboard_peers  # noqa: E402
import measuring  # noqa: E402

QUICK = {"points": 20_000, "ranks": 4, "metrics": 5, "steps": 500, "runs": 250, "charts": 40, "analysis": 100, "rounds": 3}


class Server:
    """A dashboard server of `runs` that measures response times."""

    def __init__(self, binary, runs):
        self.process = subprocess.Popen([binary / "lockstep", "ui", "--dir", runs], stdout=subprocess.PIPE, text=True)
        host, port = re.search(r"http://([\d.]+):(\d+)/", self.process.stdout.readline()).groups()
        self.address = f"http://{host}:{port}"
        self.connection = http.client.HTTPConnection(host, int(port), timeout=600)

    def get(self, path, **params):
        """Returns the seconds and the response body."""
        query = urllib.parse.urlencode({name.rstrip("_"): value for name, value in params.items()}, doseq=True)
        begin = time.perf_counter()
        self.connection.request("GET", f"{path}?{query}")
        response = self.connection.getresponse()
        body = response.read()
        assert response.status == 200, body[:500]
        return time.perf_counter() - begin, body

    def megabytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) / 1024

    def processor_ms(self):
        """Processor time used so far, which does not depend on other load of the machine."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        self.process.terminate()
        self.process.wait(30)


def write(arguments, ops):
    """Writes logs with the log writer of the tests."""
    driver = arguments.binary.parent / "tests" / "bin" / "lockstep_log_driver"
    process = subprocess.Popen([driver], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    for op in ops:
        process.stdin.write(json.dumps(op) + "\n")
        process.stdin.flush()
    process.stdin.close()
    assert process.wait(3600) == 0


def job(where, ranks, metrics, steps):
    names = [f"bench/metric-{i}" for i in range(metrics)]
    yield {"op": "run", "dir": where, "world_size": ranks}
    for rank in range(ranks):
        yield {"op": "open", "dir": where, "rank": rank, "world_size": ranks}
        yield {"op": "many", "log": rank, "metrics": names, "from": 0, "to": steps}
        yield {"op": "end", "log": rank}


def in_browser(arguments, part, server):
    """Rows of page times on `server`, in Debian's Chromium."""
    if not arguments.browser:
        return []
    script = measuring.SOURCE / "tests" / "dashboard_browser" / "figures.mjs"
    figures = json.loads(subprocess.run(["node", script, part, server.address, str(arguments.rounds)], stdout=subprocess.PIPE,
                                        check=True, timeout=1800).stdout)
    return [measuring.row(f"browser: {figure['row']}", figure["unit"], figure["values"], 1,
                          **({"goal": figure["goal"]} if "goal" in figure else {})) for figure in figures]


def timed_rows(name, rounds, ask):
    """Measures `ask(i)`, which returns seconds; returns one row in milliseconds."""
    return measuring.row(name, "ms", [1000 * ask(i) for i in range(rounds)])


def million(arguments, place):
    runs = place / "runs"
    runs.mkdir(parents=True)
    write(arguments, job(str(runs / "bench"), 1, 1, arguments.points))
    rows, first, processor = [], [], []
    for _ in range(arguments.rounds):
        server = Server(arguments.binary, runs)
        begin = time.perf_counter()
        server.get("/api/runs/bench")
        server.get("/api/series", run="bench", metric="bench/metric-0", points=1000)
        first.append(1000 * (time.perf_counter() - begin))
        processor.append(server.processor_ms())
        last = server
        if len(first) < arguments.rounds:
            server.end()
    rows.append(measuring.row(f"{arguments.points:,} points: first chart from a cold start", "ms", first))
    rows.append(measuring.row("processor time", "ms", processor))

    def zoom(i):
        begin = arguments.points * (i + 1) / (arguments.rounds + 2)
        return last.get("/api/series", run="bench", metric="bench/metric-0", points=1000, from_=begin,
                        to=begin + arguments.points / 10)[0]

    rows.append(timed_rows("zoom into a tenth", arguments.rounds, zoom))
    rows.append(timed_rows("the whole curve again, smoothed", arguments.rounds, lambda i: last.get(
        "/api/series", run="bench", metric="bench/metric-0", points=1000, smooth=0.9)[0]))
    rows += in_browser(arguments, "million", last)
    rows.append(measuring.row("peak memory", "MB", [last.megabytes()], 1))
    last.end()
    if arguments.peers:
        rows += dashboard_peers.million(arguments.points, place, arguments.rounds)
    return rows


def ranks(arguments, place):
    runs = place / "runs"
    runs.mkdir(parents=True)
    write(arguments, job(str(runs / "bench"), arguments.ranks, arguments.metrics, arguments.steps))
    server = Server(arguments.binary, runs)
    metrics = [f"bench/metric-{i}" for i in range(arguments.metrics)]
    begin = time.perf_counter()
    server.get("/api/runs/bench")
    server.get("/api/band", run="bench", metric=metrics[0], points=800)
    first, processor = time.perf_counter() - begin, server.processor_ms()
    server.get("/api/band", run="bench", metric=metrics[1:12], points=800)
    usable = time.perf_counter() - begin
    rows = [measuring.row("page and first band over all ranks, cold", "ms", [1000 * first]),
            measuring.row("processor time of it, on several cores", "ms", [processor]),
            measuring.row("page and twelve bands, cold", "ms", [1000 * usable]),
            timed_rows("one band", arguments.rounds, lambda i: server.get(
                "/api/band", run="bench", metric=metrics[i % len(metrics)], points=800)[0]),
            timed_rows("all curves of a metric", arguments.rounds, lambda i: server.get(
                "/api/series", run="bench", metric=metrics[i % len(metrics)], source="ranks", points=800)[0]),
            timed_rows("heatmap", arguments.rounds, lambda i: server.get(
                "/api/heatmap", run="bench", metric=metrics[i % len(metrics)])[0])]
    server.get("/api/band", run="bench", metric=metrics, points=800)
    rows += in_browser(arguments, "ranks", server)
    rows.append(measuring.row("peak memory after all bands", "MB", [server.megabytes()], 1))
    server.end()
    return rows


def many_runs(arguments, runs):
    """Small runs with configurations."""
    for i in range(arguments.runs):
        where, config = str(runs / f"run-{i:05}"), {
            "optimizer": {"name": "sgd" if i % 2 else "adamw", "lr": (i % 100) / 1000, "momentum": 0.9, "weight_decay": 0},
            "model": {"name": "mlp", "hidden": [256, 128]}, "train": {"epochs": 3, "precision": "fp32"},
            "data": {"batch_size": 2 ** (i % 8), "workers": 2}, "run": {"seed": i}}
        for op in ({"op": "run", "dir": where, "config": config, "created": 1000 + i},
                   {"op": "open", "dir": where, "rank": 0, "config": config, "created": 1000 + i},
                   {"op": "many", "log": i, "metrics": [f"train/metric-{k}" for k in range(10)], "from": 0, "to": 100},
                   {"op": "end", "log": i}):
            yield op


def command_rows(arguments, runs, what, goal=None):
    """`lockstep runs list`, a new process each time, at least twice. `goal`: milliseconds for the table."""
    rows = []
    for words in (["list"], ["list", "--json"]):
        seconds, processor, kilobytes = [], [], []
        for _ in range(max(2, arguments.rounds)):
            begin = time.perf_counter()
            process = subprocess.Popen([arguments.binary / "lockstep", "runs", *words, "--dir", runs], stdout=subprocess.DEVNULL)
            _, status, used = os.wait4(process.pid, 0)
            seconds.append(time.perf_counter() - begin)
            processor.append(used.ru_utime + used.ru_stime)
            kilobytes.append(used.ru_maxrss)
            assert status == 0
        limit = {"goal": goal} if goal and "--json" not in words else {}
        rows += [measuring.row(f"lockstep runs {' '.join(words)}, {what}", "ms", [1000 * each for each in seconds], **limit),
                 measuring.row("processor time, on several cores", "ms", [1000 * each for each in processor]),
                 measuring.row("peak memory", "MB", [each / 1024 for each in kilobytes], 1)]
    return rows


def run_list(arguments, place):
    runs = place / "runs"
    runs.mkdir(parents=True)
    write(arguments, many_runs(arguments, runs))
    rows = command_rows(arguments, runs, "without an index")
    for what in ("without an index", "with an existing index"):
        begin = time.perf_counter()
        server = Server(arguments.binary, runs)
        server.get("/api/runs")
        listed = 1000 * (time.perf_counter() - begin)
        measuring.wait_until("the whole table", lambda: json.loads(server.get("/api/runs", limit=1)[1])["matching"] == arguments.runs, 600)
        whole = 1000 * (time.perf_counter() - begin)
        measuring.wait_until("every run", lambda: json.loads(server.get("/api/server")[1])["indexing"]["done"] == arguments.runs, 600)
        rows += [measuring.row(f"{arguments.runs:,} runs, {what}: start to the first list", "ms", [listed]),
                 measuring.row("until the table is complete", "ms", [whole]),
                 measuring.row("until the files of every run were checked", "ms", [1000 * (time.perf_counter() - begin)]),
                 measuring.row("processor time", "ms", [server.processor_ms()])]
        if what == "without an index":
            if arguments.runs >= 200:
                measuring.wait_until("the index", (runs / ".dashboard" / "index").exists, 60)
                rows.append(measuring.row("size of the index", "MB", [(runs / ".dashboard" / "index").stat().st_size / 1e6], 2))
            rows.append(measuring.row("peak memory", "MB", [server.megabytes()], 1))
            server.end()
            rows += command_rows(arguments, runs, "with the dashboard's index", goal=300)
    filters = ["config.optimizer.lr > 0.05", "state = finished and config.optimizer.name = sgd", "run-0123",
               "min(train/metric-3) < 1 or config.data.batch_size in (1, 2, 4)", "not tag = good"]
    rows.append(timed_rows("filtered, sorted, with columns", 4 * arguments.rounds, lambda i: server.get(
        "/api/runs", filter=filters[i % len(filters)], sort="-train/metric-1",
        column=["config.optimizer.lr", "train/metric-0", "train/metric-1"])[0]))
    rows.append(timed_rows("fields to choose from", arguments.rounds, lambda i: server.get("/api/fields")[0]))
    rows += in_browser(arguments, "list", server)
    rows.append(measuring.row("peak memory", "MB", [server.megabytes()], 1))
    server.end()
    return rows


def charts(arguments, place):
    """Scrolls through a page of 200 charts."""
    if not arguments.browser:
        return []
    runs = place / "runs"
    runs.mkdir(parents=True)
    write(arguments, job(str(runs / "charts-1"), 1, arguments.charts, 500))
    server = Server(arguments.binary, runs)
    rows = in_browser(arguments, "charts", server)
    server.end()
    return rows


def live(arguments, place):
    """A live run: each step is the time in ms at which it was logged, so that the page can compute its age."""
    if not arguments.browser:
        return []
    runs = place / "runs"
    runs.mkdir(parents=True)
    where, ended = str(runs / "live"), threading.Event()

    def steps():
        yield {"op": "run", "dir": where}
        yield {"op": "open", "dir": where, "rank": 0}
        while True:
            yield {"op": "scalars", "log": 0, "step": int(1000 * time.time()), "time": time.time(), "values": {"train/loss": 1}}
            if ended.wait(2.3):
                return

    writing = threading.Thread(target=write, args=(arguments, steps()))
    writing.start()
    try:
        measuring.wait_until("the run", (runs / "live" / "events").exists, 60)
        server = Server(arguments.binary, runs)
        rows = in_browser(arguments, "live", server)
        server.end()
    finally:
        ended.set()
        writing.join(60)
    return rows


def analysis(arguments, place):
    """1,000 runs with 20 hyperparameters: their values, the importance of the hyperparameters, and the page."""
    runs = place / "runs"
    runs.mkdir(parents=True)
    draw = random.Random(1)

    def ops():
        for i in range(arguments.analysis):
            values = {f"p{k:02}": draw.random() for k in range(20)}
            where = str(runs / f"run-{i:04}")
            yield {"op": "run", "dir": where, "config": {"parameters": values}}
            yield {"op": "open", "dir": where, "rank": 0, "config": {"parameters": values}}
            loss = values["p03"] + 2 * values["p03"] * values["p11"] + 0.1 * draw.random()
            yield {"op": "scalars", "log": i, "step": 10, "time": 1000.0, "values": {"eval/loss": loss}}
            yield {"op": "end", "log": i}

    write(arguments, ops())
    server = Server(arguments.binary, runs)
    measuring.wait_until("all runs", lambda: json.loads(server.get("/api/runs", limit=1)[1])["matching"] == arguments.analysis, 120)
    names = [f"config.parameters.p{k:02}" for k in range(20)]
    rows = [timed_rows("values of all runs", arguments.rounds, lambda i: server.get("/api/analysis", filter="has id")[0])]
    rows.append(timed_rows("importance of 20 hyperparameters", arguments.rounds,
                           lambda i: server.get("/api/importance", filter="has id", target="metric.eval/loss", parameter=names)[0]))
    if arguments.browser:
        rows += in_browser(arguments, "analysis", server)
    rows.append(measuring.row("peak memory", "MB", [server.megabytes()], 1, goal=300))
    server.end()
    return rows


PARTS = {"million": million, "ranks": ranks, "list": run_list, "charts": charts, "live": live, "analysis": analysis}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny numbers, to see that it works")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS), help="parts, with commas")
    parser.add_argument("--peers", action="store_true", help="TensorBoard and MLflow as well")
    parser.add_argument("--browser", action="store_true", help="the page in Chromium as well")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--metrics", type=int, default=50)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--analysis", type=int, default=1_000, help="runs of the analysis")
    parser.add_argument("--charts", type=int, default=200)
    parser.add_argument("--binary", type=pathlib.Path, default=measuring.BIN, help="the folder of lockstep")
    parser.add_argument("--dir", help="directory for temporary files (1 GB)")
    parser.add_argument("--out", type=pathlib.Path, help="also write the result as JSON")
    if parser.parse_known_args()[0].quick:
        parser.set_defaults(**QUICK)
    arguments = parser.parse_args()
    arguments.binary = arguments.binary.resolve()
    with tempfile.TemporaryDirectory(dir=arguments.dir, prefix="lockstep-bench-") as directory:
        result = {"what": "the dashboard", "quick": arguments.quick, "machine": measuring.machine(directory),
                  "commit": measuring.commit(), "command": " ".join(["bench/dashboard.py", *sys.argv[1:]]), "parts": {}}
        for name in arguments.only:
            rows = PARTS[name](arguments, pathlib.Path(directory) / name)
            if not rows:
                continue
            measuring.print_table(name, rows)
            result["parts"][name] = {"rows": rows}
    measuring.save(result, arguments.out)


if __name__ == "__main__":
    main()
