"""Each real client plays one session in a guarded worktree, with our hooks in its settings.

The session: a harmless command; a destructive one; a file made by the client's own tool; one made by the shell; a
script that destroys what it can. What is left of the work, and what the model was told, is compared afterwards.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.clients import client as clients
from tests.clients.client import Client, Session, agentos, available, git
from tests.clients.model_server import ModelServer, Say, Shell, Write

pytestmark = [pytest.mark.slow, pytest.mark.clients]

_WRECK = """\
git reset --hard -q
rm -f untracked.txt
git checkout -q -f .
git clean -fdxq
git stash clear
git branch -D kept
"""


class Played(NamedTuple):
    """A session that is over: where it was, and what the model was told by each tool, in the script's order."""

    client: Client
    session: Session
    results: list[str]
    main: Path
    worktree: Path
    home: Path
    settings: dict[str, bytes]

    def agentos(self, *words: str, cwd: Path | None = None) -> str:
        return agentos(self.home, cwd or self.worktree, *words)

    def checkpoints(self) -> list[dict[str, Any]]:
        """Those of the worktree, the newest first."""
        found = json.loads(self.agentos("checkpoint", "list", "--json", "--max-count", "1000"))["checkpoints"]
        assert isinstance(found, list)
        return found

    def files_of(self, id_: str) -> set[str]:
        """The files of the worktree as a checkpoint has them."""
        listed = subprocess.run(
            ["git", "ls-tree", "-r", "--name-only", id_], cwd=self.worktree, capture_output=True, check=True, text=True
        )
        return set(listed.stdout.splitlines())


# opencode installs a library for plugins beside them, and has git ignore it.
_OPENCODE = {
    (".opencode", name) for name in ("node_modules", "package.json", "package-lock.json", "bun.lock", ".gitignore")
}


def settings_of(*tops: Path) -> dict[str, bytes]:
    """Every file below the folders, but for what git and git-agentos keep: settings of clients, and the work."""
    found = {}
    for top in tops:
        for path in sorted(top.rglob("*")):
            parts = path.relative_to(top).parts
            if path.is_file() and not {".git", ".agentos"}.intersection(parts) and parts[:2] not in _OPENCODE:
                found[str(path)] = path.read_bytes()
    return found


@pytest.fixture(scope="module", params=clients.CLIENTS, ids=lambda client: client.name)
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    client: Client = request.param
    available(client)
    top = tmp_path_factory.mktemp(client.name)
    home, main = top / "home", top / "main"
    home.mkdir()
    main.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\nname = A U Thor\nemail = author@example.com\n[init]\ndefaultBranch = main\n"
    )
    git(home, main, "init", "-q")
    git(home, main, "commit", "-q", "--allow-empty", "-m", "first")
    git(home, main, "branch", "kept")
    (main / "tracked.txt").write_text("as committed\n")
    git(home, main, "add", "tracked.txt")
    git(home, main, "commit", "-q", "-m", "second")
    agentos(home, main, "worktree", "create", "dev-1")
    worktree = Path(agentos(home, main, "worktree", "path", "dev-1").strip())
    exclude = main / ".git" / "info" / "exclude"
    before = {**settings_of(main, worktree), str(exclude): exclude.read_bytes() if exclude.exists() else b""}
    agentos(home, main, "guard", "integrate", client.name, "dev-1")
    (worktree / "tracked.txt").write_text("edited by a person\n")
    (worktree / "untracked.txt").write_text("untracked work\n")
    (worktree / "wreck.sh").write_text(_WRECK)
    script = (
        Shell("git status --short"),
        Shell("git reset --hard"),
        Write(str(worktree / "by-tool.txt"), "made by the client's tool\n"),
        Shell("echo made by the shell > by-shell.txt"),
        Shell("sh wreck.sh"),
        Say("the script is over"),
    )
    with ModelServer(script) as server:
        session = clients.run(client, server, home, worktree)
        yield Played(client, session, server.tool_results(), main, worktree, home, before)


def test_the_client_goes_on_to_the_end(played: Played) -> None:
    assert played.session.code == 0, played.session
    assert "the script is over" in played.session.out
    assert len(played.results) == 5, played.results


def test_a_harmless_command_is_not_stopped(played: Played) -> None:
    assert "?? untracked.txt" in played.results[0]


def test_the_model_reads_why_a_command_was_denied(played: Played) -> None:
    assert "stopped 'git reset --hard': discards all changes that are not committed" in played.results[1]
    assert "git agentos restore" in played.results[1]
    assert "timed out" not in played.results[1]


def test_destroyed_work_is_in_a_checkpoint(played: Played) -> None:
    """What a script of the agent destroyed is in a checkpoint of the moment before, byte for byte."""
    wanted = {
        "tracked.txt": b"edited by a person\n",
        "untracked.txt": b"untracked work\n",
        "by-tool.txt": b"made by the client's tool\n",
        "by-shell.txt": b"made by the shell\n",
    }
    for checkpoint in played.checkpoints():
        if {"untracked.txt", "by-tool.txt", "by-shell.txt"} <= set(checkpoint["untracked_files"]):
            break
    else:
        pytest.fail(f"no checkpoint has it all: {played.checkpoints()}")
    agentos(played.home, played.worktree, "restore", checkpoint["id"])
    assert {name: (played.worktree / name).read_bytes() for name in wanted} == wanted
    branches = subprocess.run(["git", "branch"], cwd=played.main, capture_output=True, text=True, check=True)
    assert "kept" in branches.stdout


def test_an_edit_becomes_a_checkpoint_with_its_prompt_and_session(played: Played) -> None:
    for name in ("by-tool.txt", "by-shell.txt"):
        made = [each for each in played.checkpoints() if name in each["untracked_files"]]
        first = made[-1]
        assert first["meta"]["harness"] == played.client.name, first
        assert first["meta"]["prompt"].strip('"') == clients.PROMPT, first  # opencode quotes its arguments
        assert first["session_id"], first


def test_settings_of_the_client_are_not_committed(played: Played) -> None:
    git(played.home, played.worktree, "add", "--all")
    staged = git(played.home, played.worktree, "diff", "--cached", "--name-only").split()
    assert set(staged) <= {"tracked.txt", "untracked.txt", "wreck.sh", "by-tool.txt", "by-shell.txt"}


def test_removing_it_leaves_the_settings_as_they_were(played: Played) -> None:
    """To the byte; the work is not looked at, nor what the client keeps in the home folder."""
    played.agentos("guard", "integrate", "--remove", played.client.name, "dev-1", cwd=played.main)
    exclude = played.main / ".git" / "info" / "exclude"
    after = {
        **settings_of(played.main, played.worktree),
        str(exclude): exclude.read_bytes() if exclude.exists() else b"",
    }
    work = {str(played.worktree / name) for name in
            ("tracked.txt", "untracked.txt", "wreck.sh", "by-tool.txt", "by-shell.txt")}  # fmt: skip
    assert {path: data for path, data in after.items() if path not in work} == {
        path: data for path, data in played.settings.items() if path not in work
    }
