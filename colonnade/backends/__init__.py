"""Backends: what runs the columns of a program, the feed that packs a request for them, and the dense rest."""
