"""The environment is read at call time, checked, and every bad value is named at once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from colonnade.config import Settings, settings, settings_from
from colonnade.errors import OptionError


def test_nothing_set_gives_the_defaults() -> None:
    home = Path.home()
    assert settings_from({}) == Settings(threads=None, cache_dir=home / ".cache" / "colonnade")


def test_values_are_read_and_an_empty_one_counts_as_unset(tmp_path: Path) -> None:
    found = settings_from({"COLONNADE_THREADS": " 12 ", "COLONNADE_CACHE_DIR": str(tmp_path / "new")})
    assert found == Settings(threads=12, cache_dir=tmp_path / "new")
    assert settings_from({"CC": "/usr/bin/gcc-14"}).c_compiler == "/usr/bin/gcc-14"
    assert [settings_from({"TRITON_INTERPRET": v}).triton_interprets for v in ("1", "True", "0", "")] == [
        True,
        True,
        False,
        False,
    ]
    empty = {"CC": "", "COLONNADE_THREADS": "", "COLONNADE_CACHE_DIR": "", "XDG_CACHE_HOME": ""}
    assert settings_from(empty) == settings_from({})


def test_xdg_cache_home_holds_when_it_is_absolute(tmp_path: Path) -> None:
    assert settings_from({"XDG_CACHE_HOME": str(tmp_path)}).cache_dir == tmp_path / "colonnade"
    assert settings_from({"XDG_CACHE_HOME": "relative"}) == settings_from({})


def test_a_relative_or_home_cache_dir_becomes_absolute() -> None:
    assert settings_from({"COLONNADE_CACHE_DIR": "here"}).cache_dir == Path.cwd() / "here"
    assert settings_from({"COLONNADE_CACHE_DIR": "~/here"}).cache_dir == Path.home() / "here"


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "²", "0x4", "None", "100000"])
def test_a_bad_thread_count_is_an_error(text: str) -> None:
    with pytest.raises(OptionError, match="COLONNADE_THREADS"):
        settings_from({"COLONNADE_THREADS": text})


def test_every_bad_value_is_named_in_one_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(OptionError) as caught:
        settings_from({"COLONNADE_THREADS": "none", "COLONNADE_CACHE_DIR": str(file)})
    assert caught.value.where.split() == ["COLONNADE_THREADS", "COLONNADE_CACHE_DIR"]
    assert "want a whole number" in caught.value.got and "want a folder" in caught.value.got


def test_a_home_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(OptionError, match="COLONNADE_CACHE_DIR"):
        settings_from({"COLONNADE_CACHE_DIR": "~no-such-user-here/cache"})


def test_the_environment_is_read_at_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLONNADE_THREADS", "3")
    assert settings().threads == 3
    monkeypatch.setenv("COLONNADE_THREADS", "4")
    assert settings().threads == 4


def test_a_folder_that_may_not_be_looked_into_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 300)
    assert settings_from({"COLONNADE_CACHE_DIR": str(long)}).cache_dir == long
    stat = os.stat

    def refused(path: Any, *args: Any, **options: Any) -> os.stat_result:
        if str(path).startswith(str(tmp_path)):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, *args, **options)

    monkeypatch.setattr(os, "stat", refused)
    assert settings_from({"COLONNADE_CACHE_DIR": str(tmp_path / "a")}).cache_dir == tmp_path / "a"
