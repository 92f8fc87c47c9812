"""Truncated, empty, mixed, mislabeled and vanished files are reported in one line that names file and position."""

import io
import json
import os
import random
import subprocess
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from datasets_against_python import PROGRAM, load, refused, start, table_of, write_tokens
from safetensors.numpy import save_file


def npy(array, **options):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, **options)
    return stream.getvalue()


def csv_of(*lines):
    return ("\n".join(lines) + "\n").encode()


def parquet_of(table):
    stream = io.BytesIO()
    pq.write_table(table, stream, row_group_size=100)
    return stream.getvalue()


def npz_of(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def with_other_member():
    stream = io.BytesIO(npz_of(x=np.arange(3)))
    with zipfile.ZipFile(stream, "a") as archive:
        archive.writestr("readme.txt", "hello")
    return stream.getvalue()


def torch_file():
    stream = io.BytesIO()
    torch.save({"x": torch.arange(3)}, stream)
    return stream.getvalue()


GOOD_NPY, GOOD_NPZ = npy(np.arange(10)), npz_of(x=np.arange(100))
GOOD_PARQUET = parquet_of(table_of(300))
LIST_PARQUET = parquet_of(pa.table({"a": [[1, 2], [3]]}))
HEADER = np.zeros(256, np.int32)
HEADER[:3] = 20240520, 1, 100

# name: (kind, file, content, more config, what the message says)
FILES = {
    "npy truncated": ("npy", "x.npy", GOOD_NPY[:-1], {}, ["x.npy", "80 bytes, found 79"]),
    "npy too long": ("npy", "x.npy", GOOD_NPY + b"x", {}, ["x.npy", "found 81"]),
    "npy empty": ("npy", "x.npy", b"", {}, ["x.npy", "empty"]),
    "npy header only": ("npy", "x.npy", GOOD_NPY[:9], {}, ["x.npy", "truncated"]),
    "npy other": ("npy", "x.npy", b"<html>" * 30, {}, ["x.npy", "the .npy magic"]),
    "npy objects": ("npy", "x.npy", npy(np.array([{}, 1], object), allow_pickle=True), {}, ["x.npy", "|O"]),
    "npy texts": ("npy", "x.npy", npy(np.array(["a", "bc"])), {}, ["x.npy", "<U2"]),
    "npy records": ("npy", "x.npy", npy(np.zeros(3, "i4,f4")), {}, ["x.npy", "structured arrays"]),
    "npy complex": ("npy", "x.npy", npy(np.zeros(3, complex)), {}, ["x.npy", "<c16"]),
    "npy big-endian": ("npy", "x.npy", npy(np.arange(3, dtype=">i4")), {}, ["x.npy", "big-endian"]),
    "npy scalar": ("npy", "x.npy", npy(np.array(3.0)), {}, ["'x'", "is a scalar"]),
    "npy no such array": ("npy", "x.npy", GOOD_NPY, {"fields": {"y": {}}}, ["no array 'y'", "valid: x"]),
    "npy lossy": ("npy", "x.npy", npy(np.ones(3)), {"fields": {"x": {"dtype": "int64"}}}, ["lose precision"]),
    "npy half of mean": ("npy", "x.npy", GOOD_NPY, {"fields": {"x": {"mean": 1}}}, ["mean and std"]),
    "npz truncated": ("npy", "x.npz", GOOD_NPZ[:-30], {}, ["x.npz", "zip"]),
    "npz corrupt": ("npy", "x.npz", GOOD_NPZ.replace(b"\x05" + b"\0" * 7, b"\x06" + b"\0" * 7), {}, ["x.npz"]),
    "npz other member": ("npy", "x.npz", with_other_member(), {}, ["readme.txt", "not a usable .npy"]),
    "npz counts differ": ("npy", "x.npz", npz_of(x=np.arange(3), y=np.arange(4)), {}, ["3 samples", "4"]),
    "safetensors empty": ("safetensors", "x.safetensors", b"", {}, ["x.safetensors", "0 bytes"]),
    "safetensors huge header": ("safetensors", "x.safetensors", b"\xff" * 64, {}, ["x.safetensors", "header"]),
    "csv empty": ("csv", "x.csv", b"", {}, ["x.csv", "empty"]),
    "csv header only": ("csv", "x.csv", b"a,b\n", {}, ["x.csv", "no records"]),
    "csv of an old Mac": ("csv", "x.csv", b"a,b\r1,2\r3,4\r", {}, ["x.csv", "carriage returns"]),
    "csv short row": ("csv", "x.csv", csv_of("a,b", "1,2", "3"), {}, ["x.csv: line 3", "1 cells", "2 columns"]),
    "csv open quote": ("csv", "x.csv", csv_of("a,b", '1,"2', "3,4"), {}, ["x.csv: line 2", "quote"]),
    "csv text after quote": ("csv", "x.csv", csv_of("a,b", '"1"x,2'), {}, ["x.csv: line 2", "quoted cell"]),
    "csv two names": ("csv", "x.csv", csv_of("a,a", "1,2"), {}, ["two columns are called 'a'"]),
    "csv latin-1": ("csv", "x.csv", "a\nä\nö\n".encode("latin-1"), {}, ["x.csv: line 2", "UTF-8"]),
    "csv not a number": (
        "csv", "x.csv", csv_of("a,b", "1,2", "3,oops"), {"types": {"b": "number"}}, ["line 3", "column 'b'", "'oops'"],
    ),
    "csv missing": ("csv", "x.csv", csv_of("a,b", "1,", "3,4"), {}, ["line 2", "column 'b'", "missing: drop"]),
    "csv missing label": (
        "csv", "x.csv", csv_of("a,b", "1,", "3,4"), {"missing": "fill", "label": "b"}, ["line 2", "'b'", "drop"],
    ),
    "csv no column": ("csv", "x.csv", csv_of("alpha,b", "1,2"), {"columns": ["alhpa"]}, ["'alhpa'", "did you mean 'alpha'"]),
    "csv gzip truncated": ("csv", "x.csv", b"\x1f\x8b\x08\0\0\0\0\0\0\x03abc", {}, ["x.csv", "gzip"]),
    "csv negative class": (
        "csv", "x.csv", csv_of("a,b", "1,-1", "3,4"), {"label": "b", "label_kind": "class"}, ["label 'b'", "non-negative"],
    ),
    "parquet empty": ("parquet", "x.parquet", b"", {}, ["x.parquet", "Parquet"]),
    "parquet truncated": ("parquet", "x.parquet", GOOD_PARQUET[:-100], {}, ["x.parquet", "Parquet"]),
    "parquet other": ("parquet", "x.parquet", b"hello" * 100, {}, ["x.parquet", "Parquet"]),
    "parquet list": ("parquet", "x.parquet", LIST_PARQUET, {}, ["x.parquet", "'a'"]),
    "npz that is npy": ("npy", "x.npz", GOOD_NPY, {}, ["x.npz: it is a single array", "numpy.savez"]),
    "npz of torch": ("npy", "x.npz", torch_file(), {}, ["x.npz: it was saved by torch.save", "numpy.savez"]),
    "parquet missing": ("parquet", "x.parquet", GOOD_PARQUET, {"columns": ["b"]}, ["row group", "'b' has no value"]),
    "parquet no column": ("parquet", "x.parquet", GOOD_PARQUET, {"columns": ["mnth"]}, ["did you mean 'month'"]),
    "parquet filter": (
        "parquet", "x.parquet", GOOD_PARQUET, {"columns": ["a"], "filter": ["a = 3"]}, ["filter 'a = 3'", "month >= 6"],
    ),
    "parquet filter of text": (
        "parquet", "x.parquet", GOOD_PARQUET, {"columns": ["a"], "filter": ["a > x"]}, ["'a' has numbers"],
    ),
    "parquet nothing left": (
        "parquet", "x.parquet", GOOD_PARQUET, {"columns": ["a"], "filter": ["month > 99"]}, ["no rows remain"],
    ),
    "tokens empty": ("tokens", "x.bin", b"", {}, ["x.bin", "no tokens"]),
    "tokens odd": ("tokens", "x.bin", b"abc", {}, ["x.bin", "3 bytes"]),
    "tokens truncated": ("tokens", "x.bin", HEADER.tobytes() + b"a" * 198, {}, ["x.bin", "100 tokens, found 99"]),
    "tokens in header": ("tokens", "x.bin", HEADER.tobytes()[:500], {}, ["x.bin", "header"]),
    "tokens too few": ("tokens", "x.bin", b"a" * 20, {}, ["257 tokens that a sample needs"]),
    "tokens all as long": ("tokens", "x.bin", b"a" * 20, {"length": 4, "pad_to": "longest"}, ["pad_to", "without separator"]),
    "tokens npy": ("tokens", "x.bin", npy(np.arange(400, dtype=np.uint16)), {}, ["x.bin", "a NumPy .npy file", "tofile"]),
    "tokens gzip": ("tokens", "x.bin", b"\x1f\x8b\x08\0" + b"\xff" * 800, {}, ["x.bin", "compressed with gzip"]),
    "tokens text": ("tokens", "x.txt", "Ein schöner Text.\n".encode() * 50, {}, ["x.txt", "it is text", "lockstep-data tokenize"]),
    "tokens beyond vocabulary": (
        "tokens", "x.bin", b"\xff" * 2000, {"length": 8, "vocab_size": 100}, ["x.bin", "token 65535", "vocabulary of 100"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind, name, content, more, texts", FILES.values(), ids=FILES.keys())
def test_bad_files(tmp_path, kind, name, content, more, texts):
    folder = tmp_path / "a folder with ümlaut\nand line break"
    folder.mkdir()
    (folder / name).write_bytes(content)
    path = folder if name.endswith(".npy") else folder / name
    message = refused(tmp_path, {"train": {"name": kind, "path": str(path), **more}})
    for text in texts:
        assert text in message


KINDS = {"npy": "x.npz", "safetensors": "x.safetensors", "csv": "x.csv", "parquet": "x.parquet", "tokens": "x.bin"}


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_and_no_permission(tmp_path, kind):
    assert "x" in refused(tmp_path, {"train": {"name": kind, "path": str(tmp_path / KINDS[kind])}})
    os.mkfifo(tmp_path / "pipe")
    assert "pipe" in refused(tmp_path, {"train": {"name": kind, "path": str(tmp_path / "pipe")}})


@pytest.fixture
def unprivileged():
    """A world-readable folder, and the prefix of a command that runs without privileges."""
    with tempfile.TemporaryDirectory(prefix="lockstep-unprivileged-") as directory:
        os.chmod(directory, 0o777)
        unprivileged_command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        yield Path(directory), unprivileged_command
        for path in Path(directory).rglob("*"):
            os.chmod(path, 0o700)


def denied(unprivileged, kind, path):
    directory, unprivileged_command = unprivileged
    file = directory / "data.yaml"
    transforms = {"transforms": [{"name": "resize", "size": [8, 8]}]} if kind == "image_folder" else {}
    file.write_text(json.dumps({"train": {"name": kind, "path": str(path), **transforms}}))
    ended = subprocess.run([*unprivileged_command, *PROGRAM, file, "1", "16", "1"], capture_output=True, text=True, timeout=60)
    assert ended.returncode in (75, 78) and ended.stderr.count("\n") == 1, ended.stderr
    return ended.stderr


@pytest.mark.parametrize("kind", ["parquet", "tokens", "image_folder", "idx"])
def test_a_directory_without_permission(unprivileged, kind):
    closed = unprivileged[0] / "closed"
    (closed / "inside").mkdir(parents=True)
    for path in (closed, closed / "inside"):
        os.chmod(path, 0)
        message = denied(unprivileged, kind, path)  # to be listed, or to be read in
        assert str(path) in message and "ermission denied" in message, message
        os.chmod(path, 0o755)
    os.chmod(closed, 0)
    for path in (closed / "inside", closed / KINDS.get(kind, "inside")):
        message = denied(unprivileged, kind, path)
        assert str(path) in message and "ermission denied" in message, message


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_without_permission(unprivileged, kind):
    file = unprivileged[0] / KINDS[kind]
    file.write_bytes(GOOD.get(kind, ("", b"x" * 100))[1])
    os.chmod(file, 0)
    message = denied(unprivileged, kind, file)
    assert str(file) in message and "ermission denied" in message, message


def test_images_with_unusual_names(tmp_path):
    folder = os.fsencode(tmp_path / "images") + b"/\xff class\n"
    os.makedirs(folder)
    with open(folder + b"/\x1b[31m.jpg", "wb") as file:
        file.write(b"no image")
    transforms = [{"name": "resize", "size": [8, 8]}]
    message = refused(tmp_path, {"train": {"name": "image_folder", "path": str(tmp_path / "images"), "transforms": transforms}})
    assert ".jpg" in message and "\x1b" not in message


@pytest.mark.parametrize("link", ["cat/2.jpg", "dog"])
def test_links_that_lead_nowhere(tmp_path, link):
    """Otherwise an image, or a class and with it the numbers of the others, would be missing."""
    (tmp_path / "images" / "cat").mkdir(parents=True)
    for path in ("cat/1.jpg", link):
        (tmp_path / "images" / path).symlink_to(tmp_path / "nowhere") if path == link else (tmp_path / "images" / path).write_bytes(b"")
    transforms = [{"name": "resize", "size": [8, 8]}]
    message = refused(tmp_path, {"train": {"name": "image_folder", "path": str(tmp_path / "images"), "transforms": transforms}})
    assert f"images/{link}: cannot be read: No such file or directory" in message


def test_shards_that_differ(tmp_path):
    folder = tmp_path / "shards"
    folder.mkdir()
    for name, shape in (("a", (3, 2)), ("b", (3, 4))):
        save_file({"x": np.zeros(shape, np.float32)}, folder / f"{name}.safetensors")
    message = refused(tmp_path, {"train": {"name": "safetensors", "path": str(folder)}})
    assert "b.safetensors: its arrays differ in names, types or shapes from those of" in message
    for name, column in (("1", [1, 2]), ("2", ["x", "y"])):
        pq.write_table(pa.table({"a": column}), folder / f"{name}.parquet")
    message = refused(tmp_path, {"train": {"name": "parquet", "path": str(folder)}})
    assert "2.parquet: row group 0: column 'a' has strings, but numbers in other training rows" in message
    for lines, text in (
        (["y,x", "1,2"], "3.csv: no column 'z'"),
        (["y,x,z,w", "1,2,3,4"], "3.csv: column 'w' is not in every file"),
    ):
        for name in ("1", "2"):
            (folder / f"{name}.csv").write_bytes(csv_of("x,y,z", "1,2,3"))
        (folder / "3.csv").write_bytes(csv_of(*lines))
        assert text in refused(tmp_path, {"train": {"name": "csv", "path": str(folder)}})


def test_row_group_that_needs_too_much_memory(tmp_path):
    rows, names = 4_000_000, [f"c{i}" for i in range(40)]
    zeros = pa.array(np.zeros(rows, np.int8))
    pq.write_table(pa.table({name: zeros for name in names}), tmp_path / "x.parquet", row_group_size=rows, max_rows_per_page=rows)
    train = {"name": "parquet", "path": str(tmp_path / "x.parquet")}
    message = refused(tmp_path, {"train": train})
    size = (tmp_path / "x.parquet").stat().st_size
    assert "x.parquet: row group 0: 4000000 rows of 40 columns" in message
    assert f"{2**30 + 1024 * size} bytes" in message and f"a file of {size} bytes" in message


def test_column_and_row_group_with_different_counts(tmp_path):
    good = parquet_of(pa.table({"a": np.arange(100, dtype=np.int64) * 12345}))
    claim = b"\x16\xc8\x01"  # of Thrift: 100, as a field of 64 bits
    places = [at for at in range(len(good)) if good.startswith(claim, at)]
    messages = []
    for at in places:
        (tmp_path / "x.parquet").write_bytes(good[:at] + b"\x16\xca\x01" + good[at + 3 :])
        messages.append(start(tmp_path, {"train": {"name": "parquet", "path": str(tmp_path / "x.parquet")}}).stderr.decode())
    assert any("column 'a' claims 101 values for 100 rows" in message for message in messages), messages


def test_bad_rows_are_skipped_and_counted_up_to_a_limit(tmp_path):
    file = tmp_path / "x.csv"
    file.write_bytes(csv_of("a,b", "1,2", "3", "4,5,6", "7,8"))
    train = {"name": "csv", "path": str(file), "max_bad_samples": 2}
    (batch,) = load(tmp_path, {"train": train})["train", 0]
    assert batch["features"].tolist() == [[1, 2], [7, 8]]
    message = refused(tmp_path, {"train": {**train, "max_bad_samples": 1}})
    assert "x.csv: line 4" in message and "bad sample 2" in message


def test_a_label_that_occurs_only_in_the_evaluation_set(tmp_path):
    for name, rows in (("train", ["1,cat", "2,dog"]), ("eval", ["1,cat", "2,cow"])):
        (tmp_path / f"{name}.csv").write_bytes(csv_of("x,y", *rows))
    parts = {name: {"name": "csv", "path": str(tmp_path / f"{name}.csv"), "label": "y"} for name in ("train", "eval")}
    message = refused(tmp_path, parts)
    assert "eval.csv: line 3" in message and "'cow', which does not occur in the training rows" in message


GOOD = {
    "npy": ("x.npz", GOOD_NPZ),
    "csv": ("x.csv", csv_of("a,b", *(f"{i},{i % 3}" for i in range(50)))),
    "parquet": ("x.parquet", GOOD_PARQUET),
    "tokens": ("x.bin", np.arange(5000, dtype=np.uint16).tobytes()),
}


@pytest.mark.parametrize("kind", GOOD)
def test_corrupt_bytes_never_crash(tmp_path, kind):
    rng = random.Random(kind)
    name, good = GOOD[kind]
    for _ in range(25):
        content = bytearray(good)
        for _ in range(rng.randint(1, 5)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        if rng.random() < 0.3:
            del content[rng.randrange(len(content)) :]
        (tmp_path / name).write_bytes(content)
        ended = start(tmp_path, {"train": {"name": kind, "path": str(tmp_path / name), "missing": "fill"} if kind in ("csv", "parquet") else {"name": kind, "path": str(tmp_path / name)}})
        assert ended.returncode in (0, 78), ended.stderr
