"""What must be done to get from one state to another: worked out completely before anything is touched.

Only paths that differ are in a plan.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from git_agentos.checkpoint.capture.listing import Listing
from git_agentos.checkpoint.disk import Disk
from git_agentos.checkpoint.model import Skipped, SkipReason, State
from git_agentos.checkpoint.own_bytes import OwnBytes
from git_agentos.checkpoint.paths import check, covers, may_touch
from git_agentos.checkpoint.restore import ignore_rules, index_plan, obstacles
from git_agentos.checkpoint.restore.plan import FileWrite, Folders, Plan
from git_agentos.errors import RestoreError
from git_agentos.git import ignore, trees, untracked
from git_agentos.git.repository import Repository, Writer
from git_agentos.git.trees import Entry


class Exact(NamedTuple):
    """What an exact plan is told beside the states: what a walk found, and which files may be others than git says."""

    walked: Listing
    touched: frozenset[bytes]


class Scope(NamedTuple):
    """How far a plan goes: `paths` (files or directories) narrow it, `keep_new` leaves what is new. An `exact` one also
    removes what is ignored, or unknown to git, and sets the permission bits of directories. `hidden` are repositories
    in the state now that git ignores."""

    paths: Sequence[bytes] | None = None
    keep_new: bool = False
    exact: Exact | None = None
    hidden: frozenset[bytes] = frozenset()


def make_plan(
    repository: Repository, store: Writer, now: State, target: State, scope: Scope, config: Mapping[str, list[str]]
) -> Plan:
    """The plan from `now` to `target`; `config` is git's.

    Raises RestoreError where something that cannot be saved is in the way, CheckpointFormatError for a target that
    names paths which no worktree may have.
    """
    return _Planner(repository, store, now, target, scope, ignore.outside(repository.location, config)).plan()


class _Planner:
    def __init__(
        self, repository: Repository, store: Writer, now: State, target: State, scope: Scope, outside: ignore.Outside
    ) -> None:
        self.repository = repository
        self.store = store
        self.now = now
        self.target = target
        self.paths = None if scope.paths is None else frozenset(scope.paths)
        self.keep_new = scope.keep_new
        self.exact = scope.exact
        self.hidden = scope.hidden
        self.outside = outside
        self.outside_then = ignore_rules.outside_then(repository, target, outside)
        self.rules_differ = False
        self.disk = Disk(os.fsencode(repository.location.root))
        self.skipped: list[Skipped] = []
        self.differing: Collection[bytes] = ()
        self.aside: dict[bytes, None] = {}
        self.unsaved = {os.fsencode(item.path).rstrip(b"/"): item for item in now.skipped}
        # What the target itself had to leave out was there: no checkpoint holds it as it was.
        self.left_out = frozenset(os.fsencode(item.path) for item in target.skipped)
        self.gone_for_sure = frozenset(target.not_present)
        self.own_now = OwnBytes(now)
        self.own_then = OwnBytes(target)
        self.empty_now = frozenset(now.empty_directories)
        self.empty_then = frozenset(target.empty_directories)
        self.untracked_now = self.empty_now.union(now.untracked)

    def wanted(self, path: bytes) -> bool:
        return may_touch(self.paths, path)

    def plan(self) -> Plan:
        delta = trees.diff(self.store, self.now.visible_tree, self.target.visible_tree)
        self.differing = delta.keys()
        self.rules_differ = self.outside_then != self.outside
        self.rules_differ |= any(map(self.outside.is_rules, [*delta, *self.target.ignored, *self.now.ignored]))
        self._add_absence(delta)
        write: dict[bytes, FileWrite] = {}
        remove: list[bytes] = []
        mode_only: dict[bytes, int] = {}
        make_directories = [path for path in self.target.empty_directories if self.wanted(path)]
        for path, (before, after) in sorted(delta.items()):
            check(path)
            if not self.wanted(path):
                continue
            gone_link = before is not None and before[0] == trees.GITLINK
            if after is not None and after[0] == trees.GITLINK:
                make_directories.append(path)
                if before is not None and not gone_link:
                    remove.append(path)
            elif after is not None:
                if (
                    before is not None
                    and before[1] == after[1]
                    and trees.SYMLINK not in (before[0], after[0])
                    and not gone_link
                    and self.own_now.of(path, before[1]) == self.own_then.of(path, after[1])
                ):
                    mode_only[path] = self._permissions(path, after)
                else:
                    write[path] = self._write(path, after)
            elif before is not None and not gone_link:
                remove.append(path)
        self._add_own_bytes(write)
        self._recheck(delta, write)
        for path, entry in self.target.ignored.items():
            check(path)
            if self.wanted(path) and self.now.ignored.get(path) != entry:
                write[path] = self._write(path, entry)
        remove += [path for path in self.now.ignored if self._leaves(path) and self.wanted(path)]
        hidden = self._known_absent()
        remove += hidden
        remove = [path for path in remove if path not in self.left_out]
        remove = [path for path in dict.fromkeys(remove) if path not in write and path not in self.target.ignored]
        remove = self._keep_ignored(remove)
        rules = self._hiding_rules(write, remove)
        remove, hidden = [*remove, *rules], [*hidden, *rules]
        self.skipped += [item for item in self.now.skipped if item.kind is not SkipReason.TORN]
        nested = self._nested()
        special = self._special()
        # A submodule that is not checked out in the target is an empty folder there.
        tree = self.target.visible_tree
        links = [path for path in self.aside if (trees.find(self.store, tree, path) or ("",))[0] == trees.GITLINK]
        make_directories += links
        blocking = self._blocking_directories(write)
        if self.keep_new:
            needed = trees.folders_above([*write, *make_directories])
            kept = dict.fromkeys(path for path in remove if path not in needed and not covers(write.keys(), path))
            self.skipped += [Skipped(os.fsdecode(path), SkipReason.NEW_KEPT) for path in kept]
            remove = [path for path in remove if path not in kept]
        leaving = obstacles.Removals(frozenset(remove), frozenset(special), frozenset(self.aside))
        directories = [*make_directories, *nested]
        self._spare_identical(write, leaving)
        found = obstacles.find(self.disk, self.store, self.now, self.unsaved, write, leaving, directories)
        for path in found.met:
            del write[path]
        for path in found.alike:
            write[path] = replace(write[path], recheck=True)
        made, filled = self._folders_that_change([*write, *(path + b"/." for path in directories)])
        shown = self._revealed(write, [*remove, *found.in_the_way], [*self.aside, *found.aside])
        chmod = {**mode_only, **self._permission_changes(write, mode_only)}
        gone = self._keep_ignored(
            [
                path
                for path in self.now.empty_directories
                if path not in self.empty_then and self.wanted(path) and not self.keep_new
            ],
            quiet=True,
        )
        for path, item in self.unsaved.items():
            torn = path in write or path in remove
            if torn and item.kind is SkipReason.TORN:
                raise RestoreError(
                    f"'{os.fsdecode(path)}' keeps changing and cannot be saved before it is replaced",
                    "stop what writes it and try again; nothing was changed",
                )
        return Plan(
            write=write,
            remove=remove,
            chmod=chmod,
            make_directories=make_directories,
            remove_directories=[*gone, *blocking, *self._left_links(delta)],
            keep_directories=self.empty_then,
            in_the_way=found.in_the_way,
            unsaved=found.unsaved.union(hidden) - self.now.ignored.keys(),
            revealed=shown.files - self.now.ignored.keys(),
            hidden=self._hidden_repositories([*self.aside, *found.aside, *nested, *shown.repositories]),
            emptied=[path for path in (*found.emptied, *filled, *shown.empty) if path not in self.empty_now],
            created=[*(path for path in write if leaving.has(path) or self.disk.mode(path) is None), *made],
            aside=list(dict.fromkeys([*self.aside, *found.aside])),
            nested=nested,
            index=index_plan.plan_index(self.store, self.now, self.target, self.paths),
            skipped=self.skipped,
            folders=self._folders(),
            special=special,
        )

    # -- what an exact plan has beside ----------------------------------------------------------------------

    def _leaves(self, path: bytes) -> bool:
        """Whether an ignored file is known not to be in the target."""
        if self.exact is None:
            return path in self.gone_for_sure
        return path not in self.target.ignored and trees.find(self.store, self.target.visible_tree, path) is None

    def _folders(self) -> Folders | None:
        if self.exact is None:
            return None
        present = {path: each.mode for path, each in self.exact.walked.folders.items()}
        return Folders(present, self.target.folders, 0o777 & ~self.target.umask)

    def _special(self) -> list[bytes]:
        if self.exact is None:
            return []
        self.skipped += [Skipped(os.fsdecode(path), SkipReason.SPECIAL_FILE) for path in self.exact.walked.special]
        for path in self.exact.walked.odd:
            self.aside[path] = None
            self.skipped.append(Skipped(os.fsdecode(path), SkipReason.BAD_DOT_GIT))
        for path in self.exact.walked.repositories:
            if path in self.now.nested or path in self.target.nested or path + b"/" in self.left_out:
                continue
            self.aside[path] = None
            self.skipped.append(Skipped(os.fsdecode(path) + "/", SkipReason.UNREADABLE_REPOSITORY))
        return list(self.exact.walked.special)

    # -- what git does not see now --------------------------------------------------------------------------

    def _known_absent(self) -> list[bytes]:
        """Files that git does not see, of which the target is known not to have had any: it tracks them as deleted, or
        was saved before a restore that made them."""
        if self.exact is not None:
            return []
        tracked = trees.diff(self.store, self.target.index_tree, self.target.visible_tree)
        absent = {path for path, (_, after) in tracked.items() if after is None}
        absent |= {*self.target.stages, *self.target.intent_to_add, *self.gone_for_sure}
        return [
            path
            for path in sorted(absent)
            if self.wanted(path)
            and path not in self.target.ignored
            and stat.S_IFMT(self.disk.mode(path) or 0) in (stat.S_IFREG, stat.S_IFLNK)
            and trees.find(self.store, self.now.visible_tree, path) is None
            and trees.find(self.store, self.target.visible_tree, path) is None
            and path not in self.unsaved
        ]

    def _hiding_rules(self, write: Mapping[bytes, FileWrite], remove: Sequence[bytes]) -> list[bytes]:
        """Files of rules that git ignores, that the target does not have, and that would hide what it has from git."""
        rules = self._ignored_rules() - {*self.target.ignored, *remove}
        if self.exact is not None or self.keep_new or not (rules or self.outside_then != self.outside):
            return []
        found: set[bytes] = set()
        while True:
            after = ignore_rules.rules_after(self.repository, write, {*remove, *found}, self.outside)
            hidden = ignore_rules.hiding(self.repository, self.target, after, self.wanted)
            more = {path for path in rules.intersection(hidden.values()) - found if self.wanted(path)}
            if not more:
                break
            found |= more
        self.skipped += [
            Skipped(os.fsdecode(path), SkipReason.HIDDEN_NOW) for path, source in hidden.items() if not source
        ]
        return sorted(found)

    def _ignored_rules(self) -> set[bytes]:
        """The files of rules that git ignores, of those that may say something of what the target has untracked."""
        folders = trees.folders_above(path.rstrip(b"/") for path in self.target.untracked)
        names = {folder + b"/" + ignore.FILE_NAME if folder else ignore.FILE_NAME for folder in folders}
        if self.outside.users_path is not None:
            names.add(self.outside.users_path)
        return {
            path
            for path in names
            if stat.S_ISREG(self.disk.mode(path) or 0)
            and trees.find(self.store, self.now.visible_tree, path) is None
            and path not in self.unsaved
        }

    def _revealed(
        self, write: Mapping[bytes, FileWrite], gone: Sequence[bytes], aside: Sequence[bytes]
    ) -> ignore_rules.Revealed:
        """What is ignored now and comes to light, since the rules that hide it leave or change."""
        if self.exact is not None:
            return ignore_rules.Revealed()
        leaving = {*gone, *aside}
        changed = [path for path in {*write, *gone} if self.outside.is_rules(path)]
        rules = ignore_rules.rules_after(self.repository, write, leaving, self.outside)
        shown = ignore_rules.revealed(
            self.repository,
            rules,
            changed,
            lambda path: path in write or untracked.is_agentos_path(path) or covers(leaving, path),
        )
        self.skipped += [Skipped(os.fsdecode(path), SkipReason.LEFT_VISIBLE) for path in sorted(shown.files)]
        self.skipped += [
            Skipped(os.fsdecode(path) + "/", SkipReason.LEFT_VISIBLE) for path in sorted(shown.repositories)
        ]
        return shown

    def _hidden_repositories(self, paths: Iterable[bytes]) -> frozenset[bytes]:
        """Those of `paths` where a repository is that the state now does not hold, for git ignores it."""
        known = {*self.now.nested, *self.unsaved}
        return frozenset(
            path
            for path in paths
            if path not in known
            and stat.S_ISDIR(self.disk.mode(path) or 0)
            and untracked.is_repository(self.disk.at(path))
        )

    def _spare_identical(self, write: dict[bytes, FileWrite], leaving: obstacles.Removals) -> None:
        """Of the ignored files that the target has, leave those alone that are there as they were, and stay."""
        for path in self.target.ignored.keys() & write.keys():
            found, file = self.disk.mode(path), write[path]
            if found is None or leaving.has(path):
                continue
            if stat.S_ISLNK(found) and self.disk.is_link(path, file.entry, self.store.repository):
                del write[path]
            elif obstacles.is_like(found, file):
                write[path] = replace(file, recheck=True)

    def _folders_that_change(self, coming: Iterable[bytes]) -> tuple[list[bytes], list[bytes]]:
        """Of the folders above what comes: those that will be made, and those that are there with nothing in them."""
        made, filled = [], []
        for folder in trees.folders_above(coming) - {b""}:
            found = self.disk.mode(folder)
            if found is None:
                made.append(folder)
            elif (
                stat.S_ISDIR(found)
                and trees.find(self.store, self.now.visible_tree, folder) is None
                and not os.listdir(self.disk.at(folder))
            ):
                filled.append(folder)
        return made, filled

    # -- the worktree ---------------------------------------------------------------------------------------

    def _add_absence(self, delta: dict[bytes, tuple[Entry | None, Entry | None]]) -> None:
        """Take out of the difference what skip-worktree keeps off the disk, on either side."""
        if not self.now.absent and not self.target.absent:
            return
        hidden_now = self._absent_paths(self.now)
        hidden_then = self._absent_paths(self.target)
        for path, (before, after) in list(delta.items()):
            on_disk = None if path in hidden_now else before
            wanted = None if path in hidden_then else after
            if on_disk == wanted:
                del delta[path]
            else:
                delta[path] = (on_disk, wanted)
        for path, entry in hidden_now.items():
            if path not in hidden_then and path not in delta and trees.find(self.store, self.target.visible_tree, path):
                delta[path] = (None, entry)
        for path, entry in hidden_then.items():
            if path not in hidden_now and path not in delta and trees.find(self.store, self.now.visible_tree, path):
                delta[path] = (entry, None)

    def _absent_paths(self, state: State) -> dict[bytes, Entry]:
        found: dict[bytes, Entry] = {}
        for path in state.absent:
            entry = (
                (trees.DIRECTORY, state.visible_tree)
                if path == b"/"
                else trees.find(self.store, state.visible_tree, path.rstrip(b"/"))
            )
            if entry is None or (entry[0] == trees.DIRECTORY and not path.endswith(b"/")):
                continue  # something else is in its place
            if entry[0] == trees.DIRECTORY:
                found.update(trees.walk(self.store, entry[1], b"" if path == b"/" else path.rstrip(b"/") + b"/"))
            else:
                found[path] = entry
        # In a folder whose tracked files are all absent there may be untracked ones.
        for path in state.untracked:
            found.pop(path, None)
        return found

    def _add_own_bytes(self, write: dict[bytes, FileWrite]) -> None:
        """Files whose blob is the same and whose own bytes differ, or are not known of both states."""
        hidden = self._absent_paths(self.target)
        for path in self.own_now.paths | self.own_then.paths:
            if path in write or path in self.differing or not self.wanted(path):
                continue
            entry = trees.find(self.store, self.target.visible_tree, path)
            if entry is None or entry[0] not in (trees.REGULAR, trees.EXECUTABLE):
                continue
            before, after = self.own_now.of(path, entry[1]), self.own_then.of(path, entry[1])
            if before != after and path not in hidden:
                write[path] = replace(self._write(path, entry), recheck=before is None or after is None)

    def _recheck(self, delta: Mapping[bytes, object], write: dict[bytes, FileWrite]) -> None:
        """Where attributes change, a file with the right blob may have been checked out under the other ones."""
        other = {path for path, _ in self.now.ignored.items() ^ self.target.ignored.items()} if self.exact else ()
        names = {path for path in (*delta, *other) if path.rpartition(b"/")[2] == b".gitattributes"}
        folders = {path.rpartition(b"/")[0] for path in names}
        if not folders:
            return
        hidden = self._absent_paths(self.target)
        for path, entry in trees.walk(self.store, self.target.visible_tree):
            if path in write or path in delta or path in hidden or not self.wanted(path):
                continue
            if entry[0] in (trees.REGULAR, trees.EXECUTABLE) and covers(folders, path):
                write[path] = replace(self._write(path, entry), recheck=True)

    def _write(self, path: bytes, entry: Entry) -> FileWrite:
        return FileWrite(entry, self.own_then.of(path, entry[1]), self._permissions(path, entry))

    def _permissions(self, path: bytes, entry: Entry) -> int:
        usual = (0o777 if entry[0] == trees.EXECUTABLE else 0o666) & ~self.target.umask
        return self.target.permissions.get(path, usual)

    def _permission_changes(self, write: Mapping[bytes, FileWrite], known: Mapping[bytes, int]) -> dict[bytes, int]:
        """Files with the right content and other permission bits than the target recorded: unusual ones, or, of a file
        that had changed there, the usual ones."""
        changes: dict[bytes, int] = {}
        concerned = {*self.target.permissions, *self.now.permissions}
        if self.exact is not None:
            concerned |= self.exact.touched
        changed_there = {*self.target.staged, *self.target.unstaged, *self.target.untracked, *self.target.ignored}
        usual = [bits & ~self.target.umask for bits in (0o666, 0o777)]
        for path in concerned | changed_there:
            if (path in write and not write[path].recheck) or path in known or not self.wanted(path):
                continue
            found = self.disk.mode(path)
            if found is None or not stat.S_ISREG(found):
                continue
            if path not in concerned and stat.S_IMODE(found) in usual:
                continue  # whether it is to be executable is for git's mode to tell
            entry = trees.find(self.store, self.target.visible_tree, path)
            entry = entry or self.target.ignored.get(path)
            if entry is None or entry[0] not in (trees.REGULAR, trees.EXECUTABLE):
                continue
            bits = self._permissions(path, entry)
            if stat.S_IMODE(found) != bits:
                changes[path] = bits
        return changes

    def _keep_ignored(self, remove: list[bytes], *, quiet: bool = False) -> list[bytes]:
        """Leave out what the target's ignore rules exclude: in the target's world it is nobody's to remove.

        (Restoring an older .gitignore and then clearing away what it had protected is a loss that others made.)
        """
        if self.exact is not None:
            return remove  # everything was captured there: what it does not have was not there
        candidates = [
            path
            for path in remove
            if (self.rules_differ or path not in self.untracked_now)
            # What the target tracks and does not have was deleted there.
            and not covers(self.gone_for_sure, path)
            and not index_plan.holds(self.store, self.target, path)
            and path not in self.target.intent_to_add
        ]
        if not candidates:
            return remove
        rules = ignore_rules.rules_of(self.repository, self.store, self.now, self.target, self.outside_then)
        ignored = ignore_rules.protected(self.repository, self.store, self.target, rules, candidates, self.empty_now)
        if not quiet:
            self.skipped += [Skipped(os.fsdecode(path), SkipReason.LEFT_IGNORED) for path in sorted(ignored)]
        return [path for path in remove if path not in ignored]

    def _blocking_directories(self, write: Mapping[bytes, FileWrite]) -> list[bytes]:
        """Directories that stand where a file comes."""
        found = []
        for path in write:
            mode = self.disk.mode(path)
            if mode is not None and stat.S_ISDIR(mode):
                found.append(path)
        return found

    def _left_links(self, delta: Mapping[bytes, tuple[Entry | None, Entry | None]]) -> list[bytes]:
        """Directories of gitlinks that the target does not have."""
        return [
            path
            for path, (before, after) in delta.items()
            if before is not None and before[0] == trees.GITLINK and after is None and self.wanted(path)
        ]

    # -- nested repositories --------------------------------------------------------------------------------

    def _nested(self) -> dict[bytes, str]:
        """Repositories that come or change; those that the target does not have are put aside."""
        for path in self.now.nested:
            if path in self.target.nested or path in self.hidden or not self.wanted(path):
                continue
            if path in self.left_out or path + b"/" in self.left_out:
                continue
            if self.keep_new:
                self.skipped.append(Skipped(os.fsdecode(path) + "/", SkipReason.NEW_KEPT))
            else:
                self.aside[path] = None
        for path in self.gone_for_sure - self.target.nested.keys():
            # A restore made it, and rules may hide it from git.
            directory = stat.S_ISDIR(self.disk.mode(path) or 0)
            if directory and self.wanted(path) and not self.keep_new and untracked.is_repository(self.disk.at(path)):
                self.aside[path] = None
        return {
            path: oid
            for path, oid in self.target.nested.items()
            if self.wanted(path) and self.now.nested.get(path) != oid
        }
