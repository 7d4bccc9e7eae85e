"""A scan that builds on an earlier one: git looks only at the paths that may have changed since.

Who knows these paths is somebody else (`watch`). The result is the one that a whole scan would have, or it is one:
where a case is not simple (submodules, repositories inside, conflicts, flags in the index, other rules, another
configuration, too many paths), the whole worktree is scanned.

git gets an index that has the entries of these paths only, so that it need not read the whole one. If the index was
written since, or HEAD is another commit, `diff-index` tells at which paths they differ; at all others the index has the
entry of HEAD, so that those at which the two commits differ, and those that differed before, are looked at as well.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from git_agentos.errors import AgentosError
from git_agentos.git import configuration, filters, ignore, index_entries, index_file, refs, state_dir, trees, untracked
from git_agentos.git.index_file import Entries, IndexFile
from git_agentos.git.location import Location
from git_agentos.git.scan import Child, Scan, ScanResult, TrackedChange
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.values import parse_boolean

_MOST_PATHS = 1000  # with more, a whole scan is not much slower
_STAGED = ("diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev")
_REFRESH = ("update-index", "-q", "--refresh")
_UNSTAGED = ("diff-files", "--raw", "-z", "--no-renames", "--no-abbrev")
_COMMITTED = ("diff-tree", "-r", "--name-only", "-z", "--no-renames", "--no-commit-id")
_RULES = (b".gitignore", b".gitattributes")
_NAMES_VARY = ("core.ignorecase", "core.precomposeunicode")  # a path may be that of an entry with another spelling
_SETTLED = 2_000_000_000  # nanoseconds: a file that is older than that when a scan begins was not written meanwhile


class Earlier(NamedTuple):
    """What an earlier scan found, and what that depends on: the index, the environment, the files of rules outside of
    the worktree."""

    result: ScanResult
    index_stamp: tuple[int, ...]
    entries: Entries | None
    outside: tuple[object, ...]


def keep(finished: Scan, result: ScanResult, began_ns: int) -> Earlier | None:
    """The scan that has just been read, for later ones; None if one cannot build on it. `began_ns` is when it began,
    by the clock `time.time_ns`."""
    location = finished.location
    simple = not (
        result.unmerged
        or result.nested
        or result.unreadable
        or result.assume_unchanged
        or result.skip_worktree
        or result.absent
        or result.unseen
        or result.gitlinks
        or result.hidden_rules
        or result.head_commit is None
        or any(parse_boolean(result.config.get(key, [""])[-1]) is True for key in _NAMES_VARY)
    )
    if not simple or index_entries.stamp(location) != finished.index_stamp:
        return None
    outside = _outside(location, result, before_ns=began_ns - _SETTLED)
    entries = finished.entries if isinstance(finished, Rescan) else None
    return None if outside is None else Earlier(result, finished.index_stamp, entries, outside)


def _outside(location: Location, result: ScanResult, *, before_ns: int | None = None) -> tuple[object, ...] | None:
    """The variables for git, and the stamps of the files with rules; None if one of these is younger than `before_ns`
    (nanoseconds)."""
    names = ("HOME", "XDG_CONFIG_HOME")
    environment = sorted(
        pair for pair in location.environment().items() if pair[0] in names or pair[0].startswith("GIT_")
    )
    stamps: list[tuple[str, tuple[int, ...]]] = []
    for path in _rule_files(location, result.config):
        try:
            found = os.stat(path)
        except OSError:
            stamps.append((path, ()))
            continue
        if before_ns is not None and max(found.st_mtime_ns, found.st_ctime_ns) >= before_ns:
            return None
        stamps.append((path, index_entries.stamp_of(found)))
    return (environment, stamps)


def _rule_files(location: Location, config: Mapping[str, list[str]]) -> list[str]:
    """The files of ignore rules and of attributes outside of the worktree."""
    own = [os.path.join(location.root, os.path.expanduser(each)) for each in config.get("core.attributesfile", [])]
    exclude = os.path.join(location.common_dir, "info", "exclude")
    return [exclude, ignore.users_file(location, config), *own, *filters.outside_files(location)]


class Rescan(Scan):
    """A scan after an earlier one. `paths` may have changed since (a folder with a slash at the end); of the folders
    `ignored` changes are not known: nothing in them may be tracked. RepositoryError if HEAD cannot be read. Once it was
    read, `is_whole` tells whether git has scanned the whole worktree after all."""

    def __init__(
        self, location: Location, earlier: Earlier, paths: Collection[bytes], ignored: Collection[bytes] = ()
    ) -> None:
        self.location = location
        self.index_stamp = index_entries.stamp(location)
        self.entries = earlier.entries
        self.is_whole = False
        self._earlier, self._ignored = earlier, ignored
        self._paths = {path.rstrip(b"/") for path in paths}
        self._config_values: dict[str, list[str]] | None = None
        self._is_over = False
        self._head = refs.read_head(location).commit
        self._children: list[Child] = []
        self._config = self._start(configuration.LIST, neutral_config=False)
        self._version = self._start(("version",))
        self._staged, self._committed = self._compare_index()

    def _start(self, args: Sequence[str | bytes], **options: Any) -> Child:
        child = Child(args, self.location, **options)
        self._children.append(child)
        return child

    def _compare_index(self) -> tuple[Child | None, Child | None]:
        """Start what tells at which paths the index differs from HEAD, and HEAD from what it was; None for what is as
        it was."""
        before = self._earlier.result.head_commit
        if before is None or self._head is None or not _are_simple(self._paths):
            return None, None
        if (self.index_stamp, self._head) == (self._earlier.index_stamp, before):
            return None, None
        staged = self._start((*_STAGED, self._head))
        return staged, None if self._head == before else self._start((*_COMMITTED, before, self._head))

    def discard(self) -> None:
        """Stop the processes of a scan whose result is not needed; nothing happens if it was read."""
        self._is_over = True
        for child in self._children:
            child.discard()

    def read(self) -> ScanResult:
        """Wait for git and parse its output; GitCommandError if the index is damaged."""
        result = None
        # Whatever is wrong, a whole scan has the same error, and says what it is.
        with contextlib.suppress(AgentosError, OSError, ValueError):
            result = self._narrow()
        self.discard()
        if result is not None:
            return result
        self.entries, self.is_whole = None, True
        whole = Scan(self.location)
        self.index_stamp = whole.index_stamp
        return whole.read()

    def _narrow(self) -> ScanResult | None:
        """The result; None if only a whole scan has it."""
        known = self._earlier.result
        if self._head is None or not _are_simple(self._paths) or self.config() != known.config:
            return None
        if _outside(self.location, known) != self._earlier.outside:
            return None
        if self._version.result()[0].decode("ascii", "replace").strip() != known.git_version:
            return None
        if self._staged is None and not self._paths and not self._ignored:
            return known
        index = index_file.read(self.location, self.entries)  # meanwhile, git compares
        if index is None or index.entries.stamp != self.index_stamp:
            return None
        self.entries = index.entries
        if any(index.has_below(folder.rstrip(b"/")) for folder in self._ignored):
            return None
        staged = {change.path: change for change in known.changed if change.staged != "."}
        paths = set(self._paths)
        if self._staged is not None:
            staged = {each.path: each for each in _staged(self._staged.result()[0])}
            paths.update(staged, (change.path for change in known.changed))
        if self._committed is not None:
            paths.update(path for path in self._committed.result()[0].split(b"\0") if path)
        if not _are_simple(paths):
            return None
        if self._staged is not None:
            tracks_attributes = index.data.find(b".gitattributes\0") >= 0
            known = known._replace(head_commit=self._head, tracks_attributes=tracks_attributes)
        return self._look(known, staged, paths | self._emptied(paths), index) if paths else known

    def _emptied(self, paths: Iterable[bytes]) -> set[bytes]:
        """The folders that are empty since one of these paths was deleted."""
        root = os.path.join(os.fsencode(self.location.root), b"")
        found = set()
        for path in paths:
            folder = path
            while folder and not os.path.lexists(root + folder):
                folder = folder.rpartition(b"/")[0]
            if folder and folder != path and os.path.isdir(root + folder) and not os.listdir(root + folder):
                found.add(folder)
        return found

    def _look(
        self, known: ScanResult, staged: Mapping[bytes, TrackedChange], paths: set[bytes], index: IndexFile
    ) -> ScanResult | None:
        """Let git look at these paths, and put its answer in the place of what was known of them."""
        found = self._ask(paths, index)
        if found is None:
            return None
        unstaged, listed = found
        is_seen = _below(paths)
        unstaged += [change for change in known.changed if change.unstaged != "." and not is_seen(change.path)]
        changed = _combine(staged, {change.path: change for change in unstaged})
        others = untracked.collect(self.location, listed, [each.path for each in changed if each.unstaged == "D"])
        if others.nested or others.unreadable or self._hides_rules(paths, others, index):
            return None
        above = trees.folders_above(paths)
        untouched = [path for path in known.untracked if not is_seen(path)]
        empty = [path for path in known.empty_directories if not is_seen(path) and path not in above]
        return known._replace(
            changed=changed,
            untracked=list(dict.fromkeys([*untouched, *others.files])),
            empty_directories=list(dict.fromkeys([*empty, *others.empty_directories])),
        )

    def _ask(self, paths: set[bytes], index: IndexFile) -> tuple[list[TrackedChange], bytes] | None:
        """How these paths differ from the index, and what LIST_DIRECTORIES lists of them; None if git warns."""
        root = os.path.join(os.fsencode(self.location.root), b"")
        folders = sorted(path for path in paths if os.path.isdir(root + path) and not os.path.islink(root + path))
        others = sorted(paths.difference(folders))
        with state_dir.scratch(self.location) as scratch:
            part = os.path.join(scratch, "index")
            with open(part, "wb") as file:
                file.write(index.part(paths))
            # By this time git recognizes the entries whose files may have changed after they were added.
            os.utime(part, ns=(index.mtime_ns, index.mtime_ns))
            # The listings need no stat data: that git writes this index anew does not concern them.
            extra = {"GIT_INDEX_FILE": part}
            listings = [
                self._start((*command, "--", *chosen), extra=extra)
                for command, chosen in ((untracked.LIST, others), (untracked.LIST_DIRECTORIES, folders))
                if chosen
            ]
            self._start(_REFRESH, extra=extra).result()
            unstaged = _unstaged(self._start(_UNSTAGED, extra=extra).result()[0])
            said = [child.result() for child in listings]
        return None if any(warnings for _, warnings in said) else (unstaged, b"".join(listed for listed, _ in said))

    def _hides_rules(self, paths: Iterable[bytes], found: untracked.Untracked, index: IndexFile) -> bool:
        """Whether a folder above one of these files has ignored rules."""
        visible = [*found.files, *(path + b"/." for path in found.empty_directories)]
        visible += [path for path in paths if index.find(path) is not None]
        rules = [folder + b"/" + _RULES[0] if folder else _RULES[0] for folder in trees.folders_above(visible)]
        tracked = [path for path in rules if index.find(path) is not None]
        shown = [path for path in self._earlier.result.untracked if path.rpartition(b"/")[2] == _RULES[0]]
        return bool(untracked.hidden_rules(self.location, tracked, [*visible, *shown]))


def _are_simple(paths: Collection[bytes]) -> bool:
    """Whether there are few of these paths, and none is a file of rules, which are about other paths."""
    return len(paths) <= _MOST_PATHS and not any(path.rpartition(b"/")[2] in (b"", *_RULES) for path in paths)


def _differences(out: bytes) -> Iterator[tuple[bytes, str, int, int, list[str]]]:
    """The output of `--raw -z`: the path, git's letter, the mode before and after, and both ids."""
    fields = out.split(b"\0")
    for head, path in zip(fields[::2], fields[1::2], strict=False):
        before, after, *oids, letter = head.decode("ascii").split()
        yield path, letter, int(before.removeprefix(":"), 8), int(after, 8), oids


def _staged(out: bytes) -> Iterator[TrackedChange]:
    for path, letter, before, after, oids in _differences(out):
        yield TrackedChange(path, letter, ".", before, after, after, oids[1] if after else None)


def _unstaged(out: bytes) -> list[TrackedChange]:
    return [
        TrackedChange(path, ".", letter, before, before, after, oids[0])
        for path, letter, before, after, oids in _differences(out)
    ]


def _combine(staged: Mapping[bytes, TrackedChange], unstaged: Mapping[bytes, TrackedChange]) -> list[TrackedChange]:
    """Both differences of each path, as `git status` shows them."""
    changed = []
    for path in sorted({*staged, *unstaged}):
        one, two = staged.get(path), unstaged.get(path)
        if two is None:
            assert one is not None
            changed.append(one._replace(unstaged=".", worktree_mode=one.index_mode))
        elif one is None:
            changed.append(two._replace(staged=".", head_mode=two.index_mode))
        else:
            changed.append(one._replace(unstaged=two.unstaged, worktree_mode=two.worktree_mode))
    return changed


def _below(paths: Collection[bytes]) -> Callable[[bytes], bool]:
    """Whether a path is one of these, or below one."""

    def is_below(path: bytes) -> bool:
        while path:
            if path in paths:
                return True
            path = path.rpartition(b"/")[0]
        return False

    return is_below
