"""`lockstep doctor s3://...` against a real S3 server: what works, and one line for each right, clock or server that does not."""

import http.server
import json
import signal
import threading
import time
from email.utils import formatdate

import pytest

import processes
from object_server import BUCKET, KEY, SECRET, ObjectServer
from processes import LOCKSTEP, environment, free_port

ALL = ["endpoint", "clock", "credentials", "list", "write", "read", "upload", "download", "delete"]
SHARD = b"shard" * 1000


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    server = ObjectServer(tmp_path_factory.mktemp("server"))
    server.put("shards/a.bin", SHARD)
    yield server
    server.close()


@pytest.fixture
def server(running):
    """Afterwards, no object is left."""
    before = objects(running)
    yield running
    running.proxy.reset()
    assert objects(running) == before


def objects(server):
    return sorted(path.relative_to(server.directory).as_posix() for path in (server.directory / BUCKET).rglob("*")
                  if path.is_file() and ".sgwtmp" not in path.parts)


def doctor(cwd, server, *options, path=f"s3://{BUCKET}/shards", code=0, expected=ALL, **changes):
    """The result of each check: {check: (health, text)}."""
    ended = processes.run([LOCKSTEP, "doctor", path, "--json", *options], cwd, environment(**server.environment(**changes)))
    assert ended.code == code, ended.out + ended.err
    assert ended.err == "" and SECRET not in ended.out
    findings = json.loads(ended.out)
    assert expected is None or [finding["what"] for finding in findings] == expected, findings
    return {finding["what"]: (finding["health"], finding["text"]) for finding in findings}


def deny(*methods):
    return lambda method, path, number: (403, "AccessDenied") if method in methods and path != "/" else None


def test_all_rights(server, tmp_path):
    found = doctor(tmp_path, server)
    assert {health for health, _ in found.values()} == {"good"}, found
    assert found["credentials"][1] == "key ...-key, from AWS_ACCESS_KEY_ID: accepted"
    assert found["list"][1] == f"s3://{BUCKET}/shards has 1 object"
    assert "MB/s: 33.6 MB" in found["upload"][1] and "MB/s: 33.6 MB in 4 ranges" in found["download"][1]
    assert server.proxy.bytes_of("a.bin") == 0
    assert list(tmp_path.iterdir()) == [], "no files are left here"


def test_text_has_one_line_per_check(server, tmp_path):
    ended = processes.run([LOCKSTEP, "doctor", f"s3://{BUCKET}/new/place"], tmp_path, environment(**server.environment()))
    assert ended.code == 0, ended.out + ended.err
    assert [line[9:26].strip() for line in ended.out.splitlines()] == ALL
    assert {line.split()[0] for line in ended.out.splitlines()} == {"ok"}


def test_profile(server, tmp_path):
    file = tmp_path / "credentials"
    file.write_text(f"[default]\naws_access_key_id = other\n\n[work]\naws_access_key_id={KEY}\naws_secret_access_key = {SECRET}\n")
    names = {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None}
    found = doctor(tmp_path, server, AWS_SHARED_CREDENTIALS_FILE=str(file), AWS_PROFILE="work", **names)
    assert found["credentials"] == ("good", f"key ...-key, from profile 'work' of {file}: accepted")


class RoleServer(http.server.BaseHTTPRequestHandler):
    """Of a container whose role may use the bucket."""

    def do_GET(self):
        keys = {"AccessKeyId": KEY, "SecretAccessKey": SECRET, "Expiration": "2099-01-01T00:00:00Z"}
        body = json.dumps(keys).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_role_of_a_container(server, tmp_path):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), RoleServer) as role:
        thread = threading.Thread(target=role.serve_forever, args=(0.05,))
        thread.start()
        try:
            names = {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None, "HOME": str(tmp_path)}
            url = f"http://127.0.0.1:{role.server_address[1]}/keys"
            found = doctor(tmp_path, server, AWS_CONTAINER_CREDENTIALS_FULL_URI=url, **names)
        finally:
            role.shutdown()
            thread.join(processes.TIMEOUT_S)
    assert found["credentials"][0] == "good", found


@pytest.mark.parametrize("changes, text", [
    ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "key ...-key, from AWS_ACCESS_KEY_ID: s3://data/shards: check AWS_ACCESS_KEY_ID"),
    ({"AWS_ACCESS_KEY_ID": "unknown"}, "check AWS_ACCESS_KEY_ID"),
    ({"AWS_SESSION_TOKEN": "unknown"}, "the session token is invalid: check AWS_SESSION_TOKEN"),
    ({"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None}, "none: set AWS_ACCESS_KEY_ID")])
def test_wrong_credentials(server, tmp_path, changes, text):
    found = doctor(tmp_path, server, code=75, expected=ALL[:3], HOME=str(tmp_path), **changes)
    assert found["credentials"][0] == "problem" and text in found["credentials"][1]


def test_clocks(server, tmp_path):
    path = f"s3://{BUCKET}/shards/a.bin"
    server.proxy.fault = deny("PUT", "POST")  # nothing is transferred
    for ahead, health, code, text in ((30, "good", 0, "30 s ahead of"), (-120, "warning", 0, "120 s behind"),
                                      (1200, "problem", 75, "1200 s ahead of the server's: synchronize it")):
        server.proxy.headers["Date"] = lambda ahead=ahead: formatdate(time.time() - ahead, usegmt=True)
        # Far off, the client corrects the time of its signatures by this header, and the server refuses them.
        expected = ALL[:6] + ["download"] if code == 0 else None
        found = doctor(tmp_path, server, path=path, code=code, expected=expected)["clock"]
        assert found[0] == health
        assert text in found[1].replace("31 s", "30 s").replace("119 s", "120 s").replace("1201 s", "1200 s")


def test_only_the_right_to_read(server, tmp_path):
    server.proxy.fault = deny("PUT", "POST")
    found = doctor(tmp_path, server, expected=ALL[:6] + ["download"])
    assert found["write"] == ("warning", "not permitted: data can be read, but checkpoint.mirror needs this right")
    assert found["read"][0] == "good" and f"1.0 KB of s3://{BUCKET}/shards/a.bin" in found["read"][1]
    assert found["download"][0] == "good" and "5.0 KB in 1 range" in found["download"][1]


def test_no_right_to_delete(server, tmp_path):
    server.proxy.fault = deny("DELETE")
    found = doctor(tmp_path, server)
    assert found["delete"][0] == "warning" and "remains; checkpoint.mirror needs this right" in found["delete"][1]
    left = found["delete"][1].split("not permitted: ")[1].split(" remains")[0].removeprefix("s3://")
    server.client.delete_file(left)


@pytest.mark.parametrize("prefix", ["", "/prefix"])
def test_no_such_bucket(server, tmp_path, prefix):
    found = doctor(tmp_path, server, path=f"s3://nowhere{prefix}", code=75, expected=ALL[:4])
    assert found["list"][0] == "problem" and "no such bucket" in found["list"][1]


def test_no_server(server, tmp_path):
    found = doctor(tmp_path, server, code=75, expected=ALL[:1], AWS_ENDPOINT_URL=f"http://127.0.0.1:{free_port()}")
    assert "cannot connect; is AWS_ENDPOINT_URL" in found["endpoint"][1]


def test_stalled_download_ends_with_the_timeout(server, tmp_path):
    server.proxy.fault = lambda method, path, number: "stall" if method == "GET" and ".lockstep-doctor" in path else None
    found = doctor(tmp_path, server, "--timeout", "3", code=75, expected=ALL[:6])
    assert found["read"] == ("problem", "not done when the 3 s of all checks were over: the network or the server is slow; "
                             "--timeout gives them longer")


def test_terminated_while_it_uploads(server, tmp_path):
    started, parts = [], []

    def terminate(method, path, number):
        if method == "PUT" and ".lockstep-doctor" in path:
            parts.append(path)
            if len(parts) == 3:  # the first is the small object
                started[0].send_signal(signal.SIGTERM)
                return "stall"
        return None

    server.proxy.fault = terminate
    started.append(processes.start([LOCKSTEP, "doctor", f"s3://{BUCKET}/shards"], tmp_path, environment(**server.environment())))
    out, err = started[0].communicate(timeout=processes.TIMEOUT_S)
    assert started[0].returncode == -signal.SIGTERM, out + err
    assert "PROBLEM  upload           interrupted\n" in out


@pytest.mark.parametrize("words, text", [
    (["ftp://host/x"], "unknown scheme 'ftp'; supported: s3://bucket/key"), (["s3://"], "the name of a bucket is missing"),
    (["s3://b/x", "--dir", "y"], "--dir has no effect"), (["s3://b/x", "--timeout", "0"], "--timeout must be from 1"),
    (["--timeout", "5"], "--timeout is for the checks of a bucket"), (["s3://b", "s3://c"], "unexpected argument 's3://c'"),
    ([f"s3://{KEY}:{SECRET}@b/x"], "credentials do not belong into a path")])
def test_invalid_arguments(tmp_path, words, text):
    ended = processes.run([LOCKSTEP, "doctor", *words], tmp_path)
    assert ended.code == 78 and text in ended.err and len(ended.err.splitlines()) == 1
    assert SECRET not in ended.err
