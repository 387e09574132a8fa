"""How rows are updated: once a step for each id, by the sum of its gradients. One optimizer a file.

An optimizer changes the rows that a step looked up and no others, so that momentum and decay of other rows stand still;
and none of a table whose outputs no backward pass came to, as torch leaves a parameter without a gradient alone.
"""

from __future__ import annotations

from colonnade.train.optimizers.adagrad import Adagrad
from colonnade.train.optimizers.adam import Adam
from colonnade.train.optimizers.adam_w import AdamW
from colonnade.train.optimizers.ftrl import Ftrl
from colonnade.train.optimizers.optimizer import Optimizer, State
from colonnade.train.optimizers.row_wise_adagrad import RowWiseAdagrad
from colonnade.train.optimizers.schedules import Cosine, Exponential, Schedule, WarmUp
from colonnade.train.optimizers.sgd import Sgd

__all__ = [
    "Adagrad",
    "Adam",
    "AdamW",
    "Cosine",
    "Exponential",
    "Ftrl",
    "Optimizer",
    "RowWiseAdagrad",
    "Schedule",
    "Sgd",
    "State",
    "WarmUp",
]
