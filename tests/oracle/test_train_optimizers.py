"""FTRL, which torch has not, against Keras's."""

from __future__ import annotations

import numpy as np
import torch

from colonnade.core.ragged import Ragged
from colonnade.testing.tensorflow import tensorflow
from colonnade.train.engine import EmbeddingEngine, EmbeddingFeature
from colonnade.train.initializers import Normal
from colonnade.train.optimizers import Ftrl
from colonnade.train.table_config import TableConfig


def test_ftrl_is_kerass() -> None:
    tensorflow()  # Triton first
    import keras

    table = TableConfig("t", 3, initializer=Normal(0, 1), optimizer=Ftrl(0.1, 0.2, 0.05, 0.1, 0.3))
    engine = EmbeddingEngine([EmbeddingFeature("f", table)])
    ids = {"f": Ragged.of(torch.arange(2), torch.arange(3))}
    variable = keras.Variable(engine(ids)["f"].detach().numpy())
    engine.zero_grad()
    theirs = keras.optimizers.Ftrl(0.1, -0.5, 0.2, 0.05, 0.1, 0.0, 0.3)
    for number in range(4):
        grads = torch.randn(2, 3, generator=torch.Generator().manual_seed(number))
        engine(ids)["f"].backward(grads)
        engine.step()
        theirs.apply([keras.ops.convert_to_tensor(grads.numpy())], [variable])
    ours = engine.table("t").read(torch.arange(2))[0]
    np.testing.assert_allclose(ours, variable.value.numpy(), rtol=1e-4, atol=1e-6)
