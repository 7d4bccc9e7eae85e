"""What shell text does to files, seen by a harness: whatever a line takes away was saved before, or it did not run.

The lines of `shell_lines` go through the adapter of a harness; one that is not denied is then run by bash, as the
harness would. The world has an agent's own worktree, another agent's, the person's main checkout, and other
repositories.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from git_agentos.guard.assessment import named_files
from git_agentos.guard.harness import handler
from tests.support.agents import agent_worktree
from tests.support.guard import shell_lines
from tests.support.guard.guarded_worktree import grant_all
from tests.support.repo import Repo, blob_id, git
from tests.support.tool import run_ok

_FILES = {
    "notes.txt": "notes\nnotes\nnotes\n",
    "src/a.py": "a\n",
    "src/b.py": "b\n",
    "wipe.py": "open('untracked.txt', 'w'); open('notes.txt', 'w')\n",
    "wipe.sh": "#!/bin/sh\nrm -rf src untracked.txt\n",
    "Makefile": "all:\n\trm -rf src untracked.txt\n",
    "x.diff": "--- a/notes.txt\n+++ b/notes.txt\n@@ -1,3 +1,3 @@\n-notes\n+gone\n notes\n notes\n",
    ".gitignore": ".env\nbuild/\n*.log\n*.pyc\n__pycache__\n",
}


@dataclass(frozen=True)
class World:
    root: Path

    @property
    def main(self) -> Repo:
        return Repo(self.root / "app")

    @property
    def own(self) -> Repo:
        return Repo(self.root / "app.worktrees" / "dev")

    @property
    def other(self) -> Repo:
        return Repo(self.root / "app.worktrees" / "other")

    def text(self, line: str) -> str:
        return line.format(
            main=self.main.path,
            other=self.other.path,
            out=self.root / "out",
            repository=self.root / "lone",
            bare=self.root / "bare.git",
            git=self.main.path / ".git",
        )

    def ask(self, line: str, *, cwd: Path | None = None) -> tuple[str | None, str]:
        """Why the harness is told not to run a line, None where it is not; and what else it is told."""
        where = str(cwd or self.own.path)
        found = handler.respond(
            "claude-code", self.event(line, where), handler.Caller(where, dict(os.environ), os.getpid())
        )
        said = json.loads(found.stdout)
        return said.get("hookSpecificOutput", {}).get("permissionDecisionReason"), said.get("systemMessage", "")

    def event(self, line: str, cwd: str) -> bytes:
        given = {"command": self.text(line)}
        body = {
            "session_id": "s",
            "cwd": cwd,
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": given,
        }
        return json.dumps(body).encode()

    def run(self, line: str) -> None:
        command = ["bash", "-c", self.text(line)]
        subprocess.run(command, cwd=self.own.path, capture_output=True, input=b"", timeout=60, check=False)

    def files(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in self._paths()}

    def _paths(self) -> Iterator[Path]:
        for top in (self.main.path, self.own.path, self.other.path, self.root / "lone", self.root / "home"):
            for folder, folders, names in os.walk(top):
                folders[:] = [name for name in folders if name not in (".git", ".agentos")]
                yield from (path for name in names if (path := Path(folder, name)).is_file() and not path.is_symlink())

    def saved(self) -> str:
        """Every object that a checkpoint reaches."""
        return self.main.text("rev-list", "--objects", "--glob=refs/agentos")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The world as it begins; its copies are made in the place where it was made, since worktrees know their paths."""
    root = tmp_path_factory.mktemp("world") / "w"
    world = World(root)
    (root / "home").mkdir(parents=True)
    (root / "home" / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.com\n")
    main = Repo.init(world.main.path, "-b", "main")
    for name, text in _FILES.items():
        main.write(name, text)
    (main.path / "wipe.sh").chmod(0o755)
    main.commit("first")
    for each in (main, agent_worktree(main, "dev"), agent_worktree(main, "other")):
        (each.path / "linked").symlink_to(world.main.path / "src")
        where = each.path.name
        each.append("src/a.py", f"edited in {where}\n")
        each.append("notes.txt", f"more in {where}\n")
        each.write("untracked.txt", f"untracked in {where}\n")
        each.write(".env", f"SECRET={where}\n")
        each.write("build/out", f"an hour of building in {where}\n")
    lone = Repo.init(root / "lone")
    lone.write("file.txt", "another project\n")
    lone.commit("first")
    git(root, "init", "-q", "--bare", str(root / "bare.git"))
    (root / "out").mkdir()
    (root / "out" / "a.txt").write_text("nobody's\n")
    shutil.copytree(root, root.parent / "template", symlinks=True)
    return root


@pytest.fixture
def world(template: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return begin(template, monkeypatch)


def begin(template: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The world as it was."""
    subprocess.run(["chmod", "-R", "u+rwx", str(template)], check=False)
    shutil.rmtree(template, ignore_errors=True)
    shutil.copytree(template.parent / "template", template, symlinks=True)
    monkeypatch.setenv("HOME", str(template / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    return World(template)


_OUTSIDE = ("other-worktree", "file-outside", "guard-change", "git-dir-write")


def test_files_elsewhere_need_approval(world: World) -> None:
    before = world.files()
    for line in shell_lines.ELSEWHERE:
        reason, _ = world.ask(line)
        assert reason is not None, line
        assert any(f"rule: {name}" in reason for name in _OUTSIDE), (line, reason)
    assert world.files().items() >= before.items()


def test_removed_files_were_saved_first(template: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in shell_lines.OWN:
        world = begin(template, monkeypatch)
        before = world.files()
        reason, _ = world.ask(line)
        assert reason is None, (line, reason)
        world.run(line)
        after, saved = world.files(), world.saved()
        gone = {path: data for path, data in before.items() if after.get(path) != data}
        lost = [path.relative_to(world.root) for path, data in gone.items() if blob_id(data) not in saved]
        assert not lost, line


@pytest.mark.parametrize("where", ["own", "main"])
def test_everyday_work_goes_on(world: World, where: str) -> None:
    cwd = world.own.path if where == "own" else world.main.path
    for line in shell_lines.HARMLESS:
        assert world.ask(line, cwd=cwd) == (None, ""), line


def test_in_processes_of_their_own(world: World) -> None:
    def told(line: str) -> str:
        data = world.event(line, str(world.own.path))
        command = [sys.executable, "-m", "git_agentos", "guard", "harness", "claude-code"]
        return subprocess.run(command, cwd=world.own.path, input=data, capture_output=True, check=True).stdout.decode()

    assert "rule: other-worktree" in told("rm -rf {main}/src")
    assert json.loads(told("rm -rf .env build")) == {}
    world.run("rm -rf .env build")
    run_ok(world.own.path, "restore", "latest", "--no-branch")
    assert (world.own.path / ".env").read_text() == "SECRET=dev\n"
    assert (world.own.path / "build/out").exists()


def test_granted_command_is_saved_in_its_worktree(world: World) -> None:
    line = "rm -rf ../other/src"
    assert world.ask(line)[0] is not None
    grant_all(world.own)
    assert world.ask(line)[0] is None
    (newest, *_) = run_ok(world.other.path, "checkpoint", "list")["checkpoints"]
    assert newest["trigger"] == "before_risky" and "src/a.py" in newest["unstaged_changes"]


# -- a checkpoint where something changed, and only there --------------------------------------------------------------


def ids(world: World) -> list[str]:
    return [each["id"] for each in run_ok(world.own.path, "checkpoint", "list")["checkpoints"]]


def test_unknown_program_is_preceded_by_one_checkpoint(world: World) -> None:
    for line in ("ls", "git status", "cat notes.txt | sort", "awk '{{print $1}}' notes.txt"):
        assert world.ask(line) == (None, "")
    assert ids(world) == []
    for line in ("make", "python3 x.py", "make", "npm test"):
        assert world.ask(line) == (None, "")
    assert len(ids(world)) == 1
    world.own.append("notes.txt", "edited\n")
    assert world.ask("make") == (None, "")
    assert world.ask("make") == (None, "")
    assert len(ids(world)) == 2


@pytest.mark.parametrize(
    "change",
    ["echo x >> notes.txt", "git add notes.txt", "git commit -qam x", "chmod +x notes.txt", "rm untracked.txt",
     "git switch -qc new", "touch new.txt", "git update-index --assume-unchanged notes.txt"],
)  # fmt: skip
def test_every_change_is_seen(world: World, change: str) -> None:
    world.ask("make")
    world.ask("make")  # by now it is noted that nothing has changed
    before = ids(world)
    world.run(change)
    world.ask("make")
    assert len(ids(world)) == len(before) + 1


def test_unchanged_worktree_imports_no_checkpoint_code(world: World) -> None:
    world.ask("make")
    world.ask("make")
    code = (
        "import json, os, sys; from git_agentos.guard.harness import handler;"
        "caller = handler.Caller(os.getcwd(), dict(os.environ), os.getpid());"
        "handler.respond('claude-code', sys.stdin.buffer.read(), caller);"
        "print('pygit2' in sys.modules)"
    )
    data = world.event("make", str(world.own.path))
    # Files that were written just now are looked at again, until their times tell.
    outs = [
        subprocess.run([sys.executable, "-c", code], cwd=world.own.path, input=data, capture_output=True, check=True)
        for _ in range(2)
    ]
    assert outs[-1].stdout == b"False\n"


# -- ignored files -----------------------------------------------------------------------------------------------------


def test_ignored_files_beyond_the_bounds_are_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_files, "MOST_FILES", 2)
    for n in range(4):
        world.own.write(f"build/{n}", "x" * n)
    reason, said = world.ask("rm -rf build .env")
    assert reason is None
    assert "4 of 6 ignored files are not saved" in said and "agentos.maxFileSize" in said
    world.main.git("config", "agentos.maxFileSize", "4")
    assert "'.env'" in world.ask("rm -f .env")[1]


def test_ignored_repository_is_saved(world: World) -> None:
    inner = Repo.init(world.own.path / "build" / "inner")
    inner.write("only.txt", "only here\n")
    inner.commit("nobody pushed this")
    inner.append("only.txt", "and not committed\n")
    assert world.ask("rm -rf build")[0] is None
    world.run("rm -rf build")
    run_ok(world.own.path, "restore", "latest", "--no-branch")
    assert (world.own.path / "build/inner/only.txt").read_text() == "only here\nand not committed\n"


def test_files_read_by_a_program_are_not_saved(world: World) -> None:
    for line in ("python3 x.py .env", "make", "npm test", "node --env-file=.env x.js"):
        world.ask(line)
    assert blob_id((world.own.path / ".env").read_bytes()) not in world.saved()
