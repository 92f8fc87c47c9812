"""Lockstep from Python: `lockstep.compile` compiles models, `lockstep.models` contains the built-in ones.

Importing this module imports neither torch nor numpy.
"""

__version__ = "0.1.0"
