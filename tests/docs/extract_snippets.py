"""Writes the C++ of the docs and of the public headers into files that a build compiles.

extract_snippets.py SOURCE DIRECTORY makes DIRECTORY/DOC_1.inc of the first ```cpp block of docs/DOC.md, and
DIRECTORY/NAME_example.cpp of the example at the beginning of include/lockstep/NAME.h.
"""
import re
import sys
from pathlib import Path

source, directory = Path(sys.argv[1]), Path(sys.argv[2])


def line_of(text, offset):
    return text[:offset].count("\n") + 1


def write(name, content):
    (directory / name).write_text(content)


directory.mkdir(parents=True, exist_ok=True)
for page in sorted((source / "docs").glob("*.md")):
    text = page.read_text()
    for number, block in enumerate(re.finditer(r"^```cpp\n(.*?)^```$", text, re.M | re.S), 1):
        write(f"{page.stem}_{number}.inc", f'#line {line_of(text, block.start(1))} "{page}"\n{block[1]}')
for header in sorted((source / "include" / "lockstep").iterdir()):
    name = header.name.split(".")[0]
    text = header.read_text()
    block = re.search(r"Example.*:\n((?://(?:   .*)?\n)+)", text)
    code = re.sub(r"^//(   )?", "", block[1], flags=re.M)
    write(f"{name}_example.cpp", f'#include "lockstep/{name}.h"  // first: it needs no other\n\n#include "examples.h"\n\n'
          f'namespace example_of_{name} {{\n#line {line_of(text, block.start(1))} "{header}"\n{code}}}\n')
