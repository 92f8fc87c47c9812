"""Limits on the resources of clients that are slow, idle, do not read, or are many."""

import http.client
import json
import os
import re
import resource
import select
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import TIMEOUT

HEAD = b"GET /api/server HTTP/1.1\r\nHost: localhost\r\n"
SLOW = 8  # the request timeout of 5 s, with a margin for a busy machine
FAST = 3  # seconds for a response, and for an exit: less than the request timeout


def connect(dashboard):
    host, port = dashboard.address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=TIMEOUT)


def connect_many(dashboard, count):
    return [connect(dashboard) for _ in range(count)]


def is_over(connection, seconds=0.0):
    """Whether the server closes the connection within `seconds`."""
    if not select.select([connection], [], [], seconds)[0]:
        return False
    try:
        return connection.recv(65536) == b""
    except ConnectionError:
        return True


def response_time(dashboard):
    begin = time.monotonic()
    assert dashboard.get("/api/server")["version"]
    return time.monotonic() - begin


def num_threads(dashboard):
    return int(re.search(r"Threads:\s+(\d+)", open(f"/proc/{dashboard.process.pid}/status").read()).group(1))


@pytest.fixture(autouse=True)
def many_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_slow_requests_time_out_and_do_not_delay_others(writer, start):
    writer.finished_run("one")
    dashboard = start()
    dashboard.wait_for_runs(1)
    begin = time.monotonic()
    slow = connect_many(dashboard, 150)  # more than there are threads
    bodies = connect_many(dashboard, 100)
    for connection in bodies:
        connection.sendall(b"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n")
    sent = 0
    while time.monotonic() - begin < SLOW and not is_over(slow[0], 0.2):
        for connection in slow:
            try:
                connection.sendall(HEAD[sent:sent + 1])
            except ConnectionError:
                pass
        sent += 1
        assert response_time(dashboard) < FAST
    assert 4 < time.monotonic() - begin < SLOW
    assert all(is_over(connection, 1) for connection in slow[1:] + bodies)
    for connection in slow + bodies:
        connection.close()


def test_idle_connections_evict_each_other_and_do_not_delay_others(writer, start):
    writer.finished_run("one")
    dashboard = start()
    dashboard.wait_for_runs(1)
    threads = num_threads(dashboard)
    idle = connect_many(dashboard, 700)
    assert response_time(dashboard) < FAST
    dashboard.wait_for("the oldest to be closed", lambda: is_over(idle[0]))
    assert sum(is_over(connection) for connection in idle[1:100]) > 90
    assert not is_over(idle[-1])
    # A few threads are temporary: one queries the trainer for defaults, others read logs.
    assert num_threads(dashboard) < threads + 10, "an idle connection must not occupy a thread"
    assert dashboard.wait_for("the rest to be closed", lambda: is_over(idle[-1]))
    for connection in idle:
        connection.close()


def test_a_request_in_pieces_within_the_timeout_is_served(writer, start):
    dashboard = start()
    with connect(dashboard) as connection:
        for piece in (HEAD[:10], HEAD[10:30], HEAD[30:] + b"\r\n" + HEAD, b"Connection: close\r\n\r\n"):
            connection.sendall(piece)
            select.select([], [], [], 0.3)
        response = b""
        while more := connection.recv(65536):
            response += more
    assert response.count(b"HTTP/1.1 200 OK") == 2, "both requests, the second of which started in the same segment"


def test_a_connection_serves_many_requests(start):
    dashboard = start()
    connection = http.client.HTTPConnection(dashboard.address, timeout=TIMEOUT)
    connection.connect()
    first = connection.sock
    for _ in range(50):
        connection.request("GET", "/api/server")
        assert connection.getresponse().read()
    assert connection.sock is first
    connection.close()


def test_a_client_that_shut_down_its_sending_side_gets_the_response(start):
    dashboard = start()
    with connect(dashboard) as connection:
        connection.sendall(b"GET /app.js HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        response = b""
        while more := connection.recv(65536):
            response += more
    head, body = response.split(b"\r\n\r\n", 1)
    assert int(re.search(rb"Content-Length: (\d+)", head).group(1)) == len(body) > 10_000


def test_a_client_that_does_not_read_the_response_is_disconnected(runs, writer, start):
    writer.finished_run("one")
    (runs / "one" / "large.bin").write_bytes(os.urandom(1 << 20) * 16)
    dashboard = start()
    dashboard.wait_for_runs(1)
    stuck = []
    for _ in range(64):  # as many as there are threads
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(TIMEOUT)
        host, port = dashboard.address.rsplit(":", 1)
        connection.connect((host, int(port)))
        connection.sendall(b"GET /api/runs/one/files/large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
        stuck.append(connection)
    assert response_time(dashboard) < 10  # one of them must time out first
    whole = dashboard.request("GET", "/api/runs/one/files/large.bin").body
    assert whole == (runs / "one" / "large.bin").read_bytes(), "a client that reads gets the complete file"
    for connection in stuck:
        connection.close()


def test_a_run_with_very_many_metrics(writer, start):
    for name, count in (("large", 60_000), ("large-2", 60_000), ("small", 6_000), ("small-2", 6_000)):
        log, = writer.run(name)
        writer.do("many", log=log, metrics=[f"part{i % 100}/metric_{i}" for i in range(count)], **{"from": 0, "to": 2})
        writer.do("end", log=log)
    dashboard = start()
    dashboard.wait_for_runs(4)

    def cpu_time(path, times):
        begin = dashboard.cpu_seconds()
        for _ in range(times):
            dashboard.get(path)
        return dashboard.cpu_seconds() - begin

    run = dashboard.get("/api/runs/large")
    assert len(run["metrics"]) == len(run["sources"][0]["summary"]) == 60_000
    assert run["metrics"][0]["name"] == "part0/metric_0" and run["metrics"][0]["count"] == 2
    for path in ("/api/runs/{}", "/api/compare?run={0}&run={0}-2"):
        # Ten times as many metrics take ten times as long, not a hundred times.
        assert cpu_time(path.format("large"), 1) < 2.5 * cpu_time(path.format("small"), 10), path
    with ThreadPoolExecutor(4) as pool:
        for status in pool.map(lambda _: dashboard.request("GET", "/api/runs/large").status, range(16)):
            assert status == 200
    assert dashboard.memory_kb() < 400_000, "each thread must not retain the memory of a response"


def test_streams_of_disconnected_clients_are_freed(writer, start):
    dashboard = start()

    def stream():
        connection = http.client.HTTPConnection(dashboard.address, timeout=TIMEOUT)
        connection.request("GET", "/api/events")
        return connection, connection.getresponse()

    streams = [stream() for _ in range(32)]
    rejected = stream()
    error = json.loads(rejected[1].read())["error"]
    assert rejected[1].status == 503 and error["code"] == "too_many_streams" and "/api/changes" in error["message"]
    assert response_time(dashboard) < FAST, "streams must leave threads for other requests"
    assert dashboard.get("/api/changes", since=0)["seq"] >= 0
    for connection, _ in streams:
        connection.close()
    dashboard.wait_for("a free stream", lambda: (again := stream())[1].status == 200 and again)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_dashboard_exits_promptly_on_a_signal(writer, start, number):
    writer.finished_run("one")
    dashboard = start()
    stream = http.client.HTTPConnection(dashboard.address, timeout=TIMEOUT)
    stream.request("GET", "/api/events")
    assert stream.getresponse().status == 200
    with connect(dashboard) as half:  # an incomplete request
        half.sendall(b"GET / HT")
        assert dashboard.end(number) < FAST
    assert dashboard.process.returncode == 0
    stream.close()
