"""-DTorch_DIR: Lockstep with a standalone LibTorch: the wheel's files, found by their path only."""

import os
from pathlib import Path

import pytest
import torch

import processes
from processes import SOURCE

LIBTORCH = Path(torch.__file__).parent
VERSION = torch.__version__.split("+")[0]

PROJECT = f"""
cmake_minimum_required(VERSION 3.25)
project(own LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
include({SOURCE}/cmake/LibTorch.cmake)
add_executable(own own.cpp)
target_link_libraries(own PRIVATE lockstep::torch)
"""

PROGRAM = """
#include <ATen/Parallel.h>
#include <iostream>
int main() {
  at::set_num_threads(3);
  std::cout << at::get_num_threads() << '\\n';
}
"""


@pytest.fixture
def libtorch(tmp_path):
    """include/, lib/ and share/ in a directory without Python."""
    place = tmp_path / "a place with blanks"
    place.mkdir()
    for name in ("include", "lib", "share"):
        (place / name).symlink_to(LIBTORCH / name)
    return place


def configure(source, build, torch_dir, *options):
    command = ["cmake", "-S", source, "-B", build, f"-DTorch_DIR={torch_dir}", "-DLOCKSTEP_PYTHON=/no/python", *options]
    return processes.run(command, build.parent, timeout=120, env=processes.environment(CXX="g++"))


def test_program_builds_and_runs(tmp_path, libtorch):
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    (tmp_path / "own.cpp").write_text(PROGRAM)
    ended = configure(tmp_path, tmp_path / "build", libtorch / "share" / "cmake" / "Torch")
    assert ended.code == 0, ended.err
    assert f"LibTorch {VERSION}: {libtorch}/lib" in ended.out
    ended = processes.run(["cmake", "--build", tmp_path / "build"], tmp_path, timeout=300)
    assert ended.code == 0, ended.out + ended.err
    ended = processes.run([tmp_path / "build" / "own"], tmp_path)
    assert (ended.code, ended.out) == (0, "3\n"), ended.err


def test_lockstep_configures_with_it(tmp_path, libtorch):
    ended = configure(SOURCE, tmp_path / "build", libtorch / "share" / "cmake" / "Torch", "-DLOCKSTEP_TESTS=OFF")
    assert ended.code == 0, ended.err
    assert f"LibTorch {VERSION}: {libtorch}/lib" in ended.out
    commands = (tmp_path / "build" / "compile_commands.json").read_text()
    assert os.fspath(LIBTORCH) not in commands


CUDA_HEADERS = ["nccl/include/nccl.h", *(f"cu13/include/{name}" for name in ("cuda_runtime.h", "cublas_v2.h", "crt/host_defines.h", "nv/target"))]


@pytest.mark.parametrize("missing", [None, "cu13/include/crt/host_defines.h"])
def test_missing_cuda_headers_are_reported(tmp_path, libtorch, missing):
    """The PyPI wheel contains cuda_runtime.h, but not the headers that it includes."""
    for header in CUDA_HEADERS:
        file = libtorch.parent / "nvidia" / header
        file.parent.mkdir(parents=True, exist_ok=True)
        if header != missing:
            file.touch()
    (tmp_path / "CMakeLists.txt").write_text(PROJECT + 'if(TARGET lockstep::torch_cuda)\n  message(STATUS "with CUDA")\nendif()\n')
    (tmp_path / "own.cpp").write_text(PROGRAM)
    ended = configure(tmp_path, tmp_path / "build", libtorch / "share" / "cmake" / "Torch")
    assert ended.code == 0, ended.err
    assert ("with CUDA" in ended.out) == (missing is None)
    reported = f"building without CUDA: missing in {libtorch.parent}/nvidia: {missing} (for CUDA: pip install 'cuda-toolkit[cccl,crt]'"
    assert (reported in ended.out) == (missing is not None), ended.out


@pytest.mark.parametrize("missing", ["the folder", "libtorch_cpu.so"])
def test_invalid_libtorch_is_rejected(tmp_path, libtorch, missing):
    torch_dir = libtorch / "share" / "cmake" / "Torch"
    if missing == "the folder":
        torch_dir = libtorch / "lib"
    else:
        (libtorch / "lib").unlink()
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    ended = configure(tmp_path, tmp_path / "build", torch_dir)
    assert ended.code != 0
    text = " ".join(ended.err.split())
    if missing == "the folder":
        assert f"Torch_DIR is '{torch_dir}', which has no TorchConfigVersion.cmake: pass the folder share/cmake/Torch" in text
    else:
        assert f"LibTorch {VERSION} in {libtorch} is incomplete: lib/libtorch_cpu.so is missing" in text
