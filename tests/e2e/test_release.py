"""The archives of `make dist`, moved to another place, with LibTorch found at run time. Reuses this build (cmake/dist.py)."""

import gzip
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile

import pytest
import torch

import processes
from processes import SOURCE

BUILD = pathlib.Path(os.environ["LOCKSTEP_BIN"]).parent
TORCH = pathlib.Path(torch.__file__).parent
SITE = TORCH.parent
MINOR = ".".join(torch.__version__.split(".")[:2])
MNIST = SOURCE / ".data" / "mnist"
LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
# What every Linux has, and what Python itself needs.
OF_EVERY_LINUX = re.compile(r"(libc|libm|libdl|librt|libpthread|libutil|libresolv|ld-linux-x86-64|libstdc\+\+|libgcc_s|libz|libexpat|libffi)\.so")


def make_release(out):
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(["python3", SOURCE / "cmake" / "dist.py", "--build", BUILD, "--out", out, "--from-source"], check=True, timeout=300, env=env)
    return out


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return make_release(tmp_path_factory.mktemp("dist"))


def unpack(release, place):
    with tarfile.open(next(release.glob("*x86_64.tar.gz"))) as archive:
        archive.extractall(place, filter="tar")
    (tree,) = place.iterdir()
    return tree


@pytest.fixture(scope="module")
def tree(release, tmp_path_factory):
    return unpack(release, tmp_path_factory.mktemp("a place with blanks"))


def bare(home, **variables):
    """An environment without Python, compiler and LibTorch."""
    return {"PATH": "/nonexistent", "HOME": str(home), **variables}


def run(command, directory, env):
    return processes.run(command, directory, env=env)


def training(bin_folder, runs):
    return [bin_folder / "lockstep", "launch", "-n", "2", SOURCE / "configs" / "mnist.yaml", f"run.dir={runs}", "train.max_steps=5",
            "train.epochs=1", f"data.train.path={MNIST}", f"data.eval.path={MNIST}", "data.eval.limit=200", "distributed.device=cpu"]


def fake_torch(place, version):
    (place / "lib").mkdir(parents=True)
    (place / "lib" / "libtorch_cpu.so").touch()
    (place / "version.py").write_text(f"__version__ = '{version}+cpu'\n")
    return place


def test_archives_are_complete_and_reproducible(release, tmp_path):
    sums = dict(reversed(line.split("  ")) for line in (release / "SHA256SUMS").read_text().splitlines())
    assert {path.name for path in release.iterdir()} == {*sums, "SHA256SUMS"}
    again = make_release(tmp_path)
    for name, digest in sums.items():
        assert hashlib.sha256((release / name).read_bytes()).hexdigest() == digest
        assert hashlib.sha256((again / name).read_bytes()).hexdigest() == digest, f"{name} differs"
    with tarfile.open(next(release.glob("*x86_64.tar.gz"))) as archive:
        members = archive.getmembers()
    names = [member.name for member in members]
    assert names == sorted(names, key=pathlib.PurePosixPath)
    assert {member.mtime for member in members} == {1700000000} and {member.uname for member in members} == {"root"}


def test_tree_has_all_parts(tree):
    for path in ["bin/lockstep", "bin/lockstep-trainer", "bin/lockstep-data", "lib/lockstep/lockstep-trainer", "include/lockstep/model.h",
                 "include/lockstep.h", "include/lockstep.f90", "lib/liblockstep.so",
                 "lib/cmake/lockstep/lockstepConfig.cmake", "share/lockstep/configs/mnist.yaml", "share/lockstep/run_file.schema.json",
                 "share/bash-completion/completions/lockstep", "share/zsh/site-functions/_lockstep", "share/doc/lockstep/LICENSE",
                 "share/fish/vendor_completions.d/lockstep.fish", "share/man/man1/lockstep-launch.1.gz", "share/man/man5/lockstep-run-file.5.gz"]:
        assert (tree / path).is_file(), path
    assert not (tree / "lib" / "lockstep" / "torch-dir").exists()
    assert b".SH DESCRIPTION" in gzip.decompress((tree / "share/man/man1/lockstep-launch.1.gz").read_bytes())
    document = json.loads((tree / "share/doc/lockstep/sbom.spdx.json").read_text())
    packages = {package["name"] for package in document["packages"]}
    assert {"lockstep", "torch", "nlohmann-json3-dev", "preact", "umap-js"} <= packages
    assert (tree / "share/doc/lockstep/third_party/umap-js/LICENSE").is_file()
    known = {package["SPDXID"] for package in document["packages"]} | {"SPDXRef-DOCUMENT"}
    assert len(known) == len(document["packages"]) + 1, "also of a package in several versions"
    for relation in document["relationships"]:
        assert {relation["spdxElementId"], relation["relatedSpdxElement"]} <= known


def test_trains_from_another_place(tree, tmp_path):
    ended = run(training(tree / "bin", tmp_path / "runs"), tmp_path, bare(tmp_path, LOCKSTEP_TORCH=str(SITE)))
    assert ended.code == 0, ended.err
    assert "done:  eval/" in ended.out
    ended = run([tree / "bin" / "lockstep", "version"], tmp_path, bare(tmp_path, VIRTUAL_ENV=str(SITE.parents[2])))
    assert ended.out.splitlines()[1:] == [f"built for LibTorch {torch.__version__.split('+')[0]}",
                                          f"LibTorch: {torch.__version__} in {TORCH} (VIRTUAL_ENV)"]


@pytest.fixture(scope="module")
def other_linux(tmp_path_factory):
    """The beginning of a command whose programs do not see Debian's libraries."""
    folder = tmp_path_factory.mktemp("libraries")
    for library in LIBRARIES.iterdir():
        if OF_EVERY_LINUX.match(library.name):
            shutil.copy(library, folder)
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", f'mount --bind "$0" {LIBRARIES} && exec "$@"', folder]


def test_needs_no_libraries_of_debian(tree, other_linux, tmp_path):
    env = bare(tmp_path, LOCKSTEP_TORCH=str(SITE), LD_LIBRARY_PATH=f"{TORCH / 'lib'}:{SITE / 'pyarrow'}")
    env["PATH"] = os.environ["PATH"]  # of mount
    load = [sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])"]
    libraries = [tree / "lib" / f"liblockstep{name}.so" for name in ("", "_parquet", "_store")]
    for command in ([tree / "bin" / "lockstep", "version"], [tree / "bin" / "lockstep-trainer", "--version"],
                    [tree / "bin" / "lockstep-data", "--help"], *([*load, library] for library in libraries)):
        ended = run([*other_linux, *command], tmp_path, env)
        assert ended.code == 0, ended.err


def test_works_without_libtorch_except_for_training(tree, tmp_path):
    env = bare(tmp_path)
    for words in (["ui", "--help"], ["runs", "--help"], ["launch", "--help"], ["help"]):
        assert run([tree / "bin" / "lockstep", *words], tmp_path, env).code == 0
    ended = run([tree / "bin" / "lockstep", "version"], tmp_path, env)
    assert ended.code == 0 and f"LibTorch: no LibTorch found, which training needs: install it (pip install 'torch=={MINOR}.*')" in ended.out
    ended = run([tree / "bin" / "lockstep-trainer", "--version"], tmp_path, env)
    assert ended.code == 75 and ended.err.count("\n") == 1
    assert ended.err.startswith("lockstep-trainer: error: no LibTorch found")


def test_another_libtorch_is_one_line(tree, tmp_path):
    trainer = tree / "bin" / "lockstep-trainer"
    other = fake_torch(tmp_path / "env/lib/python3.12/site-packages/torch", "9.8.0")
    for words, env, code, found_by in [
        (["--torch", str(other)], {}, 78, "LOCKSTEP_TORCH"),
        ([], {"LOCKSTEP_TORCH": str(tmp_path / "env")}, 78, "LOCKSTEP_TORCH"),
        ([], {"VIRTUAL_ENV": str(tmp_path / "env")}, 75, "VIRTUAL_ENV"),
    ]:
        ended = run([trainer, *words, "--version"], tmp_path, bare(tmp_path, **env))
        assert (ended.code, ended.err.count("\n")) == (code, 1), ended.err
        assert f"LibTorch 9.8.0+cpu in {other} ({found_by}) does not fit: this Lockstep was built for {MINOR}" in ended.err
    old = fake_torch(tmp_path / "old", torch.__version__.split("+")[0])
    (old / "share/cmake/Torch").mkdir(parents=True)
    (old / "share/cmake/Torch/TorchConfig.cmake").write_text('set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=0")\n')
    ended = run([trainer, "--torch", old, "--version"], tmp_path, bare(tmp_path))
    assert ended.code == 78 and "has the C++ ABI before C++11" in ended.err
    ended = run([trainer, "--torch", tmp_path / "none", "--version"], tmp_path, bare(tmp_path))
    assert ended.code == 78 and f"no LibTorch in '{tmp_path}/none'" in ended.err
    # One that fits is preferred to one that does not.
    env = bare(tmp_path, VIRTUAL_ENV=str(tmp_path / "env"), CONDA_PREFIX=str(SITE.parents[2]))
    assert run([trainer, "--version"], tmp_path, env).code == 0


def test_wheel_in_an_environment(release, tmp_path):
    (wheel,) = release.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
    assert {"lockstep/py.typed", "lockstep/compile/include/regex"} <= set(names)
    needs = [line for line in metadata.splitlines() if line.startswith("Requires-Dist: torch")]
    assert needs == [f"Requires-Dist: torch=={MINOR}.*; extra == '{extra}'" for extra in ["compile", "torch"]]
    env_dir = tmp_path / "env"
    venv.create(env_dir, symlinks=True, with_pip=False)
    subprocess.run([sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "--python", env_dir / "bin" / "python3", "install",
                    "--no-deps", "--no-index", wheel], check=True, timeout=120)
    (site,) = (env_dir / "lib").glob("python3*/site-packages")
    ended = run([env_dir / "bin" / "lockstep", "version"], tmp_path, bare(tmp_path))
    assert "no LibTorch found" in ended.out
    ended = run([env_dir / "bin" / "lockstep-compile", "model.py:make", "--loss", "mse", "--batch", "8"], tmp_path, bare(tmp_path))
    assert ended.code == 75 and ended.err.endswith("pip install 'lockstep[compile]'\n") and ended.err.count("\n") == 1, ended.err
    (site / "torch.pth").write_text(f"{SITE}\n")  # in place of installing LibTorch a second time
    ended = run(training(env_dir / "bin", tmp_path / "runs"), tmp_path, bare(tmp_path))
    assert ended.code == 0, ended.err
    assert "done:  eval/" in ended.out


def test_sink_plugin_builds_against_it(tree, tmp_path):
    """Without Debian's nlohmann_json package: the release has the headers."""
    env = {**processes.environment(), "LOCKSTEP_TORCH": str(TORCH)}
    source = SOURCE / "examples" / "sink_plugin"
    for command in (["cmake", "-S", source, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={tree}"], ["cmake", "--build", tmp_path]):
        ended = processes.run(command, tmp_path, env=env, timeout=200)
        assert ended.code == 0, ended.out + ended.err
    assert (tmp_path / "statsd.so").exists()


@pytest.mark.long
def test_a_program_links_the_static_libraries(tree, tmp_path):
    env = {**processes.environment(), "LOCKSTEP_TORCH": str(TORCH)}
    source = SOURCE / "examples" / "embedding"
    for command in (["cmake", "-S", source, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={tree}"], ["cmake", "--build", tmp_path, "--target", "pendulum"]):
        ended = processes.run(command, tmp_path, env=env, timeout=300)
        assert ended.code == 0, ended.out + ended.err
    ended = run([tmp_path / "pendulum", source / "pendulum.yaml", f"run.dir={tmp_path}/runs", "distributed.device=cpu"], tmp_path, env)
    assert ended.code == 0 and "step 300, loss 0." in ended.out, ended.err
    bad = run([tmp_path / "pendulum", tmp_path / "none.yaml"], tmp_path, env)  # an exception of a library
    assert bad.code == 78 and "none.yaml: cannot be read" in bad.err, bad.err


def test_package_without_libtorch_says_so(tree, tmp_path):
    shutil.copy(SOURCE / "examples" / "sink_plugin" / "CMakeLists.txt", tmp_path)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LOCKSTEP_TORCH": "/nowhere"}
    ended = processes.run(["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={tree}"], tmp_path, env=env)
    assert ended.code != 0 and "no LibTorch in '/nowhere'" in " ".join(ended.err.split())
