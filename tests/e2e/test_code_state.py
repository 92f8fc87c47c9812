"""The code with which a run was started: what `git diff` prints is recorded next to the run, and nothing about it ends or delays the run."""

import json
import shutil
import subprocess
import sys

import pytest

import processes
from processes import LOCKSTEP

SECRET = "do-not-record-this"


@pytest.fixture
def repository(tmp_path):
    """Two tracked files, of which one is changed, a new one that is added and one that is not, and one that is ignored."""
    place = tmp_path / "code"
    (place / "src").mkdir(parents=True)

    def git(*words):
        return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words], cwd=place, check=True, capture_output=True,
                              text=True).stdout

    git("init", "-q", "-b", "main")
    (place / "src" / "train.py").write_text("lr = 0.1\nsteps = 10\n")
    (place / "same.py").write_text("same = 1\n")
    (place / ".gitignore").write_text(".env\nruns\n*.sh\n")
    git("add", ".")
    git("commit", "-qm", "one")
    (place / "src" / "train.py").write_text("lr = 0.2\nsteps = 10\n# größer\n")
    (place / "added.py").write_text("new = 1\n")
    git("add", "added.py")
    (place / "untracked.py").write_text(SECRET)
    (place / ".env").write_text(SECRET)
    return place, git


SCRIPT = "import lockstep\nwith lockstep.init(name='demo', dir=%r, **%r) as run:\n  run.log({'a': 1.0}, step=1)\n"


def record(place, runs, env=None, **more):
    """The directory of a run of the Python client that was started in `place`."""
    before = set(runs.iterdir()) if runs.exists() else set()
    ended = processes.run([sys.executable, "-c", SCRIPT % (str(runs), more)], place, env or processes.environment())
    assert (ended.code, ended.err) == (0, ""), ended.err
    run, = set(runs.iterdir()) - before - {runs / ".dashboard"}
    processes.wait_until(lambda: not processes.find(run), processes.TIMEOUT_S, "the agent exits")
    return run


def show_diff(run):
    return processes.run([LOCKSTEP, "runs", "show", run.name, "--diff", "--dir", run.parent], run.parent)


def test_the_diff_restores_the_code(repository, tmp_path):
    place, git = repository
    run = record(place / "src", tmp_path / "runs")
    ended = show_diff(run)
    assert (ended.code, ended.out) == (0, git("diff", "HEAD"))
    assert SECRET not in (run / "code.json").read_text()
    restored = tmp_path / "restored"
    subprocess.run(["git", "clone", "-q", place, restored], check=True)
    subprocess.run(["git", "apply"], cwd=restored, check=True, input=ended.out, text=True)
    for name in ("src/train.py", "added.py", "same.py"):
        assert (restored / name).read_bytes() == (place / name).read_bytes()
    code = json.loads((run / "code.json").read_text())
    assert (code["commit"], code["branch"], code["files"], code["added"], code["removed"]) == (git("rev-parse", "HEAD").strip(), "main", 2, 3, 1)
    # Another run of the same code, and one after a change.
    other = record(place, tmp_path / "runs")
    compared = processes.run([LOCKSTEP, "runs", "compare", run.name, other.name, "--dir", tmp_path / "runs"], tmp_path).out
    assert "the code is identical" in compared
    git("checkout", "-q", "HEAD", "--", ".")
    git("rm", "-q", "--cached", "added.py")
    third = record(place, tmp_path / "runs")
    assert show_diff(third).out == ""
    compared = processes.run([LOCKSTEP, "runs", "compare", run.name, third.name, "--dir", tmp_path / "runs"], tmp_path).out
    assert "identical\n\ncode " in compared.split("metric")[0] and "2 files, +3 -1 lines" in compared
    software = json.loads((run / "software.json").read_text())
    assert software["python"] == sys.version.split()[0] and software["packages"]["pytest"] == pytest.__version__


def test_recording_can_be_turned_off(repository, tmp_path):
    place, _ = repository
    assert not (record(place, tmp_path / "runs", git_diff=False) / "code.json").exists()
    assert not (record(tmp_path, tmp_path / "runs") / "code.json").exists()  # not a repository


def test_the_repository_names_no_program_that_is_run(repository, tmp_path):
    place, git = repository
    (place / "evil.sh").write_text(f"#!/bin/sh\ntouch {tmp_path}/evil\n")
    (place / "evil.sh").chmod(0o755)
    (place / ".gitattributes").write_text("*.py diff=evil\n")
    for key in ("diff.external", "diff.evil.command", "diff.evil.textconv", "core.fsmonitor", "core.pager"):
        git("config", key, str(place / "evil.sh"))
    run = record(place, tmp_path / "runs")
    assert "+lr = 0.2" in show_diff(run).out
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("script, problem", [("exec sleep 1000", "git diff did not end in time"), ("exit 3", "git diff failed (exit code 3)"),
                                             ("yes | head -c 1100000", "the diff has more than 1 MiB"), (None, "not found in PATH")])
def test_git_that_fails_does_not_concern_the_run(repository, tmp_path, script, problem):
    place, _ = repository
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "lockstep").symlink_to(LOCKSTEP)
    for name in ("sleep", "yes", "head"):
        (programs / name).symlink_to(shutil.which(name))
    if script:
        (programs / "git").write_text(f"#!/bin/sh\n{script}\n")
        (programs / "git").chmod(0o755)
    run = record(place, tmp_path / "runs", processes.environment(PATH=str(programs)))
    assert problem in json.loads((run / "code.json").read_text())["problem"]
    ended = show_diff(run)
    assert ended.code == 78 and problem in ended.err
    assert not processes.find(programs / "git")
    state, = json.loads(processes.run([LOCKSTEP, "runs", "list", "--json", "--dir", run.parent], tmp_path).out)
    assert state["state"] == "finished"
