"""checkpoint.mirror: checkpoints in a bucket of a real S3 server are whole or absent, and a run resumes from them with the same bits.

LOCKSTEP_MIRROR_KILLS (default 4) sets how often a training is killed, unsharded and sharded, LOCKSTEP_MIRROR_SEED when.
"""

import asyncio
import contextlib
import os
import random
import shutil
import signal

from pathlib import Path

import pytest

import processes
from conftest import long
from object_server import BUCKET
from processes import environment
from refusals import error_lines

STEPS = 8
KILLS = int(os.environ.get("LOCKSTEP_MIRROR_KILLS", "4"))
SEED = int(os.environ.get("LOCKSTEP_MIRROR_SEED", "1"))
WRITES_PER_START = 60  # the first requests of a training, one of which it is killed at


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


def rank_at(job, port):
    """The rank that is connected from this port."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    sockets = [f"socket:[{fields[9]}]" for fields in lines if int(fields[1].rpartition(":")[2], 16) == port]
    for rank, pid in processes.ranks_of(job.directory).items():
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                if os.readlink(file) in sockets:
                    return rank
    return None


def is_second_share(path):
    return "-00002-of-00002.safetensors" in path


def test_each_rank_uploads_its_share(mirrored, server):
    senders = []
    server.proxy.fault = lambda method, path, number: (
        senders.append((path.split("?")[0], rank_at(mirrored, server.proxy.client_port))) if method == "PUT" and "/8/" in path else None)
    run = mirrored.train("distributed.shard=full", ranks=2, env=mirrored.env)
    assert files_below(mirrored.bucket / run.name) == files_below(run / "checkpoints")
    assert {rank for path, rank in senders if is_second_share(path)} == {1}
    assert {rank for path, rank in senders if not is_second_share(path)} == {0}
    assert senders[-1][0].endswith("/8/manifest.json")


def test_rank_0_uploads_what_another_rank_could_not(mirrored, server):
    server.proxy.fault = lambda method, path, number: (
        "refuse" if is_second_share(path) and method != "GET" and rank_at(mirrored, server.proxy.client_port) == 1 else None)
    ended = mirrored.run("distributed.shard=full", "data.object_cache.timeout=100 ms", ranks=2, env=mirrored.env)
    assert ended.code == 0, ended.err
    assert "checkpoint.mirror: not uploaded by rank 1: s3://" in ended.out + ended.err
    run = mirrored.only_run()
    assert files_below(mirrored.bucket / run.name / "8") == files_below(run / "checkpoints" / "8")


def test_resumes_from_the_bucket_with_the_same_bits(mirrored, server):
    large = "model.hidden=[1600, 1600]"  # weights of 15 MB are fetched in two requests
    whole = mirrored.train(large, env=mirrored.env)
    first = mirrored.train(large, "train.max_steps=4", env=mirrored.env)
    shutil.rmtree(first)
    server.proxy.reset()
    ended = mirrored.run(large, options=["--resume", first.name], env=mirrored.env)
    assert ended.code == 0, ended.err
    weights = "checkpoints/8/model.safetensors"
    assert len([path for method, path, _ in server.proxy.requests if method == "GET" and "/4/model.safetensors" in path]) == 2
    assert (first / weights).read_bytes() == (whole / weights).read_bytes()
    assert [step for step, _ in mirrored.series(first.name, "train/loss")] == [5, 6, 7, 8]


def test_verify_leaves_the_bucket_as_it_is(mirrored):
    run = mirrored.train(env=mirrored.env)
    before = files_below(mirrored.bucket)
    for words, code in [(["verify", run.name, "optimizer.lr=0.2"], 1), (["verify-setup", mirrored.file, "--steps", "2"], 0)]:
        ended = processes.run([processes.LOCKSTEP, *words], mirrored.directory, mirrored.env)
        assert ended.code == code, ended.err
        assert files_below(mirrored.bucket) == before


def ckpt(job, *words):
    return processes.run([processes.LOCKSTEP, "ckpt", *words], job.directory, job.env)


def test_checkpoints_that_are_only_in_the_bucket_stay_there(mirrored):
    """Milestones of a run that is resumed on another disk; it fetches the latest checkpoint only."""
    settings = ["checkpoint.every=1 step", "checkpoint.keep_last=1", "checkpoint.keep_every=2 steps"]
    run = mirrored.train("train.max_steps=5", *settings, env=mirrored.env)
    assert whole_checkpoints(mirrored.bucket / run.name) == [2, 4, 5]
    shutil.rmtree(run)
    ended = mirrored.run(*settings, options=["--resume", run.name], env=mirrored.env)
    assert ended.code == 0, ended.err
    assert whole_checkpoints(run / "checkpoints") == [6, 8]
    assert whole_checkpoints(mirrored.bucket / run.name) == [2, 4, 6, 8]


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


class Kill:
    """Kills a job at a random moment of its uploads: some time after one of its requests, which the server gets or not."""

    def __init__(self, job, rng):
        self.job = job
        self.request = rng.randrange(WRITES_PER_START)
        self.delay_s = rng.choice([0, rng.uniform(0, 0.01)])
        self.is_lost = rng.random() < 0.5
        self.victim = rng.randrange(3)  # of two ranks: one of them, or all
        self.process, self.writes = None, 0

    def __call__(self, method, path, number):
        if method == "GET" or method == "HEAD" or "write-check" in path:
            return None
        self.writes += 1
        if self.writes != self.request + 1:
            return None
        asyncio.get_running_loop().call_later(self.delay_s, self.kill)
        return "refuse" if self.is_lost else None

    def kill(self):
        victims = processes.ranks_of(self.job.directory) or {0: self.process.pid}
        for pid in [victims[self.victim]] if self.victim in victims else victims.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def start_and_kill(job, server, rng, *settings, **how):
    """False if the training ended before the kill."""
    kill = Kill(job, rng)
    server.proxy.fault = kill
    kill.process = job.start(*settings, env=job.env, **how)
    ended = processes.finish(kill.process)
    processes.wait_until(lambda: not processes.find(job.directory), processes.TIMEOUT_S, "the agents of the run end")
    server.proxy.reset()
    assert ended.code in ((0, 75) if how["ranks"] else (0, -signal.SIGKILL)), ended.err
    return ended.code != 0


def assert_whole_or_absent(job, run_id, expected):
    """Every checkpoint with a manifest has the files and bits of the undisturbed run, and the latest one passes `ckpt fetch`."""
    steps = whole_checkpoints(job.bucket / run_id)
    for step in steps:
        assert bits_of(job.bucket / run_id / str(step)) == bits_of(expected / str(step)), f"step {step}"
    if steps:
        copies = job.directory / "copies"
        ended = ckpt(job, "fetch", f"{job.config['checkpoint']['mirror']}/{run_id}", "--dir", copies)
        assert ended.code == 0 and f"checkpoints/{steps[-1]}: ok, " in ended.out, ended.out + ended.err
        shutil.rmtree(copies)
    return steps


def bits_of(checkpoint):
    return {name: content for name, content in files_below(checkpoint).items() if name != "manifest.json"} | {"manifest.json": b""}


@pytest.mark.parametrize("ranks, shard", [long(None, "none"), (2, "full")])
def test_killed_at_random_moments_a_checkpoint_is_whole_or_absent(mirrored, server, ranks, shard):
    """Killed, resumed from the bucket alone, killed again: until the run ends, with the bits of an undisturbed one."""
    rng = random.Random(SEED)
    settings = [f"distributed.shard={shard}", "train.max_steps=60", "train.epochs=100", "checkpoint.keep_last=3"]
    whole = mirrored.train(*settings, "checkpoint.keep_last=100", "checkpoint.mirror=null", ranks=ranks, env=mirrored.env)
    expected = whole.rename(mirrored.directory / "whole") / "checkpoints"
    kills, partial, resumed, ends, run_id = 0, 0, 0, 0, None
    while kills < KILLS or run_id:
        options = ["--resume", run_id] if run_id else []
        if kills < KILLS:
            was_killed = start_and_kill(mirrored, server, rng, *settings, ranks=ranks, options=options)
        else:
            ended = mirrored.run(*settings, ranks=ranks, options=options, env=mirrored.env)
            assert ended.code == 0, ended.err
            was_killed = False
        kills += was_killed
        runs = list(mirrored.runs.glob("*/run.json"))
        run_id = runs[0].parent.name if runs else run_id  # none: killed before it was created
        shutil.rmtree(mirrored.runs, ignore_errors=not runs)
        steps = assert_whole_or_absent(mirrored, run_id, expected) if run_id else []
        files = files_below(mirrored.bucket / run_id) if run_id else {}
        partial += was_killed and {int(name.split("/")[0]) for name in files} > set(steps)
        assert was_killed or steps[-1] == 60
        if not was_killed or not steps:
            run_id = None
        ends += not was_killed
        resumed += run_id is not None
    print(f"{kills} kills, {partial} left a part of a checkpoint in the bucket, {resumed} resumed from there, {ends} runs to the end")
    assert partial > 0 and resumed > 0 and ends > 0


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
