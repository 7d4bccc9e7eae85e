"""What must be done to get from one state to another: worked out completely before anything is touched.

Only paths that differ are in a plan. It also finds what is in the way: files that the present state does not hold
(ignored ones) and that would be overwritten or removed have to be saved first; what cannot be saved makes the plan
impossible.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from git_agentos.checkpoint import capture
from git_agentos.checkpoint.state import Skipped, State
from git_agentos.errors import CheckpointFormatError, RestoreError
from git_agentos.git import ignore, index, scan, trees
from git_agentos.git.objects import hash_file
from git_agentos.git.repository import Repository, Writer
from git_agentos.git.trees import Entry

LEFT_IGNORED = "ignored at the checkpoint: left in place"
NEW_KEPT = "created since: kept"


@dataclass(frozen=True)
class FileWrite:
    """One file or symlink to put in place: its entry, the blob of its own bytes if any, and its permission bits.

    With `recheck` it is written only if its bytes turn out to differ from those on disk.
    """

    entry: Entry
    raw: str | None
    permissions: int
    recheck: bool = False


@dataclass(frozen=True)
class Plan:
    """The steps. `in_the_way` are files that give way, `unsaved` those of them that no state holds yet; `created` are
    paths of `write` where there is nothing now, `emptied` empty directories among ignored files that give way;
    `aside` nested repositories that leave; `nested` those that come or change (path -> description blob)."""

    write: Mapping[bytes, FileWrite] = field(default_factory=dict)
    remove: Sequence[bytes] = ()
    chmod: Mapping[bytes, int] = field(default_factory=dict)
    make_directories: Sequence[bytes] = ()
    remove_directories: Sequence[bytes] = ()
    keep_directories: frozenset[bytes] = frozenset()
    in_the_way: frozenset[bytes] = frozenset()
    unsaved: frozenset[bytes] = frozenset()
    created: Sequence[bytes] = ()
    emptied: Sequence[bytes] = ()
    aside: Sequence[bytes] = ()
    nested: Mapping[bytes, str] = field(default_factory=dict)
    index: index.IndexEdit = field(default_factory=index.IndexEdit)
    skipped: Sequence[Skipped] = ()

    @property
    def changed(self) -> list[str]:
        """Paths that will have other content than now."""
        return sorted(
            os.fsdecode(path)
            for path in {*(p for p, f in self.write.items() if not f.recheck), *self.chmod, *self.nested}
        )

    @property
    def removed(self) -> list[str]:
        """Paths that will leave the worktree."""
        return sorted(os.fsdecode(path) for path in {*self.remove, *self.aside})


def make(
    repository: Repository,
    store: Writer,
    now: State,
    target: State,
    *,
    paths: Sequence[bytes] | None = None,
    keep_new: bool = False,
) -> Plan:
    """The plan from `now` to `target`; `paths` (files or directories) narrows it, `keep_new` leaves what is new.

    Raises RestoreError where something that cannot be saved is in the way, CheckpointFormatError for a target that
    names paths which no worktree may have.
    """
    return _Planner(repository, store, now, target, paths, keep_new).plan()


class _Planner:
    def __init__(
        self,
        repository: Repository,
        store: Writer,
        now: State,
        target: State,
        paths: Sequence[bytes] | None,
        keep_new: bool,
    ) -> None:
        self.repository = repository
        self.store = store
        self.now = now
        self.target = target
        self.paths = paths
        self.keep_new = keep_new
        self.root = os.fsencode(repository.location.root)
        self.skipped: list[Skipped] = []
        self._directories: set[bytes] = set()
        self.rules_differ = False
        self.emptied: list[bytes] = []
        self.in_the_way: set[bytes] = set()
        self.aside: dict[bytes, None] = {}
        self.unsaved = {os.fsencode(item.path).rstrip(b"/"): item.reason for item in now.skipped}

    def wanted(self, path: bytes) -> bool:
        """Whether the plan may touch `path` at all."""
        if scan.own(path):
            return False
        return self.paths is None or any(path == p or path.startswith(p + b"/") or p == b"" for p in self.paths)

    def plan(self) -> Plan:
        delta = trees.diff(self.store, self.now.visible_tree, self.target.visible_tree)
        self.rules_differ = any(path.rpartition(b"/")[2] == b".gitignore" for path in delta)
        self._add_absence(delta)
        write: dict[bytes, FileWrite] = {}
        remove: list[bytes] = []
        mode_only: dict[bytes, int] = {}
        make_directories = [path for path in self.target.empty_directories if self.wanted(path)]
        for path, (before, after) in sorted(delta.items()):
            _check(path)
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
                    and self.now.raw.get(path) == self.target.raw.get(path)
                ):
                    mode_only[path] = self._permissions(path, after)
                else:
                    write[path] = self._write(path, after)
            elif before is not None and not gone_link:
                remove.append(path)
        self._add_raw(write)
        self._recheck(delta, write)
        for path, entry in self.target.ignored.items():
            _check(path)
            if self.wanted(path) and self.now.ignored.get(path) != entry:
                write[path] = self._write(path, entry)
        gone_for_sure = set(self.target.not_present)
        remove += [path for path in self.now.ignored if path in gone_for_sure and self.wanted(path)]
        # What the target itself had to leave out was there: no checkpoint holds it as it was.
        left_out = {os.fsencode(item.path) for item in self.target.skipped}
        remove = [path for path in remove if path not in left_out]
        remove = self._keep_ignored([path for path in dict.fromkeys(remove) if path not in write])
        self.skipped += [item for item in self.now.skipped if item.reason != capture.TORN]
        nested = self._nested()
        blocking = self._blocking_directories(write)
        if self.keep_new:
            kept = [path for path in remove if not self._must_leave(path, write, make_directories)]
            self.skipped += [Skipped(os.fsdecode(path), NEW_KEPT) for path in kept]
            remove = [path for path in remove if path not in set(kept)]
        self._find_obstacles(write, set(remove), make_directories, nested)
        chmod = {**mode_only, **self._permission_changes(write, mode_only)}
        gone = self._keep_ignored(
            [
                path
                for path in self.now.empty_directories
                if path not in self.target.empty_directories and self.wanted(path) and not self.keep_new
            ],
            quiet=True,
        )
        for path, reason in self.unsaved.items():
            torn = path in write or path in remove
            if torn and reason == capture.TORN:
                raise RestoreError(
                    f"'{os.fsdecode(path)}' keeps changing and cannot be saved before it is replaced",
                    "stop what writes it and try again; nothing was changed",
                )
        now_empty = set(self.now.empty_directories)
        return Plan(
            write=write,
            remove=remove,
            chmod=chmod,
            make_directories=make_directories,
            remove_directories=[*gone, *blocking, *self._left_links(delta)],
            keep_directories=frozenset(self.target.empty_directories),
            in_the_way=frozenset(self.in_the_way),
            unsaved=frozenset(path for path in self.in_the_way if not self._is_visible_now(path)),
            emptied=[path for path in self.emptied if path not in now_empty],
            created=[path for path in write if self._lstat(path) is None],
            aside=list(self.aside),
            nested=nested,
            index=self._index(),
            skipped=self.skipped,
        )

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
        return found

    def _add_raw(self, write: dict[bytes, FileWrite]) -> None:
        """Files whose blob is the same and whose own bytes differ."""
        for path in self.now.raw.keys() | self.target.raw.keys():
            if path in write or not self.wanted(path) or self.now.raw.get(path) == self.target.raw.get(path):
                continue
            entry = trees.find(self.store, self.target.visible_tree, path)
            if entry is not None and entry[0] in (trees.REGULAR, trees.EXECUTABLE):
                write[path] = self._write(path, entry)

    def _recheck(self, delta: Mapping[bytes, object], write: dict[bytes, FileWrite]) -> None:
        """Where attributes change, a file with the right blob may have been checked out under the other ones."""
        folders = {path.rpartition(b"/")[0] for path in delta if path.rpartition(b"/")[2] == b".gitattributes"}
        if not folders:
            return
        hidden = self._absent_paths(self.target)
        for path, entry in trees.walk(self.store, self.target.visible_tree):
            if path in write or path in delta or path in hidden or not self.wanted(path):
                continue
            if entry[0] in (trees.REGULAR, trees.EXECUTABLE) and any(
                folder == b"" or path.startswith(folder + b"/") for folder in folders
            ):
                write[path] = replace(self._write(path, entry), recheck=True)

    def _write(self, path: bytes, entry: Entry) -> FileWrite:
        return FileWrite(entry, self.target.raw.get(path), self._permissions(path, entry))

    def _permissions(self, path: bytes, entry: Entry) -> int:
        usual = (0o777 if entry[0] == trees.EXECUTABLE else 0o666) & ~self.target.umask
        return self.target.permissions.get(path, usual)

    def _permission_changes(self, write: Mapping[bytes, FileWrite], known: Mapping[bytes, int]) -> dict[bytes, int]:
        """Files with the right content and other permission bits than the target recorded."""
        changes: dict[bytes, int] = {}
        for path in self.target.permissions.keys() | self.now.permissions.keys():
            if path in write or path in known or not self.wanted(path):
                continue
            entry = trees.find(self.store, self.target.visible_tree, path)
            entry = entry or self.target.ignored.get(path)
            if entry is None or entry[0] not in (trees.REGULAR, trees.EXECUTABLE):
                continue
            bits = self._permissions(path, entry)
            found = self._lstat(path)
            if found is not None and stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) != bits:
                changes[path] = bits
        return changes

    def _keep_ignored(self, remove: list[bytes], *, quiet: bool = False) -> list[bytes]:
        """Leave out what the target's ignore rules exclude: in the target's world it is nobody's to remove.

        (Restoring an older .gitignore and then clearing away what it had protected is a loss that others made.)
        """
        untracked = {*self.now.untracked, *self.now.empty_directories}
        tracked = [path for path in remove if path not in untracked]
        absent = set(self.target.not_present)
        candidates = [
            path
            for path in (remove if self.rules_differ else tracked)
            # What the target tracks and does not have was deleted there.
            if path not in absent and not self._in_target_index(path)
        ]
        if not candidates:
            return remove
        found = ignore.excluded(self.repository, self.store, self.target.visible_tree, candidates)
        # A path that HEAD has and the index has not was deleted, or left for its .gitignore rule to hide.
        head = self.repository.commit_tree(self.target.head.commit)
        ignored = {path for path, inside in found.items() if inside or trees.find(self.store, head, path) is None}
        if not quiet:
            self.skipped += [Skipped(os.fsdecode(path), LEFT_IGNORED) for path in sorted(ignored)]
        return [path for path in remove if path not in ignored]

    def _must_leave(self, path: bytes, write: Mapping[bytes, FileWrite], directories: Iterable[bytes]) -> bool:
        """Whether a new file stands where the target has a directory, or the other way round."""
        below = path + b"/"
        if any(other.startswith(below) for other in [*write, *directories]):
            return True
        return any(path.startswith(other + b"/") for other in write)

    def _blocking_directories(self, write: Mapping[bytes, FileWrite]) -> list[bytes]:
        """Directories that stand where a file comes."""
        found = []
        for path in write:
            status = self._lstat(path)
            if status is not None and stat.S_ISDIR(status.st_mode):
                found.append(path)
        return found

    def _left_links(self, delta: Mapping[bytes, tuple[Entry | None, Entry | None]]) -> list[bytes]:
        """Directories of gitlinks that the target does not have."""
        return [
            path
            for path, (before, after) in delta.items()
            if before is not None and before[0] == trees.GITLINK and after is None and self.wanted(path)
        ]

    def _lstat(self, path: bytes) -> os.stat_result | None:
        """What is at `path` in this worktree; what a symlink on the way leads to is somewhere else."""
        parent, _, _ = path.rpartition(b"/")
        if parent:
            above = self._lstat(parent) if parent not in self._directories else None
            if above is not None and stat.S_ISDIR(above.st_mode):
                self._directories.add(parent)
            if parent not in self._directories:
                return None
        try:
            return os.lstat(os.path.join(self.root, path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    # -- what is in the way ---------------------------------------------------------------------------------

    def _find_obstacles(
        self,
        write: dict[bytes, FileWrite],
        remove: set[bytes],
        make_directories: Iterable[bytes],
        nested: Mapping[bytes, str],
    ) -> None:
        checked: set[bytes] = set()
        for path in [*write, *make_directories, *nested]:
            parent = path
            while parent := parent.rpartition(b"/")[0]:
                if parent in checked:
                    break
                checked.add(parent)
                found = self._lstat(parent)
                if found is not None and not stat.S_ISDIR(found.st_mode) and parent not in remove:
                    self._obstacle(parent)
        same: list[bytes] = []
        for path, file in write.items():
            found = self._lstat(path)
            if found is None:
                continue
            if stat.S_ISDIR(found.st_mode):
                self._inside(path, remove)
            elif not self._is_visible_now(path):
                if self._holds(path, found, file):
                    same.append(path)
                else:
                    self._obstacle(path)
        for path in same:
            del write[path]
        for path in [*make_directories, *nested]:
            found = self._lstat(path)
            if found is not None and not stat.S_ISDIR(found.st_mode) and path not in remove:
                self._obstacle(path)

    def _holds(self, path: bytes, found: os.stat_result, file: FileWrite) -> bool:
        """Whether a file that git does not see has the wanted bytes and permissions already."""
        if not stat.S_ISREG(found.st_mode) or stat.S_IMODE(found.st_mode) != file.permissions:
            return False
        return hash_file(os.path.join(self.root, path)) == (file.raw or file.entry[1])

    def _is_visible_now(self, path: bytes) -> bool:
        if path in self.unsaved and self.unsaved[path] != capture.TORN:
            return False
        return path in self.now.ignored or trees.find(self.store, self.now.visible_tree, path) is not None

    def _obstacle(self, path: bytes) -> None:
        """A file that stands where the target has something else, and that the present state does not hold."""
        if path in self.unsaved and self.unsaved[path] != capture.TORN:
            raise RestoreError(
                f"'{os.fsdecode(path)}' is in the way and cannot be saved: {self.unsaved[path]}",
                "move it away, or raise agentos.maxFileSize; nothing was changed",
            )
        self.in_the_way.add(path)

    def _inside(self, directory: bytes, remove: set[bytes]) -> None:
        """Everything below a directory that has to give way to a file."""
        if scan.is_repository(os.path.join(self.root, directory)):
            self.aside[directory] = None
            return
        entries = list(os.scandir(os.path.join(self.root, directory)))
        if not entries:
            self.emptied.append(directory)
        for entry in entries:
            path = directory + b"/" + entry.name
            if entry.is_dir(follow_symlinks=False):
                self._inside(path, remove)
            elif path not in remove:
                self._obstacle(path)

    # -- nested repositories --------------------------------------------------------------------------------

    def _nested(self) -> dict[bytes, str]:
        """Repositories that come or change; those that the target does not have are put aside."""
        left_out = {os.fsencode(item.path).rstrip(b"/") for item in self.target.skipped}
        for path in self.now.nested:
            if path in self.target.nested or path in left_out or not self.wanted(path):
                continue
            if self.keep_new:
                self.skipped.append(Skipped(os.fsdecode(path) + "/", NEW_KEPT))
            else:
                self.aside[path] = None
        return {
            path: oid
            for path, oid in self.target.nested.items()
            if self.wanted(path) and self.now.nested.get(path) != oid
        }

    # -- the index ------------------------------------------------------------------------------------------

    def _index(self) -> index.IndexEdit:
        now, target = self.now, self.target
        remove: set[bytes] = set()
        entries: dict[bytes, Entry] = {}
        for path, (_, after) in trees.diff(self.store, now.index_tree, target.index_tree).items():
            _check(path)
            if after is None:
                remove.add(path)
            else:
                entries[path] = after
        for path in now.stages.keys() - target.stages.keys():
            entry = trees.find(self.store, target.index_tree, path)
            if entry is not None and entry[0] != trees.DIRECTORY:
                entries[path] = entry
            else:
                remove.add(path)
        stages = {path: found for path, found in target.stages.items() if now.stages.get(path) != found}
        for path in stages:
            _check(path)
            entries.pop(path, None)
            remove.discard(path)
        intent = {path: mode for path, mode in target.intent_to_add.items() if path not in now.intent_to_add}
        for path in now.intent_to_add:
            if path not in target.intent_to_add and path not in entries:
                remove.add(path)
        for path in intent:
            remove.discard(path)
        if self.paths is not None:
            remove = {path for path in remove if self.wanted(path)}
            entries = {path: entry for path, entry in entries.items() if self.wanted(path)}
            stages = {path: found for path, found in stages.items() if self.wanted(path)}
            intent = {path: mode for path, mode in intent.items() if self.wanted(path)}
        touched = entries.keys() | intent.keys() | stages.keys()
        return index.IndexEdit(
            remove=sorted(remove),
            entries=entries,
            stages=stages,
            intent_to_add=intent,
            **self._flags(touched),
        )

    def _flags(self, touched: Iterable[bytes]) -> dict[str, list[bytes]]:
        """Which flags to set and to clear; an entry that is rewritten has lost its flags."""
        now, target = self.now, self.target
        rewritten = set(touched)
        result: dict[str, list[bytes]] = {}
        pairs = (
            ("assume_unchanged", now.assume_unchanged, target.assume_unchanged),
            ("skip_worktree", now.skip_worktree, target.skip_worktree),
        )
        for name, before, after in pairs:
            if list(before) == list(after) and not (rewritten and after):
                continue
            has, wants = self._expand(before, now.index_tree), self._expand(after, target.index_tree)
            result[name] = sorted(
                path
                for path in wants
                if (path not in has or path in rewritten) and path not in target.stages and self.wanted(path)
            )
            result["no_" + name] = sorted(
                path
                for path in has - wants
                if path not in rewritten and self._in_target_index(path) and self.wanted(path)
            )
        return result

    def _in_target_index(self, path: bytes) -> bool:
        entry = trees.find(self.store, self.target.index_tree, path)
        return (entry is not None and entry[0] != trees.DIRECTORY) or path in self.target.stages

    def _expand(self, flagged: Iterable[bytes], tree: str) -> set[bytes]:
        found: set[bytes] = set()
        for path in flagged:
            if not path.endswith(b"/"):
                found.add(path)
                continue
            name = path.rstrip(b"/")
            entry = trees.find(self.store, tree, name) if name else (trees.DIRECTORY, tree)
            if entry is not None and entry[0] == trees.DIRECTORY:
                found.update(p for p, _ in trees.walk(self.store, entry[1], name + b"/" if name else b""))
        return found


def _check(path: bytes) -> None:
    """Refuse a path that git would not check out: a checkpoint may have come from somebody else."""
    for part in path.split(b"/"):
        if part in (b"", b".", b"..") or part.lower() == b".git" or b"\0" in part:
            raise CheckpointFormatError(f"the checkpoint names the path '{os.fsdecode(path)}', which is not allowed")
