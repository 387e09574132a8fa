from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from colonnade import artifact, compiler
from colonnade.artifact import Golden, verify_files
from colonnade.core import dims
from colonnade.errors import ArtifactError, GraphError, ImportFailure, OptionError, ShapeError
from colonnade.executable import Executable
from colonnade.frontends.tensorflow.importer import open_source
from colonnade.ir.program import Input, Instruction, Output, Program, Ref, Weights
from colonnade.passes.pipelines import COLUMNS
from tests.unit import small_models
from tests.unit.small_models import SIGNATURE, Models, a_feed

Answer = Mapping[str, np.ndarray[Any, Any]]
TARGETS = ("reference", "cpu")


@pytest.fixture(scope="module")
def models() -> Iterator[Models]:
    yield from small_models.models()


@pytest.fixture(scope="module", params=TARGETS)
def old(models: Models, request: pytest.FixtureRequest) -> Executable:
    return compiler.compile(models.old, request.param, SIGNATURE)


@pytest.fixture(scope="module")
def new(models: Models, old: Executable) -> Executable:
    return compiler.compile(models.new, old.report().backend, SIGNATURE)


def same(a: Answer, b: Answer) -> bool:
    return a.keys() == b.keys() and all(a[k].tobytes() == b[k].tobytes() for k in a)


def test_other_weights_give_other_answers(old: Executable, new: Executable) -> None:
    assert old.program == new.program and not same(old(a_feed(5)), new(a_feed(5)))


@pytest.mark.parametrize("check", ["fast", "full"])
def test_what_is_loaded_answers_as_what_was_saved(old: Executable, tmp_path: Path, check: str) -> None:
    target = old.report().backend
    old.save(tmp_path / "a")
    loaded = compiler.load(tmp_path / "a", target, check=check)
    assert loaded.program == old.program and loaded.fingerprint == old.fingerprint != ""
    assert loaded.explanation == old.explanation
    for batch in (0, 1, 9):
        assert same(loaded(a_feed(batch, batch)), old(a_feed(batch, batch)))
    loaded.save(tmp_path / "b")
    files = {p.relative_to(tmp_path / "a"): p for p in (tmp_path / "a").rglob("*") if p.is_file()}
    assert {p.relative_to(tmp_path / "b") for p in (tmp_path / "b").rglob("*") if p.is_file()} == files.keys()
    for name, path in files.items():
        assert (tmp_path / "b" / name).read_bytes() == path.read_bytes(), name


def test_an_artifact_compiled_for_one_target_runs_on_the_other(old: Executable, tmp_path: Path) -> None:
    old.save(tmp_path / "a")
    (other,) = set(TARGETS) - {old.report().backend}
    got, expected = compiler.load(tmp_path / "a", other)(a_feed(9)), old(a_feed(9))
    assert got["columns"].tobytes() == expected["columns"].tobytes()


def test_threads_on_one_executable_get_their_own_answers(old: Executable) -> None:
    feeds = [a_feed(batch, batch) for batch in (1, 8, 33, 70)]
    expected = [old(feed) for feed in feeds]
    started = threading.Barrier(len(feeds))

    def work(k: int) -> list[bool]:
        started.wait()
        return [same(old(feeds[k]), expected[k]) for _ in range(20)]

    with ThreadPoolExecutor(len(feeds)) as pool:
        assert all(all(answers) for answers in pool.map(work, range(len(feeds))))


def test_swap_is_atomic_under_load(old: Executable, new: Executable, models: Models, tmp_path: Path) -> None:
    for name, executable in (("old", old), ("new", new)):
        executable.save(tmp_path / name)
    served = compiler.load(tmp_path / "old", old.report().backend)
    feed = a_feed(16)
    legal = [old(feed), new(feed)]
    stop = threading.Event()

    def call() -> list[int]:
        """Which set of weights each answer is of; -1: of neither."""
        seen = []
        while not stop.is_set():
            got = served(feed)
            seen.append(next((k for k, answer in enumerate(legal) if same(got, answer)), -1))
        return seen

    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(call) for _ in range(3)]
        for k in range(6):
            served.swap(tmp_path / ("new" if k % 2 == 0 else "old"))
        served.swap(tmp_path / "new")
        stop.set()
        seen = [s for c in calls for s in c.result()]
    assert seen and -1 not in seen
    assert same(served(feed), legal[1])


def test_a_refused_swap_changes_nothing(old: Executable, models: Models, tmp_path: Path) -> None:
    target = old.report().backend
    old.save(tmp_path / "old")
    compiler.compile(models.other, target, SIGNATURE).save(tmp_path / "other")
    served = compiler.load(tmp_path / "old", target)
    expected = served(a_feed(3))
    with pytest.raises(ArtifactError, match="of another program"):
        served.swap(tmp_path / "other")
    with pytest.raises(ArtifactError, match="not an artifact"):
        served.swap(tmp_path / "nothing")
    assert same(served(a_feed(3)), expected)


def test_the_fingerprint_is_of_the_graph_not_of_the_weights(models: Models) -> None:
    fingerprints = {name: open_source(getattr(models, name), SIGNATURE).fingerprint for name in ("old", "new", "other")}
    assert fingerprints["old"] == fingerprints["new"] != fingerprints["other"]
    assert open_source(models.old, "serving_default").fingerprint != fingerprints["old"]
    assert open_source(models.old, SIGNATURE, ["score"]).fingerprint != fingerprints["old"]


def test_refresh_writes_only_what_changed(
    old: Executable, new: Executable, models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old.save(tmp_path / "old", golden=Golden(a_feed(2), old(a_feed(2))))
    # Nothing is analysed or compiled again.
    monkeypatch.setattr(compiler, "lower", None)
    monkeypatch.setattr(compiler, "backend", None)
    written = compiler.refresh(models.new, tmp_path / "old", tmp_path / "new")
    monkeypatch.undo()
    assert set(written.written) == {
        "dense.safetensors",
        *(p for p in written.written if p.startswith("tables/")),
    }
    assert len(written.written) == 1 + len(old.program.tables)
    reused = {"program.txt", "consts.safetensors", "explanation.json"}
    assert {p for p in written.reused if not p.startswith("compiled/")} == reused
    assert bool([p for p in written.reused if p.startswith("compiled/")]) == (old.report().backend == "cpu")
    verify_files(tmp_path / "new")
    refreshed = compiler.load(tmp_path / "new", old.report().backend, check="full")
    assert same(refreshed(a_feed(9)), new(a_feed(9))) and refreshed.fingerprint == new.fingerprint
    assert refreshed.golden is None  # the recorded answers were of the old weights
    assert same(compiler.load(tmp_path / "old", old.report().backend)(a_feed(9)), old(a_feed(9)))


def test_refresh_in_place_with_the_same_weights_writes_nothing(old: Executable, models: Models, tmp_path: Path) -> None:
    old.save(tmp_path / "a", golden=Golden(a_feed(2), old(a_feed(2))))
    written = compiler.refresh(models.old, tmp_path / "a", tmp_path / "a")
    assert not written.written
    loaded = compiler.load(tmp_path / "a", old.report().backend)
    assert loaded.golden is not None and same(loaded.golden.outputs, old(a_feed(2)))
    assert same(loaded(loaded.golden.inputs), loaded.golden.outputs)


def test_refresh_refuses_another_graph(old: Executable, models: Models, tmp_path: Path) -> None:
    old.save(tmp_path / "a")
    with pytest.raises(ArtifactError, match="graph is not the one") as caught:
        compiler.refresh(models.other, tmp_path / "a", tmp_path / "b")
    assert str(models.other) in caught.value.where and str(tmp_path / "a") in caught.value.where
    assert not (tmp_path / "b").exists()


def test_refresh_of_some_outputs(models: Models, new: Executable, tmp_path: Path) -> None:
    target = new.report().backend
    compiler.compile(models.old, target, SIGNATURE, outputs=["score"]).save(tmp_path / "a")
    compiler.refresh(models.new, tmp_path / "a", tmp_path / "a")
    got = compiler.load(tmp_path / "a", target)(a_feed(4))
    assert list(got) == ["score"] and got["score"].tobytes() == new(a_feed(4))["score"].tobytes()


def test_refresh_with_other_tags(models: Models, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(models.old, model)
    content = (model / "saved_model.pb").read_bytes()
    assert content.count(b"\x22\x05serve") == 1
    (model / "saved_model.pb").write_bytes(content.replace(b"\x22\x05serve", b"\x22\x05train"))
    with pytest.raises(ImportFailure, match="exactly these tags"):
        compiler.compile(model, "reference", SIGNATURE)
    compiler.compile(model, "reference", SIGNATURE, tags=["train"]).save(tmp_path / "a")
    written = compiler.refresh(model, tmp_path / "a", tmp_path / "a", tags=["train"])
    assert not written.written


def test_recorded_rows_travel_with_the_artifact(old: Executable, tmp_path: Path) -> None:
    feed = a_feed(3)
    old.save(tmp_path / "a", golden=Golden(feed, old(feed)))
    loaded = compiler.load(tmp_path / "a", old.report().backend)
    assert loaded.golden is not None
    loaded.save(tmp_path / "b")
    again = compiler.load(tmp_path / "b", old.report().backend, check="full")
    assert again.golden is not None and again.golden.inputs.keys() == feed.keys()
    assert same(again(again.golden.inputs), again.golden.outputs)


def test_an_unknown_target_is_refused(models: Models) -> None:
    with pytest.raises(OptionError, match="no such target") as caught:
        compiler.compile(models.old, "tpu")
    assert caught.value.want == "cpu, gpu, reference"


def test_the_stages_are_told(models: Models) -> None:
    said: list[str] = []
    passes: list[str] = []
    compiler.compile(
        models.old,
        "reference",
        SIGNATURE,
        progress=said.append,
        observe=lambda name, graph: passes.append(name),
    )
    assert [s.split()[0] for s in said] == ["import", "analyse", "assemble", "compile"]
    assert passes[0] == COLUMNS[0].name and "extract-columns" in passes


def test_the_default_signature_is_the_serving_one(models: Models) -> None:
    assert list(compiler.compile(models.old, "reference")(a_feed(1))) == ["prediction"]


def test_no_default_signature_names_those_there_are(models: Models, tmp_path: Path) -> None:
    model = Path(shutil.copytree(models.old, tmp_path / "model"))
    content = (model / "saved_model.pb").read_bytes()
    (model / "saved_model.pb").write_bytes(content.replace(b"serving_default", b"serving_another"))
    with pytest.raises(ImportFailure, match="no default signature") as caught:
        compiler.compile(model, "reference")
    assert caught.value.got == "columns, serving_another" and "--signature" in caught.value.help
    assert list(compiler.compile(model, "reference", "serving_another")(a_feed(1))) == ["prediction"]


def test_outputs_do_not_lie_in_one_another(old: Executable) -> None:
    """A buffer under two names, and a column of it under a third."""
    program = old.program
    (buffer,) = program.buffers
    view = Instruction("view", "aten.slice.Tensor", (Ref(buffer.name), 1, 0, 4))
    outputs = [
        Output("a", Ref(buffer.name), buffer.dtype, (buffer.rows, buffer.width)),
        Output("b", Ref(buffer.name), buffer.dtype, (buffer.rows, buffer.width)),
        Output("c", Ref("view"), buffer.dtype, (buffer.rows, 4)),
    ]
    program = replace(program, dense=(*program.dense, view), outputs=tuple(outputs))
    got = compiler.compile(program, old.report().backend, weights=old.weights)(a_feed(5))
    kept = {name: value.copy() for name, value in got.items()}
    assert kept["a"].tobytes() == kept["b"].tobytes() and kept["a"][:, :4].tobytes() == kept["c"].tobytes()
    for name, value in got.items():
        value[...] = -1.0
        del kept[name]
        assert all(got[other].tobytes() == kept[other].tobytes() for other in kept)


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_an_answer_depends_on_the_values_alone_not_on_where_they_lie(batch: int) -> None:
    b, rng = dims.symbol("B"), np.random.default_rng(0)
    program = Program(
        inputs=(Input("x", "float32", (b, 67)),),
        tables=(),
        columns=(),
        buffers=(),
        dense=(Instruction("y", "aten.linear.default", (Ref("x"), Ref("w"), Ref("b"))),),
        outputs=(Output("y", Ref("y"), "float32", (b, 3)),),
        params=(("w", "float32", (3, 67)), ("b", "float32", (3,))),
    )

    def moved(values: np.ndarray[Any, Any], offset: int) -> np.ndarray[Any, Any]:
        raw = np.zeros(values.nbytes + 128, np.uint8)
        start = -raw.ctypes.data % 64 + offset
        copy = raw[start : start + values.nbytes].view(np.float32).reshape(values.shape)
        copy[...] = values
        return copy

    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((batch, 67), (3, 67)))
    answers = set()
    for offset in range(0, 64, 4):
        params = {"w": torch.from_numpy(moved(w, offset)), "b": torch.zeros(3)}
        executable = compiler.compile(program, "reference", weights=Weights({}, params, {}))
        answers |= {executable({"x": moved(x, at)})["y"].tobytes() for at in (0, 4, 16, 60)}
        answers.add(executable({"x": np.asfortranarray(x)})["y"].tobytes())
    assert len(answers) == 1


def moved(program: Program, offset: int) -> Program:
    """The program with its first column's slot elsewhere."""
    first, *others = program.columns
    slot = replace(first.slots[0], offset=offset)
    return replace(program, columns=(replace(first, slots=(slot,)), *others))


@pytest.mark.parametrize("offset", [-4, 4, 1 << 28])
def test_a_program_is_checked_before_it_is_compiled(old: Executable, offset: int) -> None:
    bad = moved(old.program, old.program.columns[0].slots[0].offset + offset)
    with pytest.raises(GraphError, match="breaks"):
        compiler.compile(bad, old.report().backend, weights=old.weights)


def test_a_table_that_a_program_lacks_is_named(old: Executable) -> None:
    bad = replace(old.program, tables=old.program.tables[1:])
    with pytest.raises(GraphError, match=re.escape(f"the table {old.program.tables[0].name!r} does not exist")):
        compiler.compile(bad, old.report().backend, weights=old.weights)


def test_a_program_that_was_edited_in_an_artifact_is_refused(old: Executable, tmp_path: Path) -> None:
    artifact.save(tmp_path / "a", moved(old.program, 1 << 28), old.weights)
    with pytest.raises(ArtifactError, match="is outside the width"):
        compiler.load(tmp_path / "a", old.report().backend)


def test_recorded_rows_go_with_the_weights_that_answered_them(old: Executable, new: Executable, tmp_path: Path) -> None:
    target, rows = old.report().backend, a_feed(2)
    old.save(tmp_path / "old", golden=Golden(rows, old(rows)))
    new.save(tmp_path / "new", golden=Golden(rows, new(rows)))
    swapped = compiler.load(tmp_path / "old", target)
    with pytest.raises(ShapeError):
        swapped.swap(Weights({}, {}, {}))
    assert swapped.golden is not None
    swapped.swap(new.weights)
    assert swapped.golden is None
    swapped.save(tmp_path / "swapped")
    assert compiler.load(tmp_path / "swapped", target).golden is None
    swapped.swap(tmp_path / "new")
    assert swapped.golden is not None and same(swapped.golden.outputs, new(rows))
