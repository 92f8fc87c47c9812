"""The installed package: a plugin and an embedding program are built with find_package(lockstep) and trained."""

import importlib.metadata
import os
import pathlib
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import processes
from safetensors_file import checkpoints
from processes import LOCKSTEP, SOURCE, TRAINER

TORCH = importlib.metadata.version("torch").split("+")[0]
BUILD = pathlib.Path(os.environ["LOCKSTEP_BIN"]).parent


def configure_and_build(source, prefix, directory):
    """Builds against the installation; returns the build directory."""
    options = [f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Debug"]
    subprocess.run(["cmake", "-S", source, "-B", directory, *options], check=True, timeout=120)
    subprocess.run(["cmake", "--build", directory, "--parallel", "2"], check=True, timeout=400)
    return directory


def build_example(name, prefix, directory):
    return configure_and_build(SOURCE / "examples" / name, prefix, directory)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    directory = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", directory], check=True, timeout=120, stdout=subprocess.DEVNULL)
    return directory


@pytest.fixture(scope="module")
def plugin(prefix, tmp_path_factory):
    return build_example("model_plugin", prefix, tmp_path_factory.mktemp("plugin")) / "softmax_regression.so"


def test_only_public_headers_are_installed(prefix):
    include = prefix / "include"
    headers = sorted(path.relative_to(include).as_posix() for path in include.rglob("*") if path.is_file())
    public = {f"lockstep/{path.name.removesuffix('.in')}" for path in (SOURCE / "include" / "lockstep").iterdir()}
    assert set(headers) == public | {"lockstep.h", "lockstep.f90"} and len(public) <= 25


def test_private_headers_are_rejected(prefix, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text((SOURCE / "examples" / "model_plugin" / "CMakeLists.txt").read_text())
    (tmp_path / "softmax_regression.cpp").write_text("#include <lockstep/core/printable.h>\n")
    ended = processes.run(["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}"], tmp_path)
    assert ended.code != 0
    text = " ".join(ended.err.split())
    assert "softmax_regression.cpp: <lockstep/core/printable.h> is not a public header of Lockstep. Public headers:" in text
    assert "lockstep/model.h" in text and "lockstep/sink.h" in text


def test_member_of_an_unsupported_type_is_named_by_the_compiler(prefix, tmp_path):
    (tmp_path / "member.cpp").write_text("""#include <lockstep/config_fields.h>
struct MyConfig { int width = 1; };
template <class V> void fields(V& v, MyConfig& c) { v("width", c.width, "width"); }
auto dumped() { return lockstep::ConfigDumper::dump(MyConfig()); }
""")
    ended = processes.run(["c++", "-std=c++20", "-fsyntax-only", f"-I{prefix}/include", tmp_path / "member.cpp"], tmp_path)
    assert ended.code != 0 and "a member of this type cannot be in a run file: use bool, int64_t, double, std::string" in ended.err


KINDS = ["dataset", "image_transform", "model", "optimizer", "schedule", "hook"]


@pytest.fixture(scope="module")
def parts(prefix, tmp_path_factory):
    """A plugin of every kind, made of the examples in the public headers; sinks are separate."""
    directory = tmp_path_factory.mktemp("parts")
    subprocess.run([sys.executable, SOURCE / "tests/docs/extract_snippets.py", SOURCE, directory], check=True)
    (directory / "examples.h").write_text((SOURCE / "tests/docs/examples.h").read_text())
    sources = " ".join(f"{kind}_example.cpp" for kind in KINDS)
    (directory / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(parts LANGUAGES CXX)\nfind_package(lockstep REQUIRED)\n"
        "set(CMAKE_UNITY_BUILD ON)\n"  # quicker: LibTorch's headers are read once
        f"lockstep_add_plugin(parts {sources})\nlockstep_add_sink_plugin(last_loss sink_example.cpp)\n"
        "lockstep_add_plugin(invert image_transform_example.cpp)\n")
    return configure_and_build(directory, prefix, directory / "build")


@pytest.mark.long
def test_plugins_of_every_kind_train(job, parts):
    job.config["plugins"] = [str(parts / "parts.so")]
    job.config["tracking"] = {"plugins": [str(parts / "last_loss.so")], "sinks": ["last_loss"]}
    job.config["model"] = {"name": "line"}
    job.config["data"] = {"train": {"name": "counting", "samples": 64}, "batch_size": 8}
    job.config["optimizer"] = {"name": "sign_descent", "lr": 0.1}
    job.config["schedule"] = {"name": "halving", "every": 20}
    job.config["train"] = {"epochs": 10, "log_every": "1 steps", "hooks": ["stop_at_loss"]}
    job.write()
    run = job.train(ranks=2)
    [loss] = run.glob("sinks/last_loss/*/loss")
    assert 0 < float(loss.read_text()) < 0.2
    image = processes.run([TRAINER, "--schema", parts / "parts.so"], run)
    assert '"invert"' in image.out
    sink = processes.run([TRAINER, "--schema", parts / "last_loss.so"], run)
    assert sink.code == 0 and '"last_loss"' in sink.out, sink.err


@pytest.mark.long
def test_image_transforms_of_one_name_are_rejected(job, parts):
    plugins = [str(parts / "parts.so"), str(parts / "invert.so")]
    job.config["plugins"] = plugins
    job.write()
    for command in ([TRAINER, job.file], [TRAINER, "--schema", *plugins], [TRAINER, "--help", job.file]):
        ended = processes.run(command, job.directory)
        assert ended.code == 78 and "two image transforms are registered as 'invert'" in ended.err, ended.err


def use_plugin(job, path):
    job.config["plugins"] = [str(path)]
    job.config["model"] = {"name": "softmax_regression"}
    job.write()


def test_model_plugin_trains_on_two_ranks(job, plugin):
    use_plugin(job, plugin)
    job.train("optimizer.momentum=0", ranks=2)
    [run] = job.list()
    assert run["state"] == "finished"
    assert run["summary"]["eval/accuracy"] > 0.6


def test_installed_trainer_trains_with_the_plugin(job, plugin, prefix):
    use_plugin(job, plugin)
    ended = processes.run([prefix / "bin" / "lockstep-trainer", job.file], job.directory)
    assert ended.code == 0, ended.err


def receive_gauges(server):
    """{name: value} of all gauges up to that of the run's end."""
    gauges = {}
    while not any(name.endswith(".exit") for name in gauges):
        name, value = server.recv(2048).decode().rsplit(":", 1)
        gauges[name] = value
    return gauges


def test_sink_plugin_is_fed_by_the_agent(job, prefix, tmp_path_factory):
    plugin = build_example("sink_plugin", prefix, tmp_path_factory.mktemp("sink_plugin")) / "statsd.so"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(processes.TIMEOUT_S)
        port = server.getsockname()[1]
        job.config["tracking"] = {"plugins": [str(plugin)], "sinks": [{"name": "statsd", "port": port}]}
        job.write()
        with ThreadPoolExecutor(1) as pool:  # an unread socket drops datagrams that exceed its buffer
            received = pool.submit(receive_gauges, server)
            job.train(ranks=2)
            gauges = received.result()
        [run] = job.list()
    accuracy = gauges[f"lockstep.{run['id']}.eval/accuracy"]
    assert float(accuracy.removesuffix("|g")) == pytest.approx(run["summary"]["eval/accuracy"], abs=1e-6)
    assert gauges[f"lockstep.{run['id']}.exit"] == "0|g"


@pytest.mark.long
def test_hook_plugin_ends_the_run(job, prefix, tmp_path_factory):
    plugin = build_example("hook_plugin", prefix, tmp_path_factory.mktemp("hook_plugin")) / "stop_at.so"
    job.config["plugins"] = [str(plugin)]
    job.config["train"] = {"epochs": 4, "eval_every": "5 steps", "hooks": [{"name": "stop_at", "at_least": 0.5}]}
    job.write()
    run_dir = job.train(ranks=2)
    steps = [step for step, accuracy in job.series(run_dir.name, "eval/accuracy")]
    assert steps[-1] < 4 * 21 and checkpoints(run_dir)[-1] == steps[-1]
    [run] = job.list()
    assert run["state"] == "finished" and run["summary"]["stop_at/seconds"] > 0
    assert run["summary"]["eval/accuracy"] >= 0.5
    ended = job.run("train.hooks=[{name: stop_at}]")
    assert ended.code == 78 and "train.hooks[0].at_least" in ended.err
    ended = job.run("train.hooks=[{name: stop_at, metric: speed, at_least: 1}]")
    assert ended.code == 78 and "stop_at: the evaluation has no 'speed'" in ended.err


def test_plugin_is_in_the_schema(plugin, tmp_path):
    ended = processes.run([TRAINER, "--schema", plugin], tmp_path)
    assert ended.code == 0 and "softmax_regression" in ended.out


@pytest.mark.parametrize("old, new", [(f"torch={TORCH}".encode(), f"torch=9{TORCH[1:]}".encode()), (b"interface=12", b"interface=99")])
def test_plugin_of_another_build_is_rejected_before_its_code_runs(job, plugin, old, new):
    content = plugin.read_bytes()
    assert content.count(b"{interface=") == 1
    other = job.directory / "other.so"
    other.write_bytes(content.replace(old, new))
    use_plugin(job, other)
    ended = job.run()
    assert ended.code == 78
    assert f"plugin {other}: built for [" in ended.err and new.decode() in ended.err
    assert f"this program needs [interface=12 torch={TORCH}" in ended.err and "rebuild the plugin" in ended.err
    assert ended.err.count("\n") == 1


def test_plugin_loaded_twice_under_one_name_is_rejected(job, plugin):
    copy = job.directory / "copy.so"
    copy.write_bytes(plugin.read_bytes())
    use_plugin(job, plugin)
    job.config["plugins"].append(str(copy))
    job.write()
    ended = job.run()
    assert ended.code == 78
    assert "two models are registered as 'softmax_regression'" in ended.err


@pytest.fixture(scope="module")
def embedding(prefix, tmp_path_factory):
    """The folder of the programs of examples/embedding."""
    return build_example("embedding", prefix, tmp_path_factory.mktemp("embedding"))


@pytest.mark.long
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("program, config, printed", [
    ("two_moons", "run.yaml", ["accuracy 1.000", "accuracy 0.9"]), ("pendulum", "pendulum.yaml", ["step 300, loss 0."]),
    ("pendulum_c", "pendulum.yaml", ["step 300, loss 0."]), ("pendulum_fortran", "pendulum.yaml", ["step 300, loss 0."])])
def test_embedding_program_trains_standalone_and_launched(embedding, tmp_path, program, config, printed, ranks):
    start = [embedding / program] if ranks == 1 else [LOCKSTEP, "launch", "-n", "2", "--program", embedding / program]
    config = SOURCE / "examples" / "embedding" / config
    ended = processes.run([*start, config, f"run.dir={tmp_path}/runs", "distributed.device=cpu"], tmp_path)
    assert ended.code == 0, ended.err
    assert any(text in ended.out for text in printed)


def test_python_and_a_program_linked_by_hand_use_the_installed_library(prefix, tmp_path):
    examples = SOURCE / "examples" / "embedding"
    subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", examples / "pendulum.c", f"-I{prefix}/include",
                    f"-L{prefix}/lib", "-llockstep", "-lm", f"-Wl,-rpath,{prefix}/lib,--allow-shlib-undefined", "-o", tmp_path / "pendulum"],
                   check=True, timeout=processes.TIMEOUT_S)
    env = processes.environment(LD_LIBRARY_PATH=prefix / "lib")
    for program in ([tmp_path / "pendulum"], [sys.executable, examples / "pendulum.py"]):
        ended = processes.run([*program, examples / "pendulum.yaml", f"run.dir={tmp_path}/runs", "distributed.device=cpu"], tmp_path, env=env)
        assert ended.code == 0 and "step 300, loss 0." in ended.out, ended.err
