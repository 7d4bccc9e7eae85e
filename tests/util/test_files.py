"""Small files are whole or not there, and what stands in their place is never followed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from git_agentos.util import files


def test_replace_keeps_the_mode_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(b"old")
    path.chmod(0o600)
    files.replace(str(path), b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777, os.listdir(tmp_path)) == (b"new", 0o600, ["config"])


def test_replace_puts_a_file_in_a_links_place(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"theirs")
    (tmp_path / "config").symlink_to("elsewhere")
    files.replace(str(tmp_path / "config"), b"ours", mode=0o644)
    assert not (tmp_path / "config").is_symlink()
    assert (tmp_path / "elsewhere").read_bytes() == b"theirs"


def test_replace_that_fails_leaves_nothing_beside(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    with pytest.raises(OSError):
        files.replace(str(tmp_path / "config"), b"new")
    assert os.listdir(tmp_path) == ["config"]


def test_replace_by_a_given_file_sets_the_time(tmp_path: Path) -> None:
    (tmp_path / "beside").write_bytes(b"left by a killed process")
    files.replace(str(tmp_path / "config"), b"new", temporary=str(tmp_path / "beside"), mtime=1_000_000_000)
    assert (tmp_path / "config").read_bytes() == b"new"
    assert (tmp_path / "config").stat().st_mtime == 1_000_000_000
    assert os.listdir(tmp_path) == ["config"]


def test_install_renames(tmp_path: Path) -> None:
    (tmp_path / "new").write_bytes(b"new")
    (tmp_path / "index").write_bytes(b"old")
    files.install(str(tmp_path / "new"), str(tmp_path / "index"))
    assert ((tmp_path / "index").read_bytes(), os.listdir(tmp_path)) == (b"new", ["index"])


def test_create_in_an_open_folder(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert files.create("key", b"first", dir_fd=descriptor)
        assert not files.create("key", b"second", dir_fd=descriptor)
    finally:
        os.close(descriptor)
    assert (files.read(str(tmp_path / "key")), os.listdir(tmp_path)) == (b"first", ["key"])


@pytest.mark.parametrize("links", [True, False], ids=["links", "no-links"])
def test_create_never_replaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "no hard links here")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    path = str(tmp_path / "key")
    assert files.create(path, b"first", mode=0o600)
    assert not files.create(path, b"second", mode=0o600)
    assert (files.read(path), os.stat(path).st_mode & 0o777, os.listdir(tmp_path)) == (b"first", 0o600, ["key"])


def test_read_takes_regular_files_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("nothing")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert files.read(str(tmp_path / "file"), limit=5) == b"12345"
    for name in ("link", "dangling", "folder", "pipe"):
        with pytest.raises(files.NotRegularError):
            files.read(str(tmp_path / name))
    with pytest.raises(files.TooLargeError):
        files.read(str(tmp_path / "file"), limit=4)
    with pytest.raises(FileNotFoundError):
        files.read(str(tmp_path / "absent"))
