"""A compiled Python model trains as in Python, on any number of ranks and without Python."""

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import pytest
import torch
import yaml
from lockstep import models
from safetensors.torch import load, load_file, load_model, save_file, save_model
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import GPT2LMHeadModel

import compiled_models
import compiled_peer
import processes
from conftest import MNIST, Job, base_config, long
from processes import BIN, TIMEOUT_S, SOURCE
from refusals import refuse
from safetensors_file import assert_same_bits, checkpoints, last_weights
from test_compiled_cases import quick_compiler_in
from test_disk import disk  # noqa: F401, a fixture
from test_gpt import SIZES, make_documents
from test_resume import assert_same_checkpoint, resume

sys.path.insert(0, str(SOURCE / "tests" / "golden"))
import idx

TORCH = torch.__version__.split("+")[0]
MODELS = Path(compiled_models.__file__)
COMPILE = Path(sys.executable).parent / "lockstep-compile"
STEPS = 500
SAMPLES = 768  # 1 and 2 ranks have whole batches only
# Compiled and eager code sum in a different order: rounding makes the losses of single steps diverge in training.
LOSS_TOLERANCE = 2e-3
WEIGHT_TOLERANCE = 5e-3

RECIPE = SOURCE / "examples" / "compiled"
KINDS = {
    "gpt2": [f"{MODELS}:gpt2", "--loss", "model", "--batch", "text", "--dynamic-batch"],
    "net": [f"{RECIPE}/model.py:make_model", "--loss", "cross_entropy", "--batch", f"{RECIPE}/run.yaml",
            "--set", f"data.train.path={MNIST}", "--set", f"data.eval.path={MNIST}"],
    "gpt": ["lockstep.models:gpt", *[f"{key}={value}" for key, value in SIZES.items()], "--loss", "cross_entropy",
            "--batch", "documents.yaml", "--set", "data.per_rank_batch_size=6", "--segments", 3],
    "mlp": ["lockstep.models:mlp", "hidden=[32]", "--loss", "cross_entropy", "--batch", "digits.yaml", "--ranks", 2],
}
BATCH = {"gpt2": 24, "net": 64, "gpt": 6, "mlp": 24}  # of a rank
TRAINED = ("gpt2", "net", "mlp")


def documents(path):
    return {"name": "tokens", "path": str(path), "length": SIZES["context"], "separator": 0}


def write_run_files(directory):
    """Run files with the datasets of the example batches and without a model."""
    make_documents(directory / "documents.bin", 72)
    digits = base_config(directory)
    text = {"data": {"train": documents(directory / "documents.bin")}}
    for name, config in (("digits", digits), ("documents", text)):
        config["model"] = {"name": "compiled", "package": "not-yet.ls2"}
        (directory / f"{name}.yaml").write_text(yaml.safe_dump(config))


def compile_package(kind, directory, compiler):
    out = directory / f"{kind}.ls2"
    command = [COMPILE, *KINDS[kind], "--seed", 7, "-o", out]
    temporary = directory / f"temporary-{kind}"
    temporary.mkdir()
    path = f"{BIN}:{os.environ['PATH']}"
    environment = processes.environment(TMPDIR=temporary, PATH=path, XDG_CACHE_HOME=directory / "cache", CXX=compiler)
    ended = processes.run(command, directory, environment, timeout=900)
    assert (ended.code, ended.err) == (0, "")
    stages = [line.partition("] ")[2] for line in ended.out.splitlines() if re.match(r"\[ *\d+ s\] ", line)]
    assert stages[:3] == ["trying the model in Python", "exporting training", "exporting evaluation"]
    assert re.fullmatch(r"code for \d+ graphs?", stages[3])
    assert all(stage.startswith(f"{stages[3]}: ") for stage in stages[4:-1])
    assert stages[-1] == "checking the compiled code against Python"
    left = [path for path in temporary.rglob("*") if path.is_file()]
    assert not left, "later compilations may use them"
    return out


@pytest.fixture(scope="session")
def packages(tmp_path_factory):
    """{kind: path}. Two at a time: most of the time is spent in the compiler. One with optimized code, as users have."""
    directory = tmp_path_factory.mktemp("packages")
    write_run_files(directory)
    compilers = {kind: os.environ.get("CXX") if kind == "net" else quick_compiler_in(directory) for kind in KINDS}
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(KINDS, pool.map(lambda kind: compile_package(kind, directory, compilers[kind]), KINDS)))


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    """Learnable sequences: each counts up from its first token."""
    path = tmp_path_factory.mktemp("texts") / "texts.npz"
    first = numpy.random.default_rng(0).integers(0, 64, (SAMPLES, 1))
    tokens = (first + numpy.arange(compiled_models.TOKENS)) % 64
    numpy.savez(path, input_ids=tokens, labels=tokens)
    return path


def use(job, package, kind, texts=None):
    """`job` trains the package, with batches of the compiled size."""
    job.config["model"] = {"name": "compiled", "package": str(package)}
    job.config["data"]["train"]["limit"] = SAMPLES
    job.config["data"].pop("batch_size", None)
    job.config["data"]["per_rank_batch_size"] = BATCH[kind]
    job.config["optimizer"] = {"name": "sgd", "lr": 0.02, "momentum": 0.9}
    job.config["checkpoint"] = {"every": "1000 epochs"}
    job.config["train"] = {"epochs": 1000, "log_every": "1 step", "eval_every": "1000 epochs"}
    if kind == "gpt2":
        job.config["data"]["train"] = {"name": "npy", "path": str(texts)}
        job.config["data"]["eval"] = {"name": "npy", "path": str(texts), "limit": 101}
    job.write()


def fields_of(kind, texts):
    if kind == "gpt2":
        with numpy.load(texts) as arrays:
            return {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    images, labels = idx.load_split(MNIST, "train", SAMPLES)
    return {"image": images, "label": labels}


def eager_loss(kind):
    if kind == "gpt2":
        return lambda module, batch: module(**batch).loss
    return lambda module, batch: F.cross_entropy(module(batch["image"]), batch["label"])


def build_eager(kind):
    torch.manual_seed(7)
    return getattr(compiled_models, kind)()


def load_weights(run_dir):
    return load_file(last_weights(run_dir))


def assert_close(ours, module):
    """Weights and buffers, by their Python names."""
    theirs = module.state_dict()
    assert ours and set(ours) <= set(theirs)
    for name, tensor in ours.items():
        difference = (tensor.double() - theirs[name].double()).abs().max().item()
        assert difference <= WEIGHT_TOLERANCE * max(1.0, theirs[name].abs().max().item()), (name, difference)


@pytest.mark.parametrize("ranks", [long(1), 2])
@pytest.mark.parametrize("kind", ["gpt2", long("net"), "mlp"])
def test_trains_like_python(job, packages, texts, kind, ranks):
    use(job, packages[kind], kind, texts)
    run_dir = job.train(f"train.max_steps={STEPS}", ranks=ranks)
    module = build_eager(kind)
    torch.set_num_threads(1)
    data = compiled_peer.batches(fields_of(kind, texts), ranks, BATCH[kind], 7, STEPS)
    expected = compiled_peer.train(module, eager_loss(kind), data, lr=0.02, momentum=0.9)
    losses = [value for _, value in job.series(run_dir.name, "train/loss")]
    assert len(losses) == STEPS
    assert max(abs(a - b) for a, b in zip(losses, expected)) <= LOSS_TOLERANCE
    assert losses[-1] < losses[0] / 2
    assert_close(load_weights(run_dir), module)


def test_python_loads_the_checkpoint(job, packages):
    use(job, packages["net"], "net")
    loaded = load_weights(job.train("train.max_steps=3"))
    module = compiled_models.net()
    module.load_state_dict(loaded, strict=True)
    assert loaded["body.1.num_batches_tracked"].item() == 3


@pytest.mark.parametrize("ranks", [long(1), 2])
@pytest.mark.parametrize("kind", TRAINED)
def test_resumed_run_equals_uninterrupted_run(job, tmp_path_factory, packages, texts, kind, ranks):
    whole = Job(tmp_path_factory.mktemp("whole"))
    for each in (job, whole):
        use(each, packages[kind], kind, texts)
    never_stopped = whole.train("train.max_steps=25", ranks=ranks)
    stopped = job.train("train.max_steps=13", ranks=ranks)
    resume(job, stopped, "train.max_steps=25", ranks=ranks)
    assert checkpoints(stopped)[-1] == 25
    assert_same_checkpoint(stopped, never_stopped)


@pytest.mark.parametrize("backend", ["shm", "gloo"])
def test_settings_apply_as_to_cpp_models(job, tmp_path_factory, packages, backend):
    """Accumulation, clipping, evaluation and both gradient synchronizers, compared with the eager model."""
    settings = ["train.accumulate=2", "train.clip_grad_norm=0.5", "train.max_steps=30", "train.eval_every=10 steps",
                f"distributed.backend={backend}"]
    eager = Job(tmp_path_factory.mktemp("eager"))
    for each in (job, eager):
        use(each, packages["mlp"], "mlp")
    eager.config["model"] = {"name": "mlp", "hidden": [32]}
    eager.write()
    ours, theirs = job.train(*settings, ranks=2), eager.train(*settings, ranks=2)
    for metric in ("train/loss", "train/accuracy", "train/grad_norm", "eval/loss", "eval/accuracy"):
        got, want = job.series(ours.name, metric), eager.series(theirs.name, metric)
        assert [step for step, _ in got] == [step for step, _ in want]
        assert numpy.allclose([v for _, v in got], [v for _, v in want], rtol=1e-4, atol=1e-5), metric


def weights_of(package):
    with zipfile.ZipFile(package) as archive:
        return load(archive.read("weights.safetensors"))


@pytest.mark.parametrize("kind, config", [("mlp", {"hidden": [32]}), ("gpt", SIZES)])
def test_built_in_model_starts_with_the_weights_of_its_cpp_version(packages, kind, config):
    """Equal to those of the Python version, which tests/models compares with C++ bit by bit."""
    twin = models.build(kind, 7, **config).state_dict()
    ours = weights_of(packages[kind])
    assert list(ours) and ours.keys() == twin.keys()
    assert all(torch.equal(ours[name], twin[name]) for name in twin)


def test_example_batch_of_run_file_matches_training(packages):
    """24 samples: the run's 48 on two ranks. With --set 6."""
    manifests = {}
    for kind in ("mlp", "gpt"):
        with zipfile.ZipFile(packages[kind]) as archive:
            manifests[kind] = json.loads(archive.read("manifest.json"))
    assert manifests["mlp"]["batch_size"] == 24
    assert manifests["mlp"]["fields"] == [{"name": "image", "dtype": "float32", "shape": [1, 28, 28]},
                                          {"name": "label", "dtype": "int64", "shape": []}]
    assert manifests["gpt"]["batch_size"] == 6
    assert [(field["name"], field["shape"]) for field in manifests["gpt"]["fields"]] == [("tokens", [16]), ("targets", [16])]


def use_documents(job, model, text, **train):
    data = documents(text)
    job.config |= {"model": model, "optimizer": {"name": "sgd", "lr": 0.5}, "train": {"epochs": 1, "log_every": "1 step", **train},
                   "data": {"train": data, "eval": data, "per_rank_batch_size": 6, "eval_batch_size": 7, "shuffle": False}}
    job.write()


@pytest.mark.parametrize("ranks, backend, accumulate", [long(1, "auto", 1), long(2, "shm", 1), long(2, "gloo", 1), (2, "gloo", 3), (3, "shm", 2)])
def test_tokens_are_weighted_equally_with_any_segments(job, tmp_path_factory, packages, ranks, backend, accumulate):
    """Documents of all lengths through a package of three segments, compared with the C++ model."""
    text = packages["gpt"].parent / "documents.bin"
    eager = Job(tmp_path_factory.mktemp("eager"))
    use_documents(job, {"name": "compiled", "package": str(packages["gpt"])}, text, accumulate=accumulate)
    use_documents(eager, {"name": "gpt", **SIZES}, text, accumulate=accumulate)
    ours, theirs = (each.train(f"distributed.backend={backend}", ranks=ranks) for each in (job, eager))
    for metric in ("train/loss", "eval/loss", "eval/accuracy"):
        got, want = job.series(ours.name, metric), eager.series(theirs.name, metric)
        assert got and numpy.allclose(got, want, rtol=1e-5), metric
    assert job.series(ours.name, "train/flops_per_step") == eager.series(theirs.name, "train/flops_per_step") != []
    assert len(job.series(ours.name, "train/tokens_per_s")) == len(job.series(ours.name, "train/loss"))
    expected = load_weights(theirs)
    assert all((tensor - expected[name]).abs().max() < 1e-5 for name, tensor in load_weights(ours).items())


@pytest.mark.parametrize("ranks", [long(1), 2])
def test_transformers_model_on_padded_text(job, packages, tmp_path, ranks):
    """Its loss is a mean over the targets of all ranks, as over one batch with the samples of both."""
    lengths = numpy.random.default_rng(3).integers(1, compiled_models.TOKENS + 1, (96, 1))
    tokens = numpy.random.default_rng(4).integers(0, 64, (96, compiled_models.TOKENS))
    labels = numpy.where(numpy.arange(compiled_models.TOKENS) < lengths, tokens, -100)
    labels[24:48:2] = -100  # with two ranks, one has a batch without targets
    path = tmp_path / "padded.npz"
    numpy.savez(path, input_ids=tokens, labels=labels)
    use(job, packages["gpt2"], "gpt2", path)
    size = 24 // ranks
    run_dir = job.train("data.shuffle=false", f"data.per_rank_batch_size={size}", "data.eval.limit=90", "train.max_steps=4",
                        "optimizer.lr=0.1", ranks=ranks)
    module = build_eager("gpt2").train()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for ids, wanted in zip(torch.from_numpy(tokens).split(24), torch.from_numpy(labels).split(24)):
        optimizer.zero_grad()
        losses.append(module(input_ids=ids, labels=wanted).loss)
        losses[-1].backward()
        optimizer.step()
    assert [value for _, value in job.series(run_dir.name, "train/loss")] == pytest.approx([loss.item() for loss in losses], rel=1e-5)
    assert_close(load_weights(run_dir), module)
    with torch.no_grad():
        ids, wanted = (torch.from_numpy(values[:90]) for values in (tokens, labels))
        right = module.eval()(input_ids=ids).logits[:, :-1].argmax(-1) == wanted[:, 1:]
    accuracy = right.sum().item() / (wanted[:, 1:] != -100).sum().item()
    assert job.series(run_dir.name, "eval/accuracy")[-1][1] == pytest.approx(accuracy, rel=1e-5)


def run_parts(graph, parts):
    """The outputs of `graph` in parts, before compilation."""
    from lockstep.compile import comparing
    from lockstep.compile.segments import segment_names

    assert sum(part.gradients for part in parts) == graph.num_gradients
    modules = {name: part.module for name, part in zip(segment_names(parts, graph.training), parts)}
    return comparing.run_parts(graph, parts, list(graph.inputs), lambda name, inputs: modules[name](*inputs))


def test_segments_are_bit_identical_to_the_whole_graph():
    """With buffers that training changes."""
    from lockstep.compile.graphs import State, Step, trace
    from lockstep.compile.losses import find_loss
    from lockstep.compile.segments import split

    torch.manual_seed(1)
    module, batch = compiled_models.net(), compiled_models.digits()
    step = Step(module, find_loss("cross_entropy", module, batch).function, list(batch), None)
    state = State.of(module)
    changed = [name for name in state.buffers if "running" in name or "num_batches" in name]
    graph = trace(step, state, batch, dynamic=False, training=True, changed=changed)
    whole = run_parts(graph, split(graph, 1))
    for count in (2, 3, graph.num_gradients):
        results = run_parts(graph, split(graph, count))
        assert len(results) == len(whole) == 1 + 1 + graph.num_gradients + len(graph.changed_buffers)
        assert all(torch.equal(a, b) for a, b in zip(results, whole))


@pytest.mark.parametrize("ranks", [long(1), 2])
def test_fine_tuning_from_other_weights(job, packages, tmp_path, ranks):
    """Weights of an eager model, whose checkpoint needs no conversion."""
    use(job, packages["mlp"], "mlp")
    eager = job.train("model={name: mlp, hidden: [32]}", "train.max_steps=30", "data.eval.limit=200")
    tuned = job.train(f"train.init_from={last_weights(eager)}", "train.max_steps=1", "optimizer.lr=1e-30", "data.eval.limit=200",
                      ranks=ranks)
    got, want = (dict(job.series(run.name, "eval/loss")).popitem()[1] for run in (tuned, eager))
    assert got == pytest.approx(want, rel=1e-5)


def test_tied_weights_round_trip_through_transformers(job, packages, texts, tmp_path):
    """A checkpoint contains them once, under the first of their names; so must initial weights."""
    use(job, packages["gpt2"], "gpt2", texts)
    run_dir = job.train("train.max_steps=3")
    shutil.copy(last_weights(run_dir), tmp_path / "model.safetensors")
    build_eager("gpt2").config.save_pretrained(tmp_path)
    theirs, loading_info = GPT2LMHeadModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(loading_info.values()), loading_info
    module = build_eager("gpt2")
    load_model(module, last_weights(run_dir))
    weights = load_weights(run_dir)
    both_names = {**weights, "lm_head.weight": weights["transformer.wte.weight"]}
    for loaded in (theirs, module):
        assert loaded.lm_head.weight is loaded.transformer.wte.weight
        assert_same_tensors(loaded.state_dict(), both_names)

    theirs.save_pretrained(tmp_path / "back")
    save_file({name: tensor.clone() for name, tensor in both_names.items()}, tmp_path / "both.safetensors")
    for source in (["back/model.safetensors"], ["both.safetensors", "train.init_except=[lm_head.weight]"]):
        again = job.train("train.max_steps=1", "optimizer.lr=1e-30", f"train.init_from={tmp_path}/{source[0]}", *source[1:])
        assert_same_tensors(load_weights(again), weights)


def test_other_names_of_tied_weights_are_rejected(job, packages, texts, tmp_path):
    use(job, packages["gpt2"], "gpt2", texts)
    module = build_eager("gpt2")
    save_file({name: tensor.clone() for name, tensor in module.state_dict().items()}, tmp_path / "both.safetensors")
    save_model(module, tmp_path / "other.safetensors")  # keeps the alphabetically first name
    for file, text in (("both", "has 'lm_head.weight', which the model does not have; train.init_except skips it"),
                       ("other", "has no 'transformer.wte.weight', which the model has")):
        refuse(job, [f"train.init_from={tmp_path}/{file}.safetensors"], [f"{file}.safetensors: {text}"], None)


def assert_same_tensors(ours, theirs):
    assert ours.keys() == theirs.keys()
    assert [name for name, tensor in ours.items() if not torch.equal(tensor, theirs[name])] == []


def replayed_average(run_dir, decay):
    """Python's AveragedModel over the weights that the run saved after each step."""
    module = compiled_models.net()
    average = AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True)
    for step in checkpoints(run_dir):
        module.load_state_dict(load_file(run_dir / "checkpoints" / str(step) / "model.safetensors"))
        average.update_parameters(module)
    return average.module.state_dict()


@pytest.mark.parametrize("ranks", [long(1), 2])
def test_averaged_weights(job, packages, ranks):
    """With BatchNorm: its running statistics are averaged, its batch counter is copied."""
    use(job, packages["net"], "net")
    every_step = ["checkpoint={every: 1 step, keep_last: 9}", "train.ema.decay=0.8", "train.eval_every=3 steps"]
    run_dir = job.train(*every_step, "train.max_steps=5", ranks=ranks)
    assert checkpoints(run_dir) == [1, 2, 3, 4, 5]
    averaged = load_file(last_weights(run_dir).parent / "ema.safetensors")
    expected = replayed_average(run_dir, 0.8)
    counters = {name: torch.tensor(5) for name in expected if name.endswith("num_batches_tracked")}
    assert len(counters) == 2 and averaged.keys() == expected.keys()
    assert [name for name, tensor in averaged.items() if not torch.equal(tensor, (expected | counters)[name])] == []
    module = compiled_models.net().eval()
    module.load_state_dict(averaged)
    images, labels = idx.load_split(MNIST, "test", 301)
    with torch.no_grad():
        loss = F.cross_entropy(module(images), labels).item()
    assert job.series(run_dir.name, "eval/loss")[-1] == (5, pytest.approx(loss, rel=1e-5))


def test_predictions(job, packages):
    """Equal to those of the Python model with the run's weights, for any number of ranks and any batch size."""
    use(job, packages["net"], "net")
    run_dir = job.train("train.max_steps=5")
    module = compiled_models.net().eval()
    module.load_state_dict(load_weights(run_dir))
    with torch.no_grad():
        expected = module(idx.load_split(MNIST, "test", 301)[0])
    for ranks in (1, 2):
        out = job.directory / f"predictions-{ranks}.safetensors"
        ended = job.run(ranks=ranks, options=["--predict", out, "--resume", run_dir.name])
        assert ended.code == 0 and ended.err == "", ended.err
        assert torch.allclose(load_file(out)["predictions"], expected, rtol=1e-4, atol=1e-4)
    assert out.read_bytes() == (job.directory / "predictions-1.safetensors").read_bytes()


@pytest.mark.parametrize("ranks", [long(2), 3])
def test_all_gradient_synchronizers_are_bit_identical(job, packages, ranks):
    use(job, packages["net"], "net")
    job.config["data"]["drop_last"] = True
    job.write()
    ways = [["distributed.backend=shm"], ["distributed.backend=gloo"]]
    if ranks == 2:  # on 3, where dividing rounds, bucket views differ from buckets, as in Python
        ways.append(["distributed.backend=gloo", "distributed.gradient_as_bucket_view=true"])
    runs = [job.train("train.max_steps=6", *way, ranks=ranks) for way in ways]
    for other in runs[1:]:
        assert_same_bits(last_weights(runs[0]), last_weights(other))


def test_dynamic_package_accepts_any_batch_size(job, packages, texts):
    """721 samples: the last batch of an epoch has one."""
    use(job, packages["gpt2"], "gpt2", texts)
    run_dir = job.train("data.train.limit=721", "data.per_rank_batch_size=30", "train.max_steps=25")
    assert len(job.series(run_dir.name, "train/loss")) == 25


def test_the_recipe(job, packages):
    target = [f"run.dir={job.runs}", f"model.package={packages['net']}", "data.eval.limit=300", "train.max_steps=40"]
    target += ["distributed.device=cpu", *(f"data.{split}.path={MNIST}" for split in ("train", "eval"))]
    ended = processes.run([processes.LOCKSTEP, "launch", "-n", 2, RECIPE / "run.yaml", *target], job.directory)
    assert ended.code == 0, ended.err
    assert job.list()[0]["summary"]["eval/accuracy"] > 0.5


def test_process_maps_neither_python_nor_cuda(job, packages):
    use(job, packages["mlp"], "mlp")
    temporary = job.directory / "temporary"
    temporary.mkdir()
    started = job.start("train.max_steps=1000000", "tracking.sinks=[]",
                        env=processes.environment(TMPDIR=temporary))
    try:
        processes.wait_until(lambda: list(job.runs.glob("*/run.json")), TIMEOUT_S, "the run has begun")
        text = Path(f"/proc/{started.pid}/maps").read_text()
    finally:
        started.terminate()
        processes.finish(started)
    names = {line.split()[5].rsplit("/", 1)[-1] for line in text.splitlines() if len(line.split()) > 5}
    others = [name for name in names if "python" in name or name.startswith(("libtorch", "libc10"))]
    assert "graph.so" in text
    assert sorted(others) == ["libc10.so", "libtorch_cpu.so"]  # neither libtorch_cuda nor libpython
    assert not list(temporary.iterdir())


def test_no_space_for_generated_code(job, packages, disk, monkeypatch):
    use(job, packages["mlp"], "mlp")
    disk.mount("size=64k")
    (disk.path / "filler").write_bytes(bytes(64 << 10))
    monkeypatch.setenv("TMPDIR", str(disk.path))
    refuse(job, [], [str(disk.path), "graph.so", "No space left on device"], None, code=75)

def test_a_temporary_directory_that_does_not_exist(job, packages, monkeypatch):
    use(job, packages["mlp"], "mlp")
    monkeypatch.setenv("TMPDIR", "/nowhere")
    refuse(job, [], ["TMPDIR: No such file or directory"], None, code=75)


def test_a_temporary_directory_without_execution(job, packages, disk, monkeypatch):
    use(job, packages["mlp"], "mlp")
    disk.mount("size=100m,noexec")
    monkeypatch.setenv("TMPDIR", str(disk.path))
    refuse(job, [], [f"cannot load its code from {disk.path}: it may be mounted noexec"], None, code=75)


@pytest.mark.parametrize("kind", ["gpt", "net"])
def test_blocks_are_bit_identical_to_the_whole_graph(kind):
    """Each part reads the parameters of at most one block. With tied weights, and with buffers that training changes."""
    from lockstep.compile.blocks import block_of, blocks_of, split_at_blocks
    from lockstep.compile.graphs import State, Step, trace
    from lockstep.compile.losses import find_loss

    torch.manual_seed(1)
    module, batch = (compiled_models.net(), compiled_models.digits()) if kind == "net" else (models.gpt(**SIZES), tokens_of_gpt())
    step = Step(module, find_loss("cross_entropy", module, batch).function, list(batch), "cpu" if kind == "gpt" else None)
    state = State.of(module)
    blocks = blocks_of(module, list(state.parameters))
    assert len(blocks) > 1
    changed = [name for name in state.buffers if "running" in name or "num_batches" in name]
    for training in (True, False):
        graph = trace(step, state, batch, dynamic=not training, training=training, changed=changed if training else [])
        whole = graph.module(list(graph.inputs))
        parts = split_at_blocks(graph, state.names(), blocks)
        for part in parts:
            names = [state.names()[number] for number in part.takes if number < len(state.parameters)]
            assert len({block_of(name, blocks) for name in names} - {""}) <= 1
        results = run_parts(graph, parts)
        assert len(results) == len(whole) and all(torch.equal(a, b) for a, b in zip(results, whole))


def tokens_of_gpt():
    shape = (6, SIZES["context"])
    return {name: torch.randint(0, SIZES["vocab_size"], shape) for name in ("tokens", "targets")}


def without_blocks(manifest):
    """As lockstep-compile wrote it before it could cut the forward pass."""
    manifest["format"] = 2
    del manifest["evaluation"], manifest["units"]


def test_a_package_of_the_previous_format(job, packages):
    use(job, altered(packages["mlp"], job.directory / "other.ls2", without_blocks), "mlp")
    other = job.train("train.max_steps=3")
    use(job, packages["mlp"], "mlp")
    assert_same_bits(last_weights(other), last_weights(job.train("train.max_steps=3")))


def test_a_package_of_another_patch_release_of_libtorch(job, packages):
    use(job, altered(packages["mlp"], job.directory / "other.ls2", setting("torch", f"{TORCH.rpartition('.')[0]}.99")), "mlp")
    job.train("train.max_steps=1")


# Errors before ranks connect.


def altered(package, out, change=lambda manifest: None, members=None):
    """A copy with a changed manifest and members; the checksums of the archive are valid."""
    with zipfile.ZipFile(package) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(content["manifest.json"])
    change(manifest)
    content["manifest.json"] = json.dumps(manifest).encode()
    content |= members or {}
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, value in content.items():
            archive.writestr(name, value)
    return out


def setting(key, value):
    return lambda manifest: manifest.update({key: value})


def with_a_name_twice(manifest):
    manifest["buffers"].append({**manifest["parameters"][0], "changed": False})


def with_a_tensor_that_is_a_module(manifest):
    manifest["parameters"][0]["name"] = "layers.2"


CHANGES = {
    "another torch": (setting("torch", "2.10.0"), [f"was compiled with LibTorch 2.10.0, this is {TORCH}"]),
    "another device": (setting("device", "cuda"), ["was compiled for device cuda, this run computes on cpu"]),
    "another architecture": (setting("architecture", "riscv64"), ["was compiled for riscv64 processors, this machine is"]),
    "another processor": (setting("cpu_flags", ["amx_fp99"]), ["uses instructions that this processor does not support (amx_fp99)"]),
    "another format": (setting("format", 1), ["package format 1 is not supported, expected 4"]),
    "a missing segment": (lambda m: m["segments"].append(m["segments"][0]), ["has segments with too many gradients or values"]),
    "a segment of nothing": (lambda m: m["segments"][0]["takes"].append(99), ["has a segment with input 99 of 7 values"]),
    "a forward segment at the end": (lambda m: m["segments"].append({"takes": [], "gradients": 0, "keeps": 0}),
                                     ["has a segment of the forward pass after one of the backward pass"]),
    "operations that are words": (lambda m: m["segments"][0].update(flops=["many"]), ["'flops' is not a list of numbers of at least 0"]),
    "no evaluation": (setting("evaluation", []), ["has no segments of evaluation that end with its results"]),
    "a unit without parameters": (setting("units", ["layers.1"]), ["has an invalid unit 'layers.1'"]),
    "a unit in a unit": (setting("units", ["layers", "layers.0"]), ["has an invalid unit 'layers'"]),
    "a corrupt manifest": (setting("fields", 3), ["its manifest 'fields' is not a list"]),
    "a name twice": (with_a_name_twice, ["'buffers' has duplicate name 'layers.0.weight'; compile the model again"]),
    "a name of a module": (with_a_tensor_that_is_a_module, ["'layers.2' both as a tensor and as the module of 'layers.2.", "compile the model again"]),
    "batches of a limited size": (setting("largest_batch", 40), ["supports batches of at most 40 samples, not 50: set data.eval_batch_size: 40"]),
    "an unknown dtype": (lambda m: m["fields"][0].update(dtype="float8"), ["'image' has unsupported type float8"]),
}


@pytest.mark.parametrize("change, texts", CHANGES.values(), ids=CHANGES.keys())
def test_package_does_not_match_the_run(job, packages, change, texts):
    use(job, altered(packages["mlp"], job.directory / "other.ls2", change), "mlp")
    refuse(job, [], ["other.ls2: ", *texts], 2)


def with_inner_path(package):
    """Its train.pt2 has a member that would be extracted outside of the directory."""
    with zipfile.ZipFile(package) as archive:
        inner = archive.read("train.pt2")
    path = package.parent / "inner.pt2"
    path.write_bytes(inner)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_STORED) as archive:
        archive.writestr("../../evil.so", b"x")
    return path.read_bytes()


def test_unsafe_member_path(job, packages):
    other = job.directory / "other.ls2"
    use(job, altered(packages["mlp"], other, members={"../evil": b"x"}), "mlp")
    refuse(job, [], ["other.ls2: has a member '../evil' that is not in its manifest"], None)
    inner = with_inner_path(packages["mlp"])
    facts = {"bytes": len(inner), "crc32": zlib.crc32(inner)}
    altered(packages["mlp"], other, lambda m: m["members"].update({"train.pt2": facts}), {"train.pt2": inner})
    refuse(job, [], ["train.pt2: does not contain exactly one library"], None)


def test_archive_member_of_another_package(job, packages):
    with zipfile.ZipFile(packages["net"]) as archive:
        weights = archive.read("weights.safetensors")
    other = altered(packages["mlp"], job.directory / "other.ls2", members={"weights.safetensors": weights})
    use(job, other, "mlp")
    refuse(job, [], ["weights.safetensors does not match its manifest"], 2)


def test_a_corrupt_file(job, packages):
    whole = packages["mlp"].read_bytes()
    path = job.directory / "other.ls2"
    path.write_bytes(whole)
    use(job, path, "mlp")
    for size in (1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        refuse(job, [], ["other.ls2: not a usable zip archive", "recompile the model"], None)
    path.write_bytes(b"")
    refuse(job, [], ["other.ls2: has no manifest.json"], None)
    with zipfile.ZipFile(packages["mlp"]) as archive:
        at = archive.getinfo("eval.pt2").header_offset + 5000
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    refuse(job, [], ["other.ls2: not a usable zip archive: member 'eval.pt2'"], None)
    refuse(job, ["model.package=nowhere.ls2"], ["nowhere.ls2: no such file"], None)
    refuse(job, [f"model.package={job.file}"], ["not a usable zip archive"], None)


def test_missing_gpu(job, packages):
    use(job, altered(packages["mlp"], job.directory / "other.ls2", setting("device", "cuda")), "mlp")
    refuse(job, ["distributed.device=cuda"], ["device 'cuda' cannot be used"], 2)


def save(path, **arrays):
    numpy.savez(path, **arrays)
    return f"data.train={{name: npy, path: {path}}}"


def test_data_does_not_match_the_package(job, packages):
    use(job, packages["mlp"], "mlp")
    images, labels = numpy.zeros((48, 1, 28, 28), numpy.float32), numpy.zeros(48, numpy.int64)
    other = job.directory / "data.npz"
    refuse(job, [save(other, image=images, number=labels)], ["needs the field 'label'", "only: image, number"], 2)
    refuse(job, [save(other, image=images[:, :, 1:], label=labels)],
           ["expects 'image' as float32 [B, 1, 28, 28], but the dataset has float32 [B, 1, 27, 28]"], None)
    refuse(job, [save(other, image=images, label=labels.astype(numpy.int32))],
           ["expects 'label' as int64 [B], but the dataset has int32 [B]"], None)
    save(other, image=images[:, :, 1:], label=labels)
    refuse(job, [f"data.eval={{name: npy, path: {other}}}"], ["but the dataset has float32 [B, 1, 27, 28]"], None)
    other.unlink()


def test_dataset_without_valid_targets(job, packages):
    """With a loss that is a mean over samples, all of which had targets in the example batch."""
    use(job, packages["mlp"], "mlp")
    labels = numpy.zeros(48, numpy.int64)
    labels[30] = -100
    other = job.directory / "data.npz"
    data = save(other, image=numpy.zeros((48, 1, 28, 28), numpy.float32), label=labels)
    ended = job.run(data, "data.shuffle=false")
    assert ended.code == 78
    assert "'label' has the ignored target -100" in ended.err


@pytest.mark.parametrize("label", [10, -1])
def test_label_out_of_range(job, packages, label):
    """In training and in evaluation."""
    use(job, packages["mlp"], "mlp")
    labels = numpy.zeros(48, numpy.int64)
    labels[30] = label
    data = save(job.directory / "data.npz", image=numpy.zeros((48, 1, 28, 28), numpy.float32), label=labels)
    for settings in ([data, "data.shuffle=false"], [data.replace("train", "eval"), "train.max_steps=1"]):
        ended = job.run(*settings)
        assert ended.code == 78
        assert ended.err.splitlines()[0].endswith(f"mlp.ls2: 'label' has {label}, but the model has 10 classes: 0 to 9 are valid")


def test_token_out_of_range(job, packages, texts):
    """If the loss does not check it, the model's embedding reports it, in training and in evaluation."""
    use(job, packages["gpt2"], "gpt2", texts)
    known = numpy.load(texts)
    tokens = known["input_ids"].copy()
    tokens[5, 3] = 64
    other = save(job.directory / "texts.npz", input_ids=tokens, labels=known["labels"])
    for settings in ([other], [other.replace("train", "eval"), "train.max_steps=1"]):
        ended = job.run(*settings, "data.shuffle=false")
        assert ended.code == 78
        assert re.search(r"gpt2.ls2: its code failed on a batch with 'input_ids' from \d+ to 64, 'labels' from \d+ to \d+:", ended.err)


def test_precision_is_fixed_at_compile_time(job, packages):
    use(job, packages["mlp"], "mlp")
    refuse(job, ["train.precision=bf16"], ["train.precision: bf16 has no effect on a compiled model", "--precision bf16"], None)
    refuse(job, ["train.precision=fp16"], ["train.precision: fp16 has no effect on a compiled model", "fp32 and bf16"], None)


def test_a_package_that_is_not_cut_at_blocks(job, packages):
    use(job, packages["mlp"], "mlp")
    refuse(job, ["distributed.backend=gloo", "distributed.shard=full"],
           ["distributed.shard: full: the package needs all of its weights at once", "lockstep-compile --segments blocks",
            "use distributed.shard: gradients"], 2)
    refuse(job, ["train.recompute=blocks"], ["train.recompute: the package has no blocks", "lockstep-compile --segments blocks"], None)


def test_batch_size_does_not_match_the_package(job, packages):
    use(job, packages["mlp"], "mlp")
    refuse(job, ["data.per_rank_batch_size=12"],
           ["trains on batches of 24 samples per rank, not 12", "data.per_rank_batch_size: 24", "--dynamic-batch"], 2)
    refuse(job, ["data.train.limit=767"], ["the last one of an epoch has 23", "data.drop_last: true"], None)
    run_dir = job.train("data.train.limit=767", "data.drop_last=true", "train.epochs=1")
    assert checkpoints(run_dir) == [31]


def test_another_device(job, packages):
    use(job, packages["mlp"], "mlp")
    refuse(job, ["distributed.device=cuda"], ["was compiled for device cpu, this run computes on cuda"], None)


# Errors of lockstep-compile.


def refused_compile(capsys, directory, *arguments):
    from lockstep.compile.command_line import main

    ended = main([*map(str, arguments), "-o", str(directory / "out.ls2")])
    lines = capsys.readouterr().err.splitlines()
    assert ended == 78, lines
    assert len(lines) == 1 and lines[0].startswith("lockstep-compile: error: "), lines
    assert not list(directory.iterdir())
    return lines[0]


def line_of(text):
    return 1 + next(i for i, line in enumerate(MODELS.read_text().splitlines()) if text in line)


WRONG = {
    "a branch on numbers": (["Branch"], ["cannot be exported", f"{MODELS}:{line_of('the line that the message names')}"]),
    "a loss per sample": (["mlp", "--loss", "a_loss_per_sample"], ["'loss' of shape [24]: it must be a scalar"]),
    "other sums in evaluation": (["mlp", "--loss", "sums_of_training"], ["in training (steps) than in evaluation (none)"]),
    "targets that do not count": (["mlp", "--batch", "padded", "--loss", "model"], ["'label' of the example batch has targets of -100"]),
    "targets of the model": (["mlp", "--loss", "targets_of_the_model"], ["the 'targets' of the loss function depend on the model"]),
    "parameters of the loss": (["mlp", "--loss", "loss_with_temperature"], ["has the parameter 'temperature', which would not be trained"]),
    "targets that are not a count": (["mlp", "--loss", "half_a_target"], ["'targets' of torch.float32: it must be an integer"]),
    "more segments than gradients": (["mlp", "--segments", "9"], ["--segments 9: the model has only 4 trainable parameters"]),
    "segments for any size": (["mlp", "--segments", "2", "--dynamic-batch", "--seed=1"], ["--segments cannot be combined with --dynamic-batch"]),
    "blocks for any size": (["mlp", "--segments", "blocks", "--dynamic-batch", "--seed=1"], ["--segments cannot be combined with --dynamic-batch"]),
    "no blocks": (["Branch", "--segments", "blocks"], ["--segments blocks: the model has no ModuleList or Sequential"]),
    "a run file that is not there": (["mlp", "--batch", "nowhere.yaml"], ["--batch nowhere.yaml: ", "nowhere.yaml"]),
    "a key without a run file": (["mlp", "--set", "data.seed=1"], ["--set data.seed=1: --batch digits is not a run file"]),
    "a function with parameters": (["twice_the_loss"], ["TypeError: twice_the_loss() missing 2 required"]),
    "an error in the user's file": (["no_file"], ["FileNotFoundError: ", f"{MODELS}:{line_of('/nowhere/weights')}"]),
    "no module": (["no_model"], ["returns a list, not a torch.nn.Module"]),
    "an unknown function": (["mpl"], ["has no function 'mpl'; it has"]),
    "an unknown loss": (["mlp", "--loss", "crossentropy"], ["has no function 'crossentropy'"]),
    "no labels": (["mlp", "--batch", "text"], ["the model fails on the example batch: ", "models.py"]),
    "no batch": (["mlp", "--batch", "nowhere.npz"], ["nowhere.npz: no such file"]),
    "a wrong option": (["mlp", "--precison", "bf16"], ["--precison", "see lockstep-compile --help"]),
}


@pytest.mark.parametrize("arguments, texts", WRONG.values(), ids=WRONG.keys())
def test_compile_errors(capsys, tmp_path, arguments, texts):
    name, *more = arguments
    given = {"--loss": "cross_entropy", "--batch": "digits", **dict(zip(more[::2], more[1::2]))}
    line = refused_compile(capsys, tmp_path, f"{MODELS}:{name}", *[word for pair in given.items() for word in pair])
    for text in texts:
        assert text in line


@pytest.mark.parametrize("words, text", [
    (["lockstep.nowhere:mlp"], "lockstep.nowhere: no such module"),
    (["lockstep.models:rnn"], "lockstep.models has no function 'rnn'; it has"),
    (["lockstep.models:mlp", "wide"], "'wide': expected NAME=VALUE, an argument of the model's function"),
    (["lockstep.models:mlp", "wide=3"], "TypeError: mlp() got an unexpected keyword argument 'wide'"),
    (["lockstep.models:gpt", "heads=3"], "ValueError: model gpt: 3 heads do not divide a width of 128"),
])
def test_unknown_built_in_model(capsys, tmp_path, words, text):
    assert text in refused_compile(capsys, tmp_path, *words, "--loss", "mse", "--batch", "example")


def test_target_is_checked_before_anything_else(tmp_path):
    from lockstep.compile import compile_step
    from lockstep.compile.errors import CompileError

    with pytest.raises(CompileError, match=f"path {tmp_path}/nowhere/m.ls2: directory {tmp_path}/nowhere does not exist"):
        compile_step(torch.nn.Linear(1, 1), "mse", {}, tmp_path / "nowhere" / "m.ls2")
    with pytest.raises(CompileError, match=f"path {tmp_path}: is a directory"):
        compile_step(torch.nn.Linear(1, 1), "mse", {}, tmp_path)


def test_interrupted_compilation(monkeypatch, capsys):
    from lockstep.compile import command_line

    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr(command_line, "act", interrupted)
    assert command_line.main(["lockstep.models:mlp", "--loss", "mse", "--batch", "example"]) == 130
    assert capsys.readouterr().err == "lockstep-compile: interrupted\n"


def test_loss_of_a_model_that_returns_a_dictionary():
    from lockstep.compile.losses import ModelLoss

    class Model(torch.nn.Module):
        def forward(self, x, label):
            return {"loss": torch.nn.functional.cross_entropy(x, label), "logits": x}

    batch = {"x": torch.randn(8, 3), "label": torch.arange(8) % 3}
    given = ModelLoss(None)(Model(), batch)
    assert torch.equal(given["loss"], torch.nn.functional.cross_entropy(batch["x"], batch["label"]))
    assert given["predictions"] is batch["x"]
    assert given["accuracy"] == (batch["x"].argmax(-1) == batch["label"]).sum()


def test_terminated_compilation(monkeypatch, capsys):
    from lockstep.compile import command_line

    monkeypatch.setattr(command_line, "act", lambda options: signal.raise_signal(signal.SIGTERM))
    assert command_line.main(["lockstep.models:mlp", "--loss", "mse", "--batch", "example"]) == 143
    assert capsys.readouterr().err == "lockstep-compile: interrupted\n"
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


KILLED = """
import os
from lockstep.compile.processes import in_forks, results_of

end = os.dup(0)

def call(i):
    print(os.getpid(), flush=True)
    os.read(end, 1)
    return bytes(1 << 20)  # more than a pipe holds

results_of(in_forks(call), 2, 2, print)
"""


def test_processes_of_a_killed_compilation_end(tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    parent = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    children = [int(parent.stdout.readline()) for _ in range(2)]
    parent.kill()
    try:
        parent.communicate(timeout=TIMEOUT_S)  # until the last process has closed stdout
    except subprocess.TimeoutExpired:
        for child in children:
            os.kill(child, signal.SIGKILL)
        raise


def test_run_file_with_invalid_data(capsys, tmp_path, job, monkeypatch):
    job.config["data"]["train"]["path"] = "/nowhere"
    job.write()
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.setenv("PATH", str(BIN), prepend=os.pathsep)
    line = refused_compile(capsys, out, "lockstep.models:mlp", "--loss", "cross_entropy", "--batch", job.file)
    assert f"--batch {job.file}: " in line and "/nowhere" in line


def test_the_trainer_next_to_the_interpreter(monkeypatch, tmp_path):
    from lockstep.compile import example_batch

    trainer = tmp_path / "lockstep-trainer"
    trainer.write_text("")
    trainer.chmod(0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert example_batch.trainer() == str(trainer)


def test_arguments_of_the_model():
    from lockstep.compile.sources import arguments_of

    words = ["a=True", "b=False", "c=None", "d=true", "e=[1, 2]", "f=relu"]
    assert arguments_of(words) == {"a": True, "b": False, "c": None, "d": True, "e": [1, 2], "f": "relu"}


@pytest.mark.parametrize("predictions, target, fits", [
    ((4, 1), (4,), True), ((4, 1, 3, 2), (4, 3, 2), True), ((4, 6), (4, 3, 2), True), ((4, 2, 3), (4, 6), True),
    ((4, 3, 2), (4, 2, 3), False), ((4, 6), (6, 4), False), ((24,), (4, 6), False), ((), (1,), False)])
def test_predictions_that_fit_the_target(predictions, target, fits):
    from lockstep.compile import losses

    assert losses.fits(torch.zeros(predictions), torch.zeros(target)) == fits


def test_file_is_not_python(capsys, tmp_path):
    source = tmp_path / "models" / "broken.py"
    source.parent.mkdir()
    source.write_text("def make_model(:")
    out = tmp_path / "out"
    out.mkdir()
    assert "broken.py, line 1" in refused_compile(capsys, out, f"{source}:make_model", "--loss", "mse", "--batch", "example")


def test_file_that_ends_the_program(capsys, tmp_path):
    """A script without if __name__ == "__main__": the command must not end with exit code 0, and without a package."""
    source = tmp_path / "models" / "script.py"
    source.parent.mkdir()
    source.write_text("import sys\nsys.exit()\n")
    out = tmp_path / "out"
    out.mkdir()
    line = refused_compile(capsys, out, f"{source}:make_model", "--loss", "mse", "--batch", "example")
    assert "ends the program" in line and f"{source}:2" in line


def test_seed_applies_only_to_make_model(capsys, tmp_path):
    """Independent of random numbers that the file drew before."""
    torch.manual_seed(5)
    number = torch.rand(()).item()
    source = tmp_path / "models" / "drawing.py"
    source.parent.mkdir()
    source.write_text("import torch\ntorch.rand(9)\ndef make_model():\n    raise ValueError(torch.rand(()).item())\n")
    out = tmp_path / "out"
    out.mkdir()
    line = refused_compile(capsys, out, f"{source}:make_model", "--loss", "mse", "--batch", "example", "--seed", 5)
    assert f"ValueError: {number}" in line


def compile_mlp(directory, **variables):
    command = [COMPILE, f"{MODELS}:mlp", "--loss", "cross_entropy", "--batch", "digits"]
    return processes.run(command, directory, processes.environment(**variables))


def test_without_a_compiler(tmp_path):
    ended = compile_mlp(tmp_path, PATH="/nowhere", CXX=None)
    assert ended.code == 75
    assert ended.err == "lockstep-compile: error: no C++ compiler: 'g++' cannot be run; install g++, or set CXX\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("reason, code", [long("segmentation fault", 70), long("No space left on device", 75)])
def test_failing_compiler(tmp_path, reason, code):
    compiler = tmp_path / "g++"
    compiler.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "g++ 12" || {{ echo "a.cpp:1: error: {reason}" >&2; exit 1; }}\n')
    compiler.chmod(0o755)
    ended = compile_mlp(tmp_path, CXX=compiler)
    assert (ended.code, ended.err) == (code, f"lockstep-compile: error: g++ failed: a.cpp:1: error: {reason}\n")
    assert list(tmp_path.iterdir()) == [compiler]


def in_this_process(monkeypatch, compiler):
    monkeypatch.setattr(compiler, "in_forks", lambda call: call)
    monkeypatch.setattr(compiler, "results_of", lambda call, count, *_: [call(i) for i in range(count)])


@pytest.fixture
def compiled_before(packages, monkeypatch, tmp_path_factory):
    """Replaces the compiler's output by the graphs of the package "mlp". Returns its inputs."""
    from lockstep.compile import compiler
    from lockstep.compile.code_cache import Code

    with zipfile.ZipFile(packages["mlp"]) as archive:
        content = {training: archive.read(name) for training, name in ((True, "train.pt2"), (False, "eval.pt2"))}
    given = []

    def compile_again(program, settings):
        given.append(program)
        torch._inductor.config.aot_inductor.metadata = {"AOTI_DEVICE_KEY": "cpu"}  # as the compiler does
        return Code(list(content.values())[(len(given) - 1) % 2], [])

    monkeypatch.setattr(compiler, "_compiled", compile_again)
    in_this_process(monkeypatch, compiler)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    with torch._inductor.config.patch({"aot_inductor.metadata": {}}):
        yield given


def test_miscompiled_code_is_detected(capsys, tmp_path, compiled_before):
    from lockstep.compile.command_line import main

    assert main([f"{MODELS}:mlp", "--loss", "twice_the_loss", "--batch", "digits", "-o", f"{tmp_path}/out.ls2"]) == 70
    line = capsys.readouterr().err.splitlines()[-1]
    assert "of the compiled training for a batch of 24 differs from the model in Python" in line and "a compiler bug" in line
    assert not list(tmp_path.iterdir())


def test_results_that_are_not_numbers_are_compared(capsys, tmp_path, compiled_before):
    from lockstep.compile.command_line import main

    assert main([f"{MODELS}:mlp_with_nan", "--loss", "cross_entropy", "--batch", "digits", "-o", f"{tmp_path}/out.ls2"]) == 0
    assert "random numbers" not in capsys.readouterr().out


RUNNERS = {
    "crashes": ("os.abort()", "terminated its process with signal 6"),
    "cannot start": ("sys.exit('ImportError: no torch')", "terminated its process with exit code 1: ImportError: no torch"),
    "hangs": ("caller.recv()\nwhile True: select.select([], [], [])", "timed out after 1 s"),
    "fails": ("caller.recv()\ncaller.send((b'', 'out of memory'))", "failed: out of memory"),
}


@pytest.mark.parametrize("how", RUNNERS)
def test_generated_code_crashes_or_hangs(tmp_path, monkeypatch, how):
    from lockstep.compile import running
    from lockstep.compile.errors import CompilerFault

    code, text = RUNNERS[how]
    script = tmp_path / "runner.py"
    script.write_text("import os, select, sys\nfrom multiprocessing.connection import Connection\n"
                      f"caller = Connection(int(sys.argv[1]))\n{code}\n")
    monkeypatch.setattr(running, "RUNNER", str(script))
    monkeypatch.setattr(running, "RUN_TIMEOUT_S", 1 if how == "hangs" else TIMEOUT_S)
    monkeypatch.setattr(running, "EXIT_TIMEOUT_S", 1 if how == "hangs" else TIMEOUT_S)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(CompilerFault) as raised, running.running({}) as run:
        run("train", [torch.zeros(1)])
    assert str(raised.value) == f"the compiled code train.pt2 {text}"
    assert list(tmp_path.iterdir()) == [script]


def compile_digits(directory, *options):
    from lockstep.compile.command_line import main

    out = directory / "out.ls2"
    assert main([f"{MODELS}:mlp", "--loss", "cross_entropy", "--batch", "digits", "--seed", "7", "-o", str(out), *options]) == 0
    return weights_and_code(out)


def weights_and_code(package):
    with zipfile.ZipFile(package) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_an_unchanged_model_is_compiled_once(tmp_path, compiled_before):
    first = compile_digits(tmp_path)
    assert len(compiled_before) == 2
    assert compile_digits(tmp_path) == first
    assert len(compiled_before) == 2
    compile_digits(tmp_path, "--no-cache")
    assert len(compiled_before) == 4


@pytest.mark.long
def test_changes_that_affect_the_code_trigger_recompilation(tmp_path, compiled_before, monkeypatch):
    compile_digits(tmp_path)
    compile_digits(tmp_path, "--threads", "2")
    assert len(compiled_before) == 4
    compiler = tmp_path / "another-g++"
    compiler.write_text('#!/bin/sh\nexec g++ "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    compile_digits(tmp_path)
    assert len(compiled_before) == 6
    try:
        torch.use_deterministic_algorithms(True)
        compile_digits(tmp_path)
        torch.backends.cuda.matmul.allow_fp16_accumulation = True
        compile_digits(tmp_path)
    finally:
        torch.use_deterministic_algorithms(False)
        torch.backends.cuda.matmul.allow_fp16_accumulation = False
    assert len(compiled_before) == 10


@pytest.mark.long
def test_a_corrupt_cache_is_not_used(tmp_path, compiled_before):
    from lockstep.compile.code_cache import cache_folder

    first = compile_digits(tmp_path)
    for path in cache_folder().iterdir():
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])  # as a full disk or a power cut may leave it
    assert compile_digits(tmp_path) == first
    assert len(compiled_before) == 4


@pytest.mark.long
def test_read_only_cache(tmp_path, compiled_before, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    compile_digits(tmp_path)
    compile_digits(tmp_path)
    assert len(compiled_before) == 4


def test_cache_evicts_least_recently_used(tmp_path, monkeypatch):
    from lockstep.compile import code_cache

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(code_cache, "MAX_BYTES", 3500)
    folder = code_cache.cache_folder()
    for i in range(3):
        code_cache.store_code(str(i), code_cache.Code(bytes(1000), [17]))
        os.utime(folder / str(i), (i, i))
    (folder / "killed.part").write_bytes(b"")
    os.utime(folder / "killed.part", (0, 0))
    (folder / "written-now.part").write_bytes(b"")
    assert code_cache.load_code("0") == code_cache.Code(bytes(1000), [17])
    code_cache.store_code("3", code_cache.Code(bytes(1000), []))
    assert sorted(path.name for path in folder.iterdir()) == ["0", "2", "3", "written-now.part"]


@pytest.mark.long
def test_graphs_for_a_gpu_are_compiled_in_new_processes(tmp_path, monkeypatch, capsys):
    """On the CPU, without vector instructions, as the code for the CPU in a package for a GPU. The results are compared with Python."""
    from lockstep.compile import compiler
    from lockstep.compile.command_line import main

    settings_of = compiler.settings_of
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(compiler, "processes_of_gpu", lambda: 2)
    monkeypatch.setattr(compiler, "settings_of", lambda *given: {**settings_of(*given), "cpp.vec_isa_ok": False})
    monkeypatch.delattr(compiler, "in_forks")
    command = [f"{MODELS}:mlp", "--loss", "cross_entropy", "--batch", "digits", "-o", f"{tmp_path}/out.ls2", "--no-cache"]
    assert main(command) == 0, capsys.readouterr().err
    assert "code for 2 graphs: 1 done" in capsys.readouterr().out


def test_graphs_with_operators_of_python_stay_in_this_process():
    from lockstep.compile import compiler
    from torch.fx.experimental.proxy_tensor import make_fx

    @torch.library.custom_op("test_compiled::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    twice.register_fake(torch.empty_like)
    with_operator, without = (make_fx(f, tracing_mode="fake")(torch.ones(3)) for f in (twice, torch.sin))
    assert compiler.stored(with_operator) is None and compiler.stored(without) is not None


@pytest.mark.long
def test_code_specialized_on_one_size_is_recompiled(tmp_path, monkeypatch, capsys):
    """Rejected if the compiler specializes on every size that is tried."""
    from lockstep.compile import batch_sizes, compiler
    from lockstep.compile.code_cache import Code
    from lockstep.compile.command_line import main

    traced = []

    def fix(module, settings):
        size = batch_sizes.shape_env_of(module)
        traced.append([int(hint) for hint in size.backed_var_to_val.values()] if size and size.backed_var_to_val else [])
        if traced[-1]:
            raise batch_sizes.FixedSize("64")
        return Code(b"", [])

    monkeypatch.setattr(compiler, "_compiled", fix)
    in_this_process(monkeypatch, compiler)
    command = [f"{MODELS}:mlp", "--loss", "cross_entropy", "--batch", "digits", "-o", f"{tmp_path}/out.ls2", "--no-cache"]
    assert main(command) == 78
    assert "evaluation does not support batches of any size: 64" in capsys.readouterr().err
    sizes = [set(hints) for hints in traced[1:]]
    assert traced[0] == [] and len(sizes) == 3 and all(len(size) == 1 for size in sizes) and len(set.union(*sizes)) == 3


def test_sizes_at_which_generated_code_may_change():
    """Guards as torch's compiler leaves them: the code is tried on both sides of each."""
    import sympy
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv
    from lockstep.compile import batch_sizes
    from types import SimpleNamespace as Values

    size = sympy.Symbol("s14", integer=True, positive=True)
    guards = [Values(expr=expr) for expr in (size >= 16, size > 16, sympy.Ne(size, 64), 4 * size <= 100000, sympy.Eq(size, 3))]
    env = Values(guards=guards, replace=lambda expr: expr)
    assert batch_sizes.turning_points(env, 29) == [15, 16, 64, 25001]
    assert batch_sizes.trace_sizes([torch.empty(16, 29), torch.empty(62, 1)]) == [37, 41, 43]
    assert batch_sizes.turning_points(env, 0) == []  # of a graph with a fixed size
    mode = FakeTensorMode(shape_env=ShapeEnv())
    weights = mode.from_tensor(torch.empty(16, 8), static_shapes=True)
    assert batch_sizes.traced_size([weights, mode.from_tensor(torch.empty(29, 1))]) == 29
    assert batch_sizes.traced_size([weights, 1]) == 0
    fixed = Values(replacements={size: sympy.Integer(16)})
    with pytest.raises(batch_sizes.FixedSize, match="16"):
        batch_sizes.verify_not_fixed(fixed)


@pytest.mark.long
def test_no_space_for_the_package(capsys, job, disk, compiled_before):
    disk.mount("size=64k")
    (disk.path / "out.ls2").write_bytes(b"an older one")
    from lockstep.compile.command_line import main

    arguments = [f"{MODELS}:mlp", "--loss", "cross_entropy", "--batch", "digits", "-o", f"{disk.path}/out.ls2"]
    assert main(arguments) == 75
    assert "No space left on device" in capsys.readouterr().err
    assert [path.read_bytes() for path in disk.path.iterdir()] == [b"an older one"]


@pytest.mark.long
def test_concurrent_writers_of_one_package(tmp_path):
    """They do not interfere, and are not blocked by leftovers."""
    from lockstep.compile.packing import write_package

    out = tmp_path / "model.ls2"
    (tmp_path / "model.ls2.part").write_bytes(b"of another")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: write_package(out, {"number": i}, {"a": bytes([i]) * 100000}), range(32)))
    with zipfile.ZipFile(out) as archive:
        assert archive.read("a") == bytes([json.loads(archive.read("manifest.json"))["number"]]) * 100000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.ls2", "model.ls2.part"]
    assert (tmp_path / "model.ls2.part").read_bytes() == b"of another"


# Macros of g++ for these processors that are excluded: those with another name in /proc/cpuinfo, those that g++ never uses
# by itself, and those that every 64-bit processor has.
PROCESSORS = ("haswell", "sapphirerapids", "tigerlake", "alderlake", "znver3", "bdver4")
OTHERWISE = {"bmi": "bmi1", "lzcnt": "abm", "pclmul": "pclmulqdq", "rdrnd": "rdrand", "sha": "sha_ni"}
NEVER_USED = set("""cldemote clflushopt clzero crc32 enqcmd fsgsbase hreset kl lahf_sahf lwp movdir64b movdiri mwaitx pconfig pku
prfchw ptwrite rdpid serialize sgx sse3 tsxldtrk uintr waitpkg wbnoinvd widekl xsave xsavec xsaveopt xsaves""".split())


def macros_of(processor):
    command = ["g++", f"-march={processor}", "-dM", "-E", "-x", "c++", "/dev/null"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    names = [line.split()[1] for line in lines if line.endswith("__ 1")]
    return {name.strip("_").lower() for name in names if name.isupper()}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="g++ of another architecture does not support x86")
def test_package_records_all_required_instruction_sets():
    from lockstep.compile.processor import X86_FLAGS

    noted = {flag.replace("_", "") for flag in X86_FLAGS}
    base = macros_of("x86-64")
    for processor in PROCESSORS:
        used = {OTHERWISE.get(name, name) for name in macros_of(processor) - base - NEVER_USED}
        missing = {name for name in used if name.replace("_", "") not in noted}
        assert not missing, processor


def test_help_lists_every_option():
    text = subprocess.run([COMPILE, "--help"], capture_output=True, text=True, check=True, timeout=TIMEOUT_S, env=os.environ).stdout
    for option in ("--loss", "--batch", "--set", "--ranks", "--out", "--dynamic-batch", "--segments", "--precision", "--device",
                   "--threads", "--seed", "--no-cache", "--task", "--length"):
        assert option in text
