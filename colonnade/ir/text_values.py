"""Values in the text form: attributes of ops and operands of the dense rest.

`3`, `0.5`, `inf`, `true`, `none`, `float32` and `"a text"`, `b"bytes"`, `(1, 2)`, `{B + 1}` (a dim), `%name` (an
earlier value), `float32[2](0.5, 1.0)` (a small constant), `@0123456789abcdef` (a constant by its digest).
"""

from __future__ import annotations

import functools
import math
import re
from typing import Any

import numpy as np
import sympy

from colonnade.core import dims
from colonnade.core.consts import Const
from colonnade.core.dims import Dim
from colonnade.errors import TextError
from colonnade.ir import text_lexer
from colonnade.ir.program import Ref

INLINE = 64
"""Constants of more elements are printed as their digest."""

STRING = "string"
CONST_DTYPES = (
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", STRING),
)
RESERVED = ("true", "false", "none", "inf", "nan")
_BARE_TEXT = re.compile(r"[A-Za-z_](?:[A-Za-z0-9_./]|-(?!>))*", re.ASCII)
_INT = re.compile(r"-?[0-9]+", re.ASCII)
_FLOAT = re.compile(r"-?(?:inf|nan|[0-9]+(?:\.[0-9]*)?(?:e-?[0-9]+)?)", re.ASCII)


def value(item: Any) -> str:
    """A value as it is printed. Errors: TextError on a type that has no text."""
    if isinstance(item, np.generic):
        item = item.item()
    match item:
        case None:
            return "none"
        case bool():
            return "true" if item else "false"
        case int():
            return str(item)
        case float():
            return floating(item)
        case str():
            return item if _BARE_TEXT.fullmatch(item) and item not in RESERVED else text_lexer.quoted(item)
        case bytes():
            return text_lexer.quoted_bytes(item)
        case tuple():
            return "(" + ", ".join(map(value, item)) + ("," if len(item) == 1 else "") + ")"
        case Ref():
            return "%" + text_lexer.name(item.name)
        case Const():
            return const(item)
        case sympy.Expr():
            return "{" + dim(item) + "}"
    raise TextError(f"a {type(item).__name__} has no text form", got=repr(item)[:200])


def floating(item: float) -> str:
    """The shortest text that parses to the same float64."""
    return repr(item).replace("e+", "e")


@functools.lru_cache(maxsize=4096)
def dim(item: Dim) -> str:
    """A dim as it is printed. Errors: TextError where it would not parse back (symbols that are not identifiers)."""
    shown = dims.text(item)
    try:
        same = dims.parse(shown) == item
    except ValueError:
        same = False
    if not same:
        raise TextError("a dim has no text form", got=shown, want="symbols that are identifiers")
    return shown


def const(item: Const) -> str:
    """A constant in place where it is small and its text gives the same bits, else its digest."""
    return inline(item) or "@" + item.digest


def inline(item: Const) -> str | None:
    """A small constant's text; None where it is printed as its digest.

    Facts: a float that does not come back with the same bits (a NaN with a payload) makes it None.
    """
    array = item.array
    if array.size > INLINE:
        return None
    dtype = STRING if array.dtype == object else array.dtype.name
    if dtype not in CONST_DTYPES:
        return None
    items = [_element(x) for x in array.reshape(-1)]
    values = [float(s) if array.dtype.kind == "f" else x for s, x in zip(items, array.reshape(-1), strict=True)]
    if build(dtype, array.shape, values).digest != item.digest:
        return None
    return f"{dtype}[{', '.join(map(str, array.shape))}]({', '.join(items)})"


def _element(x: Any) -> str:
    return str(x).replace("e+", "e") if isinstance(x, np.floating) else value(x)


def build(dtype: str, size: tuple[int, ...], values: list[Any]) -> Const:
    """The constant of that content."""
    if dtype == STRING:
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return Const(array.reshape(size))
    with np.errstate(over="ignore"):
        wide = "float64" if dtype.startswith("float") else dtype
        return Const(np.array(values, dtype=wide).astype(dtype).reshape(size))


def number(word: str) -> int | float | None:
    """The int or float that a word spells, else None."""
    if _INT.fullmatch(word):
        return int(word)
    if not _FLOAT.fullmatch(word):
        return None
    return math.nan if word.endswith("nan") else float(word)


def bare_text(word: str) -> bool:
    """Whether an unquoted word is a text."""
    return _BARE_TEXT.fullmatch(word) is not None
