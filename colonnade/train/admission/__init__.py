"""Which ids get a row; one policy a file."""

from __future__ import annotations

from colonnade.train.admission.admission import Admission, Admitter
from colonnade.train.admission.by_count import ByCount
from colonnade.train.admission.by_probability import ByProbability
from colonnade.train.admission.read_only import ReadOnly

__all__ = ["Admission", "Admitter", "ByCount", "ByProbability", "ReadOnly"]
