"""embed_assets.py DIRECTORY OUT.cpp: the files of DIRECTORY as a C++ source that holds them and their gzip variants.

The assembler includes the bytes (.incbin) from files next to OUT.cpp, so that no large source is compiled.
"""
import gzip
import hashlib
import pathlib
import sys

TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon", ".json": "application/json",
         ".woff2": "font/woff2", ".txt": "text/plain; charset=utf-8"}
TEMPLATE = "report.html"  # not served: reports are made of it

HEAD = """// Made by cmake/embed_assets.py.
#include "dashboard/api/assets.h"

#define EMBED(symbol, file)                                                                       \\
  asm(".section .rodata\\n.balign 16\\n" #symbol ":\\n.incbin \\"" file "\\"\\n" #symbol "_end:\\n.byte 0\\n.previous\\n"); \\
  extern "C" const char symbol[] __attribute__((visibility("hidden")));                           \\
  extern "C" const char symbol##_end[] __attribute__((visibility("hidden")));

"""


def main(directory, out):
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    declared, rows, template = [], [], None
    for number, path in enumerate(files):
        content = path.read_bytes()
        copies = {f"lockstep_asset_{number}": content,
                  f"lockstep_asset_{number}_gz": gzip.compress(content, 9, mtime=0)}
        for symbol, data in copies.items():
            copy = out.parent / f"{symbol}.bin"
            copy.write_bytes(data)
            declared.append(f'EMBED({symbol}, "{copy}")')
        plain, packed = ([f"std::string_view({symbol}, static_cast<size_t>({symbol}_end - {symbol}))"] for symbol in copies)
        name = path.relative_to(directory).as_posix()
        if name == TEMPLATE:
            template = plain[0]
            continue
        tag = hashlib.sha256(content).hexdigest()[:16]
        served = "/" if name == "index.html" else f"/{name}"
        rows.append(f'    {{"{served}", "{TYPES.get(path.suffix, "application/octet-stream")}", {plain[0]}, {packed[0]}, '
                    f'"\\"{tag}\\""}},')
    text = HEAD + "\n".join(declared) + "\n\nnamespace lockstep::dashboard {\nnamespace {\nconst Asset kAssets[] = {\n"
    text += "\n".join(rows) + "\n};\n}  // namespace\n\nconst Asset* find_asset(std::string_view path) {\n"
    text += "  for (const auto& asset : kAssets)\n    if (asset.path == path) return &asset;\n  return nullptr;\n}\n\n"
    text += f"std::string_view report_template() {{ return {template or 'std::string_view()'}; }}\n}}  // namespace lockstep::dashboard\n"
    out.write_text(text)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve())
