"""Lockstep from Python: records and reads runs, and compiles models.

    run = lockstep.init(name="demo", config={"lr": 0.1})
    run.log({"train/loss": 0.5}, step=1)
    run.finish()

    lockstep.runs("runs").df()

`lockstep.compile` compiles models, `lockstep.models` contains the built-in ones. Importing this module imports neither torch nor numpy, and
takes a few milliseconds. docs/python.md describes it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lockstep.launcher_page import progress
    from lockstep.recording.api import (alert, attach, define_metric, finish, init, log, log_artifact, unwatch, use_artifact, watch)
    from lockstep.recording.artifacts import Artifact
    from lockstep.recording.clips import Audio, Html, Video
    from lockstep.recording.run import AlertLevel, Run
    from lockstep.recording.values import Histogram, Image, Table
    from lockstep.stored_runs import runs

__version__ = "0.1.0"

_PLACES = {
    "lockstep.recording.api": ("init", "attach", "log", "finish", "alert", "define_metric", "watch", "unwatch", "log_artifact", "use_artifact"),
    "lockstep.recording.artifacts": ("Artifact",),
    "lockstep.recording.clips": ("Audio", "Html", "Video"),
    "lockstep.recording.run": ("AlertLevel", "Run"),
    "lockstep.recording.values": ("Histogram", "Image", "Table"),
    "lockstep.launcher_page": ("progress",),
    "lockstep.stored_runs": ("runs",),
}
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names}

__all__ = [*_PLACE_OF, "config", "run", "summary"]


def __getattr__(name: str) -> Any:
    """Imports what is used; `run`, `config` and `summary` are those of the current run."""
    if name in ("run", "config", "summary"):
        from lockstep.recording.api import current

        run = current()
        if name == "run" or run is not None:
            return run if name == "run" else getattr(run, name)
        raise AttributeError(f"lockstep.{name} before lockstep.init()")
    if name not in _PLACE_OF:
        raise AttributeError(f"module 'lockstep' has no attribute '{name}'")
    value = getattr(importlib.import_module(_PLACE_OF[name]), name)
    globals()[name] = value
    return value
