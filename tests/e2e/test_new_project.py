"""`lockstep new`: the projects build and pass their tests."""

import os
import pathlib
import subprocess

import pytest

import processes
from conftest import long
from processes import LOCKSTEP

BUILD = pathlib.Path(os.environ["LOCKSTEP_BIN"]).parent


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    directory = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", directory], check=True, timeout=120, stdout=subprocess.DEVNULL)
    return directory


@pytest.mark.parametrize("kind", ["run", "model", long("dataset"), "sink"])
def test_project_builds_and_passes_its_test(prefix, kind, tmp_path):
    ended = processes.run([prefix / "bin" / "lockstep", "new", kind, "my_part"], tmp_path)
    assert ended.code == 0, ended.err
    project = tmp_path / "my_part"
    assert (project / "run_file.schema.json").exists()
    assert (project / "run.yaml").read_text().startswith("# yaml-language-server: $schema=run_file.schema.json\n")
    env = {**processes.environment(), "PATH": f"{prefix}/bin:{os.environ['PATH']}"}
    for command in (["cmake", "-S", ".", "-B", "build", "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_PREFIX_PATH={prefix}"],
                    ["cmake", "--build", "build"], ["ctest", "--test-dir", "build", "--output-on-failure"]):
        ended = processes.run(command, project, env=env, timeout=300)
        assert ended.code == 0, ended.out + ended.err
    if kind == "sink":
        (text,) = (project / "build" / "runs").glob("*/sinks/my_part/*/my_part.txt")
        lines = text.read_text()
        assert lines.startswith("run ") and lines.endswith("exit code 0\n")
        for is_deleted in (False, False, True):
            if is_deleted:
                text.unlink()
            ended = processes.run([prefix / "bin" / "lockstep", "sync", text.parents[3]], project)
            assert ended.code == 0 and ended.out == "my_part: complete\n", ended.err
            assert text.read_text() == lines


def test_a_build_directory_on_the_path_names_the_installation(prefix, tmp_path):
    assert processes.run([LOCKSTEP, "new", "model", "my_part"], tmp_path).code == 0
    env = {**processes.environment(), "PATH": f"{BUILD}/bin:{os.environ['PATH']}"}
    configure = ["cmake", "-S", "my_part", "-B", "build"]
    ended = processes.run(configure, tmp_path, env=env, timeout=100)
    assert ended.code != 0 and f"cmake --install {BUILD} --prefix PREFIX" in ended.err, ended.err
    ended = processes.run([*configure, f"-DCMAKE_PREFIX_PATH={prefix}"], tmp_path, env=env, timeout=100)
    assert ended.code == 0, ended.err


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "taken").write_text("mine")
    ended = processes.run([LOCKSTEP, "new", "run", "taken"], tmp_path)
    assert ended.code == 78 and ended.err == "lockstep: error: lockstep new: 'taken' exists; choose another name\n"
    assert [path.name for path in tmp_path.iterdir()] == ["taken"] and (tmp_path / "taken").read_text() == "mine"


@pytest.mark.parametrize("words, message", [
    (["run", "../up"], "name '../up': expected lower-case letters"), (["run", "Upper"], "name 'Upper': expected"),
    (["run", "1st"], "name '1st': expected"), (["run", ""], "name '': expected"), (["run", "x" * 61], "at most 60"),
    (["sink", "class"], "name 'class' is reserved"), (["sink", "config"], "name 'config' is reserved"), (["modle", "x"], "unknown kind 'modle'; did you mean 'model'?"),
    (["run"], "usage: lockstep new run NAME"),
    (["model", "mlp"], "lockstep new: Lockstep has a model 'mlp'; choose another name"),
    (["dataset", "csv"], "Lockstep has a dataset 'csv'; choose"), (["sink", "console"], "Lockstep has a sink 'console'; choose"),
])
def test_bad_names_are_one_line(words, message, tmp_path):
    ended = processes.run([LOCKSTEP, "new", *words], tmp_path)
    assert ended.code == 78 and message in ended.err and ended.err.count("\n") == 1, ended.err
    assert not list(tmp_path.iterdir())
