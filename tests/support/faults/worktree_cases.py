"""A repository with its agents' worktrees beside it: made ready, copied, observed as a whole."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import at_rest
from tests.support.faults.server import Runner
from tests.support.repo import Repo, filled, git_run
from tests.support.sampling import EXHAUSTIVE, budget, evenly
from tests.support.state import State, complete_state, differences

Prepare = Callable[[Runner, Repo], list[str]]
ID = "dev-001"
_TICK = 0.03
_TIMES = ("created_at", "completed_at", "created_by", "changes_from")
_WEIGHTY = re.compile(
    r"agentos-trash|agentos/trash|heads/agent|packed-refs|worktree add|worktrees/dev-001\.(json|owner)$"
)
_RESTORE = re.compile(r"refs/heads/restore/[0-9a-f]{8}/\d{8}T\d{6}Z(-\d+)?")


@dataclass(frozen=True)
class Snapshot:
    """Everything that counts: the main worktree, each other one by its folder's name, what git and we know of them,
    the refs (without timelines), the branches' reflogs and configuration."""

    main: State
    worktrees: Mapping[str, State]
    names: tuple[str, ...]
    listed: str
    records: Mapping[str, Mapping[str, Any]]
    refs: Mapping[str, str]
    branches: tuple[str, ...]


@dataclass(frozen=True)
class WorktreeCase:
    """A command on a prepared field: `before` and `after` are the whole worlds, `steps` those of a run to the end."""

    template: Path
    place: Path
    argv: tuple[str, ...]
    before: Snapshot
    after: Snapshot
    steps: list[str]

    @property
    def repo(self) -> Repo:
        return Repo(self.place / "repo")

    def fresh(self) -> Repo:
        at_rest.copy(self.template, self.place)
        # What has just been written may still be changing: whoever saves it looks twice.
        time.sleep(_TICK)
        return self.repo


def new_repository(folder: Path) -> Repo:
    """A repository in a folder of its own, which its worktrees share."""
    return filled(folder / "field" / "repo")


def prepare(runner: Runner, repo: Repo, *argv: str, template: str = "field.template") -> WorktreeCase:
    """Make a case of the field as it is now and a command, which must succeed."""
    place = repo.path.parent
    kept = place.with_name(template)
    at_rest.copy(place, kept)
    before = snapshot(repo)
    # In a copy, as every attempt: git's stat data is no longer that of the files, and there is more to do.
    at_rest.copy(kept, place)
    time.sleep(_TICK)
    done = runner.run_ok(repo.path, *argv)
    return WorktreeCase(kept, place, argv, before, snapshot(repo), done.steps)


def snapshot(repo: Repo) -> Snapshot:
    folder = repo.path.with_name("repo.worktrees")
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    records = {}
    for path in sorted((repo.path / ".git/worktrees").glob("*/agentos/worktree.json")):
        body = json.loads(path.read_text())
        records[path.parts[-3]] = {key: value for key, value in body.items() if key not in _TIMES}
    refs = {}
    for line in repo.text("for-each-ref", "--format=%(refname) %(objectname)").splitlines():
        name, _, oid = line.partition(" ")
        if not name.startswith("refs/agentos/"):
            refs[_RESTORE.sub("refs/heads/restore", name)] = oid
    config = repo.text("config", "--local", "--list").splitlines()
    found = [path for path in (repo.path / ".git/logs/refs/heads").rglob("*") if path.is_file()]
    logs = [str(path.relative_to(repo.path)) for path in found if "restore" not in path.parts]
    return Snapshot(
        main=complete_state(repo.path),
        worktrees={name: complete_state(folder / name) for name in names if (folder / name / ".git").exists()},
        names=tuple(names),
        listed=repo.text("worktree", "list", "--porcelain"),
        records=records,
        refs=refs,
        branches=(*(line for line in config if line.startswith("branch.")), *sorted(logs)),
    )


def differing(wanted: Snapshot, found: Snapshot) -> list[str]:
    """What differs, in words."""
    lines = [f"main: {line}" for line in differences(wanted.main, found.main, permissions="all")]
    for name in wanted.worktrees.keys() & found.worktrees.keys():
        inner = differences(wanted.worktrees[name], found.worktrees[name], permissions="all")
        lines += [f"{name}: {line}" for line in inner]
    for what in ("names", "listed", "records", "refs", "branches"):
        one, other = getattr(wanted, what), getattr(found, what)
        if one != other:
            lines.append(f"{what}: {one!r} -> {other!r}")
    return lines


def assert_sound(repo: Repo, what: str) -> None:
    """git finds nothing wrong, and nothing of ours lies about."""
    checked = git_run(repo.path, "fsck", "--strict", "--no-dangling", "--no-progress")
    assert checked.returncode == 0, f"{what}: git fsck: {checked.stderr.decode()}{checked.stdout.decode()}"
    git_dir = repo.path / ".git"
    left = [path for path in git_dir.rglob("*.lock") if "objects" not in path.parts]
    for folder in ("agentos/tmp", "agentos/locks", "agentos/worktrees", "agentos/trash"):
        left += (git_dir / folder).glob("*") if (git_dir / folder).is_dir() else []
    for entry in (git_dir / "worktrees").glob("*"):
        left += [path for path in (entry / "agentos").rglob("*") if path.name in ("trashed", "journal.json")]
        left += entry.rglob("*.new")
        left += (entry / "agentos/tmp").glob("*")
    worktrees = repo.path.with_name("repo.worktrees")
    left += worktrees.glob(".agentos-trash") if worktrees.is_dir() else []
    assert not left, f"{what}: left behind: {', '.join(str(path) for path in left)}"


def sample_steps(field: WorktreeCase, most: int, *, beyond: int = 0) -> Iterator[int]:
    """The steps to strike at: all when exhaustive; else the weighty ones and then evenly, up to `most`.

    The number of steps varies from run to run: `beyond` the last one some are tried too, and may be none.
    """
    total, most = len(field.steps), budget(most)
    if EXHAUSTIVE or total <= most:
        yield from range(1, total + beyond + 1)
        return
    weighty = [n for n, step in enumerate(field.steps, 1) if _WEIGHTY.search(step.replace(str(field.place), ""))]
    picked = {*weighty[:1], *evenly(weighty, most // 2)}
    # The last steps are where it is decided. Their number varies with the folders that new objects need.
    picked |= set(range(total - 2 * beyond, total + beyond + 1, 4)) if beyond else set(range(total - 8, total + 1))
    others = [n for n in range(1, total + 1) if n not in picked]
    yield from sorted(picked | set(evenly(others, most - len(picked))))


# -- what is killed ------------------------------------------------------------------------------------------------


def make(runner: Runner, repo: Repo, *options: str) -> Repo:
    runner.run_ok(repo.path, "worktree", "create", ID, *options)
    return Repo(repo.path.with_name("repo.worktrees") / ID)


def work(there: Repo) -> None:
    """Dirty in every way: staged, unstaged, untracked, ignored, a commit that no ref has, a repository inside."""
    there.write("committed.txt", "committed\n")
    there.commit("work of the agent")
    there.git("checkout", "-q", "--detach")
    there.write("aside.txt", "committed on a detached HEAD\n")
    there.commit("nobody has this one")
    there.git("checkout", "-q", f"agent/{ID}")
    there.write(".gitignore", "build/\n*.log\n")
    there.write("notes.txt", "staged\n")
    there.add("notes.txt")
    there.append("notes.txt", "not staged\n")
    there.remove("data.bin")
    there.chmod("docs/guide.md", 0o755)
    there.write("new/untracked.txt", "untracked\n")
    there.write("build/deep/out.bin", bytes(range(256)))
    there.write("agent.log", "ignored\n")
    filled(there.path / "nested").append("readme.txt", "dirty\n")


def create(runner: Runner, repo: Repo) -> list[str]:
    return ["worktree", "create", ID, "--task", "T-1"]


def create_ready(runner: Runner, repo: Repo) -> list[str]:
    repo.write(".gitignore", ".env\nmade.txt\n")
    repo.write(".worktreeinclude", ".env\n")
    repo.commit("rules")
    repo.write(".env", "secret\n")
    repo.config("agentos.setup", "echo made >made.txt")
    return ["worktree", "create", ID]


def create_with_changes(runner: Runner, repo: Repo) -> list[str]:
    repo.write(".gitignore", "build/\n*.log\nmade.txt\n")
    repo.write("notes.txt", "staged\n")
    repo.add("notes.txt")
    repo.append("notes.txt", "not staged\n")
    repo.remove("data.bin")
    repo.write("new/untracked.txt", "untracked\n")
    repo.config("agentos.setup", "cat notes.txt >made.txt")
    return ["worktree", "create", ID, "--with-changes"]


def remove_clean(runner: Runner, repo: Repo) -> list[str]:
    make(runner, repo)
    return ["worktree", "remove", ID]


def remove(runner: Runner, repo: Repo) -> list[str]:
    work(make(runner, repo))
    return ["worktree", "remove", ID]


def remove_with_branch(runner: Runner, repo: Repo) -> list[str]:
    there = make(runner, repo)
    there.write("committed.txt", "committed\n")
    there.commit("work of the agent")
    repo.git("pack-refs", "--all")
    repo.config(f"branch.agent/{ID}.description", "what it is for")
    there.append("committed.txt", "dirty\n")
    return ["worktree", "remove", ID, "--delete-branch"]


def archive(runner: Runner, repo: Repo) -> list[str]:
    work(make(runner, repo))
    runner.run_ok(repo.path.with_name("repo.worktrees") / ID, "log", "add", "decision", "to do it so")
    return ["worktree", "archive", ID]


def revive(runner: Runner, repo: Repo) -> list[str]:
    runner.run_ok(repo.path, *archive(runner, repo))
    return ["worktree", "create", ID, "--revive"]


def revive_without_branch(runner: Runner, repo: Repo) -> list[str]:
    runner.run_ok(repo.path, *remove_with_branch(runner, repo))
    return ["worktree", "create", ID, "--revive"]


CASES: dict[str, Prepare] = {
    "create": create,
    "create-ready": create_ready,
    "create-with-changes": create_with_changes,
    "remove-clean": remove_clean,
    "remove": remove,
    "remove-with-branch": remove_with_branch,
    "archive": archive,
    "revive": revive,
    "revive-without-branch": revive_without_branch,
}
