"""g++ for generated code: hardly optimized, and with precompiled headers, in half the time. Arguments: a folder for the
headers, and those of g++. The headers are compiled once per set of arguments, whatever number of tests run."""

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

COMPILER = "/usr/bin/g++"
INCLUDED_FIRST = {".wrapper.cpp": "torch/csrc/inductor/aoti_include/cpu.h", ".kernel.cpp": "torch/csrc/inductor/cpp_prefix.h"}


def precompiled(folder, header, options):
    """The path of a header that includes `header`, next to which g++ finds it compiled."""
    found = [Path(option[2:]) / header for option in options if option.startswith("-I")]
    versions = [(str(path), path.stat().st_mtime_ns) for path in found if path.exists()]
    key = repr((options, header, os.environ.get("CPLUS_INCLUDE_PATH"), versions))
    path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.h"
    compiled = path.with_suffix(".h.gch")
    folder.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not compiled.exists():
            path.write_text(f"#include <{header}>\n")
            part = path.with_suffix(".part")
            subprocess.run([COMPILER, *options, "-x", "c++-header", path, "-o", part], check=True)
            part.replace(compiled)
    return path


def main(folder, *arguments):
    options = [*arguments, "-O1"]
    source = next((i for i, argument in enumerate(arguments) if argument.endswith(tuple(INCLUDED_FIRST))), None)
    if source is not None and arguments[-3] == "-c" and arguments[-2] == "-o":
        header = next(header for suffix, header in INCLUDED_FIRST.items() if arguments[source].endswith(suffix))
        kept = [*arguments[:source], *arguments[source + 1 : -3], "-O1"]
        options = ["-include", str(precompiled(Path(folder), header, kept)), *options]
    os.execv(COMPILER, [COMPILER, *options])


if __name__ == "__main__":
    main(*sys.argv[1:])
