"""What could not be forgotten, in words: what the user's own commits, indexes and files still have."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping

from git_agentos.checkpoint import nested, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.git import refs
from git_agentos.git.repository import Repository
from git_agentos.retention.progress import Progress
from git_agentos.retention.redaction import Redaction
from git_agentos.util.values import count

_OURS = "refs/agentos/"
_MOST = 5


def find(context: OpenWorktree, redaction: Redaction, progress: Progress, *, dry_run: bool = False) -> list[str]:
    """What is left after all that `progress` has, or would be left, and what to do about it."""
    repository = context.repository
    if not dry_run:
        redaction.scan()
    left = set(redaction.affected) if dry_run else repository.exists_on_disk(redaction.affected)
    found = []
    users = _users_refs(repository)
    own = _reached(repository, users)
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
    if left:
        found += _held(context, left, users, {pair.old: pair.new for pair in progress.pairs})
        if not dry_run:
            found += _elsewhere(repository, left)
    found += _on_disk(context, redaction, progress.dropped)
    found += _in_nested(context, redaction, progress.nested)
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


def _held(context: OpenWorktree, left: set[str], users: Iterable[str], now: Mapping[str, str]) -> list[str]:
    """What checkpoints keep beside their own files: `now` are the ids that some have or will have."""
    repository = context.repository
    without = [f"^{oid}" for oid in users]
    checkpoints = []
    for name in timeline.all_names(context.location):
        for link in timeline.walk(repository, name):
            commit = repository.commit(link.commit)
            tips = [*repository.commit(link.checkpoint).parents[:1], *commit.parents[2:]]
            if left & _reached(repository, [*tips, *without]).keys():
                checkpoints.append(now.get(link.checkpoint, link.checkpoint))
    if not checkpoints:
        return []
    ids = " ".join(oid[:12] for oid in checkpoints[:_MOST]) + (" ..." if len(checkpoints) > _MOST else "")
    where = f"{count(len(checkpoints), 'checkpoint')} as HEAD or in a repository inside"
    return [f"commits that no branch has, and that are in {where}: 'git agentos forget {ids}' lets go of them"]


def _elsewhere(repository: Repository, left: set[str]) -> list[str]:
    """What nothing reaches of which this tool or a branch knows."""
    rest = left - _reached(repository, [], "--glob=refs/agentos/*").keys()
    if not rest:
        return []
    what = f"{count(len(rest), 'object')} that no branch, tag or checkpoint has"
    perhaps = "but perhaps an index, a reflog, a stash that was dropped or another repository"
    return [f"{what}, {perhaps}: git gc --prune=now deletes those that nothing needs"]


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


def _in_nested(context: OpenWorktree, redaction: Redaction, paths: Collection[bytes]) -> list[str]:
    """The repositories inside of worktrees that have a secret: each is a repository of its own, with timelines."""
    found = []
    for where in context.all_worktrees():
        for path in sorted(paths):
            inner = nested.locate_at(where.root, path)
            if inner is None or inner.common_dir == where.common_dir or not redaction.secrets:
                continue
            there = Redaction(Repository(inner), redaction.wanted)
            there.scan()
            if there.affected:
                found.append(f"the repository '{inner.root}', which is one of its own: give this command there, too")
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
