"""Responses of the prometheus sink, read by Prometheus' own parser."""
import concurrent.futures
import math
import socket
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sink_calls import CREATED, JOB, Entry, Process, SinkError, info, time_of


def entry_of(process, run_dir, entry=None, environment=None, **config):
    return Entry(process, "prometheus", run_dir, entry or info(), config={"port": 0, **config}, environment=environment)


def endpoint(one):
    return (one.run_dir / "sinks/prometheus" / one.entry["id"] / "endpoint").read_text().strip()


def get(url, token=None):
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    with urllib.request.urlopen(request, timeout=10) as response:
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return response.read().decode()


def scrape(url, token=None):
    """{family: {labels as a sorted tuple: value}}; every family occurs once and is a gauge."""
    families = {}
    for family in text_string_to_metric_families(get(url, token)):
        assert family.type == "gauge" and family.name not in families
        families[family.name] = {tuple(sorted(sample.labels.items())): sample.value for sample in family.samples}
        assert len(families[family.name]) == len(family.samples)
    return families


def labels(**names):
    return tuple(sorted(names.items()))


def test_all_entries_of_a_process_are_served_at_one_address(process, tmp_path):
    entries = [entry_of(process, tmp_path, info(rank, 2, name=f'the "first" \\ {rank}')).open() for rank in range(2)]
    url = endpoint(entries[0])
    assert url == endpoint(entries[1]) and url.startswith("http://127.0.0.1:")
    entries[0].row(3, [("train/loss", 0.1), ("odd", math.nan), ("high", math.inf)])
    entries[0].row(4, [("train/loss", 0.0625), ("low", -math.inf), ("a=b[0]", 1e300), ("a.b.0.", 2)])
    entries[0].row(900, [("system/gpu.1.utilization", 99.0), ("system/node-3/memory.percent", 41.5)])
    entries[1].scalars(7, loss=2.5)
    for one in entries:
        one.flush()

    run = [{"run": f"{JOB}-rank-{rank}", "rank": str(rank)} for rank in range(2)]
    found = scrape(url)
    odd = found.pop("lockstep_odd")
    assert list(odd) == [labels(metric="odd", **run[0])] and math.isnan(*odd.values())
    about = {"job_id": JOB, "group": JOB, "host": "node-a", "world_size": "2"}
    assert found == {
        "lockstep_run_info": {labels(name=f'the "first" \\ {rank}', **about, **run[rank]): 1 for rank in range(2)},
        "lockstep_step": {labels(**run[0]): 4, labels(**run[1]): 7},
        "lockstep_last_record_timestamp_seconds": {labels(**run[0]): time_of(900), labels(**run[1]): time_of(7)},
        "lockstep_train_loss": {labels(metric="train/loss", **run[0]): 0.0625},
        "lockstep_loss": {labels(metric="loss", **run[1]): 2.5},
        "lockstep_high": {labels(metric="high", **run[0]): math.inf},
        "lockstep_low": {labels(metric="low", **run[0]): -math.inf},
        "lockstep_a_b_0_": {labels(metric="a=b[0]", **run[0]): 1e300, labels(metric="a.b.0.", **run[0]): 2},
        "lockstep_system_gpu_utilization": {labels(metric="system/gpu.1.utilization", gpu="1", **run[0]): 99},
        "lockstep_system_memory_percent": {labels(metric="system/node-3/memory.percent", node="3", **run[0]): 41.5}}

    entries[0].call("close")
    assert set(scrape(url)["lockstep_step"]) == {labels(**run[1])}
    assert not (tmp_path / "sinks/prometheus" / entries[0].entry["id"] / "endpoint").exists()
    entries[1].call("close")
    with pytest.raises(urllib.error.URLError):
        get(url)


def test_a_scrape_during_the_run_is_never_partial(process, tmp_path):
    one = entry_of(process, tmp_path).open()
    url = endpoint(one)
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        scrapes = [pool.submit(scrape, url) for _ in range(100)]
        for step in range(300):
            one.row(step, [(f"m{i}", step) for i in range(20)])
            one.flush()
        for done in scrapes:
            found = done.result(timeout=30)
            values = {value for i in range(20) for value in found.get(f"lockstep_m{i}", {}).values()}
            assert len(values) <= 1


def test_a_token(process, tmp_path):
    one = entry_of(process, tmp_path, environment={"LOCKSTEP_PROMETHEUS_TOKEN": "s3cret"}, address="0.0.0.0").open()
    url = endpoint(one).replace("0.0.0.0", "127.0.0.1")
    assert "lockstep_step" in scrape(url, "s3cret")
    for wrong in (None, "s3cre", "s3creT", "s3crett"):
        with pytest.raises(urllib.error.HTTPError) as caught:
            get(url, wrong)
        assert caught.value.code == 401
        caught.value.close()


def test_a_non_loopback_address_requires_a_token(process, tmp_path):
    for address in ("0.0.0.0", "::", "10.0.0.1", "node-a"):
        with pytest.raises(SinkError) as caught:
            entry_of(process, tmp_path, address=address).open()
        assert caught.value.kind == "config" and "LOCKSTEP_PROMETHEUS_TOKEN" in caught.value.text


def test_a_port_in_use(process, tmp_path):
    with Process() as other:
        first = entry_of(other, tmp_path / "first").open()
        port = int(endpoint(first).rpartition(":")[2].split("/")[0])
        second = entry_of(process, tmp_path / "second", port=port)
        with pytest.raises(SinkError) as caught:
            second.open()
        assert caught.value.kind == "environment" and f"port {port}" in caught.value.text
        first.call("close")
        second.open()  # as the tracking agent does on a retry
        assert endpoint(second) == f"http://127.0.0.1:{port}/metrics"


def test_silent_clients_do_not_block_shutdown(process, tmp_path):
    one = entry_of(process, tmp_path).open()
    address = endpoint(one).removeprefix("http://").removesuffix("/metrics").split(":")
    silent = [socket.create_connection((address[0], int(address[1])), timeout=5) for _ in range(3)]
    assert scrape(endpoint(one))["lockstep_last_record_timestamp_seconds"] == {labels(run=JOB, rank="0"): CREATED}
    process.limit = 15
    one.call("close")
    for client in silent:
        client.close()


def test_repeated_start_and_stop(process, tmp_path):
    for _ in range(50):
        one = entry_of(process, tmp_path).open()
        one.call("close")
