"""Folders of git-agentos, and scratch folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from git_agentos.errors import RepositoryError
from git_agentos.util import directories


def test_make_own_makes_each_folder_and_refuses_links(tmp_path: Path) -> None:
    assert directories.make_own(str(tmp_path / "a"), "b", "c") == str(tmp_path / "a" / "b" / "c")
    assert directories.make_own(str(tmp_path / "a"), "b") == str(tmp_path / "a" / "b")
    (tmp_path / "a" / "link").symlink_to("b")
    with pytest.raises(RepositoryError, match="is a symbolic link"):
        directories.make_own(str(tmp_path / "a"), "link", "c")
    (tmp_path / "a" / "file").touch()
    with pytest.raises(RepositoryError, match="is not a directory"):
        directories.make_own(str(tmp_path / "a" / "file"))


def test_scratch_is_removed_at_the_end(tmp_path: Path) -> None:
    with directories.scratch(str(tmp_path), "x-") as path:
        assert os.path.basename(path).startswith("x-")
        Path(path, "file").touch()
        Path(path, "folder").mkdir()
    assert list(tmp_path.iterdir()) == []


def test_remove_abandoned_keeps_what_a_living_process_holds(tmp_path: Path) -> None:
    (tmp_path / "x-1-left" / "below").mkdir(parents=True)
    (tmp_path / "x-1-left" / "below" / "file").touch()
    (tmp_path / "y-1-other").mkdir()
    with directories.scratch(str(tmp_path), "x-") as path:
        assert directories.remove_abandoned(str(tmp_path), "x-") == [str(tmp_path / "x-1-left")]
        assert os.path.isdir(path)
    assert [each.name for each in tmp_path.iterdir()] == ["y-1-other"]
    assert directories.remove_abandoned(str(tmp_path / "missing")) == []
