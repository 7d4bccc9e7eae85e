"""Which objects nothing needs any more: the question before any object is deleted.

Whatever git would keep counts: what refs, reflogs and indexes of all worktrees reach. So do ids in the files of git
directories (`MERGE_HEAD`, `rebase-merge/…`), and every other unreachable commit, tree and tag with what it reaches: a
dropped stash can still be found by its id.

A repository that borrows objects from this one (`git clone --shared`) cannot be known from here.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from git_agentos.git import links
from git_agentos.git.repository import Repository
from git_agentos.util import files
from git_agentos.util.named_tuple import NamedTuple

_FOLDERS = ("", "rebase-merge", "rebase-apply", "sequencer", "agentos/deferred")
_NO_ROOTS = ("index", "packed-refs", "config", "config.worktree")  # git lists what they name
_LARGEST = 1 << 20
_ID = rb"(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{40})(?![0-9a-f])"
_KEPT = ("--all", "--reflog", "--indexed-objects")
_LINKS = ("commit", "tree", "tag")  # kinds of objects that name others


class Kept(NamedTuple):
    """What keeps objects: the git directories of all worktrees; refs (full names) that do not count, and objects that
    count in their place.

    `is_leftover` says of an unreachable commit whether it is one of ours that keeps nothing: whoever still needs what
    it names writes that again.
    """

    git_dirs: Sequence[str]
    is_leftover: Callable[[str], bool] = lambda _: False
    without: Sequence[str] = ()
    instead: Sequence[str] = ()


class Unneeded(NamedTuple):
    """The objects that nothing needs, and the objects that were known to be needed when they were looked for."""

    oids: set[str]
    roots: Sequence[str]
    kept: Kept


def unneeded(repository: Repository, kept: Kept, roots: Iterable[str], more: Iterable[str] = ()) -> Unneeded:
    """The objects that `roots` reach, and those among `more`, that nothing else needs; those in alternates are among
    them. GitCommandError if the repository lacks objects: then nobody can tell."""
    tips = sorted({*_named(repository, kept.git_dirs), *_refs(repository, kept.without), *kept.instead})
    found = _reached(repository, kept, roots, tips)
    found |= repository.exists_on_disk(more)
    if found:
        live = _list(repository, tips, *_options(kept))
        found -= live
        if found:
            found = _without_others(repository, kept, found, live)
    return Unneeded(found, tips, kept)


def _without_others(repository: Repository, kept: Kept, found: set[str], live: set[str]) -> set[str]:
    """The objects without those that other unreachable ones need; with commits that were written on top of one of them
    and never became part of anything."""
    others: list[str] = []
    leftover: list[str] = []
    for oid in _with_links(repository):
        if oid not in live and oid not in found:
            (leftover if kept.is_leftover(oid) else others).append(oid)
    found = found - links.reached_by(repository, others, found)
    while on_top := {oid for oid in leftover if oid not in found and _first_parent(repository, oid) in found}:
        found |= on_top
    return found


def _first_parent(repository: Repository, oid: str) -> str | None:
    _, *parents = links.of(repository, oid) or [""]
    return parents[0] if parents else None


def needed_since(repository: Repository, found: Unneeded) -> set[str]:
    """Those of the objects that something reaches now, after all. It is quick: only what is new is followed."""
    now = sorted(_named(repository, found.kept.git_dirs))
    lines = [*now, *(f"^{oid}" for oid in found.roots)]
    return _list(repository, lines, *_options(found.kept)) & found.oids


def _options(kept: Kept) -> list[str]:
    return [*(f"--exclude={name}" for name in kept.without), *_KEPT]


def _refs(repository: Repository, without: Sequence[str]) -> list[str]:
    rows = repository.git("for-each-ref", "--format=%(objectname) %(refname)").decode("utf-8", "replace").splitlines()
    pairs = [row.split(" ", 1) for row in rows]
    return [oid for oid, name in pairs if name not in without]


def _named(repository: Repository, git_dirs: Sequence[str]) -> set[str]:
    """The ids in the files of git directories, of objects that exist."""
    found: set[str] = set()
    for git_dir in git_dirs:
        for name in _FOLDERS:
            for path in _files(os.path.join(git_dir, name)):
                with contextlib.suppress(OSError):
                    found.update(each.decode() for each in re.findall(_ID, files.read(path, limit=_LARGEST)))
    return repository.exists_on_disk(each for each in found if repository.hash.is_oid(each))


def _files(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as found:
            return [each.path for each in found if each.is_file(follow_symlinks=False) and each.name not in _NO_ROOTS]
    except OSError:
        return []


def _reached(repository: Repository, kept: Kept, roots: Iterable[str], tips: Sequence[str]) -> set[str]:
    """What some objects reach, as far as git sees quickly that nothing else does: a few objects too many."""
    there = sorted(repository.exists_on_disk(roots))
    if not there:
        return set()
    lines = [*there, *(f"^{oid}" for oid in tips)]
    return _list(repository, lines, *(f"--exclude={name}" for name in kept.without), "--not", *_KEPT)


def _list(repository: Repository, names: Iterable[str], *options: str) -> set[str]:
    """What `git rev-list` prints for `names` and `options`."""
    args = ["rev-list", "--objects", "--no-object-names", "--missing=allow-promisor", "--stdin", *options]
    return set(repository.git(*args, data="".join(f"{name}\n" for name in names).encode()).decode("ascii").split())


def _with_links(repository: Repository) -> Iterator[str]:
    """All commits, trees and tags."""
    args = ("--batch-all-objects", "--unordered", "--batch-check=%(objectname) %(objecttype)")
    for line in repository.git("cat-file", *args).decode("ascii").splitlines():
        oid, _, kind = line.partition(" ")
        if kind in _LINKS:
            yield oid
