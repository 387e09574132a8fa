"""Fingerprints of many strings are those of each."""

from __future__ import annotations

import numpy as np

from colonnade.core.fingerprint import fingerprint64, fingerprints64


def test_many_strings_of_every_length_are_hashed_as_one() -> None:
    rng = np.random.default_rng(0)
    keys = [rng.integers(0, 256, n, np.uint8).tobytes() for n in rng.permutation(np.repeat(np.arange(300), 2))]
    data = np.frombuffer(b"".join(keys), np.uint8)
    lengths = np.array([len(key) for key in keys])
    got = fingerprints64(data, np.cumsum(lengths) - lengths, lengths)
    assert got.tolist() == [fingerprint64(key) for key in keys]


def test_no_strings_and_empty_ones_have_fingerprints() -> None:
    nothing, none = np.empty(0, np.uint8), np.empty(0, np.int64)
    assert fingerprints64(nothing, none, none).tolist() == []
    zeros = np.zeros(3, np.int64)
    assert fingerprints64(nothing, zeros, zeros).tolist() == [fingerprint64(b"")] * 3
