"""`lockstep doctor`: checks whether a machine can train, and explains each problem."""

import json
import os
import shutil
import subprocess
import sys

import pytest

import processes
from processes import LOCKSTEP, environment
from test_disk import disk  # noqa: F401, a fixture

WHAT = ["cores", "memory", "open files", "shared memory", "clock", "runs", "temporary files", "host name", "loopback",
        "environment", "trainer", "GPUs"]


def doctor(cwd, *options, prefix=(), program=LOCKSTEP, code=0, **changes):
    """The result of each check: {check: (health, text)}."""
    ended = processes.run([*prefix, program, "doctor", "--json", *options], cwd, environment(**changes))
    assert ended.code == code, ended.out + ended.err
    assert ended.err == ""
    findings = json.loads(ended.out)
    assert [finding["what"] for finding in findings] == WHAT
    return {finding["what"]: (finding["health"], finding["text"]) for finding in findings}


def test_working_machine_has_no_problems(tmp_path):
    found = doctor(tmp_path)
    assert found["cores"] == ("good", f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} usable")
    for what in ("shared memory", "runs", "temporary files", "loopback", "environment", "trainer"):
        assert found[what][0] == "good", found[what]
    assert "LibTorch" in found["trainer"][1]
    assert list(tmp_path.iterdir()) == [], "no files are left"


def test_the_exit_status_of_children_is_known_if_the_parent_ignores_sigchld(tmp_path):
    script = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    assert doctor(tmp_path, prefix=[sys.executable, "-c", script])["shared memory"][0] == "good"


def test_text_output_has_one_line_per_check(tmp_path):
    ended = processes.run([LOCKSTEP, "doctor"], tmp_path)
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert [line[9:26].strip() for line in lines] == WHAT
    assert {line.split()[0] for line in lines} <= {"ok", "warning"}


def test_usable_cores(tmp_path):
    core = min(os.sched_getaffinity(0))
    found = doctor(tmp_path, prefix=["taskset", "-c", str(core)])
    assert found["cores"] == ("good", f"1 of {os.cpu_count()} usable")


def test_few_open_files(tmp_path):
    health, text = doctor(tmp_path, prefix=["prlimit", "--nofile=200:200"])["open files"]
    assert health == "warning" and "200 per process" in text and "ulimit" in text


def test_read_only_runs(tmp_path, disk):  # noqa: F811
    disk.mount("ro")
    health, text = doctor(tmp_path, "--dir", disk.path / "runs", code=75)["runs"]
    assert health == "problem"
    assert f"'{disk.path}' cannot be written: Read-only file system; choose another with run.dir" == text


def test_runs_on_a_full_disk(tmp_path, disk):  # noqa: F811
    disk.mount("size=2m")
    disk.fill()
    health, text = doctor(tmp_path, "--dir", disk.path, code=75)["runs"]
    assert health == "problem" and "cannot store a file of 1 MiB: No space left on device" in text


def test_runs_in_memory(tmp_path, disk):  # noqa: F811
    disk.mount("size=10m")
    health, text = doctor(tmp_path, "--dir", disk.path)["runs"]
    assert health == "warning" and "(tmpfs)" in text and "it is memory" in text
    assert list(disk.path.iterdir()) == []


def test_runs_is_a_file(tmp_path):
    (tmp_path / "runs").write_text("no directory")
    assert doctor(tmp_path, code=75)["runs"][1].endswith("is not a directory; choose another with run.dir")


def test_noexec_temporary_directory(tmp_path, disk):  # noqa: F811
    disk.mount("size=10m,noexec")
    health, text = doctor(tmp_path, TMPDIR=disk.path)["temporary files"]
    assert health == "warning" and "noexec" in text and "TMPDIR" in text


def test_read_only_temporary_directory(tmp_path, disk):  # noqa: F811
    disk.mount("ro")
    assert doctor(tmp_path, code=75, TMPDIR=disk.path)["temporary files"][0] == "problem"


def test_stale_rank_variable_in_the_environment(tmp_path):
    ranks = {"RANK": 1, "WORLD_SIZE": 4, "LOCAL_RANK": 1, "LOCAL_WORLD_SIZE": 4, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500}
    health, text = doctor(tmp_path, **ranks)["environment"]
    assert health == "warning" and "rank 1 of 4" in text and "unset" in text
    health, text = doctor(tmp_path, code=75, RANK=1)["environment"]
    assert health == "problem" and "WORLD_SIZE" in text


def test_variables_of_launchers_that_launch_reads(tmp_path):
    health, text = doctor(tmp_path, PET_NNODES=2)["environment"]
    assert health == "warning" and "PET_NNODES=2" in text and "unset" in text
    pod = {"NNODES": 2, "JOB_COMPLETION_INDEX": 1}
    health, text = doctor(tmp_path, code=75, **pod)["environment"]
    assert health == "problem" and "MASTER_ADDR" in text
    assert doctor(tmp_path, **pod, MASTER_ADDR="127.0.0.1")["environment"][0] == "good"


def test_cpu_quota_of_the_first_generation_of_cgroups(tmp_path):
    script = """mount -t tmpfs none /sys/fs/cgroup && mkdir /sys/fs/cgroup/cpu && cd /sys/fs/cgroup/cpu &&
               echo 50000 >cpu.cfs_quota_us && echo 100000 >cpu.cfs_period_us && cd "$OLDPWD" && exec "$0" "$@\""""
    health, text = doctor(tmp_path, prefix=["unshare", "--mount", "sh", "-c", script])["cores"]
    assert health == "warning" and "0.5 cores" in text


def test_missing_temporary_directory(tmp_path):
    health, text = doctor(tmp_path, code=75, TMPDIR="/nonexistent")["temporary files"]
    assert health == "problem" and text.startswith("TMPDIR '/nonexistent' cannot be written; ")


def test_missing_trainer(tmp_path):
    alone = tmp_path / "bin"
    alone.mkdir()
    shutil.copy(LOCKSTEP, alone)
    health, text = doctor(tmp_path, program=alone / "lockstep", code=75)["trainer"]
    assert health == "problem" and "make build" in text
    (alone / "lockstep-trainer").write_text("#!/bin/sh\nexit 127\n")
    (alone / "lockstep-trainer").chmod(0o755)
    health, text = doctor(tmp_path, program=alone / "lockstep", code=75)["trainer"]
    assert health == "problem" and "ldd" in text


def test_host_without_loopback_and_with_unresolvable_name(tmp_path):
    """In a separate network namespace without interfaces, with an unresolvable host name."""
    script = 'hostname unknown-host-name && exec "$0" "$@"'
    found = doctor(tmp_path, prefix=["unshare", "--net", "--uts", "sh", "-c", script], code=75)
    assert found["loopback"][0] == "problem" and "'lo'" in found["loopback"][1]
    assert found["host name"][0] in ("warning", "problem") and "unknown-host-name" in found["host name"][1]


@pytest.mark.parametrize("words, text", [
    (["--dirs", "x"], "dirs"),
    (["more"], "more"),
    (["--dir", "s3://bucket/prefix"], "--dir s3://bucket/prefix: expected a directory; to check a bucket: lockstep doctor s3://bucket/prefix"),
])
def test_invalid_arguments(tmp_path, words, text):
    ended = processes.run([LOCKSTEP, "doctor", *words], tmp_path)
    assert ended.code == 78 and text in ended.err and len(ended.err.splitlines()) == 1


def test_help(tmp_path):
    text = subprocess.run([LOCKSTEP, "doctor", "--help"], capture_output=True, text=True, timeout=processes.TIMEOUT_S)
    assert text.returncode == 0 and "--dir RUNS" in text.stdout
