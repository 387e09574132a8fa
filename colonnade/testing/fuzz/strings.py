"""What a model makes of strings before they are hashed or looked up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Step = Callable[[Any, Any, Any], Any]
JOINED = "joined"
"""The step that needs another input."""
_PUNCTUATION = r'[!"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~\']'

STEPS: Mapping[str, Step] = {
    "lower": lambda tf, x, other: tf.strings.lower(x),
    "upper": lambda tf, x, other: tf.strings.upper(x),
    "lower text": lambda tf, x, other: tf.strings.lower(x, encoding="utf-8"),
    "upper text": lambda tf, x, other: tf.strings.upper(x, encoding="utf-8"),
    "strip": lambda tf, x, other: tf.strings.strip(x),
    "spaced": lambda tf, x, other: tf.strings.regex_replace(x, "[!,; ]+", " "),
    "without digits": lambda tf, x, other: tf.strings.regex_replace(x, "[0-9]", ""),
    "without the first": lambda tf, x, other: tf.strings.regex_replace(x, "[a-f]", "", replace_global=False),
    "without punctuation": lambda tf, x, other: tf.strings.regex_replace(x, _PUNCTUATION, ""),
    "prefixed": lambda tf, x, other: tf.strings.join(["ab_", x]),
    "suffixed": lambda tf, x, other: tf.strings.join([x, "é"], separator="/"),
    "head": lambda tf, x, other: tf.strings.substr(x, 0, 3),
    "middle": lambda tf, x, other: tf.strings.substr(tf.strings.join(["ab", x]), 1, 5),
    "tail": lambda tf, x, other: tf.strings.substr(tf.strings.join(["abcd", x]), -4, 3),
    JOINED: lambda tf, x, other: tf.strings.join([x, other], separator="_"),
}
"""A step by its name: (tf, strings, other strings of the same shape) -> strings."""


def prepared(tf: Any, x: Any, steps: tuple[str, ...], other: Any) -> Any:
    """The steps of these names, one after the other."""
    for name in steps:
        x = STEPS[name](tf, x, other)
    return x
