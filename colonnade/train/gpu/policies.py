"""What policies of admission and of eviction have in common on a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from colonnade.errors import OptionError, listed
from colonnade.train.table_config import TableConfig

MOST = 2**63 - 1


def clipped(number: int) -> int:
    """A setting as int64; no step and no count is as large as what does not fit."""
    return min(number, MOST)


def refuse_unknown(
    what: str, configs: Sequence[TableConfig], policies: Sequence[Sequence[object]], known: Mapping[Any, Any]
) -> None:
    """Errors: OptionError that lists all policies of tables that are of no known class."""
    lines = [
        f"table {config.name!r}: {policy}"
        for config, own in zip(configs, policies, strict=True)
        for policy in own
        if type(policy) not in known
    ]
    if lines:
        raise OptionError(
            f"policies of {what} that a device does not know",
            got=listed(lines),
            want=listed([f"one of {policy.__name__}" for policy in known]),
            help="keep these tables on the CPU: device='cpu'",
        )
