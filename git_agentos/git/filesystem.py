"""How the file system of a worktree treats names: which of them are the same, and which it refuses.

On APFS, NTFS and exFAT, and on many shares, `Notes` and `notes` are one file; on APFS, so are the composed and the
decomposed form of `é`, and a name that is not UTF-8 is refused. git is told by core.ignoreCase and
core.precomposeUnicode, which are wrong in a repository that was copied from another machine. So a probe decides: a few
files in the worktree's folder in its git directory. Its result is kept there, with the devices of worktree and git
directory, and the probe is repeated when one of these changes.

Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable
from typing import NamedTuple

from git_agentos.git import state_dir
from git_agentos.git.location import Location
from git_agentos.util import directories, files

_RECORD = "filesystem.json"
_COMPOSED, _DECOMPOSED = "\u00e9", "e\u0301"
_REFUSED = (errno.EILSEQ, errno.EINVAL)


class Names(NamedTuple):
    """How a file system treats names. Where all three are false, every name is a file of its own."""

    ignores_case: bool = False
    ignores_form: bool = False  # the normal form of Unicode
    utf8_only: bool = False

    @property
    def are_distinct(self) -> bool:
        """Whether two different names are always two files."""
        return not (self.ignores_case or self.ignores_form)

    @property
    def are_plain(self) -> bool:
        """Whether names are distinct, and all of them are possible."""
        return self.are_distinct and not self.utf8_only

    def key(self, name: bytes) -> bytes:
        """What is equal for two names, or paths, that are one file."""
        if name.isascii():
            return name.lower() if self.ignores_case else name
        import unicodedata  # most names are ASCII

        text = name.decode("utf-8", "surrogateescape")
        if self.ignores_form:
            text = unicodedata.normalize("NFC", text)
        if self.ignores_case:
            text = text.casefold()
        if self.ignores_form:
            text = unicodedata.normalize("NFC", text)
        return text.encode("utf-8", "surrogateescape")

    def allows(self, path: bytes) -> bool:
        """Whether a file can have this path."""
        if self.utf8_only and not path.isascii():
            with contextlib.suppress(UnicodeDecodeError):
                path.decode("utf-8")
                return True
            return False
        return True


def names(location: Location) -> Names:
    """How names behave in a worktree."""
    return _read(location)[0]


def names_in_git_dir(location: Location) -> Names:
    """How names behave in the git directory, where refs are files."""
    return _read(location)[1]


def same_file(names: Names, wanted: bytes, existing: Iterable[bytes]) -> bytes | None:
    """The first of the `existing` names that is the same file as `wanted` and is spelled differently."""
    key = names.key(wanted)
    return next((each for each in existing if each != wanted and names.key(each) == key), None)


def _read(location: Location) -> tuple[Names, Names]:
    """How names behave in the worktree, and in its git directory."""
    devices = [os.stat(location.root).st_dev, os.stat(location.git_dir).st_dev]
    path = os.path.join(location.state_dir, _RECORD)
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        found = files.read_object(path, limit=4096)
        if found["devices"] == devices:
            worktree, git_dir = (Names(*(each is True for each in found[key])) for key in ("worktree", "git_dir"))
            return worktree, git_dir
    import json  # not loaded where there is a record

    try:
        with state_dir.scratch(location) as folder:
            git_dir = _probe(os.fsencode(folder))
    except OSError:  # full or read-only: nothing will be written here
        ignored = _ignores_case(location)
        return Names(ignored, ignored), Names(ignored, ignored)
    worktree = git_dir if devices[0] == devices[1] else _probe_worktree(location)
    record = {"devices": devices, "worktree": worktree, "git_dir": git_dir}
    with contextlib.suppress(OSError):  # else the next command probes again
        files.replace(path, json.dumps(record).encode() + b"\n", mode=0o644, durable=False)
    return worktree, git_dir


def _probe_worktree(location: Location) -> Names:
    """Probe a worktree that is on another device than its git directory."""
    if not _ignores_case(location):
        return Names()  # no file system is known that ignores only the form
    try:
        with directories.scratch(location.root, ".agentos-probe-") as folder:
            return _probe(os.fsencode(folder))
    except OSError:
        return Names(True, True)


def _ignores_case(location: Location) -> bool:
    """Whether a worktree's file system ignores case. `.git` is there, and git allows no other entry with that name."""
    with contextlib.suppress(OSError):
        named = os.lstat(os.path.join(location.root, ".git"))
        return os.path.samestat(named, os.lstat(os.path.join(location.root, ".GIT")))
    return False


def _probe(folder: bytes) -> Names:
    """Try names in an empty folder."""

    def exists(name: str) -> bool:
        return os.path.lexists(os.path.join(folder, name.encode()))

    _create(os.path.join(folder, b"probe"))
    ignores_case = exists("PROBE")
    ignores_form = False
    with contextlib.suppress(OSError):  # a file system that has no such character
        _create(os.path.join(folder, _COMPOSED.encode()))
        ignores_form = exists(_DECOMPOSED)
    utf8_only = False
    try:
        _create(os.path.join(folder, b"\xff"))
    except OSError as error:
        utf8_only = error.errno in _REFUSED
    return Names(ignores_case, ignores_form, utf8_only)


def _create(path: bytes) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
