"""Data and checkpoints in buckets of Google Cloud Storage and of Azure: the bits of local data, and one clear line if it cannot be."""

import itertools
import json
import re
import shutil
import signal

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import processes
from cloud_servers import ACCOUNT, ACCOUNT_KEY, AzureServer, GcsServer, sas_token
from processes import LOCKSTEP, TIMEOUT_S, environment, wait_until
from refusals import error_lines
from test_collector import contents
from test_tracking import agents_of
from web_server import made_certificate

pytestmark = pytest.mark.long

STEPS = 8


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    servers = {"gs": GcsServer(tmp_path_factory.mktemp("gs")), "az": AzureServer(tmp_path_factory.mktemp("az"))}
    yield servers
    for server in servers.values():
        server.close()


@pytest.fixture
def server(servers, request):
    servers[request.param].proxy.reset()
    yield servers[request.param]
    servers[request.param].proxy.reset()


BOTH = pytest.mark.parametrize("server", ["gs", "az"], indirect=True)
ON_GS = pytest.mark.parametrize("server", ["gs"], indirect=True)
ON_AZ = pytest.mark.parametrize("server", ["az"], indirect=True)


def use_data(job, name, folder):
    """A job that trains on two dataset shards in `folder`."""
    folder.mkdir()
    rng = np.random.default_rng(1)
    if name == "tokens":
        for shard in "ab":
            rng.integers(0, 61, 40 * 16 + 1).astype(np.uint16).tofile(folder / f"{shard}.bin")
        job.config["model"] = {"name": "gpt", "vocab_size": 61, "context": 16, "layers": 1, "heads": 2, "width": 16}
        train_set = {"name": "tokens", "length": 16}
    else:
        for shard in "ab":
            table = pa.table({"x": rng.standard_normal(40), "y": rng.standard_normal(40), "label": rng.integers(0, 3, 40)})
            if name == "parquet":
                pa.parquet.write_table(table, folder / f"{shard}.parquet")
            else:
                (folder / f"{shard}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
        job.config["model"] = {"name": "mlp", "input": "features", "inputs": 2, "hidden": [4], "classes": 3}
        train_set = {"name": name, "label": "label"}
    job.config["data"] = {"train": train_set | {"path": str(folder)}, "batch_size": 8, "workers": 1, "shuffle_buffer": 20,
                          "object_cache": {"dir": str(job.directory / "cache"), "request_timeout": "3 s"}}
    job.config["train"] = {"max_steps": STEPS, "epochs": 10, "log_every": "1 step"}
    job.write()
    return folder


def losses(job, *overrides, **how):
    return job.series(job.train(*overrides, **how).name, "train/loss")


def files_below(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def weights_of(run):
    return (run / "checkpoints" / str(STEPS) / "model.safetensors").read_bytes()


@pytest.mark.parametrize("server, name", [("gs", "jsonl"), ("gs", "parquet"), ("gs", "tokens"), ("az", "parquet"), ("az", "tokens")],
                         indirect=["server"])
def test_the_order_of_local_data(job, server, name):
    folder = use_data(job, name, job.directory / "rows")
    server.put_folder(folder, f"{name}/rows")
    local = losses(job)
    env = environment(**server.environment())
    assert losses(job, f"data.train.path={server.root}/{name}/rows", env=env) == local
    server.proxy.reset()
    assert losses(job, f"data.train.path={server.root}/{name}/rows", env=env) == local
    assert not any(method == "GET" and "alt=media" in path for method, path, _ in server.proxy.requests)  # it is in the cache


@BOTH
def test_faults_change_no_bit(job, server):
    folder = use_data(job, "parquet", job.directory / "rows")
    server.put_folder(folder, "faults/rows")
    local = losses(job)
    # Without connections that break in mid-answer, after which the clients can wait for minutes.
    server.proxy.fault = lambda method, path, number: ["503", None, None, "refuse", None, None][number % 6]
    assert losses(job, f"data.train.path={server.root}/faults/rows", env=environment(**server.environment())) == local


@BOTH
def test_faults_of_uploads_change_no_bit(job, server, request):
    """Requests that are refused or get no answer, and connections that break after one: the bucket has the files of the disk."""
    use_data(job, "tokens", job.directory / "rows")
    mirror = f"{server.root}/uploads/{request.node.name}"
    faults = {8: "cut", 11: "503", 16: "refuse"}  # numbers of writing requests
    writes = itertools.count()

    def fault(method, path, number):
        if method in ("GET", "HEAD"):
            return None
        chosen = faults.get(next(writes))
        # Azure's client repeats a request without its body if the connection breaks after it, and then waits a minute.
        return "503" if chosen == "refuse" and "comp=block" in path else chosen

    server.proxy.fault = fault
    env = environment(**server.environment())
    ended = job.run(f"checkpoint.mirror={mirror}", "checkpoint.every=4 steps", env=env)
    assert ended.code == 0 and "not uploaded" not in ended.out + ended.err, ended.out + ended.err
    assert next(writes) > max(faults)
    run = job.only_run()
    server.proxy.reset()
    for step in (4, STEPS):
        ended = processes.run([LOCKSTEP, "ckpt", "fetch", f"{mirror}/{run.name}/{step}", "--dir", job.directory / "copies"],
                              job.directory, env)
        assert ended.code == 0, ended.out + ended.err
        local, copy = (files_below(runs / run.name / "checkpoints" / str(step)) for runs in (job.runs, job.directory / "copies"))
        assert copy == local


@BOTH
def test_killed_while_a_checkpoint_is_uploaded(job, server):
    """Its manifest is not in the bucket, or empty; the run resumes from the one before with the same bits."""
    folder = use_data(job, "tokens", job.directory / "rows")
    server.put_folder(folder, "killed/rows")
    job.config["checkpoint"] = {"every": "2 steps"}
    job.write()
    whole = job.train()
    settings = [f"data.train.path={server.root}/killed/rows", f"checkpoint.mirror={server.root}/killed/mirror"]
    env = environment(**server.environment())
    started, uploaded = [], []

    def kill(method, path, number):
        """At the manifest of the second checkpoint that is uploaded."""
        manifest = re.search(r"/(\d+)/manifest\.json", path.replace("%2F", "/"))
        if not manifest or method not in ("PUT", "POST") or "comp=lease" in path:
            return None
        uploaded.append(int(manifest[1]))
        if uploaded[-1] == uploaded[0]:
            return None
        started[0].send_signal(signal.SIGKILL)
        return "refuse" if "/upload/" in path or "comp=" in path else None  # Azure: an empty object is there first

    server.proxy.fault = kill
    started.append(job.start(*settings, env=env))
    assert processes.finish(started[0]).code == -signal.SIGKILL
    processes.wait_until(lambda: not processes.find(job.directory), processes.TIMEOUT_S, "the agents of the run end")
    server.proxy.reset()
    (killed,) = set(job.runs.iterdir()) - {whole}
    shutil.rmtree(killed)
    ended = job.run(*settings, options=["--resume", killed.name], env=env)
    assert ended.code == 0, ended.err
    assert [step for step, _ in job.series(killed.name, "train/loss")] == list(range(uploaded[0] + 1, STEPS + 1))
    assert weights_of(killed) == weights_of(whole)

    server.proxy.reset()
    mirror = f"{server.root}/killed/mirror/{killed.name}"
    copies = job.directory / "copies"
    ended = processes.run([LOCKSTEP, "ckpt", "fetch", mirror, "--dir", copies], job.directory, env)
    assert ended.code == 0 and f"checkpoints/{STEPS}: ok, " in ended.out, ended.out + ended.err
    assert weights_of(copies / killed.name) == weights_of(whole)


def doctor(cwd, path, env, code=0):
    """The result of each check: {check: (health, text)}."""
    ended = processes.run([LOCKSTEP, "doctor", path, "--json"], cwd, environment(**env))
    assert ended.code == code, ended.out + ended.err
    assert ACCOUNT_KEY not in ended.out and "sig=" not in ended.out
    return {finding["what"]: (finding["health"], finding["text"]) for finding in json.loads(ended.out)}


@BOTH
def test_doctor(tmp_path, server):
    server.put("doctor/a.bin", b"a" * 1000)
    found = doctor(tmp_path, f"{server.root}/doctor", server.environment())
    assert list(found) == ["endpoint", "clock", "credentials", "list", "write", "read", "upload", "download", "delete"], found
    assert {health for health, _ in found.values()} == {"good"}, found
    assert found["list"][1] == f"{server.root}/doctor has 1 object"
    assert "AZURE_STORAGE_KEY of account: accepted" in found["credentials"][1] or "not used" in found["credentials"][1]
    found = doctor(tmp_path, server.root.replace("data", "dada"), server.environment(), 75)
    assert "no such bucket" in found["list"][1]


@ON_AZ
def test_tokens_of_azure(tmp_path, server):
    server.put("sas/a.bin", b"a" * 1000)
    env = server.environment(AZURE_STORAGE_KEY=None, AZURE_STORAGE_ACCOUNT=ACCOUNT)
    path = "az://data/sas/a.bin"
    found = doctor(tmp_path, path, env | {"AZURE_STORAGE_SAS_TOKEN": sas_token("rl", "2099-01-01T00:00:00Z")})
    assert found["credentials"] == ("good", "AZURE_STORAGE_SAS_TOKEN: accepted")
    assert found["write"][0] == "warning" and "not permitted" in found["write"][1], found
    expired = doctor(tmp_path, path, env | {"AZURE_STORAGE_SAS_TOKEN": sas_token("rl", "2020-01-01T00:00:00Z")}, 75)
    assert expired["credentials"][0] == "problem", expired


def refused(job, path, texts, env, code=78):
    ended = job.run(f"data.train.path={path}", env=environment(**env))
    assert ended.code == code, ended.err
    (line,) = error_lines(ended, None)
    assert all(text in line for text in texts) and ACCOUNT_KEY not in line and "sig=" not in line, line
    assert not job.runs.exists()


@BOTH
def test_refused(job, server):
    use_data(job, "jsonl", job.directory / "rows")
    server.put("rows/a.jsonl", b"{}")
    env = server.environment()
    refused(job, f"{server.root.replace('data', 'dada')}/rows", ["no such bucket"], env)
    refused(job, f"{server.root}/row", ["no such object", f"did you mean '{server.root}/rows'?"], env)
    ended = job.run(f"checkpoint.mirror={server.root.replace('data', 'dada')}/mirror", env=environment(**env))
    assert ended.code == 78 and re.search("no such (bucket|container)$", error_lines(ended, None)[0]), ended.err
    server.proxy.fault = lambda method, path, number: (403, "Forbidden")
    refused(job, f"{server.root}/rows", ["access denied"], env)


@ON_GS
def test_refused_of_google(job, server, tmp_path):
    use_data(job, "jsonl", job.directory / "rows")
    refused(job, "gcs://data/rows", ["unknown scheme 'gcs'", "gs://bucket/key"], {})
    refused(job, "gs://data/rows?regoin=x", ["unknown option 'regoin'"], {})
    refused(job, "gs://key:hidden@data/rows", ["credentials do not belong into a path"], {})
    missing = {"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "key.json")}
    refused(job, "gs://data/rows", ["no valid credentials: set GOOGLE_APPLICATION_CREDENTIALS"], missing)
    refused(job, "gs://data/rows", ["STORAGE_EMULATOR_HOST: 'ftp://x' is not an endpoint"], {"STORAGE_EMULATOR_HOST": "ftp://x"})


@ON_AZ
def test_refused_of_azure(job, server):
    use_data(job, "jsonl", job.directory / "rows")
    refused(job, "abfs://data/rows", ["the storage account is missing: set AZURE_STORAGE_ACCOUNT"], server.environment())
    refused(job, "abfss://data@a.dfs.example.org/rows", [".dfs.example.org is not a server of Azure"], server.environment())
    refused(job, "abfss://data:x@account/rows", ["credentials do not belong into a path"], server.environment())
    wrong = server.environment(AZURE_STORAGE_KEY="d3Jvbmc=")
    refused(job, f"{server.root}/rows", ["no valid credentials: set AZURE_STORAGE_KEY"], wrong)
    refused(job, f"{server.root}/rows", ["AZURE_STORAGE_KEY is not a key"], server.environment(AZURE_STORAGE_KEY="wrong"))
    for url in ("https://example.org", "http://127.0.0.1.example.org"):
        token = {"AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=hidden", "AZURE_STORAGE_ENDPOINT": url}
        refused(job, f"{server.root}/rows", ["a token is sent to servers of Azure only"], token)


@BOTH
def test_encrypted(server, tmp_path, monkeypatch):
    certificate = made_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))  # for the client of this process too
    encrypted = type(server)(tmp_path, certificate)
    try:
        path = f"{server.root}/x"
        refused_by = doctor(tmp_path, path, encrypted.environment(SSL_CERT_FILE=None), 75)
        assert "certificate is not trusted" in refused_by["endpoint"][1]
        found = doctor(tmp_path, path, encrypted.environment())
        assert found["download"][0] == "good", found
    finally:
        encrypted.close()


@BOTH
def test_a_run_is_sent_and_read_there(server, job):
    place = f"{server.root}/runs"
    env = environment(**server.environment(XDG_CACHE_HOME=str(job.directory / "copies")))
    run = job.train(f"tracking.sinks=[{{name: bucket, path: '{place}', every: 1 s}}]", env=env)
    wait_until(lambda: not agents_of(run), TIMEOUT_S, "the agent's end")
    ended = processes.run([LOCKSTEP, "runs", "list", "--json", "--dir", place], job.directory, env)
    assert ended.code == 0, ended.err
    assert [(entry["id"], entry["state"]) for entry in json.loads(ended.out)] == [(run.name, "finished")]
    (copy,) = (job.directory / "copies/lockstep/runs").glob(f"*/{run.name}")
    assert contents(copy) == contents(run)
