"""Failures of the server, of wandb-core or of the process: bounded time, one clear error, and no lost values."""
import contextlib
import os
import select
import signal
import time
from pathlib import Path

import pytest
import wandb_records
from wandb_server import HISTORY, KEY, WandbServer
from wandb_sink import INFO, Sink, SinkError


def losses(run):
    return [row["loss"] for row in run.history]


def has_exited(pid):
    return not Path(f"/proc/{pid}").exists() or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"


def contents(directory):
    """The contents of all files below `directory`, except those removed meanwhile."""
    found = {}
    for where, _, names in os.walk(directory):
        for path in (Path(where, name) for name in names):
            with contextlib.suppress(FileNotFoundError):
                if path.is_file():
                    found[path] = path.read_bytes()
    return found


@pytest.mark.parametrize("trouble, reason", [("500", "retrying HTTP 500"), ("stream 500", "retrying HTTP 500"),
                                             ("hang", "setting up run")])
def test_a_failing_server_costs_bounded_time_and_loses_no_values(server, run_dir, trouble, reason):
    server.trouble = trouble
    with Sink(run_dir, server.url, timeout=40) as sink:
        sink.start(config={"finish_timeout": 2})
        for step in range(3):
            sink.scalars(step, {"loss": step})
            begin = time.monotonic()
            sink.flush()
            # flush() does not wait for the server, but the first one may start wandb-core.
            assert step == 0 or time.monotonic() - begin < 5
        # By its second request wandb-core has received the first response and can report it within the timeout.
        server.wait_for(lambda: server.num_failed_requests >= (1 if trouble == "hang" else 2))
        begin = time.monotonic()
        with pytest.raises(SinkError) as error:
            sink.finish()
        assert 2 <= time.monotonic() - begin < 15
        assert error.value.kind == "environment" and reason in error.value.text and "timed out after 2 s" in error.value.text
        assert "\n" not in error.value.text and sink.core_pids() == []
        assert [row["loss"] for row in wandb_records.rows(sink.file())] == ["0", "1", "2"]
        server.trouble = None
        sink.start()
        sink.finish()
    assert losses(server.run()) == [0, 1, 2] and server.run().exit_code == 0


def test_a_server_that_is_down_receives_the_run_once_it_is_up(run_dir):
    with WandbServer() as stopped:
        url = stopped.url
    with Sink(run_dir, url) as sink:
        sink.start(config={"finish_timeout": 8})  # enough for wandb-core to start and fail
        sink.scalars(1, {"loss": 1})
        with pytest.raises(SinkError, match="environment: .*connection refused"):
            sink.finish()
        with WandbServer() as server:
            sink.start(config={"base_url": server.url})  # from the beginning: nothing was flushed
            sink.scalars(1, {"loss": 1})
            sink.finish()
            assert losses(server.run()) == [1]


@pytest.mark.parametrize("trouble, reason", [("401", "user is not logged in"), ("no project", "project not found")])
def test_a_rejected_run_is_a_config_error(server, run_dir, trouble, reason):
    server.trouble = trouble
    with Sink(run_dir, server.url) as sink:
        sink.start()
        sink.scalars(1, {"loss": 1})
        with pytest.raises(SinkError, match=f"config: .*rejected the run .*{reason}.*WANDB_API_KEY"):
            sink.finish()
        assert [row["loss"] for row in wandb_records.rows(sink.file())] == ["1"]
        server.trouble = None
        sink.start()
        sink.scalars(1, {"loss": 1})
        sink.finish()
    assert losses(server.run()) == [1]


@pytest.mark.parametrize("environment, advice", [
    ({"WANDB_API_KEY": None}, "set WANDB_API_KEY .*mode: offline"),
    ({"WANDB_API_KEY": "two words"}, "an invalid character"),
    ({"PATH": "/nowhere"}, "pip install wandb.*mode: offline")])
def test_missing_settings_are_reported_and_the_file_is_written(server, run_dir, environment, advice):
    with Sink(run_dir, server.url, **environment) as sink:
        sink.start()
        sink.scalars(1, {"loss": 1})
        with pytest.raises(SinkError, match=f"config: .*{advice}") as error:
            sink.flush()
        assert "two words" not in error.value.text
        assert [row["loss"] for row in wandb_records.rows(sink.file())] == ["1"]


@pytest.mark.parametrize("config, environment, message", [
    ({"mode": "live"}, {}, "unknown value .live.; valid: online, offline"),
    ({"base_url": "api.wandb.ai"}, {}, "neither http:// nor https://"),
    ({"base_url": f"https://api:{KEY}@wandb.ai"}, {}, "contains a secret"),
    ({}, {"WANDB_BASE_URL": "api.wandb.ai"}, "is not an address"),
    ({}, {"WANDB_BASE_URL": f"https://api:{KEY}@wandb.ai"}, "must not contain a user or password"),
    ({}, {"WANDB_MODE": "sometimes"}, "expected online, offline or disabled")])
def test_invalid_settings_are_rejected_immediately(run_dir, config, environment, message):
    with Sink(run_dir, **environment) as sink:
        with pytest.raises(SinkError, match=f"config: .*{message}") as error:
            sink.start(config=config)
        assert KEY not in error.value.text


def test_a_core_that_is_not_executable_or_exits_immediately_is_reported(server, run_dir):
    (run_dir / "not-core").write_text("#!/bin/sh\nexit 3\n")
    with Sink(run_dir, server.url) as sink:
        with pytest.raises(SinkError, match="config: core: .*not-core is not an executable file"):
            sink.start(config={"core": str(run_dir / "not-core")})
            sink.flush()
        (run_dir / "not-core").chmod(0o755)
        sink.start(config={"core": str(run_dir / "not-core")})
        sink.scalars(1, {"loss": 1})
        with pytest.raises(SinkError, match="environment: wandb-core exited during startup"):
            sink.finish()


def test_a_crashed_core_is_restarted(server, run_dir):
    with Sink(run_dir, server.url) as sink:
        sink.start()
        sink.scalars(1, {"loss": 1})
        sink.flush()
        server.wait_for(lambda: server.runs and server.run().streams[HISTORY])
        (core,) = sink.core_pids()
        watch = os.pidfd_open(core)
        os.kill(core, signal.SIGKILL)
        assert select.select([watch], [], [], 10)[0]
        os.close(watch)
        for step in (2, 3):
            sink.scalars(step, {"loss": step})
            sink.flush()
        assert sink.core_pids() != [core]
        sink.finish()
    assert losses(server.run()) == [1, 2, 3] and server.run().complete


def test_a_hanging_core_is_killed_within_the_timeout(server, run_dir):
    with Sink(run_dir, server.url) as sink:
        sink.start(config={"finish_timeout": 2})
        sink.scalars(1, {"loss": 1})
        sink.flush()
        (core,) = sink.core_pids()
        os.kill(core, signal.SIGSTOP)
        begin = time.monotonic()
        with pytest.raises(SinkError, match="environment: .*timed out after 2 s"):
            sink.finish()
        assert time.monotonic() - begin < 8 and has_exited(core)
        sink.start()
        sink.finish()
    assert losses(server.run()) == [1] and server.run().complete


def test_no_core_outlives_its_parent_process(server, run_dir):
    with Sink(run_dir, server.url) as sink:
        sink.start()
        sink.flush()
        (core,) = sink.core_pids()
        watch = os.pidfd_open(core)
        sink.process.kill()
        sink.process.wait(10)
        assert select.select([watch], [], [], 10)[0], "wandb-core is still running"
        os.close(watch)


def test_the_key_is_not_in_any_file_or_argument(server, run_dir, tmp_path):
    with Sink(run_dir, server.url) as sink:
        sink.start()
        sink.scalars(1, {"loss": 1})
        sink.flush()
        server.wait_for(lambda: server.runs and server.run().streams[HISTORY])
        (core,) = sink.core_pids()
        for name in ("cmdline", "environ"):
            assert KEY.encode() not in Path(f"/proc/{core}/{name}").read_bytes()
        live = contents(tmp_path)
        assert any("debug-sync" in path.name for path in live)
        assert not [path for path, content in live.items() if KEY.encode() in content]
        sink.finish()
    assert not [path for path, content in contents(tmp_path).items() if KEY.encode() in content]


def test_a_truncated_file_is_an_error_with_advice(server, run_dir):
    with Sink(run_dir, server.url, WANDB_MODE="offline") as sink:
        sink.start()
        sink.scalars(1, {"loss": 1})
        sink.flush()
        sink.call("close")
        os.truncate(sink.file(), 100)
        with pytest.raises(SinkError, match=f"config: .*{INFO['id']}.wandb has 100 bytes.*restore it, or remove sinks/wandb"):
            sink.start()
