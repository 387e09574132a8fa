"""One value of a feed, in any legal form, as a numpy array of the declared dtype; or what is wrong with it.

This is the path for what the fast one refuses: it looks at every value by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from colonnade.core.stored import stored
from colonnade.core.strings import Strings
from colonnade.errors import ColonnadeError

Array = npt.NDArray[Any]


class Unusual(ValueError):
    """A feed that the fast path does not take: the slow one says why, or converts it."""


class Unfit(ValueError):
    """A value that does not fit its declaration; its text says what is wrong."""


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype of a declared one; strings are objects."""
    return np.dtype(object) if name == "string" else np.dtype(name)


def as_array(value: object, dtype: str) -> Array:
    """The value as a native array of `dtype` (strings: an object array of bytes), of whatever shape it has.

    Facts: no copy where it is one already. Arrays keep their dtype: another one is an error, as in the source
    framework. Python numbers take the declared dtype where they fit: integers exactly, floats by rounding.
    Errors: Unfit.
    """
    if isinstance(value, torch.Tensor):
        value = _from_torch(value)
    elif isinstance(value, pa.Array | pa.ChunkedArray | pa.Scalar):
        return _from_arrow(value, dtype)
    elif isinstance(value, list | tuple | int | float | str | bytes):
        return _from_python(value, dtype)
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise Unfit("has masked values")
    array = value if type(value) is np.ndarray else np.asarray(value)
    if dtype == "string":
        return _strings(array)
    if array.dtype.kind == "T" or array.dtype.newbyteorder("=") != np.dtype(dtype):
        raise Unfit(f"is {array.dtype}, want {dtype}")
    return array.astype(dtype, copy=False)


def as_declared(value: object, dtype: str, shape: Sequence[Any]) -> Array:
    """`as_array` for a declared shape: an empty list shows no dims behind its own, and has those that are declared.

    Errors: Unfit.
    """
    array = as_array(value, dtype)
    behind = shape[array.ndim :]
    if isinstance(value, list | tuple) and array.size == 0 and all(isinstance(d, int) for d in behind):
        return array.reshape(*array.shape, *behind)
    return array


def _from_torch(tensor: torch.Tensor) -> Array:
    if tensor.device.type != "cpu":
        raise Unfit(f"lies on {tensor.device}, want cpu")
    if tensor.layout != torch.strided:
        raise Unfit(f"is {tensor.layout}, want a dense tensor")
    try:
        return np.asarray(stored(tensor.detach().resolve_conj()).numpy())
    except (TypeError, RuntimeError) as error:  # what numpy has not: bfloat16, float8, quantized numbers
        raise Unfit(f"is {str(tensor.dtype).removeprefix('torch.')}") from error


def _from_arrow(value: pa.Array | pa.ChunkedArray | pa.Scalar, dtype: str) -> Array:
    if isinstance(value, pa.Scalar):
        value = pa.array([value.as_py()], type=value.type)
    sound(value)
    array = value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value
    shape = [len(array)]
    while True:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()  # its values may be null as well as its indices
        if array.null_count:
            raise Unfit(f"row {int(np.argmax(np.asarray(array.is_null())))} is null")
        if not pa.types.is_fixed_size_list(array.type):
            break
        shape.append(array.type.list_size)
        array = array.flatten()
    if is_text(array.type) and dtype == "string":
        return Strings.from_arrow(array).to_objects().reshape(shape)
    if is_text(array.type) or array.type != arrow_type(dtype):
        raise Unfit(f"is {array.type}, want {dtype}")
    return np.asarray(array.to_numpy(zero_copy_only=False)).reshape(shape)


def sound(value: pa.Array | pa.ChunkedArray) -> None:
    """Hold an Arrow array against its own buffers: whoever made it may not have done so.

    Errors: Unfit where it would be read beyond them, as by offsets that go down or past the end.
    """
    for array in value.chunks if isinstance(value, pa.ChunkedArray) else (value,):
        try:
            array.validate()
            if pa.types.is_fixed_size_list(array.type):
                sound(array.values)
            else:
                kind = _BYTES.get(array.type)
                (array if kind is None else array.view(kind)).validate(full=True)
        except pa.ArrowException as error:
            raise Unfit(f"is no valid Arrow array: {error}") from error


_BYTES = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}
"""Text is read as bytes: it need not be UTF-8."""
_TEXT = (
    pa.types.is_binary,
    pa.types.is_string,
    pa.types.is_large_binary,
    pa.types.is_large_string,
    pa.types.is_binary_view,
    pa.types.is_string_view,
    pa.types.is_fixed_size_binary,
)


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds byte strings or text."""
    return any(check(kind) for check in _TEXT)


def arrow_type(dtype: str) -> pa.DataType:
    """The Arrow type of a declared dtype."""
    return pa.large_binary() if dtype == "string" else pa.from_numpy_dtype(np.dtype(dtype))


def _from_python(value: Any, dtype: str) -> Array:
    if dtype == "string":
        return _strings(_nested_objects(value))
    try:
        array = np.array(value)
    except ValueError as error:
        raise Unfit("has rows of different lengths") from error
    want = np.dtype(dtype)
    if array.size == 0 and array.dtype.kind == "f":
        return array.astype(want)
    allowed = {"b": "b", "i": "iu", "u": "iu", "f": "iuf"}.get(want.kind, want.kind)
    if array.dtype.kind not in allowed:
        raise Unfit(f"is a list of {_python_kind(array)}, want {dtype}")
    with np.errstate(over="ignore"):
        converted = array.astype(want)
    if array.dtype.kind in "iu" and not np.array_equal(converted.astype(object), array.astype(object)):
        raise Unfit(f"has integers that {dtype} cannot hold")
    if array.dtype.kind == "f" and bool(np.any(np.isinf(converted) & ~np.isinf(array))):
        raise Unfit(f"has numbers that {dtype} cannot hold")
    return converted


def _nested_objects(value: Any) -> Array:
    """An object array of the nesting of lists, which numpy alone would guess (bytes and str are not sequences here)."""
    shape: list[int] = []
    level = [value]
    while level and all(isinstance(v, list | tuple) for v in level):
        lengths = {len(v) for v in level}
        if len(lengths) > 1:
            raise Unfit("has rows of different lengths")
        shape.append(lengths.pop())
        level = [item for v in level for item in v]
    out = np.empty(len(level), dtype=object)
    out[:] = level
    return out.reshape(shape)


def _python_kind(array: Array) -> str:
    kinds = {"b": "bool", "i": "int", "u": "int", "f": "float", "U": "str", "S": "bytes", "c": "complex"}
    return kinds.get(array.dtype.kind, "mixed or missing values")


def _strings(array: Array) -> Array:
    if array.dtype.kind not in "OSUT":
        raise Unfit(f"is {array.dtype}, want string")
    flat = array.astype(object, copy=False).reshape(-1)
    for i, item in enumerate(flat):
        if type(item) is not bytes and not isinstance(item, bytes | str):
            raise Unfit(f"element {_place(i, array.shape)} is {_short(item)}, want bytes or str")
    try:
        return Strings.from_objects(flat).to_objects().reshape(array.shape)
    except ColonnadeError as error:
        raise Unfit(error.got) from error


def _place(flat: int, shape: Sequence[int]) -> str:
    return str([int(i) for i in np.unravel_index(flat, tuple(shape))]) if shape else "()"


def _short(item: object) -> str:
    text = repr(item)
    return f"{type(item).__name__} {text[:40]}"
