"""Compiled code in a process of its own, so that it has there only what it has in lockstep-trainer."""

import contextlib
import io
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch

from lockstep.errors import CompilerFault
from lockstep.graphs import foreign_operator

Run = Callable[[str, list[torch.Tensor]], list[torch.Tensor]]
RUNNER = str(Path(__file__).with_name("runner.py"))
PATIENCE_S = 600  # of one graph and batch
ENDING_S = 10


@contextlib.contextmanager
def running(libraries: Mapping[str, bytes]) -> Iterator[Run]:
    """A function that runs the graph of a name. It raises CompileError, for a foreign operator, and CompilerFault."""
    with tempfile.TemporaryDirectory() as directory:
        for name, library in libraries.items():
            with zipfile.ZipFile(io.BytesIO(library)) as archive:
                archive.extractall(os.path.join(directory, name))
        runner = Runner(directory)
        try:
            yield runner.run
        finally:
            runner.end()


class Runner:
    """The process. `directory`: of the graphs, and of its temporary files."""

    def __init__(self, directory: str):
        self.output = Path(directory, "output")
        self.pipe, theirs = multiprocessing.Pipe()
        command = [sys.executable, RUNNER, str(theirs.fileno()), directory]
        environment = {**os.environ, "PYTHONSAFEPATH": "1", "TMPDIR": directory}
        with theirs, open(self.output, "w") as output:
            self.process = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()],
                                            stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def run(self, name: str, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        content = io.BytesIO()
        torch.save(inputs, content)
        try:
            self.pipe.send((name, content.getvalue()))
            if not self.pipe.poll(PATIENCE_S):
                raise CompilerFault(f"the compiled code {name}.pt2 did not end within {PATIENCE_S} s")
            outputs, error = self.pipe.recv()
        except (EOFError, OSError):
            self.end()
            raise CompilerFault(f"the compiled code {name}.pt2 ended its process{self.reason()}") from None
        if operator := re.search(r"Could not (?:find schema for|run) '?([\w:.]*\w)", error):
            raise foreign_operator(operator[1])
        if error:
            raise CompilerFault(f"the compiled code {name}.pt2 cannot be run: {error}")
        return torch.load(io.BytesIO(outputs))

    def end(self) -> None:
        """It does so by itself once the pipe is closed, unless it hangs."""
        self.pipe.close()
        try:
            self.process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def reason(self) -> str:
        code = self.process.returncode
        lines = [line.strip() for line in self.output.read_text(errors="replace").splitlines() if line.strip()]
        line = next((line for line in lines if "ERROR" in line), lines[-1] if lines else "")  # of a sanitizer
        return f" with {f'signal {-code}' if code < 0 else f'exit code {code}'}{': ' if line else ''}{line[:300]}"
