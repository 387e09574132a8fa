"""`python -m colonnade.testing.kinds`: the page of the table."""

from __future__ import annotations

from colonnade.testing.kinds.table import page

if __name__ == "__main__":
    print(page(), end="")
