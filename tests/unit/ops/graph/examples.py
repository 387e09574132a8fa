"""Random features and serialized Examples: absent, repeated, joined, misspelt and damaged ones among them."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from colonnade.core.consts import Const
from colonnade.core.examples import DTYPES, Feature

TEXTS = (b"", b"a", b"\x00\xff", b"a text of some length, longer than most of them are")
FLOATS = (0.0, -0.0, 1.5, -2.25, float("inf"), 1e-40, 3e38)
INTEGERS = (0, 1, -1, 127, 128, 300, 2**31, -(2**63), 2**63 - 1)
KEYS = ("a", "b", "city", "é", "a longer key, as they come too", "", "f", "g")


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def field(number: int, data: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def value(r: random.Random, dtype: str) -> Any:
    return r.choice({"string": TEXTS, "float32": FLOATS, "int64": INTEGERS}[dtype])


def listed(dtype: str, values: Sequence[Any], packed: bool = True) -> bytes:
    """A `Feature` message."""
    if dtype == "string":
        body = b"".join(field(1, v) for v in values)
    elif packed:
        one = struct.Struct("<f").pack if dtype == "float32" else varint
        body = field(1, b"".join(one(v) for v in values)) if values else b""
    else:
        tag = b"\x0d" if dtype == "float32" else b"\x08"
        one = struct.Struct("<f").pack if dtype == "float32" else varint
        body = b"".join(tag + one(v) for v in values)
    return field(DTYPES.index(dtype) + 1, body)


def entry(key: str, feature: bytes, swapped: bool = False) -> bytes:
    parts = [field(1, key.encode()), field(2, feature)]
    return field(1, b"".join(reversed(parts) if swapped else parts))


def example(*entries: bytes) -> bytes:
    return field(1, b"".join(entries))


def array(values: Sequence[Any], dtype: str, shape: tuple[int, ...]) -> Any:
    made = np.empty(len(values), object if dtype == "string" else dtype)
    made[:] = list(values)
    return made.reshape(shape)


def wanted(r: random.Random, kinds: Sequence[str] = ("dense", "steps", "sparse", "ragged", "padded")) -> Any:
    """One to six features of distinct keys."""
    return tuple(_wanted(r, key, r.choice(kinds)) for key in r.sample(KEYS, r.randint(1, 6)))


def _wanted(r: random.Random, key: str, kind: str) -> Feature:
    dtype = r.choice(DTYPES)
    if kind in ("sparse", "ragged"):
        return Feature(key, dtype, kind, splits=r.choice(["int32", "int64"]) if kind == "ragged" else "int64")
    if kind == "padded":
        return Feature(key, dtype, kind, (r.choice([0, 1, 2]),), Const(array([value(r, dtype)], dtype, ())))
    shape = r.choice([(), (1,), (2,), (2, 2)])
    if kind == "steps":
        return Feature(key, dtype, kind, shape, Const(array([value(r, dtype)], dtype, (1,))))
    size = int(np.prod(shape))
    default = Const(array([value(r, dtype) for _ in range(size)], dtype, shape))
    return Feature(key, dtype, kind, shape, default if r.random() < 0.8 else None)


def serialized(r: random.Random, features: Sequence[Feature], wrong: float = 0.02, damage: float = 0.05) -> bytes:
    """One Example. wrong: how often a feature has a wrong list.   damage: how often a byte is another, or cut."""
    entries = [e for f in r.sample(list(features), len(features)) for e in _entries(r, f, wrong)]
    if r.random() < 0.3:
        entries.insert(0, entry("nobody asks for it", r.choice([b"", b"\xff\xff", listed("int64", [1])])))
    cut = r.randint(0, len(entries))
    data = example(*entries) if r.random() < 0.8 else example(*entries[:cut]) + example(*entries[cut:])
    if r.random() < 0.1:
        data = r.choice([field(7, b"xx"), b"\x10\x05", b"\x15abcd", b"\x1112345678"]) + data
    return damaged(r, data) if r.random() < damage else data


def damaged(r: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    at = r.randrange(len(data))
    if r.random() < 0.3:
        return data[:at]
    return data[:at] + bytes([r.choice([0, 1, 8, 10, 13, 18, 26, 127, 128, 255, r.randrange(256)])]) + data[at + 1 :]


def _entries(r: random.Random, feature: Feature, wrong: float) -> list[bytes]:
    """None, one, or several for one key."""
    absent = 0.0 if feature.kind == "dense" and feature.default is None and r.random() > wrong else 0.3
    if r.random() < absent:
        return [] if r.random() < 0.6 else [entry(feature.key, b"")]
    return [_entry(r, feature, wrong) for _ in range(r.choice([1, 1, 1, 1, 2]))]


def _entry(r: random.Random, feature: Feature, wrong: float) -> bytes:
    num = {"dense": feature.size, "steps": feature.size * r.randint(0, 3), "padded": r.randint(0, feature.size)}.get(
        feature.kind, r.choice([0, 1, 1, 2, 5])
    )
    dtype = feature.dtype
    if r.random() < wrong:
        num += 1
    if r.random() < wrong:
        dtype = r.choice(DTYPES)
    made = listed(dtype, [value(r, dtype) for _ in range(num)], r.random() < 0.7)
    return entry(feature.key, made, r.random() < 0.2)
