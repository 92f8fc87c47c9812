"""Files of tokens in a bucket: training begins before all of them are fetched, with the samples of local files."""

import os
import shutil

import numpy as np
import pytest

import processes
from object_server import BUCKET
from refusals import error_lines
from test_object_stores import in_bucket, losses, train

PATH = f"s3://{BUCKET}/tokens"
FILES, WINDOWS, LENGTH = 3, 40, 16


@pytest.fixture
def tokens(job, server):
    """A folder of three files, and a job on it whose cache is empty."""
    folder = job.directory / "tokens"
    folder.mkdir()
    rng = np.random.default_rng(1)
    for number in range(FILES):
        rng.integers(0, 61, WINDOWS * LENGTH + 1 + number).astype(np.uint16).tofile(folder / f"{number}.bin")
    job.config["model"] = {"name": "gpt", "vocab_size": 61, "context": LENGTH, "layers": 1, "heads": 2, "width": 16}
    job.config["data"] = {"train": {"name": "tokens", "path": str(folder), "length": LENGTH}, "batch_size": 8, "workers": 1,
                          "object_cache": {"dir": str(job.directory / "cache"), "request_timeout": "3 s"}}
    job.config["train"] = {"epochs": 1, "log_every": "1 step"}
    job.write()
    yield folder
    server.proxy.reset()
    shutil.rmtree(server.directory / BUCKET / "tokens", ignore_errors=True)


def upload(server, folder):
    server.put_folder(folder, "tokens")
    server.proxy.reset()


def only_first(method, path, number):
    """The server has no other file."""
    return "refuse" if ".bin" in path and "0.bin" not in path else None


def refused(job, server, *overrides):
    ended = job.run(f"data.train.path={PATH}", "data.object_cache.timeout=500 ms", *overrides, env=in_bucket(server))
    assert not ended.out.count("step 1"), ended.out
    return ended


def test_the_first_batches_need_their_files_only(job, server, tokens):
    upload(server, tokens)
    how = ["data.shuffle=false", "train.max_steps=4", "data.object_cache.timeout=500 ms"]
    local = losses(train(job, tokens, *how))
    server.proxy.fault = only_first
    assert losses(train(job, PATH, *how, env=in_bucket(server))) == local
    assert server.proxy.bytes_of("0.bin") == (tokens / "0.bin").stat().st_size


@pytest.mark.parametrize("how", [[], ["data.train.separator=60", "data.shuffle=false"]], ids=["shuffled", "documents"])
def test_otherwise_all_files_are_fetched_before_training(job, server, tokens, how):
    upload(server, tokens)
    server.proxy.fault = only_first
    ended = refused(job, server, *how)
    assert ended.code == 75 and ".bin: " in ended.err and "attempts in" in ended.err, ended.err
    assert not job.runs.exists()


def test_as_local_files_and_resumed_on_two_ranks(job, server, tokens):
    how = ["data.shuffle_buffer=20"]
    local = losses(train(job, tokens, *how))
    upload(server, tokens)
    _, stopped = train(job, PATH, *how, "train.max_steps=5", env=in_bucket(server))
    ended = job.run(f"data.train.path={PATH}", *how, ranks=2, options=["--resume", stopped.name], env=in_bucket(server))
    assert ended.code == 0, ended.err
    assert dict(losses((job, stopped))) == pytest.approx(dict(local), rel=1e-5)
    assert server.proxy.bytes_of(".bin") == sum(path.stat().st_size for path in tokens.iterdir())


def test_files_of_another_form(job, server, tokens):
    """The last one has a header."""
    content = np.fromfile(tokens / "2.bin", np.uint16)
    header = np.zeros(256, np.int32)
    header[:3] = 20240520, 1, len(content)
    (tokens / "2.bin").write_bytes(header.tobytes() + content.tobytes())
    upload(server, tokens)
    ended = job.run(f"data.train.path={PATH}", "data.shuffle=false", "data.max_bad_samples=40", env=in_bucket(server))
    assert ended.code == 78, ended.err
    assert (f"{PATH}/2.bin: it has {len(content)} tokens, but its size is that of {len(content) + 512}: the files of a folder need the "
            "same dtype, and all of them a header, or none") in ended.err
    assert losses(train(job, tokens, "data.shuffle=false"))  # local files are opened first


def reversed_tokens(file):
    return np.fromfile(file, np.uint16)[::-1].tobytes()


def upload_old(server, folder):
    """As if all were written long before the run."""
    upload(server, folder)
    for path in (server.directory / BUCKET / "tokens").iterdir():
        os.utime(path, (1_000_000_000, 1_000_000_000))


@pytest.mark.parametrize("size", ["same", "other"])
def test_a_file_that_changes_after_the_start(job, server, tokens, size):
    """Another process replaces it when the first batch has been read, before it is requested."""
    upload_old(server, tokens)
    content = reversed_tokens(tokens / "2.bin") if size == "same" else b"12"

    def replace(method, path, number):
        if "2.bin" in path:
            server.proxy.fault = lambda method, path, number: None
            server.put("tokens/2.bin", content)

    server.proxy.fault = replace
    ended = job.run(f"data.train.path={PATH}", "data.shuffle=false", env=in_bucket(server))
    assert ended.code == 75 and f"{PATH}/2.bin: was changed while the run reads it: restore it" in ended.err, ended.err
    assert "step 1" in ended.out


def test_ranks_that_list_different_versions_are_refused(job, server, tokens, tmp_path):
    """A file that neither of them opens at the start is replaced by one of the same size between their listings."""
    upload_old(server, tokens)
    del job.config["data"]["object_cache"]["dir"]
    job.write()
    listings = []

    def replace(method, path, number):
        listings.extend([path] if "prefix=tokens" in path else [])
        if len(listings) == 2 and "prefix=tokens" in path:
            server.put("tokens/2.bin", reversed_tokens(tokens / "2.bin"))

    server.proxy.fault = replace
    places = {"WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": processes.free_port()}
    started = [job.start(f"data.train.path={PATH}", "data.shuffle=false",
                         env=in_bucket(server, RANK=rank, LOCAL_RANK=rank, XDG_CACHE_HOME=tmp_path / str(rank), **places))
               for rank in range(2)]
    for ended in map(processes.finish, started):
        assert ended.code == 75, ended.err
        (line,) = error_lines(ended, None)
        assert f"{PATH}/2.bin: rank 1 reads another version (" in line and "was changed while the run started" in line


def test_an_empty_file(job, server, tokens):
    (tokens / "1.bin").write_bytes(b"")
    upload(server, tokens)
    ended = refused(job, server)
    assert ended.code == 78 and f"{PATH}/1.bin: not a usable token file: it has no tokens" in ended.err, ended.err
