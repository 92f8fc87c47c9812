"""Completion in a real bash, and in zsh and fish where they are installed; man pages."""

import re
import shutil
import subprocess

import pytest

import processes
from processes import LOCKSTEP, SOURCE

BASH = """
source {script}
COMP_LINE=$1 COMP_POINT=${{#1}} COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
_lockstep
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    directory = tmp_path_factory.mktemp("completion")
    (directory / "lockstep.bash").write_text(subprocess.run([LOCKSTEP, "completion", "bash"], capture_output=True, text=True, check=True).stdout)
    return directory / "lockstep.bash"


@pytest.fixture
def complete(script, tmp_path):
    for run in ("mnist-20260101-000000-aaaa", "mnist-20260102-000000-bbbb"):
        (tmp_path / "runs" / run).mkdir(parents=True)
        (tmp_path / "runs" / run / "run.json").write_text("{}")
    (tmp_path / "my.yaml").touch()

    def words(line):
        ended = processes.run(["bash", "--norc", "-c", BASH.format(script=script), "bash", f"{LOCKSTEP} {line}"], tmp_path)
        assert ended.code == 0 and ended.err == "", ended.err
        return [word for word in ended.out.splitlines() if word]

    return words


def listed_commands():
    text = subprocess.run([LOCKSTEP, "help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^  ([a-z][a-z-]*) ", text, re.M)


def test_commands_are_those_of_the_help(complete):
    assert complete("")[:-3] == listed_commands()
    assert complete("ver") == ["verify", "verify-setup", "version"]
    assert complete("--v") == ["--version"]


def test_options_are_those_of_the_help(complete):
    text = subprocess.run([LOCKSTEP, "launch", "--help"], capture_output=True, text=True, check=True).stdout
    options = re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", text, re.M)
    assert len(options) > 25 and complete("launch --") == options
    assert complete("launch --max-r") == ["--max-restarts"]
    assert set(complete("runs list --")) == {"--tag", "--dir", "--json", "--help"}
    assert "--read-only" in complete("ui --")


def test_subcommands_runs_and_files(complete):
    assert complete("runs s") == ["show", "stop"]
    assert complete("runs show ") == ["mnist-20260102-000000-bbbb", "mnist-20260101-000000-aaaa"]
    assert complete("launch --resume mnist-20260101") == ["mnist-20260101-000000-aaaa"]
    assert complete("sync ") == ["mnist-20260102-000000-bbbb", "mnist-20260101-000000-aaaa"]
    assert complete("runs show --dir nowhere ") == []
    assert complete("launch -n 2 m") == ["my.yaml"]
    assert complete("ui --dir r") == ["runs"]
    assert complete("completion ") == ["bash", "zsh", "fish"]


def test_keys_of_the_run_file(complete):
    assert complete("launch my.yaml optimizer.nest") == ["optimizer.nesterov="]
    assert complete("launch my.yaml train.precision=") == ["bf16", "fp16", "fp32"]
    assert complete("launch my.yaml model.name=res") == ["resnet"]
    keys = complete("train my.yaml checkpoint.")
    assert {"checkpoint.every=", "checkpoint.keep_best.count="} <= set(keys)


def test_unknown_words_complete_to_nothing(complete):
    assert complete("nothing --x") == []
    assert complete("launch my.yaml no.such") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_have_valid_syntax(shell, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    text = subprocess.run([LOCKSTEP, "completion", shell], capture_output=True, text=True, check=True).stdout
    (tmp_path / "script").write_text(text)
    ended = processes.run([shutil.which(shell), "-n", tmp_path / "script"], tmp_path)
    assert ended.code == 0 and ended.err == "", ended.err


def test_fish_completes(tmp_path):
    fish = shutil.which("fish")
    if not fish:
        pytest.skip("fish is not installed")
    commands = f"{LOCKSTEP} completion fish | source; complete -C '{LOCKSTEP} ver'"
    ended = processes.run([fish, "--no-config", "-c", commands], tmp_path)
    assert [line.split("\t")[0] for line in ended.out.splitlines()] == ["verify", "verify-setup", "version"], ended.err


@pytest.mark.parametrize("shell", ["powershell", "bash zsh"])
def test_other_shells_are_refused(shell, tmp_path):
    ended = processes.run([LOCKSTEP, "completion", *shell.split()], tmp_path)
    assert ended.code == 78 and "expected bash, zsh or fish" in ended.err


def test_man_pages_have_the_help(tmp_path):
    for page, expected in [([], "artifacts"), (["launch"], "max\\-restarts"), (["data"], "vocab\\-size"), (["trainer"], "resume RUN_ID"),
                           (["run-file"], "optimizer")]:
        ended = processes.run([LOCKSTEP, "man", *page], tmp_path)
        assert ended.code == 0 and ended.out.startswith(".TH LOCKSTEP") and expected in ended.out, page
        if shutil.which("groff"):
            assert processes.run(["groff", "-man", "-ww", "-z", "-"], tmp_path).err == ""
    ended = processes.run([LOCKSTEP, "man", "lanch"], tmp_path)
    assert ended.code == 78 and "did you mean 'launch'" in ended.err


def test_recipes_name_the_schema():
    for recipe in (SOURCE / "configs").glob("*.yaml"):
        if recipe.name.startswith("sweep_"):  # not a run file
            continue
        assert "# yaml-language-server: $schema=../run_file.schema.json\n" in recipe.read_text(), recipe.name
