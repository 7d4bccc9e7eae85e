"""A run's worktree to wreck and take back, and a really fresh one to compare it with."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from git_agentos import GitWorktreeWorkspaceService, WorkspaceContext
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.checkpoint.restore.request import Restoration
from git_agentos.run import rollback
from git_agentos.run.rollback import PRE_RUN, Rollback
from git_agentos.workspace import open_workspace
from tests.support.repo import Repo, git
from tests.support.state import STATUS, State, complete_state, differences

RUN = "r1"
SETUP = "mkdir -p cache/empty && echo made >made.txt && chmod 700 cache && ln -s made.txt cache/link"


@dataclass(frozen=True)
class Snapshot:
    """A worktree, complete: what `complete_state` has, and the permission bits of every folder."""

    state: State
    folders: dict[str, int]

    def unlike(self, other: Snapshot, *, refs: bool = True) -> list[str]:
        """What differs, one line each."""
        lines = differences(self.state, other.state, permissions="all", refs=refs)
        for path in sorted(self.folders.keys() | other.folders.keys()):
            one, two = self.folders.get(path), other.folders.get(path)
            if one != two:
                lines.append(f"folder {path!r}: {one and oct(one)} -> {two and oct(two)}")
        return lines


def snapshot(root: Path, *, by_content: bool = False) -> Snapshot:
    """Everything that counts of a worktree; `by_content` with the status of a git that looks into every file, where an
    edit may have escaped it: brought back, that edit is seen."""
    folders = {}
    for folder, inner, _ in os.walk(root):
        below = os.path.relpath(folder, root)
        folders[below] = stat.S_IMODE(os.lstat(folder).st_mode)
        inner[:] = [name for name in inner if name not in (".git", ".agentos")]
    state = complete_state(root)
    if by_content:
        state = replace(state, status=_status_by_content(root))
    # Ours does not count, whatever the agent has made of it.
    rows = [
        row for row in state.status.split(b"\0") if not row.startswith(b"? .agentos") and not row.endswith(b" .agentos")
    ]
    return Snapshot(replace(state, status=b"\0".join(rows)), folders)


def _status_by_content(root: Path) -> bytes:
    own = Path(os.fsdecode(git(root, "rev-parse", "--path-format=absolute", "--git-path", "index").removesuffix(b"\n")))
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "index"
        if own.exists():
            shutil.copy(own, copy)
            os.utime(copy, (1, 1))  # no entry is older than the index: git trusts none
        return git(root, *STATUS, env={"GIT_INDEX_FILE": str(copy)})


@dataclass(frozen=True)
class RolledBackWorktree:
    """A repository with one run that is ready to begin."""

    repo: Repo
    run: WorkspaceContext
    service: GitWorktreeWorkspaceService

    @property
    def path(self) -> Path:
        return Path(self.run.worktree_path)

    @property
    def there(self) -> Repo:
        """The run's worktree."""
        return Repo(self.path)

    @property
    def entry(self) -> Path:
        """git's entry of it."""
        return self.repo.path / ".git/worktrees" / self.path.name

    @property
    def context(self) -> OpenWorktree:
        return open_workspace(str(self.repo.path)).context

    def roll_back(self, point: str = PRE_RUN, *, dry_run: bool = False) -> Rollback:
        return rollback.rollback_worktree(self.context, self.run, point, dry_run=dry_run)

    def undo(self) -> Restoration:
        return open_workspace(str(self.path)).undo()

    def look(self, *, by_content: bool = False) -> Snapshot:
        return snapshot(self.path, by_content=by_content)

    def fresh(self) -> Snapshot:
        """What `git worktree add` and the set-up give at the run's base: really made, and looked at."""
        place = self.repo.path.with_name("fresh") / self.path.name
        if place.exists():
            self.repo.git("worktree", "remove", "--force", "--force", str(place))
        self.repo.git("worktree", "add", "--quiet", "--force", "--detach", str(place), self.run.base_sha)
        # HEAD as the run's was made; the branch itself may be anywhere.
        Repo(place).git("symbolic-ref", "HEAD", f"refs/heads/{self.run.branch_name}")
        if (self.repo.path / ".env").exists():
            shutil.copy2(self.repo.path / ".env", place / ".env")
            os.system(f"cd '{place}' && {SETUP}")
        found = snapshot(place)
        self.repo.git("worktree", "remove", "--force", "--force", str(place))
        return found

    def assert_fresh(self, what: str = "after the rollback") -> None:
        """The worktree is what a fresh one is, its branch at the base."""
        branch = self.repo.text("rev-parse", f"refs/heads/{self.run.branch_name}").strip()
        assert branch == self.run.base_sha, what
        assert_like(self.fresh(), self.look(), what)


def assert_like(wanted: Snapshot, found: Snapshot, what: str, *, refs: bool = True) -> None:
    lines = wanted.unlike(found, refs=refs)
    assert not lines, "\n  ".join([what, *lines[:40]])


def prepare(repo: Repo, *, set_up: bool = True, guard: bool = False, agent: str | None = None) -> RolledBackWorktree:
    """A run on the repository, with set-up files, ignored ones, and a set-up command."""
    if set_up:
        repo.write(".gitignore", ".env\ncache/\nmade.txt\nbuild/\n*.log\n")
        repo.write(".worktreeinclude", ".env\n")
        repo.commit("what is not git's")
        repo.write(".env", "secret\n", 0o600)
        repo.config("agentos.setup", SETUP)
    service = GitWorktreeWorkspaceService(str(repo.path), guard=guard, agent_id=agent)
    return RolledBackWorktree(repo, service.prepare_pre_run(run_id=RUN), service)


def work(there: Repo) -> None:
    """What an agent does in an afternoon."""
    there.write("committed.txt", "committed\n")
    there.commit("work of the agent")
    there.write("staged.txt", "staged\n")
    there.add("staged.txt")
    there.append("staged.txt", "and changed again\n")
    there.append("readme.txt", "changed\n")
    there.remove("data.bin")
    there.write("new folder/untracked.txt", "untracked\n")
    there.write("build/deep/out.bin", bytes(range(256)))
    there.mkdir("build/empty")
    there.mkdir("empty/in/empty")
    there.write("agent.log", "ignored\n")
    there.write(".env", "edited\n")
    there.remove("made.txt")
