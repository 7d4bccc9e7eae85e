"""The ignore rules before and after a restore, which may replace them.

Files that the target's rules ignore are not removed: restoring an older .gitignore must not delete what a newer one
protected. Ignored files that become visible are saved first, so that the save contains everything that is visible
after the restore, and undo restores it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set

from git_agentos.checkpoint.model import State
from git_agentos.checkpoint.own_bytes import Form, OwnBytes
from git_agentos.checkpoint.paths import covers
from git_agentos.checkpoint.restore.plan import FileWrite
from git_agentos.git import ignore, trees, untracked
from git_agentos.git.ignore import Outside, Rules
from git_agentos.git.repository import Repository
from git_agentos.git.trees import Entry, TreeSource
from git_agentos.util import directories
from git_agentos.util.named_tuple import NamedTuple


class Revealed(NamedTuple):
    """Ignored files, repositories and empty folders that the restore makes visible."""

    files: frozenset[bytes] = frozenset()
    repositories: frozenset[bytes] = frozenset()
    empty: frozenset[bytes] = frozenset()


def outside_then(repository: Repository, target: State, now: Outside) -> Outside:
    """The rules outside the worktree at the target; the current ones if it did not record them."""
    then = target.rules
    if then is None:
        return now
    exclude, users = (b"" if oid is None else repository.blob(oid) for oid in (then.exclude, then.users))
    return Outside(exclude, users, then.users_path, now.any_case)


def hiding(repository: Repository, target: State, rules: Rules, wanted: Callable[[bytes], bool]) -> dict[bytes, bytes]:
    """The untracked files and repositories of the target that `rules` would ignore -> the rule file that does (empty
    for rules outside the worktree)."""
    visible = [path for path in target.untracked if wanted(path.rstrip(b"/"))]
    folders = [path[:-1] for path in visible if path.endswith(b"/")]
    found = ignore.ignored_in_tree(
        repository, [path for path in visible if not path.endswith(b"/")], rules, folders=folders
    )
    return {path + b"/" if path in folders else path: source for path, source in found.items()}


def rules_of(repository: Repository, store: TreeSource, now: State, target: State, outside: Outside) -> Rules:
    """The rules of the target. A rule file that is itself ignored may be in no state: then the one on disk stays, and
    is used."""
    absent = frozenset(target.not_present)
    own = OwnBytes(target)

    def content(name: bytes) -> bytes | None:
        entry = trees.find(store, target.visible_tree, name) or target.ignored.get(name)
        if entry is not None:
            return _content(repository, entry, own.of(name, entry[1]))
        if trees.find(store, now.visible_tree, name) is not None or covers(absent, name):
            return None
        return ignore.read_file(repository, name)

    return Rules(content, outside)


def rules_after(
    repository: Repository, write: Mapping[bytes, FileWrite], gone: Collection[bytes], outside: Outside
) -> Rules:
    """The rules after files have been written and removed."""

    def content(name: bytes) -> bytes | None:
        file = write.get(name)
        if file is not None:
            return _content(repository, file.entry, file.own)
        return None if name in gone else ignore.read_file(repository, name)

    return Rules(content, outside)


def _content(repository: Repository, entry: Entry, own: Form | None) -> bytes | None:
    if entry[0] not in (trees.REGULAR, trees.EXECUTABLE):
        return None  # git does not follow symlinks here
    return (own or Form(entry[1])).read(repository)


def revealed(
    repository: Repository, rules: Rules, changed: Iterable[bytes], leave: Callable[[bytes], bool]
) -> Revealed:
    """What becomes visible with `rules`, when rule files have `changed`; without what `leave` names."""
    folders = {b"" if path == rules.outside.users_path else path.rpartition(b"/")[0] for path in changed}
    if not folders:
        return Revealed()
    hidden = [path for path in ignore.ignored(repository, folders) if not leave(path.rstrip(b"/"))]
    tops = [path[:-1] for path in hidden if path.endswith(b"/")]
    files = [path for path in hidden if not path.endswith(b"/")]
    excluded = ignore.ignored_in_tree(repository, files, rules, folders=tops)
    files = [path for path in files if path not in excluded]
    inside = _Inside(os.path.join(os.fsencode(repository.location.root), b""))
    for top in tops:
        if top not in excluded:
            inside.look(top, leave)
    excluded = ignore.ignored_in_tree(repository, inside.files, rules, folders=[*inside.repositories, *inside.empty])
    return Revealed(
        frozenset([*files, *(path for path in inside.files if path not in excluded)]),
        frozenset(path for path in inside.repositories if path not in excluded),
        frozenset(path for path in inside.empty if path not in excluded),
    )


class _Inside:
    """Collects everything in folders."""

    def __init__(self, root: bytes) -> None:
        self.root = root
        self.files: list[bytes] = []
        self.repositories: list[bytes] = []
        self.empty: list[bytes] = []

    def look(self, top: bytes, leave: Callable[[bytes], bool]) -> None:
        waiting = [top]
        while waiting:
            folder = waiting.pop()
            if untracked.is_repository(self.root + folder):
                self.repositories.append(folder)
                continue
            entries = directories.entries(self.root + folder)
            if not entries:
                self.empty.append(folder)
            for entry in entries:
                path = folder + b"/" + entry.name
                if leave(path):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                    self.files.append(path)


def protected(
    repository: Repository, store: TreeSource, target: State, rules: Rules, paths: Sequence[bytes], empty: Set[bytes]
) -> set[bytes]:
    """The paths among `paths`, which the target does not have, that its rules ignore, and that are therefore kept. Some
    are `empty` folders."""
    files = [path for path in paths if path not in empty]
    found = ignore.ignored_in_tree(repository, files, rules, folders=[path for path in paths if path in empty])
    # A path that is in HEAD but not in the index was deleted, or untracked so that a rule ignores it.
    head = repository.commit_tree(target.head.commit)
    return {path for path, source in found.items() if source or trees.find(store, head, path) is None}
