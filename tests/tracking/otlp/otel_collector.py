"""A real OpenTelemetry collector on loopback, whose exporter writes what it gets to a file (collector/main.go)."""
import contextlib
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCE / "tests"))
from free_port import free_port  # noqa: E402

TIMEOUT_S = 120
FOLDER = pathlib.Path(__file__).resolve().parent / "collector"
PARTS = ("main.go", "go.mod", "go.sum")
STAMP = hashlib.sha256(b"".join((FOLDER / part).read_bytes() for part in PARTS)).hexdigest()[:16]
PROGRAM = SOURCE / ".data" / f"otel-collector-{STAMP}" / "collector"  # by cmake/setup.sh

CONFIG = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{lines: {{path: "{path}"}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    metrics: {{receivers: [otlp], exporters: [lines]}}
    logs: {{receivers: [otlp], exporters: [lines]}}
"""


class Collector:
    def __init__(self, directory):
        assert PROGRAM.exists(), f"{PROGRAM} does not exist: run 'make peers'"
        self.path = directory / "received.jsonl"
        self.log = open(directory / "collector.log", "w")
        self.stop = lambda: None
        deadline = time.monotonic() + TIMEOUT_S
        while not self.start(directory, deadline):
            assert "address already in use" in (directory / "collector.log").read_text(), (directory / "collector.log").read_text()

    def start(self, directory, deadline):
        """False if another process took the port."""
        port = free_port()
        config = directory / "collector.yaml"
        config.write_text(CONFIG.format(port=port, path=self.path))
        process = subprocess.Popen([PROGRAM, "--config", f"file:{config}"], stdout=self.log, stderr=subprocess.STDOUT,
                                   env={"PATH": os.environ["PATH"]})
        self.url, self.stop = f"http://127.0.0.1:{port}", lambda: (process.kill(), process.wait(timeout=TIMEOUT_S))
        while process.poll() is None:
            assert time.monotonic() < deadline, "the collector does not listen"
            with contextlib.suppress(OSError):
                request = urllib.request.Request(f"{self.url}/v1/logs", b"{}", {"Content-Type": "application/json"})
                urllib.request.urlopen(request, timeout=TIMEOUT_S).close()
                return True
        return False

    def refuse(self, refuses):
        """The exporter's backend is down or works."""
        marker = pathlib.Path(f"{self.path}.REFUSE")
        marker.touch() if refuses else marker.unlink()

    def requests(self):
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def points(self):
        """[(metric, attributes, time in ns, value, resource)] in the order of arrival."""
        found = []
        for request in self.requests():
            for of_resource in request.get("resourceMetrics", []):
                resource = attributes_of(of_resource["resource"])
                for scope in of_resource["scopeMetrics"]:
                    for metric in scope["metrics"]:
                        found += [(metric["name"], attributes_of(point), int(point["timeUnixNano"]), number(point["asDouble"]),
                                   resource) for point in metric["gauge"]["dataPoints"]]
        return found

    def logs(self):
        """[(record, attributes, resource)]"""
        found = []
        for request in self.requests():
            for of_resource in request.get("resourceLogs", []):
                resource = attributes_of(of_resource["resource"])
                found += [(record, attributes_of(record), resource) for scope in of_resource["scopeLogs"]
                          for record in scope["logRecords"]]
        return found

    def close(self):
        self.stop()
        self.log.close()


def number(value):
    return float(value)  # NaN and infinities are texts


def attributes_of(message):
    """{name: value}; protobuf's JSON has 64-bit integers as texts."""
    values = {}
    for attribute in message.get("attributes", []):
        ((kind, value),) = attribute["value"].items()
        values[attribute["key"]] = int(value) if kind == "intValue" else value
    return values
