"""Rules of the whole tree that no linter checks."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "colonnade"
MODULES = sorted(PACKAGE.rglob("*.py"))
GENERATED = {".hypothesis", ".git", ".venv", "build", "dist", "__pycache__"}

# A path at the root of one machine, and options that name a package registry.
MACHINE_PATH = re.compile(r"(?<![\w./~-])/(work|tmp|root|home|Users|opt)/\w|--(extra-)?index-url")
MARKDOWN_LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def _named(path: Path, lines: Iterator[int]) -> list[str]:
    return [f"{path.relative_to(ROOT)}:{line}" for line in lines]


def _modules_with(rule: Callable[[ast.AST], Iterator[int]], *exempt: str) -> list[str]:
    """The `file:line` of every place in the package where the rule finds something."""
    checked = [path for path in MODULES if path.relative_to(PACKAGE).as_posix() not in exempt]
    return [place for path in checked for place in _named(path, rule(ast.parse(path.read_text("utf-8"))))]


def _environment_reads(tree: ast.AST) -> Iterator[int]:
    names = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in names:
            yield node.lineno
        if isinstance(node, ast.ImportFrom) and node.module == "os" and names & {alias.name for alias in node.names}:
            yield node.lineno


def _broad_excepts(tree: ast.AST) -> Iterator[int]:
    broad = {"Exception", "BaseException"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            if any(kind is None or (isinstance(kind, ast.Name) and kind.id in broad) for kind in kinds):
                yield node.lineno


def _stubs(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "NotImplementedError":
            yield node.lineno


def _default_dtypes(tree: ast.AST) -> Iterator[int]:
    makers = {"empty", "zeros", "ones", "full", "tensor", "scalar_tensor", "rand", "randn", "eye", "linspace"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in makers:
            of_torch = isinstance(node.func.value, ast.Name) and node.func.value.id == "torch"
            if of_torch and not any(keyword.arg == "dtype" for keyword in node.keywords):
                yield node.lineno


def _missing_docstring(tree: ast.AST) -> Iterator[int]:
    if isinstance(tree, ast.Module) and tree.body and ast.get_docstring(tree) is None:
        yield 1


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("import os\nos.environ['X']", _environment_reads),
        ("import os as o\no.getenv('X')", _environment_reads),
        ("from os import environ", _environment_reads),
        ("try: f()\nexcept: pass", _broad_excepts),
        ("try: f()\nexcept Exception: pass", _broad_excepts),
        ("try: f()\nexcept (ValueError, BaseException): pass", _broad_excepts),
        ("def f(): raise NotImplementedError", _stubs),
        ("def f(): raise NotImplementedError('later')", _stubs),
        ("torch.empty(3)", _default_dtypes),
        ("torch.zeros(3, device=device)", _default_dtypes),
        ("x = 1", _missing_docstring),
    ],
)
def test_the_rules_find_what_they_forbid(source: str, rule: Callable[[ast.AST], Iterator[int]]) -> None:
    assert list(rule(ast.parse(source)))


def test_only_config_reads_the_environment() -> None:
    assert not _modules_with(_environment_reads, "config.py")


def test_no_except_is_broad() -> None:
    assert not _modules_with(_broad_excepts)


def test_no_tensor_is_of_the_default_dtype() -> None:
    """The process may have set another, and loops write by address."""
    places = _modules_with(_default_dtypes)
    assert not [place for place in places if not place.startswith("colonnade/testing/")]


def test_nothing_is_a_stub() -> None:
    assert not _modules_with(_stubs)


def test_every_module_with_code_says_what_it_is() -> None:
    assert not _modules_with(_missing_docstring)


def _text_files() -> Iterator[tuple[Path, str]]:
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        hidden = any(part in GENERATED or part.endswith((".egg-info", "_cache")) for part in parts)
        if hidden or not path.is_file() or path.stat().st_size > 1_000_000:
            continue
        data = path.read_bytes()
        if b"\0" not in data:
            yield path, data.decode("utf-8", errors="replace")


def test_no_file_names_a_path_of_one_machine_or_a_registry() -> None:
    assert MACHINE_PATH.search("open('/" + "tmp/x')") and not MACHINE_PATH.search("a/" + "tmp/x")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path, text in _text_files()
        for number, line in enumerate(text.splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert not found


def test_every_relative_link_in_the_documents_leads_somewhere() -> None:
    broken = [
        f"{path.relative_to(ROOT)}: {target}"
        for path, text in _text_files()
        if path.suffix == ".md"
        for target in MARKDOWN_LINK.findall(text)
        if "://" not in target and not (path.parent / target).exists()
    ]
    assert not broken


def test_importing_every_module_needs_no_tensorflow() -> None:
    program = (
        "import importlib, pkgutil, sys, colonnade\n"
        "names = [m.name for m in pkgutil.walk_packages(colonnade.__path__, 'colonnade.')]\n"
        "for name in names:\n"
        "    if not name.endswith('__main__'):\n"
        "        importlib.import_module(name)\n"
        "sys.exit('imports TensorFlow' if {'tensorflow', 'keras'} & set(sys.modules) else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _plain_locks(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("threading.Lock", "threading.RLock"):
            yield node.lineno


def test_locks_are_free_in_a_forked_child() -> None:
    # The pool forgets its own lock with its threads; no child of fork uses the parent's device.
    own = ("core/fork.py", "backends/pool.py", "backends/gpu/graphs.py")
    assert _modules_with(_plain_locks, *own) == [], "use colonnade.core.fork.Lock"
