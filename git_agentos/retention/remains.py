"""What could not be forgotten, in words: what the user's own commits, indexes and files still have."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.git import refs
from git_agentos.git.repository import Repository
from git_agentos.retention.redaction import Redaction
from git_agentos.util.values import count

_OURS = "refs/agentos/"
_MOST = 5


def find(
    context: OpenWorktree, redaction: Redaction, dropped: Collection[bytes], *, dry_run: bool = False
) -> list[str]:
    """What is left, and what to do about it. `dropped` are paths that checkpoints have lost."""
    repository = context.repository
    if not dry_run:
        redaction.scan()
    left = set(redaction.affected) if dry_run else repository.exists_on_disk(redaction.affected)
    found = []
    own = _reached(repository, _users_refs(repository))
    commits = {oid: path for oid, path in own.items() if oid in left}
    by_name = {path for path in redaction.matching({path for path in own.values() if path}) if path}
    if commits or by_name:
        paths = sorted({*by_name, *filter(None, commits.values())})
        names = f" ({_list(paths)})" if paths else ""
        found.append(
            f"your own commits{names}: rewrite their branches and tags, for example with git filter-repo,"
            " and then give this command again"
        )
    left -= commits.keys()
    if left and not dry_run:
        found += _held(context, left)
    found += _on_disk(context, redaction, dropped)
    return found


def _users_refs(repository: Repository) -> list[str]:
    rows = repository.git("for-each-ref", "--format=%(objectname) %(refname)").decode("utf-8", "replace").splitlines()
    pairs = [row.split(" ", 1) for row in rows]
    heads = [head for head in (refs.read_head(repository.location).commit,) if head is not None]
    return [*(oid for oid, name in pairs if not name.startswith(_OURS)), *heads]


def _reached(repository: Repository, tips: Iterable[str], *options: str) -> dict[str, bytes]:
    """What some commits reach: id -> a path at which it was found."""
    names = "".join(f"{tip}\n" for tip in dict.fromkeys(tips)).encode()
    if not names and not options:
        return {}
    args = ("rev-list", "--objects", "--missing=allow-any", "--stdin", *options)
    rows = (row.partition(b" ") for row in repository.git(*args, data=names).split(b"\n") if row)
    return {oid.decode("ascii"): path for oid, _, path in rows}


def _held(context: OpenWorktree, left: set[str]) -> list[str]:
    """What keeps objects that no branch or tag of the user's reaches."""
    repository = context.repository
    found = []
    checkpoints = []
    for name in timeline.all_names(context.location):
        for link in timeline.walk(repository, name):
            commit = repository.commit(link.commit)
            tips = [*repository.commit(link.checkpoint).parents[:1], *commit.parents[2:]]
            if left & _reached(repository, tips).keys():
                checkpoints.append(link.checkpoint)
    reached = set(_reached(repository, [], "--glob=refs/agentos/*").keys())
    if checkpoints:
        ids = " ".join(oid[:12] for oid in checkpoints[:_MOST]) + (" ..." if len(checkpoints) > _MOST else "")
        found.append(
            f"commits that {count(len(checkpoints), 'checkpoint')} keep, because they were made on top of them, and no"
            f" branch has: 'git agentos forget {ids}' lets go of them"
        )
    rest = left - reached
    if rest:
        found.append(
            f"{count(len(rest), 'object')} that no branch, tag or checkpoint has, but perhaps an index, a reflog, a"
            " stash that was dropped or another repository: git gc --prune=now deletes those that nothing needs"
        )
    return found


def _on_disk(context: OpenWorktree, redaction: Redaction, dropped: Collection[bytes]) -> list[str]:
    """Files of worktrees that would be in the next checkpoint again."""
    found = []
    for where in context.all_worktrees():
        there = []
        for path in dropped:
            full = os.path.join(os.fsencode(where.root), path)
            if os.path.isfile(full) and not os.path.islink(full) and _is_wanted(redaction, path, full):
                there.append(path)
        if there:
            found.append(
                f"files in '{where.root}' ({_list(sorted(there))}): the next checkpoint has them again, unless you"
                " change or ignore them"
            )
    return found


def _is_wanted(redaction: Redaction, path: bytes, full: bytes) -> bool:
    if redaction.matching([path]):
        return True
    try:
        with open(full, "rb") as file:
            return redaction.secrets.is_in(file.read())
    except OSError:
        return False


def _list(paths: Iterable[bytes]) -> str:
    names = [os.fsdecode(path) for path in paths]
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more
