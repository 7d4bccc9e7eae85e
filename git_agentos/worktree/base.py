"""The base of a worktree: the commit that it begins at, and how far its commits are ahead of the base and behind, and
integrated into it.

The base is later the present tip of `base_ref`, as long as that names a commit; else HEAD of the main worktree. A
worktree is integrated where

    same-commit      HEAD is the base's tip
    ancestor         the base's tip descends from HEAD
    equal-tree       the contents are the same
    squash-merged    a commit on the base since the fork makes the same change as the whole branch (by patch id)
    nothing-to-add   merging it, in memory, would change nothing
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Sequence

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, RepositoryError, UsageError, WorktreeError
from git_agentos.git import merge_tree, process, refs, trees
from git_agentos.worktree import layout
from git_agentos.worktree.record import Record

# Commits on the base whose change is compared with the branch's; beyond that, only the merge decides.
_MAX_COMMITS = 500


def base_of(context: OpenWorktree, from_ref: str | None) -> tuple[str, str]:
    """The name of a new worktree's base, and its commit: `from_ref`, or HEAD of the worktree of `context`."""
    head = refs.read_head(context.location)
    if from_ref is None:
        if head.commit is None:
            raise WorktreeError(
                "there is no commit yet to begin a worktree from", "make a first commit, or give --from"
            )
        return head.branch or head.commit, head.commit
    oid = context.repository.find_commit(from_ref)
    if oid is None:
        raise WorktreeError(f"'{from_ref}' is not a commit", "give a branch, a tag or a commit id; nothing was changed")
    return _base_name(context, from_ref) or oid, oid


def _base_name(context: OpenWorktree, from_ref: str) -> str | None:
    """The short name of the branch or tag that `from_ref` names, in full where that is ambiguous; None for everything
    else: an expression like `HEAD~1` means another commit in another worktree."""
    full = symbolic_name(context, from_ref)
    for prefix in (layout.HEADS, "refs/remotes/", "refs/tags/"):
        if full.startswith(prefix):
            short = full.removeprefix(prefix)
            found = find_base_ref(context, short)
            return from_ref if from_ref == full else short if found == full else full
    return None


def symbolic_name(context: OpenWorktree, name: str) -> str:
    """The full name of the ref that `name` is; empty for everything else."""
    args = ["rev-parse", "--symbolic-full-name", "--verify", "--quiet", "--end-of-options", name]
    return os.fsdecode(context.repository.git(*args, ok=(0, 1, 128)).strip().removeprefix(b"--end-of-options").strip())


def folders(context: OpenWorktree, base: str, paths: Sequence[str]) -> tuple[str, ...]:
    """The folders of a sparse checkout, from the top; UsageError for what cannot be one."""
    found = []
    tree = context.repository.commit_tree(base)
    for path in paths:
        name = os.path.normpath(path)
        if os.path.isabs(name) or name.split(os.sep)[0] in ("..", ".", "") or name.startswith("-"):
            raise UsageError(f"'{path}' is not a folder of the repository", "give it from the top, without '..'")
        entry = trees.find(context.repository, tree, os.fsencode(name))
        if entry is None or entry[0] != trees.DIRECTORY:
            raise WorktreeError(f"there is no folder '{path}' in {base[:8]}", "nothing was changed")
        found.append(name)
    return tuple(dict.fromkeys(found))


# -- whether its commits are in the base -----------------------------------------------------------------------------


def target_commit(context: OpenWorktree, made: Record) -> str | None:
    """The commit that a worktree is compared with: its base's present tip, or HEAD of the main worktree."""
    if made.base_ref != made.base_sha:
        found = _commit(context, made.base_ref)
        if found is not None:
            return found
    main = context.location.worktree(layout.main_folder(context.location), context.location.common_dir)
    with contextlib.suppress(AgentosError):
        return refs.read_head(main).commit
    return None


def tip(context: OpenWorktree, made: Record) -> str | None:
    """The commit that the base of a worktree is at now; None where it was not created from a branch or a tag, or where
    that is gone."""
    return _commit(context, made.base_ref) if made.base_ref != made.base_sha else None


def find_base_ref(context: OpenWorktree, name: str) -> str | None:
    """The full name of the branch or tag that `name` is, as a record has it; None where there is none."""
    for prefix in ("" if name.startswith("refs/") else layout.HEADS, "refs/remotes/", "refs/tags/"):
        with contextlib.suppress(RepositoryError):
            if refs.resolve(context.location, prefix + name) is not None:
                return prefix + name
    return None


def _commit(context: OpenWorktree, name: str) -> str | None:
    """The commit that a base is at now; None for what is no name of a ref (`HEAD~1`): it depends on the worktree."""
    ref = find_base_ref(context, name)
    if ref is None or not ref.startswith("refs/tags/"):
        return refs.resolve(context.location, ref) if ref is not None else None
    args = ["rev-parse", "--verify", "--quiet", "--end-of-options", ref + "^{commit}"]
    return _git(context, *args, ok=(0, 1, 128)).decode().strip() or None


def compare(context: OpenWorktree, head: str | None, made: Record) -> tuple[int | None, int | None, str | None]:
    """Commits ahead, commits behind, and how the work is integrated."""
    target = target_commit(context, made)
    if head is None or target is None:
        return None, None, None
    if head == target:
        return 0, 0, "same-commit"
    found = count_commits(context, head, target)
    if found is None:
        return None, None, None
    ahead, behind = found
    return ahead, behind, "ancestor" if ahead == 0 else find_integration(context, head, target)


def count_commits(context: OpenWorktree, head: str, target: str) -> tuple[int, int] | None:
    """How many commits of `head` are not in `target`, and of `target` not in `head`; None where that is not known."""
    if head == target:
        return 0, 0
    out = _git(context, "rev-list", "--count", "--left-right", f"{target}...{head}", ok=(0, 128)).split()
    return (int(out[1]), int(out[0])) if len(out) == 2 else None


def find_integration(context: OpenWorktree, head: str, target: str) -> str | None:
    """How the commits that lead to `head` are in `target`, which does not reach `head`; None where they are not."""
    repository = context.repository
    tree = repository.commit(target).tree
    if repository.commit(head).tree == tree:
        return "equal-tree"
    bases = _git(context, "merge-base", target, head, ok=(0, 1)).decode().split()
    if bases and _squashed(context, bases[0], head, target):
        return "squash-merged"
    with tempfile.TemporaryDirectory(prefix="agentos-") as folder:
        # A status changes nothing: what the merge writes is removed with this folder.
        env = context.location.environment(merge_tree.quarantine(repository, folder))
        out = process.run(["merge-tree", "--write-tree", target, head], env=env, ok=(0, 1, 128))
    return "nothing-to-add" if out.split(b"\n")[0].decode() == tree else None


def _squashed(context: OpenWorktree, base: str, head: str, target: str) -> bool:
    """Whether a commit from `base` to `target` makes the change that the branch makes as a whole."""
    changed = _git(context, "diff-tree", "-r", "-z", "--name-only", "--no-renames", base, head).split(b"\0")
    paths = [path for path in changed if path]
    if not paths:
        return True
    wanted = _patch_ids(context, _git(context, "diff-tree", "-p", "--no-renames", base, head))
    if not wanted:
        return False
    limit = paths if len(paths) <= _MAX_COMMITS else []
    log = ["log", "-p", "--no-renames", "--no-merges", "--format=commit %H", f"--max-count={_MAX_COMMITS}"]
    found = _patch_ids(context, _git(context, *log, f"{base}..{target}", "--", *limit))
    return not wanted.isdisjoint(found)


def _patch_ids(context: OpenWorktree, patch: bytes) -> set[bytes]:
    out = process.run(["patch-id", "--stable"], env=context.location.environment(), data=patch)
    return {line.split(b" ")[0] for line in out.splitlines() if line}


def _git(context: OpenWorktree, *args: str | bytes, ok: Sequence[int] = (0,)) -> bytes:
    return process.run(args, env=context.location.environment(), ok=ok)
