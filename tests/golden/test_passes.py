"""What every pass makes of one column of each kind, as text: `python -m tests.golden.test_passes` writes it anew.

The graph is a stored TensorFlow model cut down to one output of three columns: one bucketized, one hashed whose values
may be missing, one of split strings.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from colonnade.frontends.tensorflow.importer import import_saved_model
from colonnade.ir.graph import Graph, op_of
from colonnade.ir.graph_text import print_graph
from colonnade.ops.graph.concat import Concat
from colonnade.passes.base import run
from colonnade.passes.pipelines import COLUMNS
from colonnade.testing import golden

FOLDER = Path(__file__).resolve().parents[1] / "data" / "passes"
KEPT = ("num_0", "str_0", "split_0")


def small() -> Graph:
    """The concat of three columns of the stored model."""
    graph = import_saved_model(golden.load("tiny").model).graph
    concat = next(n for n in graph.nodes() if isinstance(n.target, Concat) and len(n.args) > 20)
    *operands, axis = concat.args
    chosen = [x for x in operands if any(f"/{name}_" in x.meta["source"] for name in KEPT)]
    assert len(chosen) == len(KEPT)
    concat.args = (*chosen, axis)
    graph.set_outputs({"columns": concat})
    for key in set(graph.inputs) - set(KEPT):
        del graph.inputs[key]
    graph.prune()
    return graph


def texts() -> dict[str, str]:
    """File name -> the graph after that pass."""
    graph = small()
    found: dict[str, str] = {}

    def observe(name: str, after: Graph) -> None:
        found[f"{len(found):02d}-{name}.txt"] = print_graph(after)

    run((), graph)
    found["00-import.txt"] = print_graph(graph)
    run(COLUMNS, graph, observe=observe)
    return found


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return texts()


def test_the_files_are_those_of_the_pipeline(made: dict[str, str]) -> None:
    assert sorted(made) == sorted(p.name for p in FOLDER.glob("*.txt"))


@pytest.mark.parametrize("name", [p.name for p in sorted(FOLDER.glob("*.txt"))])
def test_every_pass_makes_the_stored_text(made: dict[str, str], name: str) -> None:
    assert made[name] == (FOLDER / name).read_text()


def test_nothing_but_columns_and_their_concat_is_left() -> None:
    graph = small()
    run(COLUMNS, graph)
    left = {op.name for n in graph.nodes() if (op := op_of(n)) is not None}
    assert left == {"placeholder", "variable", "constant", "column_value", "concat"}


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.txt"):
        old.unlink()
    for file, text in texts().items():
        (FOLDER / file).write_text(text)
