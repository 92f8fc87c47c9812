"""The code with which a run was started: what `git diff` prints is recorded next to the run, and nothing about it ends or delays the run."""

import json
import os
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


SCRIPT = """
import os, time, lockstep
with lockstep.init(dir=%r, **%r) as run:
    run.log({'a': 1.0}, step=1)
    latest = time.monotonic() + %r
    while time.monotonic() < latest and not os.path.exists(os.path.join(run.dir, 'code.json')):
        time.sleep(0.02)
"""


def record(place, runs, env=None, is_recorded=True, **more):
    """The directory of a run of the Python client that was started in `place`; it ends after its code is recorded, unless it is not."""
    before = set(runs.iterdir()) if runs.exists() else set()
    script = SCRIPT % (str(runs), {"name": "demo", **more}, processes.TIMEOUT_S if is_recorded else 0)
    ended = processes.run([sys.executable, "-c", script], place, env or processes.environment())
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
    assert "the same commit and the same changes of tracked files" in compared
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
    assert not (record(place, tmp_path / "runs", is_recorded=False, git_diff=False) / "code.json").exists()
    assert not (record(tmp_path, tmp_path / "runs", is_recorded=False) / "code.json").exists()  # not a repository


def test_a_start_that_records_nothing_hides_the_changes_of_an_earlier_one(repository, tmp_path):
    place, _ = repository
    for more in ({"git_diff": False}, {"agent": False}):
        run = record(place, tmp_path / "runs")
        assert show_diff(run).code == 0
        script = SCRIPT % (str(tmp_path / "runs"), {"id": run.name, "resume": "must", **more}, 0)
        assert processes.run([sys.executable, "-c", script], place, processes.environment()).code == 0
        ended = show_diff(run)
        assert (ended.code, ended.out) == (78, "") and "no record" in ended.err
        processes.wait_until(lambda: not processes.find(run), processes.TIMEOUT_S, "the agent exits")


def test_the_repository_names_no_program_that_is_run(repository, tmp_path):
    place, git = repository
    (place / "evil.sh").write_text(f"#!/bin/sh\ntouch {tmp_path}/evil\n")
    (place / "evil.sh").chmod(0o755)
    (place / ".gitattributes").write_text("src/*.py diff=evil filter=evil\nsame.py filter=Evil.too\n")
    for key in ("diff.external", "diff.evil.command", "diff.evil.textconv", "core.fsmonitor", "core.pager", "filter.evil.clean", "filter.evil.process",
                "filter.evil.smudge", "filter.Evil.too.clean"):
        git("config", key, str(place / "evil.sh"))
    git("config", "filter.evil.required", "true")
    (place / "same.py").write_text("same = 2\n")
    run = record(place, tmp_path / "runs")
    diff = show_diff(run).out
    assert "+lr = 0.2" in diff and "+same = 2" in diff
    assert not (tmp_path / "evil").exists()
    # Options of git cannot turn off this filter.
    (place / "same.py").write_text("same = 3\n")
    (place / ".gitattributes").write_text("*.py filter=a=b\n")
    git("config", "filter.a=b.clean", str(place / "evil.sh"))
    assert "contains '='" in show_diff(record(place, tmp_path / "runs")).err
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("where", ["other", "."])
def test_files_outside_of_the_repository_are_not_recorded(repository, tmp_path, where):
    place, git = repository
    other = tmp_path / where
    (other / "src").mkdir(parents=True, exist_ok=True)
    (other / "same.py").write_text(SECRET)
    git("config", "core.worktree", str(other))
    run = record(place, tmp_path / "runs")
    assert SECRET not in (run / "code.json").read_text()
    assert json.loads((run / "code.json").read_text())["problem"] == "core.worktree of the repository names another directory"


def elsewhere(place, private, way):
    """Makes .git of `place` lead to the repository `private`."""
    dot_git, made = place / ".git", place / "made"
    if way == "commondir":
        (dot_git / "commondir").write_text(f"{private}/.git\n")
        return
    if way == "links":
        for name in ("refs", "objects"):
            shutil.rmtree(dot_git / name)
            (dot_git / name).symlink_to(private / ".git" / name)
        return
    shutil.rmtree(dot_git)
    if way == "link":
        dot_git.symlink_to(private / ".git")
    elif way == "gitdir":
        dot_git.write_text(f"gitdir: {private}/.git\n")
    else:  # a git directory that names this working tree, with the objects of the other repository
        made.mkdir()
        for name, text in {"HEAD": "ref: refs/heads/main", "commondir": f"{private}/.git", "gitdir": str(dot_git)}.items():
            (made / name).write_text(f"{text}\n")
        dot_git.write_text("gitdir: made\n")


@pytest.mark.parametrize("way", ["commondir", "links", "link", "gitdir", "made"])
def test_a_repository_elsewhere_is_not_recorded(repository, tmp_path, way):
    place, git = repository
    private = tmp_path / "private"
    subprocess.run(["git", "clone", "-q", place, private], check=True)
    (private / "private.py").write_text(SECRET)
    subprocess.run("git add . && git -c user.name=a -c user.email=a@example.org commit -qm two", cwd=private, check=True, shell=True)
    elsewhere(place, private, way)
    assert f"-{SECRET}" in git("diff", "HEAD")
    run = record(place, tmp_path / "runs")
    assert SECRET not in (run / "code.json").read_text()
    assert json.loads((run / "code.json").read_text())["problem"] == ".git leads to another repository, which does not name this working tree"


def test_linked_working_trees_and_submodules_have_their_own_diff(repository, tmp_path):
    place, git = repository
    git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(place), "sub")  # its core.worktree is ../../../sub
    for tree in (tmp_path / "linked", place / "sub"):
        (tree / "same.py").write_text("same = 2\n")
        assert "+same = 2" in show_diff(record(tree / "src", tmp_path / "runs")).out


def test_objects_are_not_fetched(repository, tmp_path):
    place, git = repository
    git("config", "uploadpack.allowFilter", "true")
    partial = tmp_path / "partial"
    subprocess.run(["git", "clone", "-q", "--filter=blob:none", "--no-checkout", f"file://{place}", partial], check=True)
    (tmp_path / "evil.sh").write_text(f"#!/bin/sh\ntouch {tmp_path}/evil\n")
    (tmp_path / "evil.sh").chmod(0o755)
    subprocess.run(["git", "reset", "-q"], cwd=partial, check=True)
    (partial / "same.py").write_text("same = 2\n")
    subprocess.run(["git", "config", "remote.origin.uploadpack", str(tmp_path / "evil.sh")], cwd=partial, check=True)
    assert "git diff failed" in show_diff(record(partial, tmp_path / "runs")).err
    assert not (tmp_path / "evil").exists()


def test_the_configuration_of_the_user_does_not_change_the_patch(repository, tmp_path):
    place, git = repository
    expected = git("diff", "HEAD")
    settings = ["diff.context=0", "diff.interHunkContext=9", "diff.submodule=log", "diff.algorithm=patience", "diff.noprefix=true", "diff.mnemonicPrefix=true",
                "diff.relative=true", "diff.suppressBlankEmpty=true", "diff.renames=false", "color.ui=always", "core.quotePath=false", "core.abbrev=40",
                "diff.autoRefreshIndex=false", f"diff.orderFile={tmp_path}/order"]
    (tmp_path / "order").write_text("src/*\n")
    for setting in settings:
        key, _, value = setting.partition("=")
        subprocess.run(["git", "config", "-f", tmp_path / ".gitconfig", key, value], check=True)
    os.utime(place / "same.py", (0, 0))
    run = record(place / "src", tmp_path / "runs", processes.environment(HOME=str(tmp_path)))
    assert show_diff(run).out == expected
    # Settings in variables are respected; a directory in a variable is not.
    run = record(place, tmp_path / "runs", processes.environment(GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="core.autocrlf", GIT_CONFIG_VALUE_0="none",
                                                                 GIT_DIR=str(tmp_path / "none")))
    assert "git rev-parse failed (exit code 128): fatal: bad boolean config value 'none' for 'core.autocrlf'" in show_diff(run).err


def test_a_diff_that_is_not_utf8_says_so(repository, tmp_path):
    place, _ = repository
    (place / "same.py").write_bytes(b"same = 'gr\xf6\xdfer'\n")
    run = record(place, tmp_path / "runs")
    ended = show_diff(run)
    assert ended.code == 0 and "same = 'gr" in ended.out and "not UTF-8" in ended.err
    assert "not UTF-8" in json.loads((run / "code.json").read_text())["note"]


NO_FILTERS = f'case $1 in config) exit 1;; rev-parse) exec {shutil.which("git")} "$@";; esac; '


@pytest.mark.parametrize("script, problem", [("exec sleep 1000", "git config did not end in time"), ("exit 3", "git config failed (exit code 3)"),
                                             ("test $1 = config && exit 1; exit 3", "git rev-parse failed (exit code 3)"),
                                             (NO_FILTERS + "exit 3", "git diff failed (exit code 3)"),
                                             (NO_FILTERS + "echo fatal: no >&2; exit 128", "git diff failed (exit code 128): fatal: no"),
                                             (NO_FILTERS + "exec sleep 1000", "git diff did not end in time"),
                                             (NO_FILTERS + "yes | head -c 1100000", "the diff has more than 1 MiB"), (None, "not found in PATH")])
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
    run = record(place, tmp_path / "runs", processes.environment(PATH=str(programs)), is_recorded="sleep" not in (script or ""))
    assert problem in json.loads((run / "code.json").read_text())["problem"]
    ended = show_diff(run)
    assert ended.code == 78 and problem in ended.err
    assert not processes.find(programs / "git")
    state, = json.loads(processes.run([LOCKSTEP, "runs", "list", "--json", "--dir", run.parent], tmp_path).out)
    assert state["state"] == "finished"
