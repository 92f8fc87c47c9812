"""Compiles a Python model, with its loss and gradients, into a file that Lockstep trains without Python.

The command is `lockstep-compile`. `lockstep.models` contains Lockstep's built-in models as Python modules.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockstep.compile.compiling import compile_step
    from lockstep.compile.errors import CompileError

PACKAGE_FORMAT = 4  # the number of `kPackageFormat` in models/package/manifest.cpp

__all__ = ["CompileError", "compile_step"]


def __getattr__(name: str) -> object:
    """Imports the compiler, which takes seconds, on first use."""
    if name == "compile_step":
        from lockstep.compile.compiling import compile_step

        return compile_step
    if name == "CompileError":
        from lockstep.compile.errors import CompileError

        return CompileError
    raise AttributeError(f"module 'lockstep.compile' has no attribute '{name}'")
