"""A header with which generated code compiles faster."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import torch

from lockstep.compile.processes import variables

HEADER = str(Path(__file__).with_name("include") / "regex")
# The lines of torch's headers for generated code that use <regex>, for which ours was made.
USES = [
    "#include <regex>",
    'std::regex re("(cpu|cuda|xpu|mps)(:([0-9]+))?");',
    "std::smatch sm;",
    "bool matched = std::regex_match(device_str, sm, re);",
]


@contextlib.contextmanager
def quick_headers() -> Iterator[None]:
    """For the C++ compilers that this process starts. Changes nothing if torch uses <regex> in another way."""
    if uses_of_regex(Path(torch.__file__).with_name("include") / "torch" / "csrc" / "inductor") != USES:
        yield
        return
    folders = [str(Path(HEADER).parent), os.environ.get("CPLUS_INCLUDE_PATH", "")]
    with variables({"CPLUS_INCLUDE_PATH": os.pathsep.join(filter(None, folders))}):
        yield


def uses_of_regex(folder: Path) -> list[str]:
    lines = (line.strip() for path in sorted(folder.rglob("*.h")) for line in path.read_text().splitlines())
    return [line for line in lines if "regex" in line or "smatch" in line]
