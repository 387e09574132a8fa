"""Several processes on one machine: they compile once, share what is compiled, and copy no table."""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from colonnade import compiler
from colonnade.backends.cpu import cache
from colonnade.executable import Executable
from colonnade.testing.models import ModelSpec, build
from colonnade.testing.models.catalog import Counts, family_columns
from tests.unit import processes, small_models
from tests.unit.small_models import SIGNATURE, Models, a_feed

LARGE_ROWS = 1 << 21
TABLE_BYTES = LARGE_ROWS * 32 * 4
ALLOWED_BYTES = 150 << 20


class Pool:
    """Runs functions in fresh processes, forked from one that has only imported the modules."""

    def __init__(self) -> None:
        self.context = mp.get_context("forkserver")
        self.context.set_forkserver_preload(["colonnade.compiler"])

    def map(self, function: Callable[..., Any], *arguments: tuple[Any, ...]) -> list[Any]:
        """One process for each tuple of arguments, all at once."""
        with ProcessPoolExecutor(len(arguments), self.context, max_tasks_per_child=1) as executor:
            return [f.result() for f in [executor.submit(function, *each) for each in arguments]]


@pytest.fixture(scope="module")
def pool() -> Pool:
    return Pool()


@pytest.fixture(scope="module")
def models() -> Iterator[Models]:
    yield from small_models.models()


@pytest.fixture(scope="module")
def executable(models: Models) -> Executable:
    return compiler.compile(models.old, "cpu", SIGNATURE)


@pytest.fixture(scope="module")
def expected(executable: Executable) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in executable(a_feed(9)).items()}


@pytest.fixture(scope="module")
def artifact(executable: Executable) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        executable.save(Path(folder) / "artifact")
        yield Path(folder) / "artifact"


def test_processes_with_empty_caches_run_the_code_that_the_artifact_carries(
    pool: Pool, artifact: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    tasks = [(artifact, tmp_path / f"cache{k}", check) for k, check in enumerate(("fast", "full"))]
    assert pool.map(processes.load_and_answer, *tasks) == [expected] * 2


def test_processes_that_start_at_once_compile_once(
    pool: Pool, models: Models, artifact: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    made = artifact / "compiled" / cache.ENGINE.host_file()
    task = (models.old, tmp_path / "cache", made, tmp_path / "log")
    assert pool.map(processes.compile_and_answer, *[task] * 3) == [expected] * 3
    assert (tmp_path / "log").read_text() == "compiled\n"
    assert [p.name for p in (tmp_path / "cache" / "cpu").glob("*.colonnade-cpu")] == [cache.ENGINE.host_file()]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    columns = family_columns(Counts(0, 0, 0, 0, 1), LARGE_ROWS)
    return build(ModelSpec("large", columns), tmp_path_factory.mktemp("large") / "model")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    columns = family_columns(Counts(0, 0, 0, 0, 1), 64)
    return build(ModelSpec("small", columns), tmp_path_factory.mktemp("small") / "model")


def test_no_large_table_is_copied_to_memory(pool: Pool, large: Path, small: Path, tmp_path: Path) -> None:
    assert TABLE_BYTES > ALLOWED_BYTES * 3 // 2
    (of_large,) = pool.map(processes.memory_used, (large, tmp_path / "large"))
    (of_small,) = pool.map(processes.memory_used, (small, tmp_path / "small"))
    assert of_small > 0 and of_large - of_small < ALLOWED_BYTES


def test_a_forked_child_answers_whatever_the_parent_was_doing(artifact: Path) -> None:
    with ProcessPoolExecutor(1, mp.get_context("spawn")) as executor:
        threads, endings, noted = executor.submit(processes.answers_of_children, artifact).result()
    assert (threads, endings, noted) == (2, [0] * 8, False)
