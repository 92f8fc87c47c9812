"""Loggers of other frameworks that record with Lockstep: lightning, transformers, accelerate and torchtitan, one module each."""
