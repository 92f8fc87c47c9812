"""A real MLflow server on a free port of the loopback interface, and queries of its contents."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from free_port import free_port  # noqa: E402


@contextlib.contextmanager
def mlflow_server(directory, *options):
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
               "--backend-store-uri", f"sqlite:///{directory}/mlflow.db", "--gunicorn-opts", "--timeout 60"]
    if not options:
        options = ("--artifacts-destination", str(directory / "artifacts"))
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with open(directory / "server.log", "w") as log:
        server = subprocess.Popen([*command, *options], stdout=log, stderr=log, start_new_session=True, env=environment)
    try:
        wait_until_healthy(server, port, directory / "server.log")
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def wait_until_healthy(server, port, log):
    deadline = time.monotonic() + 300  # startup takes a minute on a busy machine
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except OSError:
            assert server.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)


def call_api(server, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{server}/api/2.0/mlflow/{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.loads(response.read())


def experiment_id(server, name):
    return call_api(server, f"experiments/get-by-name?experiment_name={urllib.parse.quote(name)}")["experiment"]["experiment_id"]


def runs_of(server, experiment):
    found = call_api(server, "runs/search", {"experiment_ids": [experiment_id(server, experiment)], "max_results": 1000})
    return found.get("runs", [])


def pairs(run, kind):
    return {item["key"]: item["value"] for item in run["data"].get(kind, [])}


def run_tagged(server, experiment, **tags):
    """The one run with these tags (without "lockstep.")."""
    wanted = {f"lockstep.{key}": value for key, value in tags.items()}
    found = [run for run in runs_of(server, experiment) if wanted.items() <= pairs(run, "tags").items()]
    assert len(found) == 1, f"{len(found)} runs with {wanted}"
    return found[0]


def history(server, run, metric):
    """(step, timestamp in ms, value) of every point, in order."""
    query = urllib.parse.urlencode({"run_id": run["info"]["run_id"], "metric_key": metric, "max_results": 25000})
    found = call_api(server, f"metrics/get-history?{query}").get("metrics", [])
    return sorted((int(point.get("step", 0)), int(point["timestamp"]), point["value"]) for point in found)


def artifact_paths(server, run, path=""):
    query = urllib.parse.urlencode({"run_id": run["info"]["run_id"], "path": path})
    paths = []
    for item in call_api(server, f"artifacts/list?{query}").get("files", []):
        paths += artifact_paths(server, run, item["path"]) if item["is_dir"] else [item["path"]]
    return sorted(paths)


def artifact(server, run, path):
    query = urllib.parse.urlencode({"run_uuid": run["info"]["run_id"], "path": path})
    with urllib.request.urlopen(f"{server}/get-artifact?{query}", timeout=30) as response:
        return response.read()
