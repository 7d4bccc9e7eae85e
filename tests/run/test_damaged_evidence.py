"""Whatever lies where the evidence of one run should be: the others are listed, and every command answers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.support.command_line import Cli
from tests.support.confirming import set_up_key
from tests.support.repo import Repo
from tests.support.runs import start


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
FILES = ("manifest.json", "spec.json", "workspace_context.json", "environment.json")
COMMANDS = ("show", "verify", "logs", "diff", "accept", "resume", "cancel")


def test_damaged(cli: Cli, repo: Repo, tmp_path: Path) -> None:
    set_up_key(repo, tmp_path)
    run = start(repo, "echo > new", validate=["true"], run_id="T-1", guard=False)
    start(repo, "echo > new", validate=["true"], run_id="T-2", guard=False)
    folder, aside = Path(run.evidence), repo.scratch / "aside"
    shutil.copytree(folder, aside)
    base = repo.oid("main")
    for count, (name, damage) in enumerate(DAMAGES.items()):
        for file in ("events.jsonl", FILES[count % len(FILES)]):
            damage(folder / file)
            for words in (("list",), *((each, "T-1") for each in COMMANDS)):
                done = cli("-C", str(repo.path), "run", *words)
                assert done.code in (0, 1), (name, file, words, done)
                assert words != ("list",) or (done.code, "T-2" in done.text) == (0, True), (name, file, done)
                assert words[0] != "accept" or done.code == 1, (name, file)
            assert repo.oid("main") == base, (name, file)
            shutil.rmtree(folder)
            shutil.copytree(aside, folder)
