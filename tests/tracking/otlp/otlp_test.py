"""Metrics and logs of the otlp sink, as a real OpenTelemetry collector gets them, and answers that a test server gives."""
import fractions
import math
import re
import struct

import pytest

from otel_collector import Collector
from otlp_receiver import OK, OtlpReceiver, partial_success
from sink_calls import CREATED, JOB, Entry, SinkError, info, plain, time_of

TOKEN = "s3cret-t0ken"
COMMON = {"run": JOB, "rank": 0, "host": "node-a"}


@pytest.fixture(scope="module")
def shared_collector(tmp_path_factory):
    made = Collector(tmp_path_factory.mktemp("collector"))
    yield made
    made.close()


@pytest.fixture
def collector(shared_collector):
    shared_collector.path.unlink(missing_ok=True)
    return shared_collector


@pytest.fixture
def receiver():
    with OtlpReceiver() as made:
        yield made


def entry_of(process, server, run_dir, entry=None, config=None, **environment):
    return Entry(process, "otlp", run_dir, entry or info(), config={"endpoint": server.url} | (config or {}), environment=environment)


def nanoseconds(time):
    """Of the double, rounded once."""
    return round(fractions.Fraction(time) * 1_000_000_000)


def packed(value):
    """As in a request."""
    return struct.pack("<d", value)


def alert(one, title, text="the loss is nan\nat once", step=None):
    one.give("alert", time=time_of(2), level="error", title=title, text=text, **({} if step is None else {"step": step}))


def test_values_and_times_are_exact(process, collector, tmp_path):
    one = entry_of(process, collector, tmp_path).open()
    odd = CREATED + 0.123456789
    one.row(3, [("train/loss", 0.1), ("odd", math.nan), ("high", math.inf)], time=odd)
    one.row(4, [("train/loss", 0.1 + 0.2), ("low", -math.inf), ("a=b[ä]", 1e300), (plain(b"b\xff"), 5e-324)])
    one.row(900, [("system/gpu.1.utilization", 99.0), ("system/node-3/memory.percent", 41.5), ("train/loss/rank-7", 2.0)])
    one.flush()
    found = {(name, time, attributes.get("metric")): (value, attributes) for name, attributes, time, value, _ in collector.points()}
    assert len(found) == len(collector.points())
    of_3, of_4, of_900 = nanoseconds(odd), nanoseconds(time_of(4)), nanoseconds(time_of(900))

    def value_of(name, time, metric, **attributes):
        value, has = found.pop((name, time, metric))
        expected = COMMON | {"metric": metric} | attributes
        assert has == {key: text for key, text in expected.items() if text is not None}
        return value

    assert math.isnan(value_of("lockstep.odd", of_3, "odd"))
    assert value_of("lockstep.train.loss", of_3, "train/loss") == 0.1
    assert value_of("lockstep.high", of_3, "high") == math.inf
    assert value_of("lockstep.train.loss", of_4, "train/loss") == 0.1 + 0.2
    assert value_of("lockstep.low", of_4, "low") == -math.inf
    assert value_of("lockstep.a_b____", of_4, "a=b[ä]") == 1e300
    assert value_of("lockstep.b_", of_4, "b\\xff") == 5e-324
    assert value_of("lockstep.system.gpu.utilization", of_900, "system/gpu.1.utilization", gpu=1) == 99
    assert value_of("lockstep.system.memory.percent", of_900, "system/node-3/memory.percent", node=3, host=None) == 41.5
    assert value_of("lockstep.train.loss", of_900, "train/loss/rank-7", rank=7, host=None) == 2
    assert found.pop(("lockstep.step", of_3, None)) == (3, COMMON)
    assert found.pop(("lockstep.step", of_4, None)) == (4, COMMON)
    assert found.pop(("lockstep.step", of_900, None)) == (900, COMMON)
    about = {"name": "mnist", "job_id": JOB, "group": "", "world_size": 1}
    assert found.pop(("lockstep.run.info", nanoseconds(CREATED), None)) == (1, COMMON | about)
    assert not found


def test_many_values_take_several_requests(process, collector, tmp_path):
    one = entry_of(process, collector, tmp_path).open()
    for step in range(60):
        one.row(step, [(f"m{i}", step * 1000.0 + i) for i in range(200)])
    one.flush()
    sent = [(attributes["metric"], value) for _, attributes, _, value, _ in collector.points() if "metric" in attributes]
    assert sorted(sent) == sorted((f"m{i}", step * 1000.0 + i) for step in range(60) for i in range(200))
    assert len([1 for request in collector.requests() if "resourceMetrics" in request]) == 4


def test_the_resource(process, collector, tmp_path):
    one = entry_of(process, collector, tmp_path, info(1, 2), OTEL_SERVICE_NAME="trainer",
                   OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=lab%201,service.name=no").open()
    one.flush()
    (resource,) = [resource for *_, resource in collector.points()]
    assert (resource["service.name"], resource["service.instance.id"]) == ("trainer", f"{JOB}-rank-1")
    assert resource["deployment.environment.name"] == "lab 1"
    assert (resource["host.name"], resource["process.pid"]) == ("node-a", 4711)
    assert [resource for *_, resource in collector.logs()] == [resource]


def test_logs(process, collector, tmp_path):
    one = entry_of(process, collector, tmp_path, info(1, 2), {"console": True}).open()
    alert(one, "diverged", step=2)
    one.give("text", time=time_of(3), level="info", line="epoch 1")  # not sent
    one.give("text", time=time_of(3), level="warning", line="slow disk")
    one.give("console", time=time_of(4), rank=3, is_error=True, line=plain(b"caf\xe9"))
    one.finish("failed", 70, "rank 1 fell over")
    one.flush()
    records = collector.logs()
    common = COMMON | {"run": f"{JOB}-rank-1", "rank": 1}
    uids = [attributes.pop("log.record.uid") for _, attributes, _ in records]
    assert len(set(uids)) == len(records) == 5
    assert [(record["eventName"], record["severityNumber"], record["severityText"], record["body"]["stringValue"],
             int(record["timeUnixNano"]), attributes) for record, attributes, _ in records] == [
        ("lockstep.run.start", 9, "INFO", "mnist-rank-1 started, 2 ranks", nanoseconds(CREATED),
         common | {"name": "mnist-rank-1", "job_id": JOB, "group": JOB, "world_size": 2}),
        ("lockstep.alert", 17, "ERROR", "diverged: the loss is nan\nat once", nanoseconds(time_of(2)),
         common | {"title": "diverged", "step": 2}),
        ("lockstep.message", 13, "WARN", "slow disk", nanoseconds(time_of(3)), common),
        ("lockstep.console", 9, "INFO", "caf\\xe9", nanoseconds(time_of(4)), common | {"rank": 3, "log.iostream": "stderr"}),
        ("lockstep.run.end", 17, "ERROR", "failed: rank 1 fell over", nanoseconds(time_of(4)),
         common | {"state": "failed", "exit_code": 70})]


def test_a_failed_delivery_is_repeated_and_starts_are_sent_once(process, collector, tmp_path):
    one = entry_of(process, collector, tmp_path).open()
    one.scalars(1, loss=0.5)
    collector.refuse(True)
    with pytest.raises(SinkError) as caught:
        one.flush()
    collector.refuse(False)
    assert caught.value.kind == "environment"
    assert caught.value.text == f"the OTLP endpoint for metrics at {collector.url} rejected a request (503): the backend is down"
    one.crash()
    one.flush()
    one.crash()
    one.scalars(2, loss=0.25)
    one.flush()
    assert [value for name, _, _, value, _ in collector.points() if name == "lockstep.loss"] == [0.5, 0.25]
    one.call("close")
    one.entry = info(resumed=CREATED + 100)
    one.open()
    one.give("rewind", step=1)
    one.flush()
    assert [record["eventName"] for record, *_ in collector.logs()] == ["lockstep.run.start", "lockstep.run.resume"]
    assert [int(record["timeUnixNano"]) for record, *_ in collector.logs()] == [nanoseconds(CREATED), nanoseconds(CREATED + 100)]


def test_a_record_that_is_sent_again_has_the_same_uid(process, receiver, tmp_path):
    one = entry_of(process, receiver, tmp_path, config={"signals": ["logs"]}).open()
    alert(one, "diverged")
    receiver.answers = [(503, {}, b"")]  # as if the response was lost
    with pytest.raises(SinkError):
        one.flush()
    one.crash()
    one.flush()
    first, second = [body for *_, body in receiver.requests]
    assert first == second
    receiver.requests.clear()
    one.finish()  # has the time of the alert, which a new object does not receive again
    receiver.answers = [(503, {}, b"")] * 2
    for _ in range(2):
        with pytest.raises(SinkError):
            one.flush()
        one.crash()
    one.flush()
    first, second, third = [body for *_, body in receiver.requests]
    assert first == second == third and nanoseconds(time_of(2)).to_bytes(8, "little") in first


def test_headers_and_compression(process, receiver, tmp_path):
    environment = {"OTEL_EXPORTER_OTLP_HEADERS": f"Authorization=Bearer%20{TOKEN}, x-team = a%2Cb"}
    bodies = []
    for compression in ("gzip", "none"):
        one = entry_of(process, receiver, tmp_path / compression, OTEL_EXPORTER_OTLP_COMPRESSION=compression, **environment).open()
        one.scalars(1, loss=0.5)
        one.flush()
        assert [path for _, path, _, _ in receiver.requests] == ["/v1/metrics", "/v1/logs"]
        for _, _, headers, _ in receiver.requests:
            assert (headers["Authorization"], headers["x-team"]) == (f"Bearer {TOKEN}", "a,b")
            assert headers["Content-Type"] == "application/x-protobuf"
            assert headers.get("Content-Encoding") == ("gzip" if compression == "gzip" else None)
        bodies.append([body for *_, body in receiver.requests])
        receiver.requests.clear()
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize("signal", ["metrics", "logs"])
def test_one_signal(process, receiver, tmp_path, signal):
    one = entry_of(process, receiver, tmp_path, config={"signals": [signal]}).open()
    one.scalars(1, loss=0.5)
    alert(one, "diverged")
    one.finish()
    one.flush()
    one.flush()
    assert [path for _, path, *_ in receiver.requests] == [f"/v1/{signal}"]


def test_rejected_items_are_reported_and_not_sent_again(process, receiver, tmp_path):
    one = entry_of(process, receiver, tmp_path).open()
    receiver.answers = [partial_success(2, "no such tenant")]
    one.scalars(1, loss=0.5)
    one.flush()
    assert (one.state["rejected"], one.state["reason"]) == (2, "no such tenant")
    (_, path, _, body) = receiver.requests[-1]
    assert path == "/v1/logs" and b"the receiver rejected 2 values: no such tenant" in body
    one.flush()
    assert len(receiver.requests) == 2


@pytest.mark.parametrize("signal", ["metrics", "logs"])
@pytest.mark.parametrize("status, kind", [(408, "environment"), (429, "environment"), (500, "environment"), (502, "environment"),
                                          (503, "environment"), (504, "environment"), (400, "config"), (413, "config"),
                                          (422, "config"), (302, "config")])
def test_statuses_that_are_retried(process, receiver, tmp_path, status, kind, signal):
    one = entry_of(process, receiver, tmp_path, config={"signals": [signal]}, OTEL_EXPORTER_OTLP_HEADERS=f"Authorization={TOKEN}").open()
    receiver.answers = [(status, {"Content-Type": "application/x-protobuf"}, b"\x08\x03\x12\x04why?")]
    with pytest.raises(SinkError) as caught:
        one.flush()
    assert caught.value.kind == kind
    assert caught.value.text == f"the OTLP endpoint for {signal} at {receiver.url} rejected a request ({status}): why?"


@pytest.mark.parametrize("signal, other", [("metrics", "logs"), ("logs", "metrics")])
def test_a_receiver_without_a_signal(process, receiver, tmp_path, signal, other):
    one = entry_of(process, receiver, tmp_path).open()
    receiver.answers = [OK] * (signal == "logs") + [(404, {}, b"404 page not found")]
    with pytest.raises(SinkError) as caught:
        one.flush()
    assert (caught.value.kind, caught.value.text) == ("config", f"the OTLP endpoint for {signal} at {receiver.url} rejected a request "
                                                      f"(404): set signals: [{other}] if it takes no {signal}")


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_rejected_request_does_not_end_the_delivery(process, receiver, tmp_path, status):
    one = entry_of(process, receiver, tmp_path).open()
    one.flush()
    receiver.requests.clear()
    receiver.answers = [(status, {}, b"why?")]
    one.scalars(1, loss=0.5)
    one.flush()
    assert (one.state["rejected"], one.state["reason"]) == (2, f"status {status}: why?")  # the value and its step
    one.scalars(2, loss=0.25)
    one.flush()
    assert [path for _, path, *_ in receiver.requests] == ["/v1/metrics", "/v1/logs", "/v1/metrics"]
    assert f"the receiver rejected 2 values: status {status}: why?".encode() in receiver.requests[1][3]


def test_accepted_requests_of_a_failed_flush_are_not_sent_again(process, receiver, tmp_path):
    one = entry_of(process, receiver, tmp_path).open()
    one.scalars(1, loss=0.5)
    receiver.answers = [OK, (503, {}, b"")]
    with pytest.raises(SinkError):
        one.flush()
    first = one.since
    one.since = []
    one.scalars(2, loss=0.25)  # another log is read first, and the first one has grown
    one.since += first
    receiver.requests.clear()
    one.crash()
    one.flush()
    values, logs = receiver.requests
    assert (values[1], logs[1]) == ("/v1/metrics", "/v1/logs")
    assert packed(0.25) in values[3] and packed(0.5) not in values[3] and b"run.info" not in values[3]
    receiver.requests.clear()
    one.crash()
    one.scalars(1, loss=0.5)  # the same again later is not the same delivery
    one.flush()
    assert packed(0.5) in receiver.requests[0][3]


def test_of_several_requests_only_the_failed_ones_are_repeated(process, receiver, tmp_path):
    one = entry_of(process, receiver, tmp_path).open()
    for step in range(45):
        one.row(step, [(f"m{i}", step * 1000.0 + i) for i in range(200)])
    receiver.answers = [OK, partial_success(3, "too old"), (503, {}, b""), (503, {}, b"")]
    for _ in range(2):
        with pytest.raises(SinkError):
            one.flush()
        one.crash()
    one.flush()
    bodies = [body for _, path, _, body in receiver.requests if path == "/v1/metrics"]
    assert len(bodies) == 5 and bodies[2] == bodies[3] == bodies[4]
    assert all(sum(packed(step * 1000.0 + 199) in body for body in bodies[:3]) == 1 for step in range(1, 45))
    assert (one.state["rejected"], one.state["reason"]) == (3, "too old")
    assert b"the receiver rejected 3 values: too old" in receiver.requests[-1][3]
    assert [path for _, path, *_ in receiver.requests].count("/v1/logs") == 1


def test_rejected_logs_are_reported_in_the_same_flush(process, receiver, tmp_path):
    one = entry_of(process, receiver, tmp_path, config={"signals": ["logs"]}).open()
    receiver.answers = [partial_success(1, "no such tenant"), (503, {}, b"")]
    with pytest.raises(SinkError):
        one.flush()
    one.crash()
    one.flush()
    one.flush()
    _, second, third = [body for *_, body in receiver.requests]
    assert second == third and b"the receiver rejected 1 log records: no such tenant" in second and b"run.start" not in second
    assert one.state["rejected"] == 1


def test_equal_records_have_different_uids(process, receiver, tmp_path):
    one = entry_of(process, receiver, tmp_path, config={"signals": ["logs"], "console": True}).open()
    for _ in range(3):
        one.give("console", time=time_of(1), rank=0, is_error=False, line="equal")
    receiver.answers = [(503, {}, b"")]
    with pytest.raises(SinkError):
        one.flush()
    one.crash()
    one.flush()
    first, second = [body for *_, body in receiver.requests]
    uids = re.findall(rb"log\.record\.uid\x12.\x0a ([0-9a-f]{32})", first)
    assert first == second and len(uids) == len(set(uids)) == 4


@pytest.mark.parametrize("status", [401, 403])
def test_rejected_credentials(process, receiver, tmp_path, status):
    one = entry_of(process, receiver, tmp_path, OTEL_EXPORTER_OTLP_HEADERS=f"Authorization={TOKEN}").open()
    receiver.answers = [(status, {}, b"")]
    with pytest.raises(SinkError) as caught:
        one.flush()
    assert (caught.value.kind, caught.value.text) == (
        "config", f"the OTLP endpoint for metrics at {receiver.url} rejected the credentials ({status}): check OTEL_EXPORTER_OTLP_HEADERS")


def test_a_web_page_is_not_a_receiver(process, receiver, tmp_path):
    one = entry_of(process, receiver, tmp_path).open()
    receiver.answers = [(200, {"Content-Type": "text/html; charset=utf-8"}, b"<html>log in")]
    with pytest.raises(SinkError) as caught:
        one.flush()
    assert caught.value.kind == "config" and caught.value.text.endswith("is not an OTLP receiver: it returned a web page")


def test_a_receiver_that_is_down(process, receiver, tmp_path):
    one = entry_of(process, receiver, tmp_path).open()
    receiver.http.shutdown()
    receiver.http.server_close()
    with pytest.raises(SinkError) as caught:
        one.flush()
    assert (caught.value.kind, caught.value.text) == ("environment", f"the OTLP endpoint for metrics at {receiver.url}: cannot connect")
