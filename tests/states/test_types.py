"""Files, folders and symbolic links that turn into one another."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

import pytest

from tests.support.elsewhere import needs_all
from tests.support.repo import Repo
from tests.support.scenario import Scenario, Scenarios, run_case
from tests.support.state import assert_same, complete_state
from tests.support.tool import IN_PROCESS, Tool

SCENARIOS = Scenarios()


@SCENARIOS.add()
def _symlink_retargeted_unstaged(repo: Repo) -> None:
    repo.link("link", "notes.txt")


@SCENARIOS.add()
def _symlink_retargeted_staged_and_again(repo: Repo) -> None:
    repo.link("link", "notes.txt")
    repo.add("link")
    repo.link("link", "src/app.py")


@SCENARIOS.add()
def _symlinks_dangling(repo: Repo) -> None:
    repo.link("link", "nowhere")
    repo.link("staged-dangling", "no/where/either")
    repo.add("staged-dangling")
    repo.link("untracked-dangling", "/nonexistent/absolute")
    repo.link("loop", "loop")


@SCENARIOS.add()
def _loop_where_a_directory_was(repo: Repo) -> None:
    """git cannot look behind it, and calls what was there unmodified."""
    repo.link("src", "src")


@SCENARIOS.add()
def _symlinks_to_directories(repo: Repo) -> None:
    repo.link("link", "src")
    repo.link("staged-to-folder", "src/lib")
    repo.add("staged-to-folder")
    repo.link("untracked-to-folder", "docs")
    repo.link("to-outside", str(repo.scratch))
    repo.link("up", "..")
    (repo.scratch / "outside.txt").write_text("must not be captured, nor removed\n")


@SCENARIOS.add()
def _symlink_targets_of_odd_bytes(repo: Repo) -> None:
    repo.link("link", b"non-utf8-\xff\xfe")
    repo.link("newline", "a\nb")
    repo.link("long", "x" * 1000)
    repo.add("newline")


@SCENARIOS.add()
def _file_to_directory_staged(repo: Repo) -> None:
    repo.remove("readme.txt")
    repo.write("readme.txt/inner/file.txt", "inner\n")
    repo.git("add", "-A")


@SCENARIOS.add()
def _file_to_directory_untracked(repo: Repo) -> None:
    repo.remove("readme.txt")
    repo.write("readme.txt/inner/file.txt", "inner\n")
    repo.remove("notes.txt")
    repo.mkdir("notes.txt")


@SCENARIOS.add()
def _directory_to_file_staged(repo: Repo) -> None:
    repo.write("src", "a file now\n")
    repo.git("add", "-A")


@SCENARIOS.add()
def _directory_to_file_untracked(repo: Repo) -> None:
    repo.write("src", "a file now\n")
    repo.write("docs", "a file too\n")


@SCENARIOS.add()
def _file_to_symlink(repo: Repo) -> None:
    repo.link("readme.txt", "notes.txt")
    repo.link("src/app.py", "../run.sh")
    repo.add("src/app.py")


@SCENARIOS.add()
def _symlink_to_file(repo: Repo) -> None:
    repo.write("link", "a file now\n", 0o755)


@SCENARIOS.add()
def _symlink_to_file_staged_then_link_again(repo: Repo) -> None:
    repo.write("link", "a file now\n")
    repo.add("link")
    repo.link("link", "elsewhere")


@SCENARIOS.add()
def _directory_to_symlink(repo: Repo) -> None:
    repo.link("src", "docs")


@SCENARIOS.add()
def _directory_to_symlink_staged(repo: Repo) -> None:
    repo.link("src", "docs")
    repo.git("add", "-A")


@SCENARIOS.add()
def _directory_to_symlink_with_the_same_names_behind_it(repo: Repo) -> None:
    """`src/app.py` still exists, through the link: it is nevertheless deleted."""
    (repo.path / "src").rename(repo.path / "moved-src")
    repo.link("src", "moved-src")


@SCENARIOS.add()
def _symlink_to_directory(repo: Repo) -> None:
    repo.remove("link")
    repo.write("link/inner.txt", "inner\n")
    repo.mkdir("link/empty")


@SCENARIOS.add()
def _symlink_to_directory_staged(repo: Repo) -> None:
    repo.remove("link")
    repo.write("link/inner.txt", "inner\n")
    repo.git("add", "-A")
    repo.append("link/inner.txt", "more\n")


@SCENARIOS.add()
def _untracked_symlinks_and_files_in_one_folder(repo: Repo) -> None:
    repo.write("box/file", "file\n")
    repo.link("box/link", "file")
    repo.write("box/run", "run\n", 0o755)
    repo.write("box/empty", "")
    repo.mkdir("box/folder")


@SCENARIOS.cases()
def test_round_trip(scenario: Scenario, wreck: str, tool: Tool, tmp_path: Path) -> None:
    run_case(tmp_path, scenario, wreck, tool)


def test_restore_never_writes_through_a_symlink(repo: Repo) -> None:
    """A folder of the checkpoint is now a link to outside: what is behind it is nobody's business."""
    outside = repo.scratch / "outside"
    (outside / "lib").mkdir(parents=True)
    (outside / "app.py").write_text("not ours\n")
    (outside / "lib" / "util.py").write_text("not ours\n")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    with needs_all():
        repo.link("src", str(outside))
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")
    assert (outside / "app.py").read_text() == "not ours\n"
    assert (outside / "lib" / "util.py").read_text() == "not ours\n"
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")
    assert sorted(path.name for path in outside.rglob("*")) == ["app.py", "lib", "util.py"]


@pytest.mark.parametrize("kind", ["fifo", "socket"])
def test_special_files_are_named_and_left_alone(repo: Repo, kind: str) -> None:
    """Git knows no such thing: `skipped` says so, and no restore removes it."""
    with needs_all():
        if kind == "fifo":
            os.mkfifo(repo.at("special"))
        else:
            with socket.socket(socket.AF_UNIX) as listener, contextlib.chdir(repo.path):  # a socket's path is short
                listener.bind("special")
    repo.write("readme.txt", "changed\n")
    before = complete_state(repo.path, strict=True)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.write("readme.txt", "wrecked\n")
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")
