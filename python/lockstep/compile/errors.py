"""The exceptions of this package, which have one-line messages, and suppression of internal warnings."""

import contextlib
import logging
import warnings
from pathlib import Path
from typing import Iterator


class CompileError(Exception):
    """The model, its loss or the example batch cannot be compiled. The message states what and where."""


class CompilerFault(Exception):
    """The compiler or this package failed on a valid model."""


def fault_of_target(path: Path) -> str:
    """Why no file can be written to `path`; empty: it can, as far as is known before."""
    folder = path.resolve().parent
    if not folder.is_dir():
        return f"directory {folder} does not exist"
    return "is a directory" if path.is_dir() else ""


def one_line(error: BaseException, max_length: int = 300) -> str:
    """The first non-empty line of the message, truncated."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return text if len(text) <= max_length else text[:max_length] + "..."


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppresses log messages and warnings of torch and transformers."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
