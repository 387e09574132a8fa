"""Column ops by hand: what they answer, what they prove, what they refuse."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from colonnade.core.consts import Const
from colonnade.core.logarithm import log64
from colonnade.errors import ShapeError
from colonnade.ops.add_place import AddPlace
from colonnade.ops.affine import Affine
from colonnade.ops.at_least import AtLeast
from colonnade.ops.at_most import AtMost
from colonnade.ops.bucketize import Bucketize
from colonnade.ops.cast import Cast
from colonnade.ops.clip import Clip
from colonnade.ops.fill_missing import FillMissing
from colonnade.ops.hash_bytes import HashBytes
from colonnade.ops.hash_decimal import HashDecimal
from colonnade.ops.hash_int import HashInt
from colonnade.ops.log import Log
from colonnade.ops.mod import Mod
from colonnade.ops.multi_hash import MultiHash, greatest_prime
from colonnade.ops.not_equal import NotEqual
from colonnade.ops.op import ColumnOp, ElementFacts
from colonnade.ops.or_else import OrElse
from colonnade.ops.sip_bytes import SipBytes
from colonnade.ops.sip_decimal import SipDecimal
from colonnade.ops.split import Split
from colonnade.ops.vocabulary import Vocabulary
from colonnade.ops.wrap_negative import WrapNegative

INF, NAN = float("inf"), float("nan")


def texts(*values: bytes) -> Any:
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


def bounds(*values: float) -> Const:
    return Const(np.array(values, dtype=np.float32))


KEY = (0x0706050403020100, 0x0F0E0D0C0B0A0908)
CASES: list[tuple[ColumnOp, Any, list[Any]]] = [
    (AtLeast(0), np.array([-1, 0, 2**62]), [False, True, True]),
    (AtMost(9), np.array([-(2**63), 9, 10]), [True, True, False]),
    (NotEqual(-1), np.array([-1, 0], np.int32), [False, True]),
    (NotEqual(b""), texts(b"", b"a"), [False, True]),
    (Bucketize(bounds(0, 10)), np.array([-INF, -0.0, 9.5, 10, INF, NAN], np.float32), [0, 1, 1, 2, 2, 2]),
    (Bucketize(bounds()), np.array([1.0, NAN], np.float32), [0, 0]),
    (Bucketize(bounds(1, 1, 2)), np.array([0.5, 1, 2], np.float32), [0, 2, 3]),
    (Bucketize(bounds(0.1)), np.array([0.1, 0.2]), [0, 1]),
    (Bucketize(bounds(2**24, 2**24 + 4)), np.array([2**24 - 1, 2**24 + 3]), [0, 2]),
    (Bucketize(bounds(2.0**31)), np.array([2**31 - 1], np.int32), [1]),
    (Bucketize(bounds(0), False), np.array([-1e-41], np.float32), [0]),
    (Bucketize(bounds(0), True), np.array([-1e-41], np.float32), [1]),
    (Bucketize(bounds(1e-40), True), np.array([0.0]), [1]),
    (Bucketize(bounds(0), True), np.array([-1e-40, -1e-310]), [0, 1]),
    (Cast("int32"), np.array([2**32 + 5, -1]), [5, -1]),
    (Cast("int32"), np.array([NAN, 3e9, -1.9], np.float32), [-(2**31), -(2**31), -1]),
    (Cast("int64"), np.array([NAN, 1e20, 1.9]), [-(2**63), -(2**63), 1]),
    (Cast("float32"), np.array([2**24 + 1], np.int32), [2.0**24]),
    (Mod(10), np.array([-1, 25]), [(2**64 - 1) % 10, 5]),
    (WrapNegative(10), np.array([-11, -10, -1, 0, 9, -(2**63)]), [-1, 0, 9, 0, 9, 10 - 2**63]),
    (WrapNegative(2**31 - 1), np.array([-(2**31), -1, 2**31 - 1], np.int32), [-1, 2**31 - 2, 2**31 - 1]),
    (Vocabulary(Const(np.array([4])), Const(np.array([0])), 1, 3, "floor_mod"), np.array([4, 3, -1, -3]), [0, 1, 3, 1]),
    (SipBytes(*KEY), texts(bytes(range(15))), [0xA129CA6149BE45E5 - 2**64]),
    (HashBytes("murmur"), texts(b"", b"a", b"abcd"), [0, 510903276987443985, -1436572670970492550]),
    (HashBytes("murmur"), texts(b"12345678", bytes(range(33))), [8471103573108904450, -2052297203907101240]),
    (MultiHash(0, 1000), np.array([1001, 1002, 1003]), [1, 2, 3]),
    (MultiHash(1, 1000), np.array([1001, 1002, 1003]), [3, 6, 9]),
    (MultiHash(2, 1000), np.array([1001, 1002, 1003]), [5, 10, 15]),
    (MultiHash(3, 1000), np.array([1001, 1002, 1003]), [7, 14, 21]),
    (MultiHash(1, 5), np.array([-1, 2**63 - 1]), [(-3) % 233 % 5, (2**63 - 3) % 233 % 5]),
    (Clip(-1, 3), np.array([-(2**63), -1, 0, 3, 4]), [-1, -1, 0, 3, 3]),
    (Clip(-1.5, 3), np.array([-INF, -1.5, -0.0, 3.5, INF], np.float32), [-1.5, -1.5, -0.0, 3, 3]),
    (Affine(3.0, -1.0), np.array([1 / 3, INF, 2.0], np.float32), [0.0, INF, 5.0]),
    (FillMissing(0.5), np.array([NAN, INF, 1.0], np.float32), [0.5, INF, 1.0]),
    (FillMissing(7, -1), np.array([-1, 0, -2]), [7, 0, -2]),
    (Log(), np.array([0.0, -0.0, 1.0, INF, 1e-45], np.float32), [-INF, -INF, 0.0, INF, -103.2789306640625]),
    (HashBytes(), texts(b"", b"a"), [0x9AE16A3B2F90404F - 2**64, 12917804110809363939 - 2**64]),
]


@pytest.mark.parametrize(("op", "x", "want"), CASES, ids=lambda v: v.name if isinstance(v, ColumnOp) else "")
def test_answers(op: ColumnOp, x: Any, want: list[Any]) -> None:
    got = op.reference(x if x.dtype == object else torch.from_numpy(x))
    assert got.tolist() == want


def test_log_is_within_one_step_of_the_logarithm() -> None:
    x = np.random.default_rng(0).integers(1, 0x7F800000, 200_000).astype(np.uint32).view(np.float32)
    near = np.nextafter(np.float32(1), np.float32([0, 2])).astype(np.float32)
    x = np.concatenate([x, near, np.float32([0.5**0.5, 2**0.5, 3e38, 1.2e-38])])
    got, want = Log().reference(torch.from_numpy(x)).numpy(), np.log(x.astype(np.float64))
    assert np.abs(log64(x.astype(np.float64)) - want).max() <= 4e-16 * np.abs(want).max()
    np.testing.assert_array_equal(got, want.astype(np.float32))


@pytest.mark.parametrize("function", ["farm", "murmur"])
def test_hash_int_is_the_hash_of_the_bytes(function: str) -> None:
    numbers = [0, -5, 2**63 - 1, -(2**63)]
    got = HashInt(function).reference(torch.tensor(numbers))
    words = texts(*(n.to_bytes(8, "little", signed=True) for n in numbers))
    assert got.tolist() == HashBytes(function).reference(words).tolist()


def test_the_primes_of_multi_hash() -> None:
    sieve = np.ones(90_000, bool)
    sieve[:2] = False
    for n in range(2, 300):
        sieve[2 * n :: n] &= not sieve[n]
    primes = np.flatnonzero(sieve)
    for most in [2, 3, 29, 47, 67, 83, 29_000, 83_000, *range(100, 300)]:
        assert greatest_prime(most) == primes[primes <= most].max()
    assert greatest_prime(83 * 2**31) > 82 * 2**31


def test_hash_decimal_is_the_hash_of_the_text() -> None:
    numbers = [0, -5, 2**63 - 1, -(2**63)]
    got = HashDecimal().reference(torch.tensor(numbers))
    assert got.tolist() == HashBytes().reference(texts(*(str(n).encode() for n in numbers))).tolist()


def test_sip_decimal_is_the_hash_of_the_text() -> None:
    numbers = [0, -5, 2**63 - 1, -(2**63)]
    got = SipDecimal(*KEY).reference(torch.tensor(numbers))
    assert got.tolist() == SipBytes(*KEY).reference(texts(*(str(n).encode() for n in numbers))).tolist()


def test_a_wider_cast_keeps_what_the_narrow_dtype_says() -> None:
    known = Cast("int64").infer(ElementFacts("int32"))
    assert (known.lo, known.hi) == (-(2**31), 2**31 - 1)
    assert Cast("int64").infer(ElementFacts("int64")) == ElementFacts("int64")


def test_add_place_counts_places_to_the_last() -> None:
    op, x, places = AddPlace(10, 3), torch.tensor([1, 2, 3, 4], dtype=torch.int32), torch.tensor([0, 2, 3, -(2**63)])
    assert op.reference(x, places).tolist() == [1, 22, 23, 4]
    known = op.infer(ElementFacts("int32", 0, 9), ElementFacts("int64"))
    assert (known.lo, known.hi) == (0, 29)


def test_or_else_takes_what_is_not_negative() -> None:
    op, a, b = OrElse(3), torch.tensor([0, -1, 7, -(2**63)]), torch.tensor([9, 9, 9, -4])
    assert op.reference(a, b).tolist() == [0, 12, 7, -1]
    known = op.infer(ElementFacts("int64", -1, 7), ElementFacts("int64", -4, 9))
    assert (known.lo, known.hi) == (-1, 12)
    for operands in (("int64", "int32"), ("int64", "int64")):
        with pytest.raises(ShapeError):
            op.infer(*map(ElementFacts, operands))


def test_split_keeps_empty_tokens() -> None:
    tokens, counts = Split(b";").expand(texts(b"", b"a;;b", b";"))
    assert list(tokens) == [b"", b"a", b"", b"b", b"", b""]
    assert counts.tolist() == [1, 3, 2]


REFUSED: list[tuple[ColumnOp, str]] = [
    (AtLeast(0), "float32"),
    (AtMost(0), "string"),
    (NotEqual(0), "string"),
    (NotEqual(b""), "int32"),
    (NotEqual(0), "float32"),
    (Bucketize(bounds(0)), "string"),
    (Bucketize(bounds(2, 1)), "float32"),
    (Bucketize(bounds(NAN)), "float32"),
    (Bucketize(Const(np.array([1.0]))), "float32"),
    (Cast("int32"), "string"),
    (Cast("string"), "int32"),
    (Mod(10), "int32"),
    (Mod(0), "int64"),
    (Mod(2**63), "int64"),
    (HashBytes(), "int64"),
    (SipBytes(*KEY), "int64"),
    (SipBytes(2**63, 0), "string"),
    (SipDecimal(*KEY), "float32"),
    (SipDecimal(0, -(2**63) - 1), "int64"),
    (WrapNegative(1), "float32"),
    (WrapNegative(-1), "int64"),
    (WrapNegative(2**31), "int32"),
    (Vocabulary(Const(texts(b"a")), Const(np.array([0])), 1, 3, "floor_mod"), "string"),
    (Vocabulary(Const(np.array([4])), Const(np.array([0])), 1, 3, "sip"), "int64"),
    (HashDecimal(), "float32"),
    (HashDecimal("murmur"), "int64"),
    (HashBytes("md5"), "string"),
    (HashInt(), "int32"),
    (HashInt("md5"), "int64"),
    (MultiHash(4, 10), "int64"),
    (MultiHash(0, 0), "int64"),
    (MultiHash(0, 10), "int32"),
    (Clip(3, 2), "int64"),
    (Clip(0, 1.5), "int64"),
    (Clip(0, 2**31), "int32"),
    (Clip(0, NAN), "float32"),
    (Clip(0, 0.1), "float32"),
    (Affine(1.0), "float64"),
    (Affine(0.1), "float32"),
    (FillMissing(0), "int64"),
    (FillMissing(0, 0), "float32"),
    (FillMissing(2**31, 0), "int32"),
    (FillMissing(0), "string"),
    (Log(), "float64"),
    (Split(b""), "string"),
    (Split(b","), "int64"),
]


@pytest.mark.parametrize(("op", "dtype"), REFUSED, ids=lambda v: v if isinstance(v, str) else v.name)
def test_refuses(op: ColumnOp, dtype: str) -> None:
    with pytest.raises(ShapeError):
        op.infer(ElementFacts(dtype))


@pytest.mark.parametrize("seed", range(60))
def test_bounds_hold(seed: int) -> None:
    r = random.Random(seed)
    dtype = r.choice(["int32", "int64"])
    lo, hi = sorted(r.choice([-(2**31), -7, -1, 0, 1, 9, 2**31 - 1]) for _ in range(2))
    known = ElementFacts(dtype, lo, hi) if r.random() < 0.7 else ElementFacts(dtype)
    x = torch.tensor([lo, hi, r.randint(lo, hi)], dtype=getattr(torch, dtype))
    for op in (
        Cast(r.choice(["int32", "int64", "float32"])),
        Bucketize(bounds(-3, 0, 5)),
        HashDecimal(),
        AtLeast(0),
        WrapNegative(5),
    ):
        made, got = op.infer(known), op.reference(x)
        assert str(got.dtype).removeprefix("torch.") == made.dtype
        assert made.lo is None or int(got.min()) >= made.lo
        assert made.hi is None or int(got.max()) <= made.hi
