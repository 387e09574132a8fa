"""Compiled code on disk: compiled once by many processes, carried in a folder, compiled anew where it is damaged."""

from __future__ import annotations

import copy
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import llvmlite
import numba
import pytest
from numba.core.codegen import CPUCodegen

from colonnade.backends.code_cache import CodeCache, locked
from colonnade.backends.cpu import cache
from colonnade.backends.tape.tape import TAPES

NOTICE = "compiling the cpu engine"
ANSWER = """
import sys
import time
import numpy as np
from pathlib import Path
from colonnade.backends.cpu import cache, columns
if sys.argv[1] == "import":
    assert cache.ENGINE.import_code(Path(sys.argv[2]))
if sys.argv[1] == "slow":
    # A compile that takes a second, and gives what was compiled before.
    made = cache.ENGINE.load(Path(sys.argv[2]))
    cache.ENGINE.build = lambda: time.sleep(1) or made
    cache.ENGINE.warm()
    print("right")
    sys.exit()
from tests.unit.backends.cpu.columns import Maker, check
maker = Maker(3)
for _ in range(12):
    maker.column()
columns.PARALLEL_NANOSECONDS = 0  # with helpers: they must not keep the process from ending
check(maker.case(70), threads=2)
print("right")
"""


def answer(env: Mapping[str, str], *operands: str) -> subprocess.Popen[str]:
    root = Path(__file__).parents[4]
    return subprocess.Popen(
        [sys.executable, "-c", ANSWER, *operands],
        cwd=root,
        env={**os.environ, **env, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> str:
    """What it logged; it must have answered rightly."""
    out, err = process.communicate()
    assert process.returncode == 0 and out == "right\n", err
    return err


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("artifact")
    cache.ENGINE.export_code(folder)
    return folder


def test_a_clean_machine_answers_from_an_artifact(exported: Path, tmp_path: Path) -> None:
    log = finished(answer({"COLONNADE_CACHE_DIR": str(tmp_path)}, "import", str(exported)))
    assert NOTICE not in log
    assert not (tmp_path / "cpu").exists()


def test_portable_code_alone_answers(exported: Path, tmp_path: Path) -> None:
    name = cache.ENGINE.portable_file()
    if name is None:  # not an x86-64-v3 CPU: nothing portable is exported
        assert len(list(exported.iterdir())) == 1
        return
    carried = tmp_path / "carried"
    carried.mkdir()
    shutil.copyfile(exported / name, carried / name)
    log = finished(answer({"COLONNADE_CACHE_DIR": str(tmp_path / "cache")}, "import", str(carried)))
    assert NOTICE not in log


def test_many_processes_share_one_compile(exported: Path, tmp_path: Path) -> None:
    # The folder holds a damaged file: it is compiled anew, once.
    folder = tmp_path / "cpu"
    folder.mkdir()
    (folder / cache.ENGINE.host_file()).write_bytes(b"half a file")
    made = str(exported / cache.ENGINE.host_file())
    processes = [answer({"COLONNADE_CACHE_DIR": str(tmp_path)}, "slow", made) for _ in range(3)]
    logs = [finished(p) for p in processes]
    assert sum(NOTICE in log for log in logs) == 1
    assert cache.ENGINE.load(folder / cache.ENGINE.host_file()) is not None
    assert not list(folder.glob("*.part"))


def test_neither_the_kernel_nor_the_build_of_python_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    names = cache.ENGINE.host_file(), cache.ENGINE.portable_file()
    monkeypatch.setattr(sys, "version", "3.11.9 (main, Jan  1 2030, 00:00:00) [Clang 21.0.0]")
    monkeypatch.setattr(platform, "platform", lambda *_, **__: "Linux-9.9.9-x86_64-with-glibc2.99")
    monkeypatch.setattr(platform, "release", lambda: "9.9.9")
    assert (cache.ENGINE.host_file(), cache.ENGINE.portable_file()) == names


@pytest.mark.parametrize(
    "what",
    [
        (numba, "__version__", "9.9.9"),
        (llvmlite, "__version__", "9.9.9"),
        (sysconfig, "get_config_var", lambda name: {"SOABI": "cpython-399-x86_64-linux-gnu"}[name]),
        (platform, "system", lambda: "Darwin"),
        (platform, "machine", lambda: "aarch64"),
        (CPUCodegen, "magic_tuple", lambda self: ("x86_64-unknown-linux-gnu", "skylake", "+avx2")),
    ],
    ids=lambda what: f"{what[0].__name__}.{what[1]}",
)
def test_what_the_code_depends_on_is_in_its_name(what: tuple[Any, str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    name = cache.ENGINE.host_file()
    monkeypatch.setattr(*what)
    assert cache.ENGINE.host_file() != name


@pytest.fixture
def collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CodeCache[None]:
    """A cache of nothing, on a machine that runs portable code."""
    made: CodeCache[None] = CodeCache("nothing", "nothing", lambda: (), lambda: {}, lambda _: None)
    monkeypatch.setattr(made, "folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(made, "portable_file", lambda: "portable.colonnade-nothing")
    return made


@pytest.mark.parametrize("how", ["it says why", "it says nothing", "it cannot be run"])
def test_an_artifact_goes_without_portable_code_that_cannot_be_compiled(
    collection: CodeCache[None],
    how: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    program = tmp_path / "python"
    if how != "it cannot be run":
        program.write_text("#!/bin/sh\n" + ("echo no memory >&2\n" if how == "it says why" else "") + "exit 3\n")
        program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    assert [p.name for p in collection.export_code(tmp_path / "artifact")] == [collection.host_file()]
    assert [p.name for p in (tmp_path / "artifact").iterdir()] == [collection.host_file()]
    said = {"it says why": "no memory", "it says nothing": "it ended with 3", "it cannot be run": "No such file"}[how]
    assert "the artifact carries code for this kind of CPU alone" in caplog.text and said in caplog.text


def test_many_saves_share_one_portable_compile(
    collection: CodeCache[None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = collection.build().content
    compiled = []

    def compile_slowly() -> bytes:
        compiled.append(1)
        time.sleep(0.3)
        return content

    monkeypatch.setattr(collection, "_compiled_portably", compile_slowly)
    kept = tmp_path / "cache" / "portable.colonnade-nothing"
    kept.parent.mkdir()
    kept.write_bytes(b"half a file")
    folders = [tmp_path / str(k) for k in range(4)]
    with ThreadPoolExecutor(len(folders)) as pool:
        exported = list(pool.map(collection.export_code, folders))
    assert len(compiled) == 1
    assert kept.read_bytes() == content and {paths[1].read_bytes() for paths in exported} == {content}


def test_a_name_is_of_what_was_imported(tmp_path: Path) -> None:
    source = tmp_path / "loops.py"
    names = []
    for text in ("x = 1", "x = 2"):
        source.write_text(text)
        made: CodeCache[None] = CodeCache("nothing", "nothing", lambda: [source], lambda: {}, lambda _: None)
        names.append(made.host_file())
        source.write_text("x = 3")
        assert made.host_file() == names[-1]
    assert names[0] != names[1]


def test_portable_code_is_of_what_was_imported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Another process compiles it, from what the files then hold."""
    stale = copy.copy(TAPES)
    stale.sources_digest = "of other files"
    assert stale._compiled_portably() is None
    assert "its sources have changed since they were imported" in caplog.text


def test_a_damaged_file_is_none(exported: Path, tmp_path: Path) -> None:
    whole = (exported / cache.ENGINE.host_file()).read_bytes()
    damaged = tmp_path / cache.ENGINE.host_file()
    for content in (b"", whole[:-1], whole[:40], whole[:100] + b"x" + whole[101:]):
        damaged.write_bytes(content)
        assert cache.ENGINE.load(damaged) is None


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with locked(blocked / "cpu" / "x") as writable:
        assert not writable
