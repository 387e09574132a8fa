"""Writes an artifact under a temporary name and renames it; takes over the files of an older one that are the same."""

from __future__ import annotations

import fcntl
import glob
import hashlib
import os
import platform
import secrets
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from colonnade.artifact.content import Content, Golden, Progress, contents_of, golden_rows, of_bytes
from colonnade.artifact.exchange import exchanged
from colonnade.artifact.loading import Loaded, load
from colonnade.artifact.manifest import MANIFEST, FileFacts, Manifest, manifest_text, what_is
from colonnade.errors import ArtifactError, told
from colonnade.ir.column import ID_POLICIES
from colonnade.ir.explanation import Explanation
from colonnade.ir.program import Program, Weights
from colonnade.version import __version__

SAVING = "saving"
WEIGHTS = ("dense", "table")
SYNCS = 16


@dataclass(frozen=True)
class Written:
    """The files that a save wrote and those it took over from the old artifact, each with its size in bytes."""

    written: Mapping[str, int]
    reused: Mapping[str, int]

    @property
    def bytes_written(self) -> int:
        """Units: bytes."""
        return sum(self.written.values())

    @property
    def bytes_reused(self) -> int:
        """Units: bytes."""
        return sum(self.reused.values())


def save(
    directory: Path | str,
    program: Program,
    weights: Weights,
    *,
    compiled: Mapping[str, Path] | None = None,
    golden: Golden | None = None,
    explanation: Explanation | None = None,
    source: str = "",
    id_policy: str = ID_POLICIES[0],
    progress: Progress | None = None,
) -> Written:
    """Write an artifact, in place of the one that may stand there.

    compiled: path within `compiled/` -> file to copy.   explanation: what the compilation did.
    source: the fingerprint of the model, for `same_source`.   id_policy: the one it is loaded with by default.
    Errors: ArtifactError where the weights do not fit the program, or where something else stands at `directory`.
    """
    contents = contents_of(program, weights, compiled or {}, golden, explanation or Explanation())
    return _save(Path(directory), contents, (source, id_policy), progress, None)


def refresh(
    old: Path | str,
    new: Path | str,
    weights: Weights,
    *,
    golden: Golden | None = None,
    explanation: Explanation | None = None,
    progress: Progress | None = None,
) -> Written:
    """Save the program of an artifact with other weights; files whose content is the same are linked, not written.

    new: may be `old`.   golden: without one, the old rows are kept only where no weight changed.
    explanation: in place of the old one.
    """
    old = Path(old)
    loaded = load(old)
    base = loaded.compiled_dir
    compiled = {} if base is None else {p.relative_to(base).as_posix(): p for p in _compiled_files(old, loaded)}
    contents = contents_of(loaded.program, weights, compiled, golden, explanation or loaded.explanation)
    reuse = _Old(old, loaded.manifest)
    if golden is None and loaded.golden is not None and all(reuse.same(c) for c in contents if c.part in WEIGHTS):
        contents.append(golden_rows(loaded.golden))
    return _save(Path(new), contents, (loaded.manifest.source, loaded.manifest.id_policy), progress, reuse)


def _compiled_files(directory: Path, loaded: Loaded) -> list[Path]:
    return [directory / path for path in loaded.manifest.paths("compiled")]


def _save(
    target: Path, contents: list[Content], facts: tuple[str, str], progress: Progress | None, old: _Old | None
) -> Written:
    """Write all files beside the target, then put them in its place. facts: the model's fingerprint, the id policy."""
    if "\0" in str(target):
        raise ArtifactError("no path holds NUL", where=repr(str(target)))
    target = Path(os.path.realpath(target))
    with told(ArtifactError, "the artifact cannot be written", target):
        _check_target(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(target)
        with _held(target) as temporary:
            writer = _Writer(temporary, sum(c.size for c in contents), progress, old)
            for content in contents:
                writer.put(content)
            writer.finish(*facts)
            _replace(temporary, target)
        return Written(writer.written, writer.reused)


@contextmanager
def _held(target: Path) -> Iterator[Path]:
    """A new folder beside the target, locked while it is written and gone afterwards, unless it was renamed."""
    while True:
        temporary = _sibling(target, SAVING)
        temporary.mkdir()
        handle = os.open(temporary, os.O_RDONLY)
        if _locked(handle) is not False and temporary.is_dir():
            break
        os.close(handle)  # between the two lines above, another save took it for abandoned
    try:
        yield temporary
    finally:
        # After the rename there is nothing left here.
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(handle)


def _remove_abandoned(target: Path) -> None:
    """Remove the folders of saves that were killed: those that no living process holds."""
    for folder in target.parent.glob(f"{glob.escape(f'.{target.name}.{SAVING}-')}*"):
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue  # gone by now, or another's
        try:
            if _locked(handle):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(handle)


def _locked(handle: int) -> bool | None:
    """Lock an open folder: whether nobody else has; None where the file system has no locks.

    Facts: a lock ends with the process that holds it, however that ends.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _sibling(target: Path, what: str) -> Path:
    return target.with_name(f".{target.name}.{what}-{secrets.token_hex(4)}")


def _check_target(target: Path) -> None:
    """Only an artifact or an empty directory is replaced."""
    if not os.path.lexists(target) or (target.is_dir() and not any(target.iterdir())):
        return
    if not (target / MANIFEST).is_file():
        raise ArtifactError(
            "only an artifact is replaced",
            where=str(target),
            got=what_is(target),
            help="choose another directory, or remove this one",
        )


def _replace(temporary: Path, target: Path) -> None:
    """Rename into place; what stood there changes places with it, so that a reader finds one or the other.

    Facts: where the system cannot do that, it is renamed away first, and back if the second rename fails.
    """
    if not os.path.lexists(target):
        temporary.rename(target)
        _sync(target.parent)
        return
    aside = temporary
    if not exchanged(temporary, target):
        aside = _sibling(target, "old")
        try:
            target.rename(aside)
            temporary.rename(target)
        finally:
            if not os.path.lexists(target):
                aside.rename(target)
    _sync(target.parent)
    shutil.rmtree(aside, ignore_errors=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass
class _Writer:
    """Writes the files of an artifact into a folder; the manifest comes last."""

    folder: Path
    total: int
    progress: Progress | None
    old: _Old | None
    done: int = 0
    files: dict[str, FileFacts] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    reused: dict[str, int] = field(default_factory=dict)

    def put(self, content: Content) -> None:
        """Write a file, or link the old artifact's where its content is the same."""
        path = self.folder / content.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.old is not None and self.old.same(content):
            _link(self.old.folder / content.path, path)
            self.files[content.path] = self.old.manifest.files[content.path]
            self.reused[content.path] = content.size
            self._advance(content.path, content.size)
        else:
            self.files[content.path] = FileFacts(content.part, content.size, self._write(path, content))
            self.written[content.path] = content.size

    def finish(self, source: str, id_policy: str) -> None:
        """Write the manifest and make all files and folders durable."""
        manifest = Manifest(__version__, _created_by(), source, self.files, id_policy=id_policy)
        data = manifest_text(manifest).encode()
        self._write(self.folder / MANIFEST, of_bytes(MANIFEST, "manifest", data), report=False)
        # Side by side, since the file system commits many at once: one after the other, 1,000 tables took 12 s.
        with ThreadPoolExecutor(SYNCS) as pool:
            list(pool.map(_sync, sorted(self.folder.rglob("*"))))
        _sync(self.folder)

    def _write(self, path: Path, content: Content, report: bool = True) -> str:
        digest = hashlib.sha256()
        with path.open("wb", buffering=0) as file:
            for chunk in content.chunks():
                view = chunk.data
                digest.update(view)
                while view:
                    view = view[file.write(view) :]
                if report:
                    self._advance(content.path, chunk.size)
        return digest.hexdigest()

    def _advance(self, path: str, count: int) -> None:
        self.done += count
        if self.progress is not None:
            self.progress(path, self.done, self.total)


@dataclass
class _Old:
    """An artifact whose files may be taken over."""

    folder: Path
    manifest: Manifest
    verdicts: dict[str, bool] = field(default_factory=dict)

    def same(self, content: Content) -> bool:
        """Whether the old file holds these very bytes. Facts: reads up to the first difference, once a file."""
        if content.path not in self.verdicts:
            self.verdicts[content.path] = self._same(content)
        return self.verdicts[content.path]

    def _same(self, content: Content) -> bool:
        facts = self.manifest.files.get(content.path)
        if facts is None or (facts.size, facts.part) != (content.size, content.part):
            return False
        with (self.folder / content.path).open("rb") as file:
            return all(np.array_equal(np.frombuffer(file.read(c.size), np.uint8), c) for c in content.chunks())


def _link(source: Path, target: Path) -> None:
    """A hard link, or a copy where the file system has none between the two."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _created_by() -> dict[str, str]:
    return {
        "machine": platform.machine(),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
