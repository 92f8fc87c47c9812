"""The Python client: what it records is what the commands read, value by value, and the reverse; nothing ends the user's training."""

import contextlib
import copy
import dataclasses
import errno
import gc
import json
import math
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
import weakref
from pathlib import Path

import pytest

import lockstep
import processes
from lockstep.event_log import message_pack, writer
from lockstep.event_log.reader import read_log
from lockstep.event_log.writer import LogWriter
from lockstep.importers import wandb as peer
from lockstep.recording import api, values
from processes import LOCKSTEP, SOURCE


@pytest.fixture(autouse=True)
def no_outer_job(monkeypatch):
    for name in list(os.environ):
        if name.startswith(processes._FOREIGN) and name not in ("LOCKSTEP_BIN", "LOCKSTEP_SOURCE"):
            monkeypatch.delenv(name)
    yield
    for run in list(api._runs):
        run.finish()


@pytest.fixture
def runs(tmp_path):
    return tmp_path / "runs"


def start(runs, **more):
    return lockstep.init(**{"name": "demo", "dir": runs, "agent": False, **more})


def query(runs, *arguments):
    ended = processes.run([LOCKSTEP, "runs", *arguments, "--dir", runs], runs)
    assert (ended.code, ended.err) == (0, ""), ended.err
    return ended.out


def exported(runs, run_id):
    """[(metric, step, value, rank)] as the command prints them, without system metrics; NaN as text."""
    rows = [json.loads(line) for line in query(runs, "export", run_id, "--format", "jsonl").splitlines()]
    return sorted((row["metric"], row["step"], str(float(row["value"])), row["rank"]) for row in rows if not row["metric"].startswith("system/"))


def read_back(runs, run_id, **more):
    table = lockstep.runs(runs, id=run_id)[0].metrics(format="lists", **more)
    return sorted(zip(table["metric"], table["step"], map(str, table["value"]), table["rank"]))


def run_script(tmp_path, text, **environment):
    (tmp_path / "script.py").write_text(f"import lockstep, os, signal, sys\n{text}")
    return processes.run([sys.executable, "script.py"], tmp_path, processes.environment(**environment))


@pytest.mark.parametrize("arguments, text", [
    ("name='a', tag=['b']", "lockstep: warning: init(tag=...) has no effect; did you mean 'tags'?"),
    ("name='a', tag=['b'], mode='disabled'", None),
    ("name='a', sinks=['csvv']", "/config.yaml:4: tracking.sinks[0].name: unknown sink 'csvv'; did you mean 'csv'?"),
    ("name='a', sinks=['webhook']", "webhook is not complete: webhook: no url configured; set url or the environment variable "),
    ("name='a', entity='me', reinit=True, save_code=False, settings=None", None),
])
def test_what_init_ignores_and_what_the_agent_refuses_is_one_line(tmp_path, arguments, text):
    ended = run_script(tmp_path, f"with lockstep.init({arguments}) as run:\n    run.log({{'x': 1}})\n")
    lines = ended.err.splitlines()
    assert ended.code == 0 and len(lines) == (text is not None), ended.err
    assert text is None or lines[0].startswith("lockstep: warning: ") and text in lines[0], ended.err


def test_an_agent_that_says_nothing_has_no_line_of_an_earlier_one(tmp_path):
    from lockstep.recording.agent import Agent

    (tmp_path / "sinks").mkdir()
    log = tmp_path / "sinks" / "agent-00000.log"
    log.write_text("lockstep: error: of yesterday\n")
    assert Agent(shutil.which("false"), tmp_path, 0, 1).finish(60) == f"it ended with exit code 1; see {log}"


def test_arguments_of_other_types(tmp_path):
    for arguments in ({"name": 3}, {"id": 7}, {"group": ["a"]}):
        ((name, value),) = arguments.items()
        with pytest.raises(ValueError, match=re.escape(f"{name}={value!r}: expected a text")):
            lockstep.init(dir=tmp_path, **arguments)
    with pytest.raises(ValueError, match="mode='off': expected 'disabled'"):
        lockstep.init(dir=tmp_path, mode="off")
    with lockstep.init(dir=tmp_path, tags="one", agent=False) as run:
        assert run.tags == ("one",)


def test_every_value_is_what_the_command_reads(runs):
    numpy, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    values = [{"train/loss": 0.1 + 0.2, "acc": 1}, {"train/loss": math.nan, "acc": -math.inf}, {"train/loss": 1e-320, "acc": True},
              {"train/loss": numpy.float32(0.1), "acc": torch.tensor(2.5)}, {"train": {"loss": -0.0, "lr": 5}}, {"acc": 10**400},
              {"train/loss": math.inf - math.inf, "acc": 2**53 + 1}]
    with start(runs, config={"lr": 0.1, "net": {"width": [1, 2]}, "big": 1 << 63}, group="g", tags=["b", "a"], notes="hello") as run:
        for step, row in enumerate(values):
            run.log(row, step=step * 1000)
        run.summary["best"] = 0.25
        assert run.summary["best"] == 0.25 and run.summary["acc"] == 2.0**53
    expected = [("train/loss", 0, 0.1 + 0.2), ("acc", 0, 1.0), ("train/loss", 1000, math.nan), ("acc", 1000, -math.inf),
                ("train/loss", 2000, 1e-320), ("acc", 2000, 1.0), ("train/loss", 3000, float(numpy.float32(0.1))), ("acc", 3000, 2.5),
                ("train/loss", 4000, -0.0), ("train/lr", 4000, 5.0), ("acc", 5000, math.inf), ("train/loss", 6000, math.nan), ("acc", 6000, 2.0**53)]
    found = exported(runs, run.id)
    assert found == sorted((name, step, str(value), 0) for name, step, value in expected)
    assert read_back(runs, run.id) == found
    shown = json.loads(query(runs, "show", run.id, "--json"))
    assert (shown["name"], shown["group"], shown["state"], shown["tags"], shown["note"]) == ("demo", "g", "finished", ["a", "b"], "hello")
    assert shown["config"] == {"lr": 0.1, "net": {"width": [1, 2]}, "big": 1 << 63}
    assert shown["summary"]["best"] == 0.25 and "notes" not in shown
    stored = lockstep.runs(runs)[0]
    assert (stored.name, stored.group, stored.state, stored.config) == (shown["name"], shown["group"], shown["state"], shown["config"])
    assert {name: str(value) for name, value in stored.summary.items()} == {
        name: str(float(value)) for name, value in shown["summary"].items()}


def test_other_kinds_of_values_are_records(runs):
    numpy = pytest.importorskip("numpy")
    with start(runs) as run:
        run.log({"image": lockstep.Image([[[255, 0, 0], [0, 0, 255]]], caption="two"), "pair": [lockstep.Image(numpy.zeros((3, 2), "u1"))] * 2,
                 "hist": numpy.array([0.0, 1, 1, 4]), "table": lockstep.Table(["a", "b"], [[1, "x"], [None, 2.5]]), "note": "some text"}, step=3)
        run.log({"given": lockstep.Histogram(np_histogram=([1, 2], [0, 1, 2]))})
        run.alert("slow", "very", level="error")
    assert "notes" not in json.loads(query(runs, "show", run.id, "--json")), "the whole log is readable"
    log = read_log(str(next(runs.glob("*/events/*"))))
    media = {value.get("name") or value["title"]: value for _, value in log.media}
    assert media["image"]["png"][:4] == b"\x89PNG" and (media["image"]["width"], media["image"]["height"], media["image"]["caption"]) == (2, 1, "two")
    assert (media["pair/1"]["width"], media["pair/1"]["height"]) == (2, 3)
    assert sum(media["hist"]["counts"]) == 4 and media["hist"]["edges"][0] == 0 and media["hist"]["edges"][-1] == 4
    assert media["table"]["rows"] == [[1, "x"], [None, 2.5]] and media["given"]["counts"] == [1, 2]
    assert media["slow"]["level"] == 3 and [text for _, _, text in log.texts] == ["note: some text"]


def test_pixels_are_those_of_the_array():
    numpy, pillow = pytest.importorskip("numpy"), pytest.importorskip("PIL.Image")
    import io

    pixels = numpy.arange(5 * 4 * 3, dtype="u1").reshape(5, 4, 3)
    for data in (pixels, pixels / 255, pixels.tolist()):
        assert (numpy.asarray(pillow.open(io.BytesIO(lockstep.Image(data).png))) == pixels).all()


def test_sounds_are_wav_files_of_the_samples(tmp_path):
    numpy, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    import io
    import wave

    def samples_of(audio):
        with wave.open(io.BytesIO(audio.bytes)) as file:
            assert (audio.type, file.getframerate(), file.getsampwidth()) == ("audio/wav", 8000, 2)
            return numpy.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, file.getnchannels())

    mono, stereo = numpy.array([0.0, 0.5, -1.0, 2.0, math.nan]), numpy.array([[1, -2], [3, -32768], [40000, 6]])
    for data in (mono, mono.tolist(), mono.astype("f4"), torch.tensor(mono), torch.tensor(mono)[None].requires_grad_()):
        assert samples_of(lockstep.Audio(data, 8000)).tolist() == [[0], [16384], [-32767], [32767], [0]]
    assert math.isnan(mono[-1]), "the array of the program is unchanged"
    for data in (stereo, stereo.tolist(), torch.tensor(stereo.T.copy())):
        assert samples_of(lockstep.Audio(data, sample_rate=8000)).tolist() == [[1, -2], [3, -32768], [32767, 6]]
    for kind, values in (("i1", [-128, 0, 127]), ("u1", [0, 128, 255]), ("i4", [-(1 << 31), 0, 127 << 24]), ("u2", [0, 1 << 15, 255 << 8])):
        assert samples_of(lockstep.Audio(data_or_path=numpy.array(values, kind), sample_rate=numpy.float64(8000))).tolist() == [[-32768], [0], [127 << 8]]
    assert samples_of(lockstep.Audio([numpy.int64(5), numpy.int64(-6)], numpy.int64(8000))).tolist() == [[5], [-6]]
    assert "more than 15 MiB" in lockstep.Audio(numpy.broadcast_to(numpy.float32(0), 1 << 40), 8000).problem
    for data, rate in ((mono, None), (mono, 0), (mono, 8000.5), ([], 8000), ([["a"]], 8000), ([[1], [1, 2]], 8000), (numpy.zeros((2, 2, 2)), 8000), ({}, 8000),
                       (numpy.zeros(0), 8000), (b"GIF89a", 8000)):
        with pytest.raises(ValueError, match="^a sound: "):
            lockstep.Audio(data, sample_rate=rate)


def test_html_is_recorded_from_texts_and_files(tmp_path, runs, capsys):
    file = tmp_path / "plot.html"
    file.write_text("<p>größer</p>")
    (tmp_path / "latin").write_bytes(b"<p>gr\xf6\xdfer</p>")
    with start(runs) as run:
        with open(file) as opened:
            opened.read()
            run.log({"text": lockstep.Html("<b>1</b>"), "path": lockstep.Html(str(file)), "Path": lockstep.Html(file), "file": lockstep.Html(opened),
                     "bytes": lockstep.Html(b"<i>"), "not a path": lockstep.Html(str(file), data_is_not_path=True, inject=False), "zero": lockstep.Html("<b>\0")}, step=1)
        run.log({"large": lockstep.Html("ö" * (8 << 20))}, step=2)
        assert "'large' is not recorded: the data has 16.0 MiB, more than 15 MiB" in capsys.readouterr().err
        for data in (3, None, tmp_path / "latin", b"\xff"):
            with pytest.raises(ValueError, match="^a page: "):
                lockstep.Html(data)
    media = {value["name"]: value for _, value in read_log(str(next(runs.glob("*/events/*")))).media}
    assert {name: one["bytes"].decode() for name, one in media.items()} == {
        **dict.fromkeys(("path", "Path", "file"), "<p>größer</p>"), "text": "<b>1</b>", "bytes": "<i>", "not a path": str(file), "zero": "<b>\0"}
    assert {one["type"] for one in media.values()} == {"text/html"}


def test_files_of_sounds_and_videos_are_recorded_as_they_are(tmp_path, runs, capsys):
    heads = {"audio/flac": b"fLaC", "audio/ogg": b"OggS", "audio/mpeg": b"ID3", "audio/mp4": b"\0\0\0\x1cftypM4A ", "audio/wav": b"RIFF\0\0\0\0WAVE",
             "video/mp4": b"\0\0\0\x1cftypisom", "video/webm": b"\x1a\x45\xdf\xa3\x9fB\x86\x81\x01B\x82\x84webm"}
    with start(runs) as run:
        for kind, head in heads.items():
            (tmp_path / "file").write_bytes(head + bytes(range(256)))
            clip = lockstep.Audio if kind.startswith("audio/") else lockstep.Video
            run.log({kind: clip(tmp_path / "file", caption="c"), "list": [clip(head), clip(clip(head))]}, step=1)
        with open(tmp_path / "file", "wb") as file:
            file.write(heads["video/mp4"])
            file.truncate(20 << 20)
        run.log({"large": lockstep.Video(str(tmp_path / "file"))}, step=2)
        pixels = pytest.importorskip("numpy").zeros((2, 3, 4, 4), "u1")
        run.log({"pixels": lockstep.Video(data_or_path=pixels, fps=4)}, step=2)
        for data in (b"\x1a\x45\xdf\xa3matroska", b"", b"<html>", [1, 2]):
            with pytest.raises(ValueError, match="^a video: "):
                lockstep.Video(data)
    media = {value["name"]: value for _, value in read_log(str(next(runs.glob("*/events/*")))).media}
    assert {name: (value["type"], value["caption"], value["bytes"]) for name, value in media.items() if not name.startswith("list/")} == {
        kind: (kind, "c", head + bytes(range(256))) for kind, head in heads.items()}
    assert media["list/1"]["bytes"] == heads["video/webm"]
    assert "pixels" not in media
    assert "'large' is not recorded: " in (err := capsys.readouterr().err) and "has 20.0 MiB, more than 15 MiB" in err


def test_a_killed_process_loses_nothing(tmp_path, runs):
    ended = run_script(tmp_path, "run = lockstep.init(name='k', agent=False)\nfor i in range(1000): run.log({'a': i}, step=i)\n"
                                 "os.kill(os.getpid(), signal.SIGKILL)")
    assert ended.code == -signal.SIGKILL
    (found,) = lockstep.runs(runs)
    assert [value for _, _, value, _ in sorted(exported(runs, found.id), key=lambda row: row[1])] == [str(float(i)) for i in range(1000)]
    assert found.state == json.loads(query(runs, "show", found.id, "--json"))["state"] == "lost"


@pytest.mark.parametrize("text, state, code, reason", [
    ("", "finished", 0, None),
    ("raise ValueError('bad\\nvalue')", "failed", 1, "ValueError: bad value"),
    ("sys.exit(3)", "failed", 3, None),
    ("raise KeyboardInterrupt", "killed", 130, "interrupted"),
    ("exit(4)", "failed", 4, None),
    ("quit('no data')", "failed", 1, None),
    ("sys.excepthook = lambda *_: None\nraise ValueError('bad')", "failed", 1, "ValueError: bad"),
    ("import threading\none = threading.Thread(target=sys.exit, args=(2,))\none.start()\none.join()", "finished", 0, None),
], ids=["no finish", "an error", "sys.exit", "Ctrl-C", "exit", "quit", "an error with another hook", "sys.exit in a thread"])
def test_the_end_without_finish_is_recorded(tmp_path, runs, text, state, code, reason):
    run_script(tmp_path, f"run = lockstep.init(name='k', agent=False)\nrun.log({{'a': 1}})\n{text}")
    shown = json.loads(query(runs, "show", lockstep.runs(runs)[0].id, "--json"))
    assert (shown["state"], shown["exit"], shown["reason"]) == (state, code, reason or "")
    assert lockstep.runs(runs)[0].state == state


def test_a_forked_child_does_not_write(runs, capfd):
    run = start(runs)
    run.log({"a": 1})
    child = os.fork()
    if child == 0:
        run.log({"a": 666})
        run.finish()
        os._exit(0)
    os.waitpid(child, 0)
    assert json.loads(query(runs, "show", run.id, "--json"))["state"] == "running"
    run.log({"a": 2})
    run.finish()
    assert [value for *_, value, _ in exported(runs, run.id)] == ["1.0", "2.0"]
    assert "log() after the end of the run is not recorded" in capfd.readouterr().err


def test_a_forked_child_reads_the_config(runs, capfd):
    run = start(runs, config={"strength": 3})
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(Exception):
            lockstep.config.strength += 1
            lockstep.summary["a"] = 1
            lockstep.log({"a": 666})
            code = lockstep.config.strength + (lockstep.run is run)
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    run.finish()
    assert lockstep.run is None and (lockstep.runs(runs)[0].config, lockstep.runs(runs)[0].summary) == ({"strength": 3}, {})
    assert "log() after the end of the run is not recorded" in capfd.readouterr().err


def test_threads_may_log(runs):
    with start(runs) as run:
        threads = [threading.Thread(target=lambda t=t: [run.log({f"t{t}": i}, step=i) for i in range(300)]) for t in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert exported(runs, run.id) == sorted((f"t{t}", i, str(float(i)), 0) for t in range(4) for i in range(300))


def test_a_signal_handler_may_log(runs):
    with start(runs) as run:
        class Value:
            def __float__(self):
                run.log({"inner": 7}, step=5)
                return 1.0

        run.log({"outer": 0.0}, step=4)
        run.log({"outer": Value()}, step=5)
    assert exported(runs, run.id) == [("inner", 5, "7.0", 0), ("outer", 4, "0.0", 0), ("outer", 5, "1.0", 0)]


@pytest.mark.parametrize("ends", [False, True])
def test_a_signal_handler_may_record_and_finish_within_log(runs, capsys, ends):
    run = start(runs)
    run.log({"a": 0.0}, step=0)

    class Row(dict):
        def values(self):
            signal.raise_signal(signal.SIGTERM)
            return super().values()

    def on_signal(*_):
        run.log({"b": 1.0})
        run.alert("preempted")
        run.summary["reason"] = "SIGTERM"
        run.text("soon")
        if ends:
            run.finish(143)
            raise SystemExit(143)

    before = signal.signal(signal.SIGTERM, on_signal)
    try:
        with pytest.raises(SystemExit) if ends else contextlib.nullcontext():
            run.log(Row(a=1.0), step=1)
    finally:
        signal.signal(signal.SIGTERM, before)
        run.finish()
    assert capsys.readouterr().err == ""
    assert exported(runs, run.id) == [("a", 0, "0.0", 0), *([] if ends else [("a", 1, "1.0", 0)]), ("b", 0, "1.0", 0)]
    log = read_log(str(next(runs.glob("*/events/*"))))
    assert [value["title"] for _, value in log.media] == ["preempted"] and [text for *_, text in log.texts] == ["soon"]
    assert log.summary == {"reason": "SIGTERM"} and log.end["state"] == ("failed" if ends else "finished")
    assert run.step == (0 if ends else 1)


@pytest.mark.parametrize("record", [lambda run: run.text("note: x"), lambda run: run.log({"note": "x"}), lambda run: run.log({"b": 1.0, "note": "x"})],
                         ids=["a message", "a text", "a row"])
def test_a_signal_handler_may_record_within_any_record(runs, monkeypatch, capsys, record):
    packing, interrupted = writer._LENGTH, []

    class Length:
        unpack_from = packing.unpack_from

        @staticmethod
        def pack(number):
            if not interrupted:
                interrupted.append(number)
                run.alert("now")
            return packing.pack(number)

    with start(runs) as run:
        run.log({"a": 0.0})
        monkeypatch.setattr(writer, "_LENGTH", Length)
        record(run)
    log = read_log(str(next(runs.glob("*/events/*"))))
    assert interrupted and [value["title"] for _, value in log.media] == ["now"] and [text for *_, text in log.texts] == ["note: x"]
    assert query(runs, "export", run.id) and capsys.readouterr().err == ""


def test_steps_may_be_numbers_of_numpy(runs, capsys):
    numpy = pytest.importorskip("numpy")
    with start(runs) as run:
        for step in numpy.arange(3):
            run.log({"a": 1.0}, step=step)
        run.alert("slow")
        run.log({"image": lockstep.Image([[0]])})
    assert capsys.readouterr().err == "" and type(run.step) is int
    assert [value["step"] for _, value in read_log(str(next(runs.glob("*/events/*")))).media] == [2, 2]


def test_the_other_values_of_a_row_with_bad_ones_are_recorded(runs, capsys):
    numpy, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    bad = {"words": ["a", "b"], "day": numpy.datetime64("2020-01-01"), "rows": [{"a": 1}], "meta": torch.empty((), device="meta")}
    with start(runs) as run:
        for step in range(2):
            run.log({"loss": 0.5, **bad, "accuracy": 1}, step=step)
    assert exported(runs, run.id) == [("accuracy", 0, "1.0", 0), ("accuracy", 1, "1.0", 0), ("loss", 0, "0.5", 0), ("loss", 1, "0.5", 0)]
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" is not recorded: ")[0] for line in lines] == [f"lockstep: warning: log(): '{name}'" for name in bad], lines


def test_configs_and_tables_may_contain_anything(runs, capsys):
    numpy, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")

    class Broken:
        def __str__(self):
            raise RuntimeError("no text")

    @dataclasses.dataclass
    class Options:
        width: int = 1

    values = {"dtype": numpy.float32, "kind": dict, "tensor": torch.Tensor, "options": Options, "n": 10**400, "digits": 10**5000,
              "broken": Broken(), "meta": torch.empty(2, device="meta"), "given": Options(2)}
    expected = {"dtype": "float32", "kind": "dict", "tensor": "Tensor", "options": Options.__qualname__, "n": str(10**400), "digits": "(int)",
                "broken": "(Broken)", "meta": str(values["meta"]), "given": {"width": 2}}
    with start(runs, config=values) as run:
        run.config["lr"] = 0.1
        run.summary["dtype"] = numpy.float32
        run.log({"table": lockstep.Table(list(values), [list(values.values())])})
    assert json.loads(query(runs, "show", run.id, "--json"))["config"] == lockstep.runs(runs)[0].config == {**expected, "lr": 0.1}
    log = read_log(str(next(runs.glob("*/events/*"))))
    assert [value["rows"] for _, value in log.media] == [[list(expected.values())]] and log.summary == {"dtype": "float32"}
    assert capsys.readouterr().err == ""


def test_bad_values_are_one_line_and_never_an_exception(runs, capsys):
    with start(runs, config={"f": print, 3: {4: {5, 6}}}) as run:
        for _ in range(2):
            run.log({3: 1.0, "ok": 2.0}, step=1)
            run.log({"none": None, "object": object(), "ok": 3.0}, step=2)
            run.log({"text": "x" * (10 << 20)}, step=3)
            run.log({"": 1.0, "y" * 600: 2.0}, step=4)
            run.log([1, 2])
            run.log({"ok": 1.0}, step=1 << 70)
            run.log({"ok": 1.0}, step="soon")
        run.log({"list": ["a", "b"]})
    run.log({"late": 1.0})
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(set(lines)) == 11, lines
    assert all(line.startswith("lockstep: warning: ") for line in lines)
    assert exported(runs, run.id) == [("3", 1, "1.0", 0)] * 2 + [("ok", 1, "2.0", 0)] * 2 + [("ok", 2, "3.0", 0)] * 2
    assert lockstep.runs(runs)[0].config["3"] == {"4": [5, 6]}


def test_values_of_any_kind_leave_a_log_that_the_command_reads(runs, capsys):
    table = lockstep.Table(columns=["a", "b"], data=[[1, 2]])
    table.data.append([1])
    pixels = [[[1, 2, 3], [4, 5, 6]]]
    with start(runs) as run:
        run.log({"image": lockstep.Image(pixels, caption=3), "html": lockstep.Html("<p>", caption=4), "table": table})
        run.summary.update({f"c{i}": i for i in range(10001)})
        run.text("note", level="critical")
        run.log({"after": 1.0})
    shown = json.loads(query(runs, "show", run.id, "--json"))
    assert (shown["state"], len(shown["summary"]), shown["summary"]["after"]) == ("finished", 10002, 1.0)
    assert [line for *_, line in lockstep.runs(runs)[0].texts()] == ["note"]
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and "a row of the table does not have 2 values" in lines[0] and "level='critical': expected one of debug, info" in lines[1], lines


def test_rows_without_commit_are_recorded_when_the_step_changes(runs):
    with start(runs) as run:
        for step in range(3):
            run.log({"a": step}, step=step, commit=False)
            run.log({"b": step}, step=step, commit=False)
    assert read_back(runs, run.id) == [(name, step, str(float(step)), 0) for name in "ab" for step in range(3)]


def test_recorded_values_are_neither_kept_nor_change(runs):
    class Value:
        number = 1.0

        def __float__(self):
            return self.number

    value = Value()
    kept = weakref.ref(value)
    with start(runs) as run:
        for _ in range(2):  # the second row is packed as the first one
            run.log({"a": value})
        value.number = 5.0
        assert run.summary["a"] == 1.0
        del value
        gc.collect()
        assert kept() is None


def test_many_different_rows_take_no_memory(runs, monkeypatch):
    monkeypatch.setattr("lockstep.recording.run.MAX_LAYOUTS", 10)
    with start(runs) as run:
        for step in range(100):
            run.log({f"m{step}": step, "always": step}, step=step)
            assert len(run._layouts) + len(run._layouts_of_others) <= 10
        assert dict(run.summary) == {"always": 99.0, **{f"m{step}": float(step) for step in range(100)}}


def test_config_and_summary_are_saved_as_dicts(runs):
    with start(runs, config={"lr": 0.1}) as run:
        run.summary.best = 0.9
        run.summary |= {"worst": 0.1}
        assert run.summary.setdefault("best", 0.0) == run.summary.best == 0.9
        for copied in (copy.deepcopy, lambda members: pickle.loads(pickle.dumps(members))):
            assert (copied(run.config), copied(run.summary)) == ({"lr": 0.1}, {"best": 0.9, "worst": 0.1})
        with pytest.raises(AttributeError, match="the summary has no 'median'"):
            print(run.summary.median)
    assert lockstep.runs(runs)[0].summary == {"best": 0.9, "worst": 0.1}


def test_a_value_that_raises_anything_leaves_the_others(runs):
    class Raising:
        def __float__(self):
            raise KeyError("x")

    with start(runs) as run:
        run.log({"good": 1.0, "bad": Raising()})
    assert lockstep.runs(runs)[0].summary == {"good": 1.0}


@pytest.mark.parametrize("pixels, expected", [([[0.5, math.inf]], [[[128], [255]]]), ([[math.nan, 0.5, 1.0]], [[[0], [128], [255]]])])
def test_pixels_that_are_not_finite(pixels, expected):
    assert values._pixel_rows(pixels) == expected


def test_histograms_of_large_equal_values():
    histogram = lockstep.Histogram([1e17] * 3)
    assert sum(histogram.counts) == 3 and histogram.edges == sorted(set(histogram.edges))


def test_how_a_with_block_ends(tmp_path, runs):
    for raised, state, code, reason in ((KeyboardInterrupt(), "killed", 130, "interrupted"), (SystemExit(3), "failed", 3, "SystemExit: 3")):
        with pytest.raises(type(raised)), start(runs, id=state):
            raise raised
        shown = json.loads(query(runs, "show", state, "--json"))
        assert (shown["state"], shown["exit"], shown["reason"]) == (state, code, reason), shown


def test_a_rank_that_does_not_log_reports_its_failure_in_a_with_block(tmp_path, runs):
    (runs / "r" / "events").mkdir(parents=True)
    ended = run_script(tmp_path, "with lockstep.init(id='r', dir='runs', agent=False): raise ValueError('boom')", RANK=1, WORLD_SIZE=2, LOCAL_RANK=1)
    assert ended.code == 1 and "boom" in next((runs / "r").rglob("trainer-00001.json")).read_text(), ended.err


def test_bad_arguments_are_named(runs):
    for arguments, text in [({"ranks": "some"}, "ranks='some': expected 'main', 'node', 'all', or a list"), ({"id": "../x"}, "id='../x': expected"),
                            ({"resume": "maybe"}, "resume='maybe': expected"), ({"resume": "must", "id": "x"}, "there is no run x"),
                            ({"tags": ["a b"]}, "tag 'a b': expected 1 to 64"), ({"config": 3}, "config of int: expected a dict")]:
        with pytest.raises(ValueError, match=text.replace("(", r"\(").replace("*", r"\*")):
            start(runs, **arguments)
    assert not runs.exists() or not list(runs.iterdir())


def test_a_run_that_cannot_be_written_is_one_line(runs, capsys):
    runs.mkdir()
    with start(runs, id="taken") as run:
        start(runs, id="taken", resume="allow").log({"a": 1})
    log = next(runs.glob("*/events/*"))
    later = bytearray(log.read_bytes())
    later[8] = 9
    log.write_bytes(later)
    start(runs, id="taken", resume="allow").log({"a": 1})
    (runs / "file").write_text("")
    start(runs / "file").log({"a": 1})
    assert log.read_bytes() == later
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"lockstep: warning: {log}: it is being written by another process; this run is not recorded",
                     f"lockstep: warning: {log}: written by a later version of Lockstep (event log format 9; this one reads 2); "
                     "this run is not recorded",
                     f"lockstep: warning: {runs / 'file' / api._runs[-1].id / 'events'}: Not a directory; this run is not recorded"], run.id


def test_a_full_disk_keeps_records_until_there_is_space(tmp_path, monkeypatch):
    lines = []
    log = LogWriter(tmp_path / "rank-00000.lsev", lines.append)
    log.write_identity({"id": "r", "created": 1.0})
    allocate = os.posix_fallocate

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    texts = [f"{i} " + "x" * 5000 for i in range(100)]
    for text in texts[:99]:
        log.write_text(1, text)
    monkeypatch.setattr(os, "posix_fallocate", allocate)
    log._next_try = 0
    log.write_text(1, texts[99])
    log.close()
    assert "records are kept in memory" in lines[0] and lines[1].endswith("no record was dropped") and len(lines) == 2
    assert [text for _, level, text in read_log(str(tmp_path / "rank-00000.lsev")).texts if level == 1] == texts


def test_segments_are_one_log(runs):
    with start(runs, config={"a": 1}) as run:
        run._log._max_bytes = run._log._limit = 3000
        run._log.room = run._log.offset
        for step in range(300):
            run.log({"a": step, f"b{step % 3}": -step}, step=step)
    assert len(list(runs.glob("*/events/rank-00000.*.lsev"))) > 3
    found = exported(runs, run.id)
    assert len(found) == 600 and read_back(runs, run.id) == found
    with start(runs, id=run.id, resume="must") as again:
        again.log({"a": 7}, step=300)
    assert read_back(runs, run.id) == exported(runs, run.id) == sorted([*found, ("a", 300, "7.0", 0)])


def test_a_resumed_run_replaces_later_steps(runs):
    with start(runs, id="r", config={"a": 1}) as run:
        for step in range(10):
            run.log({"a": step}, step=step)
    with pytest.raises(ValueError, match="the run r exists"):
        start(runs, id="r")
    with start(runs, id="r", resume="allow") as run:
        assert run.config == {"a": 1} and json.loads(query(runs, "show", "r", "--json"))["state"] == "running"
        run.log({"a": 50}, step=5)
    assert exported(runs, "r") == read_back(runs, "r") == [("a", i, str(float(i)), 0) for i in range(5)] + [("a", 5, "50.0", 0)]


def test_the_summary_of_a_resumed_run_has_the_values_before_its_first_step(runs):
    with start(runs, id="r") as run:
        for step in range(10):
            run.log({"a": step}, step=step)
            run.log({"late": step}, step=step) if step > 5 else None
    with start(runs, id="r", resume="allow") as run:
        run.log({"b": 7}, step=5)
    assert json.loads(query(runs, "show", "r", "--json"))["summary"] == {"a": 4, "b": 7}
    assert lockstep.runs(runs)[0].summary == {"a": 4, "b": 7}


def test_the_summary_of_the_run_that_is_continued_can_be_read(runs):
    with start(runs, id="r") as run:
        run.log({"accuracy": 0.5}, step=1)
        run.summary["best"] = 0.9
        run.log({"accuracy": 0.4}, step=2)
    with start(runs, id="r", resume="allow") as run:
        assert dict(run.summary) == {"accuracy": 0.4, "best": 0.9}
        run.log({"b": 1.0}, step=2)
        assert dict(run.summary) == {"accuracy": 0.5, "best": 0.9, "b": 1.0}, "without what the first step took back"


def test_a_run_whose_last_records_are_media_continues_after_them(runs):
    for resume in (None, "allow"):
        with start(runs, id="r", resume=resume) as run:
            assert run.step == (-1 if resume is None else 2)
            for step in range(3) if resume is None else range(1, 3):
                run.log({"h": [1, 2, step]}, step=step)
    assert [value["step"] for _, value in read_log(str(runs / "r" / "events" / "rank-00000.lsev")).media] == [0, 1, 2]


def test_results_can_be_added_to_a_finished_and_to_a_running_run(runs):
    run = start(runs, id="r")
    run.log({"loss": 1.0}, step=7)
    with lockstep.attach("r", dir=runs) as added:
        assert added.summary == {"loss": 1.0}
        added.log({"eval/accuracy": 0.5}, step=7)
    run.finish(1, reason="diverged")
    with lockstep.attach("r", dir=runs) as added:
        assert added.summary == added.summary.copy() == {"loss": 1.0} and not added.summary != {"loss": 1.0}
        added.log({"eval/accuracy": 0.75}, step=7)
        added.summary["final"] = 3
        assert dict(added.summary) == {"loss": 1.0, "eval/accuracy": 0.75, "final": 3}
    assert exported(runs, "r") == read_back(runs, "r", ranks=[0]) == [("eval/accuracy", 7, "0.75", 0), ("loss", 7, "1.0", 0)]
    assert exported(runs, "r-added-1") == read_back(runs, "r", ranks=[1]) == [("eval/accuracy", 7, "0.5", 1)]
    shown = json.loads(query(runs, "show", "r", "--json"))
    assert (shown["state"], shown["reason"], shown["summary"]["final"]) == ("failed", "diverged", 3)
    with pytest.raises(ValueError, match="there is no run other"):
        lockstep.attach("other", dir=runs)


def test_a_script_that_fails_does_not_change_the_outcome_of_a_run_that_it_adds_to(tmp_path, runs):
    start(runs, id="done").finish()
    run_script(tmp_path, "lockstep.init(id='lost', agent=False)\nos.kill(os.getpid(), signal.SIGKILL)")
    for open_run in ("attach('done')", "attach('lost')", "init(id='done', mode='disabled')"):
        ended = run_script(tmp_path, f"run = lockstep.{open_run}\nrun.log({{'accuracy': 1}})\nraise ValueError")
        assert ended.code == 1 and ended.err.endswith("ValueError\n"), ended.err
    lockstep.attach("lost", dir=runs).finish()
    for run_id, state in {"done": "finished", "lost": "lost"}.items():
        assert json.loads(query(runs, "show", run_id, "--json"))["state"] == lockstep.runs(runs, id=run_id)[0].state == state
        assert [name for name, *_ in exported(runs, run_id)] == ["accuracy"]


def test_only_the_first_run_of_a_process_is_that_of_the_launch(runs, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_RUN_ID", "job")
    monkeypatch.setattr(api, "_launched_is_taken", False, raising=False)
    start(runs, mode="disabled").finish()
    ids = []
    for fold in range(2):
        with start(runs, config={"fold": fold}) as run:
            run.log({"loss": fold}, step=0)
        ids.append(run.id)
    assert ids[0] == "job" and len(list(runs.iterdir())) == 2
    for fold, run_id in enumerate(ids):
        assert exported(runs, run_id) == [("loss", 0, str(float(fold)), 0)] and lockstep.runs(runs, id=run_id)[0].config == {"fold": fold}
    monkeypatch.setenv("RANK", "1"), monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="ranks='all': all ranks need the same id; give it with id=$"):
        start(runs, ranks="all")


def test_each_rank_has_its_log(runs, monkeypatch):
    ids = {}
    for policy, logging in {"main": [0], "node": [0, 2], "all": [0, 1, 2, 3], "[1, 3]": [1, 3]}.items():
        for rank in range(4):
            for name, value in {"RANK": rank, "WORLD_SIZE": 4, "LOCAL_RANK": rank % 2, "LOCAL_WORLD_SIZE": 2, "GROUP_RANK": rank // 2}.items():
                monkeypatch.setenv(name, str(value))
            with start(runs, id=policy.strip("[]").replace(", ", "-"), ranks=json.loads(policy) if policy[0] == "[" else policy) as run:
                run.log({"rank": rank}, step=1)
        ids[policy] = run.id
        assert exported(runs, run.id) == [("rank", 1, str(float(rank)), rank) for rank in logging]
        assert read_back(runs, run.id, ranks=logging[-1:]) == [("rank", 1, str(float(logging[-1])), logging[-1])]
    entries = json.loads(query(runs, "list", "--json"))
    assert sum(entry["id"].startswith("all-rank-") for entry in entries) == 4 and any(entry["id"] == "main" for entry in entries)
    with pytest.raises(ValueError, match="all ranks need the same id"):
        start(runs, ranks="all")


def test_runs_are_found_by_what_they_are(runs):
    for number in range(4):
        group = "even" if number % 2 == 0 else None
        with start(runs, id=f"r{number}", config={"optimizer": {"lr": number / 10}}, group=group, tags=["good"] * (number > 2)) as run:
            run.log({"loss": number})
    assert [run.id for run in lockstep.runs(runs)] == ["r3", "r2", "r1", "r0"]
    assert [run.id for run in lockstep.runs(runs, group="even")] == ["r2", "r0"]
    assert [run.id for run in lockstep.runs(runs, config={"optimizer.lr": 0.1})] == ["r1"]
    assert [run.id for run in lockstep.runs(runs, config={"optimizer": {"lr": 0.1}})] == ["r1"]
    assert [run.id for run in lockstep.runs(runs, tag="good")] == ["r3"]
    assert [run.id for run in lockstep.runs(runs, state="finished", where=lambda run: run.summary["loss"] < 2)] == ["r1", "r0"]
    with start(runs, id="other", name="z") as run:
        run.log({"loss": math.nan})
    for order, ids in [("summary.loss", "r0 r1 r2 r3 other"), ("-summary.loss", "r3 r2 r1 r0 other"), ("config.optimizer.lr", "r0 r1 r2 r3 other"),
                       ("-name", "other r3 r2 r1 r0"), ("created", "r0 r1 r2 r3 other")]:
        assert [run.id for run in lockstep.runs(runs, order=order)] == ids.split(), order
    with pytest.raises(ValueError, match="order='summary.los': no run has 'summary.los'; valid are id,"):
        lockstep.runs(runs, order="summary.los")
    row = lockstep.runs(runs, id="r3").rows()[0]
    assert (row["config.optimizer.lr"], row["summary.loss"], row["state"]) == (0.3, 3.0, "finished")
    assert lockstep.runs(runs)[1:].rows()[0]["id"] == "r3"


def test_tables_have_the_same_values_in_every_format(runs):
    run = start(runs)
    for step in range(20_000):  # long enough for numpy to read rows in series
        run.log({"a": step / 3, "b/c": -step}, step=step)
        if step % 5000 == 0:
            run.log({"a": step}, step=step)
    stored = lockstep.runs(runs)[0]
    assert stored.state == "running"
    lists = stored.metrics(format="lists")
    assert len(lists["step"]) == 40_004 and sum(lists["value"]) == pytest.approx(sum(range(20_000)) / -1.5 + 30_000)
    arrow = stored.metrics(format="arrow")
    assert {name: arrow[name].to_pylist() for name in arrow.column_names} == lists
    assert set(stored.metrics("b/*", format="lists")["metric"]) == {"b/c"}
    run.log({"a": 1.0})
    assert len(stored.metrics("a", format="lists")["step"]) == 20_005, "a running run is read again"
    run.finish()


def test_a_run_of_the_trainer_is_read_as_the_command_reads_it(runs):
    shutil.copytree(SOURCE / "tests" / "golden" / "0.1-run", runs)
    (stored,) = lockstep.runs(runs)
    found = exported(runs, stored.id)
    assert found and read_back(runs, stored.id) == found
    shown = json.loads(query(runs, "show", stored.id, "--json"))
    assert (stored.config, stored.state) == (shown["config"], shown["state"])


def test_scripts_of_wandb_run(runs, monkeypatch, capsys):
    wandb = lockstep
    assert wandb.run is None
    wandb.init(project="p", name="w", dir=runs, config={"lr": 1}, agent=False)
    wandb.config.update({"width": 3})
    wandb.config.depth = 2
    assert wandb.config["lr"] == wandb.config.lr == 1
    wandb.define_metric("best", summary="min")
    wandb.watch([], log="all")
    wandb.log({"a": 1}, commit=False)
    wandb.log({"best": 3, "epoch": 0.5})
    wandb.log({"best": 5, "t": wandb.Table(columns=["x"], data=[[1]])})
    wandb.summary["note"] = "text"
    assert wandb.summary["best"] == 3
    run_id = wandb.run.id
    wandb.finish()
    assert wandb.run is None and capsys.readouterr().err == ""
    assert exported(runs, run_id) == [("a", 0, "1.0", 0), ("best", 0, "3.0", 0), ("best", 1, "5.0", 0), ("epoch", 0, "0.5", 0)]
    shown = json.loads(query(runs, "show", run_id, "--json"))
    assert shown["config"] == {"lr": 1, "width": 3, "depth": 2} and shown["summary"]["best"] == 3


def test_what_scripts_of_wandb_assign_is_recorded(runs, capsys):
    wandb = lockstep
    wandb.init(name="w", dir=runs, tags=["first"], config={"lr": 1}, agent=False)
    wandb.run.name, wandb.run.notes = "better", "why"
    wandb.run.tags += ("second",)
    wandb.run.save()
    for change, config in [(lambda config: config.setdefault("depth", 2), {"lr": 1, "depth": 2}), (lambda config: config.pop("lr"), {"depth": 2}),
                           (lambda config: config.__ior__({"net": {"width": 3}}), {"depth": 2, "net": {"width": 3}}),
                           (lambda config: config.clear(), {})]:
        change(wandb.config)
        assert wandb.runs(runs)[0].config == wandb.config == config
    image = wandb.Image([[0]])
    wandb.log({"table": wandb.Table(["a", "b", "c"], [[wandb.Image([[0]], caption="cat"), image, wandb.Html("<p>")]])})
    wandb.alert("slow", level=wandb.AlertLevel.ERROR)
    assert capsys.readouterr().err == "lockstep: warning: log(): 'table': of images and other media in a table, the captions are recorded\n"
    wandb.run.tags = ["not valid"]
    assert "tag 'not valid': expected 1 to 64 of" in capsys.readouterr().err and wandb.run.tags == ("first", "second")
    run_id = wandb.run.id
    wandb.finish()
    shown = json.loads(query(runs, "show", run_id, "--json"))
    assert [shown[key] for key in ("name", "note", "tags", "state")] == ["better", "why", ["first", "second"], "finished"]
    assert wandb.runs(runs)[0].name == "better"
    table, alert = (value for _, value in read_log(str(next(runs.glob("*/events/*")))).media)
    assert table["rows"] == [["cat", "(image)", "(html)"]] and alert["level"] == 3


# Defines metrics and watches a model. `wandb` is wandb or lockstep.
DEFINED = """
import torch

def train(wandb, **more):
    run = wandb.init(project="p", **more)
    run.define_metric("epoch")
    run.define_metric("val/*", step_metric="epoch", summary="max")
    run.define_metric("val/loss", summary="min,max")
    for name in ("min", "max", "mean", "last", "first", "copy"):
        run.define_metric(f"only/{name}", summary=name)
    run.define_metric("twice", summary="min")
    run.define_metric("twice", summary="max")
    run.define_metric("late", step_metric="epoch", step_sync=False)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    model[0].bias.requires_grad_(False)
    run.watch(model, log="all", log_freq=2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step, value in enumerate((3.0, 1.0, 7.0, 4.0, 5.0)):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).square().mean()
        loss.backward()
        optimizer.step()
        run.log({**{f"only/{name}": value for name in ("min", "max", "mean", "last", "first", "copy")}, "twice": value})
        if step % 2 == 0:
            run.log({"epoch": step})
        run.log({"val/loss": value, "val/accuracy": -value})
        run.log({"late": value})
    run.unwatch(model)
    model(torch.ones(1, 4)).sum().backward()
    run.log({"end": 1.0})
    run.finish()
    return run
"""


def test_defined_metrics_and_watched_models_are_recorded_as_wandb_does(tmp_path, runs):
    """Every row, histogram and value of the summary, compared with the offline file of wandb."""
    pytest.importorskip("torch"), pytest.importorskip("wandb")
    names = {}
    exec(compile(DEFINED, "script", "exec"), names)
    run = names["train"](lockstep, dir=runs, agent=False)
    (tmp_path / "peer.py").write_text(f"{DEFINED}\nimport wandb\ntrain(wandb, mode='offline')\n")
    ended = processes.run([sys.executable, "peer.py"], tmp_path, processes.environment(WANDB_SILENT="true"))
    assert ended.code == 0, ended.err
    (file,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    rows, histograms, summary = {}, {}, {}
    for record in peer._records(file):
        for part in record.get(peer._SUMMARY, []):
            peer._update(summary, part)
        for message in map(peer.fields, record.get(peer._HISTORY, [])):
            row = dict(map(peer._item, message[1]))
            for name, value in row.items():
                if name.endswith("/values"):
                    histograms[name[:-7], row["_step"]] = value, row[name[:-7] + "/bins"]
                elif isinstance(value, (int, float)) and not name.startswith("_"):
                    rows[name, row["_step"]] = float(value)
    assert len(rows) == 5 * 7 + 3 + 5 * 3 + 5 + 1 and len(histograms) == 2 * (3 + 4)
    table = read_back(runs, run.id)
    assert {(name, step): float(value) for name, step, value, _ in table} == rows and len(table) == len(rows)
    log = read_log(str(next(runs.glob("*/events/*"))))
    found = {(value["name"], value["step"]): value for _, value in log.media}
    trained = {place: value for place, value in histograms.items() if place[0] != "parameters/0.bias"}  # it has no gradient
    assert found.keys() == trained.keys()
    for place, (counts, edges) in trained.items():
        assert found[place]["counts"] == counts, place
        low, high = (edges[0] - 0.5, edges[0] + 0.5) if len(set(edges)) == 1 else (edges[0], edges[-1])
        assert (found[place]["edges"][0], found[place]["edges"][-1]) == pytest.approx((low, high), rel=1e-6), place
    expected = {}
    for name, value in summary.items():
        if isinstance(value, dict):
            expected.update({name if len(value) == 1 else f"{name}.{word}": one for word, one in value.items()})
            expected.setdefault(name, rows[name, max(step for other, step in rows if other == name)])
        elif isinstance(value, (int, float)) and not name.startswith("_"):
            expected[name] = value
    assert dict(run.summary) == lockstep.runs(runs)[0].summary == expected
    assert json.loads(query(runs, "show", run.id, "--json"))["summary"] == expected


# Values with and without a step.
STEPS = """
def train(wandb, **more):
    run = wandb.init(project="p", **more)
    run.log({"a": 1.0})
    run.log({"a": 2.0})
    run.log({"a": 3.0}, step=5)
    run.log({"b": 1.0}, step=5)      # of the same row
    run.log({"c": 1.0})              # this too
    run.log({"a": 4.0})
    run.log({"a": 5.0, "d": {"x": 1.0}}, step=8)
    run.log({"b": 2.0}, step=8, commit=True)
    run.log({"b": 3.0})
    run.log({"c": 2.0}, commit=False)
    run.log({"a": 6.0})
    run.log({"c": 3.0}, step=12, commit=False)
    run.log({"a": 7.0}, step=12)
    run.log({"b": 4.0}, step=13)
    run.log({"c": 4.0}, commit=False)
    run.log({"d": {"x": 2.0}})
    run.log({"a": 8.0})
    run.finish()
    return run
"""


def test_values_have_the_steps_that_wandb_gives_them(tmp_path, runs):
    pytest.importorskip("wandb")
    names = {}
    exec(compile(STEPS, "script", "exec"), names)
    run = names["train"](lockstep, dir=runs, agent=False)
    (tmp_path / "peer.py").write_text(f"{STEPS}\nimport wandb\ntrain(wandb, mode='offline')\n")
    ended = processes.run([sys.executable, "peer.py"], tmp_path, processes.environment(WANDB_SILENT="true"))
    assert ended.code == 0, ended.err
    (file,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    rows = [dict(map(peer._item, message[1])) for record in peer._records(file) for message in map(peer.fields, record.get(peer._HISTORY, []))]
    expected = {(name.replace(".", "/"), row["_step"], float(value)) for row in rows for name, value in row.items()
                if not name.startswith("_") and not isinstance(value, dict)}
    expected |= {("d/x", row["_step"], float(row["d"]["x"])) for row in rows if isinstance(row.get("d"), dict)}
    assert {(name, step, float(value)) for name, step, value, _ in read_back(runs, run.id)} == expected and len(expected) == 18


def test_bad_definitions_and_models_are_one_line(runs, capsys):
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(2, 1, dtype=torch.complex64)
    with start(runs) as run:
        for _ in range(2):
            for arguments in ({"summary": "median"}, {"summary": "best"}, {"step_metric": 5}, {"hidden": True}, {"color": "red"}):
                run.define_metric("a", **arguments)
            run.define_metric("a*b")
            run.watch(object())
            run.watch(model, log="weights")
            run.watch(model, log_freq=0)
        run.watch(model, log_freq=1)
        model(torch.ones(1, 2, dtype=torch.complex64)).abs().sum().backward()
        run.log({"a": math.nan})
    assert model.weight.grad is not None
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(set(lines)) == 11 and all(line.startswith("lockstep: warning: ") for line in lines), lines
    assert math.isnan(run.summary["a"])


def test_the_modules_and_parameters_of_a_watched_model_are_tables(runs):
    torch = pytest.importorskip("torch")
    first = torch.nn.Linear(4, 3)
    first.bias.requires_grad = False
    with start(runs) as run:
        run.watch(torch.nn.Sequential(first, torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(3, 2, bias=False, dtype=torch.bfloat16))), log_graph=True, log=None)
        run.log({"loss": 1.0})
    tables = {value["name"]: value for _, value in read_log(str(next(runs.glob("*/events/*")))).media}
    assert tables["model/modules"]["columns"] == ["module", "type", "settings", "parameters", "own parameters", "trainable", "bytes"]
    assert tables["model/modules"]["rows"] == [
        ["(the model)", "Sequential", "", 21, 0, 18, 72], ["0", "Linear", "in_features=4, out_features=3, bias=True", 15, 15, 12, 60],
        ["1", "Sequential", "", 6, 0, 6, 12], ["1.0", "ReLU", "", 0, 0, 0, 0], ["1.1", "Linear", "in_features=3, out_features=2, bias=False", 6, 6, 6, 12]]
    assert tables["model/parameters"]["rows"] == [["0.weight", "3 × 4", "float32", 12, 48, True], ["0.bias", "3", "float32", 3, 12, False],
                                                  ["1.1.weight", "2 × 3", "bfloat16", 6, 12, True]]
    assert tables["model/parameters"]["columns"] == ["parameter", "shape", "dtype", "elements", "bytes", "trainable"]
    assert [table["step"] for table in tables.values()] == [0, 0], "before the first step"


def forward_passes(runs):
    tables = [value for _, value in read_log(str(next(runs.glob("*/events/*")))).media if value["name"].endswith("forward")]
    assert all(table["columns"] == ["call", "module", "type", "output", "inside", "inputs"] for table in tables)
    return {table["name"]: [tuple(row) for row in table["rows"]] for table in tables}


def test_the_first_forward_pass_of_a_watched_model_is_a_table(runs):
    torch = pytest.importorskip("torch")

    class Residual(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.ReLU(inplace=True), torch.nn.Linear(4, 4))

        def forward(self, x, *, scale):
            return self.second(self.first(x)) + self.first(x) * scale

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.block, self.heads, self.join = Residual(), torch.nn.LSTM(4, 3, batch_first=True), torch.nn.Bilinear(4, 3, 2)

        def forward(self, x):
            y = self.block(x, scale=torch.ones(()))
            return self.join(y, self.heads(y)[0])

    model = Model()
    with start(runs) as run:
        run.watch(model, log_graph=True, log=None)
        model.block.first(torch.ones(1, 4))  # a part that is used alone
        result = model(torch.ones(5, 7, 4))
        result.sum().backward()
        model(torch.ones(1, 7, 4))
        run.log({"loss": 1.0}, step=3)
    assert forward_passes(runs) == {"model/forward": [
        (1, "(the model)", "Model", "5 × 7 × 2", None, ""),
        (2, "block", "Residual", "5 × 7 × 4", 1, "input, ?"),
        (3, "block.first", "Linear", "5 × 7 × 4", 2, "input"),
        (4, "block.second", "Sequential", "5 × 7 × 4", 2, "3"),
        (5, "block.second.0", "ReLU", "5 × 7 × 4", 4, "input"),
        (6, "block.second.1", "Linear", "5 × 7 × 4", 4, "5"),
        (7, "block.first", "Linear", "5 × 7 × 4", 2, "input"),
        (8, "heads", "LSTM", "5 × 7 × 3; 1 × 5 × 3; 1 × 5 × 3", 1, "2"),
        (9, "join", "Bilinear", "5 × 7 × 2", 1, "2, 8"),
    ]}
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_forward_pass_that_fails_is_recorded_the_next_time_and_compiled_models_have_none(runs, capsys):
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    unused, compiled = (torch.nn.Sequential(torch.nn.Linear(2, 2)) for _ in range(2))
    with start(runs) as run:
        run.watch([model, unused, torch.compile(compiled, backend="eager")], log_graph=True, log=None)
        with pytest.raises(RuntimeError, match="shapes"):
            model(torch.ones(2, 5))
        model(torch.ones(2, 4))
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*global hooks")
            torch.compile(unused, backend="eager", fullgraph=True)(torch.ones(1, 2))
        scripted = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(2, 1)))
        run.watch(scripted, log_graph=True, log_freq=1)
        scripted(torch.ones(1, 2)).sum().backward()
        run.log({"loss": 1.0})
    log = read_log(str(next(runs.glob("*/events/*"))))
    assert any(value["name"] == "gradients/graph_3.0.weight" for _, value in log.media), "it is watched"
    assert forward_passes(runs) == {"model/forward": [(1, "(the model)", "Sequential", "2 × 2", None, ""), (2, "0", "Linear", "2 × 3", 1, "input"), (3, "1", "Linear", "2 × 2", 1, "2")]}
    assert capsys.readouterr().err.splitlines() == [
        "lockstep: warning: watch(): the forward pass of Sequential is not recorded: it was compiled before its first call",
        "lockstep: warning: watch(): the forward pass of RecursiveScriptModule is not recorded: register_forward_pre_hook is not supported on ScriptModules"]


def hooks_of(torch, model):
    common = torch.nn.modules.module
    return [*(hook for module in model.modules() for hook in (*module._forward_hooks.values(), *module._forward_pre_hooks.values())),
            *common._global_forward_pre_hooks.values(), *common._global_forward_hooks.values()]


def test_a_model_can_be_copied_pickled_and_scripted_before_its_first_forward_pass(runs):
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Sequential(torch.nn.Linear(3, 2)))
    with start(runs) as run:
        run.watch(model, log_graph=True, log=None)
        copied, loaded, scripted = copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.jit.script(model)
        assert not any(module._forward_hooks or module._forward_pre_hooks for one in (model, copied, loaded) for module in one.modules())
        for other in (copied, loaded, scripted):
            other(torch.ones(1, 4))  # these are not the model that is watched
        with pytest.raises(RuntimeError, match="shapes"):
            model(torch.ones(2, 5))
        assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules()), "after a pass that failed"

        def interrupt(*_):
            raise KeyboardInterrupt

        handle = model[1].register_forward_hook(interrupt)
        with pytest.raises(KeyboardInterrupt):
            model(torch.ones(7, 4))
        handle.remove()
        assert torch.equal(model(torch.ones(2, 4)), copied(torch.ones(2, 4)))
        run.log({"loss": 1.0})
        assert hooks_of(torch, model) == []
    assert [row[1:4] for row in forward_passes(runs)["model/forward"]] == [
        ("(the model)", "Sequential", "2 × 2"), ("0", "Linear", "2 × 3"), ("1", "Sequential", "2 × 2"), ("1.0", "Linear", "2 × 2")]


def test_the_hooks_end_with_unwatch_with_the_model_and_after_many_calls_of_others(runs, capsys):
    torch = pytest.importorskip("torch")
    first, second, third = (torch.nn.Sequential(torch.nn.Linear(2, 2)) for _ in range(3))
    with start(runs) as run:
        run.watch(first, log_graph=True, log=None)
        run.unwatch(first)
        assert hooks_of(torch, first) == []
        run.watch(second, log_graph=True, log=None)
        del second
        gc.collect()
        assert hooks_of(torch, first) == []
        run.watch(third, log_graph=True, log=None)
        part = torch.nn.Identity()
        for _ in range(100_000):
            part(0)
        assert len(hooks_of(torch, third)) == 1
        third[0](torch.ones(1, 2))
        assert hooks_of(torch, third) == []
        third(torch.ones(1, 2))
        run.watch(first, log_graph=True, log=None)
        run.log({"loss": 1.0})
    assert hooks_of(torch, first) == [], "after finish()"
    assert not torch.nn.modules.module._global_module_registration_hooks
    assert forward_passes(runs) == {}
    assert capsys.readouterr().err == ("lockstep: warning: watch(): the forward pass of Sequential is not recorded: 100,000 calls of modules, and none of it; "
                                       "watch the module that is called\n")


def test_the_forward_pass_of_a_model_that_calls_itself_and_catches_errors_while_another_thread_uses_its_parts(runs, capsys):
    torch = pytest.importorskip("torch")

    class Tree(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.leaf, self.join = torch.nn.Linear(2, 2), torch.compile(torch.nn.Linear(2, 2), backend="eager", fullgraph=True)

        def forward(self, x, *, depth):
            if depth == 0:
                thread = threading.Thread(target=self.leaf, args=(torch.ones(9, 2),))
                thread.start()
                thread.join()
                return self.leaf(x)
            with contextlib.suppress(RuntimeError):
                self.leaf(torch.ones(1, 3))
            return self.join(self(x, depth=depth - 1))

    model = Tree()
    with start(runs) as run:
        run.watch(model, log_graph=True, log=None)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*global hooks")
            try:
                raise KeyError
            except KeyError:  # a pass may be tried again while an exception is handled
                model(x=torch.ones(4, 2), depth=2)
        assert hooks_of(torch, model) == []
        run.log({"loss": 1.0})
    # The compiled part has one row: its calls are traced.
    assert forward_passes(runs) == {"model/forward": [
        (1, "(the model)", "Tree", "4 × 2", None, ""), (2, "leaf", "Linear", "", 1, "?"),
        (3, "(the model)", "Tree", "4 × 2", 1, "input"), (4, "leaf", "Linear", "", 3, "?"),
        (5, "(the model)", "Tree", "4 × 2", 3, "input"), (6, "leaf", "Linear", "4 × 2", 5, "input"),
        (7, "join", "OptimizedModule", "4 × 2", 3, "5"), (8, "join", "OptimizedModule", "4 × 2", 1, "3")]}
    assert capsys.readouterr().err == ""


def test_watched_models_have_different_names(runs):
    torch = pytest.importorskip("torch")
    first, second, third = (torch.nn.Linear(size, 1, bias=False) for size in (2, 3, 4))
    with start(runs) as run:
        run.watch([first, second], log_graph=True, log=None)
        run.log({"loss": 1.0}, step=4)
        run.watch(first, log_graph=True, log=None)
        run.watch(third, log_graph=True, log=None)
    tables = [(value["name"], value["step"], value["rows"][0][3]) for _, value in read_log(str(next(runs.glob("*/events/*")))).media
              if value["name"].endswith("parameters")]
    assert tables == [("model/parameters", 0, 2), ("model/graph_1.parameters", 0, 3), ("model/parameters", 4, 2), ("model/graph_2.parameters", 4, 4)]


def test_a_model_sharded_by_fsdp_is_one_line(runs, capsys):
    torch = pytest.importorskip("torch")
    from torch.distributed.fsdp import fully_shard

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        with start(runs) as run:
            run.watch(fully_shard(torch.nn.Linear(2, 1)))
    finally:
        torch.distributed.destroy_process_group()
    assert capsys.readouterr().err.endswith(" has sharded parameters (FSDP), which are not supported; it is not watched\n")


def test_unusual_gradients_are_watched(runs):
    torch = pytest.importorskip("torch")
    table = torch.nn.Embedding(10, 3, sparse=True)
    constant = torch.nn.Linear(3, 1, bias=False, dtype=torch.bfloat16)
    with start(runs) as run:
        run.watch([table, constant], log="gradients", log_freq=1)
        table(torch.tensor([1, 1, 4])).square().sum().backward()
        constant(torch.tensor([[1.0, math.nan, math.inf]], dtype=torch.bfloat16)).sum().backward()
        run.log({"loss": 1.0}, step=7)
        run.unwatch(constant)
        table(torch.tensor([0])).square().sum().backward()
        constant(torch.ones(1, 3, dtype=torch.bfloat16)).sum().backward()
    log = read_log(str(next(runs.glob("*/events/*"))))
    assert [value["step"] for _, value in log.media] == [7, 7, 7], "the last one at the end of the run"
    media = {value["name"]: value for _, value in reversed(log.media)}
    table.zero_grad()
    table(torch.tensor([1, 1, 4])).square().sum().backward()
    sparse, whole = media["gradients/weight"], table.weight.grad.to_dense()
    assert sum(sparse["counts"]) == 30 and sparse["edges"][0] == whole.min() and sparse["edges"][-1] == whole.max()
    zero = next(i for i, edge in enumerate(sparse["edges"]) if edge > 0) - 1
    assert sparse["counts"][zero] >= 24
    assert media["gradients/graph_1.weight"]["counts"] == [1.0] and media["gradients/graph_1.weight"]["edges"] == [0.5, 1.5]


def test_the_summary_is_that_of_the_whole_run(runs):
    """Also of values that were recorded before a restart, or before their definition; not of those that a restart took back."""
    with start(runs, id="r") as run:
        for step, value in enumerate((5.0, 2.0, 9.0, 0.0)):
            run.log({"a": value, "b": value, "epoch": step}, step=step)
        run.define_metric("b", summary="max")
    assert dict(run.summary) == {"a": 0.0, "b": 9.0, "epoch": 3.0}, "also after the end"
    with start(runs, id="r", resume="allow") as run:
        run.define_metric("a", summary="min", step_metric="epoch")
        run.log({"a": 4.0}, step=3)
        assert run.summary["a"] == 2.0
        run.log({"a": 1.0, "none": None}, step=4)
        run.log({"a": "text"}, step=4)
    assert lockstep.runs(runs)[0].summary == {"a": 1.0, "b": 9.0, "epoch": 2.0}
    assert ("epoch", 3, "2.0", 0) in exported(runs, "r")


def test_artifacts_are_those_of_the_store(tmp_path, runs):
    (tmp_path / "weights.bin").write_bytes(b"weights")
    with start(runs) as run:
        artifact = lockstep.Artifact("net", type="model", metadata={"accuracy": 0.5})
        artifact.add_file(str(tmp_path / "weights.bin"))
        assert run.log_artifact(artifact, aliases=["best"]).version == "v1"
        used = run.use_artifact("net:best")
        assert (Path(used.download(str(tmp_path / "out"))) / "weights.bin").read_bytes() == b"weights"
    assert used.metadata == {"accuracy": 0.5} and used.digest == artifact.digest
    shown = json.loads(subprocess.run([LOCKSTEP, "artifacts", "show", "net", "--dir", str(runs), "--json"], capture_output=True, text=True, check=True).stdout)
    assert shown["made_by"] == run.id and shown["used_by"] == [run.id]


def test_an_artifact_that_is_a_link_is_its_file(tmp_path, runs, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # on the same file system, so that files are not copied
    (tmp_path / "weights.bin").write_bytes(b"weights")
    (tmp_path / "best.pt").symlink_to("weights.bin")
    with start(runs) as run:
        artifact = run.log_artifact(tmp_path / "best.pt")
        assert artifact.version == "v1" and (Path(artifact.download(str(tmp_path / "out"))) / "best.pt").read_bytes() == b"weights"


def test_an_artifact_with_two_files_of_one_name_leaves_both(tmp_path, runs, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # on the same file system, so that files are not copied
    artifact = lockstep.Artifact("net", type="model")
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.pt").write_text(name)
        artifact.add_file(str(tmp_path / name / "model.pt"))
    with start(runs) as run:
        run.log_artifact(artifact).wait()
    assert [(tmp_path / name / "model.pt").read_text() for name in "ab"] == ["a", "b"]


def test_an_artifact_that_cannot_be_stored_is_one_line(tmp_path, runs, monkeypatch, capsys):
    monkeypatch.setattr("lockstep.recording.artifacts.find_program", lambda name: None)
    artifact = lockstep.Artifact("net")
    with start(runs) as run:
        assert run.log_artifact(artifact).wait() is artifact
        assert run.log_artifact(tmp_path / "missing.pt").wait().name == "missing"
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and "artifacts need the command lockstep" in lines[0] and "missing.pt is not a file" in lines[1], lines


def test_message_pack_is_read_back():
    values = {"i": [0, -1, 127, 128, -32, -33, 1 << 40, -(1 << 63), (1 << 64) - 1], "f": [0.1, -0.0], "s": ["", "é" * 20, "x" * 70000], "n": None,
              "b": [True, False], "m": {str(i): i for i in range(20)}, "bytes": b"\0" * 300}
    assert message_pack.unpacked(message_pack.packed(values)) == values
    packed = message_pack.packed({"a": [1, "text", {"b": 2.5}]})
    for end in range(len(packed)):
        with pytest.raises(message_pack.Unreadable):
            message_pack.unpacked(packed[:end])


def test_the_examples_of_the_docs_run(tmp_path, runs, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(api, "find_program", lambda name: None)
    blocks = re.findall(r"^```python\n(.*?)^```$", (SOURCE / "docs" / "python.md").read_text(), re.M | re.S)
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "LOCKSTEP_RUN_ID": ""}.items():
        monkeypatch.setenv(name, str(value))
    names = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert len(blocks) == 6 and len(names["lists"]["step"]) == 200 and names["points"] is not None
    assert sorted(run.name for run in lockstep.runs(runs)) == ["ddp", "defined", "demo", "media"]
    summary = {"val/accuracy": 0.75, "loss.min": 0.25, "loss.max": 0.5, "loss": 0.375, "epoch": 2, "eval/accuracy": 0.93}
    assert lockstep.runs(runs, name="defined")[0].summary == summary


def test_the_import_is_light(tmp_path):
    heavy = "torch", "numpy", "subprocess", "asyncio", "socket"
    ended = run_script(tmp_path, f"lockstep.init\nlockstep.runs\nprint([name for name in {heavy} if name in sys.modules])")
    assert ended.out == "[]\n", ended.err


def test_the_agent_feeds_the_sinks(tmp_path, runs):
    ended = run_script(tmp_path, "with lockstep.init(name='k', sinks=[{'name': 'csv'}]) as run:\n  run.log({'a': 1.5}, step=3)",
                       PATH=f"{Path(LOCKSTEP).parent}:{os.environ['PATH']}")
    assert (ended.code, ended.err) == (0, ""), ended.err
    (csv,) = runs.rglob("*.csv")
    assert any(line.split(",")[-1].strip() in ("1.5", "a") or "1.5" in line for line in csv.read_text().splitlines())


def test_a_ddp_script_under_the_launcher_is_restarted_and_recorded(tmp_path, runs):
    """A step that failed ranks had logged past their checkpoint is there once, with the same value as without the failure."""
    pytest.importorskip("torch")
    script = SOURCE / "examples" / "python_ddp" / "train.py"
    for run_id, options in {"whole": [], "restarted": ["--fail-at", 8]}.items():
        ended = processes.run([LOCKSTEP, "launch", "-n", 2, "--max-restarts", 1, "--run-id", run_id, "--", sys.executable, script, *options], tmp_path)
        assert ended.code == 0, ended.err
    assert "restart 1 of 1: rank 1 (of 2)" in ended.err and "RuntimeError: rank 1 fails on purpose" in ended.err
    rows = exported(runs, "whole")
    assert [(name, rank) for name, *_, rank in rows].count(("train/loss", 1)) == 20
    assert exported(runs, "restarted") == rows == read_back(runs, "restarted")
    assert json.loads(query(runs, "show", "restarted", "--json"))["state"] == "finished"


def test_a_rank_that_stays_behind_is_reported_with_its_stack(tmp_path):
    (tmp_path / "train.py").write_text("""
import os, time, lockstep
def load_data_slowly():
    deadline = time.monotonic() + 100
    while not os.path.exists("done") and time.monotonic() < deadline:
        time.sleep(0.01)
for step in range(3 if os.environ["RANK"] == "1" else 5):
    lockstep.progress(step + 1, 9)
load_data_slowly()
""")
    launched = processes.start([LOCKSTEP, "launch", "-n", 2, "--", sys.executable, "train.py"], tmp_path)
    lines = []
    for line in launched.stderr:
        lines.append(line)
        if "load_data_slowly" in line:
            (tmp_path / "done").write_text("")
    ended = processes.finish(launched)
    assert ended.code == 0
    text = "".join(lines)
    assert "warning: rank 1 (" in text and "has kept the others waiting" in text and "step 4 of 9" in text, text
