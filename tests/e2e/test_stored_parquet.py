"""Parquet files in a bucket: training begins when their footers and the first files are there, with the samples of local files."""

import json
import shutil
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from object_server import BUCKET
from test_object_stores import in_bucket, losses, train

PATH = f"s3://{BUCKET}/rows"
FILES, ROWS, BATCH = 3, 12_000, 2_000  # 6 steps in each file
TAIL = 64 << 10  # of a file, in the first request
NOTES = {"notes": np.random.default_rng(2).bytes(50_000).hex()}  # makes a footer larger than that


def write_rows(path, seed, **more):
    rng = np.random.default_rng(seed)
    columns = {"x": rng.standard_normal(ROWS), "y": rng.standard_normal(ROWS), "label": rng.integers(0, 3, ROWS)} | more
    table = pa.table({name: values for name, values in columns.items() if values is not None})
    pq.write_table(table.replace_schema_metadata(NOTES if seed == 2 else None), path, row_group_size=ROWS // 2)


@pytest.fixture
def rows(job, server):
    """A folder of three files of two row groups, and a job on it whose cache is empty."""
    folder = job.directory / "rows"
    folder.mkdir()
    for number in range(FILES):
        write_rows(folder / f"{number}.parquet", number)
    job.config["model"] = {"name": "mlp", "input": "features", "inputs": 2, "hidden": [4], "classes": 3}
    job.config["data"] = {"train": {"name": "parquet", "path": str(folder), "label": "label"}, "batch_size": BATCH, "workers": 1,
                          "object_cache": {"dir": str(job.directory / "cache"), "request_timeout": "3 s"}}
    job.config["train"] = {"epochs": 1, "log_every": "1 step"}
    job.write()
    yield folder
    server.proxy.reset()
    shutil.rmtree(server.directory / BUCKET / "rows", ignore_errors=True)


def upload(server, folder):
    server.put_folder(folder, "rows")
    server.proxy.reset()


def only_footers(*names):
    """The server refuses to send the rest of these files."""
    requests = Counter()

    def fault(method, path, number):
        name = path.split("?")[0].rsplit("/", 1)[-1]
        requests[name] += method == "GET"
        of_footer = 2 if name == "2.parquet" else 1
        return "refuse" if method == "GET" and name in names and requests[name] > of_footer else None

    return fault


def refused(job, server, *overrides):
    ended = job.run(f"data.train.path={PATH}", "data.object_cache.timeout=500 ms", *overrides, env=in_bucket(server))
    assert "step 1" not in ended.out, ended.out
    return ended


def sizes(folder):
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))


def test_the_first_batches_need_their_files_only(job, server, rows):
    upload(server, rows)
    how = ["data.shuffle=false", "train.max_steps=2", "data.object_cache.timeout=500 ms"]
    local = losses(train(job, rows, *how))
    server.proxy.fault = only_footers("1.parquet")
    trained = train(job, PATH, *how, env=in_bucket(server))
    assert losses(trained) == local
    assert server.proxy.bytes_of("1.parquet") == TAIL
    columns = json.loads((trained[1] / "data.json").read_text())["columns"]
    assert [column["name"] for column in columns] == ["x", "y"] and not any("mean" in column for column in columns)


def test_as_local_files_and_resumed_on_two_ranks(job, server, rows):
    local = losses(train(job, rows))
    upload(server, rows)
    _, stopped = train(job, PATH, "train.max_steps=5", env=in_bucket(server))
    ended = job.run(f"data.train.path={PATH}", ranks=2, options=["--resume", stopped.name], env=in_bucket(server))
    assert ended.code == 0, ended.err
    assert dict(losses((job, stopped))) == pytest.approx(dict(local), rel=1e-5)
    footer = pq.ParquetFile(rows / "2.parquet").metadata.serialized_size + 8
    assert footer > TAIL
    fetched = server.proxy.bytes_of("0.parquet") + server.proxy.bytes_of("1.parquet") - sizes(rows) + server.proxy.bytes_of("2.parquet")
    most = 2 * TAIL + footer
    assert most <= fetched <= 3 * most  # by each process, of the files that were not there then


NEED_ALL = {
    "standardize": ["data.train.standardize=true"],
    "fill": ["data.train.missing=fill"],
    "kind of label": ["data.train.label=number"],
    "words": ["data.train.columns=[x, word]"],
    "classes": ["data.sampling=class_balanced"],
    "filter": ["data.train.filter=['x > -100']"],
    "drop": ["data.train.missing=drop"],
    "mixture": ["data.train={name: mixture, parts: [{data: {name: parquet, path: '" + PATH + "', columns: [x, y], label: label}}]}"],
}


@pytest.mark.parametrize("case", NEED_ALL)
def test_what_needs_all_rows_waits_for_all_files(job, server, rows, case):
    for number in range(FILES):
        write_rows(rows / f"{number}.parquet", number, word=np.array(["a", "b"] * (ROWS // 2)), number=np.arange(float(ROWS)) % 3)
    job.config["data"]["train"]["columns"] = ["x", "y"]
    job.write()
    upload(server, rows)
    server.proxy.fault = only_footers("2.parquet")
    overrides = NEED_ALL[case]
    path = [] if case == "mixture" else [f"data.train.path={PATH}"]
    ended = job.run(*path, "data.object_cache.timeout=500 ms", *overrides, env=in_bucket(server))
    assert ended.code == 75 and "2.parquet: " in ended.err, ended.err
    assert "step 1" not in ended.out and not job.runs.exists()
    server.proxy.reset()
    inputs = ["model.inputs=3"] if case == "words" else []
    if case != "mixture":
        local = losses(train(job, rows, *overrides, *inputs))
        assert losses(train(job, PATH, *overrides, *inputs, env=in_bucket(server))) == local
    else:
        of_local = [override.replace(PATH, str(rows)) for override in overrides]
        local = job.series(job.train(*of_local).name, "train/loss")
        assert job.series(job.train(*overrides, env=in_bucket(server)).name, "train/loss") == local


@pytest.mark.parametrize("kind", ["label_above=0", "label_kind=class"])
def test_a_label_whose_kind_is_given(job, server, rows, kind):
    for number in range(FILES):
        write_rows(rows / f"{number}.parquet", number, number=np.arange(float(ROWS)) % 3, label=None)
    upload(server, rows)
    how = ["data.train.label=number", f"data.train.{kind}", "data.shuffle=false", "train.max_steps=2", "data.object_cache.timeout=500 ms"]
    local = losses(train(job, rows, *how))
    server.proxy.fault = only_footers("2.parquet")
    assert losses(train(job, PATH, *how, env=in_bucket(server))) == local


def test_lists_and_partitions(job, server, rows):
    """The files of a partition that the filter excludes are not fetched. The keys are columns too."""
    vectors = pa.FixedSizeListArray.from_arrays(np.random.default_rng(5).standard_normal(ROWS * 4), 4)
    for number in range(FILES):
        (rows / f"{number}.parquet").unlink()
        (rows / f"year={2022 + number}").mkdir()
        write_rows(rows / f"year={2022 + number}" / "a.parquet", number, x=vectors)
    upload(server, rows)
    job.config["model"]["inputs"] = 6
    job.write()
    local = losses(train(job, rows))
    assert losses(train(job, PATH, env=in_bucket(server))) == local
    shutil.rmtree(job.directory / "cache")
    server.proxy.reset()
    years = ["data.train.filter=['year >= 2023']"]
    assert losses(train(job, PATH, *years, env=in_bucket(server))) == losses(train(job, rows, *years))
    assert server.proxy.bytes_of("year%3D2022/a.parquet") + server.proxy.bytes_of("year=2022/a.parquet") == TAIL


def test_an_evaluation_set_is_fetched_when_it_is_used(job, server, rows):
    """But for the first file."""
    job.config["data"]["eval"] = job.config["data"]["train"] | {"path": PATH}
    job.write()
    upload(server, rows)
    server.proxy.fault = only_footers("2.parquet")
    ended = job.run(f"data.train.path={PATH}/0.parquet", "train.eval_every=3 steps", "data.object_cache.timeout=500 ms",
                    env=in_bucket(server))
    assert ended.code == 75 and "2.parquet: " in ended.err, ended.err
    assert len(job.series(job.only_run().name, "train/loss")) == 3


BAD_FOOTERS = {
    "truncated": lambda content: content[:-1000],
    "not Parquet": lambda content: bytes(len(content)),
    "corrupt": lambda content: content[:-1000] + bytes(900) + content[-100:],
    "too large": lambda content: content[:-8] + b"\xff\xff\xff\x7fPAR1",
    "text": lambda content: b"x" * 1000,
}


@pytest.mark.parametrize("case", BAD_FOOTERS)
def test_bad_footers(job, server, rows, case):
    content = BAD_FOOTERS[case]((rows / "1.parquet").read_bytes())
    (rows / "1.parquet").write_bytes(content)
    upload(server, rows)
    ended = refused(job, server)
    lines = [line for line in ended.err.splitlines() if line]
    assert ended.code == 78 and len(lines) == 1 and f"{PATH}/1.parquet: not a usable Parquet file: " in ended.err, ended.err
    assert server.proxy.bytes_of("1.parquet") == min(TAIL, len(content))


@pytest.mark.parametrize("case", ["missing", "lists"])
def test_a_file_with_other_values_ends_the_run(job, server, rows, case):
    """Also where bad samples are skipped: of local files, all rows are read at the start."""
    values = np.random.default_rng(9).standard_normal(ROWS)
    values[ROWS // 4] = np.nan
    width = 3 if case == "lists" else 1
    for number in range(FILES):
        count = 4 if case == "lists" and number == 1 else width
        lists = pa.FixedSizeListArray.from_arrays(np.random.default_rng(5).standard_normal(ROWS * count), count)
        write_rows(rows / f"{number}.parquet", number, x=lists if case == "lists" else values if number == 1 else None)
        if case == "missing" and number != 1:
            write_rows(rows / f"{number}.parquet", number)
    upload(server, rows)
    job.config["model"]["inputs"] = 1 + width
    job.write()
    how = ["data.shuffle=false", "data.max_bad_samples=100000"]
    ended = job.run(f"data.train.path={PATH}", *how, env=in_bucket(server))
    text = "column 'x' has no value" if case == "missing" else "column 'x' has lists of length 4"
    assert ended.code == 78 and f"{PATH}/1.parquet: row group 0" in ended.err and text in ended.err, ended.err
    assert "step 1" in ended.out


def other_rows(file):
    """A file of the same size with other rows, which another process writes."""
    table = pq.read_table(file)
    pq.write_table(table.take(np.arange(len(table))[::-1]), file, row_group_size=ROWS // 2)
    return file.read_bytes()


@pytest.mark.parametrize("request_of_it", ["HEAD", "GET", "later"])
def test_a_file_that_changes_after_the_listing(job, server, rows, request_of_it):
    """Before or while its footer is read, or when training has begun."""
    upload(server, rows)
    content = other_rows(rows / "1.parquet")
    requests = Counter()

    def replace(method, path, number):
        if "1.parquet" in path:
            requests[method] += 1
            if requests["GET"] == 2 if request_of_it == "later" else method == request_of_it:
                server.proxy.fault = lambda method, path, number: None
                server.put("rows/1.parquet", content + b"" if request_of_it != "later" else content)

    server.proxy.fault = replace
    ended = job.run(f"data.train.path={PATH}", "data.shuffle=false", env=in_bucket(server))
    assert ended.code == 75 and f"{PATH}/1.parquet: was changed while the run reads it: restore it" in ended.err, ended.err
    assert ("step 1" in ended.out) == (request_of_it == "later")
