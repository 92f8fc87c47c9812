"""Corrupt, swapped and missing data files are rejected before anything is written."""

import gzip

import pytest

from conftest import MNIST
from refusals import ALONE_AND_LAUNCHED, error_lines, refuse


@pytest.fixture
def small_data(job):
    """The first 100 training samples in a separate directory, as the job's training set."""
    directory = job.directory / "data"
    directory.mkdir()
    for name, header, width in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
        with open(MNIST / f"train-{name}-ubyte", "rb") as file:
            start = bytearray(file.read(header))
            start[4:8] = (100).to_bytes(4, "big")
            content = bytes(start) + file.read(100 * width)
        (directory / f"train-{name}-ubyte").write_bytes(content)
    job.config["data"]["train"] = {"name": "idx", "path": str(directory)}
    job.write()
    return directory


def rewrite(path, change):
    path.write_bytes(change(path.read_bytes()))


def swap(directory):
    images, labels = directory / "train-images-idx3-ubyte", directory / "train-labels-idx1-ubyte"
    content = images.read_bytes()
    images.write_bytes(labels.read_bytes())
    labels.write_bytes(content)


def truncate_gz(directory):
    plain = directory / "train-images-idx3-ubyte"
    content = gzip.compress(plain.read_bytes())
    plain.unlink()
    plain.with_name(plain.name + ".gz").write_bytes(content[: len(content) // 2])


def change(name, edit):
    return lambda directory: rewrite(directory / f"train-{name}-ubyte", edit)


FEWER_LABELS = (99).to_bytes(4, "big")
DATA_FILES = {
    "truncated images": (change("images-idx3", lambda raw: raw[:-1]), ["train-images-idx3-ubyte"]),
    "truncated header": (change("images-idx3", lambda raw: raw[:6]), ["train-images-idx3-ubyte"]),
    "empty labels": (change("labels-idx1", lambda raw: b""), ["train-labels-idx1-ubyte"]),
    "too long": (change("labels-idx1", lambda raw: raw + b"x"), ["train-labels-idx1-ubyte"]),
    "no IDX file": (change("images-idx3", lambda raw: b"<html>" * 99), ["train-images-idx3-ubyte"]),
    "truncated .gz": (truncate_gz, ["train-images-idx3-ubyte.gz"]),
    "images and labels swapped": (swap, ["labels-idx1-ubyte holds 100 x 28 x 28", "swapped?"]),
    "fewer labels than images": (
        change("labels-idx1", lambda raw: raw[:4] + FEWER_LABELS + raw[8:-1]),
        ["100 images", "99 labels"],
    ),
    "no labels": (
        lambda directory: (directory / "train-labels-idx1-ubyte").unlink(),
        ["no file", "train-labels-idx1-ubyte"],
    ),
}


@ALONE_AND_LAUNCHED
@pytest.mark.parametrize("damage, texts", DATA_FILES.values(), ids=DATA_FILES.keys())
def test_data_files(job, small_data, damage, texts, ranks):
    damage(small_data)
    refuse(job, [], texts, ranks)


@ALONE_AND_LAUNCHED
def test_label_out_of_range_for_model(job, small_data, ranks):
    """Detected only when the sample is used: the run has started, and fails."""
    change("labels-idx1", lambda raw: raw[:-1] + b"\x0a")(small_data)
    ended = job.run(ranks=ranks)
    assert ended.code == 78, ended.err
    reported = [line for line in error_lines(ended, ranks) if "label" in line and "10" in line]
    assert len(reported) == 1, ended.err
    if ranks:
        assert reported[0] in ended.err[ended.err.index("\nlockstep: ") :]
    assert [entry["state"] for entry in job.list()] == ["failed"]


def test_small_data_is_valid(job, small_data):
    """The failures above are caused only by the corruption."""
    job.train("train.max_steps=1", ranks=2)
