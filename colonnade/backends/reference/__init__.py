"""The reference backend: torch, one column at a time, obviously right."""

from colonnade.backends.reference.backend import ReferenceBackend

__all__ = ["ReferenceBackend"]
