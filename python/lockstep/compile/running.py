"""Runs compiled code in a separate process, so that its environment is the same as in lockstep-trainer."""

import contextlib
import io
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import torch

from lockstep.compile.errors import CompilerFault
from lockstep.compile.graphs import foreign_operator

Run = Callable[[str, list[torch.Tensor]], list[torch.Tensor]]
RUNNER = str(Path(__file__).with_name("runner.py"))
RUN_TIMEOUT_S = 600  # for one graph and batch
EXIT_TIMEOUT_S = 10


@contextlib.contextmanager
def running(libraries: Mapping[str, bytes], kept: Sequence[torch.Tensor] = ()) -> Iterator[Run]:
    """A function that runs the graph with a given name. It raises CompileError (unsupported operator) and CompilerFault. Inputs that
    are elements of `kept` are sent to the process only once."""
    with tempfile.TemporaryDirectory() as directory:
        for name, library in libraries.items():
            with zipfile.ZipFile(io.BytesIO(library)) as archive:
                archive.extractall(os.path.join(directory, name))
        runner = Runner(directory, kept)
        try:
            yield runner.run
        finally:
            runner.end()


class Runner:
    """The process that runs the graphs. `directory`: contains the graphs and temporary files."""

    def __init__(self, directory: str, kept: Sequence[torch.Tensor]):
        self.unsent = list(kept)
        self.numbers = {id(tensor): i for i, tensor in enumerate(kept)}
        self.output = Path(directory, "output")
        self.pipe, theirs = multiprocessing.Pipe()
        command = [sys.executable, RUNNER, str(theirs.fileno()), directory]
        environment = {**os.environ, "PYTHONSAFEPATH": "1", "TMPDIR": directory}
        with theirs, open(self.output, "w") as output:
            self.process = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()],
                                            stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def run(self, name: str, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        content = io.BytesIO()
        numbers = [self.numbers.get(id(tensor)) for tensor in inputs]
        torch.save((self.unsent, numbers, [tensor for tensor, number in zip(inputs, numbers) if number is None]), content)
        self.unsent = []
        try:
            self.pipe.send((name, content.getvalue()))
            if not self.pipe.poll(RUN_TIMEOUT_S):
                raise CompilerFault(f"the compiled code {name}.pt2 timed out after {RUN_TIMEOUT_S} s")
            outputs, error = self.pipe.recv()
        except (EOFError, OSError):
            self.end()
            raise CompilerFault(f"the compiled code {name}.pt2 terminated its process{self.reason()}") from None
        if operator := re.search(r"Could not (?:find schema for|run) '?([\w:.]*\w)", error):
            raise foreign_operator(operator[1])
        if error:
            raise CompilerFault(f"the compiled code {name}.pt2 failed: {error}")
        return torch.load(io.BytesIO(outputs))

    def end(self) -> None:
        """Closes the pipe, on which the process exits; kills it if it hangs."""
        self.pipe.close()
        try:
            self.process.wait(EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def reason(self) -> str:
        code = self.process.returncode
        lines = [line.strip() for line in self.output.read_text(errors="replace").splitlines() if line.strip()]
        line = next((line for line in lines if "ERROR" in line), lines[-1] if lines else "")  # e.g. of a sanitizer
        return f" with {f'signal {-code}' if code < 0 else f'exit code {code}'}{': ' if line else ''}{line[:300]}"
