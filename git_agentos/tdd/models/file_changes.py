"""Applies the changes of an answer to a worktree: all of them, or none.

Everything is checked and prepared first; new files are written beside their targets and then renamed, and what they
replace is renamed back if that fails. After a kill in between, the node starts again from its checkpoint.

A path is inside the worktree and leads through no link; it does not belong to git or git-agentos, in any case of its
letters and with any name that a file system takes for the same, nor to a repository inside. What git ignores would not
be part of the work: nobody would see it at review.
"""

from __future__ import annotations

import contextlib
import os
import stat
import unicodedata
from collections.abc import Callable, Sequence

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError
from git_agentos.git import ignore
from git_agentos.tdd.models import answer
from git_agentos.tdd.models.answer import MAX_WHOLE_LINES, Change, InvalidAnswer
from git_agentos.util import files
from git_agentos.util.named_tuple import NamedTuple

_PRIVATE = (".git", ".agentos")
_MAX_PATH = 4096
# Characters that file systems ignore in names (HFS+).
_IGNORABLE = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))


class _Prepared(NamedTuple):
    """A change that can be applied: the content, None to delete; the permission bits of the present file."""

    path: str
    data: bytes | None
    mode: int | None


def apply(changes: Sequence[Change], worktree: OpenWorktree) -> Sequence[str]:
    """Apply the changes; their paths. InvalidAnswer with all problems: then nothing was changed."""
    root = worktree.location.root
    ready: list[_Prepared] = []
    problems: list[str] = []
    for change in changes:
        try:
            ready.append(_prepare(root, change))
        except InvalidAnswer as error:
            problems += error.problems
    problems += _clashes(ready)
    if not problems:
        problems += [
            f"'{path}' is ignored by git: it would not be part of the work" for path in _ignored(worktree, ready)
        ]
    if problems:
        raise InvalidAnswer(problems)
    try:
        _write_all(root, ready)
    except OSError as error:
        raise InvalidAnswer([f"it cannot be written: {error.strerror or error}"]) from error
    return [each.path for each in ready]


# -- paths -------------------------------------------------------------------------------------------------------------


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _problem(root: str, path: str) -> str | None:
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
        if len(os.fsencode(path)) > _MAX_PATH:
            return "is too long"
    except UnicodeEncodeError:
        return "cannot be the name of a file"
    taken = next((part for part in parts if _is_private(part)), None)
    if taken is not None:
        return f"is not yours to write: '{taken}' is git's or git-agentos's own"
    return _obstacle(root, parts)


def _is_private(part: str) -> bool:
    """Whether a name is `.git` or `.agentos` for any file system."""
    name = unicodedata.normalize("NFKC", part.translate(_IGNORABLE)).casefold()
    name = name.split(":", 1)[0].rstrip(". ")  # NTFS
    return name in _PRIVATE or (name.startswith(("git~", "agento~")) and name.rpartition("~")[2].isdigit())


def _obstacle(root: str, parts: Sequence[str]) -> str | None:
    """What on the way to a path must not be there."""
    at = root
    for part in parts[:-1]:
        at = os.path.join(at, part)
        try:
            mode = os.lstat(at).st_mode
        except FileNotFoundError:
            return None
        except OSError as error:
            return f"cannot be checked: {error.strerror}"
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
        return f"cannot be checked: {error.strerror}"
    if stat.S_ISREG(mode):
        return None
    what = "a symbolic link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "no regular file"
    return f"is {what}"


def _ignored(worktree: OpenWorktree, ready: Sequence[_Prepared]) -> list[str]:
    """The paths that git ignores. Tracked files never are."""
    try:
        found = ignore.ignored_among(worktree.repository, [os.fsencode(each.path) for each in ready])
    except AgentosError as error:
        raise InvalidAnswer([f"git check-ignore failed: {error}"]) from error
    return [os.fsdecode(path) for path in found]


# -- contents ----------------------------------------------------------------------------------------------------------


def _prepare(root: str, change: Change) -> _Prepared:
    why = _problem(root, change.path)
    if why is not None:
        raise InvalidAnswer([f"'{change.path}' {why}"])
    path = "/".join(_parts(change.path))
    present, mode = _present(root, path)
    if change.delete or change.edits is not None:
        if present is None:
            what = "deleted" if change.delete else "edited: give a new file whole"
            raise InvalidAnswer([f"'{path}' does not exist, so it cannot be {what}"])
        if change.delete:
            return _Prepared(path, None, mode)
    text = present.decode("utf-8", "surrogateescape") if present is not None else None
    if change.edits is not None:
        new, problems = answer.apply_edits(text or "", change.edits)
        if problems:
            raise InvalidAnswer([f"'{path}': {each}" for each in problems])
    else:
        _not_too_large(path, text)
        new = answer.whole_text(change.lines or (), text)
    try:
        return _Prepared(path, new.encode("utf-8", "surrogateescape"), mode)
    except UnicodeEncodeError:
        raise InvalidAnswer([f"'{path}': the contents have half a character (a lone surrogate)"]) from None


def _present(root: str, path: str) -> tuple[bytes | None, int | None]:
    """The content and the permission bits of a file; None for none."""
    full = os.path.join(root, path)
    try:
        return files.read(full), stat.S_IMODE(os.lstat(full).st_mode)
    except FileNotFoundError:
        return None, None
    except OSError as error:
        raise InvalidAnswer([f"'{path}' cannot be read: {error.strerror}"]) from error


def _not_too_large(path: str, present: str | None) -> None:
    """Refuse to rewrite a long file: models leave something out."""
    count = present.count("\n") if present is not None else 0
    if count > MAX_WHOLE_LINES:
        raise InvalidAnswer([f"'{path}' has {count} lines: change it with an edit block, not as a whole file"])


def _clashes(ready: Sequence[_Prepared]) -> list[str]:
    """The problems of several changes together."""
    paths = [each.path for each in ready]
    known = {each.path for each in ready if each.data is not None}
    above = ("/".join(path.split("/")[:n]) for path in known for n in range(1, path.count("/") + 1))
    twice = sorted({path for path in paths if paths.count(path) > 1})
    clashing = sorted(known.intersection(above))
    return [f"'{path}' has more than one block" for path in twice] + [
        f"'{path}' cannot be both a file and a folder" for path in clashing
    ]


# -- the disk ----------------------------------------------------------------------------------------------------------


def _write_all(root: str, ready: Sequence[_Prepared]) -> None:
    """Write everything beside its target, then rename it. OSError: nothing was changed."""
    tag = f".agentos-{os.urandom(4).hex()}"
    renames: list[tuple[str, str]] = []
    backups: list[str] = []
    with contextlib.ExitStack() as undo:
        for n, each in enumerate(ready):
            if each.data is not None:
                _make_folders(root, each.path, undo)
                target = os.path.join(root, each.path)
                new = os.path.join(os.path.dirname(target), f"{tag}-{n}")
                undo.callback(_try, os.unlink, new)
                _write(new, each.data, each.mode)
                renames.append((new, target))
        for n, each in enumerate(ready):
            target = os.path.join(root, each.path)
            if each.mode is None:
                undo.callback(_try, os.unlink, target)
                continue
            backup = os.path.join(os.path.dirname(target), f"{tag}-{n}-old")
            os.rename(target, backup)
            backups.append(backup)
            undo.callback(_try, os.replace, backup, target)
        for new, target in renames:
            os.rename(new, target)
        undo.pop_all()
    for backup in backups:
        _try(os.unlink, backup)


def _make_folders(root: str, path: str, undo: contextlib.ExitStack) -> None:
    at = root
    for part in path.split("/")[:-1]:
        at = os.path.join(at, part)
        if not os.path.lexists(at):
            os.mkdir(at)
            undo.callback(_try, os.rmdir, at)


def _try(function: Callable[..., None], *paths: str) -> None:
    with contextlib.suppress(OSError):
        function(*paths)


def _write(path: str, data: bytes, mode: int | None) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        if mode is not None:
            os.fchmod(descriptor, mode)
