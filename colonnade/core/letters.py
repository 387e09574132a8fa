"""Small and capital letters of UTF-8, as Unicode 13.0 has them, which is TensorFlow's.

Facts: what follows a zero byte is cut off, bytes that are no UTF-8 become U+FFFD.
Source: TensorFlow 2.21's StringLower and StringUpper, which use ICU, in a locale without rules of its own.
"""

from __future__ import annotations

import re

_RANGES = (
    *((0x2C2F, 0x2C2F), (0x2C5F, 0x2C5F), (0xA7C0, 0xA7C1), (0xA7D0, 0xA7D1), (0xA7D6, 0xA7D9)),
    *((0x10570, 0x1057A), (0x1057C, 0x1058A), (0x1058C, 0x10592), (0x10594, 0x10595)),
    *((0x10597, 0x105A1), (0x105A3, 0x105B1), (0x105B3, 0x105B9), (0x105BB, 0x105BC)),
)
"""Letters with another case that came with Unicode 14.0; 15.0 and 15.1 brought none."""
NEWER = re.compile("([" + "".join(f"{chr(a)}-{chr(b)}" for a, b in _RANGES) + "]+)")


def lower(text: bytes) -> bytes:
    """`text` in small letters."""
    return "".join(part if k % 2 else part.lower() for k, part in enumerate(_parts(text))).encode()


def upper(text: bytes) -> bytes:
    """`text` in capital letters."""
    return "".join(part if k % 2 else part.upper() for k, part in enumerate(_parts(text))).encode()


def _parts(text: bytes) -> list[str]:
    """What has letters, and by turns the newer ones, beside which a sigma stands as at an end."""
    return NEWER.split(text.partition(b"\0")[0].decode("utf-8", "replace"))
