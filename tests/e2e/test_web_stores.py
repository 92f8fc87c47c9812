"""Data of HTTP servers, and of repositories of a hub: the losses of local files, also with faults and when resumed, and checks by
`lockstep doctor`. The hub is a test server; tests/data/web_stores.py shows that huggingface_hub's clients read the same from it."""

import hashlib
import itertools
import json
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from aiohttp import web

import processes
from forward_proxy import ForwardProxy
from object_server import Proxy
from processes import LOCKSTEP, environment
from refusals import error_lines
from test_object_stores import tars_job
from web_server import TOKEN, FileServer, HubServer, made_certificate, ranged

ROWS = 96  # 12 steps of 8


def write_rows(path, seed):
    rng = np.random.default_rng(seed)
    rows = {"x": rng.standard_normal(ROWS), "y": rng.standard_normal(ROWS), "label": rng.integers(0, 3, ROWS)}
    pa.parquet.write_table(pa.table(rows), path)


@pytest.fixture
def rows_job(job):
    folder = job.directory / "rows"
    folder.mkdir()
    for i in range(2):
        write_rows(folder / f"{i}.parquet", i)
    job.config["data"] = {"train": {"name": "parquet", "path": str(folder), "label": "label"}, "batch_size": 8,
                          "shuffle_buffer": 64, "object_cache": {"dir": str(job.directory / "cache"), "request_timeout": "3 s"}}
    job.config["model"] = {"name": "mlp", "input": "features", "inputs": 2, "hidden": [4], "classes": 3}
    job.config["train"] = {"epochs": 1, "log_every": "1 step"}
    job.write()
    job.folder = folder
    return job


@pytest.fixture
def hub():
    hub = HubServer()
    yield hub
    hub.close()


def losses(job, run):
    return job.series(run.name, "train/loss")


def at_hub(hub, directory, **changes):
    """The token is in a file, as `hf auth login` leaves it."""
    (directory / "token").write_text(TOKEN + "\n")
    return environment(HF_ENDPOINT=hub.url, HF_HOME=str(directory), **changes)


def without_token(job):
    """No file of the runs contains the token."""
    return all(TOKEN.encode() not in path.read_bytes() for path in job.runs.rglob("*") if path.is_file())


def push_rows(hub, job, readme=b"# rows", **flags):
    files = {f"data/{path.name}": path.read_bytes() for path in job.folder.iterdir()}
    return hub.push("me/rows", files | {"README.md": readme}, **flags)


def test_folder_of_a_private_repository_on_two_ranks_and_resumed(rows_job, hub):
    job = rows_job
    job.config["data"]["shuffle_lanes"] = 2
    job.write()
    local = losses(job, job.train())
    first = push_rows(hub, job, private=True)
    path, env = "data.train.path=hf://datasets/me/rows/data", at_hub(hub, job.directory)
    run = job.train(path, "train.max_steps=5", env=env, ranks=2)
    ended = job.run(path, "train.max_steps=8", options=["--resume", run.name], env=env)
    assert ended.code == 0 and "is now at commit" not in ended.out, ended.out + ended.err
    latest = push_rows(hub, job, b"# more", private=True)
    ended = job.run(path, options=["--resume", run.name], env=env)
    assert ended.code == 0 and f'me/rows is now at commit "{latest}", but the run read "{first}" before' in ended.out, ended.out + ended.err
    assert dict(losses(job, run)) == pytest.approx(dict(local), rel=1e-5)
    contents = [name for _, name, headers in hub.content.requests if headers.get("Range") != "bytes=0-0"]
    assert len(contents) == len(set(contents)) == 2, "each file is fetched once"
    assert without_token(job) and TOKEN not in ended.out


def test_ranks_with_different_commits_are_refused(rows_job, hub):
    """The branch moves between the starts of two ranks: both commits have as many rows."""
    job = rows_job
    push_rows(hub, job)
    write_rows(job.folder / "0.parquet", 9)

    def push(path):
        if "/revision/" in path and sum("/revision/" in name for _, name, _ in hub.requests) == 2:
            push_rows(hub, job)

    hub.fault = push
    ended = job.run("data.train.path=hf://datasets/me/rows/data", env=at_hub(hub, job.directory), ranks=2)
    assert ended.code == 75, ended.err
    assert any("the repository was changed while the run started" in line for line in error_lines(ended, 2)), ended.err


class ChangingServer(FileServer):
    """Replaces a file when its version is requested for the second time after start()."""

    def start(self, name, content):
        self.left, self.change = 2, (name, content)

    left = 0

    async def handle(self, request):
        """At once: FileServer opens the file in another thread, so that the first answer could have the second version."""
        if request.headers.get("Range") == "bytes=0-0" and self.left > 0:
            self.left -= 1
            if self.left == 0:
                self.put(*self.change)
        content = (self.directory / request.path.lstrip("/")).read_bytes()
        return ranged(request, content, web.Response(body=content, headers={"ETag": f'"{hashlib.md5(content).hexdigest()}"'}))


def test_ranks_with_different_versions_of_a_file_are_refused(rows_job, tmp_path):
    """The file is replaced between the starts of two ranks with caches on separate disks: both versions have as many rows."""
    job = rows_job
    del job.config["data"]["object_cache"]["dir"]
    job.write()
    server, port = ChangingServer(tmp_path / "files"), processes.free_port()
    setting = f"data.train.path={server.url}/rows.parquet"
    caches = [{"XDG_CACHE_HOME": tmp_path / str(rank)} for rank in range(2)]
    ranks = {"WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    try:
        server.put("rows.parquet", (job.folder / "0.parquet").read_bytes())
        for cache in caches:
            job.train(setting, env=environment(**cache))  # the first version is in the caches
        write_rows(job.folder / "other.parquet", 9)
        server.start("rows.parquet", (job.folder / "other.parquet").read_bytes())
        started = [job.start(setting, env=environment(RANK=rank, LOCAL_RANK=rank, **ranks, **cache))
                   for rank, cache in enumerate(caches)]
        for ended in map(processes.finish, started):
            assert ended.code == 75, ended.err
            (line,) = error_lines(ended, None)
            assert "rows.parquet: rank 1 reads another version (" in line and "the file was changed while the run started" in line
    finally:
        server.close()


def test_through_a_proxy_of_the_environment(rows_job, tmp_path):
    job = rows_job
    one = job.folder / "0.parquet"
    local = losses(job, job.train(f"data.train.path={one}"))
    server, proxy = FileServer(tmp_path / "files", made_certificate(tmp_path)), ForwardProxy()
    variables = {"SSL_CERT_FILE": str(tmp_path / "cert.pem"), "HTTPS_PROXY": f"http://127.0.0.1:{proxy.port}"}
    try:
        server.put("rows.parquet", one.read_bytes())
        run = job.train(f"data.train.path={server.url}/rows.parquet", env=environment(**variables))
        assert losses(job, run) == local
        assert {(method, target) for method, target, _ in proxy.requests} == {("CONNECT", f"127.0.0.1:{server.port}")}
        before = len(proxy.requests)
        command = [LOCKSTEP, "doctor", f"{server.url}/rows.parquet"]
        assert processes.run(command, job.directory, environment(**variables)).code == 0 and len(proxy.requests) > before
        before = len(proxy.requests)
        assert processes.run(command, job.directory, environment(**variables, NO_PROXY="127.0.0.1")).code == 0
        assert len(proxy.requests) == before
    finally:
        proxy.close()
        server.close()


def test_encrypted_file_of_a_server_with_faults(rows_job, tmp_path):
    job = rows_job
    one = job.folder / "0.parquet"
    local = losses(job, job.train(f"data.train.path={one}"))
    certificate = made_certificate(tmp_path)
    server = FileServer(tmp_path / "files", certificate)
    plain = FileServer(tmp_path / "files")
    proxy = Proxy(plain.port)
    try:
        server.put("rows.parquet", one.read_bytes())
        run = job.train(f"data.train.path={server.url}/rows.parquet", env=environment(SSL_CERT_FILE=str(certificate[0])))
        assert losses(job, run) == local
        server.put("again.parquet", one.read_bytes())
        faults = itertools.cycle(["503", "cut", None, "refuse", None])
        proxy.fault = lambda method, path, number: next(faults)
        run = job.train(f"data.train.path=http://127.0.0.1:{proxy.port}/again.parquet")
        assert losses(job, run) == local
        ended = job.run(f"data.train.path={server.url}/rows.parquet")
        assert ended.code == 78 and "certificate is not trusted: set SSL_CERT_FILE" in ended.err, ended.err
        ended = job.run(f"checkpoint.mirror={server.url}/mirror", "checkpoint.every=5 steps")
        assert ended.code == 78 and "can only be read; valid: s3://bucket/prefix" in ended.err, ended.err
    finally:
        proxy.close()
        plain.close()
        server.close()


@pytest.mark.parametrize("mode", [None, "whole", "first range"])
def test_footer_of_a_parquet_file(rows_job, tmp_path, mode):
    """Is fetched first, if the server sends ranges."""
    rng = np.random.default_rng(3)
    rows = pa.table({"x": rng.standard_normal(12_000), "y": rng.standard_normal(12_000), "label": rng.integers(0, 3, 12_000)})
    server = FileServer(tmp_path / "files")
    try:
        pa.parquet.write_table(rows, server.directory / "rows.parquet")
        server.modes["/rows.parquet"] = mode
        size = (server.directory / "rows.parquet").stat().st_size
        local = losses(rows_job, rows_job.train(f"data.train.path={server.directory}/rows.parquet", "data.batch_size=2000"))
        assert losses(rows_job, rows_job.train(f"data.train.path={server.url}/rows.parquet", "data.batch_size=2000")) == local
        if mode is None:
            ranges = [headers["Range"] for _, _, headers in server.requests if headers["Range"] != "bytes=0-0"]
            assert ranges == [f"bytes={size - 65536}-{size - 1}", f"bytes=0-{size - 1}"]
    finally:
        server.close()


def test_range_of_archives(job):
    folder = tars_job(job)
    server = FileServer(folder)
    try:
        local = losses(job, job.train())
        assert losses(job, job.train(f"data.train.path={server.url}/{{0..2}}.tar")) == local
        assert server.bytes_of(".tar") == sum(path.stat().st_size for path in folder.iterdir())
        ended = job.run(f"data.train.path={server.url}/{{0..3}}.tar")
        assert ended.code == 78 and f"{server.url}/3.tar: no such file" in ended.err, ended.err
    finally:
        server.close()


class ReplacingServer(FileServer):
    """Replaces a file when the content of `when` is requested for the first time."""

    def __init__(self, directory, when, name, content):
        super().__init__(directory)
        self.when, self.replacement = when, (name, content)

    async def handle(self, request):
        if request.path == self.when and request.headers.get("Range") != "bytes=0-0" and self.replacement:
            self.put(*self.replacement)
            self.replacement = None
        return await super().handle(request)


def test_archive_that_is_replaced_after_the_start(job):
    """By one of the same size with other labels, before a run with an index opens it."""
    folder = tars_job(job)
    assert processes.run([processes.BIN / "lockstep-data", "index", folder], folder).code == 0
    content = bytearray((folder / "2.tar").read_bytes())
    with tarfile.open(folder / "2.tar") as archive:
        for member in archive:
            if member.name.endswith(".cls"):
                content[member.offset_data] = ord("0")
    server = ReplacingServer(folder, "/0.tar", "2.tar", bytes(content))
    try:
        path = f"{server.url}/{{0..2}}.tar"
        del job.config["data"]["shuffle_buffer"], job.config["data"]["shuffle_lanes"]
        job.config["data"] |= {"shuffle": False, "workers": 1}
        job.write()
        ended = job.run(f"data.train.path={path}", "train.log_every=1 step")
        assert ended.code == 75 and f"{server.url}/2.tar: was changed while the run reads it: restore it" in ended.err, ended.err
        assert server.replacement is None and job.train(f"data.train.path={path}")
    finally:
        server.close()


def doctor(cwd, path, env, code=0):
    ended = processes.run([LOCKSTEP, "doctor", path, "--json"], cwd, env)
    assert ended.code == code and ended.err == "" and TOKEN not in ended.out, ended.out + ended.err
    return {one["what"]: (one["health"], one["text"]) for one in json.loads(ended.out)}


def test_doctor(tmp_path, hub):
    server = FileServer(tmp_path / "files")
    try:
        server.put("rows.bin", b"1234" * 5000)
        found = doctor(tmp_path, f"{server.url}/rows.bin", environment())
        assert list(found) == ["endpoint", "list", "read", "download"]
        assert {health for health, _ in found.values()} == {"good"}, found
        server.modes["/rows.bin"] = "whole"
        assert doctor(tmp_path, f"{server.url}/rows.bin", environment())["read"][0] == "warning"
        found = doctor(tmp_path, f"{server.url}/none.bin", environment(), 75)
        assert found["list"] == ("problem", f"{server.url}/none.bin: no such file"), found
        ended = processes.run([LOCKSTEP, "doctor", server.url], tmp_path)
        assert ended.code == 78 and "cannot be listed over HTTP; valid: one file" in ended.err, ended.err
    finally:
        server.close()
    hub.push("me/rows", {"data/x.bin": b"1234" * 5000})
    hub.push("me/gated", {"x": b""}, gated="not accepted")
    env = at_hub(hub, tmp_path)
    found = doctor(tmp_path, "hf://datasets/me/rows", env)
    assert list(found) == ["endpoint", "credentials", "list", "read", "download"]
    assert found["credentials"] == ("good", f"token from {tmp_path}/token: accepted")
    assert found["list"][1] == "hf://datasets/me/rows has 1 object"
    found = doctor(tmp_path, "hf://datasets/me/gated", env, 75)
    assert "the repository is gated: accept its terms at" in found["list"][1]
    found = doctor(tmp_path, "hf://datasets/me/rows", environment(HF_ENDPOINT=hub.url, HF_TOKEN="hf_wrong", HF_HOME=str(tmp_path)), 75)
    assert found["credentials"] == ("problem", "hf://datasets/me/rows: the token from HF_TOKEN is not valid")
