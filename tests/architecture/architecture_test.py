"""The shape of the code: who includes whom, who may do what, how large things are (rules.py has the tables)."""
import re
import subprocess
from pathlib import Path

import pytest
import rules

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(path.relative_to(ROOT).as_posix() for folder in rules.FOLDERS - {"tests", "bench"}
                 for ending in ("*.h", "*.cpp", "*.h.in") for path in (ROOT / folder).rglob(ending))
TESTS = sorted(path.relative_to(ROOT).as_posix() for folder in ("tests", "bench") for ending in ("*.h", "*.cpp")
               for path in (ROOT / folder).rglob(ending))


def found(paths, checker):
    return [problem for path in paths for problem in checker(path, (ROOT / path).read_text())]


def test_there_is_code_to_look_at():
    for folder in set(rules.LAYERS) | {"include"}:
        assert any(path.startswith(folder + "/") for path in SOURCES), folder


@pytest.mark.parametrize("checker", rules.CHECKERS, ids=lambda checker: checker.__name__)
def test_the_code_keeps_the_rules(checker):
    assert not found(SOURCES, checker), "\n" + "\n".join(found(SOURCES, checker))


@pytest.mark.parametrize("checker", [rules.check_words, rules.check_sizes], ids=lambda checker: checker.__name__)
def test_the_tests_keep_the_rules_that_hold_for_them(checker):
    assert not found(TESTS, checker), "\n" + "\n".join(found(TESTS, checker))


def test_folders_are_small_and_their_sub_folders_have_no_cycles():
    code = [path for path in SOURCES if path.split("/")[0] in rules.LAYERS]
    assert not rules.crowded_folders(code)
    texts = {path: (ROOT / path).read_text() for path in code}
    assert not rules.folder_cycles(texts), "\n" + "\n".join(rules.folder_cycles(texts))


def test_crowded_folders_and_cycles_are_found():
    assert rules.crowded_folders([f"core/f{i}.h" for i in range(31)]) == ["core/: 31 files, at most 30"]
    assert not rules.crowded_folders([f"core/f{i}.h" for i in range(30)])
    chain = {"data/a/a.h": '#include "data/b/b.h"\n', "data/b/b.h": '#include "data/c.h"\n', "data/c.h": ""}
    assert not rules.folder_cycles(chain)
    cycle = chain | {"data/c.h": '#include "data/a/a.h"\n'}
    assert rules.folder_cycles(cycle) == ["data/c.h:1: data/a/a.h: a cycle of data/ and data/a/",
                                          "data/a/a.h:1: data/b/b.h: a cycle of data/a/ and data/b/",
                                          "data/b/b.h:1: data/c.h: a cycle of data/b/ and data/"]


def test_no_folder_includes_headers_that_are_private_to_another():
    texts = {path: (ROOT / path).read_text() for path in SOURCES}
    assert "distributed/fence.h" in rules.marked_private(texts)
    assert not rules.includes_of_marked(texts), "\n" + "\n".join(rules.includes_of_marked(texts))
    for folder in rules.PRIVATE_FOLDERS:
        assert any(path.startswith(folder + "/") for path in texts), f"{folder} is gone"


def test_an_include_of_a_private_header_is_found():
    texts = {"distributed/a.h": "// Averages over all ranks, in one call. Only files of distributed/\n// include this.\n#pragma once\n",
             "distributed/b.h": "// Only files of launch/ include this.\n#pragma once\n",
             "distributed/c.cpp": '#include "distributed/a.h"\n',
             "trainer/c.cpp": '#include "distributed/b.h"\n#include "distributed/a.h"\n'}
    assert rules.marked_private(texts) == {"distributed/a.h"}
    assert rules.includes_of_marked(texts) == ["trainer/c.cpp:2: distributed/a.h is private to distributed/"]


def test_each_folder_has_a_short_readme():
    paths = {ROOT / folder / "README.md" for folder in set(rules.LAYERS) | {"include", "python"}}
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() if path.exists() else None for path in paths}
    assert not rules.readme_problems(texts)


def test_a_long_or_missing_readme_is_found():
    texts = {"a/README.md": "line\n" * 20, "b/README.md": "line\n" * 21, "c/README.md": None}
    assert rules.readme_problems(texts) == ["b/README.md: 21 lines, at most 20", "c/README.md: no such file"]


def test_the_public_headers_are_those_of_the_table():
    public = {path: (ROOT / path).read_text() for path in SOURCES if path.startswith("include/")}
    names = {path.removeprefix("include/").removesuffix(".in") for path in public}
    assert names == set(rules.OWNER_OF_PUBLIC) and len(names - {rules.C_HEADER}) <= rules.PUBLIC_HEADERS
    for path, text in public.items():
        assert re.match(r"(//.*\n)*//.*Example.*:\n//   ", text), f"{path}: no example at its beginning"
    low, high = rules.PUBLIC_COMMENT
    assert low <= rules.comment_share(public.values()) <= high, rules.comment_share(public.values())


def types_of(text):
    """namespace::name of every class and struct that a header defines at namespace level."""
    namespace = re.search(r"^namespace ([\w:]+) {", text, re.M)
    names = re.findall(r"^(?:struct|class)\s+(\w+)\b(?!\s*<)[^;{]*{", rules.code_of(text), re.M)
    return {f"{namespace.group(1)}::{name}" for name in names} if namespace else set()


def test_no_two_headers_define_the_same_type():
    """The linker would silently use one destructor for both."""
    owners = {}
    for path in SOURCES:
        if path.endswith(".h") and not path.startswith("examples/"):
            for name in types_of((ROOT / path).read_text()):
                owners.setdefault(name, []).append(path)
    assert len(owners) > 100
    assert not {name: paths for name, paths in owners.items() if len(paths) > 1}


def test_only_documented_folders():
    """Without git (in a source archive), lists the folders on disk except build outputs."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True,
                            capture_output=True)
    names = ({line.split("/")[0] for line in listed.stdout.splitlines() if "/" in line} if listed.returncode == 0 else
             {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(("build", "runs"))})
    unknown = sorted(name for name in names if not name.startswith(".") and name not in rules.FOLDERS)
    assert not unknown, f"folders that no page documents: {unknown}"


def folders_in_table(text):
    """The names in the first column of the table under "## The folders"."""
    section = text.split("\n## The folders\n", 1)[1].split("\n## ", 1)[0]
    return {name for row in re.findall(r"^\|(.*?)\|", section, re.M) for name in re.findall(r"`([\w/-]+)`", row)}


def test_the_readme_has_a_row_for_every_folder_and_no_other():
    assert folders_in_table((ROOT / "README.md").read_text()) == rules.FOLDERS


def test_a_row_too_many_or_too_few_is_found():
    table = "\n## The folders\n\n| folder | what |\n|---|---|\n| `core` | of `all` |\n| `tests`, `bench` | both |\n"
    assert folders_in_table(table + "\n## Docs\n\n| `other` | page |\n") == {"core", "tests", "bench"}


def test_exceptions_are_still_needed():
    """An exception whose reason is gone must go too."""
    for path, rule in rules.EXCEPTIONS:
        assert (ROOT / path).exists(), path
        reason = rules.EXCEPTIONS.pop((path, rule))
        try:
            assert rules.problems(path, (ROOT / path).read_text()), f"{path}: '{rule}' is kept without the exception"
        finally:
            rules.EXCEPTIONS[(path, rule)] = reason


# Below: each checker reports bad code, and accepts good code.

BAD = [
    ("core/a.cpp", '#include "launch/launcher.h"\n', "core/ may not include launch/launcher.h"),
    ("tracking/a.cpp", '#include "lockstep/batch.h"\n', "tracking/ may not include lockstep/batch.h"),
    ("models/a.cpp", '#include "data/loader/loader.h"\n', "models/ may not include data/loader/loader.h"),
    ("distributed/a.cpp", '#include "lockstep/model.h"\n', "distributed/ may not include lockstep/model.h"),
    ("cli/a.cpp", '#include "trainer/loop/trainer.h"\n', "cli/ may not include trainer/loop/trainer.h"),
    ("trainer/a.cpp", '#include "cli/commands.h"\n', "trainer/ may not include cli/commands.h"),
    ("data/sets/a.cpp", '#include "../batch.h"\n', "includes are written from the root"),
    ("core/a.cpp", "#include <lockstep/error.h>\n", "is included with quotes"),
    ("examples/a/a.cpp", "#include <lockstep/models/model.h>\n", "lockstep/models/model.h is private"),
    ("examples/a/a.cpp", "#include <models/package/package.h>\n", "models/package/package.h is private"),
    ("trainer/a.cpp", '#include "lockstep/core/error.h"\n', "not in the table of public headers"),
    ("include/lockstep/a.h", '#pragma once\n#include "core/printable.h"\n', "core/printable.h is private"),
    ("include/lockstep/sink.h", '#pragma once\n#include "lockstep/batch.h"\n', "torch-free"),
    ("cli/a.cpp", '#include "lockstep/session.h"\n', "cli/ may not include lockstep/session.h"),
    ("cli/a.cpp", '#include "lockstep.h"\n', "cli/ may not include lockstep.h"),
    ("include/lockstep.h", '#pragma once\n#include "lockstep/error.h"\n', "the C interface includes headers of the C library only"),
    ("trainer/a.cpp", '#include "distributed/shm/group.h"\n', "distributed/shm/group.h is private to distributed/"),
    ("data/a.cpp", '#include "formats/parquet/arrow_parquet.h"\n', "formats/parquet/arrow_parquet.h is private to formats/"),
    ("trainer/a.cpp", '#include "models/compiled/compiled.h"\n', "models/compiled/compiled.h is private to models/"),
    ("cli/a.cpp", '#include "tracking/sinks/wandb/wandb.h"\n', "tracking/sinks/wandb/wandb.h is private to tracking/"),
    ("core/a.h", "#pragma once\n#include <torch/version.h>\n", "torch-free"),
    ("cli/a.cpp", "#include <ATen/ATen.h>\n", "torch-free"),
    ("formats/gzip.cpp", "#include <c10/core/Device.h>\n", "torch-free"),
    ("formats/safetensors_header.cpp", "#include <ATen/ATen.h>\n", "torch-free"),
    ("trainer/a.cpp", "#include <torch/csrc/distributed/c10d/Store.hpp>\n", "in distributed/ only"),
    ("distributed/world.cpp", "#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>\n", "gloo_backend.cpp only"),
    ("distributed/world.cpp", "#include <gloo/context.h>\n", "gloo_backend.cpp only"),
    ("trainer/a.cpp", 'auto x = std::getenv("RANK");\n', "getenv"),
    ("trainer/a.cpp", 'setenv("RANK", "1", 1);\n', "environ"),
    ("launch/a.cpp", "std::this_thread::sleep_for(1s);\n", "not synchronization"),
    ("launch/a.cpp", "::usleep(10);\n", "not synchronization"),
    ("trainer/a.cpp", "sleep (1);\n", "not synchronization"),
    ("trainer/a.h", "#pragma once\nstd::mutex mutex_;\n", "use Mutex"),
    ("core/a.cpp", "const std::lock_guard<std::shared_mutex> lock(mutex);\n", "use Mutex"),
    ("trainer/a.cpp", "std::cout << 1;\n", "printing"),
    ("data/a.cpp", 'fmt::print("x");\n', "printing"),
    ("core/a.cpp", 'std::fprintf(stderr, "x");\n', "printing"),
    ("tracking/tracker.cpp", 'puts("x");\n', "printing"),
    ("trainer/a.cpp", "if (world.rank() == 0) log();\n", "which rank does it"),
    ("trainer/a.cpp", "if (rank != 0) return;\n", "which rank does it"),
    ("trainer/a.cpp", "if (0 == world.rank()) return;\n", "which rank does it"),
    ("data/a.cpp", "if (rank_ == 0) return;\n", "which rank does it"),
    ("launch/a.cpp", "namespace lockstep {\n}\n", "namespace lockstep, expected lockstep::launch"),
    ("launch/a.h", "#pragma once\nnamespace lockstep::cli {\n}\n", "expected lockstep::launch"),
    ("core/a.cpp", "// TODO: later\n", "open end"),
    ("core/a.h", "#pragma once\nusing namespace std;\n", "'using namespace'"),
    ("core/a.h", "int f();\n", "no #pragma once"),
    ("core/a.h", "#pragma once\n" + "int f();\n" * 150, "151 lines, at most 150"),
    ("core/a.cpp", "int f();\n" * 401, "401 lines, at most 400"),
    ("core/a.cpp", "void f(int a) {\n" + "  a = 1;\n" * 80 + "}\n", "a function of 82 lines"),
    ("core/a.cpp", "class A {\n  int f() const {\n" + "    g();\n" * 80 + "  }\n};\n", "core/a.cpp:2: a function of 82"),
    ("core/a.cpp", "A::A(int b) : b_{b}, c_(1) {\n" + "  g();\n" * 80 + "}\n", "a function of 82 lines"),
    ("core/a.cpp", "template <class T>\nT f() {\n" + "  g('{');\n" * 80 + "}\n", "a function of 82 lines"),
    ("cli/main.cpp", "int main(int argc, char** argv) {\n" + "  g();\n" * 60 + "}\n", "of 62 lines, at most 60"),
]

GOOD = [
    ("models/a.cpp", '#include "lockstep/batch.h"\n#include "lockstep/model.h"\n#include <torch/nn/module.h>\n'),
    ("cli/a.cpp", '#include "launch/launcher.h"\n#include "catalog/run_list.h"\n'),
    ("distributed/world.cpp", '#include "distributed/shm/group.h"\n#include "distributed/backends/backends.h"\n'),
    ("tracking/sinks/wandb.cpp", '#include "tracking/sinks/wandb/wandb_file.h"\n'),
    ("examples/a/a.cpp", "#include <lockstep/model.h>\n"),
    ("distributed/backends/gloo_backend.cpp", "#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>\n"),
    ("data/loader/loader.cpp", "#include <ATen/ATen.h>\n"),
    ("core/system/mutex.h", "#pragma once\nstd::mutex mutex_;\n"),
    ("launch/environment/rank_env.cpp", 'auto x = std::getenv("RANK");\n'),
    ("core/a.cpp", "// getenv(), sleep(1), std::cout and rank == 0 are words here\n"),
    ("core/a.cpp", 'throw config_error("std::cout << getenv(name); rank == 0");\n'),
    ("core/a.cpp", "/* puts(\n std::cerr */ auto text = R\"(sleep(1) {)\";\n"),
    ("core/a.cpp", "snprintf(buffer, 3, x); asleep(1); my_puts(x); vsnprintf(b);\n"),
    ("trainer/a.cpp", "const bool full = num_ranks == 2 || shard.rank < shard.world;\n"),
    ("tracking/runs/on_ranks.cpp", "return rank == 0;\n"),
    ("tracking/sinks/console.cpp", "std::cout << 1;\n"),
    ("distributed/a.cpp", '#include "lockstep/world.h"\nnamespace lockstep {\n}\n'),
    ("distributed/shm/a.cpp", "namespace lockstep::distributed::shm {\n}\n"),
    ("core/a.cpp", "namespace lockstep {\n" + "void f() {\n  g();\n}\n" * 60 + "}\n"),
    ("core/a.cpp", "struct A {\n" + "  int x = f(1);\n" * 90 + "};\n"),
    ("core/a.cpp", "constexpr std::array<int, 90> kTable = {{\n" + "  1,\n" * 90 + "}};\n"),
]


@pytest.mark.parametrize("path, text, expected", BAD, ids=[f"{path}: {expected}" for path, _, expected in BAD])
def test_checkers_report_bad_code(path, text, expected):
    assert any(expected in problem for problem in rules.problems(path, text)), rules.problems(path, text)


@pytest.mark.parametrize("path, text", GOOD)
def test_checkers_accept_good_code(path, text):
    assert rules.problems(path, text) == []


def test_an_exception_holds_for_its_file_and_rule_only():
    rules.EXCEPTIONS[("core/a.cpp", "sleep")] = "this test"
    try:
        assert rules.problems("core/a.cpp", "usleep(1);\n") == []
        assert rules.problems("core/b.cpp", "usleep(1);\n")
        assert rules.problems("core/a.cpp", "puts(x);\n")
    finally:
        del rules.EXCEPTIONS[("core/a.cpp", "sleep")]
