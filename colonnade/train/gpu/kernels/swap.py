"""Compare-and-swap of some lanes.   Legend: N lanes."""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit

SWAP = tl.constexpr(
    "{ .reg .pred p; setp.ne.s32 p, $4, 0; mov.b64 $0, $2; @p atom.global.relaxed.gpu.cas.b64 $0, [$1], $2, $3; }"
)
"""Triton's own has no mask: each lane that does without is a request to memory more."""


@jit
def swap_if(slots, at, spare, expected, new, live, SPARE: tl.constexpr, MASKED: tl.constexpr):
    """int64 [N]: what slots held; live ones that held what was expected hold the new words now. Relaxed.

    spare: int64 [SPARE], zeros, of which lanes that are not live ask one in vain.   MASKED: they ask nothing.
    """
    if MASKED:
        given = [(slots + at).to(tl.int64), expected, new, live.to(tl.int32)]
        return tl.inline_asm_elementwise(SWAP, "=&l,l,l,l,r", given, dtype=tl.int64, is_pure=False, pack=1)
    else:
        to = tl.where(live, slots + at, spare + (at & (SPARE - 1)))
        return tl.atomic_cas(to, tl.where(live, expected, -1), new, sem="relaxed")
