"""Loads functions from Python files and modules named on the command line, and parses their arguments and options."""

import argparse
import contextlib
import importlib
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Callable, Iterator

CONSTANTS = {"True": True, "False": False, "None": None}  # of Python, which are not JSON


class Refused(Exception):
    """Invalid input; the message is one line."""


class Parser(argparse.ArgumentParser):
    """Raises Refused instead of ending the program."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise Refused(f"{message}; see lockstep-compile --help")


@contextlib.contextmanager
def user_code() -> Iterator[None]:
    """Converts exceptions of user code to Refused."""
    try:
        yield
    except SystemExit as error:
        raise Refused("the model's file ends the program: call sys.exit() and parse_args() only when it is run as a script"
                      f"{place(error)}") from error
    except Exception as error:
        raise Refused(described(error)) from error


def place(error: BaseException) -> str:
    from lockstep.compile.trial import place_of

    return place_of(error)


def described(error: Exception) -> str:
    from lockstep.compile.errors import one_line

    return f"{type(error).__name__}: {one_line(error)}{place(error)}"


class Sources:
    """Python files and modules, each loaded once."""

    def __init__(self, model: str):
        """`model`: FILE.py:FUNCTION or MODULE:FUNCTION."""
        self.file, self.function = split(model)
        if not self.function:
            raise Refused(f"'{model}': expected FILE.py:FUNCTION, or MODULE:FUNCTION such as lockstep.models:gpt")
        self._modules: dict[str, ModuleType] = {}

    def load(self, file: str) -> ModuleType:
        if file not in self._modules:
            self._modules[file] = load_file(file) if file.endswith(".py") or "/" in file else load_module(file)
        return self._modules[file]

    def find(self, text: str) -> Callable[..., object]:
        """The function FILE:NAME, or NAME in the model's file."""
        file, name = split(text)
        if not name:
            file, name = self.file, text
        module = self.load(file)
        found = getattr(module, name, None)
        if not callable(found):
            functions = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")
                         and getattr(value, "__module__", "") == module.__name__]
            raise Refused(f"{file} has no function '{name}'; it has {', '.join(functions) or 'none'}")
        return found


def split(text: str) -> tuple[str, str]:
    file, colon, name = text.rpartition(":")
    return (file, name) if colon else (text, "")


def load_file(file: str) -> ModuleType:
    path = Path(file)
    if not path.is_file():
        raise Refused(f"{file}: no such file")
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise Refused(f"{file}: is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    with user_code():
        spec.loader.exec_module(module)
    return module


def load_module(name: str) -> ModuleType:
    try:
        with user_code():
            return importlib.import_module(name)
    except Refused as error:
        if isinstance(error.__cause__, ModuleNotFoundError) and error.__cause__.name in (name, name.split(".")[0]):
            raise Refused(f"{name}: no such module (file names must end with .py)") from None
        raise


def arguments_of(words: list[str]) -> dict[str, object]:
    """Parses NAME=VALUE arguments. Values are JSON if valid, or True, False and None of Python, otherwise strings."""
    given: dict[str, object] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name.isidentifier():
            raise Refused(f"'{word}': expected NAME=VALUE, an argument of the model's function")
        try:
            given[name] = json.loads(value)
        except json.JSONDecodeError:
            given[name] = CONSTANTS.get(value, value)
    return given
