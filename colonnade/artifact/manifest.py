"""The manifest: what an artifact holds, with the size and hash of every file, and what wrote it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from colonnade.errors import ArtifactError
from colonnade.ir.column import ID_POLICIES
from colonnade.version import __version__

FORMAT = 2
"""2: tables that are identity matrices are a number. What an older version wrote is read."""
KIND = "colonnade artifact"
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class FileFacts:
    """A file's part (program, consts, dense, table, compiled, golden), its size in bytes and its sha256."""

    part: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What an artifact holds, and what wrote it.

    source: fingerprint of the model it was compiled from, as the frontend gives it, or "".
    files: path within the artifact -> facts; the files of tables stand in the order of the program's tables.
    id_policy: what an id outside its table is, where who loads it says nothing.
    """

    colonnade: str
    created_by: Mapping[str, str]
    source: str
    files: Mapping[str, FileFacts]
    format: int = FORMAT
    id_policy: str = ID_POLICIES[0]

    def paths(self, part: str) -> list[str]:
        """The files of a part, in order."""
        return [path for path, facts in self.files.items() if facts.part == part]


def same_source(manifest: Manifest, fingerprint: str) -> bool:
    """Whether the artifact was compiled from a model of that fingerprint (weights aside)."""
    return bool(fingerprint) and manifest.source == fingerprint


def manifest_text(manifest: Manifest) -> str:
    """The manifest as JSON, with the hash of its own content."""
    content = {
        "kind": KIND,
        "format": manifest.format,
        "colonnade": manifest.colonnade,
        "created_by": dict(manifest.created_by),
        "source": manifest.source,
        "id_policy": manifest.id_policy,
        "files": {path: {"part": f.part, "size": f.size, "sha256": f.sha256} for path, f in manifest.files.items()},
    }
    return json.dumps({**content, "sha256": content_hash(content)}, indent=1, ensure_ascii=False) + "\n"


def content_hash(content: Mapping[str, Any]) -> str:
    """The sha256 of a manifest without its own hash."""
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()


def read_manifest(directory: Path | str) -> Manifest:
    """The manifest of an artifact. Errors: ArtifactError where there is none, it is damaged, or its format is newer."""
    directory = Path(directory)
    path = directory / MANIFEST
    if not path.is_file():
        raise _no_artifact(directory)
    try:
        content = json.loads(read_file(path))
    except ValueError as e:
        raise damaged(path, f"no JSON: {e}") from e
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise ArtifactError("this is not an artifact", where=str(path), got="a manifest of something else")
    _check_format(path, content)
    if content.pop("sha256", None) != content_hash(content):
        raise damaged(path, "its content does not have its hash")
    try:
        return _manifest(content)
    except (KeyError, TypeError, AttributeError, ValueError) as e:
        raise damaged(path, f"unreadable: {e}") from e


def _check_format(path: Path, content: Mapping[str, Any]) -> None:
    version = content.get("format")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise damaged(path, f"format {version!r}")
    if version > FORMAT:
        raise ArtifactError(
            "the artifact is newer than this version of colonnade",
            where=str(path),
            got=f"format {version}, written by colonnade {content.get('colonnade')}",
            want=f"format {FORMAT} or older; this is colonnade {__version__}",
            help=f"install colonnade {content.get('colonnade')} or newer, or compile the model again",
        )


def _manifest(content: Mapping[str, Any]) -> Manifest:
    files = {inside(path): FileFacts(**facts) for path, facts in content["files"].items()}
    created = {str(k): str(v) for k, v in content["created_by"].items()}
    policy = content.get("id_policy", ID_POLICIES[0])
    if policy not in ID_POLICIES:
        raise ValueError(f"id policy {policy!r}")
    return Manifest(str(content["colonnade"]), created, str(content["source"]), files, content["format"], policy)


def inside(name: str) -> str:
    """A path that stays inside its folder. Errors: ArtifactError."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\\" in name or "\0" in name:
        raise ArtifactError("a file's path leads out of the artifact", got=name)
    return path.as_posix()


def _no_artifact(directory: Path) -> ArtifactError:
    beside = directory.parent.iterdir() if directory.parent.is_dir() else ()
    aside = sorted(p for p in beside if p.name.startswith(f".{directory.name}.old-"))
    saved = f"a save was cut off; the artifact that stood here is {aside[0]}" if aside else ""
    return ArtifactError(
        "this is not an artifact",
        where=str(directory),
        got=what_is(directory),
        want=f"a directory with {MANIFEST}, as `colonnade compile` writes it",
        help=saved,
    )


def what_is(path: Path) -> str:
    """What stands at a path, in words for an error."""
    if not os.path.lexists(path):
        return "nothing is there"
    if not path.is_dir():
        return "a file" if path.is_file() else "neither a file nor a directory"
    names = sorted(p.name for p in path.iterdir())
    if "saved_model.pb" in names:
        return "a SavedModel: compile it first"
    return "a directory with " + ", ".join(names[:8]) + (", ..." if len(names) > 8 else "") if names else "an empty one"


def damaged(path: Path, got: str, want: str = "") -> ArtifactError:
    """The error of a file or folder that is not as it was written."""
    help = "copy the artifact again, or compile the model again"
    return ArtifactError("the artifact is damaged", where=str(path), got=got, want=want, help=help)


def read_file(path: Path) -> bytes:
    """The bytes of a file of an artifact. Errors: ArtifactError."""
    try:
        return path.read_bytes()
    except OSError as e:
        raise damaged(path, e.strerror or str(e)) from e
