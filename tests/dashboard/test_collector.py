"""A dashboard that receives runs of other machines: `lockstep ui --receive`, the sink `collector` and `lockstep sync`."""

import contextlib
import fcntl
import hashlib
import json
import os
import select
import socket
import ssl
import subprocess
import threading
import time

import pytest

from conftest import LOCKSTEP, TIMEOUT, Dashboard, LogWriter

TOKEN = "a token of the tests"
CONFIG = {"optimizer": {"lr": 0.1}}


@pytest.fixture
def token_file(tmp_path):
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    return file


@pytest.fixture
def collect(tmp_path, token_file):
    """Starts collectors of a directory that is not that of the runs."""
    started = []

    def start_collector(*options):
        started.append(Dashboard(tmp_path / "collected", "--receive", "--token-file", str(token_file), *options))
        return started[-1]

    yield start_collector
    for dashboard in started:
        if dashboard.process.poll() is None:
            dashboard.process.kill()
        dashboard.process.wait(TIMEOUT)


def sync(runs, name, address, token=TOKEN, **more):
    sink = json.dumps({"name": "collector", "url": f"http://{address}", **more})
    environment = {**os.environ, "LOCKSTEP_COLLECTOR_TOKEN": token}
    return subprocess.run([LOCKSTEP, "sync", name, "--dir", runs, "--sink", sink], env=environment, capture_output=True,
                          text=True, timeout=TIMEOUT)


def contents(run_dir):
    """{name: bytes} of the files that describe a run."""
    files = [*run_dir.glob("*.json"), *run_dir.glob("*.yaml"), *run_dir.glob("events/*"), *run_dir.glob("ends/*")]
    return {str(file.relative_to(run_dir)): file.read_bytes() for file in files if file.name != "received.json"}


def authorized(token=TOKEN):
    return {"Authorization": f"Bearer {token}"}


def send(dashboard, method, path, body=b"", token=TOKEN, **params):
    return dashboard.request(method, f"/api/collect/{path}", headers=authorized(token), body=body, **params).status


def put(dashboard, path, body, token=TOKEN):
    return send(dashboard, "PUT", path, body, token, sha256=hashlib.sha256(body).hexdigest())


def state_of(dashboard, run):
    response = dashboard.request("GET", f"/api/runs/{run}", headers=authorized())
    return response.json()["state"] if response.status == 200 else None


def test_a_finished_run_arrives_byte_for_byte(runs, writer, collect, tmp_path):
    logs = writer.run("one", ranks=2, nodes=1, config=CONFIG)
    for log in logs[:2]:
        writer.do("many", log=log, metrics=["train/loss", "eval/loss"], **{"from": 0, "to": 20_000})
        writer.do("end", log=log)
    writer.close()
    subprocess.run([LOCKSTEP, "runs", "tag", "one", "+good", "--note", "a note", "--dir", runs], check=True, timeout=TIMEOUT)
    collector = collect()
    ended = sync(runs, "one", collector.address)
    assert (ended.returncode, ended.stdout) == (0, "collector: complete\n"), ended.stderr
    received = tmp_path / "collected" / "one"
    assert contents(received) == contents(runs / "one") and len(contents(received)) == 6
    collector.wait_for("the finished run", lambda: state_of(collector, "one") == "finished")
    # Again: nothing changes, and it does not look as if it were running.
    before = {file: file.stat().st_mtime_ns for file in received.rglob("*")}
    assert sync(runs, "one", collector.address).returncode == 0
    assert {file: file.stat().st_mtime_ns for file in received.rglob("*")} == before
    assert state_of(collector, "one") == "finished"
    listed = subprocess.run([LOCKSTEP, "runs", "list", "--json", "--dir", tmp_path / "collected"], check=True, capture_output=True)
    assert [(run["id"], run["state"], run.get("tags")) for run in json.loads(listed.stdout)] == [
        ("one-rank-0", "finished", ["good"]), ("one-rank-1", "finished", ["good"])]


def test_a_run_that_continued_is_sent_again(runs, writer, collect, tmp_path):
    log, = writer.run("one", config=CONFIG)
    writer.do("many", log=log, metrics=["train/loss"], **{"from": 0, "to": 100})
    writer.kill()
    (runs / "one" / "ends").mkdir()
    fact = {"state": "killed", "exit": 75, "signal": 9, "rank": 0, "reason": "", "time": 1.0}
    (runs / "one" / "ends" / "agent-00000.json").write_text(json.dumps(fact))
    collector = collect()
    assert sync(runs, "one", collector.address).returncode == 0
    assert state_of(collector, "one") != "finished"
    (runs / "one" / "ends" / "agent-00000.json").unlink()
    again = LogWriter(runs)
    log, = again.run("one", config=CONFIG)
    again.do("many", log=log, metrics=["train/loss"], **{"from": 100, "to": 200})
    again.do("end", log=log)
    again.close()
    assert sync(runs, "one", collector.address).returncode == 0
    assert contents(tmp_path / "collected" / "one") == contents(runs / "one")
    collector.wait_for("the end", lambda: state_of(collector, "one") == "finished")


def test_a_run_deleted_at_the_collector_is_sent_again_on_request(runs, writer, collect, tmp_path):
    writer.finished_run("one", config=CONFIG)
    collector = collect()
    assert sync(runs, "one", collector.address).returncode == 0
    collector.wait_for("the run", lambda: state_of(collector, "one") == "finished")
    assert collector.write("DELETE", "/api/runs/one", {"confirm": "one"}, authorized()).status == 200
    assert not (tmp_path / "collected" / "one").exists()
    assert sync(runs, "one", collector.address).returncode == 0
    assert contents(tmp_path / "collected" / "one") == contents(runs / "one")


def test_a_log_that_differs_is_reported_and_not_changed(runs, writer, collect, tmp_path):
    writer.finished_run("one", config=CONFIG)
    collector = collect()
    assert sync(runs, "one", collector.address).returncode == 0
    log = tmp_path / "collected" / "one" / "events" / "rank-00000.lsev"
    changed = log.read_bytes()[:-1] + b"x"
    log.write_bytes(changed)
    sink = json.dumps({"name": "collector", "url": f"http://{collector.address}"})
    ended = subprocess.run([LOCKSTEP, "sync", "one", "--dir", runs, "--sink", sink, "--timeout", "1 s"], capture_output=True,
                           text=True, env={**os.environ, "LOCKSTEP_COLLECTOR_TOKEN": TOKEN}, timeout=TIMEOUT)
    assert ended.returncode == 75 and "has a different log named rank-00000.lsev" in ended.stderr
    assert log.read_bytes() == changed


def test_receiving_is_off_by_default_and_requires_a_token(runs, start, writer, token_file):
    writer.finished_run("one", config=CONFIG)
    for host in ("127.0.0.1", "0.0.0.0"):  # a generated token is not shown
        ended = subprocess.run([LOCKSTEP, "ui", "--receive", "--dir", runs, "--host", host], capture_output=True, text=True,
                               timeout=TIMEOUT)
        assert ended.returncode == 78 and "--receive requires a token" in ended.stderr
    plain = start("--token-file", str(token_file))
    assert send(plain, "GET", "two") == 404 and put(plain, "two/files/run.json", b"{}") == 404
    ended = sync(runs, "one", plain.address)
    assert ended.returncode == 75 and "does not receive runs" in ended.stderr
    assert sorted(path.name for path in runs.iterdir() if not path.name.startswith(".")) == ["one"]


def test_bad_tokens_are_rejected_and_never_shown(runs, writer, collect, tmp_path, token_file):
    writer.finished_run("one", config=CONFIG)
    collector = collect()
    for token in ("", "another token of the tests", TOKEN[:-1], TOKEN + "x"):
        assert send(collector, "GET", "one", token=token) == 401
        assert put(collector, "one/files/run.json", b"{}", token) == 401
        assert send(collector, "POST", "one/logs/rank-00000.lsev", b"LSEVENTS", token, offset=0) == 401
    # A session of a browser is not enough: another site could use it.
    login = collector.request("GET", collector.login_path)
    cookie = login.headers["Set-Cookie"].partition(";")[0]
    assert collector.request("GET", "/api/runs", headers={"Cookie": cookie}).status == 200
    assert collector.request("GET", "/api/collect/one", headers={"Cookie": cookie}).status == 401
    ended = sync(runs, "one", collector.address, "another s3cret token")
    assert ended.returncode == 75 and "status 401" in ended.stderr
    no_token = sync(runs, "one", collector.address, "")
    assert no_token.returncode == 75 and "LOCKSTEP_COLLECTOR_TOKEN" in no_token.stderr
    token_file.chmod(0o644)
    assert "others can read it" in sync(runs, "one", collector.address, token_file=str(token_file)).stderr
    token_file.chmod(0o600)
    assert sync(runs, "one", collector.address, "", token_file=str(token_file)).returncode == 0
    stored = b"".join(file.read_bytes() for base in (runs, tmp_path / "collected") for file in base.rglob("*") if file.is_file())
    for secret in ("another s3cret token", TOKEN):
        assert secret not in ended.stdout + ended.stderr + no_token.stderr and secret.encode() not in stored


def test_paths_names_and_sizes_are_checked(collect, tmp_path):
    collector = collect("--max-runs", "2")
    for run in ("..", "%2e%2e", "%2e%2e%2fx", ".trash", "artifacts", "a%00b", "a%2fb"):
        assert put(collector, f"{run}/files/run.json", b"{}") in (400, 404), run
    for name in ("../run.json", "%2e%2e%2frun.json", "ends%2f..%2f..%2frun.json", "/etc/passwd", "received.json", "x.so", "run.json%00"):
        assert put(collector, f"one/files/{name}", b"{}") in (400, 404), name
    for name in ("..%2frank-00000.lsev", "rank-00000.lsev%00", "run.json", "%2e%2e"):
        assert send(collector, "POST", f"one/logs/{name}", b"LSEVENTS", offset=0) in (400, 404), name
    assert send(collector, "POST", "one/logs/rank-00000.lsev", b"LSEVENTS") == 400
    assert send(collector, "POST", "one/logs/rank-00000.lsev", b"LSEVENTS", offset=-1) == 400
    assert send(collector, "PUT", "one/files/run.json", b"{}", sha256="0" * 64) == 422
    assert put(collector, "one/files/run.json", b"{" + b" " * (300 << 10) + b"}") == 413
    assert [path for path in tmp_path.rglob("*") if path.name in ("run.json", "x.so")] == []
    assert put(collector, "one/files/run.json", b"{}") == 200 and put(collector, "two/files/run.json", b"{}") == 200
    assert put(collector, "three/files/run.json", b"{}") == 507
    assert collector.request("POST", "/api/runs/one/tags", headers=authorized(), body=b"{}").status == 403  # not JSON, not marked


def test_a_log_that_another_process_writes_is_refused_for_now(runs, writer, collect, tmp_path):
    writer.finished_run("one", config=CONFIG)
    collector = collect()
    sent = (runs / "one" / "events" / "rank-00000.lsev").read_bytes()
    assert send(collector, "POST", "one/logs/rank-00000.lsev", sent[:100], offset=0) == 200
    assert send(collector, "POST", "one/end") == 200
    with open(tmp_path / "collected" / "one" / "events" / "rank-00000.lsev", "rb") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        assert send(collector, "POST", "one/logs/rank-00000.lsev", sent[100:], offset=100) == 503
    assert send(collector, "POST", "one/logs/rank-00000.lsev", sent[100:], offset=100) == 200


def test_large_bodies_are_read_only_from_senders(collect):
    collector = collect()
    large = b"{" + b" " * (100 << 10) + b"}"
    assert put(collector, "one/files/run.json", large) == 200
    assert put(collector, "one/files/run.json", large, "another token") == 401
    for path in ("/api/login", "/api/views", "/"):
        response = collector.request("POST", path, headers=authorized(), body=large)
        assert (response.status, response.headers["Connection"]) == (413, "close")
    # Rejected after the head, without waiting for the body.
    with socket.create_connection(collector.address.split(":"), timeout=TIMEOUT) as connection:
        connection.sendall(b"POST /api/collect/one/logs/rank-00000.lsev?offset=0 HTTP/1.1\r\nHost: localhost\r\n"
                           b"Content-Length: 100000\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 401")


def test_a_running_run_is_shown_as_running_and_cannot_be_stopped_here(runs, collect, tmp_path):
    collector = collect()
    source = LogWriter(runs)
    log, = source.run("one", config=CONFIG)
    source.do("many", log=log, metrics=["train/loss"], **{"from": 0, "to": 100})
    sent = (runs / "one" / "events" / "rank-00000.lsev").read_bytes().rstrip(b"\0")
    assert send(collector, "POST", "one/logs/rank-00000.lsev", sent, offset=0) == 200
    collector.wait_for("the running run", lambda: state_of(collector, "one") == "running")
    response = collector.write("POST", "/api/runs/one/stop", {}, authorized())
    assert response.status == 409 and "another machine" in response.json()["error"]["message"]
    ended = subprocess.run([LOCKSTEP, "runs", "stop", "one", "--dir", tmp_path / "collected"], capture_output=True, text=True,
                           timeout=TIMEOUT)
    assert ended.returncode == 78 and "another machine" in ended.stderr
    assert not (tmp_path / "collected" / "one" / "stop_request.json").exists()
    # The collector is killed and restarted: lost until the next record, never finished.
    collector.process.kill()
    collector.process.wait(TIMEOUT)
    collector = collect()
    collector.wait_for("the run without a sender", lambda: state_of(collector, "one") == "lost")
    source.do("end", log=log)
    source.close()
    whole = (runs / "one" / "events" / "rank-00000.lsev").read_bytes()
    assert send(collector, "POST", "one/logs/rank-00000.lsev", whole[len(sent):], offset=len(sent)) == 200
    assert send(collector, "POST", "one/end") == 200
    collector.wait_for("the end", lambda: state_of(collector, "one") == "finished")


def token_command(file, *words):
    return subprocess.run([LOCKSTEP, "ui", "token", *words, "--tokens", file], capture_output=True, text=True, timeout=TIMEOUT)


def new_token(file, name, role):
    ended = token_command(file, "add", name, "--role", role)
    assert ended.returncode == 0 and len(ended.stdout) == 65, ended.stderr
    return ended.stdout.strip()


def changes(dashboard, token):
    """The statuses of all requests that change something."""
    write = authorized(token)
    return [dashboard.write("POST", "/api/runs/one/tags", {"add": ["good"]}, write).status,
            dashboard.write("POST", "/api/views", {"name": "mine", "view": "#/runs"}, write).status,
            dashboard.write("POST", "/api/runs/one/stop", {}, write).status,
            dashboard.write("DELETE", "/api/runs/one", {"confirm": "other"}, write).status]


def test_roles_of_tokens_and_the_audit_log(runs, start, writer, tmp_path):
    writer.finished_run("one", config=CONFIG)
    file = tmp_path / "tokens"
    ada, bob, node = new_token(file, "ada", "read"), new_token(file, "bob", "write"), new_token(file, "node-1", "send")
    assert token_command(file, "list").stdout == "ada read\nbob write\nnode-1 send\n"
    dashboard = start("--receive", "--tokens", str(file))
    dashboard.wait_for("the run", lambda: state_of_one(dashboard, bob) == "finished")
    audit = runs / ".dashboard" / "audit.jsonl"
    assert changes(dashboard, ada) == [403, 403, 403, 403] and not audit.exists()
    assert changes(dashboard, "another token") == [401, 401, 401, 401]
    assert changes(dashboard, node) == [403, 403, 403, 403] and not audit.exists()
    assert dashboard.write("POST", "/api/importance", {}, authorized(ada)).status == 400  # may ask, but about nothing
    for token, actions in ((ada, False), (bob, True)):
        server = dashboard.request("GET", "/api/server", headers=authorized(token)).json()
        assert (server["user"], server["actions"]) == ({ada: "ada", bob: "bob"}[token], actions)
    assert changes(dashboard, bob) == [200, 200, 409, 400]
    done = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [(line["user"], line["action"], line["run"]) for line in done] == [("bob", "tags", "one"), ("bob", "views", "")]
    assert done[0]["change"] == {"add": ["good"]} and done[0]["time"] <= done[1]["time"]
    # Only the token for sending sends; it sees nothing.
    assert [put(dashboard, "two/files/run.json", b"{}", token) for token in (ada, bob, node)] == [403, 403, 200]
    created = json.loads(audit.read_text().splitlines()[-1])
    assert (created["user"], created["action"], created["run"]) == ("node-1", "receive", "two")
    assert dashboard.request("GET", "/api/runs", headers=authorized(node)).status == 403
    # A session has the rights of its token, and ends with it.
    login = dashboard.write("POST", "/api/login", {"token": ada})
    session = {"Cookie": login.headers["Set-Cookie"].partition(";")[0]}
    assert dashboard.request("GET", "/api/runs", headers=session).status == 200
    assert dashboard.write("POST", "/api/runs/one/tags", {"add": ["x"]}, session).status == 403
    assert dashboard.write("POST", "/api/login", {"token": node}).status == 403
    assert token_command(file, "remove", "ada").returncode == 0
    assert dashboard.request("GET", "/api/runs", headers=session).status == 401
    assert dashboard.request("GET", "/api/runs", headers=authorized(ada)).status == 401
    assert dashboard.request("GET", "/api/runs", headers=authorized(bob)).status == 200
    assert token_command(file, "remove", "ada").returncode == 78
    assert token_command(file, "add", "bob", "--role", "read").returncode == 78
    assert all(secret not in path.read_text(errors="replace") for secret in (ada, bob, node)
               for path in (file, *runs.rglob("*")) if path.is_file())


def test_a_large_audit_log_is_replaced(runs, start, writer):
    writer.finished_run("one", config=CONFIG)
    dashboard = start()
    dashboard.wait_for("the run", lambda: dashboard.request("GET", "/api/runs/one").status == 200)
    audit = runs / ".dashboard" / "audit.jsonl"
    audit.parent.mkdir(exist_ok=True)
    audit.touch()
    os.truncate(audit, 16 << 20)
    for tag in ("a", "b"):
        assert dashboard.write("POST", "/api/runs/one/tags", {"add": [tag]}).status == 200
    assert [json.loads(line)["change"]["add"] for line in audit.read_text().splitlines()] == [["a"], ["b"]]
    assert audit.with_name("audit.1.jsonl").stat().st_size == 16 << 20


def state_of_one(dashboard, token):
    response = dashboard.request("GET", "/api/runs/one", headers=authorized(token))
    return response.json()["state"] if response.status == 200 else None


def test_runs_of_another_sender_cannot_be_changed(collect, tmp_path):
    file = tmp_path / "tokens"
    first, second = new_token(file, "node-1", "send"), new_token(file, "node-2", "send")
    dashboard = collect("--tokens", str(file))
    assert put(dashboard, "one/files/run.json", b"{}", first) == 200
    assert put(dashboard, "one/files/run.json", b"[]", second) == 409
    assert send(dashboard, "DELETE", "one/files/end.json", token=second) == 409
    assert (tmp_path / "collected" / "one" / "run.json").read_bytes() == b"{}"


class Proxy:
    """Passes connections on, the bytes to the collector at a limited rate, and keeps those bytes."""

    def __init__(self, address, bytes_per_s=None):
        self.target, self.bytes_per_s, self.sent = address.rsplit(":", 1), bytes_per_s, bytearray()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self.serve, args=(plain,), daemon=True).start()

    def decrypted(self, plain):
        return plain

    def serve(self, plain):
        with contextlib.suppress(OSError), self.decrypted(plain) as client:
            with socket.create_connection((self.target[0], int(self.target[1])), timeout=TIMEOUT) as server:
                sockets = {client: server, server: client}
                while True:
                    is_pending = isinstance(client, ssl.SSLSocket) and client.pending()
                    for one in [client] if is_pending else select.select(list(sockets), [], [], TIMEOUT)[0]:
                        piece = one.recv(65536 if not self.bytes_per_s else 1024)
                        if not piece:
                            return
                        if one is client:
                            self.sent += piece
                            if self.bytes_per_s:
                                time.sleep(len(piece) / self.bytes_per_s)
                        sockets[one].sendall(piece)


class TlsProxy(Proxy):
    """Ends TLS in front of a collector, like a reverse proxy, with a certificate of a private authority."""

    def __init__(self, directory, address):
        self.certificate, key = directory / "cert.pem", directory / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", self.certificate],
                       check=True, capture_output=True, timeout=TIMEOUT)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.certificate, key)
        super().__init__(address)
        self.url = f"https://localhost:{self.listener.getsockname()[1]}"

    def decrypted(self, plain):
        return self.context.wrap_socket(plain, server_side=True)


def test_a_slow_connection(runs, writer, collect, tmp_path):
    log, = writer.run("one", config=CONFIG)
    writer.do("many", log=log, metrics=["train/loss", "eval/loss"], **{"from": 0, "to": 4000})
    writer.do("end", log=log)
    writer.close()
    assert 160_000 < (runs / "one" / "events" / "rank-00000.lsev").stat().st_size < 256 << 10
    proxy = Proxy(collect().address, bytes_per_s=30_000)  # the log takes longer than a request may
    ended = sync(runs, "one", proxy.address)
    assert ended.returncode == 0, ended.stderr
    assert contents(tmp_path / "collected" / "one") == contents(runs / "one")
    proxy.listener.close()


def test_the_entries_of_ranks_send_their_own_logs_and_one_ends_the_run(runs, writer, collect, tmp_path):
    for log in writer.run("one", ranks=4, config={"tracking": {"ranks": "all"}}):
        writer.do("many", log=log, metrics=["train/loss"], **{"from": 0, "to": 100})
        writer.do("end", log=log)
    writer.close()
    (runs / "one" / "config.yaml").write_text("tracking: {ranks: all}\n")
    proxy = Proxy(collect().address)
    assert sync(runs, "one", proxy.address).returncode == 0
    assert contents(tmp_path / "collected" / "one") == contents(runs / "one")
    assert proxy.sent.count(b"POST /api/collect/one/end ") == 1
    assert proxy.sent.count(b"GET /api/collect/one/logs/") == 4 + 3
    proxy.listener.close()


def test_https_through_a_proxy(runs, writer, collect, tmp_path):
    log, = writer.run("one", config=CONFIG)
    writer.do("many", log=log, metrics=["train/loss", "eval/loss"], **{"from": 0, "to": 20_000})
    writer.do("end", log=log)
    writer.close()
    collector = collect()
    proxy = TlsProxy(tmp_path, collector.address)
    untrusted = sync(runs, "one", collector.address, url=proxy.url)
    assert untrusted.returncode == 75 and "certificate is not trusted" in untrusted.stderr
    assert not (tmp_path / "collected" / "one").exists()
    ended = sync(runs, "one", collector.address, url=proxy.url, ca_file=str(proxy.certificate))
    assert ended.returncode == 0, ended.stderr
    assert contents(tmp_path / "collected" / "one") == contents(runs / "one")
    proxy.listener.close()
