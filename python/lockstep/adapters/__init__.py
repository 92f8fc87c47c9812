"""Loggers of other frameworks that record with Lockstep: lightning, transformers and accelerate, one module each."""
