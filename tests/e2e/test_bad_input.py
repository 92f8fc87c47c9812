"""Invalid input: one clear line per rank, the right exit code, no leftovers, no hang."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from safetensors.numpy import load_file

import processes
from processes import BIN, LOCKSTEP, TRAINER
from refusals import ALONE_AND_LAUNCHED, error_lines, files_below, refuse
from safetensors_file import assert_same_bits, checkpoints, last_weights

OVERRIDES = {
    "misspelled key": (
        ["optimizer.momentun=0.9"],
        ["optimizer.momentun: unknown key; did you mean 'momentum'?", "valid: ", "weight_decay"],
    ),
    "misspelled section": (["optimiser.lr=1"], ["optimiser", "did you mean 'optimizer'?"]),
    "key of a section without the section": (
        ["epochs=3"],
        ["argument 'epochs=3': epochs: unknown key; did you mean 'train.epochs'? valid: run, plugins, model, "],
    ),
    "key of another section": (
        ["train.lr=1"],
        ["train.lr: unknown key; did you mean 'optimizer.lr'? valid: epochs, max_steps, "],
    ),
    "key of a part without the part": (
        ["data.path=.data/mnist"],
        ["data.path: unknown key; did you mean 'data.train.path' or 'data.eval.path'? valid: train, eval, split, "],
    ),
    "key of another section that is similar to one in this": (
        ["checkpoint.workers=2"],
        ["checkpoint.workers: unknown key; did you mean 'writers' or 'data.workers'?"],
    ),
    "key of a section in a section": (
        ["train.patience=3"],
        ["train.patience: unknown key; did you mean 'train.early_stop.patience'?"],
    ),
    "wrong type": (["optimizer.lr=fast"], ["optimizer.lr: expected a number, got 'fast'"]),
    "fraction for a count": (
        ["train.epochs=1.5"],
        ["train.epochs: expected an integer, got '1.5'"],
    ),
    "out of range": (["train.epochs=0"], ["train.epochs", "0", "at least 1"]),
    "map for a number": (
        ["train.epochs={a: 1}"],
        ["train.epochs: expected an integer, got a map"],
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
        ["model.name: unknown model 'mpl'; did you mean 'mlp'? valid: cnn, compiled, decoder, gpt, hf, hf_encoder, mlp"],
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
        ["optimizer.weight_decay_on: has no effect without weight_decay"],
    ),
    "nesterov without momentum": (
        ["optimizer={name: sgd, nesterov: true}"],
        ["optimizer.nesterov", "momentum"],
    ),
    "logging rank that does not exist": (["tracking.ranks=[0,7]"], ["rank 7 does not exist"]),
    "a word for true of another language": (
        ["data.shuffle=True"],
        ["data.shuffle: expected true or false, got 'True'; write true"],
    ),
    "more memory than there is": (
        ["model.hidden=[1000000000000]"],
        ["model 'mlp' needs 3.1 PB for one tensor, this host has ", " of memory"],
    ),
    "early stop on a metric that the model has not": (
        ["train.early_stop={patience: 1, metric: f1}"],
        ["train.early_stop.metric: the evaluation has no 'f1'", "valid: accuracy, loss"],
    ),
    "early stop on a metric by its name in the log": (
        ["train.early_stop={patience: 1, metric: eval/loss}"],
        ["train.early_stop.metric: the evaluation has no 'eval/loss'", "valid: accuracy, loss"],
    ),
    "the best by a metric that the model has not": (
        ["checkpoint.keep_best={count: 1, metric: auc}"],
        ["checkpoint.keep_best.metric: the evaluation has no 'auc'", "valid: accuracy, loss"],
    ),
    "fewer classes than the labels": (
        ["model.classes=3"],
        ["the dataset has label 5, but the model has 3 classes", "set model.classes"],
    ),
    "other inputs than the data": (
        ["model.inputs=7"],
        ["model mlp has inputs: 7, but 'image' is [2, 1, 28, 28], 784 per sample"],
    ),
    "another field than those of the data": (
        ["model.input=pixels"],
        ["model mlp reads the field 'pixels', but the data have: image, label", "model.input=image"],
    ),
    "NCCL without a GPU": (
        ["distributed.backend=nccl"],
        ["distributed.backend 'nccl' does not work on device 'cpu'"],
    ),
    "missing plugin": (["plugins=[/nowhere/plugin.so]"], ["/nowhere/plugin.so", "no such file"]),
}


@ALONE_AND_LAUNCHED
@pytest.mark.parametrize("overrides, texts", OVERRIDES.values(), ids=OVERRIDES.keys())
def test_overrides(job, overrides, texts, ranks):
    refuse(job, overrides, texts, ranks)


# Errors that the launcher detects before it starts a rank.
UNREADABLE = {
    "without an equals sign": ("train.epochs", ["'train.epochs'", "key.subkey=value"]),
    "without a value": ("data.batch_size=", ["argument 'data.batch_size=': the value is empty", "null"]),
    "with a variable that is not set": (
        "data.train.path=${NOWHERE_TO_BE_FOUND}/x",
        ["the environment variable NOWHERE_TO_BE_FOUND is not set"],
    ),
}


@ALONE_AND_LAUNCHED
@pytest.mark.parametrize("override, texts", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_unparsable_override(job, override, texts, ranks):
    ended = job.run(override, ranks=ranks)
    assert ended.code == 78
    (line,) = ended.err.splitlines()
    for text in texts:
        assert text in line
    assert not job.runs.exists()


@ALONE_AND_LAUNCHED
def test_batch_not_divisible_by_ranks(job, ranks):
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
        ["run.yaml:3: model.classes: expected an integer, got 'many'"],
    ),
    "key given twice": ("run:\n  seed: 1\n  seed: 2\n", ["run.yaml:3", "seed", "twice"]),
    "broken YAML": ("model: {name: mlp\ntrain: }\n", ["run.yaml:"]),
    "a list": ("- model\n- data\n", ["run.yaml"]),
    "nothing": ("", ["run.yaml", "model"]),
    "no model": ("train:\n  epochs: 1\n", ["run.yaml", "model", "required"]),
    "a tab": (
        "model:\n\tname: mlp\n",
        ["run.yaml:2: not valid YAML: ", "run.yaml:2 is indented with a tab"],
    ),
    "no space after a colon": (
        "model: {name: mlp}\nrun:{name: e}\ndata: {train: {name: idx, path: x}}\n",
        ["run.yaml:2", "expected a space after 'run:'"],
    ),
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
@pytest.mark.parametrize("place", ["file", "file/runs"])
def test_the_directory_of_runs_is_a_file(job, place, ranks):
    (job.directory / "file").touch()
    before = files_below(job.directory)
    for options in [[], ["--dry-run"]] if ranks is None else [[]]:
        ended = job.run(f"run.dir={place}", ranks=ranks, options=options)
        (line,) = ended.err.splitlines()
        assert ended.code == 78 and line.endswith("error: run.dir: file is a file, not a directory; choose another")
    assert files_below(job.directory) == before


@pytest.mark.parametrize("words, text", [
    ("", "a command is missing; valid: launch, train, "),
    ("launch", "missing run file; usage: lockstep launch "),
    ("train", "no run file given; see lockstep-trainer --help"),
    ("plan", "lockstep plan: no run file given; see lockstep plan --help"),
    ("runs", "lockstep runs: a command is missing; valid: list, show, "),
    ("sweep", "lockstep sweep: a sweep file (*.yaml) or a command is missing; valid: list, show, best, "),
    ("ui token", "lockstep ui token: missing add, remove or list; see lockstep ui token --help"),
    ("artifacts", "lockstep artifacts: a command is missing; valid: list, show, "),
    ("ckpt", "lockstep ckpt: a command is missing; valid: list, verify, "),
    ("verify", "lockstep verify: a run is missing; see lockstep verify --help"),
    ("verify-setup", "lockstep verify-setup: a run file is missing; see lockstep verify-setup --help"),
    ("sync", "lockstep sync: missing run id; 'lockstep runs list' lists the runs"),
    ("new", "lockstep new: the kind of project is missing; valid: run, model, "),
    ("completion", "lockstep completion: expected bash, zsh or fish"),
])
def test_a_command_without_arguments_is_refused(words, text, tmp_path):
    """The help is printed only for --help."""
    ended = processes.run([LOCKSTEP, *words.split()], tmp_path)
    assert ended.code == 78 and ended.out == "" and ended.err.count("\n") == 1 and text in ended.err, ended.err
    assert processes.run([LOCKSTEP, *words.split(), "--help"], tmp_path).code == 0


@pytest.mark.parametrize("program", [[LOCKSTEP, "schema"], [LOCKSTEP, "plan", "run.yaml"], [LOCKSTEP, "version"], [LOCKSTEP, "completion", "bash"],
                                     [LOCKSTEP, "man"], [LOCKSTEP, "doctor"], [LOCKSTEP, "doctor", "--json"], [TRAINER, "--help"],
                                     [sys.executable, "-m", "lockstep.compile.command_line", "--help"]])
def test_output_that_cannot_be_written(job, program):
    """On a full disk one line, and the exit code of the environment; without a reader, that of SIGPIPE."""
    with open("/dev/full", "w") as full:
        ended = subprocess.run(program, cwd=job.directory, stdout=full, stderr=subprocess.PIPE, text=True, timeout=processes.TIMEOUT_S)
    assert ended.returncode == 75 and ended.stderr.count("\n") == 1, ended.stderr
    assert "error: cannot write the output: No space left on device" in ended.stderr
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(program, cwd=job.directory, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=processes.TIMEOUT_S)
    os.close(writer)
    assert ended.returncode in (-signal.SIGPIPE, 128 + signal.SIGPIPE) and ended.stderr == ""


def test_an_evaluation_that_cannot_be_written(job):
    run = job.train("train.max_steps=2")
    with open("/dev/full", "w") as full:
        ended = subprocess.run([TRAINER, "--evaluate", job.file, "--resume", run.name], cwd=job.directory, stdout=full, stderr=subprocess.PIPE,
                               text=True, timeout=processes.TIMEOUT_S)
    assert ended.returncode == 75 and "error: cannot write the output: No space left on device" in ended.stderr, ended.stderr


@pytest.mark.parametrize("words, text", [
    (["help", "sync"], "lockstep sync: send a recorded run to its sinks"),
    (["help", "help"], "usage: lockstep "),
])
def test_help_of_a_command(words, text):
    ended = processes.run([LOCKSTEP, *words], Path("/"))
    assert ended.code == 0 and ended.out.startswith(text), ended.out
    assert ended.out == processes.run([LOCKSTEP, words[1], "--help"], Path("/")).out


@pytest.mark.parametrize("words, text", [
    ("help synk", "lockstep: error: unknown command 'synk'; did you mean 'sync'? valid: launch, "),
    ("ui --port x", "lockstep: error: lockstep ui: --port x: expected a whole number; see lockstep ui --help"),
    ("ui --host 1.5 --port 1.5", "lockstep: error: lockstep ui: --port 1.5: expected a whole number; see lockstep ui --help"),
    ("ui --host x --port=x", "lockstep: error: lockstep ui: --port x: expected a whole number; see lockstep ui --help"),
    ("runs list --json=3", "lockstep: error: lockstep runs list: --json 3: takes no value; see lockstep runs --help"),
    ("runs list --json=false", "lockstep: error: lockstep runs list: --json false: takes no value; see lockstep runs --help"),
    ("runs list --tag", "lockstep: error: lockstep runs list: Option 'tag' is missing an argument; see lockstep runs --help"),
    ("runs export x --html /nowhere/x.html", "lockstep: error: lockstep runs export: --html /nowhere/x.html: the directory /nowhere does not exist"),
    ("ckpt export x --out", "lockstep-trainer: error: lockstep ckpt export: --out needs a value"),
])
def test_options_with_wrong_values(words, text, tmp_path):
    ended = processes.run([LOCKSTEP, *words.split()], tmp_path)
    assert ended.code == 78 and ended.err.count("\n") == 1 and ended.err.startswith(text), ended.err


def test_a_first_batch_replaces_no_file(job):
    (job.directory / "batch").write_text("mine")
    ended = job.run(options=["--first-batch", "batch"])
    assert error_lines(ended, None) == ["--first-batch batch: exists already"] and ended.code == 78
    assert (job.directory / "batch").read_text() == "mine"


def test_a_sheet_of_images_without_the_inspection(job):
    ended = job.run(options=["--sheet", "sheet.png"])
    assert error_lines(ended, None) == ["--sheet has no effect without --inspect-data"] and ended.code == 78


@ALONE_AND_LAUNCHED
def test_plugin_is_not_a_shared_object(job, ranks):
    refuse(job, [f"plugins=[{job.file}]"], [str(job.file), "not a shared object"], ranks)


def build_plugin(directory, source):
    path = directory / "plugin.so"
    (directory / "plugin.c").write_text(source)
    compiler = ["cc", "-shared", "-o", str(path), str(directory / "plugin.c")]
    subprocess.run(compiler, check=True, timeout=60)
    return path


@ALONE_AND_LAUNCHED
def test_plugin_of_another_build(job, ranks):
    """Its code must not run: it would silently exit the process."""
    stamp = 'const char s[] = "lockstep-plugin-stamp{interface=12 torch=1.0 cxx11_abi=1}";'
    trap = "__attribute__((constructor)) static void run(void) { __builtin_trap(); }"
    path = build_plugin(job.directory, f"{stamp}\n{trap}\n")
    refuse(job, [f"plugins=[{path}]"], [str(path), "torch=1.0", "rebuild the plugin"], ranks)


@ALONE_AND_LAUNCHED
def test_shared_object_is_not_a_plugin(job, ranks):
    path = build_plugin(job.directory, "int nothing;\n")
    refuse(job, [f"plugins=[{path}]"], [str(path), "no Lockstep stamp"], ranks)


@ALONE_AND_LAUNCHED
def test_device_cuda(job, ranks):
    """Rejected without a GPU, used with one."""
    if Path("/dev/nvidiactl").exists():
        job.train("distributed.device=cuda", "train.max_steps=1")
    else:
        texts = ["device 'cuda'", "no GPU was found", "distributed.device=cpu"]
        refuse(job, ["distributed.device=cuda"], texts, ranks)


def test_data_file_links_to_itself(job):
    for name in ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"]:
        (job.directory / name).symlink_to(name)
    texts = [f"{job.directory}/train-", "-ubyte: symbolic links that form a loop"]
    refuse(job, [f"data.train.path={job.directory}"], texts, None)


def test_inspect_hint_is_a_valid_shell_command(job):
    ended = job.run("run.dir=my 'runs", "train.max_steps=1")
    assert ended.code == 0, ended.err
    hint = next(line for line in ended.out.splitlines() if line.startswith("inspect with:"))
    command = shlex.split(hint.removeprefix("inspect with:"))
    assert command[1:3] == ["runs", "show"] and command[-2:] == ["--dir", "my 'runs"]


def test_resuming_a_finished_run_is_reported(job):
    run = job.train("train.max_steps=2")
    ended = job.run("train.max_steps=2", options=["--resume", run.name])
    assert ended.code == 0, ended.err
    assert "the run is already finished (step 2 of 2): nothing was trained" in ended.out


def test_dry_run(job):
    """Reports all errors before the first step, prints a plan, and writes no file."""
    before = files_below(job.directory)
    ended = job.run(options=["--dry-run"])
    assert ended.code == 0, ended.err
    assert "21 per epoch" in ended.out
    assert ended.out.endswith("run file, data and model are valid, and one batch passed\n")
    refuse_dry = job.run("model.classes=3", options=["--dry-run"])
    assert refuse_dry.code == 78
    assert "the dataset has label" in refuse_dry.err
    assert files_below(job.directory) == before


def test_dry_run_of_a_run_to_resume(job):
    run = job.train("train.max_steps=2")
    before = files_below(job.directory)
    options = ["--dry-run", "--resume", run.name]
    ended = job.run(options=options)
    assert ended.code == 0 and ended.out.endswith(f"weights: {run} after step 2\n"), ended.out + ended.err
    for overrides, words, text in [
        (["model.hidden=[16]"], options, f"{run}/checkpoints/2: 'layers.0.weight' is [32,784] in the checkpoint and [16,784] in the model"),
        ([], ["--dry-run", "--resume", "nowhere"], "--resume nowhere: there is no such run in "),
        ([], ["--inspect-data", "--resume", run.name], "--resume has no effect with --inspect-data"),
    ]:
        ended = job.run(*overrides, options=words)
        assert ended.code == 78 and text in error_lines(ended, None)[0], ended.err
    assert files_below(job.directory) == before
    shutil.rmtree(run / "checkpoints")  # training fetches one from the mirror
    mirrored = job.run("checkpoint.mirror=s3://bucket/runs", options=options)
    assert mirrored.code == 0, mirrored.err
    assert mirrored.out.endswith(f"{run.name} has no checkpoint here; --dry-run does not verify checkpoint.mirror\n")


FAULTS = {
    "no loss": "returned no loss",
    "no count": "returned count 0",
    "a wrong count": "returned count 7",
    "a loss per sample": "returned a loss of shape [2]; return its mean",
    "a detached loss": "returned a loss that is detached from the parameters",
    "an integer loss": "returned a loss of type Long",
    "double parameters": "must have the same dtype",
    "too large for a GPU": "does not fit the memory of the GPU for a batch of ",
    "not deterministic": "uses bincount_cuda, which has no deterministic form on this device: set train.deterministic=false",
    "meta device": "is on the meta device and has no values",
}


def use_faulty_model(job, fault):
    job.config["plugins"] = [str(BIN.parent / "tests" / "bin" / "faulty_model.so")]
    job.config["model"] = {"name": "faulty_model", "fault": fault}
    label = {"dtype": "int64", "values": "uniform", "high": 2}
    fields = {"image": {"shape": [3]}, "label": label}
    job.config["data"] = {"train": {"name": "synthetic", "samples": 64, "fields": fields}, "batch_size": 16}
    job.write()


@pytest.mark.parametrize("fault, text", FAULTS.items(), ids=FAULTS.keys())
def test_model_plugin_errors_are_attributed_to_the_plugin(job, fault, text):
    use_faulty_model(job, fault)
    ended = job.run(ranks=2)
    assert ended.code == 78, ended.err
    for line in error_lines(ended, 2):
        assert line.startswith("model 'faulty_model'") and text in line
    assert "report it" not in ended.err and "frame #" not in ended.err


def test_crashing_plugin_prints_its_stack(job):
    use_faulty_model(job, "segmentation fault")
    ended = job.run()
    assert ended.code == -signal.SIGSEGV
    assert "lockstep-trainer: SIGSEGV in (innermost function first):" in ended.err
    assert "faulty_model.so(" in ended.err.splitlines()[1]


def test_help_and_schema_include_plugin_keys(job):
    use_faulty_model(job, "none")
    for option, text in {"--help": "name: faulty_model  for tests", "--schema": '"fault"'}.items():
        ended = processes.run([TRAINER, option, job.file], job.directory)
        assert ended.code == 0, ended.err
        assert text in ended.out
    job.config["model"] = {"name": "faulty"}
    job.write()
    refuse(job, [], ["unknown model 'faulty'", "faulty_model", "(loaded plugins: faulty_model.so)"], None)


def use_arrays(job, **arrays):
    """64 samples of three inputs in an .npz file, and a model that fits."""
    numpy.savez(job.directory / "data.npz", **arrays)
    job.config["model"] = {"name": "mlp", "inputs": 3, "hidden": [], "classes": 2}
    train = {"name": "npy", "path": str(job.directory / "data.npz")}
    job.config["data"] = {"train": train, "batch_size": 16, "shuffle": False}
    job.write()


INPUTS = numpy.random.default_rng(0).normal(size=(64, 3))
LABELS = numpy.arange(64) % 2


def test_float64_arrays_train_like_float32(job):
    """numpy's default type works with the model."""
    weights = []
    for dtype in ("float64", "float32"):
        use_arrays(job, image=INPUTS.astype(dtype), label=LABELS)
        weights.append(last_weights(job.train()))
    assert_same_bits(*weights)


@ALONE_AND_LAUNCHED
def test_uint8_arrays_are_rejected_with_a_hint(job, ranks):
    use_arrays(job, image=(INPUTS * 20 + 128).astype("uint8"), label=LABELS)
    refuse(job, [], ["'image' is Byte [2, 3]", "fields: {image: {dtype: float32, divide_by: 255}}", "label: {}"], ranks)
    job.train("data.train.fields={image: {dtype: float32, divide_by: 255}, label: {}}", ranks=ranks)


def test_data_without_labels(job):
    use_arrays(job, image=INPUTS, target=LABELS)
    refuse(job, [], ["returned no loss (are the targets, such as 'label', in the batch?)", "image Double [2, 3], target Long [2]"], None)


def test_single_array_is_not_a_dataset(job):
    use_arrays(job, image=INPUTS, label=LABELS)
    path = job.directory / "x.npy"
    numpy.save(path, INPUTS)
    refuse(job, [f"data.train.path={path}"], [f"{path}: it is a single array: set path to its folder", "numpy.savez"], None)


def use_data_with_nan(job, sample=40):
    """One sample of 64 is nan. 40 and 41 are in step 3 of 4; of two ranks, 40 is read by rank 0 and 41 by rank 1."""
    inputs = INPUTS.astype("float32")
    inputs[sample] = float("nan")
    use_arrays(job, image=inputs, label=LABELS)
    job.config["checkpoint"] = {"every": "1 step", "keep_last": 99}
    job.write()


@ALONE_AND_LAUNCHED
def test_nan_loss_stops_the_run(job, ranks):
    use_data_with_nan(job)
    ended = job.run(ranks=ranks)
    assert ended.code == 78
    for line in error_lines(ended, ranks):
        assert line.startswith("step 3, rank 0: the loss is nan: field 'image' of sample 40 is not finite (train.non_finite: stop)")
    assert "-nan" not in ended.out
    (run,) = job.list()
    assert run["state"] == "failed"
    assert "the loss is nan" in json.loads(job.query("show", run["id"], "--json"))["reason"]
    steps = [int(path.name) for path in (job.only_run() / "checkpoints").iterdir() if path.name.isdigit()]
    assert max(steps) == 2, "a checkpoint has unusable weights"


@pytest.mark.parametrize("sample, rank", [(40, 0), (41, 1)])
def test_nan_loss_of_one_rank_names_its_step_and_rank(job, sample, rank):
    """Without a checkpoint after each step: the other rank has a step with wrong weights before the run stops."""
    use_data_with_nan(job, sample)
    ended = job.run("checkpoint.every=1000 steps", "train.log_every=1000 steps", ranks=2)
    assert ended.code == 78
    for line in error_lines(ended, 2):
        assert line.startswith(f"step 3, rank {rank}: the loss is nan: field 'image' of sample {sample} is not finite (train.non_finite: stop)")


@pytest.mark.parametrize("agent", ["true", "false"])
def test_excessive_learning_rate_stops_the_run(job, agent):
    ended = job.run("optimizer.lr=1e30", f"tracking.agent={agent}")
    assert ended.code == 78
    (line,) = error_lines(ended, None)
    assert line.startswith("step 2, rank 0: the loss is nan: the samples and the weights are finite") and "lower optimizer.lr" in line
    assert "-nan" not in ended.out + ended.err and "finished" not in ended.out
    assert [run["state"] for run in job.list()] == ["failed"]


def test_weights_that_are_not_finite_are_not_saved(job):
    """Finite losses until then: the last step of the run makes the weights infinite."""
    job.train("train.max_steps=1", ranks=None)
    ended = job.run("train.max_steps=2", "optimizer.lr=1e20", "optimizer.weight_decay=1e30", "checkpoint.keep_last=1", options=["--resume", job.only_run().name])
    assert ended.code == 78
    (line,) = error_lines(ended, None)
    assert line.startswith("step 2, rank 0: the weight '") and "(train.non_finite: stop)" in line
    assert checkpoints(job.only_run()) == [1]


@ALONE_AND_LAUNCHED
def test_nan_loss_can_be_skipped_on_all_ranks(job, ranks):
    use_data_with_nan(job)
    run = job.train("train.non_finite=skip", "train.log_every=1 step", ranks=ranks)
    assert job.series(run.name, "train/skipped_steps") == [(1, 0), (2, 0), (3, 1), (4, 0)]
    weights = load_file(last_weights(run))
    assert all(numpy.isfinite(weight).all() for weight in weights.values())


def test_losses_that_are_always_nan_end_the_run_also_in_fp16(job):
    use_arrays(job, image=INPUTS.astype("float32") * float("nan"), label=LABELS)
    job.write()
    ended = job.run("train.non_finite=skip", "train.precision=fp16", "train.epochs=100")
    assert ended.code == 78, ended.out
    (line,) = error_lines(ended, None)
    assert "20 steps in a row were skipped" in line


def test_nan_loss_can_be_ignored(job):
    use_data_with_nan(job)
    ended = job.run("train.non_finite=ignore", "optimizer.lr=0.1")
    assert ended.code == 0, ended.err
    assert "loss nan" in ended.out and "-nan" not in ended.out


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
    """As under another launcher: rank 0 cannot listen."""
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


@pytest.mark.parametrize("program", ["lockstep", "lockstep-data", "lockstep-trainer"])
def test_libraries_in_the_current_directory_are_not_loaded(tmp_path, program):
    linked = subprocess.run(["ldd", BIN / program], check=True, capture_output=True, text=True).stdout
    for library in re.findall(r"^\s*(\S+) => ", linked, re.MULTILINE):
        (tmp_path / library).touch()
    assert len(list(tmp_path.iterdir())) > 5
    ended = processes.run([BIN / program, "--help"], tmp_path)
    assert ended.code == 0, ended.err
