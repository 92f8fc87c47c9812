"""Reads the output of the csv and jsonl sinks with Python's modules for these formats."""
import csv
import json
import math

import pytest

from feeding import (CONFIG, ENTRY, FLUSH, at, crash_everywhere, feed, finish, must_feed, rewind, row, scalars, start, time_of)


def place(run_dir, sink):
    return run_dir / "sinks" / sink / ENTRY / {"csv": "metrics.csv", "jsonl": "records.jsonl"}[sink]


def rows_of(path):
    with path.open(newline="") as text:
        return list(csv.reader(text))


def records_of(path):
    return [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]


VALUES = [("train/loss", 0.1), ("lr", 1e-300), ("big", 1.7976931348623157e308), ("nan", math.nan), ("up", math.inf),
          ("down", -math.inf), ('odd, "name"\nwith\r\nlines', 1.0), ("\xe4\u20ac", -0.0), ("", 2.0)]


def csv_row(step, name, value):
    return [str(step), repr(step / 8).removesuffix(".0"), repr(time_of(step)).removesuffix(".0"), name, value]


def test_csv_has_a_row_per_value(tmp_path):
    must_feed(tmp_path, "csv", [start(), row(1, VALUES), scalars(-2, a=3.0), finish(), FLUSH])
    header, *rows = rows_of(place(tmp_path, "csv"))
    assert header == ["step", "epoch", "time", "metric", "value"]
    assert rows[-1] == csv_row(-2, "a", "3")
    for got, (name, value) in zip(rows[:-1], VALUES, strict=True):
        assert got[:4] == csv_row(1, name, "")[:4]
        assert float(got[4]) == value or math.isnan(float(got[4])) and math.isnan(value)
    assert [got[4] for got in rows[3:6]] == ["nan", "inf", "-inf"]
    assert [float(got[1]) for got in rows] == [1 / 8] * len(VALUES) + [-2 / 8]


def everything():
    return [
        start(), row(1, VALUES),
        {"call": "text", "time": 5.5, "level": "warning", "line": {"hex": "61ff0a"}},
        {"call": "console", "time": 6.0, "rank": 1, "is_error": True, "line": "oops"},
        at("histogram", 2, "w", edges=[0.0, 1.0, "inf"], counts=[3.0, 4.0]),
        at("image", 2, "i", width=4, height=2, caption="seven", png={"hex": "89504e47"}),
        at("clip", 2, "c", media_type="audio/wav", caption="low", bytes={"hex": "52494646"}),
        at("table", 2, "t", columns=["a", "b"], rows=[[1, "x"], [None, 2.5]]),
        {"call": "alert", "time": 7.0, "level": "error", "title": "NaN", "text": "loss", "step": 2},
        {"call": "alert", "time": 7.5, "level": "info", "title": "slow", "text": ""},
        {"call": "artifact", "time": 8.0, "name": "m", "artifact_type": "model", "version": 3, "digest": "ab", "aliases": ["best"],
         "metadata": {"accuracy": 0.5}, "made": False},
        {"call": "summary", "values": {"best": 0.5}}, finish("killed", 137), FLUSH]


def check_everything(records):
    moment = {"step": 2, "epoch": 0.25, "time": time_of(2)}
    config, values, *others = records
    assert (config["type"], config["run"]["id"], config["config"]) == ("config", ENTRY, CONFIG)
    special = {"nan": "nan", "up": "inf", "down": "-inf"}
    assert values == {"type": "scalars", "step": 1, "epoch": 0.125, "time": time_of(1),
                      "values": {name: special.get(name, value) for name, value in VALUES}}
    assert others == [
        {"type": "text", "time": 5.5, "level": "warning", "line": "a\ufffd\n"},
        {"type": "console", "time": 6.0, "rank": 1, "stream": "stderr", "line": "oops"},
        {"type": "histogram", "name": "w", **moment, "edges": [0.0, 1.0, "inf"], "counts": [3.0, 4.0]},
        {"type": "image", "name": "i", **moment, "width": 4, "height": 2, "caption": "seven"},
        {"type": "clip", "name": "c", **moment, "media_type": "audio/wav", "bytes": 4, "caption": "low"},
        {"type": "table", "name": "t", **moment, "columns": ["a", "b"], "rows": [[1, "x"], [None, 2.5]]},
        {"type": "alert", "time": 7.0, "level": "error", "title": "NaN", "text": "loss", "step": 2},
        {"type": "alert", "time": 7.5, "level": "info", "title": "slow", "text": "", "step": None},
        {"type": "artifact", "time": 8.0, "name": "m", "artifact_type": "model", "version": 3, "digest": "ab", "aliases": ["best"],
         "metadata": {"accuracy": 0.5}, "made": False},
        {"type": "summary", "values": {"best": 0.5}},
        {"type": "end", "state": "killed", "exit": 137}]


def test_jsonl_has_every_record(tmp_path):
    must_feed(tmp_path, "jsonl", everything())
    check_everything(records_of(place(tmp_path, "jsonl")))


def rewound():
    """Rewinds before, after and between flushes, to a step before and within the unflushed records."""
    return [start(), *[scalars(step, a=step) for step in (1, 2, 3, 4)], FLUSH, scalars(5, a=5.0), scalars(2, b=2.5), rewind(3),
            row(4, [("a\n,", 40.0)]), FLUSH, scalars(5, a=50.0), {"call": "alert", "time": 1.0, "level": "info", "title": "t",
            "text": "", "step": 5}, rewind(4), rewind(2), scalars(3, a=300.0), FLUSH, FLUSH, scalars(4, a=400.0), rewind(3), FLUSH,
            scalars(4, a=401.0), FLUSH]


LEFT = [(1, "a", 1.0), (2, "a", 2.0), (2, "b", 2.5), (3, "a", 300.0), (4, "a", 401.0)]


def left(path, sink):
    if sink == "csv":
        header, *rows = rows_of(path)
        assert header[0] == "step"
        return [(int(step), name, float(value)) for step, _, _, name, value in rows]
    records = records_of(path)
    assert [record["type"] for record in records if record["type"] != "scalars"] == ["config", "alert"]
    return [(record["step"], name, value) for record in records if record["type"] == "scalars"
            for name, value in record["values"].items()]


@pytest.mark.parametrize("sink", ["csv", "jsonl"])
def test_a_rewind_removes_later_values(tmp_path, sink):
    must_feed(tmp_path, sink, rewound())
    assert left(place(tmp_path, sink), sink) == LEFT


@pytest.mark.parametrize("sink", ["csv", "jsonl"])
def test_a_rewind_keeps_metrics_of_the_machine(tmp_path, sink):
    """They are numbered by samples."""
    def sample(number):
        return row(number, [("system/cpu_percent", float(number))])

    alert = {"call": "alert", "time": 1.0, "level": "info", "title": "t", "text": "", "step": 5}
    must_feed(tmp_path, sink, [start(), scalars(1, a=1.0), sample(8), scalars(2, a=2.0), FLUSH, sample(9), alert, rewind(1), scalars(2, a=20.0), FLUSH])
    assert left(place(tmp_path, sink), sink) == [
        (1, "a", 1.0), (8, "system/cpu_percent", 8.0), (9, "system/cpu_percent", 9.0), (2, "a", 20.0)]


@pytest.mark.parametrize("sink", ["csv", "jsonl"])
def test_every_record_exists_once_after_any_crash(tmp_path, sink):
    for number, calls in enumerate((everything(), rewound())):
        must_feed(tmp_path / f"{number}a", sink, calls)
        must_feed(tmp_path / f"{number}b", sink, crash_everywhere(calls))
        whole, again = (place(tmp_path / f"{number}{letter}", sink).read_bytes() for letter in "ab")
        assert again == whole


@pytest.mark.parametrize("sink", ["csv", "jsonl"])
def test_a_new_process_continues_after_a_crash_at_any_point(tmp_path, sink):
    """The state of a flush is lost each time, as if the process was killed between the flush and storing its state."""
    calls = rewound()
    must_feed(tmp_path / "whole", sink, calls)
    for cut in range(2, len(calls)):
        if calls[cut - 1] != FLUSH:
            continue
        run_dir = tmp_path / str(cut)
        since = max((at for at in range(1, cut - 1) if calls[at] == FLUSH), default=0)
        state = run_dir / "sinks" / sink / ENTRY / "state.json"
        must_feed(run_dir, sink, calls[:since + 1])
        before = state.read_text() if state.exists() else None
        for _ in range(2):
            must_feed(run_dir, sink, [start(), *calls[since + 1:cut]])
            state.write_text(before) if before else state.unlink()
        must_feed(run_dir, sink, [start(), *calls[since + 1:]])
        assert place(run_dir, sink).read_bytes() == place(tmp_path / "whole", sink).read_bytes()


@pytest.mark.parametrize("sink", ["csv", "jsonl"])
def test_a_full_disk_keeps_flushed_records_complete(tmp_path, sink):
    must_feed(tmp_path, sink, [start(), scalars(1, a=1.0), FLUSH])
    path = place(tmp_path, sink)
    whole = path.read_bytes()
    rows = [scalars(step, a=step) for step in range(2, 200)]
    code, said = feed(tmp_path, sink, [start(), *rows, FLUSH], limit=2048)
    assert code == 75 and said.count("\n") == 1 and str(path) in said
    assert path.read_bytes() == whole
    must_feed(tmp_path, sink, [start(), *rows, FLUSH])
    expected = [(step, "a", float(step)) for step in range(1, 200)]
    if sink == "csv":
        assert left(path, sink) == expected
    else:
        assert [(r["step"], "a", r["values"]["a"]) for r in records_of(path)[1:]] == expected


@pytest.mark.parametrize("sink", ["csv", "jsonl"])
def test_path_may_name_the_entry(tmp_path, sink):
    target = tmp_path / "out" / f"{ENTRY}.x"
    must_feed(tmp_path / "run", sink, [start(), scalars(1, a=1.0), FLUSH], {"path": str(tmp_path / "out/{id}.x")})
    assert "a" in target.read_text()
