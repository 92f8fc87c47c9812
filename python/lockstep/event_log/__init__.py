"""Reads and writes event logs (docs/event_log.md) without other packages."""
