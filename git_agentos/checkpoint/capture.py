"""Worktree -> State: reading a complete working state, and changing nothing.

What changed is git's answer (`git.scan`); the bytes are read here, or by git where a filter stands between file and
object. A file is read until it did not change under the reading; what never holds still is said in `skipped`.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import os
import shutil
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from git_agentos.checkpoint import format, journal, nested, operation, timeline
from git_agentos.checkpoint.statcache import StatCache, now_ns, row
from git_agentos.checkpoint.state import Skipped, Sparse, State
from git_agentos.config import Settings, boolean
from git_agentos.errors import AgentosError, GitCommandError, IncompleteCaptureError
from git_agentos.git import convert, ignore, locks, refs, scan, trees
from git_agentos.git.objects import FileChanged
from git_agentos.git.repository import Repository, Writer
from git_agentos.git.scan import Scan, Scanned
from git_agentos.git.trees import Change, Entry

_STREAM_FROM = 8 << 20
_ATTEMPTS = 6
_TICK_NS = 12_000_000
_PATIENCE = 20.0  # seconds
TORN = "changed while it was being read; the saved bytes may be torn"
TOO_LARGE = "larger than agentos.maxFileSize"
UNREADABLE = "cannot be read: "


class Request(NamedTuple):
    """What a capture shall hold beyond the visible state.

    `ignored` names ignored files to save; `everything_ignored` takes them all. `take_nested` makes a checkpoint in
    a repository inside the worktree and returns its id; without it there is a record of its HEAD alone.
    """

    ignored: frozenset[bytes] = frozenset()
    everything_ignored: bool = False
    take_nested: nested.Take | None = None


def capture(
    repository: Repository,
    writer: Writer,
    settings: Settings,
    started: Scan | None = None,
    request: Request | None = None,
) -> State:
    """The state now. Objects go to `writer`; they are not on disk before it is flushed.

    Raises IncompleteCaptureError where something visible cannot be read, or HEAD never holds still.
    """
    location = repository.location
    request = request or Request()
    deadline = time.monotonic() + _PATIENCE
    for attempt in itertools.count():
        current = started if attempt == 0 and started is not None else Scan(location)
        scanned = current.read()
        head = refs.read_head(location)
        settled = head.commit == scanned.head_commit and (
            current.index_stamp == scan.index_stamp(location) or attempt > 1
        )
        if settled:
            break
        if time.monotonic() > deadline:
            raise IncompleteCaptureError("HEAD keeps moving while the state is being read", "try again")
        time.sleep(os.urandom(1)[0] / 255 * 0.02 * (attempt + 1))  # not in step with others
    return _Capture(repository, writer, settings, scanned, request).state(head)


class _Capture:
    """The working parts of one capture."""

    def __init__(
        self, repository: Repository, writer: Writer, settings: Settings, scanned: Scanned, request: Request
    ) -> None:
        self.repository = repository
        self.writer = writer
        self.settings = settings
        self.scanned = scanned
        self.request = request
        self.root = os.fsencode(repository.location.root)
        self.cache = StatCache(repository.location.state_dir)
        self.skipped: list[Skipped] = []
        self.permissions: dict[bytes, int] = {}
        self.raw: dict[bytes, str] = {}
        self.umask = _umask()
        self.plain_links: set[bytes] = set()
        if not boolean(scanned.config, "core.symlinks", default=True):
            self.plain_links = {change.path for change in scanned.changed if change.worktree_mode == trees.SYMLINK}

    def state(self, head: refs.Head) -> State:
        scanned = self.scanned
        head_tree = self.repository.commit_tree(head.commit)
        index_changes, intent_to_add = self._index_changes(head_tree)
        stages = {
            entry.path: {n + 1: found for n, found in enumerate(entry.stages) if found is not None}
            for entry in scanned.unmerged
        }
        in_worktree, links = self._worktree_paths()
        untracked = self._small_enough(scanned.untracked)
        ignored = self._ignored_paths()
        unseen = [
            path for path, (mode, _) in scanned.unseen.items() if mode != trees.GITLINK and path not in in_worktree
        ]
        entries = self._entries([*in_worktree, *untracked, *ignored, *unseen])
        tracked: dict[bytes, Change] = {path: self._tracked_entry(path, entries) for path in in_worktree}
        hidden = {path: self._tracked_entry(path, entries) for path in unseen}
        hidden = {path: entry for path, entry in hidden.items() if entry != scanned.unseen[path]}
        tracked.update(hidden)
        tracked.update(links)
        for change in scanned.changed:
            if change.unstaged == "D":
                tracked[change.path] = None
        for conflict in scanned.unmerged:
            if not conflict.worktree_mode:
                tracked[conflict.path] = None
        others = {path: entries[path] for path in untracked if path in entries}
        saved_ignored = {path: entries[path] for path in ignored if path in entries}
        repositories = nested.capture(
            self.repository, self.writer, scanned.nested, scanned.gitlinks, self.request.take_nested
        )
        self.skipped += repositories.skipped
        self.skipped += [Skipped(os.fsdecode(path), UNREADABLE + "permission denied") for path in scanned.unreadable]

        index_tree = trees.edit(self.writer, head_tree, index_changes)
        only_staged = {
            change.path: change.index_oid
            for change in scanned.changed
            if change.staged in "AMT"
            and change.unstaged == "."
            and change.index_oid is not None
            and change.index_mode in (trees.REGULAR, trees.EXECUTABLE)
            and stat.S_ISREG(_mode(os.path.join(self.root, change.path)))
        }
        self.compare(only_staged, self.converted(list(only_staged)))
        self.note_permissions({c.path: c.index_mode for c in scanned.changed if c.path in only_staged})
        self._check_suspects({*in_worktree, *untracked, *links, *stages, *only_staged}, index_tree)
        self._check_attributes({*in_worktree, *untracked, *links, *stages}, index_tree)
        tree = trees.edit(self.writer, index_tree, tracked)
        files = operation.read(self.repository.location)
        pins, operation_trees = operation.pins(self.repository, files)
        self.cache.save()
        return State(
            head=head,
            index_tree=index_tree,
            tree=tree,
            untracked_tree=trees.build(self.writer, others),
            visible_tree=trees.edit(self.writer, tree, others),
            stages=stages,
            intent_to_add=intent_to_add,
            assume_unchanged=scanned.assume_unchanged,
            skip_worktree=scanned.skip_worktree,
            absent=scanned.absent,
            sparse=self._sparse(),
            empty_directories=sorted(scanned.empty_directories),
            permissions=self.permissions,
            umask=self.umask,
            raw=self.raw,
            ignored=saved_ignored,
            operation=operation.name_of(files),
            operation_files=operation.store(files, self.writer),
            operation_trees=operation_trees,
            pins=[*pins, *repositories.pins],
            nested=repositories.records,
            skipped=sorted(self.skipped, key=lambda item: item.path),
            staged=sorted({c.path for c in scanned.changed if c.staged != "."} | stages.keys() | intent_to_add.keys()),
            unstaged=sorted(
                {c.path for c in scanned.changed if c.unstaged != "." and c.path not in intent_to_add}
                | hidden.keys()
                | stages.keys()
                | repositories.differing
            ),
            git_version=scanned.git_version,
            untracked=sorted(
                {*others, *(path + b"/" for path in repositories.records.keys() - scanned.gitlinks.keys())}
            ),
        )

    # -- the index ------------------------------------------------------------------------------------------

    def _index_changes(self, head_tree: str) -> tuple[dict[bytes, Change], dict[bytes, int]]:
        """How the index differs from HEAD's tree, and the intent-to-add entries, which no tree holds."""
        changes: dict[bytes, Change] = {}
        intent: dict[bytes, int] = {}
        for change in self.scanned.changed:
            in_head = change.staged == "." and change.unstaged == "D" and not self._in_tree(head_tree, change.path)
            if change.unstaged == "A" or in_head or (change.staged == "D" and change.unstaged == "D"):
                # git shows an intent-to-add entry as added in the worktree, and, where its file is gone, as an
                # unchanged empty blob that HEAD does not have.
                intent[change.path] = change.worktree_mode or trees.REGULAR
                if change.staged == "D":
                    changes[change.path] = None
            elif change.staged == "D":
                changes[change.path] = None
            elif change.staged != "." and change.index_oid is not None:
                changes[change.path] = (change.index_mode, change.index_oid)
        for conflict in self.scanned.unmerged:
            changes[conflict.path] = conflict.stages[1]
        return changes, intent

    def _in_tree(self, tree: str, path: bytes) -> bool:
        return trees.find(self.writer, tree, path) is not None

    def _sparse(self) -> Sparse | None:
        values = self.scanned.config
        if not boolean(values, "core.sparsecheckout", default=False):
            return None
        patterns = None
        path = os.path.join(self.repository.location.git_dir, "info", "sparse-checkout")
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            patterns = self.writer.write("blob", file.read())
        return Sparse(
            cone=boolean(values, "core.sparsecheckoutcone", default=True),
            sparse_index=boolean(values, "index.sparse", default=False),
            patterns=patterns,
        )

    # -- which paths ----------------------------------------------------------------------------------------

    def _worktree_paths(self) -> tuple[dict[bytes, int], dict[bytes, Change]]:
        """Tracked files to read (path -> the mode git reports), and gitlinks with the commit that is checked out."""
        files: dict[bytes, int] = {}
        links: dict[bytes, Change] = {}
        for change in self.scanned.changed:
            if change.unstaged in "MTA" and change.worktree_mode != trees.GITLINK:
                files[change.path] = change.worktree_mode
            elif change.unstaged in "MTA":
                commit = nested.head_commit(self.repository.location.root, change.path) or change.index_oid
                if commit is not None:
                    links[change.path] = (trees.GITLINK, commit)
        for conflict in self.scanned.unmerged:
            if conflict.worktree_mode == trees.GITLINK:
                commit = nested.head_commit(self.repository.location.root, conflict.path)
                links[conflict.path] = (trees.GITLINK, commit) if commit else conflict.stages[1]
            elif conflict.worktree_mode:
                files[conflict.path] = conflict.worktree_mode
        return files, links

    def _small_enough(self, paths: Iterable[bytes]) -> list[bytes]:
        limit = self.settings.max_file_size
        kept = []
        for path in paths:
            if limit and path not in self.request.ignored:
                with contextlib.suppress(OSError):
                    found = os.lstat(os.path.join(self.root, path))
                    if stat.S_ISREG(found.st_mode) and found.st_size > limit:
                        self.skipped.append(Skipped(os.fsdecode(path), TOO_LARGE))
                        continue
            kept.append(path)
        return kept

    def _ignored_paths(self) -> list[bytes]:
        paths: set[bytes] = set()
        if self.settings.include_ignored:
            paths |= set(ignore.matching(self.repository, self.settings.include_ignored))
        if self.request.everything_ignored:
            paths |= set(ignore.matching(self.repository, ["*"]))
        paths -= set(self.scanned.untracked)
        # What an operation is about to overwrite has to be saved whatever its size.
        return [*self._small_enough(sorted(paths - self.request.ignored)), *sorted(self.request.ignored)]

    # -- bytes ----------------------------------------------------------------------------------------------

    def _tracked_entry(self, path: bytes, entries: Mapping[bytes, Entry]) -> Change:
        entry = entries.get(path)
        if entry is None or self.settings.file_mode or entry[0] == trees.SYMLINK:
            return entry
        # core.fileMode=false: the executable bit of a tracked path is the index's, whatever the disk says.
        mode = next((c.worktree_mode for c in self.scanned.changed if c.path == path and c.unstaged != "."), entry[0])
        if path in self.scanned.unseen:
            mode = self.scanned.unseen[path][0]
        if mode != entry[0] and mode in (trees.REGULAR, trees.EXECUTABLE):
            bits = self.permissions.get(path, self.usual(entry[0]))
            self.permissions[path] = bits
            return (mode, entry[1])
        return entry

    def usual(self, mode: int) -> int:
        return (0o777 if mode == trees.EXECUTABLE else 0o666) & ~self.umask

    def _entries(self, paths: Sequence[bytes]) -> dict[bytes, Entry]:
        """Mode and blob of each path that is there."""
        converted = self.converted(paths)
        entries: dict[bytes, Entry] = {}
        through_git: list[bytes] = []
        for path in paths:
            full = os.path.join(self.root, path)
            try:
                found = os.lstat(full)
            except (FileNotFoundError, NotADirectoryError):
                continue
            if stat.S_ISLNK(found.st_mode):
                entries[path] = (trees.SYMLINK, self.writer.write("blob", os.readlink(full)))
            elif stat.S_ISREG(found.st_mode) and path in self.plain_links:
                # core.symlinks=false: a tracked symlink is a file that holds its target.
                if stat.S_IMODE(found.st_mode) != self.usual(trees.REGULAR):
                    self.permissions[path] = stat.S_IMODE(found.st_mode)
                entries[path] = (trees.SYMLINK, self._plain(path, full))
            elif stat.S_ISREG(found.st_mode):
                mode = trees.EXECUTABLE if found.st_mode & 0o100 else trees.REGULAR
                if stat.S_IMODE(found.st_mode) != self.usual(mode):
                    self.permissions[path] = stat.S_IMODE(found.st_mode)
                if path in converted:
                    through_git.append(path)
                    entries[path] = (mode, "")
                else:
                    entries[path] = (mode, self._plain(path, full))
        for path, oid in self._converted(through_git).items():
            entries[path] = (entries[path][0], oid)
        return {path: entry for path, entry in entries.items() if entry[1]}

    def _plain(self, path: bytes, full: bytes) -> str:
        """The blob of a file's bytes as they are; empty if the file has just gone."""
        oid = ""
        for _ in range(_ATTEMPTS):
            started = now_ns()
            try:
                # O_NONBLOCK: a file that has just become a pipe must not hang us.
                descriptor = os.open(full, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            except (FileNotFoundError, NotADirectoryError):
                return ""
            except OSError as error:
                if error.errno == errno.ELOOP:
                    return self.writer.write("blob", os.readlink(full))
                raise IncompleteCaptureError(
                    f"'{os.fsdecode(path)}' cannot be read: {os.strerror(error.errno or 0).lower()}",
                    "make it readable, or ignore it",
                ) from error
            try:
                before = _settled(descriptor)
                known = self.cache.get(path, before)
                if known is not None and self.repository.exists(known):
                    self.writer.rely(known, functools.partial(self._read_again, path, known))
                    return known
                if before.st_size > _STREAM_FROM:
                    try:
                        oid = self.writer.write_stream(descriptor, before.st_size)
                    except FileChanged:
                        continue
                else:
                    oid = self.writer.write("blob", _read(descriptor, before.st_size))
                after = os.fstat(descriptor)
            finally:
                os.close(descriptor)
            if row(before) == row(after):
                self.cache.put(path, before, oid, started)
                return oid
        if not oid:
            raise IncompleteCaptureError(
                f"'{os.fsdecode(path)}' keeps growing while it is being read", "stop what writes it, or ignore it"
            )
        self.skipped.append(Skipped(os.fsdecode(path), TORN))
        return oid

    def _read_again(self, path: bytes, expected: str) -> None:
        """Store a file's blob anew: it was found in the store, and then pruned."""
        with open(os.path.join(self.root, path), "rb") as file:
            oid = self.writer.write_stream(file.fileno(), os.fstat(file.fileno()).st_size)
        if oid != expected:
            raise IncompleteCaptureError(f"'{os.fsdecode(path)}' changed while it was being saved", "try again")

    def _converted(self, paths: list[bytes]) -> dict[bytes, str]:
        """Blobs of files that git converts, with their own bytes in `raw` where a checkout would give others."""
        result: dict[bytes, str] = {}
        waiting = paths
        for _ in range(_ATTEMPTS):
            if not waiting:
                return result
            before = {path: self._stamp(path) for path in waiting}
            cleaned = convert.clean(self.repository, waiting)
            contents = {path: self._plain(path, os.path.join(self.root, path)) for path in waiting}
            lossy = self._lossy({p: oid for p, oid in cleaned.items() if oid is not None})
            changed = [path for path in waiting if before[path] != self._stamp(path)]
            for path in waiting:
                oid = cleaned[path]
                if oid is None:
                    # A required filter fails: the file's own bytes are all there is, and they are enough.
                    oid = contents[path]
                    self.raw[path] = contents[path]
                elif path in lossy:
                    self.raw[path] = contents[path]
                else:
                    self.raw.pop(path, None)
                self.writer.rely(oid, functools.partial(convert.clean, self.repository, [path]))
                result[path] = oid
            waiting = changed
        self.skipped += [Skipped(os.fsdecode(path), TORN) for path in waiting]
        return result

    def _check_attributes(self, seen: set[bytes], index_tree: str) -> None:
        """Where a `.gitattributes` differs from HEAD's, files below it that git calls unchanged may have bytes that no
        checkout would give any more: their own bytes are kept as well."""
        changed = [*(change.path for change in self.scanned.changed), *self.scanned.untracked]
        folders = {path.rpartition(b"/")[0] for path in changed if path.rpartition(b"/")[2] == b".gitattributes"}
        if not folders:
            return
        below = [
            (path, entry)
            for path, entry in trees.walk(self.writer, index_tree)
            if entry[0] in (trees.REGULAR, trees.EXECUTABLE)
            and path not in seen
            and any(folder == b"" or path.startswith(folder + b"/") for folder in folders)
            and stat.S_ISREG(_mode(os.path.join(self.root, path)))
        ]
        blobs = {path: entry[1] for path, entry in below}
        self.compare(blobs, self.converted(list(blobs)), plain=True)

    def _check_suspects(self, seen: set[bytes], index_tree: str) -> None:
        """Files of which an earlier checkpoint kept their own bytes, and that git now calls unchanged.

        Whether git sees them depends on the index's stat data: an entry without a size is compared after conversion.
        """
        location = self.repository.location
        if not convert.possible(self.repository, self.scanned.config, tracks_attributes=self.scanned.tracks_attributes):
            return
        newest = timeline.newest(self.repository, timeline.name_of(location))
        last = journal.read_last(location)
        suspects: set[bytes] = set()
        for oid in {newest and newest.checkpoint, last and last.target} - {None}:
            with contextlib.suppress(AgentosError):
                suspects |= format.raw_paths(self.repository, str(oid))
        blobs = {
            path: entry[1]
            for path in suspects - seen
            if (entry := trees.find(self.writer, index_tree, path)) is not None
            and entry[0] in (trees.REGULAR, trees.EXECUTABLE)
            and stat.S_ISREG(_mode(os.path.join(self.root, path)))
        }
        self.compare(blobs, self.converted(list(blobs)), plain=True)

    def converted(self, paths: Sequence[bytes]) -> set[bytes]:
        """Those of `paths` that git converts."""
        return convert.needing_conversion(
            self.repository, paths, self.scanned.config, tracks_attributes=self.scanned.tracks_attributes
        )

    def compare(self, blobs: Mapping[bytes, str], converted: set[bytes], *, plain: bool = False) -> None:
        """Keep the own bytes of files whose blob does not check out to them; with `plain` also of those that git would
        not convert."""
        contents = {
            path: self._plain(path, os.path.join(self.root, path)) for path in blobs if plain or path in converted
        }
        lossy = self._lossy({path: blobs[path] for path in converted}) if converted else set()
        for path, own in contents.items():
            if own and (path in lossy or (path not in converted and own != blobs[path])):
                self.raw[path] = own

    def note_permissions(self, modes: Mapping[bytes, int]) -> None:
        """Keep the permission bits of files (path -> git's mode) that are other than usual."""
        for path, mode in modes.items():
            found = _mode(os.path.join(self.root, path))
            if stat.S_ISREG(found) and stat.S_IMODE(found) != self.usual(mode):
                self.permissions[path] = stat.S_IMODE(found)

    def _stamp(self, path: bytes) -> tuple[int, ...]:
        try:
            return row(os.lstat(os.path.join(self.root, path)))
        except (FileNotFoundError, NotADirectoryError):
            return ()

    def _lossy(self, cleaned: Mapping[bytes, str]) -> set[bytes]:
        """Those paths whose blob does not check out to the bytes that the worktree has."""
        location = self.repository.location
        with locks.scratch(location) as folder:
            into = os.path.join(folder, "smudged")
            os.mkdir(into)
            base = os.path.join(location.git_dir, "index") if self.scanned.tracks_attributes else None
            try:
                convert.smudge(
                    self.repository,
                    {path: (trees.REGULAR, oid) for path, oid in cleaned.items()},
                    into,
                    base_index=base,
                )
            except GitCommandError:
                pass  # a smudge filter fails: what it did not write cannot be had back through it
            lossy = set()
            for path in cleaned:
                target = os.path.join(os.fsencode(into), path)
                if not _same(target, os.path.join(self.root, path)):
                    lossy.add(path)
            shutil.rmtree(into, ignore_errors=True)
        return lossy


def _mode(path: bytes) -> int:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def _same(one: bytes, other: bytes) -> bool:
    try:
        with open(one, "rb") as a, open(other, "rb") as b:
            while True:
                x, y = a.read(1 << 20), b.read(1 << 20)
                if x != y:
                    return False
                if not x:
                    return True
    except OSError:
        return False


def _settled(descriptor: int) -> os.stat_result:
    """The stat data of an open file that nobody is writing at this moment, and whose time stamps will show it if
    somebody begins to.

    A write sets the modification time when it begins, in the ticks of a coarse clock. So a stamp of this very tick is
    waited out, and so is a write under way: to seek for a hole, Linux takes the inode's lock.
    """
    while True:
        with contextlib.suppress(OSError, AttributeError):
            os.lseek(descriptor, 0, os.SEEK_HOLE)
            os.lseek(descriptor, 0, os.SEEK_SET)
        found = os.fstat(descriptor)
        age = now_ns() - max(found.st_mtime_ns, found.st_ctime_ns)
        if not 0 <= age < _TICK_NS:
            return found
        time.sleep((_TICK_NS - age) / 1e9)


def _read(descriptor: int, size: int) -> bytes:
    parts = []
    while chunk := os.read(descriptor, max(size + 1, 4096)):
        parts.append(chunk)
    return b"".join(parts)


def _umask() -> int:
    """The process's umask, read without setting it where the kernel tells."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/status", "rb") as file:
        for line in file:
            if line.startswith(b"Umask:"):
                return int(line.split()[1], 8)
    value = os.umask(0o022)
    os.umask(value)
    return value


def unseen_by_git(
    repository: Repository, writer: Writer, settings: Settings, entries: Mapping[bytes, Entry]
) -> tuple[dict[bytes, str], dict[bytes, int]]:
    """Of files that git calls unchanged (path -> entry): the own bytes of those that no checkout would give, and
    permission bits other than a checkout's.

    A filter may lose something on the way in: what it lost is in the worktree alone.
    """
    scanned = scan.Scanned(config=dict(settings.values), tracks_attributes=True)
    worker = _Capture(repository, writer, settings, scanned, Request())
    files = {
        path: oid
        for path, (mode, oid) in entries.items()
        if mode in (trees.REGULAR, trees.EXECUTABLE) and stat.S_ISREG(_mode(os.path.join(worker.root, path)))
    }
    worker.compare(files, worker.converted(list(files)))
    worker.note_permissions({path: mode for path, (mode, _) in entries.items()})
    return worker.raw, worker.permissions
