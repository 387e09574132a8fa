"""`--gpu-table-budget`: sizes, what it is refused for, and where tables then lie."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import colonnade
from colonnade.backends.gpu import backend
from colonnade.backends.gpu.placement import place
from colonnade.cli.app import app
from colonnade.cli.common import num_bytes
from colonnade.errors import OptionError
from colonnade.testing import golden
from colonnade.testing.models.feeds import spec_feed

MODEL = "micro10"
OPTION = "--gpu-table-budget"


def data(*words: object, exit_code: int = 0) -> Any:
    result = CliRunner().invoke(app, [*map(str, words), "--json"], catch_exceptions=False)
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def model() -> Path:
    return golden.load(MODEL).model


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "GpuBackend", partial(backend.GpuBackend, interpret=True))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0", 0),
        ("4096", 4096),
        ("7B", 7),
        ("4GiB", 4 << 30),
        ("512 MiB", 512 << 20),
        ("1kib", 1024),
        ("1.5GB", 1_500_000_000),
        ("0.5TiB", 1 << 39),
        (" 3 kB ", 3000),
        (None, None),
    ],
)
def test_sizes(text: str | None, want: int | None) -> None:
    assert num_bytes(text) == want


@pytest.mark.parametrize("text", ["", "GiB", "-1", "4 gigs", "1e9", "4GiB more", "0x10", "1,000", ".5GB", "٣"])
def test_what_is_no_size(text: str, model: Path) -> None:
    with pytest.raises(OptionError, match="a size that is none"):
        num_bytes(text)
    error = data("compile", model, "--no-save", "--target", "gpu", f"{OPTION}={text}", exit_code=2)["error"]
    assert error["got"] == repr(text) and "512MiB" in error["want"]


@pytest.mark.parametrize("verb", [("compile", "--no-save"), ("verify",), ("bench",), ("explain",), ("run",)])
def test_other_targets_have_no_budget(verb: tuple[str, ...], model: Path, tmp_path: Path) -> None:
    name, *options = verb
    feed = [tmp_path / "feed.npz"] if name == "run" else []
    error = data(name, model, *feed, *options, OPTION, "1GiB", exit_code=2)["error"]
    assert error["message"] == "only the target 'gpu' has a budget for tables"


def test_nothing_is_compiled_with_like(model: Path, tmp_path: Path) -> None:
    words = ("compile", model, "--like", tmp_path, "-o", tmp_path / "b", OPTION, "1GiB")
    assert "--like" in data(*words, exit_code=2)["error"]["message"]


def test_explain_says_where_tables_lie(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = sum(t.bytes for t in colonnade.compile(model, "reference").program.tables)
    every = data("explain", model, "--target", "gpu", OPTION, sizes)["gpu"]
    assert every["tables"]["host_bytes"] == 0
    half = data("explain", model, "--target", "gpu", OPTION, sizes // 2)["gpu"]
    assert half["tables"]["device_bytes"] <= sizes // 2 < sizes // 2 + half["tables"]["host_bytes"]
    none = data("explain", model, "--target", "gpu", OPTION, "0B")["gpu"]
    assert none["tables"]["device_bytes"] == 0
    assert none["layouts"] and none["tables"]["host_tables_are"] == "read over the bus by the kernel"
    monkeypatch.setenv("COLONNADE_THREADS", "8")
    pooled = data("explain", model, "--target", "gpu", OPTION, "0B")["gpu"]
    assert pooled["layouts"] == [] and pooled["tables"]["host_tables_are"] == "pooled by the host"
    shown = CliRunner().invoke(app, ["explain", str(model), "--target", "gpu", OPTION, "0B"]).stdout
    assert "pooled by the host" in shown


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("threads", [1, 4])
def test_compile_load_and_swap_keep_to_the_budget(threads: int, model: Path, tmp_path: Path) -> None:
    """One thread would pool slower than the bus brings rows; four pool."""
    plain = colonnade.compile(model, "reference")
    budget = sum(t.bytes for t in plain.program.tables) // 2
    feed = spec_feed(golden.load(MODEL).spec, 5, np.random.default_rng(0))
    want, host = plain(feed), place(plain.program, budget).host
    assert host
    compiled = colonnade.compile(model, "gpu", gpu_table_budget=budget, threads=threads)
    plain.save(tmp_path / "a")
    loaded = colonnade.load(tmp_path / "a", "gpu", gpu_table_budget=budget, threads=threads)
    loaded.swap(tmp_path / "a")
    for found in (compiled, loaded):
        got = found(feed)
        for name, value in want.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5)
        assert {t.name for t in found.report().tables if t.place == "host"} == host
        assert ("host columns" in found.report().seconds) == (threads == 4)
    assert {t.place for t in plain.report().tables} == {"host"}


def test_a_budget_below_nothing_is_refused_first(model: Path) -> None:
    with pytest.raises(OptionError, match="below nothing"):
        colonnade.compile(model, "gpu", gpu_table_budget=-1)
