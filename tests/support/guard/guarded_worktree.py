"""Agents' worktrees with layers 1 and 2 on, and a look at what their hooks do."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from git_agentos import open_workspace
from git_agentos.checkpoint.model import Checkpoint
from git_agentos.git.location import Location, locate
from git_agentos.guard.approval import approvals
from git_agentos.guard.setup import activation, own_files, scripts
from tests.support import daemon
from tests.support.agents import agent_worktree
from tests.support.repo import Repo


@dataclass(frozen=True)
class ShellResult:
    """What a command did."""

    code: int
    out: str
    err: str


def guarded(repo: Repo, id_: str = "dev", base: str = "main") -> Repo:
    """A managed worktree of `repo` where the guard is on."""
    made = agent_worktree(repo, id_, base)
    activation.enable(location(made))
    daemon.start(made.path)  # for its hooks
    return made


def unguarded(repo: Repo) -> Repo:
    """A linked worktree of `repo` without the guard, `plain`, on a branch of an agent's kind."""
    path = repo.path.parent / "repo.worktrees" / "plain"
    repo.git("worktree", "add", "-q", "-b", "agent/plain", str(path), "main")
    return Repo(path)


def location(repo: Repo) -> Location:
    return locate(str(repo.path), use_environment=False)


def scripts_dir(repo: Repo) -> Path:
    """The folder of the placed scripts."""
    return Path(scripts.hooks_dir(location(repo).common_dir))


def sign_placed(common_dir: str) -> None:
    """Sign the scripts as they are, as an earlier installation would have placed them."""
    found = {}
    for path in (*Path(scripts.hooks_dir(common_dir)).iterdir(), *Path(scripts.shim_dir(common_dir)).iterdir()):
        mode = path.stat().st_mode & 0o777
        found[f"{path.parent.name}/{path.name}"] = (hashlib.sha256(path.read_bytes()).hexdigest(), mode)
    own_files.write(scripts.digests_path(common_dir), own_files.signed_json("files", found), 0o644)


def sh(repo: Repo, text: str, env: Mapping[str, str] | None = None, stdin: bytes = b"", cwd: str = "") -> ShellResult:
    """Run shell text in a worktree."""
    done = subprocess.run(
        ["sh", "-c", text],
        cwd=repo.path / cwd,
        input=stdin,
        capture_output=True,
        check=False,
        env=None if env is None else {**os.environ, **env},
        timeout=120,
    )
    return ShellResult(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def notes_of(repo: Repo, notes: Path, texts: Iterable[str]) -> str:
    """Run shell texts, which must succeed, in a worktree; what the hooks have written to `notes`, without the paths and
    the name of this worktree."""
    notes.write_text("")
    for text in texts:
        done = sh(repo, text)
        assert done.code == 0, (repo.path.name, text, done)
    return notes.read_text().replace(str(repo.path.parents[1]), "").replace(repo.path.name, "HERE")


def checkpoints(repo: Repo, trigger: str | None = None) -> list[Checkpoint]:
    """Those of the worktree's own timeline, newest first."""
    return open_workspace(repo.path).checkpoints(trigger=trigger)


def grant_all(repo: Repo) -> list[str]:
    """Grant every request that waits, as an orchestrator would; their ids."""
    place_ = approvals.open_store(location(repo).common_dir, os.environ, expiry=3600)
    waiting = [each.id for each in approvals.read_all(place_) if each.state == approvals.PENDING]
    for id_ in waiting:
        approvals.grant(place_, id_, by="test")
    return waiting


def without_files(repo: Repo) -> None:
    """Switch layer 1 off behind the guard's back: what layer 2 does alone is seen."""
    repo.git("config", "--worktree", "core.fsmonitor", "false")


def without_refs(repo: Repo) -> None:
    """The same with layer 2."""
    repo.git("config", "--worktree", "core.hooksPath", "/dev/null")


class Spy:
    """Which hooks started Python, by name and in order: the placed script that starts it notes so first."""

    def __init__(self, repo: Repo) -> None:
        self._log = repo.scratch / "started"
        script = scripts_dir(repo) / "guard.sh"
        text = script.read_text()
        assert "\nagentos() {\n" in text
        script.write_text(text.replace("\nagentos() {\n", f"\nagentos() {{\n\techo \"$1\" >>'{self._log}'\n"))

    def started(self) -> list[str]:
        """Those since the last call; looking configuration up again does not count."""
        return list(self._read())

    def _read(self) -> Iterator[str]:
        if self._log.exists():
            for line in self._log.read_text().splitlines():
                if line != "refresh":
                    yield line
            self._log.unlink()
