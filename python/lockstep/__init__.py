"""Compiles a Python model, with its loss and gradients, into a file that Lockstep trains without Python."""

from lockstep.compiling import compile_step
from lockstep.errors import CompileError

__all__ = ["CompileError", "compile_step"]
__version__ = "0.1.0"
