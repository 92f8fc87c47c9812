"""Every dataset returns the values of the same pipeline in Python, sample by sample, on 1, 2 and 3 ranks."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.numpy import save_file
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split

sys.path.insert(0, str(Path(__file__).parents[1] / "printer"))
import printer  # noqa: E402

PROGRAM = [printer.PROGRAM, "split"]
TYPES = {"Float": np.float32, "Double": np.float64, "Long": np.int64, "Int": np.int32, "Short": np.int16}
TYPES |= {"Byte": np.uint8, "Char": np.int8, "Bool": np.bool_, "Half": np.float16}
ON_RANKS = pytest.mark.parametrize("world", [1, 2, 3])
N = 101


def start(directory, data, world=1, batch=16, workers=1):
    file = directory / "data.yaml"
    file.write_text(json.dumps(data))
    return printer.run("split", file, world, batch, workers, timeout=120, text=False)


def load(directory, data, world=1, batch=16, workers=1):
    """{(part, rank): [batch as {name: array}]}"""
    ended = start(directory, data, world, batch, workers)
    assert ended.returncode == 0, ended.stderr.decode()
    return batches_in(ended.stdout)


def batches_in(out):
    parts = {}
    while out:
        line, _, out = out.partition(b"\n")
        header, fields = json.loads(line), {}
        for tensor in header["tensors"]:
            raw, out = out[: tensor["bytes"]], out[tensor["bytes"] :]
            fields[tensor["name"]] = np.frombuffer(raw, TYPES[tensor["dtype"]]).reshape(tensor["shape"])
        parts.setdefault((header["part"], header["rank"]), []).append(fields)
    return parts


def refused(directory, data, code=78):
    ended = start(directory, data)
    assert ended.returncode == code, (ended.returncode, ended.stderr.decode())
    text = ended.stderr.decode()
    assert text.count("\n") == 1, text
    return text


def assert_equals_torch(directory, data, expected, world):
    """The batches of torch's DataLoader with DistributedSampler over the arrays `expected`."""
    ours = load(directory, data, world, workers=world - 1)
    names = list(expected)
    whole = TensorDataset(*(torch.tensor(expected[name]) for name in names))
    for rank in range(world):
        sampler = DistributedSampler(whole, world, rank, shuffle=False)
        theirs = list(DataLoader(whole, batch_size=16, sampler=sampler))
        assert len(theirs) == len(ours["train", rank])
        for their_batch, our_batch in zip(theirs, ours["train", rank]):
            assert list(our_batch) == [*names, "indices"]
            for name, tensor in zip(names, their_batch):
                assert our_batch[name].dtype == tensor.numpy().dtype
                assert np.array_equal(our_batch[name], tensor.numpy(), equal_nan=True), name


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return {
        "image": rng.integers(0, 256, (N, 2, 3), dtype=np.uint8),
        "label": rng.integers(0, 10, N, dtype=np.int64),
        "wave": rng.normal(size=(N, 4)).astype(np.float64),
        "half": rng.normal(size=N).astype(np.float16),
        "flag": rng.integers(0, 2, (N, 5)).astype(np.bool_),
        "small": rng.integers(0, 60000, N, dtype=np.uint16),
    }


FIELDS = {
    "image": {"dtype": "float32", "divide_by": 255, "mean": 0.1307, "std": 0.3081},
    "label": {},
    "small": {},
    "scaled": {"from": "half", "dtype": "float64"},
}


def expected_fields(arrays):
    image = torch.tensor(arrays["image"]).float().div(255).sub(0.1307).div(0.3081).numpy()
    return {
        "image": image,
        "label": arrays["label"],
        "small": arrays["small"].astype(np.int32),
        "scaled": arrays["half"].astype(np.float64),
    }


def write_folder(directory, arrays):
    (directory / "arrays").mkdir()
    for name, array in arrays.items():
        np.save(directory / "arrays" / f"{name}.npy", array)
    return {"name": "npy", "path": str(directory / "arrays")}


def write_npz(directory, arrays, save=np.savez):
    save(directory / "arrays.npz", **arrays)
    return {"name": "npy", "path": str(directory / "arrays.npz")}


def write_compressed(directory, arrays):
    return write_npz(directory, arrays, np.savez_compressed)


def write_safetensors(directory, arrays):
    save_file(arrays, directory / "a.safetensors")
    return {"name": "safetensors", "path": str(directory / "a.safetensors")}


@ON_RANKS
@pytest.mark.parametrize("write", [write_folder, write_npz, write_compressed, write_safetensors])
def test_unconverted_arrays(tmp_path, arrays, write, world):
    train = write(tmp_path, arrays)
    names = [*sorted(arrays)] if write is write_folder else list(arrays)
    expected = {name: arrays[name] for name in names}
    if write is write_safetensors:
        train["fields"] = {name: {} for name in names}
    expected["small"] = expected["small"].astype(np.int32)
    assert_equals_torch(tmp_path, {"train": train}, expected, world)


@pytest.mark.parametrize("write", [write_folder, write_npz])
def test_arrays_in_fortran_order_equal_those_in_row_major_order(tmp_path, arrays, write):
    arrays["cube"] = np.arange(N * 6.0).reshape(N, 2, 3)
    arrays["empty"] = np.zeros((N, 0, 2))
    train = write(tmp_path, {name: np.asfortranarray(array) for name, array in arrays.items()})
    names = [*sorted(arrays)] if write is write_folder else list(arrays)
    expected = {name: arrays[name].astype(np.int32) if name == "small" else arrays[name] for name in names}
    assert_equals_torch(tmp_path, {"train": train}, expected, 1)


@ON_RANKS
def test_converted_arrays(tmp_path, arrays, world):
    train = {**write_npz(tmp_path, arrays), "fields": FIELDS}
    assert_equals_torch(tmp_path, {"train": train}, expected_fields(arrays), world)


def cut(arrays, ends=(30, 31, 90, N)):
    return [{name: array[begin:end] for name, array in arrays.items()} for begin, end in zip((0, *ends), ends)]


@pytest.mark.parametrize("kind", ["tokens", "safetensors", "parquet"])
def test_more_files_than_the_open_file_limit(tmp_path, kind):
    (tmp_path / "shards").mkdir()
    values = np.arange(400 * 9)
    for number, part in enumerate(values.reshape(400, 9)):
        file = str(tmp_path / "shards" / f"{number:03}")
        if kind == "tokens":
            part.astype(np.uint16).tofile(file + ".bin")
        elif kind == "safetensors":
            save_file({"x": part}, file + ".safetensors")
        else:
            pq.write_table(pa.table({"x": part}), file + ".parquet")
    train = {"name": kind, "path": str(tmp_path / "shards"), **({"length": 8} if kind == "tokens" else {})}
    file = tmp_path / "data.yaml"
    file.write_text(json.dumps({"train": train}))
    command = ["prlimit", "--nofile=320", *PROGRAM, file, "1", "40", "2"]
    ended = subprocess.run(command, capture_output=True, timeout=120)
    assert ended.returncode == 0, ended.stderr.decode()
    read = np.concatenate([[*batch.values()][0].ravel() for batch in batches_in(ended.stdout)["train", 0]])
    expected = values.reshape(400, 9)[:, :8] if kind == "tokens" else values
    assert np.array_equal(read, expected.ravel())


@ON_RANKS
def test_csv_files_are_one_table(tmp_path, world):
    rows = [f"{i},{'xyz'[i % 3]},{i % 4}" for i in range(N)]
    (tmp_path / "shards").mkdir()
    for name, part in (("a.csv", rows[:40]), ("b.csv.gz", rows[40:41]), ("c.csv", rows[41:])):
        text = "\n".join(["n,word,label", *part]).encode()
        (tmp_path / "shards" / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    (tmp_path / "whole.csv").write_text("\n".join(["n,word,label", *rows]))
    config = {"name": "csv", "label": "label", "standardize": True}
    split = {"eval": 0.2, "seed": 1}
    parts = [
        load(tmp_path, {"train": {**config, "path": str(tmp_path / path)}, "split": split}, world)
        for path in ("whole.csv", "shards")
    ]
    assert parts[0].keys() == parts[1].keys()
    for whole, shards in zip(parts[0].values(), parts[1].values()):
        assert [list(batch) for batch in whole] == [list(batch) for batch in shards]
        for one, other in zip(whole, shards):
            assert all(np.array_equal(one[name], other[name]) for name in one)


@ON_RANKS
@pytest.mark.parametrize("kind", ["npy", "safetensors"])
def test_shards_are_one_dataset(tmp_path, arrays, kind, world):
    (tmp_path / "shards").mkdir()
    for number, shard in enumerate(cut({name: arrays[name] for name in ("image", "label", "wave")})):
        if kind == "npy":
            np.savez(tmp_path / "shards" / f"{number}.npz", **shard)
        else:
            save_file(shard, tmp_path / "shards" / f"{number}.safetensors")
    train = {"name": kind, "path": str(tmp_path / "shards"), "fields": {"wave": {}, "label": {}, "image": {}}}
    expected = {name: arrays[name] for name in ("wave", "label", "image")}
    assert_equals_torch(tmp_path, {"train": train}, expected, world)
    limited = load(tmp_path, {"train": {**train, "limit": 50}})["train", 0]
    assert np.array_equal(np.concatenate([batch["wave"] for batch in limited]), arrays["wave"][:50])


@pytest.mark.parametrize("fraction, seed", [(0.2, 0), (0.5, 7), (0.013, 3)])
def test_a_split_has_the_members_of_random_split(tmp_path, arrays, fraction, seed):
    train = {**write_npz(tmp_path, arrays), "fields": {"label": {}}}
    parts = load(tmp_path, {"train": train, "split": {"eval": fraction, "seed": seed}}, world=1)
    generator = torch.Generator().manual_seed(seed)
    theirs = random_split(range(N), [1 - fraction, fraction], generator)
    for part, subset in zip(("train", "eval"), theirs):
        labels = np.concatenate([batch["label"] for batch in parts[part, 0]])
        assert np.array_equal(labels, arrays["label"][sorted(subset.indices)])


def test_synthetic_is_a_function_of_seed_and_index(tmp_path):
    fields = {
        "x": {"shape": [3, 50]},
        "u": {"dtype": "float64", "values": "uniform", "low": -2, "high": 3},
        "i": {"shape": [], "dtype": "int64", "values": "index"},
        "b": {"shape": [2], "dtype": "uint8", "values": "uniform"},
        "label": {"dtype": "int64", "values": "uniform", "high": 7},
    }
    data = {"train": {"name": "synthetic", "samples": 1000, "fields": fields, "seed": 5}}

    def rows(world, workers, batch, **changes):
        changed = {"train": {**data["train"], **changes}}
        parts = load(tmp_path, changed, world, batch, workers)
        by_index = {}
        for batches in parts.values():
            for one in batches:
                for row, index in enumerate(one["indices"]):
                    by_index[index] = {name: values[row] for name, values in one.items()}
        return by_index

    first = rows(1, 0, 64)
    for other in (rows(2, 3, 10), rows(3, 1, 7)):
        assert all(np.array_equal(first[i][name], other[i][name]) for i in range(1000) for name in fields)
    changed = rows(1, 0, 64, seed=6)
    assert not np.array_equal(first[0]["x"], changed[0]["x"])
    x = np.stack([first[i]["x"] for i in range(1000)])
    assert abs(x.mean()) < 0.02 and abs(x.std() - 1) < 0.02
    u = np.array([first[i]["u"] for i in range(1000)])
    assert -2 <= u.min() < -1.9 and 2.9 < u.max() < 3
    assert [int(first[i]["i"]) for i in range(1000)] == list(range(1000))
    assert set(int(first[i]["label"]) for i in range(1000)) == set(range(7))


CSV = '''when,size,color,price,ok
1,2.5,red,10,1
2,,"light, blue",20,0
3,-1e3,red,30,1
4,4,green,,0
5,0.1,"say ""hi""",50,1
'''


@pytest.mark.parametrize("change", ["plain", "gzip", "crlf", "byte order mark", "semicolon"])
def test_csv(tmp_path, change):
    text, more = CSV, {}
    if change == "crlf":
        text = text.replace("\n", "\r\n")
    if change == "byte order mark":
        text = "\ufeff" + text
    if change == "semicolon":
        text = text.replace(",", ";").replace("light; blue", "light, blue")
        more = {"separator": ";"}
    file = tmp_path / "table.csv"
    file.write_bytes(gzip.compress(text.encode()) if change == "gzip" else text.encode())
    train = {"name": "csv", "path": str(file), "label": "ok", "missing": "fill", **more}
    (batch,) = load(tmp_path, {"train": train})["train", 0]
    size = np.array([2.5, np.nan, -1e3, 4, 0.1])
    price = np.array([10, 20, 30, np.nan, 50])
    colors = ["green", "light, blue", "red", 'say "hi"']
    chosen = [2, 1, 2, 0, 3]
    assert batch["features"].shape == (5, 7)
    assert np.array_equal(batch["features"][:, 0], [1, 2, 3, 4, 5])
    assert np.allclose(batch["features"][:, 1], np.where(np.isnan(size), np.nanmean(size), size))
    assert np.array_equal(batch["features"][:, 2:6], np.eye(4)[chosen]), colors
    assert np.allclose(batch["features"][:, 6], np.where(np.isnan(price), np.nanmean(price), price))
    assert np.array_equal(batch["label"], [1, 0, 1, 0, 1])
    dropped = {**train, "missing": "drop", "columns": ["color", "size"], "one_hot": False, "label": "price"}
    (batch,) = load(tmp_path, {"train": dropped})["train", 0]
    assert np.array_equal(batch["features"], np.float32([[2.5], [-1e3], [0.1]]))
    assert np.array_equal(batch["categories"], [[1], [1], [2]])
    assert np.array_equal(batch["label"], [10, 30, 50])


def table_of(rows=1000):
    rng = np.random.default_rng(1)
    return pa.table(
        {
            "a": rng.normal(3, 2, rows),
            "b": pa.array(rng.integers(-5, 5, rows), mask=rng.random(rows) < 0.1),
            "c": pa.array([["x", "y", "zebra", None][i] for i in rng.integers(0, 4, rows)]),
            "d": rng.random(rows).astype(np.float32),
            "e": rng.integers(0, 2, rows).astype(bool),
            "month": np.arange(rows) // 100,
            "label": rng.integers(0, 3, rows),
        }
    )


def features_of(table, train):
    """The features of the columns a, b and c in a pandas-like pipeline, with the statistics of the rows `train`."""
    columns = []
    for name in ("a", "b"):
        values = table[name].to_numpy(zero_copy_only=False).astype(float)
        known = values[train][~np.isnan(values[train])]
        values = np.where(np.isnan(values), known.mean(), values)
        columns.append(((values - known.mean()) / known.std())[:, None])
    words = sorted({word for word in np.array(table["c"].to_pylist(), object)[train] if word})
    columns.append(np.array([[word == one for one in words] for word in table["c"].to_pylist()], float))
    return np.concatenate(columns, 1)


def write_csv(directory, table):
    lines = [",".join(table.column_names)]
    for row in table.to_pylist():
        values = [repr(float(v)) if isinstance(v, float) else "" if v is None else str(v) for v in row.values()]
        lines.append(",".join(values).replace("True", "1").replace("False", "0"))
    (directory / "table.csv").write_text("\n".join(lines) + "\n")
    return {"name": "csv", "path": str(directory / "table.csv")}


def write_parquet(directory, table, rows=70):
    pq.write_table(table, directory / "table.parquet", row_group_size=rows)
    return {"name": "parquet", "path": str(directory / "table.parquet")}


def write_two_parquets(directory, table):
    (directory / "many").mkdir()
    pq.write_table(table[:450], directory / "many" / "a.parquet", row_group_size=64, compression="zstd")
    pq.write_table(table[450:], directory / "many" / "b.parquet", row_group_size=300, version="1.0")
    return {"name": "parquet", "path": str(directory / "many")}


def write_arrows(directory, table):
    (directory / "arrows").mkdir()
    for name, part in (("a", table[:450]), ("b", table[450:])):
        with pa.ipc.new_stream(str(directory / "arrows" / f"{name}.arrow"), part.schema) as stream:
            stream.write_table(part, max_chunksize=64)
    return {"name": "arrow", "path": str(directory / "arrows")}


TABLES = pytest.mark.parametrize("write", [write_csv, write_parquet, write_two_parquets, write_arrows])


@ON_RANKS
@TABLES
def test_tables(tmp_path, write, world):
    table = table_of()
    config = {"columns": ["a", "b", "c"], "label": "label", "missing": "fill", "standardize": True}
    split = {"eval": 0.25, "seed": 1}
    parts = load(tmp_path, {"train": {**write(tmp_path, table), **config}, "split": split}, world, workers=2)
    train, held_out = random_split(range(1000), [0.75, 0.25], torch.Generator().manual_seed(1))
    train, held_out = sorted(train.indices), sorted(held_out.indices)
    features, labels = features_of(table, train), table["label"].to_numpy()
    for rank in range(world):
        for part, members in (("train", train), ("eval", held_out)):
            local_rows = members[rank::world]
            ours = {key: np.concatenate([one[key] for one in parts[part, rank]]) for key in ("features", "label")}
            assert np.allclose(ours["features"][: len(local_rows)], features[local_rows], rtol=1e-6, atol=1e-6)
            assert np.array_equal(ours["label"][: len(local_rows)], labels[local_rows])
            assert len(local_rows) <= len(ours["label"]) <= len(local_rows) + (part == "train")


@TABLES
def test_numbers_are_bit_identical(tmp_path, write):
    table = table_of()
    config = {"columns": ["d", "a", "e"], "label": "a", "label_kind": "value"}
    config["columns"].remove("a")
    parts = load(tmp_path, {"train": {**write(tmp_path, table), **config}})
    ours = np.concatenate([batch["features"] for batch in parts["train", 0]])
    assert np.array_equal(ours[:, 0], table["d"].to_numpy())
    assert np.array_equal(ours[:, 1], table["e"].to_numpy().astype(np.float32))
    labels = np.concatenate([batch["label"] for batch in parts["train", 0]])
    assert np.array_equal(labels, table["a"].to_numpy().astype(np.float32))


WHOLE = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


def numbers_of_every_type(rows=20_000):
    """The full range of each type, also with every seventh value missing; floats with NaN and infinities."""
    rng = np.random.default_rng(2)
    columns, known = {}, np.arange(rows) % 7 != 3
    for dtype in [*WHOLE, np.float32, np.float64]:
        if dtype in WHOLE:
            limits = np.iinfo(dtype)
            values = rng.integers(limits.min, limits.max, rows, dtype=dtype, endpoint=True)
        else:
            values = rng.normal(size=rows).astype(dtype)
            values[::100] = np.inf
        name = np.dtype(dtype).name
        columns[name] = pa.array(values)
        columns[f"{name} with gaps"] = pa.array(values, mask=~known)
    columns["nan"] = pa.array(np.where(known, rng.normal(size=rows), np.nan))
    columns["time"] = pa.array(rng.integers(0, 2**40, rows), pa.timestamp("us"), mask=~known)
    columns["nothing"] = pa.array([None] * rows, pa.int32())
    return pa.table(columns)


@pytest.mark.parametrize("options", [
    {}, {"use_dictionary": False}, {"data_page_size": 3000}, {"data_page_version": "2.0", "compression": "none"},
    {"use_dictionary": False, "column_encoding": {"int32 with gaps": "DELTA_BINARY_PACKED", "float64": "BYTE_STREAM_SPLIT"}},
], ids=["default", "plain", "small pages", "second version", "other encodings"])
def test_parquet_numbers_of_every_type(tmp_path, options):
    table = numbers_of_every_type()
    required = pa.schema([field.with_nullable(table[field.name].null_count > 0) for field in table.schema])
    for number, schema in enumerate((table.schema, required)):
        pq.write_table(table.cast(schema), tmp_path / f"{number}.parquet", row_group_size=9_000, **options)
        train = {"name": "parquet", "path": str(tmp_path / f"{number}.parquet"), "missing": "fill"}
        parts = load(tmp_path, {"train": train})
        ours = np.concatenate([batch["features"] for batch in parts["train", 0]])
        for column, name in enumerate(table.column_names):
            values = np.array([np.nan if v is None else v / 1e6 for v in table[name].cast(pa.int64()).to_pylist()]
                              if name == "time" else table[name].to_numpy(zero_copy_only=False), float)
            missing = ~np.isfinite(values)
            assert np.array_equal(ours[~missing, column], values[~missing].astype(np.float32)), name
            assert len(np.unique(ours[missing, column])) <= 1, f"{name}: missing values must all become one number"


def test_csv_shards_with_different_column_orders(tmp_path):
    table = table_of(300).select(["a", "b", "c", "label"])
    (tmp_path / "shards").mkdir()
    for number, order in enumerate((["a", "b", "c", "label"], ["c", "label", "a", "b"], ["label", "b", "a", "c"])):
        write_csv(tmp_path, table.slice(100 * number, 100).select(order))
        (tmp_path / "table.csv").rename(tmp_path / "shards" / f"{number}.csv")
    train = {"name": "csv", "path": str(tmp_path / "shards"), "label": "label", "missing": "fill", "standardize": True}
    parts = load(tmp_path, {"train": train})
    ours = {key: np.concatenate([one[key] for one in parts["train", 0]]) for key in ("features", "label")}
    assert np.allclose(ours["features"], features_of(table, range(300)), rtol=1e-6, atol=1e-6)
    assert np.array_equal(ours["label"], table["label"].to_numpy())


def test_parquet_columns_after_nested_ones(tmp_path):
    table = table_of(200)
    nested = pa.array([{"x": float(i), "y": {"z": i, "w": "text"}} for i in range(200)])
    mixed = pa.table({"first": table["d"], "nested": nested, "a": table["a"], "c": table["c"], "month": table["month"]})
    train = write_parquet(tmp_path, mixed) | {"columns": ["month", "c", "a"], "missing": "fill"}
    parts = load(tmp_path, {"train": train})
    ours = np.concatenate([batch["features"] for batch in parts["train", 0]])
    assert np.array_equal(ours[:, 0], table["month"].to_numpy().astype(np.float32))
    words = table["c"].to_pylist()
    assert np.array_equal(ours[:, 1:-1], [[word == one for one in ("x", "y", "zebra")] for word in words])
    assert np.array_equal(ours[:, -1], table["a"].to_numpy().astype(np.float32))


def test_parquet_filters_skip_rows_and_row_groups(tmp_path):
    table = table_of()
    train = write_parquet(tmp_path, table, rows=100)
    train |= {"columns": ["a", "month"], "filter": ["month >= 7", "c == zebra", "a < 4.5"]}
    parts = load(tmp_path, {"train": train})
    ours = np.concatenate([batch["features"] for batch in parts["train", 0]])
    a, month, c = (table[name].to_numpy(zero_copy_only=False) for name in ("a", "month", "c"))
    kept = (month >= 7) & (c == "zebra") & (a < 4.5)
    assert np.array_equal(ours, np.stack([a[kept], month[kept]], 1).astype(np.float32))


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_a_separate_evaluation_set_is_encoded_like_the_training_set(tmp_path, write):
    table = table_of()
    folders = [tmp_path / "train", tmp_path / "eval"]
    for folder in folders:
        folder.mkdir()
    config = {"columns": ["a", "b", "c"], "missing": "fill", "standardize": True}
    train = {**write(folders[0], table[:600].filter(pa.compute.not_equal(table["c"][:600], "x"))), **config}
    parts = load(tmp_path, {"train": train, "eval": {**write(folders[1], table[600:]), **config}})
    ours = np.concatenate([batch["features"] for batch in parts["eval", 0]])
    kept = [i for i, word in enumerate(table["c"].to_pylist()[:600]) if word not in ("x", None)]
    assert np.allclose(ours, features_of(table, kept)[600:], rtol=1e-6, atol=1e-6)


HEADERS = {np.uint16: (20240520, 1), np.uint32: (20240801, 7)}


def write_tokens(file, tokens, header=True):
    content = tokens.tobytes()
    if header:
        start = np.zeros(256, np.int32)
        start[:3] = (*HEADERS[tokens.dtype.type], len(tokens))
        content = start.tobytes() + content
    file.write_bytes(content)


@ON_RANKS
@pytest.mark.parametrize("dtype, header", [(np.uint16, True), (np.uint32, True), (np.uint16, False), (np.uint32, False)])
def test_tokens(tmp_path, dtype, header, world):
    rng = np.random.default_rng(2)
    shards = [rng.integers(0, 50000, size).astype(dtype) for size in (1001, 333, 90)]
    (tmp_path / "shards").mkdir()
    for number, shard in enumerate(shards):
        write_tokens(tmp_path / "shards" / f"{number:06}.bin", shard, header)
    length = 32
    windows = [shard[at : at + length + 1] for shard in shards for at in range(0, len(shard) - length, length)]
    windows = np.stack(windows).astype(np.int64)
    train = {"name": "tokens", "path": str(tmp_path / "shards"), "length": length, "dtype": np.dtype(dtype).name}
    expected = {"tokens": windows[:, :-1], "targets": windows[:, 1:]}
    assert_equals_torch(tmp_path, {"train": train}, expected, world)


def test_documents_are_separated(tmp_path):
    documents = [[5, 6, 7, 8, 9], [1], [2, 3], [4, 4, 4, 4], [7]]
    stream = np.array([token for document in documents for token in [*document, 0]] + [8, 9], np.uint16)
    write_tokens(tmp_path / "a.bin", stream)
    train = {"name": "tokens", "path": str(tmp_path / "a.bin"), "length": 4, "separator": 0}
    (batch,) = load(tmp_path, {"train": train})["train", 0]
    none = -100
    assert batch["tokens"].tolist() == [
        [5, 6, 7, 8], [9, 0, 0, 0], [1, 0, 0, 0], [2, 3, 0, 0], [4, 4, 4, 4], [7, 0, 0, 0], [8, 0, 0, 0],
    ]  # fmt: skip
    assert batch["targets"].tolist() == [
        [6, 7, 8, 9], [0, none, none, none], [0, none, none, none], [3, 0, none, none], [4, 4, 4, 0],
        [0, none, none, none], [9, none, none, none],
    ]  # fmt: skip


@pytest.mark.parametrize("workers", [0, 2])
def test_documents_are_padded_to_the_longest_of_their_batch(tmp_path, workers):
    stream = np.array([5, 6, 0, 1, 0, 2, 3, 4, 5, 0, 7, 0], np.uint16)
    write_tokens(tmp_path / "a.bin", stream)
    train = {"name": "tokens", "path": str(tmp_path / "a.bin"), "length": 9, "separator": 0, "pad_to": "longest"}
    first, second = load(tmp_path, {"train": train}, batch=2, workers=workers)["train", 0]
    assert first["tokens"].tolist() == [[5, 6], [1, 0]]
    assert first["targets"].tolist() == [[6, 0], [0, -100]]
    assert second["tokens"].tolist() == [[2, 3, 4, 5], [7, 0, 0, 0]]
    assert second["indices"].tolist() == [2, 3]


# The peak memory of a child includes that before exec: here that of a bare Python, not of pytest.
MEASURE = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss * 1024, os.waitstatus_to_exitcode(status), file=sys.stderr)
"""


def peak_bytes(directory, data, workers):
    """The peak memory of printing the dataset."""
    file = directory / "data.yaml"
    file.write_text(json.dumps(data))
    command = [sys.executable, "-I", "-S", "-c", MEASURE, *PROGRAM, file, "1", "256", str(workers)]
    ended = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=120)
    peak, code = ended.stderr.split()
    assert code == "0"
    return int(peak)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_holds_one_row_group_of_a_parquet_file(tmp_path, workers, capsys):
    rows, columns = 1_000_000, 8
    rng = np.random.default_rng(3)
    table = pa.table({f"c{i}": rng.random(rows) for i in range(columns)})
    train = {"name": "parquet", "path": str(tmp_path / "table.parquet")}

    def peak(rows_per_group, used):
        pq.write_table(table[:used], tmp_path / "table.parquet", row_group_size=rows_per_group, use_dictionary=False)
        return peak_bytes(tmp_path, {"train": train}, workers)

    base = peak(1000, 1000)
    in_one, in_many = peak(rows, rows) - base, peak(rows // 40, rows) - base
    with capsys.disabled():
        print(f"\n{workers} workers, beyond the base: one group {in_one >> 20} MB, 40 groups {in_many >> 20} MB")
    indices = rows * 8 * 3  # of the samples, in the order of the epoch
    assert in_many < indices + workers * in_one / 40 * 4
    assert in_many - indices < (in_one - indices) / 3
