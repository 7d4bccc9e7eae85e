"""Planning a restore: all steps from one state to another are computed before anything is changed.

A plan contains only paths that differ.
"""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from git_agentos.checkpoint.capture.listing import Listing
from git_agentos.checkpoint.disk import disk_of
from git_agentos.checkpoint.model import Skipped, SkipReason, State
from git_agentos.checkpoint.paths import check, covers, may_touch
from git_agentos.checkpoint.restore import ignore_rules, index_plan, obstacles
from git_agentos.checkpoint.restore.difference import Difference, worktree_difference
from git_agentos.checkpoint.restore.file_steps import FileSteps
from git_agentos.checkpoint.restore.plan import FileWrite, Folders, Plan
from git_agentos.checkpoint.restore.spelling import Spelling
from git_agentos.errors import RestoreError
from git_agentos.git import filesystem, ignore, trees, untracked
from git_agentos.git.repository import Repository, Writer
from git_agentos.git.trees import Entry
from git_agentos.util.named_tuple import NamedTuple


class Exact(NamedTuple):
    """What an exact plan needs beside the states: the worktree's directories, and files to read again."""

    listing: Listing
    reread: frozenset[bytes]


class Scope(NamedTuple):
    """What a plan may change: `paths` (files or directories) limit it, `keep_new` keeps files that the target does not
    have. An `exact` plan also removes ignored files, and sets the permission bits of directories. `hidden` are
    repositories of the current state that git ignores."""

    paths: Sequence[bytes] | None = None
    keep_new: bool = False
    exact: Exact | None = None
    hidden: frozenset[bytes] = frozenset()


def make_plan(
    repository: Repository, store: Writer, now: State, target: State, scope: Scope, config: Mapping[str, list[str]]
) -> Plan:
    """The plan from `now` to `target`; `config` is git's.

    Raises RestoreError if something that cannot be saved is in the way, CheckpointFormatError if the target names paths
    that no worktree may have.
    """
    return _Planner(repository, store, now, target, scope, ignore.outside(repository.location, config)).plan()


@dataclass
class _Steps:
    """The steps so far. `unseen` are files to remove that git does not see now."""

    write: dict[bytes, FileWrite] = field(default_factory=dict)
    remove: list[bytes] = field(default_factory=list)
    chmod: dict[bytes, int] = field(default_factory=dict)
    make_directories: list[bytes] = field(default_factory=list)
    unseen: list[bytes] = field(default_factory=list)


class _Planner:
    """The planning of one restore; `plan` runs its stages."""

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
        names = filesystem.names(repository.location)
        self.disk = disk_of(os.fsencode(repository.location.root), names)
        self.spelling = Spelling(names, store, self.disk, target)
        self.skipped: list[Skipped] = []
        self.aside: dict[bytes, None] = {}
        self.unsaved = {os.fsencode(item.path).rstrip(b"/"): item for item in now.skipped}
        # Paths that the target skipped existed then, but no checkpoint contains them.
        self.left_out = frozenset(os.fsencode(item.path) for item in target.skipped)
        self.forgotten = frozenset(
            os.fsencode(item.path) for item in target.skipped if item.kind is SkipReason.FORGOTTEN
        )
        self.gone_for_sure = frozenset(target.not_present)
        self.files = FileSteps(store, self.disk, now, target, self.in_scope)
        self.empty_now = frozenset(now.empty_directories)
        self.empty_then = frozenset(target.empty_directories)
        self.untracked_now = self.empty_now.union(now.untracked)

    def in_scope(self, path: bytes) -> bool:
        return may_touch(self.paths, path) and path not in self.forgotten

    def plan(self) -> Plan:
        visible = trees.diff(self.store, self.now.visible_tree, self.target.visible_tree)
        self.rules_differ = self._rules_differ(visible)
        delta = worktree_difference(self.store, visible, self.now, self.target)
        steps = self._visible_steps(delta)
        self.files.add_own_bytes(steps.write, delta)
        self.files.add_rechecked(steps.write, delta, exact=self.exact is not None)
        self._add_ignored(steps)
        unwritten = self._drop_impossible(steps)
        self._add_removals(steps)
        self.skipped += [item for item in self.now.skipped if item.kind is not SkipReason.TORN]
        nested = self._nested()
        special = self._special()
        # A submodule that is not checked out in the target is an empty folder there.
        tree = self.target.visible_tree
        links = [path for path in self.aside if (trees.find(self.store, tree, path) or ("",))[0] == trees.GITLINK]
        steps.make_directories += links
        blocking = self._blocking_directories(steps.write)
        if self.keep_new:
            self._keep_what_is_new(steps)
        removals = obstacles.Removals(frozenset(steps.remove), frozenset(special), frozenset(self.aside))
        directories = [*steps.make_directories, *nested]
        found = self._obstacles(steps, removals, directories)
        made, filled = self._folders_that_change([*steps.write, *(path + b"/." for path in directories)])
        shown = self._revealed(steps.write, [*steps.remove, *found.in_the_way], [*self.aside, *found.aside])
        chmod = {
            **steps.chmod,
            **self.files.permission_changes(steps.write, steps.chmod, self.exact.reread if self.exact else ()),
        }
        gone = self._emptied_directories()
        self._refuse_torn(steps)
        return Plan(
            write=steps.write,
            remove=steps.remove,
            chmod=chmod,
            make_directories=steps.make_directories,
            remove_directories=[*gone, *blocking, *self._left_links(delta)],
            keep_directories=self.empty_then,
            in_the_way=found.in_the_way,
            unsaved=found.unsaved.union(steps.unseen) - self.now.ignored.keys(),
            revealed=shown.files - self.now.ignored.keys(),
            hidden=self._hidden_repositories([*self.aside, *found.aside, *nested, *shown.repositories]),
            emptied=[path for path in (*found.emptied, *filled, *shown.empty) if path not in self.empty_now],
            created=[*(path for path in steps.write if removals.has(path) or self.disk.mode(path) is None), *made],
            aside=list(dict.fromkeys([*self.aside, *found.aside])),
            nested=nested,
            index=index_plan.plan_index(self.store, self.now, self.target, self.paths),
            skipped=self.skipped,
            folders=self._folders(),
            renames=self.spelling.renames(steps.write, self.in_scope),
            unwritten=unwritten,
            special=special,
        )

    # -- the stages -----------------------------------------------------------------------------------------

    def _rules_differ(self, visible: Iterable[bytes]) -> bool:
        """Whether the ignore rules of the two states differ; `visible` are the paths in which they differ."""
        if self.outside_then != self.outside:
            return True
        return any(map(self.outside.is_rules, [*visible, *self.target.ignored, *self.now.ignored]))

    def _visible_steps(self, delta: Difference) -> _Steps:
        """The steps for tracked and untracked files that differ."""
        steps = _Steps(make_directories=[path for path in self.target.empty_directories if self.in_scope(path)])
        for path, (before, after) in sorted(delta.items()):
            check(path)
            if not self.in_scope(path):
                continue
            was_link = before is not None and before[0] == trees.GITLINK
            if after is not None and after[0] == trees.GITLINK:
                steps.make_directories.append(path)
                if before is not None and not was_link:
                    steps.remove.append(path)
            elif after is not None:
                if before is not None and not was_link and self.files.has_same_bytes(path, before, after):
                    steps.chmod[path] = self.files.permissions(path, after)
                else:
                    steps.write[path] = self.files.write(path, after)
            elif before is not None and not was_link:
                steps.remove.append(path)
        return steps

    def _add_ignored(self, steps: _Steps) -> None:
        """Write the ignored files that the target contains, and remove those that it is known not to have."""
        for path, entry in self.target.ignored.items():
            check(path)
            if self.in_scope(path) and self.now.ignored.get(path) != entry:
                steps.write[path] = self.files.write(path, entry)
        steps.remove += [path for path in self.now.ignored if self._not_in_target(path) and self.in_scope(path)]

    def _drop_impossible(self, steps: _Steps) -> frozenset[bytes]:
        """Do not write paths that this file system cannot have, and return them. Their index entries are restored."""
        impossible, same = self.spelling.unwritten(steps.write, steps.make_directories)
        steps.make_directories = [path for path in steps.make_directories if path not in impossible]
        steps.write = {path: file for path, file in steps.write.items() if path not in impossible and path not in same}
        self.skipped += [Skipped(os.fsdecode(path), reason) for path, reason in sorted(impossible.items())]
        return frozenset(impossible)

    def _add_removals(self, steps: _Steps) -> None:
        """Remove also files that git does not report; keep files that the target's rules ignore or the target
        skipped."""
        unseen = self.spelling.without_target(self._known_absent(), steps.write, self.in_scope)
        remove = [path for path in [*steps.remove, *unseen] if path not in self.left_out]
        remove = [path for path in dict.fromkeys(remove) if path not in steps.write and path not in self.target.ignored]
        remove = self.spelling.without_target(remove, steps.write, self.in_scope)
        remove = self._keep_ignored(remove)
        rules = self._hiding_rules(steps.write, remove)
        steps.remove, steps.unseen = [*remove, *rules], [*unseen, *rules]

    def _keep_what_is_new(self, steps: _Steps) -> None:
        """With `keep_new`, keep what the target does not have, unless it has something else in that place."""
        needed = trees.folders_above([*steps.write, *steps.make_directories])
        kept = dict.fromkeys(
            path for path in steps.remove if path not in needed and not covers(steps.write.keys(), path)
        )
        self.skipped += [Skipped(os.fsdecode(path), SkipReason.NEW_KEPT) for path in kept]
        steps.remove = [path for path in steps.remove if path not in kept]

    def _obstacles(
        self, steps: _Steps, removals: obstacles.Removals, directories: Sequence[bytes]
    ) -> obstacles.Obstacles:
        """What is in the way. Files that are right already are not written."""
        self._spare_identical(steps.write, removals)
        has = functools.partial(self.spelling.has, self.now.visible_tree)
        present = obstacles.Present(self.disk, self.store, self.now, self.unsaved, has)
        found = obstacles.find(present, steps.write, removals, directories)
        for path in found.met:
            del steps.write[path]
        for path in found.alike:
            steps.write[path] = replace(steps.write[path], recheck=True)
        return found

    def _emptied_directories(self) -> list[bytes]:
        """Empty directories to remove; also those above a path from which an interrupted restore has removed it."""
        gone = [path for path in self.paths or () if trees.find(self.store, self.target.visible_tree, path) is None]
        above = trees.folders_above(gone)
        empty = [path for path in self.now.empty_directories if path not in self.empty_then and not self.keep_new]
        return self._keep_ignored([path for path in empty if path in above or self.in_scope(path)], quiet=True)

    def _refuse_torn(self, steps: _Steps) -> None:
        for path, item in self.unsaved.items():
            if item.kind is SkipReason.TORN and (path in steps.write or path in steps.remove):
                raise RestoreError(
                    f"'{os.fsdecode(path)}' keeps changing and cannot be saved before it is replaced",
                    "stop the program that writes it and try again; nothing was changed",
                )

    # -- further steps of an exact plan ----------------------------------------------------------------------

    def _not_in_target(self, path: bytes) -> bool:
        """Whether an ignored file is known not to be in the target."""
        if self.exact is None:
            return path in self.gone_for_sure
        return path not in self.target.ignored and trees.find(self.store, self.target.visible_tree, path) is None

    def _folders(self) -> Folders | None:
        if self.exact is None:
            return None
        present = {path: each.mode for path, each in self.exact.listing.folders.items()}
        return Folders(present, self.target.folders, 0o777 & ~self.target.umask)

    def _special(self) -> list[bytes]:
        if self.exact is None:
            return []
        self.skipped += [Skipped(os.fsdecode(path), SkipReason.SPECIAL_FILE) for path in self.exact.listing.special]
        for path in self.exact.listing.odd:
            self.aside[path] = None
            self.skipped.append(Skipped(os.fsdecode(path), SkipReason.BAD_DOT_GIT))
        for path in self.exact.listing.repositories:
            if path in self.now.nested or path in self.target.nested or path + b"/" in self.left_out:
                continue
            self.aside[path] = None
            self.skipped.append(Skipped(os.fsdecode(path) + "/", SkipReason.UNREADABLE_REPOSITORY))
        return list(self.exact.listing.special)

    # -- what git does not report -----------------------------------------------------------------------------

    def _known_absent(self) -> list[bytes]:
        """Files that git does not report, and that the target is known not to have: it tracks them as deleted, or a
        restore after it created them."""
        if self.exact is not None:
            return []
        tracked = trees.diff(self.store, self.target.index_tree, self.target.visible_tree)
        absent = {path for path, (_, after) in tracked.items() if after is None}
        absent |= {*self.target.stages, *self.target.intent_to_add, *self.gone_for_sure}
        return [
            path
            for path in sorted(absent)
            if self.in_scope(path)
            and path not in self.target.ignored
            and stat.S_IFMT(self.disk.mode(path) or 0) in (stat.S_IFREG, stat.S_IFLNK)
            and trees.find(self.store, self.now.visible_tree, path) is None
            and trees.find(self.store, self.target.visible_tree, path) is None
            and path not in self.unsaved
        ]

    def _hiding_rules(self, write: Mapping[bytes, FileWrite], remove: Sequence[bytes]) -> list[bytes]:
        """Ignored rule files that the target does not have, and that would hide its files from git."""
        rules = self._ignored_rules() - {*self.target.ignored, *remove}
        if self.exact is not None or self.keep_new or not (rules or self.outside_then != self.outside):
            return []
        found: set[bytes] = set()
        while True:
            after = ignore_rules.rules_after(self.repository, write, {*remove, *found}, self.outside)
            hidden = ignore_rules.hiding(self.repository, self.target, after, self.in_scope)
            more = {path for path in rules.intersection(hidden.values()) - found if self.in_scope(path)}
            if not more:
                break
            found |= more
        self.skipped += [
            Skipped(os.fsdecode(path), SkipReason.HIDDEN_NOW) for path, source in hidden.items() if not source
        ]
        return sorted(found)

    def _ignored_rules(self) -> set[bytes]:
        """The ignored rule files that can concern untracked files of the target."""
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
        """What is ignored now and becomes visible, since the rules that hide it are removed or change."""
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
        left = [*sorted(shown.files), *(path + b"/" for path in sorted(shown.repositories))]
        self.skipped += [Skipped(os.fsdecode(path), SkipReason.LEFT_VISIBLE) for path in left]
        return shown

    def _hidden_repositories(self, paths: Iterable[bytes]) -> frozenset[bytes]:
        """The paths with a repository that the current state does not contain, since git ignores it."""
        known = {*self.now.nested, *self.unsaved}
        return frozenset(
            path
            for path in paths
            if path not in known
            and stat.S_ISDIR(self.disk.mode(path) or 0)
            and untracked.is_repository(self.disk.at(path))
        )

    def _spare_identical(self, write: dict[bytes, FileWrite], leaving: obstacles.Removals) -> None:
        """Do not write ignored files that are on disk already as in the target."""
        for path in self.target.ignored.keys() & write.keys():
            found, file = self.disk.mode(path), write[path]
            if found is None or leaving.has(path):
                continue
            if stat.S_ISLNK(found) and self.disk.is_link(path, file.entry, self.store.repository):
                del write[path]
            elif obstacles.is_like(found, file):
                write[path] = replace(file, recheck=True)

    def _folders_that_change(self, coming: Iterable[bytes]) -> tuple[list[bytes], list[bytes]]:
        """Of the folders above paths to write: those that will be created, and those that exist and are empty."""
        made, filled = [], []
        for folder in trees.folders_above(coming) - {b""}:
            place = self.disk.place(folder)
            found = self.disk.mode(place)
            if found is None:
                made.append(folder)
            elif (
                stat.S_ISDIR(found)
                and trees.find(self.store, self.now.visible_tree, place) is None
                and not os.listdir(self.disk.at(place))
            ):
                filled.append(place)
        return made, filled

    # -- the worktree ---------------------------------------------------------------------------------------

    def _keep_ignored(self, remove: list[bytes], *, quiet: bool = False) -> list[bytes]:
        """Keep files that the target's ignore rules match.

        Otherwise, restoring an older `.gitignore` would remove the files that a newer one had protected.
        """
        if self.exact is not None:
            return remove  # the target is complete: what it does not contain did not exist
        candidates = [
            path
            for path in remove
            if (self.rules_differ or path not in self.untracked_now)
            # A path that the target tracks but does not have was deleted there.
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
        """Directories in the place of files to write."""
        return [place for place in map(self.disk.place, write) if stat.S_ISDIR(self.disk.mode(place) or 0)]

    def _left_links(self, delta: Mapping[bytes, tuple[Entry | None, Entry | None]]) -> list[bytes]:
        """Directories of gitlinks that the target does not have."""
        return [
            path
            for path, (before, after) in delta.items()
            if before is not None and before[0] == trees.GITLINK and after is None and self.in_scope(path)
        ]

    # -- nested repositories --------------------------------------------------------------------------------

    def _nested(self) -> dict[bytes, str]:
        """The repositories to restore; those that the target does not have are moved aside."""
        for path in self.now.nested:
            if path in self.target.nested or path in self.hidden or not self.in_scope(path):
                continue
            if path in self.left_out or path + b"/" in self.left_out:
                continue
            if self.keep_new:
                self.skipped.append(Skipped(os.fsdecode(path) + "/", SkipReason.NEW_KEPT))
            else:
                self.aside[path] = None
        for path in self.gone_for_sure - self.target.nested.keys():
            # A restore created it, and git may ignore it.
            directory = stat.S_ISDIR(self.disk.mode(path) or 0)
            if directory and self.in_scope(path) and not self.keep_new and untracked.is_repository(self.disk.at(path)):
                self.aside[path] = None
        return {
            path: oid
            for path, oid in self.target.nested.items()
            if self.in_scope(path) and self.now.nested.get(path) != oid
        }
