"""A skip fails the run, and what the machine lacks is deselected: each shown on a small tree of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"
CONFIG = "[pytest]\naddopts = -p no:cacheprovider --strict-markers\nmarkers =\n    shared: x\n    gpu: x\n"


def _run(folder: Path, body: str, *options: str) -> tuple[int, str]:
    """The exit status and output of pytest on one test file under the project's conftest."""
    tests = folder / "repository" / "tests"
    tests.mkdir(parents=True)
    shutil.copy(CONFTEST, tests)
    (tests.parent / "pytest.ini").write_text(CONFIG)
    (tests / "test_it.py").write_text(f"import pytest\n\n{body}\n\ndef test_passes(): pass\n")
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, cwd=tests.parent, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


SKIPS = """
def test_by_call(): pytest.skip('why')

@pytest.mark.skip
def test_by_mark(): pass

@pytest.fixture
def absent(): pytest.skip('why')

def test_by_fixture(absent): pass

@pytest.mark.xfail(strict=True)
def test_expected_failure(): assert False
"""

DESELECTED = """
@pytest.mark.shared
def test_shared(): pass

@pytest.mark.gpu
def test_gpu(): pytest.skip('an older device')

@pytest.mark.xfail(strict=True)
def test_expected_failure(): assert False
"""


def test_every_kind_of_skip_fails_a_run_of_several_processes(tmp_path: Path) -> None:
    status, output = _run(tmp_path, SKIPS, "-n", "2")
    assert status == pytest.ExitCode.TESTS_FAILED
    listed = output.partition("skipped tests fail the run")[2].split()
    assert {f"tests/test_it.py::test_by_{kind}" for kind in ("call", "mark", "fixture")} <= set(listed)
    assert "tests/test_it.py::test_expected_failure" not in listed


def test_a_skipped_module_fails_a_run_of_one_process(tmp_path: Path) -> None:
    status, output = _run(tmp_path, "pytest.importorskip('no_such_module')")
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "skipped tests fail the run" in output


def test_what_needs_data_or_a_gpu_is_deselected_where_there_is_none(tmp_path: Path) -> None:
    status, output = _run(tmp_path, DESELECTED)
    assert status == pytest.ExitCode.OK, output
    # With a GPU its test runs, and may skip.
    assert "1 passed, 2 deselected, 1 xfailed" in output or "1 passed, 1 skipped, 1 deselected, 1 xfailed" in output


def test_shared_tests_run_beside_the_data(tmp_path: Path) -> None:
    (tmp_path / "shared" / "data").mkdir(parents=True)
    status, output = _run(tmp_path, "@pytest.mark.shared\ndef test_shared(): pass")
    assert status == pytest.ExitCode.OK and "2 passed" in output
