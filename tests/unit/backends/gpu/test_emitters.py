"""Device files can be joined to one module, and every column op has a place in the gpu backend."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

import pytest

from colonnade import ops
from colonnade.backends.gpu import ops as emitters
from colonnade.backends.gpu.emit import EMITTERS
from colonnade.backends.gpu.source import DEVICE, fragment, module_text

WHOLE_ROWS = "works on whole rows: a program has none, the transform of features runs it"
ELSEWHERE = {
    "split": "kinds/lanes.py loops over the tokens",
    **dict.fromkeys(("combine", "cross", "keep", "truncate", "weigh"), WHOLE_ROWS),
}
"""Column ops without an emitter, each with the reason."""
FILES = sorted(p.stem for p in DEVICE.glob("*.py") if p.stem not in ("__init__", "jit"))


def defined(name: str) -> Iterator[ast.stmt]:
    """Functions and constants of a device file."""
    yield from ast.parse(fragment(name).text).body


def names_of(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [t.id for t in targets if isinstance(t, ast.Name)]


def test_every_column_op_has_an_emitter_or_a_reason() -> None:
    known = ops.load()
    without = {name for name, op in known.items() if op not in EMITTERS}
    assert without == ELSEWHERE.keys()
    assert sorted(emitters.__all__) == sorted({op.name for op in EMITTERS})


def test_names_are_unique_over_all_device_files() -> None:
    counts = Counter(name for file in FILES for statement in defined(file) for name in names_of(statement))
    assert [name for name, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("name", FILES)
def test_a_device_file_is_functions_and_constants(name: str) -> None:
    for statement in defined(name):
        assert names_of(statement), ast.unparse(statement)
        if isinstance(statement, ast.FunctionDef):
            assert [ast.unparse(d) for d in statement.decorator_list] == ["jit"], statement.name
            assert ast.get_docstring(statement) or statement.name.startswith("_"), statement.name


def test_all_device_files_make_one_module() -> None:
    text = module_text(FILES, "")
    tree = ast.parse(text)
    assert all(
        f"def {name}(" in text for file in FILES for s in defined(file) for name in names_of(s) if name.islower()
    )
    assert not [node for node in tree.body if isinstance(node, ast.ImportFrom)]
