"""Which rows a table gives up; one policy a file."""

from __future__ import annotations

from colonnade.train.eviction.by_age import ByAge
from colonnade.train.eviction.eviction import Eviction
from colonnade.train.eviction.lfu import Lfu
from colonnade.train.eviction.lru import Lru

__all__ = ["ByAge", "Eviction", "Lfu", "Lru"]
