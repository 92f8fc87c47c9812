"""Arrow files and streams have the values that pyarrow reads, row by row, and bad ones are named in one line."""

import io
import json
import random
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))
from datasets_against_python import load, numbers_of_every_type, refused, start, table_of  # noqa: E402

ROWS = 60


def write(file, table, rows=25, codec=None, **options):
    """As a stream, as Hugging Face's datasets write it, if the name ends with .arrow; else as a file with a footer."""
    new = pa.ipc.new_stream if file.suffix == ".arrow" else pa.ipc.new_file
    with new(str(file), table.schema, options=pa.ipc.IpcWriteOptions(compression=codec, **options)) as writer:
        writer.write_table(table, max_chunksize=rows)
    return {"name": "arrow", "path": str(file)}


def all_of(directory, train, **more):
    batches = load(directory, {"train": train}, **more)["train", 0]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def save_to_disk(folder, tables):
    """The files of Dataset.save_to_disk() of datasets 4."""
    folder.mkdir(parents=True)
    names = [f"data-{number:05}-of-{len(tables):05}.arrow" for number in range(len(tables))]
    for name, table in zip(names, tables):
        write(folder / name, table)
    state = {"_data_files": [{"filename": name} for name in names], "_fingerprint": "1f", "_format_columns": None, "_format_kwargs": {},
             "_format_type": None, "_output_all_columns": False, "_split": "train"}  # fmt: skip
    (folder / "state.json").write_text(json.dumps(state, indent=2, sort_keys=True))
    (folder / "dataset_info.json").write_text("{}")
    return {"name": "arrow", "path": str(folder)}


ENCODINGS = [("t.arrow", None), ("t.feather", None), ("t.arrow", "zstd"), ("t.ipc", "lz4")]
FORMATS = pytest.mark.parametrize("name, codec", ENCODINGS)


@FORMATS
def test_numbers_of_every_type(tmp_path, name, codec):
    table = numbers_of_every_type(7000)
    ours = all_of(tmp_path, {**write(tmp_path / name, table, 900, codec), "missing": "fill"}, batch=64)["features"]
    for column, field in enumerate(table.column_names):
        values = np.array([np.nan if v is None else v / 1e6 for v in table[field].cast(pa.int64()).to_pylist()]
                          if field == "time" else table[field].to_numpy(zero_copy_only=False), float)  # fmt: skip
        missing = ~np.isfinite(values)
        assert np.array_equal(ours[~missing, column], values[~missing].astype(np.float32)), field
        assert len(np.unique(ours[missing, column])) <= 1, f"{field}: missing values must all become one number"


@pytest.mark.parametrize("kind, encoding", zip(["string", "large string", "view", "dictionary", "dictionary"], [*ENCODINGS, ENCODINGS[0]]))
def test_strings_of_every_type(tmp_path, kind, encoding):
    name, codec = encoding
    words = pa.array([[None, "red", "green", "ein längeres Wort"][i * 7 % 4] for i in range(ROWS)])
    types = {"string": pa.string(), "large string": pa.large_string(), "view": pa.string_view()}
    column = words.dictionary_encode() if kind == "dictionary" else words.cast(types[kind])
    train = {**write(tmp_path / name, pa.table({"x": np.arange(ROWS), "w": column}), 25, codec), "missing": "fill"}
    ours = all_of(tmp_path, train, batch=7)["features"]
    order = ["ein längeres Wort", "green", "red"]
    assert np.array_equal(ours[:, 0], np.arange(ROWS))
    assert np.array_equal(ours[:, 1:], [[word == one for one in order] for word in words.to_pylist()])
    codes = all_of(tmp_path, {**train, "one_hot": False})["categories"][:, 0]
    assert codes.tolist() == [order.index(word) + 1 if word else 0 for word in words.to_pylist()]


@pytest.mark.parametrize("kind, encoding", zip(["fixed", "list", "large list", "list"], ENCODINGS))
def test_lists_are_expanded_to_features(tmp_path, kind, encoding):
    name, codec = encoding
    values = np.random.default_rng(5).normal(size=(ROWS, 5))
    rows = values.tolist()
    for row in range(30):  # the first record batch has no list
        rows[row] = None
    values[:30] = values[41, 2] = np.nan
    rows[41][2] = None
    types = {"fixed": pa.list_(pa.float32(), 5), "list": pa.list_(pa.float64()), "large list": pa.large_list(pa.float32())}
    table = pa.table({"e": pa.array(rows, types[kind]), "x": np.arange(ROWS)})
    train = write(tmp_path / name, table, 25, codec)
    assert "row 1: column 'e[0]' has no value" in refused(tmp_path, {"train": train})
    ours = all_of(tmp_path, {**train, "missing": "fill"}, batch=4)["features"]
    known = ~np.isnan(values)
    assert np.array_equal(ours[:, :5][known], values.astype(np.float32)[known]) and np.array_equal(ours[:, 5], np.arange(ROWS))
    kept = known.all(1)
    ours = all_of(tmp_path, {**train, "missing": "drop"}, batch=4)["features"]
    assert np.array_equal(ours, np.concatenate([values, np.arange(ROWS)[:, None]], 1)[kept].astype(np.float32))


def test_dictionaries_that_grow_in_a_file_and_change_in_a_stream(tmp_path):
    parts = [pa.table({"w": pa.array(words).dictionary_encode()}) for words in (["a", "b"], ["a", "b", "c"], ["c"])]
    with pa.ipc.new_file(str(tmp_path / "t.feather"), parts[0].schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as file:
        for part in parts[:2]:
            file.write_table(part)
    ours = all_of(tmp_path, {"name": "arrow", "path": str(tmp_path / "t.feather")})["features"]
    assert np.array_equal(ours, np.eye(3)[[0, 1, 0, 1, 2]])
    with pa.ipc.new_stream(str(tmp_path / "t.arrow"), parts[0].schema) as stream:
        for part in parts:
            stream.write_table(part)
    message = refused(tmp_path, {"train": {"name": "arrow", "path": str(tmp_path / "t.arrow")}})
    assert "t.arrow: not a usable Arrow file: its dictionaries change between record batches; write it in the file format" in message


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("codec", [None, "zstd"])
def test_rows_on_two_ranks(tmp_path, codec, workers):
    """Every value is that of its row, and each row is read once, from files and streams in partitions."""
    table = table_of(500).append_column("row", pa.array(np.arange(500)))
    (tmp_path / "year=1").mkdir()
    write(tmp_path / "year=1" / "a.arrow", table[:140], 30, codec)
    write(tmp_path / "year=1" / "b.feather", table[140:141], 30, codec)
    write(tmp_path / "year=1" / "c.ipc", table[141:], 300, codec)
    train = {"name": "arrow", "path": str(tmp_path), "columns": ["a", "row", "c", "year"], "label": "label", "missing": "drop",
             "filter": ["month >= 1"]}  # fmt: skip
    parts = load(tmp_path, {"train": train}, world=2, batch=8, workers=workers)
    words, seen = table["c"].to_pylist(), []
    for rank in range(2):
        for batch in parts["train", rank]:
            rows = batch["features"][:, 1].astype(int)
            seen += rows.tolist()
            assert np.array_equal(batch["features"][:, 0], table["a"].to_numpy()[rows].astype(np.float32))
            assert np.array_equal(batch["features"][:, 2:5], [[words[row] == one for one in ("x", "y", "zebra")] for row in rows])
            assert (batch["features"][:, 5] == 1).all()
            assert np.array_equal(batch["label"], table["label"].to_numpy()[rows])
    expected = [row for row in range(100, 500) if words[row] is not None]
    assert sorted(set(seen)) == expected and len(seen) <= len(expected) + 1


def test_folders_of_save_to_disk(tmp_path):
    table = pa.table({"x": np.arange(12.0), "label": np.arange(12) % 3})
    train = {**save_to_disk(tmp_path / "saved" / "train", [table[:5], table[5:6], table[6:]]), "label": "label"}
    folder = tmp_path / "saved" / "train"
    write(folder / "cache-1234.arrow", table)
    ours = all_of(tmp_path, train)
    assert ours["features"].ravel().tolist() == list(range(12)) and ours["label"].tolist() == [0, 1, 2] * 4
    state = json.loads((folder / "state.json").read_text())
    state["_data_files"].reverse()
    (folder / "state.json").write_text(json.dumps(state))
    assert all_of(tmp_path, train)["features"].ravel().tolist() == [*range(6, 12), 5, *range(5)]

    (tmp_path / "saved" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    message = refused(tmp_path, {"train": {"name": "arrow", "path": str(tmp_path / "saved")}})
    assert f"saved: it is a DatasetDict with the splits train, test: set path to one of them, such as {folder}" in message

    changes = {
        "it names data-9.arrow, which is missing": {"_data_files": [{"filename": "data-9.arrow"}]},
        "file 1 in _data_files has no plain file name": {"_data_files": [{"filename": "../data.arrow"}]},
        "it has no list _data_files": {"_data_files": []},
        "its rows are selected by indices: call flatten_indices()": {"_indices_data_files": [{"filename": "indices.arrow"}]},
    }
    for text, change in changes.items():
        (folder / "state.json").write_text(json.dumps({**state, **change}))
        message = refused(tmp_path, {"train": train})
        assert "state.json: " + text in message, message
    (folder / "state.json").write_text("[")
    assert "state.json: it is not a JSON object" in refused(tmp_path, {"train": train})
    (folder / "state.json").unlink()
    assert "train: it has no state.json: a cache of Hugging Face's datasets" in refused(tmp_path, {"train": train})


def image_of(row):
    stream = io.BytesIO()
    Image.fromarray(np.random.default_rng(row).integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def images_of(kind, rows):
    if kind == "struct":
        return pa.array([{"bytes": image_of(row), "path": f"{row}.png"} for row in rows])
    return pa.array([image_of(row) for row in rows], pa.large_binary() if kind == "large" else pa.binary())


@pytest.mark.parametrize("kind", ["struct", "binary", "large"])
def test_images(tmp_path, kind):
    rows = np.arange(20)
    table = pa.table({"image": images_of(kind, rows), "text": ["a"] * 20, "label": rows % 3})
    train = save_to_disk(tmp_path / "images", [table[:11], table[11:]]) | {"name": "arrow_images", "transforms": [{"name": "resize", "size": [8, 8]}]}
    for part in load(tmp_path, {"train": train}, world=2, batch=4, workers=2).values():
        for batch in part:
            assert np.array_equal(batch["label"], batch["indices"] % 3)
            for image, row in zip(batch["image"], batch["indices"]):
                pixels = np.asarray(Image.open(io.BytesIO(image_of(row)))).transpose(2, 0, 1)
                assert np.array_equal(image, pixels / np.float32(255))
    limited = all_of(tmp_path, {**train, "limit": 13})
    assert limited["label"].tolist() == (np.arange(13) % 3).tolist()


def test_bad_images_are_named(tmp_path):
    rows = np.arange(6)
    good = {"image": images_of("struct", rows), "label": rows % 3}
    paths = pa.array([{"bytes": None, "path": "a.png"}] * 6, pa.struct({"bytes": pa.binary(), "path": pa.string()}))
    for columns, more, text in (
        ({"image": paths}, {}, "t.arrow: row 1: column 'image' has no bytes: store the content of the files, not their paths"),
        ({"image": rows}, {}, "t.arrow: row 1: column 'image' is int64, not binary, nor a structure with binary 'bytes'"),
        ({"label": pa.array([0, 1, None, 1, 1, 1])}, {}, "t.arrow: row 3: column 'label' has no value"),
        ({"label": rows / 2}, {}, "t.arrow: row 2: column 'label' is 0.5, not a class"),
        ({"label": ["cat"] * 6}, {}, "t.arrow: row 1: column 'label': 'cat' is not the number of a class; for names, set classes"),
        ({"label": ["cat"] * 6}, {"classes": ["cow", "cap"]}, "'cat' is not one of classes; did you mean"),
        ({}, {"classes": ["a", "b"]}, "t.arrow: row 3: column 'label': class 2 is not below 2, the number of classes"),
        ({}, {"image": "imge"}, "no column 'imge'; did you mean 'image'"),
        ({}, {"limit": 7}, "limit 7 is larger than the number of rows, 6"),
        ({"image": [b"x"] * 6}, {}, "sample 0 ("),
    ):
        train = write(tmp_path / "t.arrow", pa.table({**good, **columns})) | {"name": "arrow_images", "transforms": [{"name": "resize", "size": [8, 8]}], **more}
        message = refused(tmp_path, {"train": train})
        assert text in message, message
    train = write(tmp_path / "t.arrow", pa.table(good), codec="zstd") | {"name": "arrow_images", "transforms": [{"name": "resize", "size": [8, 8]}]}
    assert "t.arrow: it is compressed, so single images cannot be read" in refused(tmp_path, {"train": train})


def test_bad_columns_and_files(tmp_path):
    table = pa.table({"month": np.arange(ROWS), "image": [{"bytes": b"x", "path": "p"}] * ROWS, "texts": [["a", "b"]] * ROWS})
    train = write(tmp_path / "t.arrow", table)
    for more, text in (
        ({"columns": ["mnth"]}, "no column 'mnth'; did you mean 'month'"),
        ({"columns": ["image"]}, "t.arrow: column 'image' is struct<bytes: binary, path: string>; supported: numbers"),
        ({}, "t.arrow: column 'image' is struct<"),
        ({"columns": ["texts"]}, "column 'texts' is list<item: string>; supported:"),
        ({"columns": ["month"], "filter": ["month > 99"]}, "dataset arrow: " + str(tmp_path / "t.arrow") + ": no rows remain"),
        ({"path": str(tmp_path / "no.arrow")}, "no.arrow: no such file"),
    ):
        message = refused(tmp_path, {"train": {**train, **more}})
        assert text in message, message
    lists = write(tmp_path / "l.feather", pa.table({"e": [[1.0, 2.0]] * 30 + [[3.0]]}))
    assert "l.feather: row 31: column 'e' has a list of length 1, but length 2" in refused(tmp_path, {"train": lists})
    write(tmp_path / "two.arrow", pa.table([[1], [2]], names=["a", "a"]))
    assert "two columns are called 'a'" in refused(tmp_path, {"train": {**train, "path": str(tmp_path / "two.arrow"), "columns": ["a"]}})

    (tmp_path / "mixed").mkdir()
    assert "no *.arrow, *.feather, *.ipc files in this directory" in refused(tmp_path, {"train": {**train, "path": str(tmp_path / "mixed")}})
    write(tmp_path / "mixed" / "1.arrow", pa.table({"a": [1.0, 2.0]}))
    for other, text in ((pa.table({"b": [1.0]}), "2.feather: no column 'a'"), (pa.table({"a": ["x"]}), "2.feather: column 'a' has strings, but numbers")):
        write(tmp_path / "mixed" / "2.feather", other)
        assert text in refused(tmp_path, {"train": {"name": "arrow", "path": str(tmp_path / "mixed")}})


def test_record_batches_that_claim_too_many_rows(tmp_path):
    """Columns of nulls have no buffers, so that a small file can have billions of rows."""
    table = pa.table({"x": pa.nulls(10**9)}).replace_schema_metadata({"a": "b" * 10**6})
    message = refused(tmp_path, {"train": {**write(tmp_path / "t.arrow", table, 10**9), "missing": "fill"}})
    assert "t.arrow: 1000000000 rows of 1 columns exceed the memory limit of a record batch" in message
    lists = pa.FixedSizeListArray.from_arrays(np.zeros(2**20 + 1, np.uint8), 2**20 + 1)
    message = refused(tmp_path, {"train": write(tmp_path / "t.arrow", pa.table({"x": lists}))})
    assert "t.arrow: column 'x' has lists of length 1048577, but the limit is 1048576" in message


def test_truncated_and_foreign_files_are_named(tmp_path):
    table = table_of(300)
    rng = random.Random(3)
    for name, codec in (("t.arrow", None), ("t.feather", "zstd")):
        train = {**write(tmp_path / name, table, 100, codec), "missing": "fill"}
        whole = (tmp_path / name).read_bytes()
        for cut in (7, len(whole) - 8, rng.randrange(len(whole))):
            (tmp_path / name).write_bytes(whole[:cut])
            assert f"{name}: not a usable Arrow file: " in refused(tmp_path, {"train": train})
    (tmp_path / "t.arrow").write_bytes(b"")
    assert "t.arrow: not a usable Arrow file: it is empty" in refused(tmp_path, {"train": {**train, "path": str(tmp_path / "t.arrow")}})
    pq.write_table(table, tmp_path / "t.arrow")
    assert "it is a Parquet file; use the dataset parquet" in refused(tmp_path, {"train": {**train, "path": str(tmp_path / "t.arrow")}})
    pa.feather.write_feather(table.select(["a"]), tmp_path / "t.arrow", version=1)
    assert "it is a Feather file of version 1" in refused(tmp_path, {"train": {**train, "path": str(tmp_path / "t.arrow")}})
    (tmp_path / "t.csv").write_bytes(whole)
    message = refused(tmp_path, {"train": {"name": "csv", "path": str(tmp_path / "t.csv")}})
    assert "a Feather or Arrow file, not CSV; use the dataset arrow" in message


@pytest.mark.parametrize("codec", ["uncompressed", "zstd"])
def test_files_of_polars(tmp_path, codec):
    """The schema is only in their footer, and dictionaries follow the record batches."""
    part = pl.DataFrame({"n": [1.5, -2.0, 3.0], "s": ["x", "y", "x"], "c": pl.Series(["a", "a", "b"], dtype=pl.Categorical)})
    pl.concat([part] * 3).write_ipc(tmp_path / "t.arrow", compression=codec, record_batch_size=3)
    ours = all_of(tmp_path, {"name": "arrow", "path": str(tmp_path / "t.arrow")})["features"]
    assert np.array_equal(ours, [[1.5, 1, 0, 1, 0], [-2, 0, 1, 1, 0], [3, 1, 0, 0, 1]] * 3)


@FORMATS
def test_corrupt_bytes_never_crash(tmp_path, name, codec):
    rng = random.Random(name)
    train = {**write(tmp_path / name, table_of(300), 100, codec), "missing": "fill"}
    good = (tmp_path / name).read_bytes()
    for _ in range(3):  # the fuzz target tries many
        content = bytearray(good)
        for _ in range(rng.randint(1, 5)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        (tmp_path / name).write_bytes(content)
        ended = start(tmp_path, {"train": train})
        assert ended.returncode in (0, 78), ended.stderr


def test_the_index_that_pandas_writes_is_not_a_feature(tmp_path):
    table = pa.table({"x": np.arange(9), "id": np.arange(9)})
    train = write(tmp_path / "t.feather", table.replace_schema_metadata({"pandas": json.dumps({"index_columns": ["id"]})}))
    assert all_of(tmp_path, train)["features"].shape == (9, 1)
    assert all_of(tmp_path, {**train, "columns": ["x", "id"]})["features"].shape == (9, 2)
