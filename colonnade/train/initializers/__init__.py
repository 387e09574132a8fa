"""What the values of new rows are drawn from; one initializer a file."""

from __future__ import annotations

from colonnade.train.initializers.constant import Constant
from colonnade.train.initializers.initializer import Draw, Initializer
from colonnade.train.initializers.kaiming import Kaiming
from colonnade.train.initializers.normal import Normal
from colonnade.train.initializers.truncated_normal import TruncatedNormal
from colonnade.train.initializers.uniform import Uniform
from colonnade.train.initializers.xavier import Xavier

__all__ = ["Constant", "Draw", "Initializer", "Kaiming", "Normal", "TruncatedNormal", "Uniform", "Xavier"]
