"""Cherry-pick after a `before_risky` checkpoint; a conflict can be continued or aborted.

git picks the commits, with the user's own configuration and hooks. The guard's hooks are not run: this command is what
the guard recommends instead of `git cherry-pick`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from git_agentos.checkpoint import operation
from git_agentos.checkpoint.creation import create_checkpoint
from git_agentos.checkpoint.model import Metadata
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import GitCommandError, RestoreError, UsageError
from git_agentos.git import process, refs, user_hooks
from git_agentos.git.location import Location
from git_agentos.git.repository import Repository
from git_agentos.git.scan import Scan


@dataclass(frozen=True)
class Pick:
    """The result of a pick: `state` is `done`, `conflict` or `aborted`; `picked` are the new commits, oldest first;
    `saved` is the checkpoint of the state before; `conflicts` are the paths to resolve."""

    picked: list[str]
    head: str | None
    saved: str | None
    conflicts: list[str]
    state: str


def pick(worktree: OpenWorktree, metadata: Metadata, commits: Sequence[str]) -> Pick:
    """Apply the changes of `commits` (revisions or ranges) on top of HEAD."""
    if not commits:
        raise UsageError("name at least one commit to pick")
    if any(commit.startswith("-") for commit in commits):
        raise UsageError("a commit cannot begin with '-'")
    working = operation.name_of(operation.read(worktree.location))
    if working not in (None, "bisect"):
        raise RestoreError(f"a {working} is in progress", "finish or abort it first; nothing was changed")
    for commit in commits:
        try:
            worktree.repository.git("rev-list", "--no-walk" if ".." not in commit else "--max-count=1", commit, "--")
        except GitCommandError as error:
            raise UsageError(f"'{commit}' is not a commit") from error
    return _run(worktree, metadata, ["cherry-pick", *commits])


def resume(worktree: OpenWorktree, metadata: Metadata) -> Pick:
    """`git cherry-pick --continue`, with the message as it is."""
    _require(worktree.repository)
    return _run(worktree, metadata, ["-c", "core.editor=true", "cherry-pick", "--continue"])


def abort(worktree: OpenWorktree, metadata: Metadata) -> Pick:
    """`git cherry-pick --abort`."""
    _require(worktree.repository)
    done = _run(worktree, metadata, ["cherry-pick", "--abort"])
    return replace(done, picked=[], state="aborted")


def _require(repository: Repository) -> None:
    if operation.name_of(operation.read(repository.location)) != "cherry-pick":
        raise RestoreError("no pick is in progress")


def _run(worktree: OpenWorktree, metadata: Metadata, args: list[str]) -> Pick:
    location = worktree.location
    command = " ".join(arg for arg in args if not arg.startswith("-c") and "core.editor" not in arg)
    before = refs.read_head(location).commit
    risky = metadata._replace(trigger="before_risky", description=f"before git {command}", meta={"command": command})
    saved = create_checkpoint(worktree, risky).checkpoint.id
    # The user's own command: their hooks run, their identity commits, their filters apply.
    given = {"GIT_DIR": location.git_dir, "GIT_WORK_TREE": location.root, "GIT_EDITOR": "true", "LC_ALL": "C"}
    env = process.user_environment(given)
    status, err = _git(location, args, env)
    while status != 0 and _is_empty(worktree.repository):
        # HEAD has this change already; skip it, and pick the remaining commits.
        status, err = _git(location, ["cherry-pick", "--skip"], env)
    scanned = Scan(location).read()
    conflicts = [os.fsdecode(entry.path) for entry in scanned.unmerged]
    head = refs.read_head(location).commit
    picked: list[str] = []
    if head is not None and head != before:
        span = f"{before}..{head}" if before is not None else head
        if before is None or worktree.repository.is_ancestor(before, head):
            picked = worktree.repository.git("rev-list", "--reverse", span).decode().split()
    working = operation.name_of(operation.read(location))
    if status == 0:
        return Pick(picked, head, saved, [], "done")
    if working == "cherry-pick":
        return Pick(picked, head, saved, conflicts, "conflict")
    raise process.failure(args, status, err)


def _git(location: Location, args: list[str], env: Mapping[str, str]) -> tuple[int, bytes]:
    child = process.spawn([*user_hooks.options(location), *args], cwd=location.root, env=env, neutral_config=False)
    status, _, err = process.finish(child)
    return status, err


def _is_empty(repository: Repository) -> bool:
    """Whether the pick stopped at a commit that changes nothing."""
    if refs.resolve(repository.location, "CHERRY_PICK_HEAD") is None:
        return False
    if repository.git("ls-files", "--unmerged", "-z"):
        return False
    return not repository.git("diff-index", "--cached", "--name-only", "--no-renames", "HEAD")
