"""Column ops against the TensorFlow ops that they stand for."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from colonnade.core.consts import Const
from colonnade.ops.at_least import AtLeast
from colonnade.ops.at_most import AtMost
from colonnade.ops.bucketize import Bucketize
from colonnade.ops.cast import Cast
from colonnade.ops.hash_bytes import HashBytes
from colonnade.ops.hash_decimal import HashDecimal
from colonnade.ops.mod import Mod
from colonnade.ops.not_equal import NotEqual
from colonnade.ops.sip_bytes import SipBytes
from colonnade.ops.sip_decimal import SipDecimal
from colonnade.ops.split import Split
from colonnade.testing.tensorflow import tensorflow

DTYPES = ("int32", "int64", "float32", "float64")
INF, NAN = float("inf"), float("nan")
FLOATS = [0.0, -0.0, 1.0, 9.999, 10.0, -10.5, 1e20, -1e20, 3e9, 2.0**31, 2.0**63, NAN, INF, -INF]
TINY = [1e-40, -1e-40, 1e-45, 5e-324, -5e-324, 1e-310, 1.17549435e-38, -1.17549435e-38]
INTEGERS = [0, 1, -1, 10, 2**24 + 1, 2**24 + 3, 2**31 - 1, -(2**31)]
WIDE = [2**31, 2**53 + 1, 2**62 + 1, 2**63 - 1, -(2**63), 2**32 + 5]


def elements(r: random.Random, dtype: str, n: int) -> Any:
    pool: list[Any] = (
        [*FLOATS, *TINY] if dtype.startswith("float") else [*INTEGERS, *(WIDE if dtype == "int64" else [])]
    )
    return np.array([r.choice(pool) for _ in range(n)], dtype=dtype)


def strings(r: random.Random, n: int) -> Any:
    made = np.empty(n, dtype=object)
    made[:] = [
        bytes(r.choice(b"ab,;\x00\xff") for _ in range(r.choice([0, 1, 3, 8, 17, 33, 64, 65, 200]))) for _ in range(n)
    ]
    return made


@pytest.mark.parametrize("dtype", DTYPES)
def test_bucketize(dtype: str) -> None:
    r = random.Random(dtype)
    for n in (0, 1, 3, 100):
        pool = [*FLOATS[:-3], *TINY, 2.0**24, 2.0**24 + 4, INF]
        sorted_bounds = np.sort(np.array([r.choice(pool) for _ in range(r.choice([0, 1, 5, 40]))], np.float32))
        x = elements(r, dtype, n)
        want = tensorflow().raw_ops.Bucketize(input=x, boundaries=sorted_bounds.tolist()).numpy()
        got = Bucketize(Const(sorted_bounds), flush_denormals=True).reference(torch.from_numpy(x))
        assert got.tolist() == want.tolist(), (x, sorted_bounds)


@pytest.mark.parametrize("to", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_cast(dtype: str, to: str) -> None:
    x = np.array(FLOATS if dtype.startswith("float") else INTEGERS + (WIDE if dtype == "int64" else []), dtype=dtype)
    want = tensorflow().raw_ops.Cast(x=x, DstT=to).numpy()
    got = Cast(to).reference(torch.from_numpy(x)).numpy()
    assert np.array_equal(got, want, equal_nan=to.startswith("float")), (x, got, want)


@pytest.mark.parametrize("buckets", [1, 2, 10, 10_000, 2**31 + 11, 2**63 - 1])
def test_hashes(buckets: int) -> None:
    r, raw = random.Random(buckets), tensorflow().raw_ops
    x = strings(r, 60)
    want = raw.StringToHashBucketFast(input=x, num_buckets=buckets).numpy()
    assert Mod(buckets).reference(HashBytes().reference(x)).tolist() == want.tolist()
    for dtype in ("int32", "int64"):
        numbers = elements(r, dtype, 40)
        want = raw.StringToHashBucketFast(input=raw.AsString(input=numbers), num_buckets=buckets).numpy()
        assert Mod(buckets).reference(HashDecimal().reference(torch.from_numpy(numbers))).tolist() == want.tolist()


@pytest.mark.parametrize("buckets", [1, 10, 2**63 - 1])
def test_keyed_hashes(buckets: int) -> None:
    r, raw = random.Random(buckets), tensorflow().raw_ops
    key = [r.choice([0, 1, -1, 2**63 - 1, -(2**63), r.getrandbits(62)]) for _ in range(2)]
    x = strings(r, 60)
    want = raw.StringToHashBucketStrong(input=x, num_buckets=buckets, key=key).numpy()
    assert Mod(buckets).reference(SipBytes(*key).reference(x)).tolist() == want.tolist()
    numbers = elements(r, "int64", 40)
    want = raw.StringToHashBucketStrong(input=raw.AsString(input=numbers), num_buckets=buckets, key=key).numpy()
    assert Mod(buckets).reference(SipDecimal(*key).reference(torch.from_numpy(numbers))).tolist() == want.tolist()


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_filters(dtype: str) -> None:
    r, raw = random.Random(dtype), tensorflow().raw_ops
    x = elements(r, dtype, 50)
    for bound in (0, -1, 2**31 - 1, -(2**31)):
        y = np.array(bound, dtype)
        fed = torch.from_numpy(x)
        assert AtLeast(bound).reference(fed).tolist() == raw.GreaterEqual(x=x, y=y).numpy().tolist()
        assert AtMost(bound).reference(fed).tolist() == raw.LessEqual(x=x, y=y).numpy().tolist()
        assert NotEqual(bound).reference(fed).tolist() == raw.NotEqual(x=x, y=y).numpy().tolist()


def test_not_equal_of_strings() -> None:
    x = strings(random.Random(5), 60)
    for value in (b"", b"a", x[7]):
        want = tensorflow().raw_ops.NotEqual(x=x, y=np.array(value, object)).numpy()
        assert NotEqual(value).reference(x).tolist() == want.tolist()


@pytest.mark.parametrize("separator", [b",", b";", b",;", b"ab", b"\x00"])
def test_split(separator: bytes) -> None:
    r = random.Random(separator)
    for n in (0, 1, 50):
        x = strings(r, n)
        indices, values, _ = tensorflow().raw_ops.StringSplitV2(input=x, sep=separator)
        tokens, counts = Split(separator).expand(x)
        assert list(tokens) == values.numpy().tolist()
        assert counts.tolist() == np.bincount(indices.numpy()[:, 0], minlength=n).tolist()
