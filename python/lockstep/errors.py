"""The exceptions of this package, each with a message of one line, and warnings that are no concern of a user."""

import contextlib
import logging
import warnings
from typing import Iterator


class CompileError(Exception):
    """The model, its loss or the example batch cannot be compiled. The message says what and where."""


class CompilerFault(Exception):
    """The compiler, or this package, made something wrong of a model that has no fault."""


def one_line(error: BaseException, longest: int = 300) -> str:
    """The first line of a message that says something, cut."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return text if len(text) <= longest else text[:longest] + "..."


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without what torch and transformers log about themselves."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
