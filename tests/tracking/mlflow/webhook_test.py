"""Messages of the webhook sink, as received."""
import socket
import threading

import pytest

from receiver import SECRET, Receiver
from sink_calls import CREATED, JOB, Entry, SinkError, info, time_of


@pytest.fixture
def receiver():
    with Receiver() as made:
        yield made


def entry_of(process, receiver, run_dir, **config):
    return Entry(process, "webhook", run_dir, info(1, 2), config=config, environment={"LOCKSTEP_WEBHOOK_URL": receiver.url})


def alert(one, title, step=None):
    more = {} if step is None else {"step": step}
    one.give("alert", time=time_of(2), level="error", title=title, text="the loss is nan\nat once", **more)


RUN = {"id": f"{JOB}-rank-1", "name": "mnist-rank-1", "job_id": JOB, "group": JOB, "rank": 1, "host": "node-a"}


def test_an_alert(process, receiver, tmp_path):
    one = entry_of(process, receiver, tmp_path).open()
    one.scalars(1, loss=1.0)
    alert(one, "diverged", step=2)
    one.flush()
    one.finish()  # not in `events`
    one.flush()
    assert receiver.received == [(f"/services/{SECRET}?key={SECRET}", "application/json", 200, {
        "text": "mnist-rank-1: error: diverged\nthe loss is nan\nat once (step 2)", "id": f"{JOB}-rank-1/1", "link": None,
        "event": "alert", "run": RUN, "level": "error", "title": "diverged", "message": "the loss is nan\nat once",
        "step": 2, "time": CREATED + 0.5})]


def test_the_end(process, receiver, tmp_path):
    one = entry_of(process, receiver, tmp_path, events=["end"]).open()
    alert(one, "diverged")  # not in `events`
    one.finish("failed", 70, "rank 1 fell over")
    one.flush()
    assert [body for *_, body in receiver.received] == [{
        "text": "mnist-rank-1: failed: rank 1 fell over", "id": f"{JOB}-rank-1/1", "event": "end", "run": RUN, "link": None,
        "state": "failed", "exit": 70, "reason": "rank 1 fell over"}]


def test_a_proxy(process, receiver, tmp_path):
    variables = {"LOCKSTEP_WEBHOOK_URL": "http://hooks.test/alerts", "http_proxy": receiver.host}
    one = Entry(process, "webhook", tmp_path, info(1, 2), config={}, environment=variables).open()
    alert(one, "diverged")
    one.flush()
    assert [path for path, *_ in receiver.received] == ["http://hooks.test:80/alerts"]


def test_messages_link_to_the_dashboard(process, receiver, tmp_path):
    one = entry_of(process, receiver, tmp_path, events=["alerts", "end"], dashboard="http://node1:8391/").open()
    alert(one, "diverged")
    one.finish()
    one.flush()
    link = f"http://node1:8391/#/run/{JOB}"
    assert [body["link"] for *_, body in receiver.received] == [link, link]
    assert all(body["text"].endswith("\n" + link) for *_, body in receiver.received)


def test_delivered_messages_are_not_sent_again(process, receiver, tmp_path):
    one = entry_of(process, receiver, tmp_path, events=["alerts", "end"]).open()
    for title in ("a", "b", "c"):
        alert(one, title)
    receiver.statuses = [200, 500]
    with pytest.raises(SinkError) as caught:
        one.flush()
    assert (caught.value.kind, caught.value.text) == ("environment", f"webhook at {receiver.host} rejected a message (500)")
    one.crash()
    one.flush()
    alert(one, "d")
    one.call("flush")  # and its state is lost
    one.crash()
    one.finish()
    one.flush()
    sent = [(status, body["id"].rpartition("/")[2], body.get("title")) for *_, status, body in receiver.received]
    assert sent == [(200, "1", "a"), (500, "2", "b"), (200, "2", "b"), (200, "3", "c"), (200, "4", "d"), (200, "5", None)]


@pytest.mark.parametrize("status, kind", [(429, "environment"), (503, "environment"), (403, "config"), (404, "config"),
                                          (302, "config")])
def test_a_rejection_is_reported_without_the_address(process, receiver, tmp_path, status, kind):
    one = entry_of(process, receiver, tmp_path).open()
    alert(one, "a")
    receiver.statuses = [status]
    with pytest.raises(SinkError) as caught:
        one.flush()
    assert (caught.value.kind, caught.value.text) == (kind, f"webhook at {receiver.host} rejected a message ({status})")
    left = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(SECRET in text for text in left)


@pytest.mark.parametrize("status", [408, 429, 500, 503])
@pytest.mark.parametrize("retry_after, pause", [(None, 0), ("7", 7), ("3600", 600), ("soon", 0)])
def test_a_receiver_that_requests_a_pause(process, receiver, tmp_path, status, retry_after, pause):
    one = entry_of(process, receiver, tmp_path).open()
    alert(one, "a")
    receiver.statuses, receiver.retry_after = [status], retry_after
    with pytest.raises(SinkError) as caught:
        one.flush()
    assert (caught.value.kind, caught.value.pause) == ("environment", pause)


def test_a_missing_address_is_a_config_error(process, receiver, tmp_path):
    one = entry_of(process, receiver, tmp_path)
    one.environment = {}
    with pytest.raises(SinkError) as caught:
        one.open()
    assert caught.value.kind == "config" and "LOCKSTEP_WEBHOOK_URL" in caught.value.text
    one.environment = {"LOCKSTEP_WEBHOOK_URL": f"hooks.example.com/{SECRET}"}
    with pytest.raises(SinkError) as caught:
        one.open()
    assert caught.value.kind == "config" and SECRET not in caught.value.text


def test_a_receiver_that_is_down(process, receiver, tmp_path):
    one = entry_of(process, receiver, tmp_path).open()
    receiver.http.shutdown()
    receiver.http.server_close()
    alert(one, "a")
    with pytest.raises(SinkError) as caught:
        one.flush()
    assert (caught.value.kind, caught.value.text) == ("environment", f"webhook at {receiver.host}: cannot connect")


def test_a_receiver_that_closes_during_a_send(process, tmp_path):
    """The process survives, although writing to a closed connection raises SIGPIPE."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"

        def close_early():
            connection, _ = server.accept()
            connection.recv(100)
            connection.close()

        closer = threading.Thread(target=close_early)
        closer.start()
        one = Entry(process, "webhook", tmp_path, info(), environment={"LOCKSTEP_WEBHOOK_URL": url}).open()
        one.give("alert", time=time_of(1), level="error", title="large", text="x" * 20_000_000)
        with pytest.raises(SinkError) as caught:
            one.flush()
        closer.join(timeout=10)
    assert caught.value.kind == "environment" and "connection closed" in caught.value.text
    one.call("close")
