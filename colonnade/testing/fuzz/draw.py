"""Random models: the same seed and number give the same model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from colonnade.testing.fuzz import draw_keras
from colonnade.testing.fuzz.cases import MOST_ADDED, SEQUENCES, Attributes, Case, Draw, Input, Model, Tower, placed
from colonnade.testing.fuzz.draw_keras import keras_case, keras_sharing
from colonnade.testing.fuzz.draw_ops import both_ways, made, ops_case, sharing, weighted
from colonnade.testing.fuzz.draw_sequences import sequence_case
from colonnade.testing.fuzz.encode import LISTS
from colonnade.testing.fuzz.feeds import PLAIN, strict
from colonnade.testing.fuzz.rests import LAST, STEPS
from colonnade.testing.fuzz.structures import STRUCTURES

MIN_CASES, MAX_CASES = 20, 50
STYLES = ("columns", "examples", "keras", "ops", "sequences", "steps")
_STYLES = (0.25, 0.13, 0.2, 0.3, 0.08, 0.04)
"""How many of the models are of each."""
POOLINGS = ("mean", "sum", "sqrtn")
SEPARATORS = (";", ",", "|")
MOST_CHOICES = 60
"""Of one value of each feature of a cross, in a row."""
WEIGHED = ("hash", "identity", "vocabulary")
"""Kinds of feature columns that may have weights."""
_DTYPES = ("float32", "float64", "int32", "int64", "string")
_DIMS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 31, 32, 40, 416)
_WIDTHS = (0, 1, 1, 1, 2, 3, 5, 9)
_LENGTHS = (1, 2, 3, 5, 9, 9, 130)
_FORMS = {
    "columns": ("dense",) * 4 + ("sparse",),
    "ops": ("dense",) * 6 + ("sparse", "sparse", "ragged", "open", "single", "nested"),
    "sequences": ("sparse",),
    "steps": ("sparse",),
}
"""Forms of inputs, by style."""
_BOUNDARIES = (0.0, -1.0, 1.0, 0.1, 0.1 + 1e-12, 1e-45, -1e-45, 1.2e-38, 3e38, -3e38, 10.0, 16777217.0, 0.5)
_WORDS = ("", "a", "yy", "x", "A", "é", "日本語", "w" * 64, "y" * 70, "a b", "-1", "0", "x\0", "abcdefgh", "abcdefgi")
_NUMBERS = (0, 1, 7, -3, -1, 100, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63), 12345678901)

Rng = np.random.Generator


def draw_model(seed: int, index: int) -> Model:
    """Model number `index` of a seed: 20 to 50 cases over about half as many inputs, in one to three towers."""
    rng = np.random.default_rng([seed, index])
    count = int(rng.integers(MIN_CASES, MAX_CASES + 1))
    style = str(rng.choice(STYLES, p=_STYLES))
    inputs = [_input(rng, style, i) for i in range(max(3, count // 2))]
    towers = _towers(rng)
    owners = [t for t in towers if t.of < 0]
    without_numbers = {t.of for t in towers if not t.plain}
    cases: list[Case] = []
    taken: set[tuple[object, ...]] = set()
    while len(cases) < count:
        item = inputs[int(rng.integers(len(inputs)))]
        tower = owners[int(rng.integers(len(owners)))]
        rounded = not tower.plain or tower.number in without_numbers
        long = rounded and item.form in LISTS and item.width > MOST_ADDED
        case = None if long else _case_of(rng, style, len(cases), tower, item, inputs)
        if case is not None and style == "ops" and rng.random() < 0.25:
            case = sharing(rng, case, cases)
        if case is not None and style == "keras" and rng.random() < 0.25:
            case = keras_sharing(rng, case, cases)
        if case is not None and (clashing(case, cases) or (style == "ops" and both_ways(case, cases))):
            case = None
        plain = case is not None and (case.kind == "numeric" or (case.form == "indicator" and bool(case.weights)))
        if case is not None and plain and case.tower in without_numbers:
            case = None  # its NaN and extremes would hide what else a dense rest is given
        names = set() if case is None or style in ("keras", "ops") else _names(case)
        if case is None or names & taken:
            inputs.append(_input(rng, style, len(inputs)))
            continue
        taken |= names
        cases.append(case)
        if case.weights:
            form, width = "weights" if item.form in LISTS else "dense", placed(item, case).width
            inputs.append(Input(case.weights, "float32", width, form=form))
    model = Model(seed, index, tuple(inputs), tuple(cases), towers, style)
    return model.only({c.number for c in cases})


def clashing(case: Case, cases: Sequence[Case]) -> bool:
    """Whether there is hardly a value of an input that neither of two cases refuses."""
    others = [c for c in cases if case.input in c.reads]
    if strict(case):
        return any(strict(c) or c.kind in PLAIN for c in others)
    return case.kind in PLAIN and any(map(strict, others))


def _case_of(rng: Rng, style: str, number: int, tower: Tower, item: Input, inputs: Sequence[Input]) -> Case | None:
    """A case of that input; None where the style has none."""
    if item.name[0] == "w":
        return None  # weights of another input
    if style == "keras":
        return keras_case(rng, number, tower, item, inputs, _ATTRIBUTES, _dim(rng, tower))
    if style == "ops":
        drawn = ops_case(rng, number, tower, item, inputs, _ATTRIBUTES, _dim(rng, tower))
        return made(rng, weighted(rng, drawn, item))
    if style in SEQUENCES:
        return sequence_case(rng, number, tower, item, inputs, _ATTRIBUTES, _dim(rng, tower))
    if style == "examples" and not _of_example(item):
        return None
    case = _case(rng, number, tower, item)
    if (item.form in LISTS or (style, item.dtype) == ("examples", "int64")) and case.kind in ("bucketized", "numeric"):
        return None  # numbers of a dense feature, of which TensorFlow makes no list
    if style == "examples":
        return _of_several(rng, weighted_column(rng, case), tower, [i for i in inputs if _of_example(i)], sharing=False)
    if item.separator or rng.random() < (0.5 if item.form in LISTS else 0.8):
        return _of_several(rng, case, tower, inputs)
    return weighted_column(rng, case)


def _of_example(item: Input) -> bool:
    """Whether it may be a feature of Examples."""
    return not item.separator and item.width > 0 and item.dtype in ("float32", "int64", "string")


def weighted_column(rng: Rng, case: Case) -> Case:
    """Now and then with weights."""
    if case.form not in ("embedding", "indicator") or case.kind not in WEIGHED or rng.random() < 0.5:
        return case
    return replace(case, weights=f"w{case.number}")


def _names(case: Case) -> set[tuple[object, ...]]:
    """TensorFlow derives a feature column's name from these, and refuses two of one name in a layer."""
    if case.kind == "crossed":
        return {(case.tower, "cross", frozenset(case.reads))}
    kind = case.kind if case.kind in ("bucketized", "numeric") else ""
    return {(case.tower, name, case.form, kind, bool(case.weights)) for name in case.reads}


def _input(rng: Rng, style: str, number: int) -> Input:
    dtype = str(rng.choice(_DTYPES))
    if dtype == "string" and rng.random() < (0.4 if style != "ops" else 0.2):
        return Input(f"i{number}", dtype, 0, str(rng.choice(SEPARATORS)))
    form = str(rng.choice(_FORMS.get(style, ("dense",))))
    if form in LISTS and not (style == "columns" and dtype.startswith("float")):
        return Input(f"i{number}", dtype, int(rng.choice(_LENGTHS)), form=form)
    if form == "open":
        return Input(f"i{number}", dtype, int(rng.choice(_LENGTHS[:-1])), form=form)
    width = int(rng.choice(_WIDTHS))
    return Input(
        f"i{number}", dtype, min(width, 1) if form == "single" else width, form="dense" if form in LISTS else form
    )


def _towers(rng: Rng) -> tuple[Tower, ...]:
    """One to three towers, and now and then one more over the columns of another."""
    towers = [_tower(rng, t) for t in range(int(rng.integers(1, 4)))]
    towers = [replace(t, parts=int(rng.choice((1,) * 10 + (2, 3)))) for t in towers]
    if rng.random() < 0.3:
        towers.append(replace(_tower(rng, len(towers)), of=int(rng.integers(len(towers)))))
    return tuple(towers)


def _tower(rng: Rng, number: int) -> Tower:
    each, straight = bool(rng.random() < 0.15), bool(rng.random() < 0.5)
    tower = Tower(number, straight=straight, each=each, dim=int(rng.choice(_DIMS[:-1])))
    if rng.random() < 0.5:
        tower = replace(tower, structure=str(rng.choice(list(STRUCTURES))))
    if rng.random() < 0.35:
        width, activation = int(rng.integers(1, 9)), str(rng.choice(("", "relu", "sigmoid", "tanh")))
        tower = replace(tower, width=width, activation=activation)
    if rng.random() < 0.4:
        steps = [str(s) for s in rng.choice(list(STEPS), int(rng.integers(1, 7)))]
        tower = replace(tower, rest=(*steps, *([str(rng.choice(list(LAST)))] if rng.random() < 0.2 else ())))
    return tower


def _dim(rng: Rng, tower: Tower) -> int:
    """An embedding_dim: mostly that of the tower, where its structure takes equal ones."""
    return tower.dim if tower.structure != "concat" and rng.random() < 0.8 else int(rng.choice(_DIMS))


def _case(rng: Rng, number: int, tower: Tower, item: Input) -> Case:
    kind = _kind(rng, item, tower)
    dtype = item.dtype
    if dtype.startswith("int"):
        dtype = str(rng.choice(("int32", "int64")))
    if kind in ("bucketized", "numeric"):
        dtype = item.dtype
    if kind == "numeric":
        return Case(number, tower.number, item.name, kind, "plain", dtype)
    attributes = _ATTRIBUTES[kind](rng, dtype)
    forms = ("embedding",) * 3 + ("indicator",) + (("plain",) if kind == "bucketized" else ())
    form = str(rng.choice(forms))
    if form == "embedding":
        attributes |= {"embedding_dim": _dim(rng, tower), "pooling": str(rng.choice(POOLINGS))}
        attributes |= {"max_norm": 0.5} if rng.random() < 0.05 else {}
    if kind == "vocabulary" and "" not in attributes["words"] and rng.random() < 0.2:
        attributes["file"] = True  # a line without a word is none
    return Case(number, tower.number, item.name, kind, form, dtype, **attributes)


def _of_several(rng: Rng, case: Case, tower: Tower, inputs: Sequence[Input], *, sharing: bool = True) -> Case:
    """Now and then a cross, or an embedding that another feature shares, instead of the case."""
    chance = rng.random()
    item = next(i for i in inputs if i.name == case.input)
    if chance < 0.15:
        found = [i for i in inputs if (not i.separator or i is item) and i.name[0] != "w"]
        found = [i for i in found if i.form not in LISTS or not i.dtype.startswith("float")]  # TensorFlow has no list
        some = [found[k] for k in rng.permutation(len(found))[: int(rng.integers(2, 4))]]
        if len(some) > 1 and math.prod(max(i.width, 1) for i in some) <= MOST_CHOICES:
            names, form = [i.name for i in some], str(rng.choice(("embedding", "indicator")))
            size = int(rng.choice((2, 10, 100, 1000)))
            made = Case(case.number, case.tower, names[0], "crossed", form, "int64", size, others=tuple(names[1:]))
            made = replace(made, default=int(rng.integers(1, 1 << 40)) if rng.random() < 0.5 else None)
            made = replace(made, **_bucketized(rng, "float32"))
            if rng.random() < 0.3:
                made = replace(made, words=_vocabulary(rng, "string")["words"])
            dim, pooling = _dim(rng, tower), str(rng.choice(POOLINGS))
            return replace(made, embedding_dim=dim, pooling=pooling) if form == "embedding" else made
    if sharing and chance > 0.9 and case.form == "embedding" and case.kind in ("hash", "identity", "vocabulary"):
        others = [i for i in inputs if i.dtype == item.dtype and i != item]
        if others:
            return replace(case, form="shared", others=(others[int(rng.integers(len(others)))].name,))
    return case


def _kind(rng: Rng, item: Input, tower: Tower) -> str:
    if item.dtype != "string" and tower.plain and rng.random() < 0.1:
        return "numeric"
    if item.dtype.startswith("float"):
        return "bucketized"
    if item.dtype == "string":
        return str(rng.choice(("hash", "vocabulary")))
    return str(rng.choice(("hash", "identity", "identity", "vocabulary", "bucketized")))


def _bucketized(rng: Rng, dtype: str) -> Attributes:
    count = int(rng.choice((1, 2, 3, 7, 20)))
    some = [float(x) for x in rng.choice(_BOUNDARIES, count)]
    some += [float(x) for x in rng.normal(0, 10, count).round(int(rng.integers(0, 6)))]
    return {"boundaries": tuple(sorted(set(rng.permutation(some)[:count].tolist())))}


def _hash(rng: Rng, dtype: str) -> Attributes:
    return {"size": int(rng.choice((1, 2, 3, 5, 17, 64, 100, 1000)))}


def _identity(rng: Rng, dtype: str) -> Attributes:
    size = int(rng.choice((1, 2, 3, 10, 64, 100, 1000)))
    default = int(rng.integers(size)) if rng.random() < 0.5 else None
    return {"size": size, "default": default}


def _vocabulary(rng: Rng, dtype: str) -> Attributes:
    if dtype == "string":
        words: list[str | int] = [*_WORDS, *(f"word {i}" for i in range(20))]
    else:
        info = np.iinfo(dtype)
        words = [n for n in (*_NUMBERS, *range(20, 40)) if info.min <= n <= info.max]
    order = rng.permutation(len(words))[: int(rng.choice((1, 2, 5, 16, 30)))]
    found: Attributes = {"words": tuple(words[i] for i in order)}
    choice = rng.random()
    if choice < 0.4:
        found["oov_buckets"] = int(rng.choice((1, 2, 7)))
    elif choice < 0.7:
        found["default"] = int(rng.integers(len(order)))
    return found


_ATTRIBUTES: dict[str, Draw] = {
    "bucketized": _bucketized,
    "hash": _hash,
    "identity": _identity,
    "vocabulary": _vocabulary,
}

KINDS = (*_ATTRIBUTES, "numeric", "crossed", "modulo", *draw_keras.KINDS, *draw_keras.OTHERS)
"""What a case may be of."""
