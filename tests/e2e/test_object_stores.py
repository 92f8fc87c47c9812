"""Data in buckets of a real S3 server: the bits of local data, whatever the network does, and one clear line if it cannot be."""

import io
import itertools
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import yaml
from PIL import Image
from safetensors.numpy import save_file

import processes
from conftest import MNIST, Job
from object_server import BUCKET, ObjectServer
from processes import LOCKSTEP, environment
from refusals import error_lines, refuse

GOLDEN = Path(__file__).parents[1] / "golden" / "mds"
SHARDS, SAMPLES = 6, 480  # 10 steps of 48


def write_shards(folder):
    folder.mkdir()
    images = np.fromfile(MNIST / "train-images-idx3-ubyte", np.uint8, SAMPLES * 784, offset=16)
    labels = np.fromfile(MNIST / "train-labels-idx1-ubyte", np.uint8, SAMPLES, offset=8).astype(np.int64)
    rows = SAMPLES // SHARDS
    for i, (image, label) in enumerate(zip(images.reshape(SHARDS, rows, 1, 28, 28), labels.reshape(SHARDS, rows))):
        np.savez(folder / f"{i}.npz", image=image, label=label)


@pytest.fixture(scope="module")
def shards(server, tmp_path_factory):
    """In a local folder and in the bucket, as shards/."""
    folder = tmp_path_factory.mktemp("local") / "shards"
    write_shards(folder)
    server.put_folder(folder, "shards")
    return folder


@pytest.fixture(scope="module")
def local_losses(shards, tmp_path_factory):
    return losses(train(configured(Job(tmp_path_factory.mktemp("local-run"))), shards))


@pytest.fixture
def stored(job, server, shards):
    """A job on the shards in the bucket, with an empty cache."""
    yield configured(job)
    server.proxy.reset()


def configured(job):
    scaled = {"image": {"dtype": "float32", "divide_by": 255}, "label": {}}
    job.config["data"] = {"train": {"name": "npy", "path": f"s3://{BUCKET}/shards", "fields": scaled}, "batch_size": 48,
                          "workers": 1, "shuffle_buffer": 150, "shuffle_lanes": 2,
                          "object_cache": {"dir": str(job.directory / "cache"), "request_timeout": "3 s"}}
    job.config["train"] = {"epochs": 1, "log_every": "1 step"}
    job.write()
    return job


def train(job, path, *overrides, **how):
    run = job.train(f"data.train.path={path}", *overrides, **how)
    return job, run


def losses(trained):
    job, run = trained
    return job.series(run.name, "train/loss")


def total(job, run, metric):
    return sum(value for _, value in job.series(run.name, f"data/{metric}"))


def in_bucket(server, **changes):
    return environment(**server.environment(**changes))


def cached(job):
    return sorted(path.name.split("-", 1)[1] for path in (job.directory / "cache").iterdir() if path.name != ".lock")


def test_two_ranks_fetch_each_byte_once(stored, server, shards, local_losses):
    sizes = sum(path.stat().st_size for path in shards.iterdir())
    trained = train(stored, f"s3://{BUCKET}/shards", ranks=2, env=in_bucket(server))
    assert dict(losses(trained)) == pytest.approx(dict(local_losses), rel=1e-5)
    assert server.proxy.bytes_of(".npz") == sizes
    assert cached(stored) == [f"{i}.npz" for i in range(SHARDS)]

    server.proxy.reset()
    again = train(stored, f"s3://{BUCKET}/shards", env=in_bucket(server))
    assert losses(again) == local_losses
    assert server.proxy.bytes_of(".npz") == 0
    assert total(*again, "store_bytes") == 0 and total(*again, "store_hits") >= SHARDS


def test_faults_change_no_bit(stored, server, shards, local_losses):
    faults = itertools.cycle(["503", None, "cut", None, "refuse", None, None])
    stalls = iter(["stall"])

    def fault(method, path, number):
        return next(stalls, None) if "2.npz" in path and method == "GET" else next(faults)

    server.proxy.fault = fault
    server.proxy.latency_s = 0.02
    try:
        trained = train(stored, f"s3://{BUCKET}/shards", env=in_bucket(server))
    finally:
        server.proxy.latency_s = 0
    assert losses(trained) == local_losses
    assert total(*trained, "store_retries") >= 4
    assert total(*trained, "store_bytes") == sum(path.stat().st_size for path in shards.iterdir())


@pytest.mark.parametrize("limit", ["max_mb_per_s", "max_requests_per_s"])
def test_limits(stored, server, shards, local_losses, limit):
    sizes = [path.stat().st_size for path in shards.iterdir()]
    sent = []
    server.proxy.fault = lambda method, path, number: sent.append((time.monotonic(), path))
    rate = 0.15 if limit == "max_mb_per_s" else 8
    assert losses(train(stored, f"s3://{BUCKET}/shards", f"data.object_cache.{limit}={rate}", env=in_bucket(server))) == local_losses
    if limit == "max_mb_per_s":
        sent = [(at, path) for at, path in sent if ".npz" in path]
        least = (sum(sizes) - max(sizes)) / 0.15e6  # the last one begins after the others
    else:
        least = (len(sent) - 1) / 8
    assert least > 1.5 and sent[-1][0] - sent[0][0] > 0.9 * least


def test_resumed_in_mid_epoch_from_the_cache(stored, server, local_losses):
    path = f"s3://{BUCKET}/shards"
    job, run = train(stored, path, "train.max_steps=4", ranks=2, env=in_bucket(server))
    server.proxy.reset()
    ended = stored.run(f"data.train.path={path}", options=["--resume", run.name], env=in_bucket(server))
    assert ended.code == 0, ended.err
    assert dict(losses((job, run))) == pytest.approx(dict(local_losses), rel=1e-5)
    assert server.proxy.bytes_of(".npz") == 0


def test_trials_of_a_sweep_fetch_each_byte_once(stored, server, shards, local_losses):
    """Two trials at a time on two ranks, which are forked from one template."""
    file = stored.directory / "rates.yaml"
    file.write_text(yaml.safe_dump({"run": "run.yaml", "objective": {"metric": "train/loss"}, "search": {"name": "grid"},
                                    "space": {"optimizer.lr": {"choice": [0.1, 0.2, 0.3]}}}))
    ended = processes.run([LOCKSTEP, "sweep", file, "-n", "2", "--parallel", "2"], stored.directory, in_bucket(server))
    assert ended.code == 0 and ended.err == "", ended.err
    trials = {run["name"]: run for run in stored.list()}
    assert len(trials) == 3 and {trial["state"] for trial in trials.values()} == {"finished"}
    assert dict(stored.series(trials["rates-0"]["id"], "train/loss")) == pytest.approx(dict(local_losses), rel=1e-5)
    assert server.proxy.bytes_of(".npz") == sum(path.stat().st_size for path in shards.iterdir())


def test_server_that_stays_away_ends_all_ranks(stored, server, shards):
    """The size of compressed shards does not say how many samples they have, so all are fetched first."""
    folder = stored.directory / "compressed"
    folder.mkdir()
    for path in shards.iterdir():
        np.savez_compressed(folder / path.name, **np.load(path))
    server.put_folder(folder, "compressed")
    server.proxy.fault = lambda method, path, number: "refuse" if "4.npz" in path else None
    path, timeout = f"s3://{BUCKET}/compressed", "data.object_cache.timeout=500 ms"
    refuse_stored(stored, server, ["compressed/4.npz: ", "attempts in"], 2, 75, [f"data.train.path={path}", timeout])


def test_a_server_that_goes_away_in_training(stored, server, shards):
    """Training continues with the shards that are there. Then all ranks end, and a resume continues."""
    del stored.config["data"]["shuffle_buffer"], stored.config["data"]["shuffle_lanes"]
    stored.write()
    how = ["data.shuffle=false", "checkpoint.every=2 steps"]
    local = losses(train(stored, shards, *how, ranks=2))
    server.proxy.fault = lambda method, path, number: "refuse" if "/4.npz" in path or "/5.npz" in path else None
    path, before = f"data.train.path=s3://{BUCKET}/shards", set(stored.runs.iterdir())
    ended = stored.run(*how, path, "data.object_cache.timeout=2 s", ranks=2, env=in_bucket(server))
    assert ended.code == 75, ended.err
    assert any("shards/4.npz: " in line and "attempts in" in line for line in error_lines(ended, 2)), ended.err
    (run,) = set(stored.runs.iterdir()) - before
    assert stored.series(run.name, "train/loss") == local[:6]  # the four first shards
    server.proxy.reset()
    ended = stored.run(*how, path, ranks=2, options=["--resume", run.name], env=in_bucket(server))
    assert ended.code == 0, ended.err
    assert stored.series(run.name, "train/loss") == local


def test_npy_archives_are_opened_when_they_are_needed(stored, server, shards):
    """Those that are as large as the first, and not compressed."""
    del stored.config["data"]["shuffle_buffer"], stored.config["data"]["shuffle_lanes"]
    stored.write()
    path, how = f"s3://{BUCKET}/shards", ["data.shuffle=false", "train.max_steps=1", "data.object_cache.timeout=500 ms"]
    local = losses(train(stored, shards, *how))
    server.proxy.fault = lambda method, path, number: "refuse" if ".npz" in path and "/0.npz" not in path else None
    assert losses(train(stored, path, *how, env=in_bucket(server))) == local
    server.proxy.reset()
    assert losses(train(stored, path, env=in_bucket(server))) == losses(train(stored, shards))  # shuffled


def write_table(folder, name):
    rng = np.random.default_rng(1)
    table = pa.table({"x": rng.standard_normal(96), "y": rng.standard_normal(96), "label": rng.integers(0, 3, 96)})
    if name == "csv":
        pa.csv.write_csv(table, folder / "a.csv")
    elif name == "parquet":
        (folder / "part=1").mkdir()
        pa.parquet.write_table(table, folder / "part=1" / "a.parquet")
    elif name == "arrow":  # as Dataset.save_to_disk()
        with pa.ipc.new_stream(str(folder / "data-00000-of-00001.arrow"), table.schema) as stream:
            stream.write_table(table, max_chunksize=20)
        (folder / "state.json").write_text('{"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}')
    elif name == "jsonl":
        (folder / "a.jsonl").write_text("".join(f"{row}\n".replace("'", '"') for row in table.to_pylist()))
    else:
        features = np.stack([table["x"], table["y"]], 1).astype(np.float32)
        save_file({"features": features, "label": table["label"].to_numpy()}, folder / "a.safetensors")


@pytest.mark.parametrize("name", ["csv", "jsonl", "parquet", "arrow", "safetensors"])
def test_every_format_as_local(job, server, name):
    folder = job.directory / "table"
    folder.mkdir()
    write_table(folder, name)
    server.put_folder(folder, f"table-{name}")
    train_set = {"name": name, "path": str(folder)} | ({} if name == "safetensors" else {"label": "label"})
    job.config["data"] = {"train": train_set, "batch_size": 8, "object_cache": {"dir": str(job.directory / "cache")}}
    inputs = 3 if name == "parquet" else 2
    job.config["model"] = {"name": "mlp", "input": "features", "inputs": inputs, "hidden": [4], "classes": 3}
    job.config["train"] = {"epochs": 1, "log_every": "1 step"}
    job.write()
    local = losses(train(job, folder))
    server.proxy.reset()
    endpoint = f"endpoint_override=127.0.0.1:{server.proxy.port}&scheme=http"
    path = f"s3://{BUCKET}/table-{name}?{endpoint}"
    assert losses(train(job, path, env=in_bucket(server, AWS_ENDPOINT_URL=None))) == local


@pytest.fixture
def tensors(job, server):
    """A folder of four safetensors shards, the last of which is smaller, and a job on it whose cache is empty."""
    folder = job.directory / "tensors"
    folder.mkdir()
    rng = np.random.default_rng(4)
    for shard, rows in enumerate((16, 16, 16, 8)):
        features = rng.standard_normal((rows, 2)).astype(np.float32)
        save_file({"features": features, "label": rng.integers(0, 3, rows)}, folder / f"{shard}.safetensors")
    job.config["data"] = {"train": {"name": "safetensors", "path": str(folder)}, "batch_size": 8, "shuffle": False, "workers": 1,
                          "object_cache": {"dir": str(job.directory / "cache")}}
    job.config["model"] = {"name": "mlp", "input": "features", "inputs": 2, "hidden": [4], "classes": 3}
    job.config["train"] = {"epochs": 1, "log_every": "1 step"}
    job.write()
    yield folder
    server.proxy.reset()
    shutil.rmtree(server.directory / BUCKET / "tensors", ignore_errors=True)


def test_safetensors_shards_are_opened_when_they_are_needed(job, server, tensors):
    """Those as large as the first."""
    path, how = f"s3://{BUCKET}/tensors", ["train.max_steps=2", "data.object_cache.timeout=500 ms"]
    server.put_folder(tensors, "tensors")
    first, whole = losses(train(job, tensors, *how)), losses(train(job, tensors))
    server.proxy.reset()
    server.proxy.fault = lambda method, path, number: "refuse" if "/1.safetensors" in path or "/2.safetensors" in path else None
    assert losses(train(job, path, *how, env=in_bucket(server))) == first
    ended = job.run(f"data.train.path={path}", "data.shuffle=true", *how, env=in_bucket(server))  # needs all of them
    assert ended.code == 75 and "attempts in" in ended.err and "step 1" not in ended.out, ended.err
    server.proxy.reset()
    _, run = train(job, path, "train.max_steps=3", env=in_bucket(server))
    ended = job.run(f"data.train.path={path}", ranks=2, options=["--resume", run.name], env=in_bucket(server))
    assert ended.code == 0, ended.err
    assert dict(losses((job, run))) == pytest.approx(dict(whole), rel=1e-5)


def test_safetensors_shard_as_large_as_the_first_with_other_arrays(job, server, tensors):
    """Also where bad samples are skipped: it is not one sample that is bad."""
    save_file({"features": np.zeros((16, 2), np.float32), "label": np.zeros(16)}, tensors / "1.safetensors")
    server.put_folder(tensors, "tensors")
    ended = job.run(f"data.train.path=s3://{BUCKET}/tensors", "data.max_bad_samples=40", env=in_bucket(server))
    assert ended.code == 78, ended.err
    assert (f"s3://{BUCKET}/tensors/1.safetensors: it is as large as s3://{BUCKET}/tensors/0.safetensors, but its arrays differ in "
            "names, types or shapes") in ended.err


@pytest.mark.parametrize("name, stored", [("mds", "raw"), ("mds", "zstd"), ("mds_images", "raw")])
def test_mds_as_local_and_only_the_files_of_the_index(job, server, name, stored):
    folder = job.directory / "mds"
    shutil.copytree(GOLDEN / stored, folder)
    (folder / "unused.mds").write_bytes(b"x" * 1000)
    server.put_folder(folder, f"{name}-{stored}")
    images = name == "mds_images"
    more = {"transforms": [{"name": "resize", "size": [8, 8]}]} if images else {"columns": ["f16", "typed", "value"]}
    job.config["data"] = {"train": {"name": name, "path": str(folder), "label": "class", **more}, "batch_size": 4,
                          "object_cache": {"dir": str(job.directory / "cache")}}  # fmt: skip
    job.config["model"] = (
        {"name": "cnn", "in_channels": 3, "image_size": 8, "channels": [4], "hidden": 8, "classes": 3}
        if images
        else {"name": "mlp", "input": "features", "inputs": 5, "hidden": [4], "classes": 3}
    )
    job.config["train"] = {"epochs": 1, "log_every": "1 step"}
    job.write()
    local = losses(train(job, folder))
    assert len(local) == 3
    server.proxy.reset()
    assert losses(train(job, f"s3://{BUCKET}/{name}-{stored}", env=in_bucket(server))) == local
    used = sum(path.stat().st_size for path in folder.rglob("shard.*"))
    assert server.proxy.bytes_of(".mds") + server.proxy.bytes_of(".zstd") == used


@pytest.mark.parametrize("wrong, text", [("image=value", "column 'value' is "), ("label=image", "column 'image' is "),
                                         ("image=imag", "no column 'imag'; did you mean 'image'?")])
def test_columns_of_mds_images_are_known_before_a_shard_is_fetched(job, server, wrong, text):
    server.put_folder(GOLDEN / "raw", "mds-columns")
    job.config["data"] = {"train": {"name": "mds_images", "path": f"s3://{BUCKET}/mds-columns", "label": "class",
                                    "transforms": [{"name": "resize", "size": [8, 8]}]},
                          "object_cache": {"dir": str(job.directory / "cache")}}  # fmt: skip
    job.write()
    server.proxy.reset()
    refuse_stored(job, server, ["shard.00000.mds: ", text], overrides=[f"data.train.{wrong}"])
    assert server.proxy.bytes_of(".mds") == 0


def write_tars(folder):
    rng = np.random.default_rng(2)
    folder.mkdir()
    for shard in range(3):
        with tarfile.open(folder / f"{shard}.tar", "w") as archive:
            for sample in range(16):
                image = io.BytesIO()
                Image.fromarray(rng.integers(0, 256, (9, 9, 3), np.uint8)).save(image, "PNG")
                for name, content in ((f"{sample}.png", image.getvalue()), (f"{sample}.cls", str(sample % 3).encode())):
                    info = tarfile.TarInfo(name)
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))


def tars_job(job):
    """A job that trains on three tars, and their folder."""
    folder = job.directory / "tars"
    write_tars(folder)
    train_set = {"name": "webdataset", "path": str(folder), "transforms": [{"name": "resize", "size": [8, 8]}]}
    job.config["data"] = {"train": train_set, "batch_size": 8, "shuffle_buffer": 20, "shuffle_lanes": 2,
                          "object_cache": {"dir": str(job.directory / "cache")}}
    job.config["model"] = {"name": "cnn", "in_channels": 3, "image_size": 8, "channels": [4], "hidden": 8, "classes": 3}
    job.config["train"] = {"epochs": 1, "log_every": "1 step"}
    job.write()
    return folder


def test_image_tars_as_local_and_resumed_on_two_ranks(job, server):
    folder = tars_job(job)
    server.put_folder(folder, "tars")
    local = losses(train(job, folder))
    assert len(local) == 6
    server.proxy.reset()
    path = "s3://data/tars/{0..2}.tar"
    _, run = train(job, path, "train.max_steps=3", env=in_bucket(server))
    ended = job.run(f"data.train.path={path}", ranks=2, options=["--resume", run.name], env=in_bucket(server))
    assert ended.code == 0, ended.err
    assert dict(losses((job, run))) == pytest.approx(dict(local), rel=1e-5)
    assert server.proxy.bytes_of(".tar") == sum(path.stat().st_size for path in folder.iterdir())
    ended = job.run("data.train.path=s3://data/tars/{0..3}.tar", env=in_bucket(server))
    assert ended.code == 78 and "s3://data/tars/3.tar: no such object" in ended.err, ended.err


def refuse_stored(job, server, texts, ranks=None, code=78, overrides=(), **changes):
    """As refuse(), but the cache may have been filled."""
    ended = job.run(*overrides, ranks=ranks, env=in_bucket(server, **changes))
    assert ended.code == code, ended.err
    assert any(all(text in line for text in texts) for line in error_lines(ended, ranks)), ended.err
    assert not job.runs.exists(), "a run directory was left"


def test_refused_before_training(stored, server):
    texts = ["no such object", "did you mean 's3://data/shards'?"]
    refuse_stored(stored, server, texts, overrides=["data.train.path=s3://data/shard"])
    texts = ["AWS_ENDPOINT_URL: 'nowhere' is not an endpoint"]
    refuse_stored(stored, server, texts, AWS_ENDPOINT_URL="nowhere")
    texts = ["AWS_ENDPOINT_URL: a user is not part of an endpoint; valid: http://host:port or https://host:port"]
    for scheme in ("", "http://"):
        refuse_stored(stored, server, texts, AWS_ENDPOINT_URL=f"{scheme}me:hidden@127.0.0.1:1")


def test_folders_of_images_are_refused(job):
    folder = "{name: image_folder, path: s3://data/images, transforms: [{name: resize, size: [8, 8]}]}"
    refuse(job, [f"data.train={folder}"], ["not supported in a bucket"], None)


def test_encrypted(job, tmp_path):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
                    "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out",
                    certificate], check=True, capture_output=True)
    server = ObjectServer(tmp_path, (certificate, key))
    try:
        folder = tmp_path / "shards"
        write_shards(folder)
        server.put_folder(folder, "shards")
        configured(job)
        refuse_stored(job, server, ["certificate is not trusted: set AWS_CA_BUNDLE"])
        job.train(env=in_bucket(server, AWS_CA_BUNDLE=str(certificate)))
    finally:
        server.close()
