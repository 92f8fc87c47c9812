"""Finds the programs of Lockstep."""

import os
import shutil
import sys
from pathlib import Path

BUILT = Path(__file__).resolve().parents[2] / "build" / "bin"  # of the sources that contain this package


def find_program(name: str) -> str | None:
    """On PATH, in the directory of the interpreter (a virtual environment that is not activated), or in the build directory."""
    places = (None, os.path.dirname(sys.executable), str(BUILT))
    return next((found for place in places if (found := shutil.which(name, path=place))), None)
