"""Models E and F: a thousand and more columns in front of a deep network; end to end, and their columns alone.

`E` and `F` are the published sizes (five and three tables of 2^23 rows: 5.4 and 3.3 GB), `..._full_cols` have all
columns with large tables of 2^17 rows, `...10` a tenth of the columns.
"""

from __future__ import annotations

from benchmarks.case import Case

CASES = (
    Case("E10", "E10", quick=True),
    Case("E10_varied", "E10_varied"),
    Case("F10", "F10"),
    Case("E_full_cols", "E_full_cols", (1, 32, 256, 2048)),
    Case("F_full_cols", "F_full_cols", (1, 32, 256, 2048)),
    Case("E", "E", (1, 256)),
    Case("F", "F", (1, 256)),
)
