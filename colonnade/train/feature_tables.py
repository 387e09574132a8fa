"""From what features say of tables to what a table is trained with."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from colonnade.frontends.feature import TableSpec
from colonnade.frontends.feature_set import FeatureSet
from colonnade.ops.op import snake
from colonnade.train import initializers, optimizers
from colonnade.train.initializers import Initializer, Uniform
from colonnade.train.optimizers import Adagrad, Optimizer
from colonnade.train.table_config import TableConfig


def _named(module: Any, base: type) -> dict[str, type]:
    """The classes of a package that need no settings, by name."""
    found: list[Any] = [getattr(module, name) for name in module.__all__]
    made = [c for c in found if isinstance(c, type) and issubclass(c, base) and c is not base]
    return {snake(c.__name__): c for c in made if all(f.default is not dataclasses.MISSING for f in _fields(c))}


def _fields(kind: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(kind)


OPTIMIZERS, INITIALIZERS = _named(optimizers, Optimizer), _named(initializers, Initializer)


@dataclass(frozen=True)
class Usual:
    """What tables have that do not say otherwise."""

    optimizer: Optimizer
    initializer: Initializer

    @staticmethod
    def of(optimizer: Optimizer | None, initializer: Initializer | None) -> Usual:
        """With Adagrad and uniform values where nothing is said."""
        return Usual(optimizer or Adagrad(), initializer or Uniform())


def configs(
    features: FeatureSet, given: Mapping[str, TableConfig], usual: Usual
) -> tuple[dict[str, TableConfig], list[str]]:
    """A configuration for each table that features look up, and what is wrong.

    given: whole configurations, in the place of what the features say but dim and dtype, which have to agree.
    """
    if not isinstance(given, Mapping):
        return {}, [f"tables {type(given).__name__}, want a dict of table name to TableConfig"]
    strange = [f"table {name!r}: {c!r}, want a TableConfig" for name, c in given.items() if type(c) is not TableConfig]
    if strange:
        return {}, strange
    made: dict[str, TableConfig] = {}
    wrong = [f"table {name!r}: no feature looks it up" for name in given if name not in _names(features)]
    for spec in features.tables:
        faults = list(_faults(spec, given.get(spec.name)))
        wrong += [f"table {spec.name!r}: {fault}" for fault in faults]
        if not faults:
            made[spec.name] = given.get(spec.name) or TableConfig(
                spec.name,
                spec.embedding_dim,
                spec.dtype,
                _chosen(spec.initializer, INITIALIZERS, usual.initializer),
                _chosen(spec.optimizer, OPTIMIZERS, usual.optimizer),
            )
    return made, wrong


def _names(features: FeatureSet) -> set[str]:
    return {spec.name for spec in features.tables}


def _faults(spec: TableSpec, given: TableConfig | None) -> Iterator[str]:
    if given is None:
        for what, value, base, known in (
            ("initializer", spec.initializer, Initializer, INITIALIZERS),
            ("optimizer", spec.optimizer, Optimizer, OPTIMIZERS),
        ):
            if not (value is None or isinstance(value, base) or (isinstance(value, str) and value in known)):
                yield f"{what} {value!r}, want one of {', '.join(known)}, as a name or with its settings"
        return
    for what in ("name", "embedding_dim", "dtype"):
        ours, theirs = getattr(spec, what), getattr(given, what)
        if ours != theirs:
            yield f"its features say {what} {ours!r}, its configuration {theirs!r}"
    for what in ("initializer", "optimizer"):
        if getattr(spec, what) is not None:
            yield f"features and a configuration both say its {what}"


def _chosen(said: Any, known: Mapping[str, type], usual: Any) -> Any:
    if isinstance(said, str):
        return known[said]()
    return usual if said is None else said
