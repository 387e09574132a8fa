from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks import table
from benchmarks.cases import CASES, DEFAULT
from colonnade import compiler
from colonnade.backends.reference import ReferenceBackend
from colonnade.errors import OptionError
from colonnade.testing import golden, html
from colonnade.testing.bench import (
    Bench,
    Measured,
    Refused,
    append,
    floor,
    report,
    table_rows,
    torch_threads,
)
from colonnade.testing.models.recipes import recipe
from colonnade.testing.points import columns_only
from colonnade.testing.requests import make_request
from colonnade.testing.timing import BLOCK, alternate, human_seconds
from colonnade.testing.verify import Verdict


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    with torch_threads(1):
        yield


@pytest.fixture(scope="module")
def bench() -> Bench:
    executable = compiler.compile(golden.load("tiny").model, "reference", threads=1)
    return Bench("tiny", executable, ReferenceBackend(), threads=1, checked={"ok": True, "oracle": "none"})


@pytest.fixture(scope="module")
def measured(bench: Bench) -> list[Measured]:
    found = list(bench.run((1, 3), 1))
    assert all(isinstance(m, Measured) for m in found)
    return [m for m in found if isinstance(m, Measured)]


def test_calls_alternate() -> None:
    order: list[str] = []
    calls = {name: (lambda name=name: order.append(name)) for name in "ab"}
    found = alternate(calls, BLOCK + 2)  # type: ignore[arg-type]
    assert found["a"].runs == found["b"].runs == BLOCK + 2 and found["a"].p20 <= found["a"].p50 <= found["a"].p80
    blocks = [name for name, _ in itertools.groupby(order)]
    assert "".join(blocks[-4:]) == "abab"


def test_a_row_a_batch_size_and_part(measured: list[Measured]) -> None:
    assert [(m.what, m.batch) for m in measured] == [("whole", 1), ("columns", 1), ("whole", 3), ("columns", 3)]
    whole, columns = measured[0], measured[1]
    assert set(whole.sides) == {"colonnade", "dense in torch alone"} and set(columns.sides) == {"colonnade"}
    assert all(m.parts.keys() == {"feed", "columns", "dense"} and m.parts["columns"] > 0 for m in measured)
    assert whole.ratio is None and whole.check["ok"]


def test_rows_are_appended_and_shown(measured: list[Measured], tmp_path: Path) -> None:
    append(tmp_path, measured[:2])
    path = append(tmp_path, measured[2:])
    assert path is not None
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows == [json.loads(json.dumps(m.row())) for m in measured]
    assert any(row[3] == "floor" for row in table_rows(measured))
    page = report("title & more", measured)
    assert page.count("<rect") >= 6 and "title &amp; more" in page and "<script" not in page


def test_the_columns_alone_are_the_columns(bench: Bench) -> None:
    request = make_request(bench.program, "corner", 6)
    whole = bench._side.answer(request)
    alone = bench.columns(request.feed)
    for buffer in columns_only(bench.program).buffers:
        slots = [s for c in bench.program.columns for s in c.slots if s.output == buffer.name]
        for slot in slots:
            part = slice(slot.offset, slot.offset + slot.width)
            np.testing.assert_array_equal(alone[buffer.name][:, part], whole[f"concat:{buffer.name}"][:, part])


def test_the_floor_counts_inputs_distinct_rows_and_output(bench: Bench) -> None:
    program, weights = bench.program, bench.weights
    empty = floor(program, weights, make_request(program, "ordinary", 0), 1)
    one = floor(program, weights, make_request(program, "ordinary", 1), 1)
    width = sum(b.width for b in program.buffers)
    assert empty["bytes"] == 0 and empty["seconds"] == 0
    assert one["bytes"] > 4 * width + sum(4 * c.slots[0].width for c in program.columns if c.name.startswith("num_"))
    assert one["seconds"] == one["bytes"] / one["bytes_per_second"]


def test_a_red_check_gives_no_number(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    red = Verdict("wrong", 1e-6, {})
    monkeypatch.setattr(Bench, "_check", lambda *_: red)
    found = list(bench.run((1, 2), 1))
    assert [(type(f), f.batch) for f in found] == [(Refused, 1), (Refused, 2)]
    assert "no number" in report("t", [], [f for f in found if isinstance(f, Refused)])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.0, "2 s"), (1.5e-3, "1.5 ms"), (2.34567e-5, "23.5 us"), (5e-9, "5 ns"), (0.0, "0 s"), (math.nan, "-")],
)
def test_seconds(seconds: float, text: str) -> None:
    assert human_seconds(seconds) == text


def test_html_is_escaped() -> None:
    assert "&lt;b&gt;" in html.table(("a",), [("<b>",)]) and "&lt;i&gt;" in html.page("<i>", [])
    assert "&lt;x&gt;" in html.bars([("<x>", [html.Bar("a", 0.0, 0.0, 0.0, "0")])])


# -- benchmarks/ -------------------------------------------------------------------------------------------------------


def test_every_case_is_of_a_test_model() -> None:
    assert set(DEFAULT) <= set(CASES) and any(c.quick for c in CASES.values())
    assert all(recipe(case.model).digest for case in CASES.values())


def test_the_measured_table_is_of_the_newest_rows(measured: list[Measured], tmp_path: Path) -> None:
    old = [{**m.row(), "date": "2000-01-01T00:00:00+00:00", "ratio": 99.0} for m in measured]
    new = [json.loads(json.dumps(m.row())) for m in measured]
    (tmp_path / "tiny.jsonl").write_text("\n".join(map(json.dumps, [*new, *old])) + "\n")
    rows = table.newest(tmp_path)
    assert [(r["what"], r["batch"], r["ratio"]) for r in rows] == [
        ("whole", 1, None), ("whole", 3, None), ("columns", 1, None), ("columns", 3, None)
    ]  # fmt: skip
    text = table.rendered(rows)
    assert text.count("\n| tiny |") == 4 and "| 99.0 |" not in text
    page = table.placed(f"head\n{table.BEGIN}\nold\n{table.END}\ntail\n", text)
    assert page.startswith("head\n") and page.endswith("tail\n") and "old" not in page
    assert table.placed(page, text) == page
    with pytest.raises(OptionError, match="no place"):
        table.placed("nothing", text)
