"""The documentation: every link and anchor exists, keys that it names exist, and the site builds without a warning."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests" / "docs"), str(ROOT / "cmake")]
import api_reference  # noqa: E402
import links  # noqa: E402
import run_file_reference  # noqa: E402

FOLDERS = ("docs", "bench", "examples", "configs", "python", ".github")
FILES = [*ROOT.glob("*.md"), *ROOT.glob("[!.]*/README.md"),
         *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))]
PAGES = sorted({path.relative_to(ROOT).as_posix() for path in FILES
                if not path.relative_to(ROOT).parts[0].startswith("build") and "node_modules" not in path.parts})
SECTIONS = "run|model|data|optimizer|schedule|train|distributed|checkpoint|tracking"
# As the schema of a part writes them; the page names the part too.
PARTS = {"model": "model", "optimizer": "optimizer", "schedule": "schedule", "data.train": "dataset", "data.eval": "dataset"}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_and_anchor_exists(page):
    assert not links.broken_links(ROOT, page)


def test_broken_links_are_found(tmp_path):
    (tmp_path / "a.md").write_text(
        "# Some `code`, and more\n## Again\n## Again\n<a id=\"own.id\"></a>\n"
        "[1](a.md#some-code-and-more) [2](#again-1) [3](#own.id) [4](https://example.org/x) ![5](b.txt) `[6](none.md)`\n"
        "```\n[7](none.md)\n```\n[8](none.md) [9](#again-2) [10](b.txt#x) [11](../a.md)\n")
    (tmp_path / "b.txt").write_text("")
    problems = links.broken_links(tmp_path, "a.md")
    assert [re.search(r"'(.*)'", problem)[1] for problem in problems] == ["none.md", "#again-2", "b.txt#x", "../a.md"]
    assert all(problem.startswith("a.md:9: ") for problem in problems)


def keys_named(text):
    """Dotted keys of a run file in inline code: `train.eval_every`, `data.batch_size=64`."""
    for _, line in links.lines_outside_fences(text):
        for code in re.findall(r"`([^`]+)`", line):
            key = re.fullmatch(rf"((?:{SECTIONS})(?:\.[a-z_]+)+)(?:[:=].*)?", code)
            if key and not re.search(r"\.(json|yaml|safetensors|pt2|csv|md|h|cpp|ls2|py|log|index|sbatch)$", key[1]):
                yield key[1]


def is_known(key, known):
    for place, part in PARTS.items():
        if key.startswith(place + "."):
            name = key.removeprefix(place + ".")
            if name == "name" or any(re.fullmatch(rf"{part}\.\w+\.{name}", each) for each in known):
                return True
    return key in known or key in PARTS


def test_keys_that_pages_name_exist():
    known = links.anchors((ROOT / "docs" / "run_file.md").read_text())
    unknown = {f"{page}: {key}" for page in PAGES if page != "CHANGELOG.md"
               for key in keys_named((ROOT / page).read_text()) if not is_known(key, known)}
    assert not unknown
    assert len(known) > 300 and not is_known("train.nope", known) and not is_known("model.nope", known)


def test_the_pages_of_this_version_name_its_plugin_interface():
    current = re.search(r"LOCKSTEP_PLUGIN_INTERFACE (\d+)", (ROOT / "include" / "lockstep" / "version.h.in").read_text())[1]
    version = re.search(r"project\(lockstep\s+VERSION (\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text(), re.I)[1]
    latest = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1]
    for text in (latest, (ROOT / "docs" / "release_notes" / f"{version}.md").read_text()):
        named = re.findall(r"plugin\s+interface\s+\(?(\d+)", text, re.I)
        assert named and set(named) == {current}


PROGRAMS = {  # where the options of a program are read
    "lockstep": ("cli", "launch", "trainer/commands"), "lockstep-trainer": ("trainer/commands",),
    "lockstep-data": ("data/tokenize",), "lockstep-compile": ("python",)}


def commands_in(text):
    """(number of the line, program, options) of each command of ours in the code blocks of a page."""
    outside = {number for number, _ in links.lines_outside_fences(text)}
    for number, line in enumerate(text.splitlines(), 1):
        words = re.sub(r"\s#.*", "", line).removeprefix("$ ").split()
        while words and re.match(r"[A-Z_]+=", words[0]):
            words = words[1:]
        program = words[0].split("/")[-1] if words else ""
        if number not in outside and program in PROGRAMS:
            own = words[1:words.index("--")] if "--" in words else words[1:]
            yield number, program, [word.split("=")[0] for word in own if re.match(r"--[a-z]", word)]


def test_options_in_code_blocks_exist():
    sources = {program: " ".join(path.read_text() for folder in folders for path in sorted((ROOT / folder).rglob("*"))
                                 if path.suffix in (".h", ".cpp", ".py")) for program, folders in PROGRAMS.items()}
    commands = [(f"{page}:{number}", program, option) for page in PAGES
                for number, program, options in commands_in((ROOT / page).read_text()) for option in options]
    unknown = {f"{place}: {program} {option}" for place, program, option in commands
               if not re.search(rf"\b{option.lstrip('-')}\b", sources[program])}
    assert not unknown
    assert len(commands) > 50


def test_the_tables_of_the_run_file():
    text = run_file_reference.render({"properties": {
        "plugins": {"description": "shared objects", "type": "array", "items": {"type": "string"}, "default": []},
        "model": {"description": "what is trained", "type": "object", "x-parts": [
            {"description": "a model", "required": ["width", "name"], "properties": {
                "name": {"const": "m"}, "width": {"description": "of it; needs depth", "type": "integer", "minimum": 1.0}}}]},
        "train": {"description": "how", "type": "object", "properties": {
            "every": {"description": "a|b", "anyOf": [{"type": "string", "pattern": run_file_reference.TIME}, {"type": "null"}],
                      "default": None},
            "steps": {"description": "which", "anyOf": [
                {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": "^[0-9]+(-[0-9]+)?$"}]}, {"type": "null"}]},
            "address": {"description": "where", "type": "string", "pattern": "^https?://"}}}}})
    assert '| <a id="plugins"></a>[`plugins`](#plugins) | list of string | `[]` |  | shared objects |' in text
    assert '#### <a id="model.m"></a>model `m`\n\nA model.\n' in text
    assert '[`width`](#model.m.width) | integer | **required** | ≥ 1; needs depth | of it |' in text
    assert '| <a id="train.every"></a>[`every`](#train.every) | time |  |  | a\\|b |' in text
    assert '(#train.steps) | integer, or `N-M` |  | ≥ 1 |' in text and '(#train.address) | URL |' in text


def test_every_public_header_has_a_page():
    pages = api_reference.pages(ROOT / "include" / "lockstep")
    headers = {path.name.split(".")[0] for path in (ROOT / "include" / "lockstep").iterdir()}
    assert set(pages) == {f"api/{name}.md" for name in headers | {"index"}}
    for name in headers:
        code = re.sub(r"\s+", " ", pages[f"api/{name}.md"])
        text = (ROOT / "include" / "lockstep").joinpath(f"{name}.h.in" if name == "version" else f"{name}.h").read_text()
        for kind in re.findall(r"^(?:class|struct|enum class) \w+ (?:final )?(?:: public .*)?\{", text, re.M):
            assert re.sub(r"\s+", " ", kind) in code, f"{name}: {kind}"
        assert "private:" not in code.split("## `", 1)[1]


def test_the_site_builds_without_a_warning(tmp_path):
    mkdocs = ROOT / ".venv-docs" / "bin" / "mkdocs"
    assert mkdocs.exists(), "mkdocs is not installed: run cmake/setup.sh --docs"  # --peers, which the tests need, installs it too
    # Not --quiet: warnings that are not shown do not count for --strict.
    ended = subprocess.run([mkdocs, "build", "--strict", "-f", ROOT / "mkdocs.yml", "-d", tmp_path / "site"],
                           env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    outside = {match for path in (tmp_path / "site").rglob("*.html")
               for match in re.findall(r'<(?:script|img|link)\b[^>]*\b(?:src|href)="(https?://[^"]*)"', path.read_text())}
    assert not outside, f"the site is to work offline: {outside}"
    assert (tmp_path / "site" / "search" / "search_index.json").exists()
