"""Doing in a worktree what an answer asks for: all of it, or nothing.

Everything is looked at and made ready first; new files are written beside their places and then moved there, and what
they replace comes back if a move fails. After a kill in between, the node begins again from its checkpoint.

A path is inside of the worktree and nothing on it is a link; it is not git's or ours, whatever the case of its letters
and whatever a file system takes for the same name, and not of another repository inside. What git ignores is none of
the work: nobody would see it at review.
"""

from __future__ import annotations

import contextlib
import os
import stat
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError
from git_agentos.git import ignore
from git_agentos.tdd.models import edits
from git_agentos.tdd.models.answer import LARGE, Change, Unusable

_OURS = (".git", ".agentos")
_LONGEST = 4096
# What file systems leave out of names (HFS+), by which a name may look like another.
_IGNORABLE = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))


class _Ready(NamedTuple):
    """A change that can be done: the contents, None to delete; the permission bits of what is there."""

    path: str
    data: bytes | None
    mode: int | None


def apply(changes: Sequence[Change], here: OpenWorktree) -> Sequence[str]:
    """Do the changes in a worktree; the paths. Unusable with everything that stands against it: nothing was done."""
    root = here.location.root
    ready: list[_Ready] = []
    problems: list[str] = []
    for change in changes:
        try:
            ready.append(_made(root, change))
        except Unusable as error:
            problems += error.problems
    problems += _together(ready)
    if not problems:
        problems += [f"'{path}' is ignored by git: it would be no part of the work" for path in _ignored(here, ready)]
    if problems:
        raise Unusable(problems)
    try:
        _move(root, ready)
    except OSError as error:
        raise Unusable([f"it cannot be written: {error.strerror or error}"]) from error
    return [each.path for each in ready]


def check_path(root: str, path: str) -> str:
    """A path that may be written, normalized; Unusable otherwise."""
    why = _why_not(root, path)
    if why is not None:
        raise Unusable([f"'{path}' {why}"])
    return "/".join(_parts(path))


# -- paths -------------------------------------------------------------------------------------------------------------


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _why_not(root: str, path: str) -> str | None:
    """Why a path may not be written."""
    parts = _parts(path)
    if not parts or path.endswith("/"):
        return "is no path of a file"
    if path.startswith(("/", "~")) or (path[1:2] == ":" and path[0].isalpha()):
        return "is not relative to the project's root"
    if ".." in parts:
        return "leads upwards: give it from the project's root"
    if "\\" in path or any(ord(each) < 32 or ord(each) == 127 for each in path):
        return "has a backslash or a control character in it"
    try:
        if len(os.fsencode(path)) > _LONGEST:
            return "is too long"
    except UnicodeEncodeError:
        return "cannot be the name of a file"
    taken = next((part for part in parts if _is_ours(part)), None)
    if taken is not None:
        return f"is not yours to write: '{taken}' is git's or git-agentos's own"
    return _in_the_way(root, parts)


def _is_ours(part: str) -> bool:
    """Whether a name is `.git` or `.agentos` to any file system."""
    name = unicodedata.normalize("NFKC", part.translate(_IGNORABLE)).casefold()
    name = name.split(":", 1)[0].rstrip(". ")  # NTFS
    return name in _OURS or (name.startswith(("git~", "agento~")) and name.rpartition("~")[2].isdigit())


def _in_the_way(root: str, parts: Sequence[str]) -> str | None:
    """What is on the way to a place that must not be."""
    at = root
    for part in parts[:-1]:
        at = os.path.join(at, part)
        try:
            mode = os.lstat(at).st_mode
        except FileNotFoundError:
            return None
        except OSError as error:
            return f"cannot be looked at: {error.strerror}"
        name = os.path.relpath(at, root)
        if stat.S_ISLNK(mode):
            return f"lies behind the symbolic link '{name}'"
        if not stat.S_ISDIR(mode):
            return f"lies below '{name}', which is a file"
        if os.path.lexists(os.path.join(at, ".git")):
            return f"lies in '{name}', which is another repository"
    try:
        mode = os.lstat(os.path.join(at, parts[-1])).st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"cannot be looked at: {error.strerror}"
    if stat.S_ISREG(mode):
        return None
    what = "a symbolic link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "no regular file"
    return f"is {what}"


def _ignored(here: OpenWorktree, ready: Sequence[_Ready]) -> list[str]:
    """The paths that git would not see. Tracked files it always does."""
    try:
        found = ignore.ignored_among(here.repository, [os.fsencode(each.path) for each in ready])
    except AgentosError as error:
        raise Unusable([f"git cannot tell what it ignores: {error}"]) from error
    return [os.fsdecode(path) for path in found]


# -- contents ----------------------------------------------------------------------------------------------------------


def _made(root: str, change: Change) -> _Ready:
    path = check_path(root, change.path)
    present, mode = _present(root, path)
    if change.delete or change.edits is not None:
        if present is None:
            what = "deleted" if change.delete else "edited: give a new file whole"
            raise Unusable([f"'{path}' does not exist, so it cannot be {what}"])
        if change.delete:
            return _Ready(path, None, mode)
    text = present.decode("utf-8", "surrogateescape") if present is not None else None
    if change.edits is not None:
        assert text is not None
        made, problems = edits.replaced(text, change.edits)
        if problems:
            raise Unusable([f"'{path}': {each}" for each in problems])
    else:
        _not_too_large(path, text)
        made = edits.whole(change.lines or (), text)
    try:
        return _Ready(path, made.encode("utf-8", "surrogateescape"), mode)
    except UnicodeEncodeError:
        raise Unusable([f"'{path}': the contents have half a character (a lone surrogate)"]) from None


def _present(root: str, path: str) -> tuple[bytes | None, int | None]:
    try:
        descriptor = os.open(os.path.join(root, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None, None
    except OSError as error:
        raise Unusable([f"'{path}' cannot be read: {error.strerror}"]) from error
    with os.fdopen(descriptor, "rb") as file:
        return file.read(), stat.S_IMODE(os.fstat(file.fileno()).st_mode)


def _not_too_large(path: str, present: str | None) -> None:
    """A long file that is written anew is one of which something gets lost."""
    count = present.count("\n") if present is not None else 0
    if count > LARGE:
        raise Unusable([f"'{path}' has {count} lines: change it with an edit block, not as a whole file"])


def _together(ready: Sequence[_Ready]) -> list[str]:
    """What is wrong with several changes together."""
    paths = [each.path for each in ready]
    known = {each.path for each in ready if each.data is not None}
    above = ("/".join(path.split("/")[:n]) for path in known for n in range(1, path.count("/") + 1))
    twice = sorted({path for path in paths if paths.count(path) > 1})
    clashing = sorted(known.intersection(above))
    return [f"'{path}' has more than one block" for path in twice] + [
        f"'{path}' cannot be both a file and a folder" for path in clashing
    ]


# -- the disk ----------------------------------------------------------------------------------------------------------


def _move(root: str, ready: Sequence[_Ready]) -> None:
    """Write everything beside its place, then move it there. OSError: nothing has changed."""
    tag = f".agentos-{os.urandom(4).hex()}"
    waiting: list[tuple[str, str]] = []  # what was written, and where it belongs
    aside: list[tuple[str, str]] = []  # what was there, and where it was
    new: list[str] = []  # what was put where nothing was
    folders: list[str] = []
    try:
        for n, each in enumerate(ready):
            if each.data is not None:
                _make_folders(root, each.path, folders)
                place = os.path.join(root, each.path)
                waiting.append((os.path.join(os.path.dirname(place), f"{tag}-{n}"), place))
                _write(waiting[-1][0], each.data, each.mode)
        for n, each in enumerate(ready):
            place = os.path.join(root, each.path)
            if each.mode is not None:
                old = os.path.join(os.path.dirname(place), f"{tag}-{n}-old")
                os.rename(place, old)
                aside.append((old, place))
            else:
                new.append(place)
        for written, place in waiting:
            os.rename(written, place)
    except BaseException:
        for path in (*(written for written, _ in waiting), *new):
            with contextlib.suppress(OSError):
                os.unlink(path)
        for old, place in aside:
            with contextlib.suppress(OSError):
                os.replace(old, place)
        for folder in reversed(folders):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        raise
    for old, _ in aside:
        with contextlib.suppress(OSError):
            os.unlink(old)


def _make_folders(root: str, path: str, made: list[str]) -> None:
    at = root
    for part in path.split("/")[:-1]:
        at = os.path.join(at, part)
        if not os.path.lexists(at):
            os.mkdir(at)
            made.append(at)


def _write(path: str, data: bytes, mode: int | None) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        if mode is not None:
            os.fchmod(descriptor, mode)
