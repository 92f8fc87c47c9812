"""MDS shards, written by the format of MosaicML Streaming, have the values of their samples; bad ones are named in one line."""

import io
import json
import random
import struct
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))
from datasets_against_python import load, refused, start  # noqa: E402

SCALARS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
ARRAY_TYPES = {"uint8": 8, "int8": 9, "uint16": 16, "int16": 17, "float16": 18, "uint32": 32, "int32": 33, "float32": 34,
               "uint64": 64, "int64": 65, "float64": 66}  # fmt: skip


def encoded(encoding, value):
    kind, _, rest = encoding.partition(":")
    if kind == "int":
        return np.int64(value).tobytes()
    if kind in SCALARS:
        return np.dtype(kind).type(value).tobytes()
    if kind.startswith("str_") or kind == "str":
        return str(value).encode()
    if kind == "json":
        return json.dumps(value).encode()
    if kind != "ndarray":
        return value
    head = b"" if rest else bytes([ARRAY_TYPES[value.dtype.name]])
    if ":" not in rest:
        head += bytes([value.ndim << 2 | 1]) + np.array(value.shape, np.uint16).tobytes()
    return head + value.tobytes()


def size_of(encoding):
    kind, _, rest = encoding.partition(":")
    if kind == "int" or kind in SCALARS:
        return 8 if kind == "int" else np.dtype(kind).itemsize
    dtype, _, shape = rest.partition(":")
    return int(np.prod([int(x) for x in shape.split(",")])) * np.dtype(dtype).itemsize if kind == "ndarray" and shape else None


def write(folder, columns, samples, shards=1, compression=None, keep_raw=True):
    """What MDSWriter writes. `columns`: {name: encoding}."""
    folder.mkdir(parents=True, exist_ok=True)
    names = sorted(columns)
    sizes = [size_of(columns[name]) for name in names]
    config = {"version": 2, "format": "mds", "compression": compression, "hashes": [], "size_limit": 1 << 26, "column_names": names,
              "column_encodings": [columns[name] for name in names], "column_sizes": sizes}  # fmt: skip
    text, index = json.dumps(config, sort_keys=True).encode(), []
    for number, part in enumerate(np.array_split(np.arange(len(samples)), shards)):
        stored = []
        for row in part:
            values = [encoded(columns[name], samples[row][name]) for name in names]
            head = b"".join(struct.pack("<I", len(value)) for value, size in zip(values, sizes) if size is None)
            stored.append(head + b"".join(values))
        ends = np.cumsum([0, *map(len, stored)]) + 4 * (len(stored) + 2) + len(text)
        raw = struct.pack("<I", len(stored)) + ends.astype(np.uint32).tobytes() + text + b"".join(stored)
        name = f"shard.{number:05}.mds"
        entry = {**config, "samples": len(stored), "raw_data": {"basename": name, "bytes": len(raw), "hashes": {}}, "zip_data": None}
        if compression:
            packed = pa.Codec("zstd").compress(raw).to_pybytes()
            (folder / f"{name}.zstd").write_bytes(packed)
            entry["zip_data"] = {"basename": f"{name}.zstd", "bytes": len(packed), "hashes": {}}
        if not compression or keep_raw:
            (folder / name).write_bytes(raw)
        index.append(entry)
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": index}, sort_keys=True))
    return {"name": "mds", "path": str(folder)}


def all_of(directory, train, **more):
    batches = load(directory, {"train": train}, **more)["train", 0]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


STORED = pytest.mark.parametrize("stored", [{}, {"compression": "zstd:7", "keep_raw": False}, {"compression": "zstd"}], ids=["raw", "zstd", "both"])


@STORED
def test_values_of_every_encoding(tmp_path, stored):
    rng = np.random.default_rng(1)
    columns = {f"a_{kind}": kind for kind in (*SCALARS, "int")}
    columns |= {"b_str_float": "str_float", "b_str_int": "str_int", "c": "ndarray", "d": "ndarray:float32", "e": "ndarray:int16:2,3",
                "w": "str", "json": "json", "raw": "bytes"}  # fmt: skip
    samples = []
    for row in range(50):
        sample = {f"a_{kind}": rng.integers(0, 100) if kind != "int" else int(rng.integers(-(2**53), 2**53)) for kind in (*SCALARS, "int")}
        sample |= {f"a_{kind}": np.dtype(kind).type(rng.normal() * 1000) for kind in ("float16", "float32", "float64")}
        sample |= {"b_str_float": float(rng.normal()), "b_str_int": int(rng.integers(-99, 99)), "c": rng.normal(size=(2, 2)).astype("float16"),
                   "d": rng.normal(size=3).astype("float32"), "e": rng.integers(-999, 999, (2, 3)).astype("int16"),
                   "w": ["red", "grün", ""][row % 3], "json": {"row": row}, "raw": b"x" * row}  # fmt: skip
        samples.append(sample)
    train = write(tmp_path / "mds", columns, samples, 3, **stored)
    used = [name for name in sorted(columns) if name not in ("json", "raw")]
    ours = all_of(tmp_path, {**train, "columns": used}, batch=7)["features"]
    numbers = [np.concatenate([np.ravel(np.float64(sample[name])) for name in used[:-1]]) for sample in samples]
    assert np.array_equal(ours[:, :-3], np.array(numbers).astype(np.float32))
    assert np.array_equal(ours[:, -3:], [[sample["w"] == word for word in ("", "grün", "red")] for sample in samples])
    message = refused(tmp_path, {"train": train})
    assert "column 'json' is json; supported: numbers, str and ndarray; list the columns to use" in message


@STORED
def test_filtered_rows_on_two_ranks(tmp_path, stored):
    samples = [{"x": row, "label": row % 3, "y": np.nan if row % 5 == 0 else row / 8} for row in range(60)]
    train = write(tmp_path / "mds", {"x": "int32", "label": "int", "y": "float64"}, samples, 4, **stored)
    train |= {"label": "label", "missing": "drop", "filter": ["x >= 12"]}
    parts, seen = load(tmp_path, {"train": train}, world=2, batch=8, workers=2), []
    for rank in range(2):
        for batch in parts["train", rank]:
            rows = batch["features"][:, 0].astype(int)
            seen += rows.tolist()
            assert np.array_equal(batch["features"][:, 1], (rows / 8).astype(np.float32)) and np.array_equal(batch["label"], rows % 3)
    assert sorted(set(seen)) == [row for row in range(12, 60) if row % 5]


GOLDEN = Path(__file__).parents[1] / "golden" / "mds"  # as MDSWriter wrote it, see make_mds.py


@pytest.mark.parametrize("path", ["raw", "zstd", "raw/1", "zstd/1"])
def test_shards_that_the_package_wrote(tmp_path, path):
    """The whole directories have an index of merge_index(), with the shards of folders."""
    first = 6 if "/" in path else 0
    train = {"name": "mds", "path": str(GOLDEN / path), "columns": ["f16", "free", "shaped", "typed", "u8", "value", "word"], "label": "class"}
    ours = all_of(tmp_path, train, batch=5)
    rows = np.arange(first, 12)
    numbers = [[row / 8, *range(row, row + 4), *range(-row, 6 - row), row, row / 4, -row, row + 200, row / 16] for row in rows]
    assert np.array_equal(ours["features"][:, :-3], np.array(numbers).astype(np.float32))
    words = [["red", "grün", ""][row % 3] for row in rows]
    assert np.array_equal(ours["features"][:, -3:], [[word == one for one in ("", "grün", "red")] for word in words])
    assert np.array_equal(ours["label"], rows % 3)
    if path.startswith("raw"):
        images = all_of(tmp_path, {"name": "mds_images", "path": str(GOLDEN / path), "label": "class", "transforms": [{"name": "resize", "size": [3, 4]}]})
        assert np.array_equal(images["image"], np.broadcast_to((rows * 20 / np.float32(255)).astype(np.float32)[:, None, None, None], (len(rows), 3, 3, 4)))
        assert np.array_equal(images["label"], rows % 3)


def image_of(row, kind="PNG"):
    stream = io.BytesIO()
    pixels = np.random.default_rng(row).integers(0, 256, (8, 10 + row % 2, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


@pytest.mark.parametrize("encoding", ["png", "jpeg", "bytes"])
def test_images(tmp_path, encoding):
    samples = [{"img": image_of(row, "JPEG" if encoding == "jpeg" else "PNG"), "kind": row % 4} for row in range(20)]
    train = {**write(tmp_path / "mds", {"img": encoding, "kind": "int"}, samples, 3), "name": "mds_images", "image": "img", "label": "kind",
             "transforms": [{"name": "center_crop", "size": [8, 8]}]}  # fmt: skip
    for part in load(tmp_path, {"train": train}, world=2, batch=4, workers=2).values():
        for batch in part:
            assert np.array_equal(batch["label"], batch["indices"] % 4)
            for image, row in zip(batch["image"], batch["indices"]):
                whole = Image.open(io.BytesIO(samples[row]["img"])).convert("RGB")
                left = round((whole.width - 8) / 2)
                theirs = np.asarray(whole.crop((left, 0, left + 8, 8))).transpose(2, 0, 1) / np.float32(255)
                assert np.array_equal(image, theirs)
    changed(tmp_path / "mds", samples=0)
    assert "shard.00002.mds: it has 6 samples, but 0 in index.json" in refused(tmp_path, {"train": train})
    index = json.loads((tmp_path / "mds" / "index.json").read_text())
    (tmp_path / "mds" / "index.json").write_text(json.dumps({**index, "shards": index["shards"][:1] + [{**index["shards"][0], "samples": 99}]}))
    assert "index.json: it names shard.00000.mds twice" in refused(tmp_path, {"train": train})
    packed = write(tmp_path / "packed", {"img": encoding, "kind": "int"}, samples, 1, "zstd", keep_raw=False)
    message = refused(tmp_path, {"train": {**train, **packed, "name": "mds_images"}})
    assert "shard.00000.mds.zstd: it is compressed, so single images cannot be read" in message


def changed(folder, **more):
    index = json.loads((folder / "index.json").read_text())
    index["shards"][-1] |= more
    (folder / "index.json").write_text(json.dumps(index))


def test_bad_folders_are_named(tmp_path):
    columns, samples = {"x": "int", "text": "str"}, [{"x": row, "text": "ab"} for row in range(9)]
    cases = {
        "index.json: only version 2 is supported": {"version": 1},
        "index.json: format 'json' is not supported, only mds": {"format": "json"},
        "index.json: the columns of shard 2 differ from those of shard 1": {"column_names": ["text", "y"]},
        "index.json: compression 'snappy' is not supported, only zstd": {"compression": "snappy", "zip_data": {"basename": "a", "bytes": 1}},
        "index.json: '../x' does not lead to a file in this directory": {"raw_data": {"basename": "../x", "bytes": 1}},
        "index.json: 'a//x' does not lead to a file in this directory": {"raw_data": {"basename": "a//x", "bytes": 1}},
        "index.json: it names shard.9.mds, which is missing": {"raw_data": {"basename": "shard.9.mds", "bytes": 1}},
        "index.json: it names shard.00000.mds twice": {"raw_data": {"basename": "shard.00000.mds", "bytes": 1}},
        "index.json: key 'samples' is missing": None,
        "shard.00001.mds: it has 4 samples, but 3 in index.json": {"samples": 3},
    }
    for number, (text, change) in enumerate(cases.items()):
        folder = tmp_path / str(number)
        train = write(folder, columns, samples, 2)
        if change is None:
            (folder / "index.json").write_text((folder / "index.json").read_text().replace('"samples"', '"rows"'))
        else:
            changed(folder, **change)
        message = refused(tmp_path, {"train": train})
        assert text in message, message
    good = write(tmp_path / "good" / "train", columns, samples, 2)
    message = refused(tmp_path, {"train": {**good, "path": str(tmp_path / "good")}})
    assert "good: no index.json in this directory; set path to one of its folders with one: train" in message
    assert "no column 'tex'; did you mean 'text'" in refused(tmp_path, {"train": {**good, "columns": ["tex"]}})
    shard = tmp_path / "good" / "train" / "shard.00001.mds"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1])
    assert f"shard.00001.mds: it has {len(whole) - 1} bytes, but {len(whole)} in index.json: it is truncated" in refused(tmp_path, {"train": good})
    shard.write_bytes(whole[:12] + b"\xff\xff\xff\xff" + whole[16:])
    assert "shard.00001.mds: sample 2: it is outside of the file" in refused(tmp_path, {"train": good})
    (tmp_path / "good" / "train" / "index.json").write_text("[]")
    assert "index.json: it is not a JSON object" in refused(tmp_path, {"train": good})
    arrays = write(tmp_path / "arrays", {"x": "ndarray"}, [{"x": np.arange(size)} for size in (2, 2, 3)])
    assert "shard.00000.mds: sample 3: column 'x' has 3 numbers, but 2 in other samples" in refused(tmp_path, {"train": arrays})
    shard = tmp_path / "arrays" / "shard.00000.mds"
    shard.write_bytes(shard.read_bytes().replace(b"\5\2", b"\5\3", 1))
    assert "shard.00000.mds: sample 1: column 'x' is not an array" in refused(tmp_path, {"train": arrays})
    long = write(tmp_path / "long", {"x": "ndarray:uint8"}, [{"x": np.zeros((1025, 1024), np.uint8)}])
    assert "sample 1: column 'x' has lists of length 1049600, but the limit is 1048576" in refused(tmp_path, {"train": long})


def test_index_of_another_version(tmp_path):
    """A sample must be as long as its columns, or values would be read from wrong places."""
    train = write(tmp_path / "mds", {"x": "int64", "y": "int32"}, [{"x": row, "y": row} for row in range(5)])
    changed(tmp_path / "mds", column_encodings=["int32", "int32"], column_sizes=[4, 4])
    assert "shard.00000.mds: sample 1: it has 12 bytes, but its columns have 8: index.json is of another version" in refused(tmp_path, {"train": train})
    changed(tmp_path / "mds", column_encodings=["int64", "int64"], column_sizes=[8, 8])
    assert "shard.00000.mds: sample 1: it has 12 bytes, but its columns have 16" in refused(tmp_path, {"train": train})


def test_corrupt_bytes_never_crash(tmp_path):
    rng = random.Random(4)
    columns = {"x": "int", "text": "str", "e": "ndarray"}
    train = write(tmp_path / "mds", columns, [{"x": row, "text": "ab" * (row % 3), "e": np.arange(3.0)} for row in range(30)])
    file = tmp_path / "mds" / "shard.00000.mds"
    good = file.read_bytes()
    for _ in range(3):  # the fuzz target tries many
        content = bytearray(good)
        for _ in range(rng.randint(1, 5)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        file.write_bytes(content)
        ended = start(tmp_path, {"train": {**train, "missing": "fill"}})
        assert ended.returncode in (0, 78), ended.stderr
