"""The code in the documentation: all C++ is compiled by the build, and run files have keys that exist."""
import re
import subprocess
from pathlib import Path

import extract_snippets
import pytest
import run_files

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "docs"
KNOWN = run_files.known_keys((ROOT / "docs" / "run_file.md").read_text())


def test_the_build_compiles_every_block_of_cpp():
    listed = re.search(r"set\(extracted ([^)]*)\)", (HERE / "CMakeLists.txt").read_text())[1].split()
    assert sorted(listed) == sorted(extract_snippets.snippets(ROOT))
    included = re.findall(r'#include "(\w+)\.inc"', (HERE / "fragments.cpp").read_text() + (HERE / "whole_files.cpp").read_text())
    assert sorted(included) == sorted(listed)


def test_the_blocks_of_all_pages_are_extracted(tmp_path):
    (tmp_path / "docs" / "howto").mkdir(parents=True)
    (tmp_path / "README.md").write_text("a\n```cpp\nint a;\n```\n")
    (tmp_path / "docs" / "data.md").write_text("```cpp\nint b;\n```\n```\nno\n```\n1. c\n\n   ```cpp\n   int c;\n   ```\n")
    (tmp_path / "docs" / "howto" / "embed.md").write_text("```cmake\nno\n```\n```c++\nint d;\n```\n")
    found = {name: re.sub(r'^#line (\d+) ".*"', r"\1", content) for name, content in extract_snippets.snippets(tmp_path).items()}
    assert found == {"README_1": "3\nint a;\n", "data_1": "2\nint b;\n", "data_2": "10\n   int c;\n", "howto_embed_1": "5\nint d;\n"}


def test_all_examples_of_a_header_are_extracted(tmp_path):
    header = tmp_path / "a.h"
    header.write_text("// A.\n//\n// Example:\n//   int a;\n//\n//   int b;\n#pragma once\n\n// B.\n// Example (two):\n//   int c;\nint d;\n")
    assert extract_snippets.example_of(header).split("\n\n", 2)[2] == (
        f'namespace example_of_a {{\n#line 4 "{header}"\nint a;\n\nint b;\n}}\n\nnamespace example_of_a_2 {{\n#line 11 "{header}"\nint c;\n}}\n')


def test_no_example_of_a_header_is_missed():
    for header in sorted((ROOT / "include" / "lockstep").iterdir()):
        text = header.read_text()
        named = len(re.findall(r"^\s*// .*\bExample\b", text, re.M))
        assert named == len(extract_snippets.EXAMPLE.findall(text)) >= 1, header


def compile_c(code):
    command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", f"-I{ROOT}/include", "-x", "c", "-"]
    return subprocess.run(command, input=code, text=True, capture_output=True, timeout=60)


def test_c_is_c99():
    """Blocks of the pages, which are whole programs, the example of lockstep.h and that header alone."""
    header = (ROOT / "include" / "lockstep.h").read_text()
    example = "".join(re.sub(r"^//(   )?", "", code, flags=re.M) for code in extract_snippets.EXAMPLE.findall(header))
    programs = {"header": "#include <lockstep.h>\n", "example": f"#include <lockstep.h>\n#include <stdio.h>\n{example}"}
    for page in extract_snippets.pages(ROOT):
        programs |= {f"{page}:{number}": code for number, code in enumerate(extract_snippets.C_BLOCK.findall(page.read_text()), 1)}
    assert len(programs) >= 3 and "lockstep_create" in example
    problems = {name: ended.stderr for name, code in programs.items() if (ended := compile_c(code)).returncode}
    assert not problems
    assert compile_c("#include <lockstep.h>\nint f(void) { return lockstep_save(); }\n").returncode != 0


def run_files_of_pages():
    for page in extract_snippets.pages(ROOT):
        for line, value in run_files.blocks(page.read_text()):
            if found := run_files.run_file_in(value, KNOWN):
                yield f"{page.relative_to(ROOT)}:{line}", found


def test_the_keys_of_run_files_in_the_docs_exist():
    found = dict(run_files_of_pages())
    assert len(found) > 20 and sum(run_files.REQUIRED <= set(each) for each in found.values()) >= 3
    unknown = {place: keys for place, each in found.items() if (keys := run_files.unknown_keys(each, KNOWN))}
    assert not unknown


@pytest.mark.parametrize("value, unknown", [
    ({"model": {"name": "mlp", "widht": 3}}, ["model.mlp.widht"]),
    ({"model": {"name": "mpl"}}, ["model: mpl"]),
    ({"model": {"hiden": [3]}}, ["model.hiden"]),
    ({"modell": {"name": "mlp"}, "data": {}}, ["modell"]),
    ({"train": {"epochs": 3, "ema": {"decays": 1}}}, ["train.ema.decays"]),
    ({"train": {"hooks": ["mine"]}}, ["train.hooks: mine"]),
    ({"data": {"train": {"name": "idx", "paht": "x"}, "split": {"eval": 1, "tset": 2}}}, ["dataset.idx.paht", "data.split.tset"]),
    ({"data": {"train": {"name": "npy", "fields": {"x": {"form": "a"}}}}}, ["dataset.npy.fields.values.form"]),
    ({"data": {"train": {"name": "image_folder", "transforms": [{"name": "resize", "sice": 3}]}}}, ["transform.resize.sice"]),
    ({"tracking": {"sinks": ["console", {"name": "csv", "pth": "x"}, "wandbb"]}}, ["sink.csv.pth", "tracking.sinks: wandbb"])])
def test_unknown_keys_of_a_run_file_are_found(value, unknown):
    assert run_files.unknown_keys(run_files.run_file_in(value | {"run": {}}, KNOWN), KNOWN) == unknown


@pytest.mark.parametrize("value", [
    {"plugins": ["a.so"], "model": {"name": "mine", "any": 1}, "train": {"hooks": [{"name": "mine", "any": 1}]}},
    {"extends": "base.yaml", "model": {"hidden": [3]}, "data": {"eval": None}},
    {"data": {"train": {"name": "csv", "path": "x", "types": {"any": "text"}}}},
    {"tracking": {"plugins": ["a.so"], "sinks": [{"name": "mine", "any": 1}]}}])
def test_known_keys_of_a_run_file_are_not(value):
    assert not run_files.unknown_keys(value, KNOWN)


def test_other_blocks_are_left_alone():
    assert run_files.run_file_in({"apiVersion": "batch/v1", "kind": "Job"}, KNOWN) is None
    assert run_files.run_file_in(["a"], KNOWN) is None
    assert run_files.run_file_in({"train": {"name": "npy", "path": "x"}}, KNOWN) == {"data": {"train": {"name": "npy", "path": "x"}}}
