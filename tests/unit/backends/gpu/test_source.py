"""The file of a kernel's text: written whole or not at all, and never believed by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from colonnade.backends.gpu import source

TEXT = "NAME = 'caf\u00e9'\n"


def test_a_file_is_written_once_and_as_utf8(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    assert source.load(TEXT, folder, interpret=True).NAME == "caf\u00e9"
    (path,) = folder.glob("*.py")
    assert path.read_bytes() == TEXT.encode()
    before = path.stat()
    source.load(TEXT, folder, interpret=True)
    assert path.stat().st_ino == before.st_ino and not list(folder.glob("*.tmp"))


@pytest.mark.parametrize("content", [b"", TEXT.encode()[:-3], b"NAME = 'another'\n"])
def test_a_file_with_another_text_is_replaced(content: bytes, tmp_path: Path) -> None:
    source.load(TEXT, tmp_path, interpret=True)
    (path,) = tmp_path.glob("*.py")
    path.write_bytes(content)
    assert source.load(TEXT, tmp_path, interpret=True).NAME == "caf\u00e9"
    assert path.read_bytes() == TEXT.encode()


def test_nothing_is_left_where_it_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", refused)
    with pytest.raises(OSError, match="no space"):
        source.load(TEXT, tmp_path, interpret=True)
    assert not list(tmp_path.iterdir())
