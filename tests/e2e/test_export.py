"""`lockstep ckpt export`: a trained model in other programs predicts what `lockstep-trainer --predict` does."""

import contextlib
import fcntl
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import pytest
import torch
from lockstep import models
from lockstep.compile import cache_files, compile_step
from lockstep.compile.batch_sizes import resized
from lockstep.compile.cache_files import new_file
from lockstep.compile.export_command import Package
from lockstep.compile.graphs import State, Step, trace
from lockstep.compile.losses import find_loss
from lockstep.compile.prediction import load_predictor, prediction_of, predictor_program
from lockstep.compile.sources import Refused
from safetensors import safe_open
from safetensors.torch import load_file, load_model
from torch import nn

import processes
from conftest import MNIST, Job
from processes import LOCKSTEP, SOURCE
from safetensors_file import assert_same_bits, last_weights
from test_predictions import SAMPLES, predicted

sys.path.insert(0, str(SOURCE / "tests" / "golden"))
import idx

BATCH = 24
# Of the largest prediction: the code for evaluation and that for export may sum in different orders.
TOLERANCE = 1e-5
TORCH = Path(torch.__file__).parent


class Net(nn.Module):
    """With buffers that training changes, dropout, and a weight that is used twice."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1))
        self.hidden, self.head = nn.Linear(16, 16), nn.Linear(16, 10)
        self.tied = nn.Linear(16, 16)
        self.tied.weight = self.hidden.weight

    def forward(self, image):
        return self.head(self.tied(torch.relu(self.hidden(self.body(image)))))


def digits():
    images, labels = idx.load_split(MNIST, "train", BATCH)
    return {"image": images, "label": labels}


def ckpt_export(job, *words, code=0, env=None):
    ended = processes.run([LOCKSTEP, "ckpt", "export", *words, "--dir", job.runs], job.directory, env)
    assert ended.code == code, ended.out + ended.err
    assert code == 0 or len(ended.err.splitlines()) == 1, ended.err
    return ended.out if code == 0 else ended.err


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A job with a run of a compiled package, and what the trainer predicts. Compiled code is cached."""
    job = Job(tmp_path_factory.mktemp("trained"))
    torch.manual_seed(3)
    job.package = job.directory / "net.ls2"
    compile_step(Net(), "cross_entropy", digits(), job.package)
    job.config["model"] = {"name": "compiled", "package": "net.ls2"}
    del job.config["data"]["batch_size"]
    job.config["data"] |= {"per_rank_batch_size": BATCH, "drop_last": True}
    job.config["train"] = {"max_steps": 12, "ema": {"decay": 0.9}}
    job.write()
    job.run_dir = job.train()
    job.images = idx.load_split(MNIST, "test", SAMPLES)[0]
    job.expected = predicted(job, resume=job.run_dir.name)[0]
    return job


@pytest.fixture(scope="module")
def exported(trained):
    """The lines that the exports print, by format."""
    run = trained.run_dir.name
    return {form: ckpt_export(trained, run, "--out", f"{form}.pt2", "--format", form).splitlines() for form in ("pt2", "aoti")}


def assert_close(found, expected):
    assert found.shape == expected.shape and numpy.abs(found - expected).max() <= TOLERANCE * numpy.abs(expected).max()


def test_both_formats_predict_in_python(trained, exported):
    for lines in exported.values():
        assert lines[:2] == ["averaged weights of step 12", "inputs: image float32 [B, 1, 28, 28]"] and lines[-1].startswith("done: ")
        assert not any(line.startswith("warning") for line in lines)
    graph = torch.export.load(trained.directory / "pt2.pt2").module()
    code = torch._inductor.aoti_load_package(str(trained.directory / "aoti.pt2"))
    assert {key: code.get_metadata()[key] for key in ("run", "step", "weights", "inputs")} == {
        "run": trained.run_dir.name, "step": "12", "weights": "averaged", "inputs": "image"}
    assert code.get_metadata()["torch"] == torch.__version__.split("+")[0]
    for model in (graph, code):
        for size in (1, 7, SAMPLES):  # any number of samples
            found = model(trained.images[:size])
            assert not found.requires_grad
            assert_close(found.numpy(), trained.expected[:size])


def test_the_average_is_exported(trained, exported):
    """As the module in Python with the weights of ema.safetensors, and unlike that with model.safetensors."""
    found = torch.export.load(trained.directory / "pt2.pt2").module()(trained.images).numpy()
    checkpoint = last_weights(trained.run_dir).parent
    module = Net().eval()
    for file in ("ema.safetensors", "model.safetensors"):
        load_model(module, checkpoint / file)
        with torch.no_grad():
            expected = module(trained.images).numpy()
        assert (numpy.abs(found - expected).max() <= TOLERANCE * numpy.abs(expected).max()) == (file == "ema.safetensors")
    weights = torch.export.load(trained.directory / "pt2.pt2").state_dict
    averages = load_file(checkpoint / "ema.safetensors")
    assert all(torch.equal(weights[name], tensor) for name, tensor in averages.items())


def test_safetensors(trained):
    out = trained.directory / "weights.safetensors"
    averages = last_weights(trained.run_dir).parent / "ema.safetensors"
    printed = ckpt_export(trained, trained.run_dir, "--out", "weights.safetensors")  # the default format
    assert printed == f"{len(load_file(averages))} averaged tensors of step 12 in {out}\n"
    assert_same_bits(out, averages)
    with safe_open(out, "pt") as file:
        assert file.metadata() == {"format": "pt", "run": trained.run_dir.name, "step": "12", "weights": "averaged"}


@pytest.fixture
def one_thread():
    """As programs that tests start."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_a_program_in_cpp_without_lockstep(trained, exported, one_thread, tmp_path):
    """examples/inference, built as its first lines say."""
    build = tmp_path / "build"
    for command in (["cmake", "-S", SOURCE / "examples" / "inference", "-B", build, f"-DTORCH={TORCH}"], ["cmake", "--build", build]):
        subprocess.run(command, check=True, timeout=400)
    code = torch._inductor.aoti_load_package(str(trained.directory / "aoti.pt2"))
    for size in (1, 7):
        images = trained.images[:size].clone()
        torch.save(images, tmp_path / f"{size}.pt")
        ended = processes.run([build / "predict", trained.directory / "aoti.pt2", f"{size}.pt"], tmp_path)
        assert (ended.code, ended.err) == (0, "")
        found = numpy.array([[numpy.float32(word) for word in line.split()] for line in ended.out.splitlines()])
        assert found.tobytes() == code(images).numpy().tobytes(), "the same code on as many threads"
        assert_close(found, trained.expected[:size])
    ended = processes.run([build / "predict", "none.pt2", "1.pt"], tmp_path)
    assert ended.code == 1 and len(ended.err.splitlines()) == 1 and ended.err.startswith("predict: error: ")


def test_the_how_to_guide(trained, exported, tmp_path, monkeypatch):
    for form, name in (("pt2", "model.pt2"), ("aoti", "compiled.pt2")):
        shutil.copy(trained.directory / f"{form}.pt2", tmp_path / name)
    monkeypatch.chdir(tmp_path)
    [code] = re.findall(r"```python\n(.*?)```", (SOURCE / "docs" / "howto" / "export.md").read_text(), re.S)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    first, second = re.findall(r"tensor\(\[.*?\]\)", printed.getvalue())
    assert first == second and first.count(",") == 6


def test_models_in_cpp(job):
    """Without train.ema. Their weights load into the same model in Python; they have no graph."""
    run = job.train("train.max_steps=3").name
    ckpt_export(job, run, "--out", "w.safetensors")
    assert_same_bits(job.directory / "w.safetensors", last_weights(job.runs / run))
    with safe_open(job.directory / "w.safetensors", "pt") as file:
        assert file.metadata()["weights"] == "trained"
    module = models.mlp(hidden=[32]).eval()
    module.load_state_dict(load_file(job.directory / "w.safetensors"))
    images = idx.load_split(MNIST, "test", SAMPLES)[0]
    with torch.no_grad():
        assert_close(module(images).numpy(), predicted(job, resume=run)[0])
    for form in ("aoti", "pt2"):
        error = ckpt_export(job, run, "--out", "m.pt2", "--format", form, code=78)
        assert "names no compiled package: a model in C++ has no graph to export; use --format safetensors, or train a package" in error
    assert "'w.safetensors' exists already" in ckpt_export(job, run, "--out", "w.safetensors", code=78)
    assert "must end with .safetensors" in ckpt_export(job, run, "--out", "w", code=78)
    assert "neither config.json nor adapter_config.json" in ckpt_export(job, run, "--out", "w", "--format", "hf", code=78)
    unknown = ckpt_export(job, run, "--out", "w", "--format", "onnx", code=78)
    assert "--format 'onnx' is unknown; valid: hf, safetensors, aoti, pt2" in unknown
    assert "--package: only for" in ckpt_export(job, run, "--out", "w.safetensors", "--package", "x", code=78)
    shutil.rmtree(job.runs / run / "checkpoints")
    assert "has no checkpoint" in ckpt_export(job, run, "--out", "x.safetensors", code=78)


def as_before(manifest):
    """As an earlier version of lockstep-compile wrote it."""
    manifest["format"] = 3
    del manifest["inputs"], manifest["members"]["predict.pt2"]


def without_predictions(manifest):
    del manifest["members"]["predict.pt2"]
    manifest["predictions"] = False


def that_torch_could_not_export(manifest):
    del manifest["members"]["predict.pt2"]
    manifest["unexported"] = "RuntimeError: no such operator"


def with_another_shape(manifest):
    manifest["parameters"][0]["shape"] = [8, 784]


@pytest.fixture
def moved(trained):
    """Moves the package away for a test."""
    away = trained.package.rename(trained.directory / "away.ls2")
    yield away
    away.rename(trained.package)


def altered(package, out, change, dropped=None):
    """A copy with a changed manifest, without the member `dropped`."""
    with zipfile.ZipFile(package) as archive:
        content = {name: archive.read(name) for name in archive.namelist() if name != dropped}
    manifest = json.loads(content["manifest.json"])
    change(manifest)
    content["manifest.json"] = json.dumps(manifest).encode()
    return packed(out, content)


def packed(out, content):
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, value in content.items():
            archive.writestr(name, value)
    return out


def test_invalid_packages(tmp_path):
    """One line for each. In Python, without a run."""
    cases = {"[1]": "its manifest has no format", "{}": "its manifest has no format", '{"format": 4}': "its manifest has no 'parameters'",
             '{"format": "4"}': "its manifest has no format", '{"format": 5}': "has package format 5, expected at most 4: update lockstep"}
    valid = {"format": 4, "parameters": [], "buffers": [], "inputs": ["x"], "torch": "", "device": "cpu", "precision": "fp32", "threads": 1,
             "fields": [{"name": "x", "dtype": "float32", "shape": [2]}]}
    tensors = [5, {}, {"name": "w", "shape": [1]}, {"name": "w", "dtype": "nonsense", "shape": [1]}, {"name": "w", "dtype": "float32", "shape": 1},
               {"name": "w", "dtype": "float32", "shape": [-1]}, {"name": ["w"], "dtype": "float32", "shape": []}]
    cases |= {json.dumps(valid | {key: [tensor]}): f"'{key}' of its manifest has an invalid tensor"
              for key in ("parameters", "buffers", "fields") for tensor in tensors}
    cases |= {json.dumps(valid | {"inputs": inputs}): "'inputs' of its manifest has a name" for inputs in (["y"], [{}], [["x"]])}
    cases |= {"[" * 100_000: "not a package of lockstep-compile, or corrupt", json.dumps(valid): "returns no predictions"}
    for manifest, text in cases.items():
        with pytest.raises(Refused, match=text):
            Package(str(packed(tmp_path / "p.ls2", {"manifest.json": manifest})), None)
    content = bytearray((tmp_path / "p.ls2").read_bytes())
    for signature, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        content[content.index(signature) + offset] |= 1  # encrypted
    (tmp_path / "p.ls2").write_bytes(content)
    with pytest.raises(Refused, match="not a package of lockstep-compile, or corrupt .*encrypted"):
        Package(str(tmp_path / "p.ls2"), None)


def test_a_file_made_during_an_export_is_kept(tmp_path):
    with pytest.raises(FileExistsError), new_file(tmp_path / "m.pt2", replaces=False) as file:
        file.write(b"exported")
        (tmp_path / "m.pt2").write_bytes(b"other")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("m.pt2", b"other")]


def test_exports_at_the_same_time_keep_their_files(tmp_path, monkeypatch):
    """Even if leftovers are removed at once: the lock alone protects what is being written."""
    monkeypatch.setattr(cache_files, "ABANDONED_AFTER_S", -1)

    def write(number):
        with cache_files.new_file(tmp_path / "m.ls2") as file:
            file.write(b"%03d" % number)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(300)))
    (left,) = tmp_path.iterdir()
    assert left.name == "m.ls2" and len(left.read_bytes()) == 3


def test_leftovers_of_killed_exports_are_removed(trained, tmp_path):
    """Those of the same target, after an hour, unless a process writes them."""
    own, used, of_others, recent = (tmp_path / f"m.pt2.{digit * 16}.part" for digit in "abxc")
    for path in (recent, own, used, of_others):
        path.touch()
        os.utime(path, None if path == recent else (0, 0))
    with open(used) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with new_file(tmp_path / "m.pt2", replaces=False) as made:
            made.write(b"exported")
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "m.pt2", used, of_others, recent])

    own, used, of_others, recent = (tmp_path / f".tmp-w.safetensors-{digit * 16}" for digit in ("a", "b", "cc", "d"))
    for path in (recent, own, used, of_others):
        path.mkdir()
        (path / "w.safetensors").write_text("part")
        for old in (path, *(path.iterdir() if path != recent else ())):  # a file that grows does not change its directory
            os.utime(old, (0, 0))
    lock = os.open(used, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    ckpt_export(trained, trained.run_dir, "--out", tmp_path / "w.safetensors", "--format", "safetensors")
    os.close(lock)
    assert sorted(path for path in tmp_path.iterdir() if "safetensors" in path.name) == sorted([tmp_path / "w.safetensors", used, of_others, recent])


def refused(job, *words, code=78):
    before = sorted(job.directory.iterdir())
    error = ckpt_export(job, job.run_dir.name, "--out", "new.pt2", "--format", "pt2", *words, code=code)
    assert sorted(job.directory.iterdir()) == before, "nothing is left"
    return error


@pytest.mark.long
def test_packages_that_do_not_fit(trained, moved, tmp_path):
    package = trained.package
    assert f"{package}: no such file: put the package of the run there, or name it with --package" in refused(trained)
    ckpt_export(trained, trained.run_dir.name, "--out", tmp_path / "new" / "moved.pt2", "--format", "pt2", "--package", moved)
    altered(moved, package, lambda manifest: manifest.update(name="Other"))
    try:
        assert "is another package than the one that the run trained" in refused(trained)
    finally:
        package.unlink()
    old = altered(moved, tmp_path / "old.ls2", as_before, "predict.pt2")
    assert "has no graph for export, because an earlier version compiled it" in refused(trained, "--package", old)
    trained.train(f"model.package={old}", "train.max_steps=1")  # it still trains
    silent = altered(moved, tmp_path / "silent.ls2", without_predictions, "predict.pt2")
    assert "its loss function returns no predictions" in refused(trained, "--package", silent)
    unexported = altered(moved, tmp_path / "unexported.ls2", that_torch_could_not_export, "predict.pt2")
    assert ("torch could not export its predictions when it was compiled: RuntimeError: no such operator"
            in refused(trained, "--package", unexported))
    other = altered(moved, tmp_path / "other.ls2", with_another_shape)
    assert ("its weight 'body.1.weight' is float32 [8, 784], the checkpoint has float32 [16, 784]"
            in refused(trained, f"--package={other}"))
    (tmp_path / "no.ls2").write_text("no package")
    assert "not a package of lockstep-compile, or corrupt" in refused(trained, "--package", tmp_path / "no.ls2")


def test_corrupt_checkpoint_and_no_python(trained, tmp_path):
    checkpoint = last_weights(trained.run_dir).parent
    averages = checkpoint / "ema.safetensors"
    content = averages.read_bytes()
    averages.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    try:
        assert "is corrupt" in refused(trained, code=75)
    finally:
        averages.write_bytes(content)
    # A LibTorch outside of any Python environment.
    lib = tmp_path / "a" / "b" / "c" / "d" / "torch" / "lib"
    lib.parent.mkdir(parents=True)
    lib.symlink_to(TORCH / "lib")
    planted = trained.directory / "lockstep-compile"  # an empty entry of PATH is not the working directory
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    environment = processes.environment(PATH=":/usr/bin:/bin", LD_LIBRARY_PATH=lib)
    words = (trained.run_dir.name, "--out", "new.pt2", "--format", "aoti")
    error = ckpt_export(trained, *words, code=75, env=environment)
    assert "this format needs lockstep-compile, which is neither in the Python environment of LibTorch (" in error
    planted.unlink()
    (tmp_path / "file").write_text("")
    error = ckpt_export(trained, trained.run_dir.name, "--out", tmp_path / "file" / "new.pt2", "--format", "aoti", code=75)
    assert error.startswith("lockstep-trainer: error: cannot create directory ")


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(11, 8), nn.Linear(8, 3)
        self.register_buffer("scale", torch.ones(8))

    def forward(self, mask, tokens):
        weight = mask.unsqueeze(2).float()
        mean = (self.embedding(tokens) * weight).sum(1) / weight.sum(1)
        return self.head(mean.mul_(self.scale))


def test_several_inputs(monkeypatch):
    """Only the fields on which predictions depend, in the order of the batch. In Python, without compiling."""
    torch.manual_seed(0)
    module = Masked().eval()
    batch = {"label": torch.zeros(3, dtype=torch.int64), "tokens": torch.randint(0, 11, (3, 5)), "mask": torch.ones(3, 5, dtype=torch.bool)}
    state = State.of(module)
    step = Step(module, find_loss("cross_entropy", module, batch).function, list(batch), None)
    graph = trace(step, state, resized(batch, 29), True, False)
    content, inputs, reason = prediction_of(graph, list(batch), len(state.names()))
    assert not reason
    assert inputs == ["tokens", "mask"]
    assert len(content) < 64 << 10, "without weights"
    tensors = dict(zip(state.names(), state.tensors()))
    tensors["scale"] = module.scale = torch.full((8,), 2.0)
    predictor = load_predictor(content, tensors, set(state.parameters))
    example = resized({name: batch[name] for name in inputs}, 29)
    exported = predictor_program(predictor, example).module()
    assert sorted(predictor.state_dict()) == sorted(module.state_dict())
    for size in (1, 2, 7):
        tokens, mask = torch.randint(0, 11, (size, 5)), torch.rand(size, 5) < 0.7
        mask[:, 0] = True
        assert torch.equal(exported(tokens, mask), module(mask, tokens))

    def fail(*_):
        raise RuntimeError("no such operator\nat line 3")

    monkeypatch.setattr(torch.export, "save", fail)  # training does not need it
    assert prediction_of(graph, list(batch), len(state.names())) == (b"", [], "RuntimeError: no such operator")
