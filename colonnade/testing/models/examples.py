"""Serialized `tf.Example` messages, written without TensorFlow, for models that parse their input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = Sequence[Any] | NDArray[Any]


def encode_example(features: Mapping[str, tuple[str, Values]]) -> bytes:
    """The message of `features`: name -> (dtype `float32`, `int64` or `string`, values).

    Source: tensorflow/core/example/{example,feature}.proto: Example.features = 1, Features.feature = 1 (a map: key 1,
    value 2), Feature bytes_list = 1, float_list = 2, int64_list = 3; lists have `value` = 1, numbers packed.
    """
    entries = (_block(1, name.encode()) + _block(2, _feature(*feature)) for name, feature in features.items())
    return _block(1, b"".join(_block(1, entry) for entry in entries))


def _feature(dtype: str, values: Values) -> bytes:
    if dtype == "string":
        return _block(1, b"".join(_block(1, value) for value in values))
    if dtype == "float32":
        return _block(2, _block(1, np.asarray(values, "<f4").tobytes()))
    return _block(3, _block(1, b"".join(_varint(int(value)) for value in values)))


def _block(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    rest = value & 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
