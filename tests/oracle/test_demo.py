"""`make demo`, with a smaller model."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import demo


def test_the_demo_ends_with_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"MODEL": "micro10", "FOLDER": tmp_path, "BATCHES": (1, 2), "RUNS": 1}.items():
        monkeypatch.setattr(demo, name, value)
    assert demo.main() == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(part in page for part in ("Compilation", "Verified against tensorflow", "micro10"))
