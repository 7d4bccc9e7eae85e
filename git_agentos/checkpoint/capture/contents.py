"""The bytes of files in the worktree: read consistently, converted as by git, and kept unconverted if that loses bytes.

A file is read until it did not change while it was read; one that keeps changing is listed in `skipped`. If a file goes
through a filter, git converts it, and the bytes on disk are kept as well if a checkout of the blob would give others.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from git_agentos.checkpoint.capture.stat_cache import StatCache, now_ns, row
from git_agentos.checkpoint.model import Skipped, SkipReason, State
from git_agentos.checkpoint.own_bytes import Form
from git_agentos.config import Settings
from git_agentos.errors import GitCommandError, IncompleteCaptureError
from git_agentos.git import filters, state_dir, trees
from git_agentos.git.objects.pack import FileChanged
from git_agentos.git.repository import Repository, Writer
from git_agentos.git.trees import Entry
from git_agentos.util import directories, system
from git_agentos.util.progress import SILENT, counted, phase

if TYPE_CHECKING:
    from git_agentos.util.progress import Progress

_STREAM_FROM = 8 << 20
_ATTEMPTS = 6
_TICK_NS = 12_000_000


class Contents:
    """Reads the files of one worktree.

    `skipped` lists files that kept changing, `permissions` bits that are not what `umask` gives, `raw` the blobs of
    bytes on disk that a checkout would not give. `looked_at` are regular files with their stat data of a moment ago.
    """

    def __init__(
        self, repository: Repository, writer: Writer, config: Mapping[str, list[str]], *, tracks_attributes: bool
    ) -> None:
        self.repository = repository
        self.writer = writer
        self.config = config
        self.tracks_attributes = tracks_attributes
        self.root = os.fsencode(repository.location.root)
        self._below = os.path.join(self.root, b"")
        self.cache = StatCache(repository.location.state_dir)
        self.looked_at: dict[bytes, os.stat_result] = {}
        self.skipped: list[Skipped] = []
        self.permissions: dict[bytes, int] = {}
        self.raw: dict[bytes, str] = {}
        self.crlf: set[bytes] = set()
        self.as_stored: set[bytes] = set()
        self.umask = system.umask()
        self.progress: Progress = SILENT

    def at(self, path: bytes) -> bytes:
        return self._below + path

    def is_file(self, path: bytes) -> bool:
        """Whether there is a regular file at `path`."""
        return stat.S_ISREG(_mode(self.at(path)))

    def read(self, paths: Sequence[bytes], *, plain_links: Collection[bytes] = ()) -> dict[bytes, Entry]:
        """Mode and blob of each path that exists."""
        converted = self.converted(paths)
        entries: dict[bytes, Entry] = {}
        through_git: list[bytes] = []
        for path in counted(self.progress, "Saving files", paths):
            if path in self.looked_at and path not in converted and (blob := self._known(path, self.looked_at[path])):
                entries[path] = (self._regular_mode(path, self.looked_at[path]), blob)
                continue
            full = self.at(path)
            try:
                found = os.lstat(full)
            except (FileNotFoundError, NotADirectoryError):
                continue
            if stat.S_ISLNK(found.st_mode):
                entries[path] = (trees.SYMLINK, self.writer.write("blob", os.readlink(full)))
            elif stat.S_ISREG(found.st_mode) and path in plain_links:
                # core.symlinks=false: a tracked symlink is a file that contains its target.
                if stat.S_IMODE(found.st_mode) != self.usual(trees.REGULAR):
                    self.permissions[path] = stat.S_IMODE(found.st_mode)
                entries[path] = (trees.SYMLINK, self._plain(path, full))
            elif stat.S_ISREG(found.st_mode):
                mode = self._regular_mode(path, found)
                if path in converted:
                    through_git.append(path)
                    entries[path] = (mode, "")
                else:
                    entries[path] = (mode, self._known(path, found) or self._plain(path, full))
        for path, oid in self._converted(through_git).items():
            entries[path] = (entries[path][0], oid)
        return {path: entry for path, entry in entries.items() if entry[1]}

    def _regular_mode(self, path: bytes, found: os.stat_result) -> int:
        """git's mode of a regular file; permission bits that are not the usual ones are kept."""
        mode = trees.EXECUTABLE if found.st_mode & 0o100 else trees.REGULAR
        if stat.S_IMODE(found.st_mode) != self.usual(mode):
            self.permissions[path] = stat.S_IMODE(found.st_mode)
        return mode

    def _known(self, path: bytes, found: os.stat_result) -> str | None:
        """The blob of a file that is as it was when it was read before, by its stat data: it need not be opened, since
        these were settled and old then, and every write that has begun since has changed them."""
        known = self.cache.get(path, found)
        if known is None or not self.repository.exists(known):
            return None
        self.writer.depend_on(known, functools.partial(self._read_again, path, known))
        return known

    def _plain(self, path: bytes, full: bytes) -> str:
        """The blob of a file's bytes without conversion; empty if the file was removed meanwhile."""
        oid = ""
        for _ in range(_ATTEMPTS):
            started = now_ns()
            try:
                # O_NONBLOCK: do not block if the file was replaced by a pipe meanwhile.
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
                if (known := self._known(path, before)) is not None:
                    return known
                if before.st_size > _STREAM_FROM:
                    os.lseek(descriptor, 0, os.SEEK_SET)
                    try:
                        oid = self.writer.write_stream(descriptor, before.st_size)
                    except FileChanged:
                        continue
                else:
                    data = _read(descriptor, before.st_size)
                    oid = self.writer.write("blob", data, functools.partial(self._read_again, path))
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
        self.skipped.append(Skipped(os.fsdecode(path), SkipReason.TORN))
        return oid

    def _read_again(self, path: bytes, expected: str) -> None:
        """Write a file's blob again, which was in the store and was pruned meanwhile."""
        with open(self.at(path), "rb") as file:
            oid = self.writer.write_stream(file.fileno(), os.fstat(file.fileno()).st_size)
        if oid != expected:
            raise IncompleteCaptureError(f"'{os.fsdecode(path)}' changed while it was being saved", "try again")

    # -- through git ----------------------------------------------------------------------------------------

    def _converted(self, paths: list[bytes]) -> dict[bytes, str]:
        """Blobs of files that git converts; their bytes on disk go to `raw` if a checkout would give others."""
        result: dict[bytes, str] = {}
        waiting = paths
        for _ in range(_ATTEMPTS):
            if not waiting:
                return result
            before = {path: self._settled_stamp(path) for path in waiting}
            with phase(self.progress, "Filtering content"):  # git's word
                cleaned = filters.to_blobs(self.writer, waiting)
            lossy = self._lossy({p: oid for p, oid in cleaned.items() if oid is not None})
            for path in waiting:
                self._forget(path)
                found = cleaned[path]
                if found is None or path in lossy:
                    own = self._plain(path, self.at(path))
                    if own:
                        self.raw[path] = own
                    # If a required filter fails, the bytes on disk are saved, which is enough to restore the file.
                    result[path] = found or own
                else:
                    self._keep(path, found)
                    result[path] = found
                if found is not None:
                    self.writer.depend_on(found, functools.partial(filters.to_blobs, self.writer, [path]))
            waiting = [path for path in waiting if before[path] != self._stamp(path)]
        self.skipped += [Skipped(os.fsdecode(path), SkipReason.TORN) for path in waiting]
        return result

    def as_checked_out(self, blobs: Mapping[bytes, str]) -> set[bytes]:
        """The paths that git converts and whose file is what a checkout of the blob gives, even if `add` would store
        another blob (because it was committed in another form than its attributes ask for)."""
        converted = self.converted([path for path in blobs if self.is_file(path)])
        same = converted - self._lossy({path: blobs[path] for path in converted}) if converted else set()
        for path in same:
            self._forget(path)
        return same

    def _forget(self, path: bytes) -> None:
        self.raw.pop(path, None)
        self.crlf.discard(path)

    def _keep(self, path: bytes, oid: str) -> None:
        """Record the bytes of a file whose blob is `oid`. They are stored only if they cannot be computed from the blob
        without a filter, since the filter may not exist later."""
        form = self._form(path, oid)
        if form is None:
            own = self._plain(path, self.at(path))
            if own and own != oid:
                self.raw[path] = own
        elif form.crlf:
            self.crlf.add(path)

    def _form(self, path: bytes, oid: str) -> Form | None:
        """How a file's bytes are computed from the blob `oid`; None if they cannot be."""
        full = self.at(path)
        if Form(oid).is_at(full):
            return Form(oid)
        found = Form(oid, crlf=True)
        return found if _size(full) <= _STREAM_FROM and found.is_at(full) else None

    def converted(self, paths: Sequence[bytes]) -> set[bytes]:
        """Those of `paths` that git converts."""
        return filters.paths_to_convert(self.repository, paths, self.config, tracks_attributes=self.tracks_attributes)

    def compare(self, blobs: Mapping[bytes, str], *, plain: bool = False) -> None:
        """Keep the bytes on disk of files that a checkout of their blob would not give; with `plain`, also of files
        that git does not convert now, but did when they were checked out."""
        converted = self.converted(list(blobs))
        lossy = self._lossy({path: blobs[path] for path in converted}) if converted else set()
        if plain:
            lossy |= {path for path in blobs.keys() - converted if not Form(blobs[path]).is_at(self.at(path))}
        for path in lossy:
            own = self._plain(path, self.at(path))
            if own:
                self.raw[path] = own

    def keep(self, blobs: Mapping[bytes, str]) -> None:
        """Record the bytes of files whose blob (path -> oid) is in the index already."""
        self.compare(blobs)
        for path in self.perhaps_converted([path for path in blobs if path not in self.raw], blobs):
            self._keep(path, blobs[path])

    def perhaps_converted(self, paths: Iterable[bytes], blobs: Mapping[bytes, str]) -> list[bytes]:
        """Those of `paths` whose file may have other bytes than its blob; no file is read."""
        # Without a filter driver, every conversion that changes bytes also changes the size.
        drivers = any(key.startswith("filter.") for key in self.config)
        return [path for path in paths if drivers or self.repository.size(blobs[path]) != _size(self.at(path))]

    def note_forms(self, blobs: Mapping[bytes, str]) -> None:
        """Keep the bytes of unmodified files that a checkout would not give, and record which of those that git
        converts have the bytes of their blob, or those with CRLF."""
        self.compare(blobs, plain=True)
        for path in self.converted([path for path in blobs if path not in self.raw]):
            form = self._form(path, blobs[path])
            if form is not None:
                (self.crlf if form.crlf else self.as_stored).add(path)

    def usual(self, mode: int) -> int:
        """The permission bits of a checkout."""
        return (0o777 if mode == trees.EXECUTABLE else 0o666) & ~self.umask

    def note_permissions(self, modes: Mapping[bytes, int]) -> None:
        """Keep the permission bits of files (path -> git's mode) that are not the usual ones."""
        for path, mode in modes.items():
            found = _mode(self.at(path))
            if stat.S_ISREG(found) and stat.S_IMODE(found) != self.usual(mode):
                self.permissions[path] = stat.S_IMODE(found)

    def _settled_stamp(self, path: bytes) -> tuple[int, ...]:
        """The stamp of a file, read at a moment after which every write changes it."""
        with contextlib.suppress(OSError):
            descriptor = os.open(self.at(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                return row(_settled(descriptor))
            finally:
                os.close(descriptor)
        return ()

    def _stamp(self, path: bytes) -> tuple[int, ...]:
        try:
            return row(os.lstat(self.at(path)))
        except (FileNotFoundError, NotADirectoryError):
            return ()

    def _lossy(self, cleaned: Mapping[bytes, str]) -> set[bytes]:
        """The paths for which a checkout of the blob gives other bytes than those on disk."""
        location = self.repository.location
        with state_dir.scratch(location) as folder:
            into = os.path.join(folder, "smudged")
            os.mkdir(into)
            base = os.path.join(location.git_dir, "index") if self.tracks_attributes else None
            try:
                filters.to_files(
                    self.repository,
                    {path: (trees.REGULAR, oid) for path, oid in cleaned.items()},
                    into,
                    base_index=base,
                    source=filters.AttributeSource(env=self.writer.environment),
                )
            except GitCommandError:
                pass  # a smudge filter failed: the files that it did not write count as lossy
            lossy = set()
            for path in cleaned:
                target = os.path.join(os.fsencode(into), path)
                if not _same(target, self.at(path)):
                    lossy.add(path)
            directories.remove(into)
        return lossy


def with_unseen(
    repository: Repository, writer: Writer, settings: Settings, state: State, entries: Mapping[bytes, Entry]
) -> State:
    """`state`, completed for files that git calls unchanged (path -> entry) and that are about to be replaced: with
    their bytes on disk if no checkout would give them, and with unusual permission bits.

    A clean filter may remove bytes; these are then only in the worktree.
    """
    if not entries:
        return state
    contents = Contents(repository, writer, dict(settings.values), tracks_attributes=True)
    files = {
        path: oid
        for path, (mode, oid) in entries.items()
        if mode in (trees.REGULAR, trees.EXECUTABLE) and contents.is_file(path)
    }
    contents.note_forms(files)
    contents.note_permissions({path: mode for path, (mode, _) in entries.items()})
    return state._replace(
        raw={**state.raw, **contents.raw},
        crlf=state.crlf | contents.crlf,
        as_stored=state.as_stored | contents.as_stored,
        permissions={**state.permissions, **contents.permissions},
    )


def _mode(path: bytes) -> int:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def _size(path: bytes) -> int:
    try:
        return os.lstat(path).st_size
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
    """The stat data of an open file, read when no process is writing it, so that every later write changes it.

    A write sets the modification time when it begins, in ticks of a coarse clock. So we wait until a stamp of the
    current tick is old, and for a write in progress: seeking for a hole takes the inode's lock on Linux. (This moves
    the file position; the caller must set it.)
    """
    while True:
        with contextlib.suppress(OSError, AttributeError):
            os.lseek(descriptor, 0, os.SEEK_HOLE)
        found = os.fstat(descriptor)
        age = now_ns() - max(found.st_mtime_ns, found.st_ctime_ns)
        if not 0 <= age < _TICK_NS:
            return found
        time.sleep((_TICK_NS - age) / 1e9)


def _read(descriptor: int, size: int) -> bytes:
    """A whole file, whose size was `size`; the caller checks afterwards whether it has changed."""
    data = os.pread(descriptor, size + 1, 0)
    if len(data) == size:
        return data
    os.lseek(descriptor, len(data), os.SEEK_SET)
    parts = [data]
    while chunk := os.read(descriptor, max(size + 1, 4096)):
        parts.append(chunk)
    return b"".join(parts)
