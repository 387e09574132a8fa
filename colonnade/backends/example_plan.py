"""What the loops over Examples need to know of the features of a key, as words and tables.

Legend: F features, T noted ones, K distinct keys: see the loops.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from colonnade.backends import example_loops as loops
from colonnade.core.batch import Layout
from colonnade.core.examples import DTYPES, Feature

Words = npt.NDArray[np.int64]
KINDS = ("dense", "padded", "ragged", "steps")
"""In the order of the loops' numbers for them."""
_FEW = 30
"""Floats up to which their list has lengths of one byte, and the loops' integer of four bytes is positive."""
RAGGED = ("ragged", "steps")
"""Of any number of values in an Example."""
Named = Sequence[tuple[Feature, str | None]]


class Plan:
    """The tables of one key's features.

    layout: what the fields of a block of dense numbers are to lie like, and dense strings.   apart: dense numbers that
    get a block each.
    Facts: nothing is written but the loops' guesses, which they verify.
    """

    features: tuple[Feature, ...]
    blocks: list[tuple[str, int, str | None]]
    """Of dense numbers: the dtype, elements a row, and the feature's input where it has a block of its own."""
    dense: dict[int, tuple[int, int]]
    """By feature: its block, and the elements a row before it there."""
    packed: tuple[str, ...]
    """The dtypes of the layout's blocks; they come first."""
    noted: list[int]
    """By feature: its number among noted ones, -1: none."""
    ragged: list[int]
    """By feature: its number among ragged ones that become inputs, -1: none."""
    words: dict[int, int]
    """Of every call."""
    located_fields: tuple[str, ...]
    """The layout's ragged fields."""
    located_offsets: tuple[str, ...]
    """The inputs that hold their offsets."""
    located_notes: Words
    """By offsets: the number of the noted feature that says them."""

    def __init__(self, features: Named, layout: Layout | None = None, apart: frozenset[str] = frozenset()) -> None:
        self.features = tuple(f for f, _ in features)
        self._kept: list[npt.NDArray[np.generic]] = []
        self._place(features, layout, apart)
        ordered = self._note(features, layout)
        self.num_noted = len(ordered)
        located = self._located(features, layout)
        self.num_located = len(located)
        self.num_ragged = sum(r >= 0 for r in self.ragged)
        keys = list(dict.fromkeys(f.key.encode() for f in self.features))
        self.scratch_words = len(self.features) + len(keys) + 1 + 2 * self.num_noted
        table = hashed(keys)
        self.words = {
            loops.KEYS: self._address(self._key_table(keys)),
            loops.FEATURES: self._address(self._feature_table()),
            loops.TABLE: self._address(table),
            loops.MASK: len(table) - 1,
            loops.NUM_KEYS: len(keys),
            loops.NUM_FEATURES: len(self.features),
            loops.NOTED: self._address(self._noted_table(ordered)),
            loops.NUM_NOTED: self.num_noted,
            loops.LOCATED: self._address(located),
            loops.NUM_LOCATED: self.num_located,
            loops.GUESSES: self._address(np.full(len(keys) + 1, -1, np.int64)),
        }

    def _address(self, array: npt.NDArray[np.generic]) -> int:
        """Where an array lies, which lives as long as the plan."""
        self._kept.append(array)
        return int(array.ctypes.data)

    def _place(self, features: Named, layout: Layout | None, apart: frozenset[str]) -> None:
        """Give each dense feature of numbers that becomes an input its place in a block."""
        numbers = [dtype for dtype in (layout.widths if layout is not None else ()) if dtype != "string"]
        self.blocks = [(dtype, layout.widths[dtype] if layout is not None else 0, None) for dtype in numbers]
        self.packed = tuple(numbers)
        self.dense = {}
        joint: dict[str, int] = {}
        for f, (feature, name) in enumerate(features):
            if name is None or feature.kind in RAGGED or feature.dtype == "string":
                continue
            if layout is not None and name in layout.places:
                self.dense[f] = numbers.index(feature.dtype), layout.places[name].start
            elif name in apart:
                self.dense[f] = len(self.blocks), 0
                self.blocks.append((feature.dtype, feature.size, name))
            else:
                block = joint.setdefault(feature.dtype, len(self.blocks))
                if block == len(self.blocks):
                    self.blocks.append((feature.dtype, 0, None))
                width = self.blocks[block][1]
                self.dense[f] = block, width
                self.blocks[block] = feature.dtype, width + feature.size, None

    def _note(self, features: Named, layout: Layout | None) -> list[int]:
        """The noted features, in the order of their values in memory: those of the layout's strings first."""
        places = layout.places if layout is not None else {}
        wanted = [f for f, (_, name) in enumerate(features) if name is not None]
        packed = [f for f in wanted if features[f][0].dtype == "string" and features[f][1] in places]
        packed.sort(key=lambda f: places[str(features[f][1])].start)
        ragged = [f for f in wanted if features[f][0].kind in RAGGED]
        apart = [f for f in wanted if f not in packed and f not in ragged and features[f][0].dtype == "string"]
        ordered = [*packed, *apart, *ragged]
        self.noted, self.ragged = [-1] * len(features), [-1] * len(features)
        for t, f in enumerate(ordered):
            self.noted[f] = t
        for r, f in enumerate(ragged):
            self.ragged[f] = r
        self._num_joined = len(packed)
        return ordered

    def _located(self, features: Named, layout: Layout | None) -> Words:
        """The addresses of the layout's offsets, then two for each of its ragged fields, in the order of its names."""
        numbers = {str(name): f for f, (_, name) in enumerate(features)}
        ragged = dict(layout.ragged) if layout is not None else {}
        first: dict[str, int] = {}
        for name, place in ragged.items():
            first.setdefault(place.offsets, numbers[name])
        self.located_fields, self.located_offsets = tuple(ragged), tuple(first)
        self.located_notes = np.array([self.noted[f] for f in first.values()], np.int64)
        rows = [(loops.OF_OFFSETS, self.ragged[f]) for f in first.values()]
        for name in ragged:
            rows += [(loops.OF_VALUES, self.noted[numbers[name]]), (loops.OF_DATA, 0)]
        return np.array(rows, np.int64).reshape(len(rows), 2)

    def _noted_table(self, ordered: Sequence[int]) -> Words:
        table = np.zeros((len(ordered), loops.NOTED_BYTES // 8), np.int64)
        for t, f in enumerate(ordered):
            table[t, loops.NOTED_FEATURE // 8] = f
            table[t, loops.NOTED_END // 8] = t + 1 >= self._num_joined
            table[t, loops.NOTED_RAGGED // 8] = self.ragged[f]
        return table

    def _key_table(self, keys: Sequence[bytes]) -> Words:
        """The keys, with the bytes that an entry of each has between its length and that of its value."""
        table = np.zeros((len(keys), loops.KEY_BYTES // 8), np.int64)
        entries = [b"\x0a" + _varint(len(key)) + key + b"\x12" for key in keys]
        padded = [entry + bytes(-len(entry) % 8) for entry in entries]
        ends = np.cumsum([0, *map(len, padded)])
        begin = self._address(np.frombuffer(b"".join(padded) + bytes(8), np.uint8))
        for k, (key, entry) in enumerate(zip(keys, entries, strict=True)):
            table[k, loops.KEY_ENTRY // 8] = begin + ends[k]
            table[k, loops.KEY_SIZE // 8] = len(entry)
            table[k, loops.KEY_NAME // 8] = begin + ends[k] + len(entry) - 1 - len(key)
            table[k, loops.KEY_LENGTH // 8] = len(key)
        numbers = {key: k for k, key in enumerate(keys)}
        table[:, loops.KEY_FIRST // 8] = -1
        for f in reversed(range(len(self.features))):
            table[numbers[self.features[f].key.encode()], loops.KEY_FIRST // 8] = f
        return table

    def _feature_table(self) -> Words:
        table = np.zeros((len(self.features), loops.FEATURE_BYTES // 8), np.int64)
        later: dict[str, int] = {}
        for f in reversed(range(len(self.features))):
            feature = self.features[f]
            table[f, loops.DTYPE // 8] = DTYPES.index(feature.dtype) + 1
            table[f, loops.KIND // 8] = KINDS.index(feature.kind)
            table[f, loops.SIZE // 8] = feature.size
            table[f, loops.FILL // 8] = self._fill(feature)
            if f in self.dense:
                block, start = self.dense[f]
                table[f, loops.PLACE // 8] = loops.PLACES + 8 * block
                table[f, loops.START // 8] = start
                if feature.dtype == "float32" and 0 < feature.size <= _FEW:
                    table[f, loops.USUAL // 8] = _usual(feature.size)
            table[f, loops.NOTE // 8] = self.noted[f]
            table[f, loops.FOLLOWING // 8] = later.get(feature.key, -1)
            later[feature.key] = f
        return table

    def _fill(self, feature: Feature) -> int:
        """The address of what fills a feature up; 0 where nothing does."""
        if feature.default is None or feature.size == 0 or feature.kind in RAGGED:
            return 0
        values = np.broadcast_to(feature.default.array.reshape(-1), (feature.size,))
        if feature.dtype != "string":
            return self._address(np.array(values, feature.dtype))
        texts = values.tolist()
        begin = self._address(np.frombuffer(b"".join(texts) + bytes(8), np.uint8))
        return self._address(np.cumsum([begin, 0, *map(len, texts)]) - np.array([0, *[begin] * (len(texts) + 1)]))


def _usual(size: int) -> int:
    """The bytes in front of a packed list of few floats, as an integer: tag and length of the list, and of its body."""
    return int.from_bytes(bytes([2 << 3 | 2, 4 * size + 2, 1 << 3 | 2, 4 * size]), "little")


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def hashed(keys: Sequence[bytes]) -> Words:
    """An open table of key numbers, -1: free, by the loops' hash."""
    size = 8
    while size < 2 * len(keys):
        size *= 2
    table = np.full(size, -1, np.int64)
    for number, key in enumerate(keys):
        place = _hash(key) % size
        while table[place] >= 0:
            place = (place + 1) % size
        table[place] = number
    return table


def _hash(key: bytes) -> int:
    found = loops.HASH_START ^ len(key)
    for at in range(0, len(key), 8):
        word = int.from_bytes(key[at : at + 8], "little")
        found = (found ^ word) * loops.HASH_FACTOR & 0xFFFFFFFFFFFFFFFF
        found ^= found >> 32
    return found
