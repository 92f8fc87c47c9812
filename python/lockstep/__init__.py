"""Compiles a Python model, with its loss and gradients, into a file that Lockstep trains without Python.

`lockstep.models` contains Lockstep's built-in models as Python modules.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockstep.compiling import compile_step
    from lockstep.errors import CompileError

__all__ = ["CompileError", "compile_step"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Imports the compiler, which takes seconds, on first use."""
    if name == "compile_step":
        from lockstep.compiling import compile_step

        return compile_step
    if name == "CompileError":
        from lockstep.errors import CompileError

        return CompileError
    raise AttributeError(f"module 'lockstep' has no attribute '{name}'")
