"""The cache of objects against a real S3 server, through a network that fails in every way. No LibTorch: each start is cheap."""

import fcntl
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from object_server import BUCKET, CREDENTIALS, ObjectServer  # noqa: E402
from store_reader import MB, StoreReader  # noqa: E402

OBJECTS = {"shards/a.bin": 20_000_000, "shards/b.bin": 100, "shards/sub/c.bin": 0, "shards/sub/d.bin": 300_000}


def content_of(name):
    return random.Random(name).randbytes(OBJECTS[name])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = ObjectServer(tmp_path_factory.mktemp("server"))
    for name in OBJECTS:
        server.put(name, content_of(name))
    yield server
    server.close()


class Reader(StoreReader):
    env = CREDENTIALS

    def __init__(self, server, directory):
        super().__init__(directory)
        self.server = server

    def start(self, *paths, options="", **how):
        endpoint = f"endpoint_override=127.0.0.1:{self.server.proxy.port}&scheme=http{options}"
        return super().start(*[path if "?" in path else f"{path}?{endpoint}" for path in paths], **how)

    def refused(self, code, *texts, path=f"s3://{BUCKET}/shards", **how):
        return super().refused(code, *texts, path=path, **how)


@pytest.fixture
def reader(server, tmp_path):
    server.proxy.reset()
    yield Reader(server, tmp_path)
    server.proxy.reset()


PATH = f"s3://{BUCKET}/shards"
CHANGED = "was changed while the run reads it: restore it, or start again; new data need new names"


def verify_copies(reader):
    copies = reader.copies()
    assert sorted(copies) == ["a.bin", "b.bin", "c.bin", "d.bin"]
    for name in OBJECTS:
        assert copies[name.split("/")[-1]].read_bytes() == content_of(name), name


def test_objects_are_read_once_and_found_again(reader):
    lines, cost = reader.read(PATH)
    assert [line.split()[0] for line in lines] == [f"s3://{BUCKET}/{name}" for name in OBJECTS]
    assert cost["bytes"] == sum(OBJECTS.values()) and cost["retries"] == 0
    verify_copies(reader)
    again, cost = reader.read(PATH)
    assert again == lines and cost["bytes"] == 0 and cost["hits"] >= len(OBJECTS)


def test_processes_share_copies(reader):
    readers = [reader.start(PATH) for _ in range(3)]
    outputs = [reader.finish(process)[1].splitlines() for process in readers]
    assert outputs[0][:-1] == outputs[1][:-1] == outputs[2][:-1] and len(outputs[0]) == 1 + len(OBJECTS)
    assert reader.server.proxy.bytes_of(".bin") == sum(OBJECTS.values())


def test_a_copy_that_has_just_got_its_name_is_not_fetched_again(reader):
    """The process that has fetched it still has its lock for a moment."""
    path = f"s3://{BUCKET}/shards/a.bin"
    reader.read(path)
    reader.server.proxy.reset()
    with open(reader.copies()["a.bin"]) as copy:
        fcntl.flock(copy, fcntl.LOCK_EX)
        process = reader.start(path)
        while not reader.server.proxy.requests:
            assert process.poll() is None
        try:
            process.wait(timeout=0.3)
        except subprocess.TimeoutExpired:
            pass
    code, out, err = reader.finish(process)
    assert code == 0 and "bytes 0 " in out, out + err


@pytest.mark.parametrize("fault", ["503", "cut", "refuse", (500, "InternalError"), "stall"])
def test_failed_requests_are_repeated(reader, fault):
    left = {"HEAD": 1, "GET": 2}

    def once(method, path, number):
        left[method] -= 1
        return fault if left[method] >= 0 and not (fault == "stall" and method == "HEAD") else None

    reader.server.proxy.fault = once
    _, cost = reader.read(PATH, "hedge=off")
    assert cost["retries"] >= 2
    verify_copies(reader)


MANY = 60


@pytest.mark.parametrize("hedge, known", [("on", 30), ("on", 0), ("off", 30)])
def test_a_request_that_stalls_is_sent_a_second_time(reader, hedge, known):
    """Soon after there were enough others to know that it is slow, later before. Each object is one request."""
    contents = [random.Random(i).randbytes(70_000) for i in range(MANY)]
    for i, content in enumerate(contents):
        reader.server.put(f"many/{i:02}.bin", content)
    stalled = []

    def fault(method, path, number):
        done = sum(size == 70_000 for _, _, size in list(reader.server.proxy.requests))
        if method != "GET" or "/many/" not in path or stalled or done < known:
            return None
        stalled.append(path)
        return "stall"

    reader.server.proxy.fault = fault
    _, cost = reader.read(f"s3://{BUCKET}/many", *(["hedge=off"] if hedge == "off" else []))
    sent = [path for method, path, _ in reader.server.proxy.requests if method == "GET" and "/many/" in path]
    assert sent.count(stalled[0]) == 2
    assert cost["bytes"] == sum(map(len, contents))
    assert [reader.copies()[f"{i:02}.bin"].read_bytes() for i in range(MANY)] == contents
    if hedge == "on":
        assert cost["retries"] == 0 and 1 <= cost["hedged"] <= 1 + MANY // 20
    else:
        assert cost["retries"] == 1 and cost["hedged"] == 0


@pytest.mark.parametrize("hedge", ["on", "off"])
def test_a_version_that_is_late_is_requested_a_second_time(reader, hedge):
    for i in range(MANY):
        reader.server.put(f"versions/{i:02}.bin", b"x" * 100)
    proxy, held = reader.server.proxy, []

    def fault(method, path, number):
        if method != "HEAD" or held or sum(method == "HEAD" for method, _, _ in list(proxy.requests)) <= 50:
            return None
        held.append(path)
        return "hold"

    proxy.fault = fault
    try:
        # One after the other, without a thread that fetches ahead.
        paths = [f"s3://{BUCKET}/versions/{i:02}.bin" for i in range(MANY)]
        _, cost = reader.read(*paths, *(["hedge=off"] if hedge == "off" else []))
    finally:
        proxy.released.set()
    assert held and cost["bytes"] == MANY * 100
    if hedge == "on":
        assert cost["retries"] == 0 and cost["hedged"] >= 1
    else:
        assert cost["retries"] == 1 and cost["hedged"] == 0


def test_killed_while_fetching(reader):
    reader.server.proxy.fault = lambda method, path, number: "stall" if "a.bin" in path and method == "GET" else None
    process = reader.start(PATH)
    while not any("a.bin" in path and method == "GET" for method, path, _ in list(reader.server.proxy.requests)):
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    reader.finish(process)
    assert "a.bin" not in reader.copies()
    reader.server.proxy.reset()
    reader.read(PATH)
    verify_copies(reader)


def test_limit_of_the_cache(reader):
    """The copies used least recently are removed, and fetched again with the same content."""
    lines, cost = reader.read(f"{PATH}/b.bin", PATH, f"{PATH}/sub", max_mb=21, rounds=2)
    assert len(set(lines)) == len(OBJECTS)
    names = [f"lim/{letter}.bin" for letter in "abcd"]
    for name in names:
        OBJECTS[name] = 400_000
        reader.server.put(name, content_of(name))
        del OBJECTS[name]
    lines, cost = reader.read(f"s3://{BUCKET}/lim", max_mb=1, rounds=3)
    assert len(lines) == 12 and len(set(lines)) == 4
    assert cost["bytes"] > 4 * 400_000
    assert sum(path.stat().st_size for path in reader.copies().values()) <= MB
    reader.refused(78, "a.bin: its 20.0 MB exceed the cache of 1.0 MB; increase data.object_cache.max_mb", max_mb=1)


def test_changed_object(reader):
    """Between two runs it is fetched again; while a run reads it, the run ends."""
    for content in (b"first", b"other"):
        reader.server.put("changing/x.bin", content)
        reader.read(f"s3://{BUCKET}/changing")
        assert reader.copies()["x.bin"].read_bytes() == content
    for letter in "abc":
        reader.server.put(f"moving/{letter}.bin", bytes(600_000))
    gets = []

    def change(method, path, number):
        gets.extend([path] if method == "GET" and ".bin" in path else [])
        if method == "GET" and len(gets) == 4:  # each was fetched once
            for letter in "abc":
                reader.server.put(f"moving/{letter}.bin", b"1" * 600_000)

    reader.server.proxy.fault = change
    reader.refused(75, CHANGED, path=f"s3://{BUCKET}/moving", max_mb=1, rounds=3)


def test_object_that_becomes_shorter(reader):
    """Requests for its former bytes are not repeated."""
    reader.server.put("shorter/x.bin", bytes(6_000_000))

    def change(method, path, number):
        if method == "GET" and "x.bin" in path:
            reader.server.proxy.fault = lambda method, path, number: None
            reader.server.put("shorter/x.bin", bytes(3_000_000))

    reader.server.proxy.fault = change
    line = reader.refused(75, f"s3://{BUCKET}/shorter/x.bin: {CHANGED}", path=f"s3://{BUCKET}/shorter")
    assert "attempts" not in line


def put_listed(server, content, folder="listed"):
    """With a time in the past."""
    server.put(f"{folder}/x.bin", content)
    os.utime(server.directory / BUCKET / folder / "x.bin", (1_000_000_000, 1_000_000_000))


def test_changed_after_the_listing(reader):
    """Before the first request for the object."""
    put_listed(reader.server, b"first")

    def change(method, path, number):
        if "x.bin" in path:
            reader.server.proxy.fault = lambda method, path, number: None
            reader.server.put("listed/x.bin", b"other")

    reader.server.proxy.fault = change
    reader.refused(75, f"s3://{BUCKET}/listed/x.bin: {CHANGED}", path=f"s3://{BUCKET}/listed")
    assert "x.bin" not in reader.copies()
    reader.server.proxy.reset()
    reader.read(f"s3://{BUCKET}/listed")
    assert reader.copies()["x.bin"].read_bytes() == b"other"


def test_listed_again_while_the_process_ends(reader):
    """By a thread that fetches ahead, after the error of another object."""
    put_listed(reader.server, b"first", "ending")
    reader.server.put("ending/a.bin", b"refused")

    def fault(method, path, number):
        if "a.bin" in path:
            return (403, "AccessDenied")
        if "x.bin" in path:
            reader.server.put("ending/x.bin", b"other")
            return "hold"

    reader.server.proxy.fault = fault
    process = reader.start(f"s3://{BUCKET}/ending")
    try:
        line = process.stderr.readline()
    finally:
        reader.server.proxy.released.set()
    assert "access denied" in line and reader.finish(process)[0] == 78


def test_server_whose_listings_have_other_times(reader):
    put_listed(reader.server, b"first")
    reader.server.proxy.headers["Last-Modified"] = lambda: "Sun, 09 Sep 2001 01:48:20 GMT"  # 100 s after that of the listing
    reader.read(f"s3://{BUCKET}/listed")
    assert reader.copies()["x.bin"].read_bytes() == b"first"
    listings = [path for _, path, _ in reader.server.proxy.requests if "prefix=listed" in path]
    assert 2 <= len(listings) <= 3  # again by one or both of the threads that request the object at the start


def test_server_that_stays_away(reader):
    reader.server.proxy.fault = lambda method, path, number: "refuse" if "b.bin" in path else None
    reader.refused(75, f"{PATH}/b.bin: ", "attempts in", path=f"{PATH}/b.bin", timeout_ms=500)


def test_parquet_in_partitions(reader, tmp_path):
    pa.parquet.write_table(pa.table({"x": [1.0, 2.0, 3.0]}), tmp_path / "x.parquet")
    reader.server.put("table/part=1/x.parquet", (tmp_path / "x.parquet").read_bytes())
    lines, _ = reader.read(f"s3://{BUCKET}/table")
    assert lines == [f"s3://{BUCKET}/table/part=1/x.parquet rows 3"]


REFUSED = {
    "scheme": ("s4://data/shards", ["unknown scheme 's4'", "supported: s3://"], {}),
    "no bucket": ("s3://", ["the name of a bucket is missing"], {}),
    "unknown bucket": ("s3://dada/shards", ["s3://dada", "no such bucket"], {}),
    "unknown prefix": ("s3://data/shard", ["no such object", "did you mean 's3://data/shards'?"], {}),
    "unknown object": ("s3://data/shards/e.bin", ["no such object", "did you mean 's3://data/shards/"], {}),
    "option": ("s3://data/shards?regoin=x", ["unknown option 'regoin'; did you mean 'region'?"], {}),
    "secret in the path": ("s3://key:hidden@data/shards", ["credentials do not belong into a path"], {}),
    "user in the endpoint": ("s3://data/shards?endpoint_override=me:x@127.0.0.1:1&scheme=http", ["a user does not belong into a path"], {}),
    "wrong secret": ("s3://data/shards", ["check AWS_ACCESS_KEY_ID"], {"env": {"AWS_SECRET_ACCESS_KEY": "wrong"}}),
    "unknown key": ("s3://data/shards", ["check AWS_ACCESS_KEY_ID"], {"env": {"AWS_ACCESS_KEY_ID": "unknown"}}),
    "anonymous": ("s3://data/shards", ["access denied"], {"options": "&anonymous=true"}),
    "region": ("s3://data/shards", ["another region"], {"options": "&region=eu-west-1"}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(reader, case):
    path, texts, how = REFUSED[case]
    reader.refused(78, *texts, path=path, **how)


@pytest.mark.parametrize("code, text", [("ExpiredToken", "have expired"), ("RequestTimeTooSkewed", "the clock of this machine")])
def test_credentials_and_clocks(reader, code, text):
    reader.server.proxy.fault = lambda method, path, number: (403, code)
    reader.refused(75, text)
