"""`restore --patch`: the questions, at a real terminal and with every key."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from git_agentos import open_workspace
from tests.support.hunk_answers import by_git, by_tool
from tests.support.repo import Repo
from tests.support.state import assert_unchanged, complete_state
from tests.support.tool import run

PATIENCE = 60.0
LINES = [f"{n}\n" for n in range(1, 61)]


@pytest.fixture
def started(repo: Repo) -> str:
    """A checkpoint, and a file with four hunks since, of which the first can be split."""
    repo.write("numbers", "".join(LINES))
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "numbers")
    checkpoint = open_workspace(repo.path).checkpoint().id
    repo.write("numbers", now(3, 6, 20, 40, 60))
    return checkpoint


def now(*changed: int) -> str:
    return "".join(line if n not in changed else f"{n} changed\n" for n, line in enumerate(LINES, 1))


def at_terminal(repo: Repo, words: list[str], answers: list[str], **variables: str) -> tuple[int, str]:
    """Run a command at a terminal of its own, and type an answer whenever it asks; its exit code, and what it shows."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "git_agentos", *words],
        cwd=repo.path, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": "1", **variables},
    )  # fmt: skip
    os.close(theirs)
    seen, asked = "", 0
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        ready, _, _ = select.select([ours], [], [], PATIENCE)
        try:
            data = os.read(ours, 4096) if ready else b""
        except OSError:  # the other end is closed
            data = b""
        if not data:
            break
        seen += data.decode(errors="replace").replace("\r\n", "\n")
        if seen.count("]? ") > asked and seen.endswith("]? ") and answers:
            asked = seen.count("]? ")
            os.write(ours, answers.pop(0).encode() + b"\n")
    os.close(ours)
    return process.wait(PATIENCE), seen


def test_at_a_terminal(repo: Repo, started: str) -> None:
    """The hunks are shown and asked for as by git; what is answered with y comes back, and undo takes that back."""
    code, seen = at_terminal(repo, ["restore", started, "-p"], ["y", "s", "n", "q"])
    assert code == 0, seen
    assert repo.read("numbers").decode() == now(20, 40, 60)
    assert "(1/4) Discard this hunk from worktree [y,n,q,a,d,j,J,g,/,s,e,p,?]? y" in seen
    assert "(2/4) Discard this hunk from worktree [y,n,q,a,d,K,j,J,g,/,e,p,?]? s" in seen
    assert "Sorry, 's' is not possible for this hunk" in seen
    assert "diff --git a/numbers b/numbers\n" in seen
    assert "@@ -1,9 +1,9 @@\n 1\n 2\n-3\n+3 changed\n 4\n 5\n-6\n+6 changed\n" in seen
    assert f"Restored checkpoint {started[:8]}: 1 path written.\nYou are still on branch 'main'.\n" in seen
    open_workspace(repo.path).undo()
    assert repo.read("numbers").decode() == now(3, 6, 20, 40, 60)


def test_without_a_terminal(repo: Repo, started: str) -> None:
    before = complete_state(repo.path, strict=True)
    for words in (["restore", started, "--patch"], ["--json", "restore", started, "--patch"]):
        done = run(repo.path, *words)
        assert done.code == 2, str(done)
        assert b"--hunks PATH:N" in done.err + done.out
    assert_unchanged(before, complete_state(repo.path, strict=True), "no terminal")


@pytest.mark.parametrize(
    ("answers", "left"),
    [
        ([], (3, 6, 20, 40, 60)),
        (["y"], (20, 40, 60)),
        (["a"], ()),
        (["n", "a"], (3, 6)),
        (["y", "d"], (20, 40, 60)),
        (["n", "y", "q"], (3, 6, 40, 60)),
        (["s", "y", "n", "n", "n", "n"], (6, 20, 40, 60)),
        (["s", "n", "y", "d"], (3, 20, 40, 60)),
        (["s", "a"], ()),
        (["j", "y", "n", "n", "y"], (40, 60)),
        (["J", "J", "y", "q"], (3, 6, 20, 60)),
        (["J", "J", "K", "y", "q"], (3, 6, 40, 60)),
        (["n", "J", "k", "y", "q"], (3, 6, 40, 60)),
        (["g3", "y", "q"], (3, 6, 20, 60)),
        (["g", "4", "y", "q"], (3, 6, 20, 40)),
        (["g9", "gx", "g", "", "n", "y", "d"], (3, 6, 40, 60)),
        (["/40 ch", "y", "q"], (3, 6, 20, 60)),
        (["/", "60 ch", "y", "q"], (3, 6, 20, 40)),
        (["/nowhere", "/[", "y", "d"], (20, 40, 60)),
        (["?", "p", "", "x", "y", "d"], (20, 40, 60)),
    ],
)
def test_every_key(repo: Repo, started: str, answers: list[str], left: tuple[int, ...]) -> None:
    _, seen = by_tool(repo, started, answers)
    assert repo.read("numbers").decode() == now(*left), seen


@pytest.mark.parametrize(
    "answers", [["s", "y", "n", "y", "y", "n"], ["g3", "y", "q"], ["/60 ch", "y", "q"], ["J", "J", "y", "d"]]
)
def test_git_does_the_same(repo: Repo, started: str, answers: list[str]) -> None:
    by_tool(repo, started, answers)
    ours = repo.read("numbers")
    repo.write("numbers", now(3, 6, 20, 40, 60))
    by_git(repo, answers)
    assert repo.read("numbers") == ours


def test_paths_limit_the_questions(repo: Repo, started: str) -> None:
    repo.append("readme.txt", "more\n")
    done, seen = by_tool(repo, started, ["y"], ["readme.txt"])
    assert (done.changed, "numbers" in seen) == (["readme.txt"], False)
    _, seen = by_tool(repo, started, [], ["readme.txt"])
    assert seen == "No changes.\n"


def test_kinds_of_questions(repo: Repo, started: str) -> None:
    repo.chmod("numbers", 0o755)
    repo.remove("notes.txt")
    repo.write("binary", b"\0")
    repo.write("empty", "")
    done, seen = by_tool(repo, started, ["n", "y", "y", "y", "n", "n", "n", "n"])
    assert (done.changed, done.removed) == (["notes.txt", "numbers"], ["empty"])
    assert "(1/1) Discard addition from worktree [y,n,q,a,d,p,?]? n" in seen
    assert "(1/1) Discard deletion from worktree [y,n,q,a,d,p,?]? y" in seen
    assert (
        "old mode 100644\nnew mode 100755\n(1/5) Discard mode change from worktree [y,n,q,a,d,j,J,g,/,p,?]? y" in seen
    )


def _editor(folder: Path, script: str) -> str:
    path = folder / "editor with blanks"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return f"'{path}' --wait"


def test_editing_at_a_terminal(repo: Repo, started: str, tmp_path: Path) -> None:
    """As git's instructions say: a + line that becomes context stays, what a - line says comes back."""
    editor = _editor(tmp_path, 'sed -i "s/^+3 changed/ 3 changed/; s/^-3$/-three/; s/^-6$/-six/" "$2"')
    code, seen = at_terminal(repo, ["restore", started, "-p"], ["e", "q"], GIT_EDITOR=editor)
    assert code == 0, seen
    wanted = now(3, 20, 40, 60).replace("3 changed\n", "three\n3 changed\n", 1).replace("\n6\n", "\nsix\n", 1)
    assert repo.read("numbers").decode() == wanted


@pytest.mark.parametrize(
    ("script", "answers", "said"),
    [
        ('sed -i "s/^ 4/ four/" "$2"', ["e", "n", "q"], "Your edited hunk does not apply"),
        ('echo "no mark" >"$2"', ["e", "n", "q"], "Your edited hunk does not apply"),
        (': >"$2"', ["e", "q"], ""),
        ("exit 1", ["e", "q"], "The editor failed"),
    ],
)
def test_editing_that_fails(
    repo: Repo,
    started: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    answers: list[str],
    said: str,
) -> None:
    monkeypatch.setenv("GIT_EDITOR", _editor(tmp_path, script))
    done, seen = by_tool(repo, started, answers)
    assert (done.saved, said in seen) == (None, True), seen
    assert repo.read("numbers").decode() == now(3, 6, 20, 40, 60)


def test_a_diff_on_a_terminal_shows_the_numbers(repo: Repo, started: str) -> None:
    repo.chmod("numbers", 0o755)
    _, seen = at_terminal(repo, ["checkpoint", "diff", started], [])
    assert "old mode 100644  (hunk 1)\nnew mode 100755\n" in seen
    assert "@@ -1,9 +1,9 @@  (hunk 2)\n" in seen
    # git applies it nevertheless.
    patch = "".join(seen.partition("diff --git")[1:])
    repo.git("stash", "-q")
    repo.git("apply", stdin=patch.encode())
    assert repo.read("numbers").decode() == now(3, 6, 20, 40, 60)
