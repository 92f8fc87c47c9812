"""Whatever is wrong: one clear line per rank, the right exit code, nothing left behind, no hang."""

import gzip
import socket
import subprocess
from pathlib import Path

import pytest

import processes
from conftest import MNIST
from processes import LOCKSTEP, TRAINER
from safetensors_file import checkpoints

TIMEOUT_S = 30
ALONE_AND_LAUNCHED = pytest.mark.parametrize("ranks", [None, 2], ids=["alone", "launched"])
ERROR = "lockstep-trainer: error: "


def error_lines(ended, ranks):
    """The trainers' own error lines, which must be all that is on stderr but the launcher's report."""
    lines = ended.err.splitlines()
    if ranks is None:
        assert len(lines) == 1, ended.err
        assert lines[0].startswith(ERROR)
        return [lines[0][len(ERROR) :]]
    begin = next((i for i, line in enumerate(lines) if line.startswith("lockstep: ")), None)
    assert begin is not None, ended.err
    told = {}
    for line in lines[:begin]:
        rank, _, text = line.partition("] " + ERROR)
        assert rank.startswith("[rank ") and text, f"not an error line: {line}"
        assert rank not in told, f"two errors of one rank:\n{ended.err}"
        told[rank] = text
    assert told, ended.err
    report = lines[begin:]
    assert "failed first: exited with code" in report[0]
    assert report[1].strip() in told.values(), ended.err
    return list(told.values())


def assert_refused(job, ended, code, texts, ranks):
    assert ended.code == code, ended.err
    for line in error_lines(ended, ranks):
        for text in texts:
            assert text in line
    assert not job.runs.exists(), "a run directory was left"


def files_below(directory):
    return sorted(path for path in directory.rglob("*"))


def refuse(job, overrides, texts, ranks, code=78):
    """Runs and expects one error with `texts`, and not one new file."""
    before = files_below(job.directory)
    ended = job.run(*overrides, ranks=ranks, timeout=TIMEOUT_S)
    assert_refused(job, ended, code, texts, ranks)
    assert files_below(job.directory) == before
    return ended


OVERRIDES = {
    "misspelled key": (
        ["optimizer.momentun=0.9"],
        ["optimizer.momentun: unknown key; did you mean 'momentum'?", "valid: ", "weight_decay"],
    ),
    "misspelled section": (["optimiser.lr=1"], ["optimiser", "did you mean 'optimizer'?"]),
    "wrong type": (["optimizer.lr=fast"], ["optimizer.lr: expected a number, got 'fast'"]),
    "fraction for a count": (["train.epochs=1.5"], ["train.epochs: expected a whole number, got '1.5'"]),
    "out of range": (["train.epochs=0"], ["train.epochs", "0", "at least 1"]),
    "map for a number": (["train.epochs={a: 1}"], ["train.epochs: expected a whole number, got a map"]),
    "number for a list": (["model.hidden=32"], ["model.hidden", "list"]),
    "bad period": (["train.log_every=soon"], ["train.log_every", "soon", "steps"]),
    "bad choice": (["distributed.device=gpu"], ["distributed.device", "gpu", "auto, cpu, cuda"]),
    "unknown model": (["model.name=mpl"], ["unknown model 'mpl'; did you mean 'mlp'? valid: cnn, mlp"]),
    "unknown dataset": (["data.train.name=idxx"], ["unknown dataset 'idxx'; did you mean 'idx'?"]),
    "unknown optimizer": (["optimizer.name=sdg"], ["unknown optimizer 'sdg'; did you mean 'sgd'?"]),
    "unknown schedule": (["schedule.name=cosin"], ["unknown schedule 'cosin'", "'cosine'"]),
    "unknown sink": (["tracking.sinks=[consol]"], ["unknown sink 'consol'", "'console'"]),
    "batch size twice": (
        ["data.per_rank_batch_size=8"],
        ["batch_size", "per_rank_batch_size"],
    ),
    "missing data directory": (
        ["data.train.path=/nowhere"],
        ["no file /nowhere/train-images-idx3-ubyte", "make setup"],
    ),
    "more samples than there are": (["data.train.limit=60001"], ["limit 60001", "60000"]),
    "longer warm-up than the run": (
        ["schedule={name: cosine, warmup_steps: 100}"],
        ["schedule.warmup_steps (100)", "the steps of the run (21)"],
    ),
    "nesterov without momentum": (
        ["optimizer={name: sgd, nesterov: true}"],
        ["optimizer.nesterov", "momentum"],
    ),
    "logging rank that does not exist": (["tracking.ranks=[0,7]"], ["no rank 7"]),
    "missing plugin": (["plugins=[/nowhere/plugin.so]"], ["/nowhere/plugin.so", "No such file"]),
}


@ALONE_AND_LAUNCHED
@pytest.mark.parametrize("overrides, texts", OVERRIDES.values(), ids=OVERRIDES.keys())
def test_overrides(job, overrides, texts, ranks):
    refuse(job, overrides, texts, ranks)


@ALONE_AND_LAUNCHED
def test_an_override_without_equals_sign(job, ranks):
    ended = job.run("train.epochs", ranks=ranks, timeout=TIMEOUT_S)
    assert ended.code == 78
    (line,) = ended.err.splitlines()
    assert "'train.epochs'" in line and "key.subkey=value" in line
    assert not job.runs.exists()


@ALONE_AND_LAUNCHED
def test_batch_that_the_ranks_do_not_divide(job, ranks):
    if ranks is None:
        assert job.run("data.batch_size=47", "train.max_steps=1").code == 0
        return
    refuse(job, ["data.batch_size=47"], ["data.batch_size: 47", "2 ranks", "46 or 48"], ranks)


def test_more_ranks_than_samples(job):
    refuse(job, ["data.train.limit=2"], ["more ranks than samples", "2 samples", "3 ranks"], 3)


FILES = {
    "misspelled key": (
        "model:\n  name: mlp\n  hiden: [3]\n",
        ["run.yaml:3: model.hiden: unknown key; did you mean 'hidden'?"],
    ),
    "wrong type": (
        "model:\n  name: mlp\n  classes: many\n",
        ["run.yaml:3: model.classes: expected a whole number, got 'many'"],
    ),
    "key given twice": ("run:\n  seed: 1\n  seed: 2\n", ["run.yaml:3", "seed", "twice"]),
    "broken YAML": ("model: {name: mlp\ntrain: }\n", ["run.yaml:"]),
    "a list": ("- model\n- data\n", ["run.yaml"]),
    "nothing": ("", ["run.yaml", "model"]),
    "no model": ("train:\n  epochs: 1\n", ["run.yaml", "model", "required"]),
    "binary": ("\x01\x02\x00\x03", ["run.yaml"]),
}


@ALONE_AND_LAUNCHED
@pytest.mark.parametrize("content, texts", FILES.values(), ids=FILES.keys())
def test_run_file(job, content, texts, ranks):
    job.file.write_text(content)
    ended = job.run(f"run.dir={job.runs}", ranks=ranks, timeout=TIMEOUT_S)
    assert ended.code == 78, ended.err
    first = ended.err.splitlines()[0]
    assert "error: " in first
    for text in texts:
        assert text in first
    assert not job.runs.exists() and not (job.directory / "runs").exists()


@pytest.mark.parametrize("program", [[TRAINER], [LOCKSTEP, "launch", "-n", "2"]])
def test_missing_run_file(job, program):
    before = files_below(job.directory)
    ended = processes.run([*program, "nowhere.yaml"], job.directory, timeout=TIMEOUT_S)
    assert ended.code == 78
    (line,) = ended.err.splitlines()
    assert "error: nowhere.yaml: " in line and "No such file" in line
    assert files_below(job.directory) == before


@pytest.fixture
def small_data(job):
    """The first 100 training samples in a directory of their own, as the job's training set."""
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
def test_a_label_that_the_model_does_not_know(job, small_data, ranks):
    """Seen only when the sample is: the run has begun, and ends as failed."""
    change("labels-idx1", lambda raw: raw[:-1] + b"\x0a")(small_data)
    ended = job.run(ranks=ranks, timeout=TIMEOUT_S)
    assert ended.code == 78, ended.err
    told = [line for line in error_lines(ended, ranks) if "label" in line and "10" in line]
    assert len(told) == 1, ended.err
    if ranks:
        assert told[0] in ended.err[ended.err.index("\nlockstep: ") :]
    assert [entry["state"] for entry in job.list()] == ["failed"]


def test_the_small_data_is_good(job, small_data):
    """Nothing but the damage is what the tests above see."""
    job.train("train.max_steps=1", ranks=2)


@ALONE_AND_LAUNCHED
def test_a_plugin_that_is_no_shared_object(job, ranks):
    refuse(job, [f"plugins=[{job.file}]"], [str(job.file), "not a shared object"], ranks)


def build_plugin(directory, source):
    path = directory / "plugin.so"
    (directory / "plugin.c").write_text(source)
    compiler = ["cc", "-shared", "-o", str(path), str(directory / "plugin.c")]
    subprocess.run(compiler, check=True, timeout=60)
    return path


@ALONE_AND_LAUNCHED
def test_a_plugin_of_another_build(job, ranks):
    """Its code must not run: it would end the process without a word."""
    stamp = 'const char s[] = "lockstep-plugin-stamp{interface=1 torch=1.0 cxx11_abi=1}";'
    trap = "__attribute__((constructor)) static void run(void) { __builtin_trap(); }"
    path = build_plugin(job.directory, f"{stamp}\n{trap}\n")
    refuse(job, [f"plugins=[{path}]"], [str(path), "torch=1.0", "rebuild the plugin"], ranks)


@ALONE_AND_LAUNCHED
def test_a_shared_object_that_is_no_plugin(job, ranks):
    path = build_plugin(job.directory, "int nothing;\n")
    refuse(job, [f"plugins=[{path}]"], [str(path), "no Lockstep stamp"], ranks)


@ALONE_AND_LAUNCHED
def test_device_cuda(job, ranks):
    """Without a GPU it is refused. With one it is used."""
    if Path("/dev/nvidiactl").exists():
        job.train("distributed.device=cuda", "train.max_steps=1")
    else:
        refuse(job, ["distributed.device=cuda"], ["cuda", "no GPU", "distributed.device=cpu"], ranks)


def test_occupied_port(job):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        before = files_below(job.directory)
        ended = job.run(ranks=2, options=["--master-port", port], timeout=TIMEOUT_S)
    assert ended.code == 75
    (line,) = ended.err.splitlines()
    assert f"port {port}" in line and "in use" in line and "--master-port" in line
    assert files_below(job.directory) == before


def test_occupied_port_without_launcher(job):
    """As under another launcher: rank 0 finds that it cannot listen."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ranks = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
        env = processes.environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **ranks)
        ended = job.run(env=env, timeout=TIMEOUT_S)
    assert ended.code == 75
    (line,) = error_lines(ended, None)
    assert str(port) in line
    assert not job.runs.exists()


class Disk:
    """A small file system of its own in memory."""

    def __init__(self, path):
        self.path = path
        path.mkdir()
        self.mounted = False

    def mount(self, *options):
        flags = ",".join((*(["remount"] if self.mounted else []), *options))
        command = ["mount", "-t", "tmpfs", "-o", flags, "tmpfs", str(self.path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
        assert done.returncode == 0, f"this test needs to be root, to mount: {done.stderr}"
        self.mounted = True

    def unmount(self):
        if self.mounted:
            subprocess.run(["umount", str(self.path)], check=True, timeout=10)


@pytest.fixture
def disk(job, nothing_keeps_running):
    disk = Disk(job.directory / "disk")
    yield disk
    disk.unmount()


@ALONE_AND_LAUNCHED
def test_disk_that_is_full_at_the_start(job, disk, ranks):
    disk.mount("size=64k")
    (disk.path / "filler").write_bytes(bytes(64 << 10))
    ended = job.run(f"run.dir={disk.path}/runs", ranks=ranks, timeout=TIMEOUT_S)
    assert ended.code == 75
    first = ended.err.splitlines()[0]
    assert "No space left on device" in first and str(disk.path) in first
    assert [path.name for path in disk.path.iterdir()] == ["filler"]


@ALONE_AND_LAUNCHED
def test_disk_that_fills_up_during_training(job, disk, ranks):
    disk.mount("size=4m")
    every_step = ["checkpoint.every=1 step", "checkpoint.keep_last=1000", "train.epochs=100"]
    overrides = [f"run.dir={disk.path}/runs", "model.hidden=[64]", *every_step]
    ended = job.run(*overrides, ranks=ranks, timeout=TIMEOUT_S)
    assert ended.code == 75, ended.err
    told = error_lines(ended, ranks)
    assert any("No space left on device" in line and "checkpoints" in line for line in told)
    run_dir = next((disk.path / "runs").iterdir())
    saved = checkpoints(run_dir)
    assert len(saved) >= 2
    names = {path.name for path in (run_dir / "checkpoints").iterdir()}
    assert names == {str(step) for step in saved}, "half a checkpoint was left"
    job.runs = disk.path / "runs"
    assert [entry["state"] for entry in job.list()] == ["failed"]

    disk.mount("size=64m")
    overrides += [f"train.max_steps={saved[-1] + 3}"]
    resumed = job.run(*overrides, ranks=ranks, options=["--resume", run_dir.name])
    assert resumed.code == 0, resumed.err
    assert "cannot be used" not in resumed.out
    assert checkpoints(run_dir)[: len(saved)] == saved
    assert [entry["state"] for entry in job.list()] == ["finished"]


@ALONE_AND_LAUNCHED
def test_read_only_run_directory(job, disk, ranks):
    disk.mount("size=1m")
    disk.mount("ro")
    ended = job.run(f"run.dir={disk.path}/runs", ranks=ranks, timeout=TIMEOUT_S)
    assert ended.code == 75
    first = ended.err.splitlines()[0]
    assert "Read-only file system" in first and str(disk.path) in first
    assert not list(disk.path.iterdir())


@ALONE_AND_LAUNCHED
def test_run_directory_that_is_a_file(job, ranks):
    ended = job.run(f"run.dir={job.file}", ranks=ranks, timeout=TIMEOUT_S)
    assert ended.code == 75
    assert str(job.file) in ended.err.splitlines()[0]
