"""Access control and request limits of the dashboard. Tests with limits on times are in test_dashboard_bounds.py."""

import gzip
import http.client
import os
import random
import socket
import subprocess

import pytest

from conftest import LOCKSTEP, TIMEOUT


def raw(dashboard, text, whole=True):
    """The response of the server to these bytes. If not `whole`, the sending side is shut down afterwards."""
    host, port = dashboard.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=TIMEOUT) as connection:
        try:
            connection.sendall(text if isinstance(text, bytes) else text.encode())
            if not whole:
                connection.shutdown(socket.SHUT_WR)
            response = b""
            while piece := connection.recv(65536):
                response += piece
        except ConnectionError:
            return b""
        return response


def test_headers_of_every_response(writer, start):
    writer.finished_run("one")
    dashboard = start()
    for path in ("/", "/app.js", "/nothing", "/api/runs", "/api/runs/nothing", "/api/runs/one/files/config.yaml"):
        headers = dashboard.request("GET", path).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy, path
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer", path
        assert headers.get("Access-Control-Allow-Origin") is None, path


def test_deeply_nested_files_of_a_run(runs, writer, start):
    writer.finished_run("one")
    # Copying or writing such a value would overflow the stack.
    nested = '{"packages": ' + "[" * 60_000 + "]" * 60_000 + "}"
    for name in ("run.json", "software.json", "rank_losses.json", "tags.json", "code.json", "end.json", "ends/trainer-00000.json"):
        (runs / "one" / name).parent.mkdir(exist_ok=True)
        (runs / "one" / name).write_text(nested)
    dashboard = start()
    dashboard.wait_for_runs(1)
    assert dashboard.get("/api/runs/one")["environment"] == {}
    assert dashboard.get("/api/runs/one/code") == {"code": None}
    assert dashboard.write("PUT", "/api/views", [nested]).status < 500
    assert dashboard.request("POST", "/api/views", headers={"X-Lockstep-Request": "1", "Content-Type": "application/json"}, body=nested).status < 500
    assert dashboard.get("/api/runs")["matching"] == 1


def test_software_replaces_nothing_of_the_run(runs, writer, start):
    writer.finished_run("one")
    (runs / "one" / "run.json").write_text('{"host": "a", "git": {"commit": "1"}}')
    (runs / "one" / "software.json").write_text('{"host": "b", "git": "c", "uncommitted_changes": "none", "python": "3.13", "lockstep": ["1"], '
                                                '"packages": {"numpy": "2.1", "torch": {"deep": 1}}}')
    dashboard = start()
    dashboard.wait_for_runs(1)
    assert dashboard.get("/api/runs/one")["environment"] == {"host": "a", "git": {"commit": "1"}, "python": "3.13", "packages": {"numpy": "2.1"}}


@pytest.mark.parametrize("text", ["0-9", "5-", "100000-100100", "100000-", "-10", "9223372036854775807-", "0-9223372036854775807", "0-0,3-4"])
def test_ranges_of_bytes_are_ignored_except_of_sounds_and_videos(writer, start, text):
    writer.finished_run("one")
    dashboard = start()
    dashboard.wait_for_runs(1)
    for path in ("/", "/app.js", "/api/runs/one/files/config.yaml", "/api/fields"):
        whole = dashboard.request("GET", path)
        part = dashboard.request("GET", path, headers={"Range": f"bytes={text}"})
        assert (part.status, part.body) == (200, whole.body) and part.headers["Content-Range"] is None, path
    for malformed in ("x-y", "5-2", "18446744073709551615-", "0-18446744073709551615"):
        assert dashboard.request("GET", "/", headers={"Range": f"bytes={malformed}"}).status == 416, malformed


def test_the_page_compressed_and_cached(start):
    dashboard = start()
    page = dashboard.request("GET", "/")
    assert page.status == 200 and page.headers["Content-Type"].startswith("text/html") and b"<html" in page.body.lower()
    script = dashboard.request("GET", "/app.js")
    assert script.headers["Content-Type"].startswith("text/javascript")
    packed = dashboard.request("GET", "/app.js", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip" and len(packed.body) < len(script.body)
    assert gzip.decompress(packed.body) == script.body
    known = dashboard.request("GET", "/app.js", headers={"If-None-Match": script.headers["ETag"]})
    assert known.status == 304 and known.body == b""
    assert dashboard.request("GET", "/report.html").status == 404


def test_responses_are_compressed_if_the_client_accepts_gzip(writer, start):
    writer.finished_run("one")
    dashboard = start()
    dashboard.wait_for_runs(1)
    series = {"run": "one", "metric": "train/loss"}
    plain = dashboard.request("GET", "/api/series", **series)
    assert plain.headers.get("Content-Encoding") is None
    # Never with Brotli, which takes seconds at its best compression level.
    packed = dashboard.request("GET", "/api/series", headers={"Accept-Encoding": "gzip, deflate, br"}, **series)
    assert packed.headers["Content-Encoding"] == "gzip" and len(packed.body) < len(plain.body)
    assert gzip.decompress(packed.body) == plain.body and packed.headers["Content-Type"] == plain.headers["Content-Type"]
    assert dashboard.request("GET", "/api/series", headers={"Accept-Encoding": "br"}, **series).body == plain.body
    csv = dashboard.request("GET", "/api/series.csv", headers={"Accept-Encoding": "gzip"}, **series)
    assert csv.headers.get("Content-Encoding") is None and csv.body.startswith(b"run,source,metric")


def test_foreign_hosts_and_sites_are_rejected(writer, start):
    writer.finished_run("one")
    dashboard = start()
    dashboard.wait_for_runs(1)
    for host in ("evil.example", "localhost.evil.example", ""):
        assert b" 403 " in raw(dashboard, f"GET /api/runs HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").split(b"\r\n")[0]
    assert dashboard.request("GET", "/api/runs", headers={"Sec-Fetch-Site": "cross-site"}).status == 403
    assert dashboard.write("POST", "/api/runs/one/tags", {"add": ["x"]}, {"Origin": "http://evil.example"}).status == 403
    assert dashboard.request("POST", "/api/runs/one/tags", body='{"add": ["x"]}').status == 403
    assert dashboard.request("DELETE", "/api/runs/one", body='{"confirm": "one"}').status == 403
    assert dashboard.get("/api/runs")["runs"][0]["tags"] == []


def test_two_host_headers_are_a_bad_request(writer, start):
    dashboard = start()
    one = raw(dashboard, "GET /api/server HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert one.startswith(b"HTTP/1.1 200")
    for other in ("localhost", "evil.example"):
        two = raw(dashboard, f"GET /api/server HTTP/1.1\r\nHost: localhost\r\nHost: {other}\r\nConnection: close\r\n\r\n")
        assert two.startswith(b"HTTP/1.1 400") and b"bad_request" in two


def test_beyond_loopback_a_token_is_required(runs, writer, start, tmp_path):
    writer.finished_run("one")
    secret = "a-secret-of-some-length"
    token = tmp_path / "token"
    token.write_text(secret + "\n")
    token.chmod(0o600)
    dashboard = start("--host", "0.0.0.0", "--token-file", str(token))
    assert secret not in dashboard.login_path
    assert dashboard.request("GET", "/").status == 200
    for path in ("/api/runs", "/api/events", "/api/runs/one/files/config.yaml", "/api/report.html?run=one"):
        response = dashboard.request("GET", path)
        assert response.status == 401 and b"one" not in response.body
    assert dashboard.request("GET", "/api/runs", headers={"Authorization": f"Bearer {secret}"}).status == 200
    assert dashboard.request("GET", "/api/runs", headers={"Authorization": f"Bearer {secret}x"}).status == 401
    assert dashboard.write("POST", "/api/login", {"token": "wrong"}).status == 401
    login = dashboard.write("POST", "/api/login", {"token": secret})
    cookie = login.headers["Set-Cookie"]
    assert login.status == 200 and "HttpOnly" in cookie and "SameSite" in cookie and secret not in cookie
    assert dashboard.request("GET", "/api/runs", headers={"Cookie": cookie.split(";")[0]}).status == 200
    first = dashboard.request("GET", dashboard.login_path)
    assert first.status == 303 and first.headers["Location"] == "/" and "Set-Cookie" in first.headers
    assert "Set-Cookie" not in dashboard.request("GET", dashboard.login_path).headers
    dashboard.end()
    assert secret not in dashboard.process.stdout.read() + dashboard.process.stderr.read()


def test_a_token_is_generated_if_none_is_given(writer, start):
    dashboard = start("--host", "0.0.0.0")
    assert "ticket=" in dashboard.login_path
    # The printed address is that of this machine, not the wildcard address.
    assert not dashboard.address.startswith("0.0.0.0:")
    assert dashboard.request("GET", "/").status == 200
    assert dashboard.request("GET", "/api/runs").status == 401


@pytest.mark.parametrize("words,status,text", [
    (["--dir", "/nothing/there"], 78, "no runs directory"),
    (["--port", "99999"], 78, "--port"),
    (["--prot", "1"], 78, "unknown option"),
    (["--host", "192.0.2.1"], 75, "cannot listen"),
    (["--token-file", "/nothing"], 78, "no such file"),
])
def test_bad_options(runs, words, status, text):
    result = subprocess.run([LOCKSTEP, "ui", "--dir", runs, *words], capture_output=True, text=True, timeout=TIMEOUT)
    assert result.returncode == status and text in result.stderr, result
    assert len(result.stderr.splitlines()) == 1


def test_token_file_that_others_can_read(runs, tmp_path):
    token = tmp_path / "token"
    token.write_text("a-secret-of-some-length")
    token.chmod(0o644)
    result = subprocess.run([LOCKSTEP, "ui", "--dir", runs, "--token-file", token], capture_output=True, text=True, timeout=TIMEOUT)
    assert result.returncode == 78 and "others can read it" in result.stderr and "a-secret" not in result.stderr


def test_path_traversal_is_rejected(runs, writer, start):
    writer.finished_run("one")
    (runs.parent / "secret").write_text("the secret")
    (runs / "one/out").symlink_to(runs.parent)
    (runs / "linked").symlink_to(runs.parent)
    dashboard = start()
    dashboard.wait_for_runs(1)
    for path in ("/api/runs/one/files/../../secret", "/api/runs/one/files/..%2f..%2fsecret", "/api/runs/one/files/%2e%2e/%2e%2e/secret",
                 "/api/runs/one/files//etc/passwd", "/api/runs/one/files/%2fetc%2fpasswd", "/api/runs/one/files/out/secret",
                 "/api/runs/one/files/..%5c..%5csecret", "/api/runs/one/files/%00", "/api/runs/linked/files/secret",
                 "/api/runs/..%2f/files/secret", "/api/runs/../files/secret", "/api/runs/%2e%2e/files/secret",
                 "/api/artifacts/..%2f..%2fsecret/1/0", "/../secret", "/%2e%2e/secret", "/api/runs/./files/one/config.yaml"):
        response = raw(dashboard, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert b"the secret" not in response and b"root:" not in response, path
        assert response.split(b" ")[1] in (b"404", b"400", b"403"), (path, response[:200])
    assert [row["id"] for row in dashboard.get("/api/runs")["runs"]] == ["one"]


def test_path_traversal_with_random_paths_is_rejected(runs, writer, start):
    writer.finished_run("one")
    (runs.parent / "secret").write_text("the secret")
    (runs / "one/out").symlink_to(runs.parent)
    dashboard = start()
    pieces = ["..", "%2e%2e", "%2E.", ".", "%2e", "/", "%2f", "%2F", "//", "\\", "%5c", "%00", "%", "%2", "%252e%252e", "%252f", "%c0%ae%c0%ae",
              "%u002e", "secret", "out", "etc", "passwd", "one", "files", "config.yaml", "api", "runs", "events", "~", ";", "?", "#", "\xff"]
    dice = random.Random(5)
    host, port = dashboard.address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT)
    statuses = set()
    for _ in range(1500):
        path = dice.choice(["/", "/api/runs/one/files/", "/api/runs/", "/api/artifacts/"]) + "".join(dice.choices(pieces, k=dice.randint(1, 9)))
        connection.putrequest("GET", "/x", skip_host=True)
        connection._buffer[0] = b"GET " + path.encode("latin-1") + b" HTTP/1.1"
        connection.putheader("Host", "localhost")
        connection.endheaders()
        response = connection.getresponse()
        body = response.read()
        statuses.add(response.status)
        assert b"the secret" not in body and b"root:" not in body, path
        assert response.status < 500, path
    assert {404, 200} <= statuses
    connection.close()


def test_large_and_malformed_requests(writer, start):
    writer.finished_run("one")
    dashboard = start()
    large = dashboard.write("POST", "/api/runs/one/tags", {"note": "x" * 100_000})
    assert large.status == 413
    assert dashboard.write("POST", "/api/runs/one/tags", {"note": "x" * 5000}).status == 400
    for text in ("GET /" + "a" * 20000 + " HTTP/1.1\r\nHost: localhost\r\n\r\n", "\r\n\r\n", "GET\r\n\r\n", "\0" * 1000,
                 "GET /api/runs HTTP/1.1\r\nHost: localhost\r\n" + "X: " + "y" * 20000 + "\r\n\r\n",
                 "POST /api/runs/one/tags HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n",
                 "POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
                 "GET /api/runs?filter=" + "(" * 3000 + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"):
        raw(dashboard, text, whole=False)
        assert dashboard.get("/api/server")["version"]
    for body in ("[]", "null", "{", '{"add": 1}', '{"add": [1]}', '{"note": []}', "[" * 50000):
        response = dashboard.request("POST", "/api/runs/one/tags", body=body, headers={
            "X-Lockstep-Request": "1", "Content-Type": "application/json"})
        assert response.status == 400, body[:20]


def test_a_killed_dashboard_leaves_no_files(runs, writer, start):
    writer.finished_run("one")
    before = sorted(os.listdir(runs))
    dashboard = start()
    dashboard.get("/api/series", run="one", metric="train/loss")
    dashboard.process.kill()
    dashboard.process.wait(TIMEOUT)
    assert sorted(os.listdir(runs)) == before
