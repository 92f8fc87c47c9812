"""The C interface (lockstep.h, liblockstep.so), from C, Fortran and Python: the bits of a run of lockstep-trainer, and its errors."""

import ctypes
import importlib.util
import math
import os
import pathlib
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
import yaml

import processes
from processes import LOCKSTEP, SOURCE, TRAINER
from safetensors_file import last_weights, read_raw

BUILD = pathlib.Path(os.environ["LOCKSTEP_BIN"]).parent
BINDING = SOURCE / "examples" / "embedding" / "pendulum.py"
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
FIELDS = {"image": {"shape": [3]}, "label": {"dtype": "int64", "values": "uniform", "high": 2}}
# The Python program of the tests with several ranks: SCRIPT BINDING SAMPLES CONFIG ...
SCRIPT = """
import importlib.util, sys
import numpy as np
spec = importlib.util.spec_from_file_location("binding", sys.argv[1])
binding = importlib.util.module_from_spec(spec)
spec.loader.exec_module(binding)
samples = dict(np.load(sys.argv[2]))
rank, ranks = binding.ranks()
loop = binding.TrainingLoop(sys.argv[2:], {name: values[:1] for name, values in samples.items()})
while not loop.is_done():
    share = slice(8 * loop.steps() + rank, 8 * loop.steps() + 8, ranks)
    loop.step({name: values[share] for name, values in samples.items()})
loop.finish()
loop.close()
"""


def write_config(directory, train):
    config = {
        "run": {"name": "c", "dir": str(directory / "runs")},
        "model": {"name": "mlp", "inputs": 3, "hidden": [4], "classes": 2},
        "data": {"train": train, "eval": {"name": "synthetic", "samples": 16, "fields": FIELDS}, "batch_size": 8, "shuffle": False},
        "optimizer": {"name": "adamw", "lr": 0.05},
        "train": {"max_steps": 8, "eval_every": "3 steps"},
        "distributed": {"device": "cpu"},
        "tracking": {"sinks": [], "agent": False},
    }
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "run.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    return directory / "run.yaml"


def environment():
    return processes.environment(LD_LIBRARY_PATH=BUILD / "lib")


def trained_weights(command, ranks, directory):
    """The bytes of the last checkpoint's weights of a run in `directory`."""
    start = [LOCKSTEP, "launch", "-n", ranks, "--", *command] if ranks > 1 else command
    ended = processes.run(start, directory, environment())
    assert ended.code == 0, ended.err
    (run,) = (directory / "runs").iterdir()
    return last_weights(run).read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a run on a dataset, its samples as files, and the programs c_loop and fortran_loop."""
    folder = tmp_path_factory.mktemp("whole")
    config = write_config(folder, {"name": "synthetic", "samples": 64, "fields": FIELDS})
    ended = processes.run([TRAINER, "--first-batch", folder / "samples.safetensors", config, "data.batch_size=64"], folder)
    assert ended.code == 0, ended.err
    raw = read_raw(folder / "samples.safetensors")
    (folder / "samples.bin").write_bytes(raw["image"][2] + raw["label"][2])
    np.savez(folder / "samples.npz", image=np.frombuffer(raw["image"][2], np.float32).reshape(64, 3),
             label=np.frombuffer(raw["label"][2], np.int64))
    (folder / "loop.py").write_text(SCRIPT)
    for compiler, sources in ((["cc", "-std=c99"], ["tests/e2e/c_loop.c"]),
                              (["gfortran", "-std=f2018"], ["include/lockstep.f90", "tests/e2e/fortran_loop.f90"])):
        sources = [SOURCE / source for source in sources]
        subprocess.run([*compiler, *STRICT, *sources, f"-I{SOURCE}/include", f"-L{BUILD}/lib", f"-Wl,-rpath,{BUILD}/lib", "-llockstep", "-lm",
                        "-o", folder / sources[-1].stem], check=True, timeout=processes.TIMEOUT_S, cwd=folder)
    return folder


@pytest.mark.parametrize("ranks", [1, 2])
def test_has_the_bits_of_a_run_of_the_trainer(whole, tmp_path, ranks):
    expected = trained_weights([TRAINER, write_config(tmp_path / "whole", yaml.safe_load((whole / "run.yaml").read_text())["data"]["train"])],
                               ranks, tmp_path / "whole")
    for program in ("c_loop", "fortran_loop"):
        config = write_config(tmp_path / program, {"name": "program"})
        assert trained_weights([whole / program, whole / "samples.bin", "train", config], ranks, tmp_path / program) == expected
    config = write_config(tmp_path / "python", {"name": "program"})
    program = [sys.executable, whole / "loop.py", BINDING, whole / "samples.npz", config]
    assert trained_weights(program, ranks, tmp_path / "python") == expected


def test_a_signal_ends_a_c_program_with_a_checkpoint_and_it_resumes(whole, tmp_path):
    config = write_config(tmp_path, {"name": "program"})
    program = [whole / "c_loop", whole / "samples.bin", "signal", config]
    ended = processes.run([*program, "--handle-signals", "tracking.agent=true"], tmp_path, environment())
    assert ended.code == 128 + 15, ended.err
    assert "preempted by SIGTERM after step 4 of 8, with a checkpoint" in ended.out
    run_id = re.search(r"run (\S+):", ended.out)[1]
    assert (tmp_path / "runs" / run_id / "sinks" / "agent-00000.log").exists()  # of the program next to the library
    program[2] = "train"
    ended = processes.run([*program, "--resume", run_id], tmp_path, environment())
    assert ended.code == 0 and ended.out.startswith("steps 8 ") and run_id in ended.out, ended.err


@pytest.mark.parametrize("program", ["c_loop", "fortran_loop"])
def test_bad_input_of_a_program_is_one_line_and_its_exit_code(whole, tmp_path, program):
    config = write_config(tmp_path, {"name": "program"})
    for words, message in [(["modle.name=x"], "modle: unknown key; did you mean 'model'?"),
                           (["--resmue", "x"], "lockstep_create: unknown option '--resmue' in argv; expected {PROGRAM, RUN_FILE, "),
                           (["--resume"], "lockstep_create: no run id after '--resume' in argv; expected {PROGRAM, RUN_FILE, "),
                           (["data.batch_size=16"], "the batch has 8 samples on this rank, a step needs at least 16")]:
        ended = processes.run([whole / program, whole / "samples.bin", "train", config, *words], tmp_path, environment())
        assert (ended.code, ended.err.count("\n")) == (78, 1) and message in ended.err, ended.err


def test_exports_the_functions_of_the_header_only():
    header = re.sub(r"//.*", "", (SOURCE / "include" / "lockstep.h").read_text())
    listed = subprocess.run(["nm", "-D", "--defined-only", BUILD / "lib" / "liblockstep.so"], check=True, capture_output=True, text=True).stdout
    assert sorted(line.split()[-1] for line in listed.splitlines()) == sorted(re.findall(r"\b(lockstep_\w+)\(", header))


def test_the_fortran_module_has_the_functions_and_values_of_the_header():
    header = re.sub(r"//.*", "", (SOURCE / "include" / "lockstep.h").read_text())
    module = re.sub(r"!.*", "", (SOURCE / "include" / "lockstep.f90").read_text())
    values = dict(re.findall(r"\b(LOCKSTEP_\w+) = (\d+)", header))
    assert dict(re.findall(r"\b(LOCKSTEP_\w+) = (\d+)", module)) == {
        **values, "LOCKSTEP_ABI": re.search(r"LOCKSTEP_ABI_VERSION (\d+)", header)[1]}
    names = {name: [word.split()[-1].strip("*") for word in words.split(",") if word != "void"]
             for name, words in re.findall(r"\b(lockstep_\w+)\(([^)]*)\)", header)}
    assert {name: re.findall(r"\w+", words)
            for name, words in re.findall(r"(?:function|subroutine) (lockstep_\w+)\(([^)]*)\) bind\(c\)", module)} == names
    members = re.search(r"struct lockstep_array \{(.*?)\}", header, re.S)[1]
    described = re.search(r"bind\(c\) :: lockstep_array(.*?)end type", module, re.S)[1]
    assert re.findall(r":: (\w+)", described) == re.findall(r"(\w+);", members)


# Below: the library in this process.


@pytest.fixture(scope="module")
def binding():
    ctypes.CDLL(str(BUILD / "lib" / "liblockstep.so"))  # the binding finds it by its name then
    spec = importlib.util.spec_from_file_location("pendulum", BINDING)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def batch(count=8, **changes):
    fields = {"image": np.ones((count, 3), np.float32), "label": np.zeros(count, np.int64), **changes}
    return {name: values for name, values in fields.items() if values is not None}


@pytest.fixture
def new_loop(binding, tmp_path):
    """Makes loops; each is closed at the end."""
    loops = []

    def make(*words, example=None):
        config = write_config(tmp_path, {"name": "program"})
        loops.append(binding.TrainingLoop(["test", str(config), *words], batch(1) if example is None else example))
        return loops[-1]

    yield make
    for loop in loops:
        loop.close()


def fails(binding, call, *arguments, status=78, **named):
    """The message of a call that fails, one line."""
    with pytest.raises(binding.LockstepError) as caught:
        call(*arguments, **named)
    message = str(caught.value)
    assert caught.value.status == status and message and "\n" not in message, message
    return message


def test_refused_arguments_leave_the_loop_as_it_was(binding, new_loop):
    loop = new_loop()
    step = lambda **changes: fails(binding, loop.step, batch(**changes))  # noqa: E731
    assert step(imge=np.ones((8, 3), np.float32)) == (
        "lockstep_step: field 2 'imge' is not in the example; did you mean 'image'? valid: image, label")
    for dtype, name in [("float64", "Double"), ("float16", "Half"), ("int64", "Long"), ("int32", "Int"), ("int16", "Short"), ("int8", "Char"),
                        ("uint8", "Byte"), ("bool", "Bool")]:
        message = f"lockstep_step: field 0 'image' is {name} with 2 dimensions, in the example Float with 2"
        assert step(image=np.ones((8, 3), dtype)) == message
    assert step(image=np.ones((8, 3, 1), np.float32)) == (
        "lockstep_step: field 0 'image' is Float with 3 dimensions, in the example Float with 2")

    def raw(**changes):
        fields, kept = binding.arrays_of(batch())
        for name, value in changes.items():
            setattr(fields[0], name, value)
        return fails(binding, lambda: binding.check(binding.LIBRARY.lockstep_step(loop.loop, fields, 2)))

    field = "lockstep_step: field 0 'image': "
    assert raw(data=None) == field + "data is NULL"
    assert raw(shape=None) == field + "shape is NULL"
    assert raw(num_dims=0) == field + "num_dims is 0; expected 1 to 16, the first dimension is the sample"
    assert raw(dtype=4) == "lockstep_step: field 0 'image' is BFloat16 with 2 dimensions, in the example Float with 2"
    assert raw(dtype=0) == field + "dtype is 0; expected a lockstep_dtype, 1 to 10"
    for shape in [(-1, 3), (2**62, 2**62)]:
        assert raw(shape=(ctypes.c_int64 * 2)(*shape)).startswith(field + f"shape is [{shape[0]}, {shape[1]}]; expected sizes of")
    fields, kept = binding.arrays_of(batch())
    for names, message in [((b"image", b"image"), "lockstep_step: field 1 'image' was passed twice"),
                           ((None, None, None), "lockstep_step: field 2 has no name, and the example has 2 fields")]:
        given = (binding.Array * len(names))(*fields, *fields[: len(names) - 2])
        for array, name in zip(given, names):
            array.name = name
        assert fails(binding, lambda: binding.check(binding.LIBRARY.lockstep_step(loop.loop, given, len(given)))) == message
    assert not loop.is_done() and loop.steps() == 0
    loop.step(batch())
    assert not loop.is_done() and loop.steps() == 1


def test_null_is_a_status(binding):
    library, null = binding.LIBRARY, binding.LOOP()
    for name in ["evaluate", "save", "finish"]:
        message = fails(binding, lambda: binding.check(getattr(library, f"lockstep_{name}")(null)))
        assert message == f"lockstep_{name}: loop is NULL"
    assert fails(binding, lambda: binding.check(library.lockstep_step(null, None, 0))) == "lockstep_step: loop is NULL"
    assert fails(binding, lambda: binding.check(library.lockstep_metric(null, b"loss", None))) == "lockstep_metric: loop is NULL"
    create = lambda *arguments: fails(binding, lambda: binding.check(library.lockstep_create(*arguments)))  # noqa: E731
    assert create(0, None, None, 0, None) == "lockstep_create: loop is NULL"
    assert create(0, None, None, 0, null) == "lockstep_create: argv is NULL"
    words = (ctypes.c_char_p * 2)(b"test", None)
    assert create(2, words, None, 0, null) == "lockstep_create: an element of argv is NULL"
    words[1] = b"/nonexistent/run.yaml"
    assert create(2, words, None, 1, null) == "lockstep_create: example is NULL"
    assert create(2, words, (binding.Array * 1)(), 1, null) == "lockstep_create: field 0 of the example has no name"
    assert create(2, words, None, 0, null) == "TrainingLoop: the batch has no fields"
    assert (library.lockstep_is_done(null), library.lockstep_steps(null), library.lockstep_total_steps(null)) == (1, -1, -1)
    assert math.isnan(library.lockstep_loss(null)) and library.lockstep_stop_signal(null) == 0
    assert {getattr(library, f"lockstep_{name}")(null) for name in ["run_id", "run_dir", "stop_reason"]} == {b""}
    assert library.lockstep_metric_name(null, 0) is None
    library.lockstep_destroy(null)
    assert library.lockstep_ranks(None, None) == 0 and library.lockstep_last_error() == b""


def test_failures_of_a_run_are_its_status(binding, new_loop):
    assert "/nonexistent.yaml" in fails(binding, binding.TrainingLoop, ["test", "/nonexistent.yaml"], batch(1))
    assert "did you mean 'model'" in fails(binding, new_loop, "modle.name=x")
    assert fails(binding, new_loop, example=batch(0)) == "TrainingLoop: the example of a batch has no samples"
    assert "before the first step" in fails(binding, new_loop().save)
    loop = new_loop()
    message = fails(binding, loop.step, batch(image=np.ones((8, 4), np.float32)))
    assert message == "model mlp has inputs: 3, but 'image' is [8, 4], 4 per sample; set model.inputs"
    assert loop.is_done()
    assert fails(binding, loop.step, batch()) == fails(binding, loop.finish) == message


def test_calls_after_finish_and_results(binding, new_loop):
    loop = new_loop()
    assert fails(binding, lambda: binding.check(binding.LIBRARY.lockstep_metric(loop.loop, b"loss", ctypes.byref(ctypes.c_double())))) == (
        "lockstep_metric: there was no evaluation")
    loop.step(batch())
    evaluation = loop.evaluate()
    assert list(evaluation) == ["accuracy", "loss"]
    value = ctypes.c_double()
    assert fails(binding, lambda: binding.check(binding.LIBRARY.lockstep_metric(loop.loop, b"acuracy", ctypes.byref(value)))) == (
        "lockstep_metric: the evaluation has no 'acuracy'; did you mean 'accuracy'? valid: accuracy, loss")
    run_dir = pathlib.Path(loop.finish())
    assert (run_dir / "run.json").exists() and loop.metrics() == evaluation
    reason = binding.LIBRARY.lockstep_stop_reason(loop.loop).decode()
    assert reason == "stopped early after step 1 of 8, with a checkpoint: the program ended its loop"
    for name in ["step", "evaluate", "save", "finish"]:
        arguments = [batch()] if name == "step" else []
        assert fails(binding, getattr(loop, name), *arguments) == f"lockstep_{name}: lockstep_finish() has ended the run"
    assert loop.is_done() and loop.steps() == 1 and math.isfinite(loop.loss())


def test_the_python_of_the_guide_trains(binding, tmp_path, monkeypatch, capsys):
    [code] = re.findall(r"```python\n(.*?)```", (SOURCE / "docs" / "howto" / "embed.md").read_text(), re.S)
    write_config(tmp_path, {"name": "program"})
    monkeypatch.chdir(tmp_path)
    exec(code, {"TrainingLoop": binding.TrainingLoop, "simulate": lambda count: batch(min(count, 8))})
    run_dir, loss = capsys.readouterr().out.split()
    assert (pathlib.Path(run_dir) / "checkpoints" / "8").exists() and 0 < float(loss) < 1


def test_arrays_of_another_byte_order_or_type(binding, new_loop):
    losses = []
    for dtype in ("<f4", ">f4"):
        loop = new_loop()
        loop.step(batch(image=np.ones((8, 3), dtype)))
        losses.append(loop.loss())
        loop.finish()
    assert losses[0] == losses[1]
    with pytest.raises(TypeError, match="^field 'image' is complex64, expected one of float32, float64, .*bool$"):
        loop.step(batch(image=np.ones((8, 3), np.complex64)))


def test_a_process_has_one_loop_at_a_time(binding, new_loop):
    loop = new_loop()
    assert fails(binding, new_loop) == "TrainingLoop: this process has another one, which has not ended: end it first"
    loop.step(batch())
    assert loop.steps() == 1


def test_the_last_error_belongs_to_its_thread(binding):
    assert binding.LIBRARY.lockstep_save(None) == 78
    seen = []
    thread = threading.Thread(target=lambda: seen.append(binding.LIBRARY.lockstep_last_error()))
    thread.start()
    thread.join()
    assert seen == [b""] and binding.LIBRARY.lockstep_last_error() == b"lockstep_save: loop is NULL"
