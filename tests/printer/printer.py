"""Runs lockstep_printer. One process keeps LibTorch loaded and forks a child for each run."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

PROGRAM = Path(os.environ["LOCKSTEP_PRINTER"])


class Printer:
    def __init__(self):
        self._directory = tempfile.TemporaryDirectory(prefix="lockstep-printer-")
        self._process = subprocess.Popen([PROGRAM, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, *arguments, timeout=60, text=True):
        """Like subprocess.run of a new process; after `timeout`, the return code is -SIGALRM."""
        out, err = (Path(self._directory.name) / name for name in ("out", "err"))
        request = {"arguments": [*map(str, arguments)], "out": str(out), "err": str(err), "timeout_s": timeout}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        response = self._process.stdout.readline()
        assert response, f"{PROGRAM} exited: {self._process.wait(timeout=10)}"
        streams = (path.read_text() if text else path.read_bytes() for path in (out, err))
        return subprocess.CompletedProcess(arguments, int(response), *streams)


_printers = []


def run(*arguments, **how):
    if not _printers:
        _printers.append(Printer())
    return _printers[0].run(*arguments, **how)
