"""Where what the launches of a transform read and write lies. Units: words of 8 bytes, unless it says bytes.

Of each batch a *table* is made on the host: its first words, then `VALUE_WORDS` a value, then `OUTPUT_WORDS` an output.
The words of a field are addresses; those of a node are bytes from the begin of `work`, which is used again by every
batch, or of `out`, which holds the results. The *header*, which goes to the device, has what of it each unit needs in
the unit's descriptor; two words for each integer feature, which `put_begins` reads; then for each launch a word a
program, which holds the number of a structure, the place of a descriptor and the number of a tile.

`out` begins with two words a node, its elements and its lists as they are counted; then where the ids of each feature
begin, and where the last end; then a word a program that checks offsets, 0 where they are good.
"""

from __future__ import annotations

ROWS, IDS, FLAGS = range(3)
"""ROWS: of the batch.   IDS: the first byte of all ids in `out`.   FLAGS: the first word of those that checks write."""
FIRST_VALUE = 8

DATA, COUNT, INNER, BAGS, OUTER, WEIGHTS, TEXT, MARKS, TILES, SHIFTS, STARTS = range(11)
"""COUNT, BAGS: of a node, at most.   INNER: BAGS + 1 offsets.   OUTER: ROWS + 1 offsets that count lists.
TEXT: bytes of a field of strings, lengths of a node's.   MARKS: of a node whose elements are counted, an int32 for each
element of its operand: twice how many come before it in the tile, and whether any come of it.   TILES: an int32 a tile:
how many come of it, then how many before it.   SHIFTS: what is added to a place to get the place it comes from, or goes
to: an int32 a row or list, for each operand.   STARTS: the offsets as int32, of a node whose rows are sought.
"""
VALUE_WORDS = 12
IN_OUT = (INNER, OUTER)
"""Words of a node that are bytes of `out`; others are of `work`."""

BEGIN, FACTORS = range(2)
"""Bytes of `out` where the elements, and the weights, of an output begin."""
OUTPUT_WORDS = 2

ARRIVALS = 16
"""Bytes at the begin of `work`; there, and in an int32 a node behind it, programs are counted: zeros between calls."""

KIND_BITS, PLACE_BITS = 10, 26
"""Bits of a program's word: of its structure and of its descriptor's place; the tile follows."""
