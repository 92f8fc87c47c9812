"""Peers of bench/dashboard.py: the time until TensorBoard and MLflow show the same curve."""

import http.client
import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.parse

import measuring

TAG = "bench/metric-0"


def ask(port, path, **params):
    """Seconds and the response, or None while the connection is refused."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    begin = time.perf_counter()
    try:
        connection.request("GET", path + ("?" + urllib.parse.urlencode(params) if params else ""))
        response = connection.getresponse()
        return time.perf_counter() - begin, response.status, response.read()
    except OSError:
        return None
    finally:
        connection.close()


def free_port():
    import socket
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def megabytes(process):
    """Peak memory of the process and its children so far."""
    total = 0
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except OSError:
            continue
        fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        if int(fields["Pid"]) == process.pid or int(fields["PPid"]) == process.pid:
            total += int(fields.get("VmHWM", "0 kB").split()[0]) / 1024
    return total


def tensorboard(points, place, rounds):
    from torch.utils.tensorboard import SummaryWriter

    directory = place / "tensorboard"
    with SummaryWriter(directory / "bench", max_queue=100_000) as writer:
        for step in range(points):
            writer.add_scalar(TAG, 1 / (step + 1), step)
    port, begin = free_port(), time.perf_counter()
    # Its default: 1,000 randomly sampled points. To keep a million of them (--samples_per_plugin scalars=0) it
    # needed more than 15 minutes on this machine.
    process = subprocess.Popen([pathlib.Path(sys.executable).parent / "tensorboard", "--logdir", directory, "--port", str(port)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=measuring.environment(place))
    try:
        def curve():
            found = ask(port, "/data/plugin/scalars/scalars", run="bench", tag=TAG)
            return found and found[1] == 200 and json.loads(found[2])[-1][1] == points - 1

        measuring.wait_until("the end of the curve in TensorBoard", curve, 600)
        first = time.perf_counter() - begin
        again = [1000 * ask(port, "/data/plugin/scalars/scalars", run="bench", tag=TAG)[0] for _ in range(rounds)]
        return [measuring.row("TensorBoard, 1,000 sampled points: start to the end of the curve", "ms", [1000 * first]),
                measuring.row("TensorBoard: the curve again (a zoom shows no other points)", "ms", again),
                measuring.row("TensorBoard: peak memory", "MB", [megabytes(process)], 1)]
    finally:
        process.terminate()
        process.wait(60)


def mlflow(points, place, rounds):
    from mlflow import MlflowClient
    from mlflow.entities import Metric

    store = f"sqlite:///{place}/mlflow.db"
    client = MlflowClient(tracking_uri=store)
    experiment = client.create_experiment("bench", str(place / "artifacts"))
    run = client.create_run(experiment).info.run_id
    for begin in range(0, points, 1000):
        client.log_batch(run, [Metric(TAG, 1 / (step + 1), 1000 + step, step)
                               for step in range(begin, min(begin + 1000, points))])
    port, begin = free_port(), time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "mlflow", "server", "--backend-store-uri", store, "--port", str(port),
                                "--host", "127.0.0.1", "--workers", "1", "--gunicorn-opts", "--timeout 600"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                               env=measuring.environment(place, MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false"))
    path, params = "/ajax-api/2.0/mlflow/metrics/get-history-bulk-interval", {
        "run_ids": run, "metric_key": TAG, "max_results": 320}
    try:
        measuring.wait_until("MLflow", lambda: (found := ask(port, "/health")) and found[1] == 200, 300)
        first_ask = ask(port, path, **params)
        first = time.perf_counter() - begin
        assert first_ask[1] == 200, first_ask
        zooms = [1000 * ask(port, path, start_step=points // 10 * (i + 1), end_step=points // 10 * (i + 2), **params)[0]
                 for i in range(rounds)]
        return [measuring.row("MLflow, 320 points chosen: start to the curve", "ms", [1000 * first]),
                measuring.row("MLflow: zoom into a tenth", "ms", zooms),
                measuring.row("MLflow: peak memory", "MB", [megabytes(process)], 1)]
    finally:
        os.killpg(process.pid, 15)
        process.wait(60)


def million(points, place, rounds):
    return tensorboard(points, place, rounds) + mlflow(points, place, rounds)
