"""Writes the C++ of the docs and of the public headers into files that a build compiles.

extract_snippets.py SOURCE DIRECTORY makes DIRECTORY/PAGE_1.inc of the first ```cpp block of docs/PAGE.md (DIRECTORY/howto_PAGE_1.inc
of docs/howto/PAGE.md, DIRECTORY/README_1.inc of README.md), and DIRECTORY/NAME_example.cpp of all examples in the comments of
include/lockstep/NAME.h.
"""
import re
import sys
from pathlib import Path

C_BLOCK = re.compile(r"^ *```c\n(.*?)^ *```$", re.M | re.S)
BLOCK = re.compile(r"^ *```(?:cpp|c\+\+)\n(.*?)^ *```$", re.M | re.S)
EXAMPLE = re.compile(r"^//.*\bExample\b.*:\n((?://(?:   .*)?\n)+)", re.M)


def line_of(text, offset):
    return text[:offset].count("\n") + 1


def pages(source):
    return [source / "README.md", *sorted((source / "docs").rglob("*.md"))]


def name_of(source, page):
    relative = page.relative_to(source).with_suffix("")
    return "_".join(relative.parts[1:] if relative.parts[0] == "docs" else relative.parts)


def snippets(source):
    """{name: content} of the blocks of all pages."""
    return {f"{name_of(source, page)}_{number}": f'#line {line_of(text, block.start(1))} "{page}"\n{block[1]}'
            for page in pages(source) for text in [page.read_text()] for number, block in enumerate(BLOCK.finditer(text), 1)}


def example_of(header):
    """A source file of the examples in a header, each in a namespace."""
    name, text = header.name.split(".")[0], header.read_text()
    parts = [f'#include "lockstep/{name}.h"  // first: it needs no other\n\n#include "examples.h"\n']
    for number, block in enumerate(EXAMPLE.finditer(text), 1):
        code = re.sub(r"^//(   )?", "", block[1], flags=re.M)
        namespace = f"example_of_{name}" + (f"_{number}" if number > 1 else "")
        parts.append(f'namespace {namespace} {{\n#line {line_of(text, block.start(1))} "{header}"\n{code}}}\n')
    return "\n".join(parts)


def main(source, directory):
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in snippets(source).items():
        (directory / f"{name}.inc").write_text(content)
    for header in sorted((source / "include" / "lockstep").iterdir()):
        (directory / f"{header.name.split('.')[0]}_example.cpp").write_text(example_of(header))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
