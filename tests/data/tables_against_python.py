"""The same table as CSV, JSON Lines, Parquet and Arrow has the same values, and no column is silently misread."""

import datetime
import gzip
import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from datasets_against_python import load, refused, start  # noqa: E402

ROWS = 60
RNG = np.random.default_rng(5)
NUMBERS = RNG.normal(size=ROWS)
WORDS = ["red", "green", "light, blue"]


def table():
    start_of_year = datetime.datetime(2026, 1, 1)
    return pa.table(
        {
            "number": NUMBERS,
            "whole": np.arange(ROWS) - 5,
            "flag": np.arange(ROWS) % 3 == 0,
            "when": pa.array([start_of_year + datetime.timedelta(hours=7 * i, seconds=i) for i in range(ROWS)], pa.timestamp("ms")),
            "day": pa.array([(start_of_year + datetime.timedelta(days=i)).date() for i in range(ROWS)], pa.date32()),
            "hour": pa.array([datetime.time(i % 24, i) for i in range(ROWS)], pa.time32("s")),
            "color": [WORDS[i % 3] for i in range(ROWS)],
            "label": np.arange(ROWS) % 2 == 1,
        }
    )


def as_csv(directory, rows):
    pa.csv.write_csv(rows, directory / "t.csv")
    return {"name": "csv", "path": str(directory / "t.csv")}


def as_tsv(directory, rows):
    pa.csv.write_csv(rows, directory / "t.tsv", pa.csv.WriteOptions(delimiter="\t"))
    return {"name": "csv", "path": str(directory / "t.tsv")}


def as_compressed_csv(directory, rows, codec="zstd", ending="zst"):
    stream = pa.BufferOutputStream()
    pa.csv.write_csv(rows, stream)
    content = stream.getvalue()
    packed = gzip.compress(content) if codec == "gzip" else pa.Codec(codec).compress(content).to_pybytes()
    (directory / f"t.csv.{ending}").write_bytes(packed)
    return {"name": "csv", "path": str(directory / f"t.csv.{ending}")}


def lines_of(rows):
    """Dates and times in seconds, since JSON has no type for them."""
    for row in rows.to_pylist():
        for name, value in row.items():
            if isinstance(value, datetime.datetime):
                row[name] = value.replace(tzinfo=datetime.timezone.utc).timestamp()
            elif isinstance(value, datetime.date):
                row[name] = datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.timezone.utc).timestamp()
            elif isinstance(value, datetime.time):
                row[name] = value.hour * 3600 + value.minute * 60 + value.second
        yield json.dumps(row)


def as_jsonl(directory, rows):
    (directory / "t.jsonl").write_text("\n".join(lines_of(rows)) + "\n")
    return {"name": "jsonl", "path": str(directory / "t.jsonl")}


def as_parquet(directory, rows):
    pq.write_table(rows, directory / "t.parquet", row_group_size=25)
    return {"name": "parquet", "path": str(directory / "t.parquet")}


def as_arrow(directory, rows):
    with pa.ipc.new_stream(str(directory / "t.arrow"), rows.schema) as stream:
        stream.write_table(rows, max_chunksize=25)
    return {"name": "arrow", "path": str(directory / "t.arrow")}


def as_feather(directory, rows):
    pa.feather.write_feather(rows, directory / "t.feather", compression="lz4")
    return {"name": "arrow", "path": str(directory / "t.feather")}


WRITERS = [as_csv, as_tsv, as_compressed_csv, as_jsonl, as_parquet, as_arrow, as_feather]


def all_of(directory, train):
    batches = load(directory, {"train": train})["train", 0]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def seconds(column):
    return column.cast(pa.timestamp("ms")).cast(pa.int64()).to_numpy() / 1000


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("standardize", [False, True])
def test_a_table_has_the_same_features_in_every_format(tmp_path, write, standardize):
    rows = table()
    ours = all_of(tmp_path, {**write(tmp_path, rows), "label": "label", "standardize": standardize})
    numbers = np.stack([
        NUMBERS, np.arange(ROWS) - 5, np.arange(ROWS) % 3 == 0, seconds(rows["when"]), seconds(rows["day"]),
        [i % 24 * 3600 + i * 60 for i in range(ROWS)],
    ], 1).astype(float)  # fmt: skip
    if standardize:
        numbers = (numbers - numbers.mean(0)) / numbers.std(0)
        assert np.allclose(ours["features"][:, :6], numbers, rtol=1e-5, atol=1e-6)
    else:
        assert np.array_equal(ours["features"][:, :6], numbers.astype(np.float32))
    assert np.array_equal(ours["features"][:, 6:], np.eye(3)[[{0: 2, 1: 0, 2: 1}[i % 3] for i in range(ROWS)]])
    assert ours["label"].dtype == np.int64 and np.array_equal(ours["label"], np.arange(ROWS) % 2)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_durations_are_seconds_in_every_format(tmp_path, unit):
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    waits = pa.array(np.arange(ROWS) * 60 * per_second).cast(pa.duration(unit))
    pairs = pa.ListArray.from_arrays(np.arange(0, 2 * ROWS + 1, 2, dtype=np.int32), waits.take(np.repeat(np.arange(ROWS), 2)))
    rows = pa.table({"whole": np.arange(ROWS), "wait": waits, "pair": pairs})
    for write in (as_parquet, as_arrow):
        train = write(tmp_path, rows)
        expected = np.arange(ROWS)[:, None] * np.array([1, 60, 60, 60])
        assert np.array_equal(all_of(tmp_path, train)["features"], expected)
        for test, kept in (("wait >= 1800", range(30, ROWS)), ("wait < 1500", range(25))):  # some row groups do not pass
            ours = all_of(tmp_path, {**train, "columns": ["whole"], "filter": [test]})["features"]
            assert ours.ravel().tolist() == list(kept)


def test_half_precision_numbers_may_be_nan_in_a_column_without_nulls(tmp_path):
    numbers = np.arange(ROWS).astype(np.float16)
    numbers[7] = np.nan
    train = as_parquet(tmp_path, pa.table({"x": pa.array(numbers, from_pandas=False)}))
    assert all_of(tmp_path, {**train, "missing": "drop"})["features"].ravel().tolist() == [i for i in range(ROWS) if i != 7]


def csv_of(tmp_path, column, cells, other="0"):
    (tmp_path / "t.csv").write_text(f"k,{column}\n" + "".join(f'{other},"{cell}"\n' for cell in cells))
    return {"name": "csv", "path": str(tmp_path / "t.csv")}


ODD = {
    "question mark": ("?", "'?' is not a number, but 49 of 50 cells are numbers"),
    "dash": ("-", "'-' is not a number"),
    "thousands": ("1,000", "'1,000' is not a number: it has a decimal comma (set decimal: \",\") or thousands separators"),
    "per cent": ("10%", "'10%' is not a number: it has a percent sign"),
    "truth": ("True", "'True' is not a number"),
    "date": ("2026-01-31", "'2026-01-31' is not a number"),
    "word": ("unknown", "'unknown' is not a number"),
}


@pytest.mark.parametrize("cell, text", ODD.values(), ids=ODD.keys())
def test_one_invalid_cell_does_not_make_a_column_of_numbers_categorical(tmp_path, cell, text):
    cells = [f"{i / 7:.4f}" for i in range(50)]
    cells[20] = cell
    train = csv_of(tmp_path, "price", cells)
    message = refused(tmp_path, {"train": train})
    assert "t.csv: line 22: column 'price': " + text in message, message
    assert "types: {price: text}" in message and "missing_values" in message
    declared = all_of(tmp_path, {**train, "types": {"price": "text"}})
    assert declared["features"].shape == (50, 51)
    filled = all_of(tmp_path, {**train, "missing_values": ["", cell], "missing": "fill"})
    assert filled["features"].shape == (50, 2)
    if cell not in ("True", "2026-01-31"):
        left = all_of(tmp_path, {**train, "types": {"price": "number"}, "max_bad_samples": 1})
        assert left["features"].shape == (49, 2)


def test_columns_of_formatted_numbers(tmp_path):
    cells = [f"{i},5" for i in range(50)]
    train = csv_of(tmp_path, "price", cells)
    assert "line 2: column 'price': '0,5' is not a number: it has a decimal comma" in refused(tmp_path, {"train": train})
    ours = all_of(tmp_path, {**train, "decimal": ","})
    assert np.array_equal(ours["features"][:, 1], np.arange(50) + 0.5)
    dates = csv_of(tmp_path, "when", [f"{i % 28 + 1:02}.01.2026" for i in range(50)])
    assert "'01.01.2026' is not a number: dates are written 2026-01-31" in refused(tmp_path, {"train": dates})


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e300])
def test_numbers_that_are_not_finite_float32_are_missing(tmp_path, kind, value):
    numbers = NUMBERS.copy()
    numbers[7] = value
    rows = pa.table({"x": numbers})
    (tmp_path / "t.csv").write_text("x\n" + "".join(f"{number!r}\n" for number in numbers.tolist()))
    train = {"name": "csv", "path": str(tmp_path / "t.csv")} if kind == "csv" else as_parquet(tmp_path, rows)
    message = refused(tmp_path, {"train": train})
    place = "t.csv: line 9" if kind == "csv" else "t.parquet: row group 0: row 8"
    assert f"{place}: column 'x' is {value:g}, which is not a finite float32 number; set missing: drop" in message.replace("e+300", "e+300")
    assert len(all_of(tmp_path, {**train, "missing": "drop"})["features"]) == ROWS - 1
    filled = all_of(tmp_path, {**train, "missing": "fill"})["features"][:, 0]
    assert np.allclose(filled[7], np.delete(numbers, 7).mean(), rtol=1e-6)


@pytest.mark.parametrize("write", [as_csv, as_jsonl, as_parquet, as_arrow])
def test_too_many_distinct_strings_are_rejected(tmp_path, write):
    rows = pa.table({"name": [f"w{i:03}" for i in range(300)], "x": np.arange(300)})
    train = write(tmp_path, rows)
    message = refused(tmp_path, {"train": train})
    assert "column 'name' has 300 distinct strings" in message and "max_words: 100" in message, message
    assert all_of(tmp_path, {**train, "max_words": 300})["features"].shape == (300, 301)
    assert all_of(tmp_path, {**train, "one_hot": False})["categories"].shape == (300, 1)
    assert all_of(tmp_path, {**train, "columns": ["x"]})["features"].shape == (300, 1)


def test_the_index_that_pandas_writes_is_not_a_feature(tmp_path):
    for name in ("", "Unnamed: 0"):
        (tmp_path / "t.csv").write_text(f"{name},x\n" + "".join(f"{i},{i * 2}\n" for i in range(9)))
        train = {"name": "csv", "path": str(tmp_path / "t.csv")}
        assert all_of(tmp_path, train)["features"].shape == (9, 1)
        assert all_of(tmp_path, {**train, "columns": ["x", name]})["features"].shape == (9, 2)
    rows = pa.table({"x": np.arange(9), "id": np.arange(9), "__index_level_0__": np.arange(9)})
    pandas = json.dumps({"index_columns": ["id", "__index_level_0__", {"kind": "range"}]})
    train = as_parquet(tmp_path, rows.replace_schema_metadata({"pandas": pandas}))
    assert all_of(tmp_path, train)["features"].shape == (9, 1)
    assert all_of(tmp_path, {**train, "columns": ["x", "id"]})["features"].shape == (9, 2)


def test_labels_of_minus_one_and_one_must_be_declared(tmp_path):
    train = {**csv_of(tmp_path, "y", [1, -1] * 10), "label": "y"}
    message = refused(tmp_path, {"train": train})
    assert "label 'y': its values are integers from -1 to 1: set label_above: 0" in message
    classes = all_of(tmp_path, {**train, "label_above": 0})["label"]
    assert classes.dtype == np.int64 and classes.tolist() == [1, 0] * 10
    assert all_of(tmp_path, {**train, "label_kind": "value"})["label"].tolist() == [1, -1] * 10


@pytest.mark.parametrize("separator", ["\t", ";", "|"])
def test_separator_is_suggested(tmp_path, separator):
    (tmp_path / "t.csv").write_text("\n".join(separator.join(line) for line in (["a", "b"], ["1", "2"], ["3", "4"])))
    message = refused(tmp_path, {"train": {"name": "csv", "path": str(tmp_path / "t.csv")}})
    assert 'set separator: "' + {"\t": "\\\\t"}.get(separator, separator).replace("\\\\", "\\") + '"' in message
    ours = all_of(tmp_path, {"name": "csv", "path": str(tmp_path / "t.csv"), "separator": separator})
    assert ours["features"].tolist() == [[1, 2], [3, 4]]


def lists(kind):
    values = RNG.normal(size=(ROWS, 5))
    rows = values.tolist()
    rows[3] = None
    rows[4][2] = None
    expected = values.copy()
    expected[3] = expected[4, 2] = np.nan
    kinds = {
        "fixed float": pa.list_(pa.float32(), 5), "float": pa.list_(pa.float32()), "double": pa.list_(pa.float64()),
        "half": pa.list_(pa.float16()), "int": pa.list_(pa.int32()),
    }  # fmt: skip
    if kind == "int":
        rows = [row and [None if v is None else int(v * 100) for v in row] for row in rows]
        expected = np.where(np.isnan(expected), np.nan, np.trunc(expected * 100))
    if kind == "half":
        rows = [row and [None if v is None else np.float16(v) for v in row] for row in rows]
        expected = expected.astype(np.float16)
    return pa.array(rows, kinds[kind]), expected.astype(np.float32)


@pytest.mark.parametrize("kind", ["fixed float", "float", "double", "half", "int"])
def test_lists_of_numbers_are_expanded_to_features(tmp_path, kind):
    column, expected = lists(kind)
    rows = pa.table({"x": np.arange(ROWS), "embedding": column, "y": np.arange(ROWS) % 2})
    for write in [as_parquet] + ([as_jsonl] if kind == "double" else []):
        train = {**write(tmp_path, rows), "label": "y"}
        assert "column 'embedding[0]' has no value" in refused(tmp_path, {"train": train})
        kept = ~np.isnan(expected).any(1)
        ours = all_of(tmp_path, {**train, "missing": "drop"})
        assert np.array_equal(ours["features"], np.concatenate([np.arange(ROWS)[:, None], expected], 1)[kept].astype(np.float32))
        assert np.array_equal(ours["label"], (np.arange(ROWS) % 2)[kept])
        chosen = all_of(tmp_path, {**train, "missing": "fill", "columns": ["embedding", "x"]})["features"]
        assert np.array_equal(chosen[kept, :5], expected[kept]) and np.array_equal(chosen[:, 5], np.arange(ROWS))
        assert "it contains lists; a label must be one value" in refused(tmp_path, {"train": {**train, "label": "embedding", "missing": "drop"}})


@pytest.mark.parametrize("name, column, text", [
    ("lengths", [[1.0, 2.0], [3.0]], "row 2: column 'a' has a list of length 1, but length 2 in previous rows"),
    ("texts", [["x"], ["y"]], "column 'a' is nested"),
    ("empty", pa.array([[], []], pa.list_(pa.float32())), "only empty lists"),
])  # fmt: skip
def test_other_lists_are_rejected(tmp_path, name, column, text):
    message = refused(tmp_path, {"train": as_parquet(tmp_path, pa.table({"a": column}))})
    assert "t.parquet" in message and text in message, message


def test_lists_of_different_lengths_in_different_files_are_rejected(tmp_path):
    for number, (first, second) in enumerate(((2, 3), (3, 2))):
        for name, length in (("a", first), ("b", second)):
            (tmp_path / f"{number}").mkdir(exist_ok=True)
            pq.write_table(pa.table({"e": [[1.0] * length] * 3}), tmp_path / f"{number}" / f"{name}.parquet")
        message = refused(tmp_path, {"train": {"name": "parquet", "path": str(tmp_path / f"{number}")}})
        assert f"b.parquet: row group 0: column 'e' has lists of length {second}, but of length {first} in other rows" in message
        parts = {part: {"name": "parquet", "path": str(tmp_path / f"{number}" / f"{name}.parquet")} for part, name in (("train", "a"), ("eval", "b"))}
        assert "column 'e' has lists of length" in refused(tmp_path, parts)


def test_half_precision_and_texts_in_every_encoding(tmp_path):
    rows = pa.table({"h": pa.array(NUMBERS.astype(np.float16)), "t": [WORDS[i % 3] if i % 7 else None for i in range(ROWS)]})
    expected = None
    for encoding in (None, "PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"):
        options = {"use_dictionary": False, "column_encoding": {"t": encoding}} if encoding else {}
        pq.write_table(rows, tmp_path / "t.parquet", row_group_size=25, **options)
        ours = all_of(tmp_path, {"name": "parquet", "path": str(tmp_path / "t.parquet"), "missing": "fill"})["features"]
        assert np.array_equal(ours[:, 0], NUMBERS.astype(np.float16).astype(np.float32))
        expected = ours if expected is None else expected
        assert np.array_equal(ours, expected)
    assert expected.shape == (ROWS, 4) and expected[:, 1:].sum() == ROWS - len(range(0, ROWS, 7))


def test_hive_folders_are_columns(tmp_path):
    rows = pa.table({"x": np.arange(40.0), "year": 2020 + np.arange(40) // 10, "city": [["New York", "Rome"][i % 2] for i in range(40)]})
    pq.write_to_dataset(rows, tmp_path / "hive", partition_cols=["year", "city"])
    train = {"name": "parquet", "path": str(tmp_path / "hive")}
    ours = all_of(tmp_path, train)["features"]
    expected = np.stack([np.arange(40), 2020 + np.arange(40) // 10, np.arange(40) % 2 == 0, np.arange(40) % 2], 1)
    assert np.array_equal(ours[np.argsort(ours[:, 0])], expected.astype(np.float32))
    some = all_of(tmp_path, {**train, "columns": ["year", "x"], "filter": ["year >= 2022", "city == Rome"]})["features"]
    assert sorted(some.tolist()) == [[2020 + i // 10, i] for i in range(21, 40, 2)]
    pq.write_table(rows.select(["x"]), tmp_path / "hive" / "other.parquet")
    assert "its partition keys (key=value directories) differ" in refused(tmp_path, {"train": train})
    (tmp_path / "none").mkdir()
    assert "no *.parquet files" in refused(tmp_path, {"train": {**train, "path": str(tmp_path / "none")}})


def test_filters_of_dates_are_in_seconds(tmp_path):
    train = {**as_parquet(tmp_path, table()), "columns": ["whole"]}
    when = seconds(table()["when"])
    ours = all_of(tmp_path, {**train, "filter": [f"when > {when[40]:.0f}"]})["features"]
    assert ours.ravel().tolist() == list(range(36, 55))


def test_jsonl_with_gaps_and_folders(tmp_path):
    (tmp_path / "shards").mkdir()
    lines = [{"b": 1, "a": "x"}, {"a": "y", "c": [1, 2]}, {"b": None, "a": "x", "c": None}]
    text = "\ufeff" + "\r\n\n".join(json.dumps(line) for line in lines)
    (tmp_path / "shards" / "a.jsonl").write_text(text)
    (tmp_path / "shards" / "b.ndjson.gz").write_bytes(gzip.compress(b'{"b": 5, "a": "z", "c": [3, 4], "ok": true}'.replace(b', "ok": true', b"")))
    train = {"name": "jsonl", "path": str(tmp_path / "shards"), "missing": "fill"}
    ours = all_of(tmp_path, train)["features"]
    assert ours.tolist() == [[1, 1, 0, 0, 2, 3], [3, 0, 1, 0, 1, 2], [3, 1, 0, 0, 2, 3], [5, 0, 0, 1, 3, 4]]
    assert all_of(tmp_path, {**train, "limit": 2, "columns": ["c"]})["features"].tolist() == [[1, 2], [1, 2]]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("first_has_values", [False, True])
def test_files_without_values_of_a_column(tmp_path, kind, first_has_values):
    """Their column is one of strings, or of lists, if it is that in other files."""
    values = {True: [{"x": 1, "city": "Rome", "place": [1, 2]}, {"x": 2, "city": "Bern", "place": [3, 4]}], False: [{"x": 3, "city": None, "place": None}] * 2}
    (tmp_path / "train").mkdir()
    for file, has_values in ((tmp_path / "train" / "a", first_has_values), (tmp_path / "train" / "b", not first_has_values), (tmp_path / "eval", False)):
        rows = values[has_values]
        if kind == "csv":
            text = "x,city\n" + "".join(f"{row['x']},{row['city'] or ''}\n" for row in rows)
        else:
            text = "".join(json.dumps(row) + "\n" for row in rows)
        file.with_suffix(f".{kind}").write_text(text)
    settings = {"name": kind, "missing": "fill"}
    data = {"train": {**settings, "path": str(tmp_path / "train")}, "eval": {**settings, "path": str(tmp_path / f"eval.{kind}")}}
    loaded = load(tmp_path, data)
    places = [[1, 2], [3, 4], [2, 3], [2, 3]] if kind == "jsonl" else [[]] * 4
    expected = [[x, *city, *place] for x, city, place in zip([1, 2, 3, 3], [[0, 1], [1, 0], [0, 0], [0, 0]], places)]
    order = [0, 1, 2, 3] if first_has_values else [2, 3, 0, 1]
    assert np.concatenate([batch["features"] for batch in loaded["train", 0]]).tolist() == [expected[i] for i in order]
    assert loaded["eval", 0][0]["features"].tolist() == expected[2:]
    labels = load(tmp_path, {"train": {**data["train"], "missing": "drop", "label": "city", "columns": ["x"]}})
    assert labels["train", 0][0]["label"].tolist() == [1, 0]


BAD_LINES = {
    "not JSON": ("{'a': 1}", "line 2: not valid JSON"),
    "NaN": ('{"a": NaN}', "line 2: not valid JSON (NaN and Infinity are not"),
    "a list": ("[1]", "line 2: "),
    "an object": ('{"a": {"b": 1}}', "line 2: column 'a': expected a number, boolean, string or list of numbers, got an object"),
    "a text": ('{"a": "x"}', "line 2: column 'a': expected a number, as in previous lines, got a string"),
    "texts in a list": ('{"b": ["x"]}', "line 2: column 'b': the list has an element that is not a number"),
    "another length": ('{"b": [1, 2, 3]}', "line 2: column 'b': expected a list of length 2, as in previous lines, got 3"),
}


@pytest.mark.parametrize("line, text", BAD_LINES.values(), ids=BAD_LINES.keys())
def test_bad_lines_of_json_are_named_and_may_be_skipped(tmp_path, line, text):
    (tmp_path / "t.jsonl").write_text('{"a": 1, "b": [1, 2]}\n' + line + '\n{"a": 2, "b": [3, 4]}\n')
    train = {"name": "jsonl", "path": str(tmp_path / "t.jsonl")}
    assert "t.jsonl: " + text in refused(tmp_path, {"train": train})
    assert all_of(tmp_path, {**train, "max_bad_samples": 1})["features"].tolist() == [[1, 1, 2], [2, 3, 4]]
    assert "no column 'c'; did you mean" in refused(tmp_path, {"train": {**train, "columns": ["c"], "max_bad_samples": 1}})


def test_lines_of_json_in_another_encoding_are_named(tmp_path):
    (tmp_path / "t.jsonl").write_bytes('{"a": "x"}\n{"a": "ü"}\n'.encode("latin-1"))
    assert "t.jsonl: line 2: not UTF-8 text" in refused(tmp_path, {"train": {"name": "jsonl", "path": str(tmp_path / "t.jsonl")}})


def test_foreign_formats_are_named(tmp_path):
    rows = table()
    import bz2
    import lzma
    import pickle

    plain = b"a,b\n1,2\n"
    pa.feather.write_feather(rows, tmp_path / "x.feather")
    as_parquet(tmp_path, rows)
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a.csv", plain)
    for content, kind, text in (
        (bz2.compress(plain), "csv", "compressed with bzip2"),
        (lzma.compress(plain), "csv", "compressed with xz"),
        ((tmp_path / "x.zip").read_bytes(), "csv", "a zip archive"),
        ((tmp_path / "x.feather").read_bytes(), "csv", "a Feather or Arrow file, not CSV; use the dataset arrow"),
        ((tmp_path / "t.parquet").read_bytes(), "csv", "a Parquet file, not CSV; use the dataset parquet"),
        (pickle.dumps({"a": 1}), "csv", "a Python pickle"),
        (b'{"a": 1}\n{"a": 2}\n', "csv", "it is JSON, not CSV; use the dataset jsonl"),
        (b'[{"a": 1}]', "csv", "it is JSON, not CSV"),
        ("a,b\n1,2\n".encode("utf-16"), "csv", "text in UTF-16"),
        (bz2.compress(b'{"a": 1}'), "jsonl", "compressed with bzip2, not JSON Lines"),
        (b'[\n{"a": 1}\n]', "jsonl", "lines=True"),
    ):
        (tmp_path / "x").write_bytes(content)
        message = refused(tmp_path, {"train": {"name": kind, "path": str(tmp_path / "x")}})
        assert "x: " in message and text in message, message


def test_truncated_and_corrupt_zstd(tmp_path):
    train = as_compressed_csv(tmp_path, table())
    file = Path(train["path"])
    good = file.read_bytes()
    file.write_bytes(good[: len(good) // 2])
    assert "t.csv.zst: truncated zstd file" in refused(tmp_path, {"train": train})
    file.write_bytes(good[:6] + b"\xff\xff\xff" + good[9:])
    assert "t.csv.zst: corrupt zstd file" in refused(tmp_path, {"train": train})


def test_zstd_with_a_long_window(tmp_path):
    """As zstd --long=31 writes from a pipe: the frame requires a window of 2 GiB, of which little is used."""
    content = b"a,b\n" + b"1,2\n" * 20
    frame = b"\x28\xb5\x2f\xfd\x00\xa8" + (len(content) << 3 | 1).to_bytes(3, "little") + content
    (tmp_path / "t.csv.zst").write_bytes(frame)
    ours = all_of(tmp_path, {"name": "csv", "path": str(tmp_path / "t.csv.zst")})["features"]
    assert ours.tolist() == [[1, 2]] * 20


def test_error_about_a_missing_path_names_its_base_directory(tmp_path):
    message = refused(tmp_path, {"train": {"name": "csv", "path": "no/such.csv"}})
    assert f"no/such.csv: no such file (data paths are relative to the working directory, {Path.cwd()})" in message
    assert start(tmp_path, {"train": {"name": "csv", "path": "/no/such.csv"}}).stderr.decode().count("working directory") == 0
