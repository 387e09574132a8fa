"""The outputs of a tower: its columns, what its structure makes of them, a dense layer, a rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from colonnade.testing.fuzz.cases import Model, Tower, seed_of
from colonnade.testing.fuzz.rests import applied
from colonnade.testing.fuzz.structures import joined

Weight = Callable[..., Any]
"""From a name and `initializer=` to a tensor."""


def tower_outputs(
    tf: Any, model: Model, tower: Tower, vectors: Sequence[Any], layer: Any, weight: Weight
) -> dict[str, Any]:
    """The outputs by name. layer: the vectors side by side, where that is a tensor already."""
    n, plain = tower.number, tower.structure == "concat" and layer is not None
    made = layer if plain else joined(tf, tower.structure, vectors, tower.dim)
    found = {f"column_{n}_{k}": v for k, v in enumerate(vectors)} if tower.each else {}
    if tower.straight or not (tower.width or tower.rest):
        found[f"layer_{n}"] = made
    if not (tower.width or tower.rest):
        return found
    if tower.width:
        made = _dense(tf, model, tower, made, weight)
    return {**found, f"dense_{n}": applied(tf, made, tower.rest, seed_of(model, f"rest {n}"))}


def _dense(tf: Any, model: Model, tower: Tower, x: Any, weight: Weight) -> Any:
    shape = (int(x.shape[1]), tower.width)
    rng = np.random.default_rng(seed_of(model, f"kernel {tower.number}"))
    kernel = weight(f"kernel_{tower.number}", initializer=rng.uniform(-0.3, 0.3, shape).astype(np.float32))
    bias = weight(f"bias_{tower.number}", initializer=rng.uniform(-0.3, 0.3, shape[1:]).astype(np.float32))
    found = tf.nn.bias_add(tf.matmul(x, kernel), bias)
    return getattr(tf.nn, tower.activation)(found) if tower.activation else found
