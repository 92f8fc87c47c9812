"""Builds and tests Lockstep with other versions of LibTorch, each against its own Python, and writes the table of versions.

    python3 tests/torch_versions.py [--work build-torch] [--keep] 2.12.1 2.15.0

For every version: an environment with that wheel from PyPI, a build, the tests below, and a row in docs/installation.md. A
version that fails gets a row that says so, and the exit code is 1. Takes about 20 minutes per version on two cores, and 8 GB.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import venv

SOURCE = pathlib.Path(__file__).resolve().parents[1]
TABLE = SOURCE / "docs" / "installation.md"
BEGIN, END = "<!-- written by tests/torch_versions.py -->", "<!-- end of the versions -->"
PACKAGES = ["numpy", "safetensors", "pyarrow", "pytest", "Pillow", "PyYAML", "transformers"]  # as in cmake/requirements-peers.txt

# Columns of the table, and what is run for each: pytest arguments, in tests/e2e.
TESTS = {
    "bits of Python's DDP": ["test_python_ddp_bits.py"],
    "sharded bits": ["test_sharding.py"],
    "compiled packages": ["test_compiled_cases.py"],
    "plugins, embedding": ["test_installed_package.py"],
    "20 steps on 2 ranks, torchrun": ["test_start_up.py", "-k", "20_steps"],
}


def pinned(name):
    """`name==version` of cmake/requirements-peers.txt."""
    lines = (SOURCE / "cmake" / "requirements-peers.txt").read_text().splitlines()
    return next(line for line in lines if line.startswith(f"{name}=="))


def make_environment(directory, version):
    python = directory / "bin" / "python"
    if not python.exists():
        venv.create(directory, with_pip=True, symlinks=True)
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, f"torch=={version}", *map(pinned, PACKAGES)], check=True)
    subprocess.run([*pip, "--no-deps", "-e", SOURCE / "python"], check=True)
    return python


def build(python, directory):
    options = ["-DCMAKE_BUILD_TYPE=Release", f"-DLOCKSTEP_PYTHON={python}"]
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    subprocess.run(["cmake", *generator, "-S", SOURCE, "-B", directory, *options], check=True, stdout=subprocess.DEVNULL)
    targets = ["lockstep", "lockstep-data", "lockstep-trainer", "lockstep_trainer_program", "start_probe", "whole_optimizer"]
    subprocess.run(["cmake", "--build", directory, "-j", str(os.cpu_count()), "--target", *targets], check=True)


def run_test(python, build_directory, arguments):
    """(True, what is written into the table) of one column."""
    env = {**os.environ, "LOCKSTEP_BIN": str(build_directory / "bin"), "LOCKSTEP_SOURCE": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *arguments]
    ended = subprocess.run(command, cwd=SOURCE / "tests" / "e2e", env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=3600)
    print(ended.stdout[-4000:] if ended.returncode else ended.stdout.splitlines()[-1], flush=True)
    if times := re.search(r"lockstep launch ([\d.]+ s), torchrun ([\d.]+ s)", ended.stdout):
        return ended.returncode == 0, f"{times[1]}, {times[2]}"
    counts = re.findall(r"\d+ (?:passed|failed|skipped|error)", ended.stdout.splitlines()[-1])
    return ended.returncode == 0, ", ".join(counts) or "failed"


def write_row(version, cells):
    """Replaces or adds the row of `version`, in the order of versions."""
    text = TABLE.read_text()
    before, rest = text.split(BEGIN)
    old, after = rest.split(END)
    rows = {line.split("|")[1].strip(): line for line in old.strip().splitlines()[2:]}
    rows[version] = f"| {version} | {' | '.join(cells)} |"
    head = ["| LibTorch | " + " | ".join(TESTS) + " |", "|---" * (1 + len(TESTS)) + "|"]
    ordered = [rows[key] for key in sorted(rows, key=lambda key: [int(part) for part in key.split(".")])]
    TABLE.write_text(before + "\n".join([BEGIN, *head, *ordered, END]) + after)


def test_version(version, work, keep):
    directory = work / version
    python = make_environment(directory / "env", version)
    try:
        build(python, directory / "build")
    except subprocess.CalledProcessError:
        write_row(version, ["does not build"] + [""] * (len(TESTS) - 1))
        return False
    results = [run_test(python, directory / "build", arguments) for arguments in TESTS.values()]
    write_row(version, [text for _, text in results])
    if not keep:
        shutil.rmtree(directory)
    return all(passed for passed, _ in results)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("versions", nargs="+", metavar="VERSION")
    parser.add_argument("--work", type=pathlib.Path, default=SOURCE / "build-torch", help="environments and builds; default: build-torch")
    parser.add_argument("--keep", action="store_true", help="keep them")
    arguments = parser.parse_args()
    failed = [version for version in arguments.versions if not test_version(version, arguments.work.resolve(), arguments.keep)]
    if failed:
        sys.exit(f"torch_versions: failed with {', '.join(failed)}")


if __name__ == "__main__":
    main()
