"""What threads that pool together share: a call of `backends/jobs.py`, whose items they claim one by one.

Units: offsets are bytes; words are int64.
"""

from __future__ import annotations

NEXT = 0  # the item that nobody has claimed
ITEMS = 8  # how many
FIRST_FEATURE = 16  # address of the features
FEATURES = 24  # how many
BATCH = 32
ITEM_ROWS = 40  # batch rows of an item, a multiple of TILE
TAKEN = 48  # address of TAKEN_BYTES for each part
TAKEN_BYTES = 56
# At WORK of jobs.py (144) lies the address of what each thread runs.
CALL_BYTES = 152
