"""The mlflow sink in front of a server that fails: clear errors in bounded time, and completion without duplicates."""
import socket
import ssl
import subprocess
import time

import pytest

from fault_proxy import DROP_AFTER, DROP_BEFORE, HANG, PASS, FaultProxy, first
from mlflow_server import artifact, history, mlflow_server, pairs, run_tagged, runs_of
from sink_calls import JOB, Entry, Process, SinkError, info, time_of

TOKEN = "s3cret-t0ken"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with mlflow_server(tmp_path_factory.mktemp("mlflow")) as url:
        # The first request of each kind (run, batch, artifact) is slow on a busy machine.
        with Process() as process:
            one = entry_of(process, url, tmp_path_factory.mktemp("first"), timeout="100 s").open()
            one.scalars(1, loss=0.5)
            one.give("text", time=time_of(1), level="info", line="hello")
            one.finish()
            one.flush()
        yield url


@pytest.fixture
def proxy(server):
    with FaultProxy(server) as made:
        yield made


IN_TIME = 4  # timeout for a hanging server, in seconds; enough for a healthy one


def entry_of(process, url, run_dir, entry=None, repeats=0, timeout="30 s", **environment):
    return Entry(process, "mlflow", run_dir, entry or info(),
                 config={"tracking_uri": url, "experiment": run_dir.name, "timeout": timeout},
                 environment={"MLFLOW_HTTP_REQUEST_MAX_RETRIES": str(repeats), **environment})


def retry_until_success(call):
    """Retries after Environment errors, as the tracking agent does; returns their number."""
    for failures in range(20):
        try:
            call()
            return failures
        except SinkError as error:
            assert error.kind == "environment", error
    raise AssertionError("still failing after 20 attempts")


def milliseconds(step):
    return round(time_of(step) * 1000)


CALLS = ["experiments/", "runs/create", "runs/search", "runs/log-batch", "runs/update", "mlflow-artifacts"]
FAULTS = [(part, DROP_AFTER) for part in CALLS] + [("runs/create", 500), ("runs/search", DROP_BEFORE), ("runs/update", 500),
    ("mlflow-artifacts", DROP_BEFORE), ("runs/log-batch", 500), ("runs/log-batch", DROP_BEFORE), ("runs/log-batch", 429), ("runs/create", HANG), ("runs/log-batch", HANG), ("mlflow-artifacts", HANG)]


@pytest.mark.parametrize("part, fault", FAULTS)
def test_everything_is_stored_exactly_once(process, server, proxy, tmp_path, part, fault):
    one = entry_of(process, proxy.url, tmp_path, info(0, 1), **({"timeout": f"{IN_TIME} s"} if fault == HANG else {}))
    proxy.rule = first(2, fault, part)
    began = time.monotonic()

    def again():
        one.call("close")
        one.open()
        for call, more in one.since:
            one.call(call, **more)
        one.flush()

    failures = retry_until_success(again)
    one.since = [("scalars", {"step": 1, "time": time_of(1), "values": [["loss", 0.5], ["acc", "nan"]]}),
                 ("text", {"time": time_of(1), "level": "info", "line": "hello"}),
                 ("finish", {"end": {"state": "finished", "exit": 0, "reason": ""}})]
    failures += retry_until_success(again)
    assert failures == 2
    assert fault != HANG or time.monotonic() - began < 50  # did not wait until the proxy gives up after 60 s

    assert len(runs_of(server, tmp_path.name)) == 2
    run = run_tagged(server, tmp_path.name, run_id=f"{JOB}-rank-0")
    parent = run_tagged(server, tmp_path.name, role="group")
    assert pairs(run, "tags")["mlflow.parentRunId"] == parent["info"]["run_id"]
    assert (run["info"]["status"], parent["info"]["status"]) == ("FINISHED", "FINISHED")
    assert history(server, run, "loss") == [(1, milliseconds(1), 0.5)]
    assert history(server, run, "acc") == [(1, milliseconds(1), "NaN")]
    assert artifact(server, run, "logs/console.txt") == b"hello\n"


def test_idempotent_requests_are_retried_immediately(process, server, proxy, tmp_path):
    one = entry_of(process, proxy.url, tmp_path, repeats=2).open()
    proxy.rule = first(2, 502, "log-batch")
    one.scalars(1, loss=0.5)
    one.flush()
    faults = [fault for _, path, fault in proxy.log if "log-batch" in path]
    assert faults[-4:] == [502, 502, PASS, PASS]  # params, then metrics
    assert history(server, run_tagged(server, tmp_path.name, run_id=JOB), "loss") == [(1, milliseconds(1), 0.5)]


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_requests_a_pause_is_not_asked_again_before(process, proxy, tmp_path, status):
    proxy.rule, proxy.retry_after = lambda *_: status, "7"
    with pytest.raises(SinkError) as caught:
        entry_of(process, proxy.url, tmp_path, repeats=2).open()
    assert (caught.value.kind, caught.value.pause) == ("environment", 7)
    assert len(proxy.log) == 1


@pytest.mark.parametrize("status", [401, 403])
def test_rejected_credentials_are_reported_without_the_credentials(process, proxy, tmp_path, status):
    proxy.rule = lambda *_: status
    for secrets in ({"MLFLOW_TRACKING_TOKEN": TOKEN}, {"MLFLOW_TRACKING_USERNAME": "ada", "MLFLOW_TRACKING_PASSWORD": TOKEN}):
        with pytest.raises(SinkError) as caught:
            entry_of(process, proxy.url, tmp_path, **secrets).open()
        assert caught.value.kind == "config"
        assert caught.value.text.startswith(f"MLflow at {proxy.url} rejected the credentials ({status}): check MLFLOW_TRACKING_TOKEN")
        assert TOKEN not in caught.value.text and "\n" not in caught.value.text
    with pytest.raises(SinkError) as caught:
        one = entry_of(process, proxy.url, tmp_path)
        one.config.pop("tracking_uri")
        one.environment["MLFLOW_TRACKING_URI"] = proxy.url.replace("http://", f"http://ada:{TOKEN}@")
        one.open()
    assert caught.value.kind == "config" and TOKEN not in caught.value.text
    assert len(proxy.log) == 3  # a rejected request is not retried


def test_a_server_that_is_down(process, tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(SinkError) as caught:
            entry_of(process, url, tmp_path).open()
    assert (caught.value.kind, caught.value.text) == ("environment", f"MLflow at {url}: cannot connect")


def test_a_hanging_server_times_out(process, proxy, tmp_path):
    proxy.rule = lambda *_: HANG
    began = time.monotonic()
    with pytest.raises(SinkError) as caught:
        entry_of(process, proxy.url, tmp_path, repeats=5, timeout=f"{IN_TIME} s").open()
    assert (caught.value.kind, caught.value.text) == ("environment", f"MLflow at {proxy.url}: timed out")
    assert time.monotonic() - began > 0.9 * IN_TIME
    assert [fault for *_, fault in proxy.log] == [HANG]  # no retries after the timeout


@pytest.mark.parametrize("status", [302, 404])
def test_a_server_that_is_not_mlflow(process, proxy, tmp_path, status):
    proxy.rule = lambda *_: status
    proxy.error = b"<html>"
    with pytest.raises(SinkError) as caught:
        entry_of(process, proxy.url, tmp_path).open()
    assert caught.value.kind == "config"
    assert caught.value.text == f"MLflow at {proxy.url}: not an MLflow server (status {status})"


def test_a_metric_that_a_stricter_server_rejects(process, server, proxy, tmp_path):
    one = entry_of(process, proxy.url, tmp_path).open()
    proxy.rule = lambda path, body: 400 if "log-batch" in path and b'"bad:' in body else PASS
    for step in range(600):
        one.scalars(step, **{"good": float(step), **({"bad:one": 1.0} if step == 333 else {})})
    one.row(600, [("bad:two", 2.0)])
    one.flush()
    run = run_tagged(server, tmp_path.name, run_id=JOB)
    assert history(server, run, "good") == [(i, milliseconds(i), float(i)) for i in range(600)]
    assert {metric["key"] for metric in run["data"]["metrics"]} == {"good"}
    assert pairs(run, "tags")["lockstep.rejected"] == "2 records, the last one of bad:two"
    assert len([1 for _, path, _ in proxy.log if "log-batch" in path]) < 50  # found by bisection


def test_an_artifact_that_is_too_large_for_a_proxy(process, server, proxy, tmp_path):
    one = entry_of(process, proxy.url, tmp_path).open()
    proxy.rule = lambda path, body: 413 if "mlflow-artifacts" in path and len(body) > 1000 else PASS
    for name, size in (("small", 10), ("large", 2000)):
        one.give("table", time=time_of(1), step=1, name=name, columns=["a"], rows=[["x" * size]])
    one.finish()
    one.flush()
    run = run_tagged(server, tmp_path.name, run_id=JOB)
    assert run["info"]["status"] == "FINISHED"
    assert pairs(run, "tags")["lockstep.artifacts_note"] == "tables/large.json was not uploaded: the server returned status 413"
    assert b'"x' in artifact(server, run, "tables/small.json")


def test_tls_requires_a_trusted_certificate(process, server, tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with FaultProxy(server, tls=context) as proxy:
        with pytest.raises(SinkError) as caught:
            entry_of(process, proxy.url, tmp_path, MLFLOW_TRACKING_TOKEN=TOKEN).open()
        assert (caught.value.kind, caught.value.text) == ("config", f"MLflow at {proxy.url}: its certificate is not trusted")
        assert not proxy.log
        for trust in ({"MLFLOW_TRACKING_SERVER_CERT_PATH": str(certificate)}, {"MLFLOW_TRACKING_INSECURE_TLS": "true"}):
            one = entry_of(process, proxy.url, tmp_path, **trust).open()
            one.scalars(1, loss=0.5)
            one.flush()
            one.call("close")
    run = run_tagged(server, tmp_path.name, run_id=JOB)
    assert history(server, run, "loss") == [(1, milliseconds(1), 0.5)]
