"""Whatever is wrong: one clear line per rank, the right exit code, nothing left behind, no hang."""

import socket
import subprocess
from pathlib import Path

import pytest

import processes
from processes import LOCKSTEP, TRAINER
from refusals import ALONE_AND_LAUNCHED, error_lines, files_below, refuse

OVERRIDES = {
    "misspelled key": (
        ["optimizer.momentun=0.9"],
        ["optimizer.momentun: unknown key; did you mean 'momentum'?", "valid: ", "weight_decay"],
    ),
    "misspelled section": (["optimiser.lr=1"], ["optimiser", "did you mean 'optimizer'?"]),
    "wrong type": (["optimizer.lr=fast"], ["optimizer.lr: expected a number, got 'fast'"]),
    "fraction for a count": (
        ["train.epochs=1.5"],
        ["train.epochs: expected a whole number, got '1.5'"],
    ),
    "out of range": (["train.epochs=0"], ["train.epochs", "0", "at least 1"]),
    "map for a number": (
        ["train.epochs={a: 1}"],
        ["train.epochs: expected a whole number, got a map"],
    ),
    "number for a list": (["model.hidden=32"], ["model.hidden", "list"]),
    "bad period": (["train.log_every=soon"], ["train.log_every", "soon", "steps"]),
    "bad choice": (["distributed.device=gpu"], ["distributed.device", "gpu", "auto, cpu, cuda"]),
    "a CUDA graph without a GPU": (
        ["train.cuda_graph=true"],
        ["train.cuda_graph has no effect on device cpu: it needs an NVIDIA GPU"],
    ),
    "unknown model": (
        ["model.name=mpl"],
        ["model.name: unknown model 'mpl'; did you mean 'mlp'? valid: cnn, compiled, gpt, mlp"],
    ),
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
    "size of evaluation batches without evaluation": (
        ["data.eval=null"],
        ["data.eval_batch_size: has no effect without data.eval or data.split.eval"],
    ),
    "the best without evaluation": (
        ["data.eval=null", "data.eval_batch_size=500", "checkpoint.keep_best.count=1"],
        ["checkpoint.keep_best: has no effect without data.eval or data.split.eval"],
    ),
    "milestones of time": (
        ["checkpoint.keep_every=5 min"],
        ["checkpoint.keep_every: expected steps or epochs"],
    ),
    "decay of matrices without decay": (
        ["optimizer.weight_decay_on=matrices"],
        ["optimizer.weight_decay_on has no effect without weight_decay"],
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
    ended = job.run("train.epochs", ranks=ranks)
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
    ended = job.run(f"run.dir={job.runs}", ranks=ranks)
    assert ended.code == 78, ended.err
    first = ended.err.splitlines()[0]
    assert "error: " in first
    for text in texts:
        assert text in first
    assert not job.runs.exists() and not (job.directory / "runs").exists()


@pytest.mark.parametrize("program", [[TRAINER], [LOCKSTEP, "launch", "-n", "2"]])
def test_missing_run_file(job, program):
    before = files_below(job.directory)
    ended = processes.run([*program, "nowhere.yaml"], job.directory)
    assert ended.code == 78
    (line,) = ended.err.splitlines()
    assert "error: nowhere.yaml: " in line and "No such file" in line
    assert files_below(job.directory) == before


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
    stamp = 'const char s[] = "lockstep-plugin-stamp{interface=2 torch=1.0 cxx11_abi=1}";'
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
        texts = ["device 'cuda'", "no GPU was found", "distributed.device=cpu"]
        refuse(job, ["distributed.device=cuda"], texts, ranks)


def test_occupied_port(job):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        before = files_below(job.directory)
        ended = job.run(ranks=2, options=["--master-port", port])
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
        ended = job.run(env=env)
    assert ended.code == 75
    (line,) = error_lines(ended, None)
    assert str(port) in line
    assert not job.runs.exists()
