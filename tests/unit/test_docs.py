"""The documents against the code: the README's Python runs; files, verbs, passes and decisions that are named exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from colonnade.cli.app import VERBS
from colonnade.compiler import TARGETS, lower
from colonnade.ir.text import print_program
from colonnade.passes.pipelines import COLUMNS
from colonnade.testing import golden

ROOT = Path(__file__).resolve().parents[2]
README, TOUR, CONTRIBUTING = "README.md", "docs/tour.md", "CONTRIBUTING.md"
DECISIONS = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs" / "decisions").glob("*.md"))
PAGES = [README, TOUR, CONTRIBUTING, "docs/README.md", *DECISIONS]

# A file or folder in backticks: `passes/base.py`, `tests/oracle/`.
NAMED = re.compile(r"`([\w./-]+(?:\.py|\.md|\.toml|\.txt|/))`")
# `name` right behind a file: "`passes/base.py`, `run`".
DEFINED = re.compile(r"`([\w/]+\.py)`(?:,| and| or)? `(\w+)")
# Made by the user or by the program; files of the examples of CONTRIBUTING.
ABSENT = {
    *("build/demo", "tables/", "compiled/", "golden/", "program.txt"),
    *("colonnade/ops/clip.py", "colonnade/backends/cpu/tiles/clip.py", "colonnade/passes/fuse_casts.py"),
    *("fuse_casts.py", "hash_bytes.py", "NNNN-title.md"),
    *("colonnade/backends/gpu/ops/clip.py", "colonnade/backends/gpu/device/clip.py"),
    *("colonnade/backends/gpu/kinds/sorted.py",),
}


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def found(name: str) -> Path | None:
    """The file of that name; names in the tour may be short where the sentence before gave the folder."""
    for base in ("", "colonnade", "colonnade/frontends/tensorflow"):
        if (ROOT / base / name).exists():
            return ROOT / base / name
    return None


def rows(page: str, column: str) -> list[list[str]]:
    """The cells of the table whose first header is `column`."""
    lines = iter(read(page).splitlines())
    for line in lines:
        if line.startswith(f"| {column} |"):
            break
    next(lines)
    made = []
    for line in lines:
        if not line.startswith("|"):
            break
        made.append([cell.strip() for cell in line.strip("|").split("|")])
    return made


def test_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    block, *_ = re.findall(r"```python\n(.*?)```", read(README), re.DOTALL)
    stored = golden.load("micro10", tmp_path / "stored")
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "micro10").symlink_to(stored.model.resolve())
    monkeypatch.chdir(tmp_path)
    exec(compile(block, README, "exec"), {})
    said = capsys.readouterr().out
    assert said.startswith("(2, 80)\n10 columns of 10 inputs on cpu, ")


def test_the_readmes_features_run_and_are_trained(capsys: pytest.CaptureFixture[str]) -> None:
    _, features, training = re.findall(r"```python\n(.*?)```", read(README), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(features, README, "exec"), names)
    said = capsys.readouterr().out
    assert re.fullmatch(r"tensor\(\[\d+, \d+\]\) tensor\(\[\[31\.\],\n +\[ 0\.\]\]\)\n", said), said
    exec(compile(training, README, "exec"), names)
    said = capsys.readouterr().out
    assert re.search(r"^city +2 +16 float32 +Adagrad", said, re.MULTILINE), said


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_is_named_exists(page: str) -> None:
    names = {name for name in NAMED.findall(read(page)) if name not in ABSENT}
    assert not sorted(name for name in names if found(name) is None)


@pytest.mark.parametrize("page", PAGES)
def test_what_is_named_behind_a_file_is_in_it(page: str) -> None:
    missing = []
    for name, word in DEFINED.findall(read(page)):
        path = found(name)
        if path is not None and path.suffix == ".py" and word not in path.read_text(encoding="utf-8"):
            missing.append(f"{name}: {word}")
    assert not missing


def test_the_tour_names_functions_that_exist() -> None:
    """Every word in backticks that looks like a function or a class is one somewhere."""
    code = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "colonnade").rglob("*.py"))
    prose = re.sub(r"```.*?```", "", read(TOUR), flags=re.DOTALL)
    words = set(re.findall(r"`(_?[A-Za-z]\w*(?:\.\w+)?)`", prose))
    called = {w for w in words if w.startswith("_") or w[0].isupper()}
    unknown = {
        w for w in called if not re.search(rf"\b(?:def|class)\s+{w.split('.')[-1]}\b|^{w}\b", code, re.MULTILINE)
    }
    assert unknown <= {"M", "StringSplitV2"}


def test_the_lines_of_the_tours_program_are_still_written_so(tmp_path: Path) -> None:
    program, *_ = lower(golden.load("tiny", tmp_path / "tiny").model)
    text = print_program(program)
    shown = set(re.findall(r"\b(?:aten|colonnade)\.\w+(?:\.\w+)?\(%", read(TOUR)))
    shown |= {"hash_bytes[function=farm](", 'where not_equal[value=b""](%str_0)', "pool mean proven -> columns["}
    assert len(shown) > 5 and not {line for line in shown if line not in text}


def test_the_verbs_are_those_of_the_command_line() -> None:
    named = [re.search(r"`colonnade (\w+)", row[0]) for row in rows(README, "verb")]
    assert [m.group(1) for m in named if m] == [verb.__name__ for verb in VERBS]


def test_the_passes_are_those_of_the_pipeline() -> None:
    assert [row[0].strip("`") for row in rows(TOUR, "pass")] == [p.name for p in COLUMNS]


def test_the_targets_are_those_that_the_readme_names() -> None:
    assert set(TARGETS) == {"cpu", "gpu", "reference"}


@pytest.mark.parametrize("name", ["measured", "measured on a gpu"])
def test_the_readme_has_a_place_for_the_measured_table(name: str) -> None:
    assert re.search(rf"^<!-- {name}: begin -->$.*^<!-- {name}: end -->$", read(README), re.MULTILINE | re.DOTALL)


def test_every_decision_is_listed_and_has_the_parts_of_the_template() -> None:
    listed = re.findall(r"\]\((decisions/\d+-[\w-]+\.md)\)", read("docs/README.md"))
    numbered = [f"decisions/{Path(page).name}" for page in DECISIONS]
    assert sorted(set(listed)) == numbered
    parts = ["## Question", "## Measured", "## Choices", "## Decision"]
    for page in DECISIONS:
        assert [line for line in read(page).splitlines() if line.startswith("## ")] == parts, page
        assert re.match(rf"# ({Path(page).name[:4]}|NNNN): ", read(page)), page
