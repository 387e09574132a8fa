"""Looked-up rows that are not pooled: of each batch row as many as it has elements.

Legend: B batch rows; N elements; D embedding_dim; L length of a padded row.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from colonnade.errors import FeedError


@dataclass(frozen=True, eq=False)
class RaggedRows:
    """A row for each element, or list. values: float32 [N, D].   offsets: int64, one level or two, outer first."""

    values: torch.Tensor
    offsets: tuple[torch.Tensor, ...]

    def padded(self, length: int, name: str = "") -> torch.Tensor:
        """`[B, L, D]`; shorter rows end in zeros. name: of the feature, in messages.

        Errors: FeedError where a row is longer.
        """
        ends, dim = self.offsets[0], self.values.shape[1]
        lengths = ends.diff()
        batch = len(lengths)
        if bool((lengths > length).any()):
            row = int((lengths > length).nonzero()[0])
            raise FeedError(
                "a sequence is longer than what it is padded to",
                where=f"feature {name!r}",
                got=f"row {row} of {int(lengths[row])} elements",
                want=f"{length} at most",
                help=f"truncate({length}) says which of them are kept",
            )
        if len(self.values) == batch * length:
            return self.values.view(batch, length, dim)
        rows = torch.arange(batch, device=ends.device).repeat_interleave(lengths)
        places = torch.arange(len(self.values), device=ends.device) - ends[rows] + rows * length
        zeros = self.values.new_zeros(batch * length, dim)
        return zeros.index_copy(0, places, self.values).view(batch, length, dim)
