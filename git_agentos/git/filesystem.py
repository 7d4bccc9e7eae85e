"""How the file system of a worktree treats names: which of them are the same, and which it refuses.

On APFS, NTFS and exFAT, and on many shares, `Notes` and `notes` are one file; on APFS, so are the composed and the
decomposed form of `é`, and a name that is not UTF-8 is refused. git is told by core.ignoreCase and
core.precomposeUnicode, which are wrong in a repository that was copied from another machine. So a probe decides: a few
files in a scratch folder of the git directory (and of the worktree, if it is on another device). Its result is kept
with the number of the device, and the probe is repeated when that changes.

    <common git directory>/agentos/filesystem.json       {"device": NUMBER, "names": [BOOLEAN, BOOLEAN, BOOLEAN]}
    <git directory>/agentos/worktree-filesystem.json     the same for a worktree on another device

Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable

from git_agentos.git import state_dir
from git_agentos.git.location import Location
from git_agentos.util import directories, files
from git_agentos.util.named_tuple import NamedTuple

_OF_REPOSITORY, _OF_WORKTREE = "filesystem.json", "worktree-filesystem.json"
_COMPOSED, _DECOMPOSED = "\u00e9", "e\u0301"
_REFUSED = (errno.EILSEQ, errno.EINVAL)
SCRATCH_PREFIX = ".agentos-probe-"  # of a scratch folder in a worktree that is on another device


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
    device = os.stat(location.root).st_dev
    if device == os.stat(location.common_dir).st_dev:
        return names_of_refs(location)
    return _known(location, os.path.join(location.state_dir, _OF_WORKTREE), device, lambda: _probe_worktree(location))


def names_of_refs(location: Location) -> Names:
    """How names behave in the common git directory, where refs are files."""

    def probe() -> Names:
        with state_dir.scratch(location._replace(git_dir=location.common_dir)) as folder:
            return _probe(os.fsencode(folder))

    device = os.stat(location.common_dir).st_dev
    return _known(location, os.path.join(location.shared_state_dir, _OF_REPOSITORY), device, probe)


def _known(location: Location, path: str, device: int, probe: Callable[[], Names]) -> Names:
    """The result that the record at `path` has of this device, else that of a new probe, which is recorded."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        found = files.read_object(path, limit=4096)
        if found["device"] == device:
            return Names(*(each is True for each in found["names"]))
    import json  # not loaded where there is a record

    try:
        result = probe()
    except OSError:  # the file system is full or read-only
        ignored = location.root != "" and _ignores_case(location)
        return Names(ignored, ignored)
    with contextlib.suppress(OSError):  # else the next command probes again
        files.replace(path, json.dumps({"device": device, "names": result}).encode() + b"\n", mode=0o644, durable=False)
    return result


def _probe_worktree(location: Location) -> Names:
    """Probe a worktree that is on another device than its git directory."""
    if not _ignores_case(location):
        return Names()  # no file system is known that ignores only the form
    try:
        with directories.scratch(location.root, SCRATCH_PREFIX) as folder:
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
