"""How a named test model is made: of columns (`named`), or of Keras layers (`keras<N>`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from colonnade.testing.models.build import build
from colonnade.testing.models.catalog import named
from colonnade.testing.models.keras_build import build_keras
from colonnade.testing.models.keras_spec import keras_model


@dataclass(frozen=True)
class Recipe:
    """digest: what tells its model from others.   build(path) writes the SavedModel and gives its folder."""

    digest: str
    build: Callable[[Path], Path]


def recipe(name: str) -> Recipe:
    """The recipe of a name. Errors: OptionError for a name that there is not."""
    if found := re.fullmatch(r"keras([1-9]\d*)", name):
        spec = keras_model(int(found[1]))
        return Recipe(spec.digest, partial(build_keras, spec))
    columns = named(name)
    return Recipe(columns.digest, partial(build, columns))
