"""Tar archives with an index: training begins before all of them are fetched, with the samples that it has without one."""

import io
import json
import re
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from object_server import BUCKET
from processes import BIN, finish, run
from test_object_stores import in_bucket, losses, tars_job, train

PATH = f"s3://{BUCKET}/indexed"


@pytest.fixture
def tars(job, server):
    """The folder of three tars of 16 samples, and a job on it whose cache is empty."""
    folder = tars_job(job)
    yield folder
    server.proxy.reset()
    shutil.rmtree(server.directory / BUCKET / "indexed", ignore_errors=True)


def write_index(folder):
    ended = run([BIN / "lockstep-data", "index", folder], folder)
    assert ended.code == 0, ended.err
    assert ended.out == f"{folder}/index.json: 48 samples in 3 files\n"


def upload(server, folder):
    server.put_folder(folder, "indexed")
    server.proxy.reset()


def change(folder, act):
    index = json.loads((folder / "index.json").read_text())
    act(index["shardlist"])
    (folder / "index.json").write_text(json.dumps(index))


def only_first(method, path, number):
    """The server has no other shard."""
    return "refuse" if ".tar" in path and "0.tar" not in path else None


def test_the_first_batches_need_their_shards_only(job, server, tars):
    write_index(tars)
    upload(server, tars)
    del job.config["data"]["shuffle_buffer"], job.config["data"]["shuffle_lanes"]
    job.config["data"] |= {"shuffle": False, "workers": 1}
    job.write()
    how = ["train.max_steps=2", "data.object_cache.timeout=500 ms"]
    local = losses(train(job, tars, *how))
    server.proxy.fault = only_first
    assert losses(train(job, PATH, *how, env=in_bucket(server))) == local
    assert server.proxy.bytes_of("0.tar") == (tars / "0.tar").stat().st_size
    (server.directory / BUCKET / "indexed" / "index.json").unlink()  # now all of them are needed
    ended = job.run(f"data.train.path={PATH}", *how, env=in_bucket(server))
    assert ended.code == 75 and ".tar: " in ended.err and "attempts in" in ended.err, ended.err


def test_an_order_that_needs_all_shards_waits_for_them_before_training(job, server, tars):
    """A loader would wait for its first batch for a limited time only."""
    write_index(tars)
    upload(server, tars)
    del job.config["data"]["shuffle_buffer"], job.config["data"]["shuffle_lanes"]
    job.write()
    server.proxy.fault = only_first
    ended = job.run(f"data.train.path={PATH}", "data.object_cache.timeout=500 ms", env=in_bucket(server))
    assert ended.code == 75 and ".tar: " in ended.err and "attempts in" in ended.err, ended.err
    assert "batch" not in ended.err and not job.runs.exists()


def test_as_without_an_index_and_resumed_on_two_ranks(job, server, tars):
    without = losses(train(job, tars))
    write_index(tars)
    assert losses(train(job, tars)) == without
    upload(server, tars)
    for path in (PATH, PATH + "/{0..2}.tar"):
        _, stopped = train(job, path, "train.max_steps=3", env=in_bucket(server))
        ended = job.run(f"data.train.path={path}", ranks=2, options=["--resume", stopped.name], env=in_bucket(server))
        assert ended.code == 0, ended.err
        assert dict(losses((job, stopped))) == pytest.approx(dict(without), rel=1e-5)
        server.proxy.reset()
    del job.config["data"]["shuffle_lanes"]
    job.write()
    more = ["data.sampling=class_balanced", "data.split.eval=0.25"]
    remote = losses(train(job, PATH, *more, env=in_bucket(server)))
    (tars / "index.json").unlink()
    assert remote == losses(train(job, tars, *more))


def test_two_ranks_fetch_each_shard_once(job, server, tars):
    write_index(tars)
    upload(server, tars)
    alone = losses(train(job, tars))
    assert dict(losses(train(job, PATH, ranks=2, env=in_bucket(server)))) == pytest.approx(dict(alone), rel=1e-5)
    assert server.proxy.bytes_of(".tar") == sum(path.stat().st_size for path in tars.glob("*.tar"))


@pytest.mark.parametrize("ranks", [None, 2], ids=["alone", "launched"])
def test_a_wrong_number_of_samples(job, server, tars, ranks):
    """Also where bad samples are skipped: it is not one sample that is bad."""
    write_index(tars)
    change(tars, lambda shards: shards[1].update(nsamples=15))
    upload(server, tars)
    ended = job.run(f"data.train.path={PATH}", "data.max_bad_samples=40", ranks=ranks, env=in_bucket(server))
    assert ended.code == 78, ended.err
    assert f"{PATH}/1.tar: it has 16 samples, but 15 in {PATH}/index.json: write this again: lockstep-data index" in ended.err
    assert "bad sample" not in ended.err


@pytest.mark.parametrize("ranks", [None, 2], ids=["alone", "launched"])
def test_another_folder_than_that_of_the_index(job, server, tars, ranks):
    write_index(tars)
    shutil.copy(tars / "0.tar", tars / "3.tar")
    upload(server, tars)
    (server.directory / BUCKET / "indexed" / "2.tar").unlink()
    refused = {"3.tar": "it does not name 3.tar: write it again: lockstep-data index", "2.tar": "it names 2.tar, which is missing"}
    for name, text in refused.items():
        ended = job.run(f"data.train.path={PATH}", ranks=ranks, env=in_bucket(server))
        assert ended.code == 78 and f"{PATH}/index.json: {text}" in ended.err, (name, ended.err)
        assert not job.runs.exists()
        (server.directory / BUCKET / "indexed" / "3.tar").unlink(missing_ok=True)


def test_a_hint_where_an_index_would_help(job, server, tars):
    upload(server, tars)
    hint = "all shards were fetched before training, as there is no index of their numbers of samples ({}): write one with lockstep-data index"
    for content, why in ((None, "index.json"), (b'{"version": 2}', f"{PATH}/index.json is another file")):
        if content:
            server.put("indexed/index.json", content)
        ended = job.run(f"data.train.path={PATH}", "train.max_steps=1", env=in_bucket(server))
        assert ended.code == 0, ended.err
        assert (ended.out + ended.err).count(hint.format(why)) == 1, ended.out + ended.err
    (tars / "index.json").write_bytes(content)
    ended = run([BIN / "lockstep-data", "index", tars], tars)
    assert ended.code == 78 and "is another file, not an index of shards: move it" in ended.err
    assert (tars / "index.json").read_bytes() == content


def mapped_bytes(pid, folder):
    """Of files in this folder, in the memory of a process; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps").read_text().splitlines()
    except OSError:
        return 0
    total, is_in_folder = 0, False
    for line in lines:
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            is_in_folder = f" {folder}/" in line
        elif is_in_folder and line.startswith("Rss:"):
            total += int(line.split()[1]) << 10
    return total


def test_few_pages_of_many_shards_are_mapped(job, server, tars):
    """MappedFile::kCopyBytes of 60 MB, and what two workers read just now."""
    rng = np.random.default_rng(3)
    for shard in range(20):
        with tarfile.open(tars / f"{shard}.tar", "w") as archive:
            for sample in range(20):
                image = io.BytesIO()
                Image.fromarray(rng.integers(0, 256, (224, 224, 3), np.uint8)).save(image, "PNG", compress_level=0)
                for name, content in ((f"{sample}.png", image.getvalue()), (f"{sample}.cls", b"1")):
                    info = tarfile.TarInfo(name)
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))
    run([BIN / "lockstep-data", "index", tars], tars)
    upload(server, tars)
    job.config["data"] |= {"workers": 2}
    job.write()
    process = job.start(f"data.train.path={PATH}", "train.epochs=3", env=in_bucket(server))
    found = []
    while process.poll() is None:
        found.append(mapped_bytes(process.pid, job.directory / "cache"))
    ended = finish(process)
    assert ended.code == 0, ended.err
    assert 0 < max(found) <= (16 << 20) + (2 << 20), max(found)
