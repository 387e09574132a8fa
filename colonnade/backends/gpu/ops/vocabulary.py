"""`vocabulary` on the gpu."""

from __future__ import annotations

import numpy as np

from colonnade.backends.gpu.emit import Code, Emitted, Number, Text, emits, number
from colonnade.backends.gpu.ops.mod import emit as emit_mod
from colonnade.backends.gpu.ops.mod import floor_mod
from colonnade.core.word_map import word_map
from colonnade.ops.mod import Mod
from colonnade.ops.op import ElementFacts
from colonnade.ops.vocabulary import Vocabulary


@emits(Vocabulary)
def emit(op: Vocabulary, code: Code, x: Emitted) -> Number:
    """A search from the key's home on; buckets of unknown keys are computed beforehand, for all."""
    made = word_map(op.keys.array, op.values.array)
    slots = code.constant(made.slots.view(np.uint64))
    mask = code.parameter(made.mask)
    if isinstance(x, Text):
        hashed = code.call("fingerprint64", x.data, x.start, x.length, "live", file="fingerprint")
        otherwise = _unknown(op, code, hashed, f"{x.start} * 0")
        keys = code.constant(made.text)
        arguments = (x.data, x.start, x.length, hashed, slots, mask, keys, otherwise, "live")
        return number(code, op, [x], code.call("find_text", *arguments, file="vocabulary"))
    assert isinstance(x, Number)
    hashed = ""
    if op.num_oov and op.function == "farm":
        hashed = code.call("fingerprint64_decimal", x.name, "live", file="decimal")
    by_value = op.num_oov > 0 and op.function == "floor_mod"
    otherwise = _remainder(op, code, x) if by_value else _unknown(op, code, hashed, f"{x.name} * 0")
    shift = code.parameter(made.shift)
    return number(
        code, op, [x], code.call("find_int", x.name, slots, mask, shift, otherwise, "live", file="vocabulary")
    )


def _remainder(op: Vocabulary, code: Code, x: Number) -> str:
    """`default + floor_mod(x, num_oov)`."""
    rest = floor_mod(op.num_oov, code, x)
    return code.let(f"{rest.name} + {code.parameter(op.default)}")


def _unknown(op: Vocabulary, code: Code, hashed: str, zeros: str) -> str:
    """What stands for unknown keys in each lane."""
    default = code.parameter(op.default)
    if not op.num_oov:
        return code.let(f"{zeros} + {default}")
    word = Number(code.let(f"{hashed}.to(tl.int64, bitcast=True)"), ElementFacts("int64"))
    return code.let(f"{emit_mod(Mod(op.num_oov), code, word).name} + {default}")
