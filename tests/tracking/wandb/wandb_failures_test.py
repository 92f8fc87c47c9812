"""Whatever happens to the server, to wandb-core or to the process: bounded, one clear error, and nothing lost."""
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


@pytest.fixture
def server():
    with WandbServer() as server:
        yield server


@pytest.fixture
def run_dir(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    return path


def losses(run):
    return [row["loss"] for row in run.history]


def is_gone(pid):
    return not Path(f"/proc/{pid}").exists() or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"


def contents(directory):
    """Of all files below, but for those that vanish meanwhile."""
    found = {}
    for where, _, names in os.walk(directory):
        for path in (Path(where, name) for name in names):
            with contextlib.suppress(FileNotFoundError):
                if path.is_file():
                    found[path] = path.read_bytes()
    return found


@pytest.mark.parametrize("trouble, reason", [("500", "retrying HTTP 500"), ("stream 500", "retrying HTTP 500"),
                                             ("hang", "setting up run")])
def test_a_server_in_trouble_costs_a_bounded_time_and_no_value(server, run_dir, trouble, reason):
    server.trouble = trouble
    with Sink(run_dir, server.url, timeout=40) as sink:
        sink.start(config={"finish_timeout": 2})
        for step in range(3):
            sink.scalars(step, {"loss": step})
            begin = time.monotonic()
            sink.flush()
            # Does not wait for the server; the first one may have to start wandb-core.
            assert step == 0 or time.monotonic() - begin < 5
        # By its second request wandb-core has seen the answer to the first, and can tell of it within the timeout.
        server.wait_for(lambda: server.num_refused >= (1 if trouble == "hang" else 2))
        begin = time.monotonic()
        with pytest.raises(SinkError) as error:
            sink.finish()
        assert 2 <= time.monotonic() - begin < 15
        assert error.value.kind == "environment" and reason in error.value.text and "within 2 s" in error.value.text
        assert "\n" not in error.value.text and sink.core_pids() == []
        assert [row["loss"] for row in wandb_records.rows(sink.file())] == ["0", "1", "2"]
        server.trouble = None
        sink.start()
        sink.finish()
    assert losses(server.run()) == [0, 1, 2] and server.run().exit_code == 0


def test_a_server_that_is_down_gets_the_run_when_it_is_up(run_dir):
    with WandbServer() as gone:
        url = gone.url
    with Sink(run_dir, url) as sink:
        sink.start(config={"finish_timeout": 8})  # in which wandb-core is started and fails
        sink.scalars(1, {"loss": 1})
        with pytest.raises(SinkError, match="environment: .*connection refused"):
            sink.finish()
        with WandbServer() as server:
            sink.start(config={"base_url": server.url})  # from the beginning: nothing was flushed
            sink.scalars(1, {"loss": 1})
            sink.finish()
            assert losses(server.run()) == [1]


@pytest.mark.parametrize("trouble, reason", [("401", "user is not logged in"), ("no project", "project not found")])
def test_a_refusal_is_an_error_of_the_configuration(server, run_dir, trouble, reason):
    server.trouble = trouble
    with Sink(run_dir, server.url) as sink:
        sink.start()
        sink.scalars(1, {"loss": 1})
        with pytest.raises(SinkError, match=f"config: .*refused the run .*{reason}.*WANDB_API_KEY"):
            sink.finish()
        assert [row["loss"] for row in wandb_records.rows(sink.file())] == ["1"]
        server.trouble = None
        sink.start()
        sink.scalars(1, {"loss": 1})
        sink.finish()
    assert losses(server.run()) == [1]


@pytest.mark.parametrize("environment, advice", [
    ({"WANDB_API_KEY": None}, "set WANDB_API_KEY .*mode: offline"),
    ({"WANDB_API_KEY": "two words"}, "a character that no key has"),
    ({"PATH": "/nowhere"}, "pip install wandb.*mode: offline")])
def test_what_is_missing_is_said_and_the_file_is_written(server, run_dir, environment, advice):
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
    ({"base_url": f"https://api:{KEY}@wandb.ai"}, {}, "holds a secret"),
    ({}, {"WANDB_BASE_URL": "api.wandb.ai"}, "is no address"),
    ({}, {"WANDB_BASE_URL": f"https://api:{KEY}@wandb.ai"}, "is no address"),
    ({}, {"WANDB_MODE": "sometimes"}, "valid are online, offline and disabled")])
def test_bad_settings_are_refused_at_once(run_dir, config, environment, message):
    with Sink(run_dir, **environment) as sink:
        with pytest.raises(SinkError, match=f"config: .*{message}") as error:
            sink.start(config=config)
        assert KEY not in error.value.text


def test_a_core_that_is_no_program_or_ends_at_once_is_named(server, run_dir):
    (run_dir / "not-core").write_text("#!/bin/sh\nexit 3\n")
    with Sink(run_dir, server.url) as sink:
        with pytest.raises(SinkError, match="config: core: .*not-core is no program"):
            sink.start(config={"core": str(run_dir / "not-core")})
            sink.flush()
        (run_dir / "not-core").chmod(0o755)
        sink.start(config={"core": str(run_dir / "not-core")})
        sink.scalars(1, {"loss": 1})
        with pytest.raises(SinkError, match="environment: wandb-core ended when it was started"):
            sink.finish()


def test_a_core_that_dies_is_replaced(server, run_dir):
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


def test_a_core_that_hangs_is_killed_in_time(server, run_dir):
    with Sink(run_dir, server.url) as sink:
        sink.start(config={"finish_timeout": 2})
        sink.scalars(1, {"loss": 1})
        sink.flush()
        (core,) = sink.core_pids()
        os.kill(core, signal.SIGSTOP)
        begin = time.monotonic()
        with pytest.raises(SinkError, match="environment: .*within 2 s"):
            sink.finish()
        assert time.monotonic() - begin < 8 and is_gone(core)
        sink.start()
        sink.finish()
    assert losses(server.run()) == [1] and server.run().complete


def test_no_core_outlives_the_process_that_started_it(server, run_dir):
    with Sink(run_dir, server.url) as sink:
        sink.start()
        sink.flush()
        (core,) = sink.core_pids()
        watch = os.pidfd_open(core)
        sink.process.kill()
        sink.process.wait(10)
        assert select.select([watch], [], [], 10)[0], "wandb-core still runs"
        os.close(watch)


def test_the_key_is_in_no_file_and_in_no_argument(server, run_dir, tmp_path):
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


def test_a_file_that_became_shorter_is_an_error_that_says_what_helps(server, run_dir):
    with Sink(run_dir, server.url, WANDB_MODE="offline") as sink:
        sink.start()
        sink.scalars(1, {"loss": 1})
        sink.flush()
        sink.call("close")
        os.truncate(sink.file(), 100)
        with pytest.raises(SinkError, match=f"config: .*{INFO['id']}.wandb has 100 bytes.*restore it, or remove sinks/wandb"):
            sink.start()
