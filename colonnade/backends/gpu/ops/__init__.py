"""What each column op writes. Importing this package registers them all."""

from colonnade.backends.gpu.ops import (
    at_least,
    at_most,
    bucketize,
    cast,
    hash_bytes,
    hash_decimal,
    mod,
    not_equal,
    replace_outside,
)

__all__ = [
    "at_least",
    "at_most",
    "bucketize",
    "cast",
    "hash_bytes",
    "hash_decimal",
    "mod",
    "not_equal",
    "replace_outside",
]
