"""The artifact: it comes back, damage is found, an interrupt loses nothing, and tables are never copied whole."""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from safetensors.numpy import load_file

from colonnade import artifact
from colonnade.artifact import (
    CONSTS,
    DENSE,
    GOLDEN,
    MANIFEST,
    PROGRAM,
    Golden,
    load,
    manifest_text,
    read_manifest,
    refresh,
    same_source,
    save,
    verify_files,
    writing,
)
from colonnade.artifact.exchange import exchanged
from colonnade.artifact.manifest import content_hash
from colonnade.core import dims
from colonnade.core.consts import Const
from colonnade.core.expr import Apply, Field
from colonnade.core.identity import identity, is_identity
from colonnade.errors import ArtifactError
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Instruction, Output, Program, Ref, Weights
from colonnade.ir.table import Table
from colonnade.ops.bucketize import Bucketize

B = dims.symbol("B")
BOUNDS = Const(np.arange(200, dtype=np.float32))
WORDS = Const(np.array([b"", b"a\0b", "\u00e9".encode()] * 40, dtype=object))
PARAMS = (("bias", "float32", ()), ("dense/w:0", "bfloat16", (8, 3)), ("none", "int64", (0, 4)))


def sample(rows: int = 201) -> Program:
    x = Field("x")
    return Program(
        inputs=(Input("x", "float32", (B,), tensor="x:0"),),
        tables=(Table("emb/city: \u00e9 table", rows, 8), Table("empty", 0, 4), Table("half/../x", 3, 2, "float16")),
        columns=(
            Column("x", Apply(Bucketize(BOUNDS), x), "emb/city: \u00e9 table", slots=(Slot("b", 0, 8),), source="s"),
        ),
        buffers=(Buffer("b", B, 8),),
        dense=(Instruction("h", "f", (Ref("b"), Ref("dense/w:0"), Ref("bias"), WORDS)),),
        outputs=(Output("y", Ref("h"), "float32", (B, 3)),),
        params=PARAMS,
    )


def weights(seed: int = 0) -> Weights:
    rng = np.random.default_rng(seed)
    raw = np.zeros(201 * 8 * 4 + 1, np.uint8)
    unaligned = raw[1:].view(np.float32).reshape(201, 8)
    unaligned[:] = rng.normal(size=(201, 8))
    strided = np.arange(12, dtype=np.float16).reshape(3, 4)[:, ::2]
    return Weights(
        tables={"emb/city: \u00e9 table": unaligned, "empty": np.zeros((0, 4), np.float32), "half/../x": strided},
        params={
            "bias": torch.tensor(0.5),
            "dense/w:0": torch.arange(24).reshape(3, 8).T.to(torch.bfloat16),
            "none": torch.zeros(0, 4, dtype=torch.int64),
        },
        consts={},
    )


def golden() -> Golden:
    words = np.array([[b"a", b""], [b"\xff", b"bc"]], dtype=object)
    return Golden({"x": np.ones(3, np.float32), "s": words}, {"y": np.zeros((3, 3), np.float32)})


@pytest.fixture
def compiled(tmp_path: Path) -> dict[str, Path]:
    source = tmp_path / "cache"
    source.mkdir()
    (source / "engine.so").write_bytes(os.urandom(5000))
    (source / "index").write_bytes(b"")
    return {"engine.so": source / "engine.so", "v1/index": source / "index"}


@pytest.fixture
def saved(tmp_path: Path, compiled: dict[str, Path]) -> Path:
    target = tmp_path / "model"
    save(target, sample(), weights(), compiled=compiled, golden=golden(), source="abc")
    return target


def assert_holds(found: Weights, wanted: Weights) -> None:
    assert found.tables.keys() == wanted.tables.keys()
    for name, table in wanted.tables.items():
        assert found.tables[name].dtype == table.dtype
        np.testing.assert_array_equal(found.tables[name], table)
    assert found.params.keys() == wanted.params.keys()
    for name, param in wanted.params.items():
        assert found.params[name].dtype == param.dtype
        assert torch.equal(found.params[name], param)


def alone(path: Path) -> bool:
    """Whether nothing temporary stands beside it."""
    return not [p for p in path.parent.iterdir() if p.name.startswith(f".{path.name}.")]


# Coming back


def test_an_artifact_comes_back(saved: Path, compiled: dict[str, Path]) -> None:
    loaded = load(saved, check="full")
    assert loaded.program == sample()
    assert loaded.program.columns[0].source == "s"
    assert_holds(loaded.weights, weights())
    assert loaded.weights.consts == {BOUNDS.digest: BOUNDS, WORDS.digest: WORDS}
    assert loaded.compiled_dir is not None
    for name, path in compiled.items():
        assert (loaded.compiled_dir / name).read_bytes() == path.read_bytes()
    assert loaded.golden is not None
    for got, want in ((loaded.golden.inputs, golden().inputs), (loaded.golden.outputs, golden().outputs)):
        assert got.keys() == want.keys()
        for name in want:
            np.testing.assert_array_equal(got[name], want[name])
    assert loaded.manifest.format == artifact.FORMAT
    assert alone(saved)


def test_the_least_artifact_comes_back(tmp_path: Path) -> None:
    empty = Program((), (), (), (), (), ())
    save(tmp_path / "deep" / "model", empty, Weights({}, {}, {}))
    loaded = load(tmp_path / "deep" / "model", check="full")
    assert loaded.program == empty
    assert (loaded.compiled_dir, loaded.golden) == (None, None)


def test_tables_are_mapped_at_pages_and_can_be_written_without_reaching_the_file(saved: Path) -> None:
    for name, table in load(saved).weights.tables.items():
        assert table.size == 0 or table.ctypes.data % 4096 == 0, name
        torch.from_numpy(table).fill_(7)
    assert_holds(load(saved, check="full").weights, weights())


def test_the_safetensors_library_reads_every_file(saved: Path) -> None:
    table = sample().tables[0].name
    files = sorted((saved / "tables").iterdir())
    assert [f.name for f in files] == [
        "0000-emb_city_table.safetensors",
        "0001-empty.safetensors",
        "0002-half_.._x.safetensors",
    ]
    np.testing.assert_array_equal(load_file(files[0])[table], weights().tables[table])
    assert load_file(files[1])["empty"].shape == (0, 4)
    assert BOUNDS.digest in load_file(saved / CONSTS)


def test_the_same_content_gives_the_same_bytes(saved: Path, compiled: dict[str, Path], tmp_path: Path) -> None:
    again = tmp_path / "again"
    save(again, sample(), weights(), compiled=compiled, golden=golden(), source="abc")
    for path in (p for p in saved.rglob("*") if p.is_file()):
        assert (again / path.relative_to(saved)).read_bytes() == path.read_bytes()


def test_a_constant_that_only_the_weights_hold_is_kept(tmp_path: Path) -> None:
    extra = Const(np.arange(100))
    save(tmp_path / "m", Program((), (), (), (), (), ()), Weights({}, {}, {extra.digest: extra}))
    assert load(tmp_path / "m").weights.consts == {extra.digest: extra}


def test_many_tables_load_without_an_open_file_each(tmp_path: Path) -> None:
    tables = tuple(Table(f"t{k}", 2, 2) for k in range(300))
    held = {t.name: np.full((2, 2), k, np.float32) for k, t in enumerate(tables)}
    save(tmp_path / "m", Program((), tables, (), (), (), ()), Weights(held, {}, {}))
    before = psutil.Process().num_fds()
    loaded = load(tmp_path / "m")
    assert psutil.Process().num_fds() < before + 20
    assert all(loaded.weights.tables[f"t{k}"][1, 1] == k for k in range(300))


def test_progress_reaches_the_whole_size(tmp_path: Path) -> None:
    calls: list[tuple[str, int, int]] = []
    save(tmp_path / "m", sample(), weights(), progress=lambda *c: calls.append(c))
    assert calls[-1][1] == calls[-1][2] == sum(f.size for f in read_manifest(tmp_path / "m").files.values())
    assert [c[1] for c in calls] == sorted(c[1] for c in calls)
    calls.clear()
    load(tmp_path / "m", check="full", progress=lambda *c: calls.append(c))
    assert calls[-1][1] == calls[-1][2]


def test_a_source_is_known_again(saved: Path) -> None:
    manifest = read_manifest(saved)
    assert same_source(manifest, "abc")
    assert not same_source(manifest, "abd")
    assert not same_source(dataclasses.replace(manifest, source=""), "")


# Refusing to save


def test_weights_that_do_not_fit_are_all_listed(tmp_path: Path) -> None:
    good = weights()
    bad = Weights(
        {**good.tables, "empty": np.zeros((1, 4), np.float32), "half/../x": np.zeros((3, 2), np.float32)},
        good.params,
        {},
    )
    with pytest.raises(ArtifactError) as caught:
        save(tmp_path / "m", sample(), bad)
    assert caught.value.got.splitlines() == [
        "table 'empty': float32[1, 4], want float32[0, 4]",
        "table 'half/../x': float32[3, 2], want float16[3, 2]",
    ]
    with pytest.raises(ArtifactError, match="'bias': missing, want float32"):
        save(tmp_path / "m", sample(), Weights(good.tables, {k: v for k, v in good.params.items() if k != "bias"}, {}))
    assert not (tmp_path / "m").exists()
    assert alone(tmp_path / "m")


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "", "."])
def test_a_compiled_file_stays_inside(name: str, compiled: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="leads out"):
        save(tmp_path / "m", sample(), weights(), compiled={name: compiled["engine.so"]})


def test_a_missing_compiled_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"nowhere\.so"):
        save(tmp_path / "m", sample(), weights(), compiled={"x": tmp_path / "nowhere.so"})


def test_only_an_artifact_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    save(folder, sample(), weights())
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("precious")
    with pytest.raises(ArtifactError, match=r"only an artifact is replaced[\s\S]*thesis\.txt"):
        save(other, sample(), weights())
    file = tmp_path / "file"
    file.write_text("precious")
    with pytest.raises(ArtifactError, match="a file"):
        save(file, sample(), weights())
    assert (other / "thesis.txt").read_text() == file.read_text() == "precious"


def test_a_link_is_followed(saved: Path, tmp_path: Path) -> None:
    link = tmp_path / "current"
    link.symlink_to(saved)
    save(link, sample(), weights(1))
    assert link.is_symlink()
    assert_holds(load(saved, check="full").weights, weights(1))


# Interrupts


class Stop(BaseException):
    """What an interrupt is, for these tests."""


def stop_after(count: int) -> Callable[[str, int, int], None]:
    left = iter(range(count))

    def progress(path: str, done: int, total: int) -> None:
        if next(left, None) is None:
            raise Stop

    return progress


@pytest.mark.parametrize("count", range(8))
def test_an_interrupt_leaves_the_old_artifact(count: int, saved: Path) -> None:
    with pytest.raises(Stop):
        save(saved, sample(), weights(1), progress=stop_after(count))
    assert_holds(load(saved, check="full").weights, weights())
    assert alone(saved)


def test_an_interrupt_of_a_first_save_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Stop):
        save(tmp_path / "m", sample(), weights(), progress=stop_after(2))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("fails", [0, 1])
def test_a_failing_rename_leaves_the_old_artifact(fails: int, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename
    calls = iter(range(10))
    monkeypatch.setattr(writing, "exchanged", lambda one, other: False)  # a system that has no such call

    def failing(self: Path, target: Path) -> Any:
        if next(calls) == fails:
            raise Stop
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(Stop):
        save(saved, sample(), weights(1))
    monkeypatch.undo()
    assert_holds(load(saved, check="full").weights, weights())
    assert alone(saved)


def test_paths_are_exchanged(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    assert not exchanged(one, other) and list(tmp_path.iterdir()) == [one]
    (other / "inside").mkdir(parents=True)
    assert exchanged(one, other)
    assert (one / "inside").is_dir() and not any(other.iterdir())


@pytest.mark.parametrize("has_call", [True, False])
def test_an_artifact_is_replaced_for_readers(has_call: bool, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every load while it is replaced gives one of the two, whole; and with the call there is always one."""
    if not has_call:
        monkeypatch.setattr(writing, "exchanged", lambda one, other: False)
    seen: list[bool] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append((saved / MANIFEST).exists())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for k in range(1, 9):
            save(saved, sample(), weights(k % 2))
            assert_holds(load(saved).weights, weights(k % 2))
    finally:
        done.set()
        reader.join()
    assert alone(saved)
    assert not has_call or all(seen)


def test_a_load_reads_one_artifact_though_it_is_replaced(saved: Path) -> None:
    replaced: list[str] = []

    def replace_once(path: str, done: int, total: int) -> None:
        if not replaced:
            replaced.append(path)
            save(saved, sample(), weights(1))

    assert_holds(load(saved, progress=replace_once).weights, weights(1))
    replaced.clear()
    verify_files(saved, progress=replace_once)


def test_a_load_that_is_overtaken_again_says_so(saved: Path) -> None:
    with pytest.raises(ArtifactError, match="replaced while it was read"):
        load(saved, progress=lambda *_: save(saved, sample(), weights()))


def test_a_killed_replace_says_where_the_old_artifact_is(saved: Path) -> None:
    aside = saved.with_name(f".{saved.name}.old-1234")
    saved.rename(aside)
    with pytest.raises(ArtifactError, match="a save was cut off") as caught:
        load(saved)
    assert str(aside) in caught.value.help


def test_a_loaded_artifact_outlives_its_replacement(saved: Path) -> None:
    loaded = load(saved)
    save(saved, sample(), weights(1))
    assert_holds(loaded.weights, weights())


# Damage


def files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file())


def test_every_flipped_byte_is_found_by_the_full_check(saved: Path) -> None:
    rng = np.random.default_rng(0)
    for path in files(saved):
        good = path.read_bytes()
        places = {0, len(good) // 2, len(good) - 1, *rng.integers(0, len(good), 12).tolist()} if good else set()
        for at in places:
            bad = bytearray(good)
            bad[at] ^= 1 << int(rng.integers(8))
            path.write_bytes(bad)
            with pytest.raises(ArtifactError):
                load(saved, check="full")
            if path.parent.name != "tables":
                with pytest.raises(ArtifactError):
                    load(saved)
        path.write_bytes(good)
    load(saved, check="full")


def test_a_table_that_differs_is_left_to_the_full_check(saved: Path) -> None:
    path = saved / "tables" / "0000-emb_city_table.safetensors"
    good = path.read_bytes()
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    load(saved)
    with pytest.raises(ArtifactError, match=r"0000-emb_city_table\.safetensors: its content does not have its hash"):
        verify_files(saved)
    path.write_bytes(good[:100] + b"x" + good[101:])
    with pytest.raises(ArtifactError):
        load(saved)


@pytest.mark.parametrize("check", ["fast", "full"])
def test_every_truncated_longer_or_missing_file_is_found(check: str, saved: Path) -> None:
    for path in files(saved):
        good = path.read_bytes()
        for bad in (good[:-2], good[: len(good) // 2], b"", good + b"\0"):
            if bad == good:
                continue
            path.write_bytes(bad)
            with pytest.raises(ArtifactError):
                load(saved, check=check)
        path.unlink()
        with pytest.raises(ArtifactError):
            load(saved, check=check)
        path.mkdir()
        with pytest.raises(ArtifactError):
            load(saved, check=check)
        path.rmdir()
        path.write_bytes(good)


def test_all_damaged_files_are_listed_at_once(saved: Path) -> None:
    (saved / DENSE).unlink()
    (saved / PROGRAM).write_text("x")
    with pytest.raises(ArtifactError) as caught:
        load(saved)
    got = caught.value.got.splitlines()
    assert f"{DENSE}: missing" in got
    assert any(line.startswith(f"{PROGRAM}: 1 bytes, not ") for line in got)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", "null", '{"format": 1}', "\xff", '{"kind": "colonnade artifact"}']
)
def test_a_manifest_of_something_else_is_refused(text: str, saved: Path) -> None:
    (saved / MANIFEST).write_bytes(text.encode("latin-1"))
    with pytest.raises(ArtifactError):
        load(saved)


def rewrite(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest and give it the right hash."""
    content = json.loads((folder / MANIFEST).read_bytes())
    content.pop("sha256")
    change(content)
    content["sha256"] = content_hash(content)
    (folder / MANIFEST).write_text(json.dumps(content))


def test_a_newer_artifact_says_which_version_it_needs(saved: Path) -> None:
    rewrite(saved, lambda m: m.update(format=7, colonnade="9.8.7", files=3))
    with pytest.raises(ArtifactError, match="newer than this version") as caught:
        load(saved)
    assert "format 7, written by colonnade 9.8.7" in caught.value.got
    assert f"format {artifact.FORMAT}" in caught.value.want
    assert "9.8.7" in caught.value.help


@pytest.mark.parametrize("version", [0, -1, "1", None, True, 1.5])
def test_a_format_that_is_no_number_is_damage(version: object, saved: Path) -> None:
    rewrite(saved, lambda m: m.update(format=version))
    with pytest.raises(ArtifactError, match="damaged"):
        load(saved)


def changes() -> Iterator[Callable[[dict[str, Any]], None]]:
    yield lambda m: m.update(files=[])
    yield lambda m: m.update(files={})
    yield lambda m: m.update(created_by=None)
    yield lambda m: m.pop("source") and None
    yield lambda m: m["files"].update({"../../x": m["files"][PROGRAM]})
    yield lambda m: m["files"].update({"/x": m["files"][PROGRAM]})
    yield lambda m: m["files"][PROGRAM].update(more=1)
    yield lambda m: m["files"][PROGRAM].pop("size")
    yield lambda m: m["files"].pop(PROGRAM)
    yield lambda m: m["files"].pop("tables/0001-empty.safetensors")


@pytest.mark.parametrize("change", list(changes()))
def test_a_manifest_with_the_right_hash_and_wrong_content_is_damage(
    change: Callable[[dict[str, Any]], None], saved: Path
) -> None:
    rewrite(saved, change)
    with pytest.raises(ArtifactError, match=r"damaged|leads out"):
        load(saved)


def test_a_program_text_of_another_version_is_said_so(saved: Path) -> None:
    text = (saved / PROGRAM).read_bytes().replace(b"colonnade program 1", b"colonnade program 2")
    (saved / PROGRAM).write_bytes(text)
    manifest = read_manifest(saved)
    facts = dataclasses.replace(manifest.files[PROGRAM], sha256=hashlib.sha256(text).hexdigest())
    (saved / MANIFEST).write_text(
        manifest_text(dataclasses.replace(manifest, files={**manifest.files, PROGRAM: facts}))
    )
    with pytest.raises(ArtifactError, match="another version"):
        load(saved)


def test_swapped_tables_are_damage(saved: Path) -> None:
    rewrite(saved, lambda m: m.update(files=dict(reversed(m["files"].items()))))
    with pytest.raises(ArtifactError, match="damaged"):
        load(saved)


def test_what_is_no_artifact_is_named(tmp_path: Path) -> None:
    def got(path: Path) -> str:
        with pytest.raises(ArtifactError, match="this is not an artifact") as caught:
            load(path)
        return caught.value.got

    assert got(tmp_path / "nowhere") == "nothing is there"
    assert got(tmp_path / "no" / "where") == "nothing is there"
    file = tmp_path / "file"
    file.write_text("x")
    assert got(file) == "a file"
    assert got(tmp_path) == "a directory with file"
    (tmp_path / "saved_model.pb").write_text("x")
    assert got(tmp_path) == "a SavedModel: compile it first"
    (tmp_path / "new").mkdir()
    assert got(tmp_path / "new") == "an empty one"


def test_a_check_that_does_not_exist_is_refused(saved: Path) -> None:
    with pytest.raises(ArtifactError, match="fast, full"):
        load(saved, check="some")


# Refreshing


def test_a_refresh_writes_only_what_changed(saved: Path, tmp_path: Path) -> None:
    new = weights()
    changed = sample().tables[2].name
    tables = {**new.tables, changed: new.tables[changed] + np.float16(1)}
    target = tmp_path / "next"
    done = refresh(saved, target, Weights(tables, new.params, {}))
    assert list(done.written) == ["tables/0002-half_.._x.safetensors"]
    assert done.bytes_written == (target / "tables/0002-half_.._x.safetensors").stat().st_size
    assert set(done.reused) | set(done.written) == set(read_manifest(target).files)
    assert done.bytes_reused == sum(done.reused.values()) > 0
    assert (saved / PROGRAM).samefile(target / PROGRAM)
    loaded = load(target, check="full")
    assert_holds(loaded.weights, Weights(tables, new.params, {}))
    assert same_source(loaded.manifest, "abc")
    assert loaded.golden is None
    assert_holds(load(saved, check="full").weights, weights())


def test_a_refresh_with_the_same_weights_writes_nothing_and_keeps_the_golden_rows(saved: Path, tmp_path: Path) -> None:
    done = refresh(saved, tmp_path / "next", weights())
    assert (done.bytes_written, GOLDEN in done.reused) == (0, True)
    assert load(tmp_path / "next", check="full").golden is not None


def test_a_refresh_in_place(saved: Path) -> None:
    refresh(saved, saved, weights(1), golden=golden())
    loaded = load(saved, check="full")
    assert_holds(loaded.weights, weights(1))
    assert loaded.golden is not None
    shutil.rmtree(saved / "compiled")
    with pytest.raises(ArtifactError, match="missing"):
        refresh(saved, saved, weights(2))


def test_a_refresh_copies_where_it_cannot_link(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_link(*args: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", no_link)
    refresh(saved, tmp_path / "next", weights())
    assert not (saved / PROGRAM).samefile(tmp_path / "next" / PROGRAM)
    load(tmp_path / "next", check="full")


def test_a_refresh_repairs_a_damaged_table(saved: Path, tmp_path: Path) -> None:
    path = saved / "tables" / "0000-emb_city_table.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\xaa")
    done = refresh(saved, tmp_path / "next", weights())
    assert list(done.written) == ["tables/0000-emb_city_table.safetensors"]
    load(tmp_path / "next", check="full")


# Memory


def test_a_table_is_never_copied_whole(tmp_path: Path) -> None:
    rows, limit = 1 << 20, 64 << 20
    with (tmp_path / "big").open("wb") as file:
        file.truncate(rows * 128 * 4)
    table = np.memmap(tmp_path / "big", np.float32, "r", shape=(rows, 128))
    program = Program((), (Table("big", rows, 128),), (), (), (), ())
    held = Weights({"big": table}, {}, {})
    with Watch() as watch:
        save(tmp_path / "m", program, held)
        refresh(tmp_path / "m", tmp_path / "n", held)
        loaded = load(tmp_path / "n", check="full")
    assert loaded.weights.tables["big"].nbytes == 512 << 20
    assert watch.grown < limit


class Watch:
    """How far the process's anonymous memory grows at most. Units: bytes."""

    def __init__(self) -> None:
        self.process = psutil.Process()
        self.start = self.peak = self.now()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def now(self) -> int:
        memory = self.process.memory_info()
        return int(memory.rss - memory.shared)

    def run(self) -> None:
        while not self.stop.wait(0.005):
            self.peak = max(self.peak, self.now())

    def __enter__(self) -> Watch:
        self.thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop.set()
        self.thread.join()

    @property
    def grown(self) -> int:
        return self.peak - self.start


def test_a_folder_that_cannot_be_made_is_an_artifact_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ArtifactError, match="cannot be written"):
        save(tmp_path / "file" / "under" / "m", sample(), weights())


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_a_path_that_no_file_system_has_is_an_artifact_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError):
        save(tmp_path / name, sample(), weights())
    with pytest.raises(ArtifactError):
        load(tmp_path / name)


def test_a_full_disk_leaves_the_old_artifact(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ArtifactError, match="No space left on device") as caught:
        save(saved, sample(), weights(1))
    assert caught.value.where == str(saved)
    monkeypatch.undo()
    assert alone(saved)
    assert_holds(load(saved, check="full").weights, weights())


def test_a_file_that_may_not_be_read_is_named(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_file = Path.is_file

    def refused(path: Path) -> bool:
        if path.name == MANIFEST:
            raise PermissionError(13, "Permission denied", str(path))
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", refused)
    with pytest.raises(ArtifactError, match="Permission denied") as caught:
        load(saved)
    assert caught.value.where == str(saved / MANIFEST)


def test_what_a_killed_save_left_goes_with_the_next_and_nobody_elses(saved: Path) -> None:
    folder = saved.parent
    left, held, other = (
        folder / f".{name}" for name in (f"{saved.name}.saving-1", f"{saved.name}.saving-2", "b.saving-3")
    )
    for path in (left, held, other):
        path.mkdir()
        (path / "file").write_text("some")
    handle = os.open(held, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    save(saved, sample(), weights(1))
    assert not left.exists() and held.exists() and other.exists()
    os.close(handle)
    save(saved, sample(), weights(1))
    assert not held.exists() and other.exists()


def _square(rows: Any, folder: Path) -> artifact.Loaded:
    program = Program((), (Table("t", len(rows), len(rows)),), (), (), (), ())
    save(folder, program, Weights({"t": rows}, {}, {}))
    return load(folder, check="full")


def test_an_identity_matrix_is_stored_as_its_size(tmp_path: Path) -> None:
    for size in (1, 2, 1000):
        loaded = _square(identity(size), tmp_path / str(size))
        np.testing.assert_array_equal(loaded.weights.tables["t"], np.eye(size, dtype=np.float32))
        (file,) = (tmp_path / str(size) / "tables").iterdir()
        assert file.stat().st_size < 5000
        refresh(tmp_path / str(size), tmp_path / f"{size} again", loaded.weights)
        assert load(tmp_path / f"{size} again").manifest.files == loaded.manifest.files


@pytest.mark.parametrize("change", [-0.0, 1e-45, -1.0])
def test_what_is_all_but_an_identity_matrix_is_stored_as_it_is(change: float, tmp_path: Path) -> None:
    rows = np.eye(40, dtype=np.float32)
    rows[3, 7] = change
    loaded = _square(rows, tmp_path / "a")
    assert loaded.weights.tables["t"].tobytes() == rows.tobytes()
    assert not is_identity(rows) and not is_identity(np.eye(3)) and not is_identity(np.ones((2, 3), np.float32))


def test_an_identity_matrix_of_another_size_is_damage(tmp_path: Path) -> None:
    _square(identity(5), tmp_path / "a")
    _square(identity(6), tmp_path / "b")
    shutil.copytree(tmp_path / "a" / "tables", tmp_path / "b" / "tables", dirs_exist_ok=True)
    tables = {p: f for p, f in json.loads((tmp_path / "a" / MANIFEST).read_text())["files"].items() if "tables/" in p}
    rewrite(tmp_path / "b", lambda m: m["files"].update(tables))
    with pytest.raises(ArtifactError) as caught:
        load(tmp_path / "b")
    assert "identity matrix of [5] rows" in caught.value.got and "[6, 6]" in caught.value.want


def test_an_artifact_of_the_first_format_is_read(saved: Path) -> None:
    rewrite(saved, lambda m: m.update(format=1))
    assert load(saved).manifest.format == 1
