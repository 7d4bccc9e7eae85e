"""Whatever lies where the evidence of one run should be: the others are listed, and every command answers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.run.field import context_of, start
from tests.support.repo import Repo


def _link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "emptied": lambda path: path.write_bytes(b""),
    "cut in the middle": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "a folder": _folder,
    "a link": _link,
    "null": lambda path: path.write_bytes(b"null\n"),
    "deep": lambda path: path.write_bytes(b"[" * 100_000 + b"\n"),
    "zeros": lambda path: path.write_bytes(b"\0" * 10_000_000),
    "a pipe": _pipe,
    "gone": lambda path: path.unlink(),
}
FILES = ("events.jsonl", "manifest.json", "spec.json", "workspace_context.json", "environment.json")
COMMANDS = ("show", "verify", "logs", "diff", "resume", "cancel", "accept")


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged(cli: Any, repo: Repo, damage: str) -> None:
    run = start(repo, "echo > new", validate=["true"], run_id="T-1", guard=False)
    start(repo, "echo > new", validate=["true"], run_id="T-2", guard=False)
    folder, aside = Path(run.evidence), repo.scratch / "aside"
    shutil.copytree(folder, aside)
    for name in FILES:
        DAMAGES[damage](folder / name)
        for words in (("list",), *((each, "T-1") for each in COMMANDS)):
            done = cli("-C", str(repo.path), "run", *words)
            assert done.code in (0, 1, 4), (name, words, done)
            assert words != ("list",) or (done.code, "T-2" in done.text) == (0, True), (name, done)
        shutil.rmtree(folder)
        shutil.copytree(aside, folder)
    assert context_of(repo)
