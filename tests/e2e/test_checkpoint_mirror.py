"""checkpoint.mirror: checkpoints in a bucket of a real S3 server are whole or absent, and a run resumes from them with the same bits."""

import shutil
import signal

import pytest

import processes
from object_server import BUCKET, ObjectServer
from processes import environment
from refusals import error_lines

STEPS = 8


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = ObjectServer(tmp_path_factory.mktemp("server"))
    yield server
    server.close()


@pytest.fixture
def mirrored(job, server, request):
    """A job of 8 steps that saves, and mirrors, every second one."""
    prefix = request.node.name.replace("[", "-").replace("]", "")
    job.bucket = server.directory / BUCKET / prefix
    job.config["train"] = {"max_steps": STEPS, "log_every": "1 step"}
    job.config["checkpoint"] = {"every": "2 steps", "keep_last": 2, "mirror": f"s3://{BUCKET}/{prefix}"}
    job.config["data"]["object_cache"] = {"dir": str(job.directory / "cache"), "request_timeout": "3 s"}
    job.write()
    job.env = environment(**server.environment())
    yield job
    server.proxy.reset()


def files_below(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def whole_checkpoints(folder):
    """Steps of a run that have a manifest."""
    return sorted(int(path.parent.name) for path in folder.glob("*/manifest.json"))


@pytest.mark.parametrize("ranks, shard", [(1, "none"), (2, "full")])
def test_the_bucket_has_the_files_of_the_disk(mirrored, ranks, shard):
    run = mirrored.train(f"distributed.shard={shard}", ranks=ranks, env=mirrored.env)
    local = files_below(run / "checkpoints")
    assert whole_checkpoints(mirrored.bucket / run.name) == [6, 8]
    assert files_below(mirrored.bucket / run.name) == local


def test_resumes_from_the_bucket_with_the_same_bits(mirrored, server):
    whole = mirrored.train(env=mirrored.env)
    first = mirrored.train("train.max_steps=4", env=mirrored.env)
    shutil.rmtree(first)
    ended = mirrored.run(options=["--resume", first.name], env=mirrored.env)
    assert ended.code == 0, ended.err
    weights = "checkpoints/8/model.safetensors"
    assert (first / weights).read_bytes() == (whole / weights).read_bytes()
    assert [step for step, _ in mirrored.series(first.name, "train/loss")] == [5, 6, 7, 8]


def ckpt(job, *words):
    return processes.run([processes.LOCKSTEP, "ckpt", *words], job.directory, job.env)


def test_fetched_to_another_machine(mirrored, server):
    """As a whole and verified, or not at all."""
    run = mirrored.train(env=mirrored.env)
    local = files_below(run / "checkpoints")
    mirror = f"{mirrored.config['checkpoint']['mirror']}/{run.name}"
    shutil.rmtree(run)
    ended = ckpt(mirrored, "fetch", f"{mirror}/6", "--dir", mirrored.runs)
    assert ended.code == 0 and ended.out.startswith(f"{run}/checkpoints/6: ok, "), ended.out + ended.err
    assert ckpt(mirrored, "fetch", mirror, "--dir", mirrored.runs).code == 0
    assert files_below(run / "checkpoints") == local
    assert ckpt(mirrored, "verify", run.name, "--dir", mirrored.runs).out.count("ok, ") == 2
    predicted = mirrored.run(options=["--predict", "predictions.safetensors", "--resume", run.name])
    assert predicted.code == 0 and f"{run} after step 8" in predicted.out, predicted.err

    shutil.rmtree(run)
    weights = mirrored.bucket / run.name / "8/model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    server.put(str(weights.relative_to(server.directory / BUCKET)), bytes(content))
    ended = ckpt(mirrored, "fetch", mirror, "--dir", mirrored.runs)
    assert ended.code == 75 and "model.safetensors" in ended.err and len(ended.err.splitlines()) == 1, ended.err
    assert files_below(run) == {}


def test_paths_in_buckets_that_are_refused(mirrored, server):
    server.put("fetch/run/4/manifest.json", b"{}")
    server.put("fetch/run/2/model.safetensors", b"")
    for words, text in ((["verify", "s3://data/run/4"], "copy it to this machine first; a mirrored checkpoint with lockstep ckpt fetch"),
                        (["fetch", "runs/run"], "'runs/run' is not in a bucket"), (["fetch", "s3://data/8"], "expected s3://bucket/prefix/RUN"),
                        (["fetch", "s3://data/fetch/none"], "there is no whole checkpoint"),
                        (["fetch", "s3://data/fetch/run/2"], "there is no whole checkpoint 2; there are 4 to 4")):
        ended = ckpt(mirrored, *words)
        assert ended.code == 78 and text in ended.err and len(ended.err.splitlines()) == 1, ended.err
    for words in (["--predict", "x", "--resume", "s3://data/run"], ["--resume", "s3://data/run/4"]):
        ended = mirrored.run(options=words, env=mirrored.env)
        assert ended.code == 78 and "--resume: 's3://data/run" in ended.err and "ckpt fetch" in ended.err, ended.err
    ended = mirrored.run("train.init_from=s3://data/run/4/model.safetensors", env=mirrored.env)
    assert ended.code == 78 and "train.init_from: 's3://data/run/4/model.safetensors' is in a bucket" in ended.err
    assert not mirrored.runs.exists()


@pytest.mark.parametrize("uploads", [1, 3, 4, 6, 9])
def test_killed_at_any_moment_a_checkpoint_is_whole_or_absent(mirrored, server, uploads):
    whole = mirrored.train(env=mirrored.env)
    whole = whole.rename(mirrored.directory / "whole") / "checkpoints/8"
    started, writes = [], []

    def kill_in_upload(method, path, number):
        if method == "PUT" and ("safetensors?" in path or "manifest.json?" in path):
            writes.append(path)
            if len(writes) == uploads:
                started[0].send_signal(signal.SIGKILL)

    server.proxy.fault = kill_in_upload
    started.append(mirrored.start(env=mirrored.env))
    started[0].communicate(timeout=processes.TIMEOUT_S)
    assert started[0].returncode == -signal.SIGKILL
    server.proxy.reset()
    run = mirrored.only_run()
    steps = whole_checkpoints(mirrored.bucket / run.name)
    for step in steps:
        assert files_below(mirrored.bucket / run.name / str(step)).keys() == files_below(whole).keys()
    shutil.rmtree(run / "checkpoints")
    if not steps:
        return
    ended = mirrored.run(options=["--resume", run.name], env=mirrored.env)
    assert ended.code == 0, ended.err
    assert (run / "checkpoints/8/model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert 8 in whole_checkpoints(mirrored.bucket / run.name)


def test_a_server_that_goes_away_does_not_stop_training(mirrored, server):
    server.proxy.fault = lambda method, path, number: "refuse" if "/4/" in path and method == "PUT" else None
    ended = mirrored.run("data.object_cache.timeout=100 ms", "checkpoint.every=4 steps", env=mirrored.env)
    assert ended.code == 0, ended.err
    assert "checkpoint.mirror: not uploaded: s3://" in ended.out + ended.err
    run = mirrored.only_run()
    assert (run / "checkpoints/8").exists()
    assert 8 in whole_checkpoints(mirrored.bucket / run.name)


@pytest.mark.parametrize("mirror, text", [
    ("/local", "checkpoint.mirror: '/local' is not in a bucket"), ("s3://nowhere/x", "no such bucket"),
    ("s4://data/x", "unknown scheme 's4'"), (f"s3://{BUCKET}/x", "access denied")])
def test_refused_before_training(mirrored, server, mirror, text):
    if "denied" in text:
        server.proxy.fault = lambda method, path, number: (403, "AccessDenied") if method in ("PUT", "POST") else None
    ended = mirrored.run(f"checkpoint.mirror={mirror}", env=mirrored.env)
    assert ended.code == 78, ended.err
    assert [text in line for line in error_lines(ended, None)] == [True]
    assert not mirrored.runs.exists()
