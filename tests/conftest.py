"""What holds for every test: quiet TensorFlow, Hypothesis profiles, what is deselected, and no skips."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Before anything imports TensorFlow: it logs its build options at import, and chooses its kernels.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # which on some CPUs answer otherwise, see colonnade/testing/deviations.py

ROOT = Path(__file__).resolve().parent.parent
SHARED_DATA = ROOT.parent / "shared" / "data"

# No deadlines: numba compiles within the first example, and CI machines are slow. CI draws the same examples each run;
# elsewhere they differ, and Hypothesis prints the seed (`--hypothesis-seed`) of a failure.
settings.register_profile("dev", deadline=None, max_examples=50, print_blob=True)
settings.register_profile("ci", deadline=None, max_examples=50, print_blob=True, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(NoSkips(), "no-skips")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects, and counts as deselected, what this machine lacks the data or the device for."""
    lacking = set()
    if not SHARED_DATA.is_dir():
        lacking.add("shared")
    if any(item.get_closest_marker("gpu") for item in items) and not _has_gpu():
        lacking.add("gpu")
    dropped = [item for item in items if any(item.get_closest_marker(name) for name in lacking)]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in set(dropped)]


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


class NoSkips:
    """Fails a run in which a test was skipped, unless the test needs a GPU: a skip hides what is not tested."""

    def __init__(self) -> None:
        self.skips: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        expected_failure = hasattr(report, "wasxfail")  # pytest reports one as skipped
        if report.skipped and not expected_failure and "gpu" not in report.keywords:
            self.skips.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.skips.append(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.skips and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.skips:
            terminalreporter.section("skipped tests fail the run", red=True)
            for nodeid in self.skips:
                terminalreporter.write_line(nodeid)
