"""The cache of packages of `lockstep-compile hf:DIR`."""

import json
import subprocess
import sys
from importlib import metadata

import pytest
from safetensors.torch import load_file, save_file

from hf_cases import CASES, compile_here, llama
from test_hf_compile import use


@pytest.fixture
def stand_in(monkeypatch, tmp_path):
    """Replaces compilation, for tests of what leads to one. Returns the options of each."""
    from lockstep.compile.hf import command

    given = []

    def compile_again(options, out, directory, changes, file, adapter, progress):
        given.append(options)
        progress.report("a line of the compiler")
        out.write_bytes(b"package" * 1000)

    monkeypatch.setattr(command, "compile_model", compile_again)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return given


def test_identical_call_takes_the_package_from_the_cache(capsys, tmp_path, stand_in):
    command = [f"hf:{llama(tmp_path)}", "--batch", 4, "-o"]
    first, again, third = (tmp_path / name for name in ("first.ls2", "again.ls2", "third.ls2"))
    compile_here(capsys, *command, first)
    code, lines, _ = compile_here(capsys, *command, again)
    assert code == 0 and len(stand_in) == 1
    assert lines[0] == "a line of the compiler" and lines[1].endswith("found in the cache of packages")
    assert first.read_bytes() == again.read_bytes()
    compile_here(capsys, *command, third, "--no-cache")
    assert len(stand_in) == 2
    assert sorted(path.suffix for path in tmp_path.iterdir() if path.is_file()) == [".ls2"] * 3


def change_config(directory):
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "rms_norm_eps": 1e-5}))


def change_weights(directory):
    path = directory / "model.safetensors"
    tensors = load_file(path)
    tensors["model.norm.weight"] += 1
    save_file(tensors, path, {"format": "pt"})


CHANGES = {
    "config": (change_config, []),
    "weights": (change_weights, []),
    "an argument": (None, ["tie_word_embeddings=false"]),
    "batch": (None, ["--batch", 5]),
    "length": (None, ["--length", 7]),
    "seed": (None, ["--seed", 1]),
    "precision": (None, ["--precision", "bf16"]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_lead_to_another_package(capsys, tmp_path, stand_in, name):
    directory = llama(tmp_path)
    change, arguments = CHANGES[name]
    compile_here(capsys, f"hf:{directory}", "-o", tmp_path / "a.ls2")
    if change is not None:
        change(directory)
    assert compile_here(capsys, f"hf:{directory}", *arguments, "-o", tmp_path / "b.ls2")[0] == 0
    assert len(stand_in) == 2


def test_data_of_the_run_file_lead_to_another_package(capsys, job, stand_in):
    case = CASES["llama"]
    use(job, case, "not-yet.ls2")
    command = [f"hf:{llama(job.directory)}", "--batch", job.file, "-o", job.directory / "a.ls2"]
    for arguments in ([], [], ["--set", "data.per_rank_batch_size=6"]):
        assert compile_here(capsys, *command, *arguments)[0] == 0
    assert len(stand_in) == 2


def test_other_versions_lead_to_another_package(capsys, tmp_path, stand_in, monkeypatch):
    version = metadata.version
    command = [f"hf:{llama(tmp_path)}", "-o", tmp_path / "a.ls2"]
    compile_here(capsys, *command)
    monkeypatch.setattr(metadata, "version", lambda name: "0" if name == "transformers" else version(name))
    compile_here(capsys, *command)
    assert len(stand_in) == 2


def test_corrupt_and_old_packages(capsys, tmp_path, stand_in, monkeypatch):
    from lockstep.compile import package_cache

    command = [f"hf:{llama(tmp_path)}", "-o", tmp_path / "a.ls2"]
    compile_here(capsys, *command)
    (entry,) = package_cache.cache_folder().iterdir()
    entry.write_bytes(entry.read_bytes()[:-1])
    assert compile_here(capsys, *command)[0] == 0
    assert len(stand_in) == 2
    assert (tmp_path / "a.ls2").read_bytes() == b"package" * 1000
    monkeypatch.setattr(package_cache, "MAX_BYTES", 10000)  # space for one
    compile_here(capsys, *command, "--seed", 1)
    assert len(list(package_cache.cache_folder().iterdir())) == 1
    monkeypatch.setattr(package_cache, "MAX_BYTES", 5000)
    compile_here(capsys, *command, "--seed", 2)
    assert len(list(package_cache.cache_folder().iterdir())) == 1  # larger than the cache: not stored


def test_cached_package_needs_neither_torch_nor_transformers(tmp_path, stand_in, capsys):
    """Importing them takes seconds."""
    command = [f"hf:{llama(tmp_path)}", "-o", str(tmp_path / "a.ls2")]
    compile_here(capsys, *command)
    code = ("import sys\nfrom lockstep.compile.command_line import main\n"
            f"assert main({command!r}) == 0\nassert not {{'torch', 'transformers', 'numpy'}} & set(sys.modules)")
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "found in the cache" in ended.stdout
