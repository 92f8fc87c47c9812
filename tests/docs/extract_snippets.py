"""Writes the C++ of docs/*.md into files: extract_snippets.py DOCS DIRECTORY makes DIRECTORY/DOC_1.inc of the first ```cpp block of DOC.md."""
import re
import sys
from pathlib import Path

docs, directory = Path(sys.argv[1]), Path(sys.argv[2])
directory.mkdir(parents=True, exist_ok=True)
for page in sorted(docs.glob("*.md")):
    text = page.read_text()
    for number, block in enumerate(re.finditer(r"^```cpp\n(.*?)^```$", text, re.M | re.S), 1):
        line = text[: block.start(1)].count("\n") + 1
        (directory / f"{page.stem}_{number}.inc").write_text(f'#line {line} "{page}"\n{block[1]}')
