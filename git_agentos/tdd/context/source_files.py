"""Which files may be read for a model: in the project, ordinary, not called like a secret, and not too large.

    path      relative to the project's root, without '..'; links may lead about in the project, but not out of it
    kind      an ordinary file: no folder, device, pipe or socket
    name      no component is called like a secret (`names`), none is '.git' or '.agentos'
    size      at most 102,400 bytes each
    text      UTF-8 without NUL; all else is binary
    tokens    at most 200,000 in all (`tokens`)

A path is resolved first and every rule is held against what it was resolved to as well. The file is then opened once,
component by component and following no link, and checked again as it was opened: what is swapped meanwhile is refused,
not read. Every refusal is a ContextError (a ValueError) that names the file and the rule.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from git_agentos.errors import ContextError
from git_agentos.tdd.context import names, tokens

LARGEST = 102_400  # bytes of one file
MOST_TOKENS = 200_000  # of all files together

_LEAVE_OUT = "leave it out; what a model has to know of it can be written into the design document"
_RELATIVE = "name files of the project, relative to its root"
_PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY)


@dataclass(frozen=True)
class Text:
    """A file that was read: `path` relative to the root, with no link in it; `text` is exactly its `size` bytes."""

    path: str
    text: str
    size: int


def validate_context_path(path_str: str | os.PathLike[str], project_root: str | os.PathLike[str]) -> Path:
    """The file that `path_str` (relative to `project_root`) names, absolute and resolved; ContextError, which is a
    ValueError, where it must not be sent to a model because of where it is, what it is, or what it is called."""
    root = _root(project_root)
    return Path(root, _located(root, os.fspath(path_str)))


def validate_context_limits(files: Iterable[str | os.PathLike[str]]) -> None:
    """Nothing, where each of `files` is a text of at most 102,400 bytes and all have at most 200,000 tokens;
    ContextError, which is a ValueError, names the file by which a limit is passed."""
    budget = Budget()
    for each in files:
        path = os.fspath(each)
        with _Folder(None) as folder:
            data = _read(folder, path, path)
        budget.add(path, decoded(data, path))


class Budget:
    """What has been taken of the tokens: estimated, and counted as soon as the estimate is too high. Loading what
    counts takes longer than all else that is done with a context."""

    def __init__(self) -> None:
        self.tokens = 0
        self.exact = False
        self._texts: list[str] = []

    def add(self, path: str, text: str) -> None:
        """Take the text of one more file; ContextError where that is too much."""
        if self.exact:
            self.tokens += tokens.count(text) or 0
        else:
            self._texts.append(text)
            self.tokens += tokens.at_most(text)
            if self.tokens > MOST_TOKENS:
                self._count()
        if self.tokens > MOST_TOKENS:
            how = "has" if self.exact else "may have (an upper estimate)"
            raise ContextError(
                f"the context is too large: with '{path}' it {how} {self.tokens:,} tokens, and at most {MOST_TOKENS:,}"
                " are allowed",
                "name fewer or smaller files" if self.exact else f"name fewer or smaller files, or {tokens.INSTALL}",
            )

    def _count(self) -> None:
        counted = [count for text in self._texts if (count := tokens.count(text)) is not None]
        if len(counted) == len(self._texts):
            self.exact = True
            self.tokens = sum(counted)
            self._texts.clear()


def read(project_root: str, path: str) -> Text:
    """Read the file at `path`, checked by every rule but those for all files together."""
    root = _root(project_root)
    located = _located(root, path)
    with _Folder(root) as folder:
        data = _read(folder, located, path)
    return Text(located, decoded(data, path), len(data))


def decoded(data: bytes, path: str) -> str:
    """The text that a file holds; ContextError where it is binary."""
    if b"\0" in data:
        raise _binary(path, "it has a NUL byte")
    if data.startswith(b"%PDF-"):
        raise _binary(path, "it is a PDF document")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _binary(path, f"byte {error.start + 1} is not UTF-8") from None


def _binary(path: str, why: str) -> ContextError:
    return ContextError(f"'{path}' is binary: {why}", "only texts in UTF-8 can be sent to a model")


# -- where a path leads ------------------------------------------------------------------------------------------------


def _root(project_root: str | os.PathLike[str]) -> str:
    try:
        root = os.path.realpath(project_root, strict=True)
    except (OSError, ValueError) as error:
        raise ContextError(f"the project's root '{os.fspath(project_root)}' is not there") from error
    if not os.path.isdir(root):
        raise ContextError(f"the project's root '{root}' is no folder")
    return root


def _located(root: str, path: str) -> str:
    """The path relative to `root`, without links, of the file that `path` names."""
    _check_words(path)
    _check_names(path, path)
    try:
        real = os.path.realpath(os.path.join(root, path), strict=True)
        mode = os.stat(real).st_mode
    except OSError as error:
        raise _unreadable(path, error) from error
    inside = os.path.join(root, "")
    if not real.startswith(inside):
        if real == root:
            raise ContextError(f"'{path}' is a folder", "name each file of it that is needed")
        raise ContextError(f"'{path}' is not in the project: a link leads out of it", _LEAVE_OUT)
    located = real[len(inside) :]
    _check_names(located, path)
    _check_kind(mode, path)
    return located


def _check_words(path: str) -> None:
    if not path:
        raise ContextError("the path of a context file is empty", _RELATIVE)
    if "\0" in path:
        raise ContextError(f"'{path}' is no path: it has a NUL byte")
    if os.path.isabs(path):
        raise ContextError(f"'{path}' is not in the project: it is an absolute path", _RELATIVE)
    if ".." in path.split("/"):
        raise ContextError(f"'{path}' is not in the project: it has '..' in it", _RELATIVE)


def _check_names(path: str, told: str) -> None:
    called = f"'{told}'" if path == told else f"'{told}', which is '{path}',"
    if (folder := names.private_folder(path)) is not None:
        raise ContextError(f"{called} lies in '{folder}', which is not part of the project", _LEAVE_OUT)
    if (pattern := names.secret_name(path)) is not None:
        raise ContextError(f"{called} may hold secrets: it is called like '{pattern}'", _LEAVE_OUT)


def _check_kind(mode: int, path: str) -> None:
    if stat.S_ISDIR(mode):
        raise ContextError(f"'{path}' is a folder", "name each file of it that is needed")
    if not stat.S_ISREG(mode):
        raise ContextError(f"'{path}' is no ordinary file", _LEAVE_OUT)


def _unreadable(path: str, error: OSError) -> ContextError:
    if isinstance(error, FileNotFoundError):
        return ContextError(f"'{path}' does not exist", _RELATIVE)
    return ContextError(f"'{path}' cannot be read: {(error.strerror or str(error)).lower()}")


# -- reading what was found --------------------------------------------------------------------------------------------


class _Folder:
    """The folder that paths are opened below; None takes them as they are."""

    def __init__(self, root: str | None) -> None:
        self._root = root
        self._open: list[int] = []

    def __enter__(self) -> _Folder:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._open:
            os.close(each)

    def open(self, path: str) -> int:
        """A descriptor of the file at `path`, reached by no link; it is closed with this folder."""
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        if self._root is None:
            return self._keep(os.open(path, flags))
        *folders, name = path.split("/")
        at = self._keep(os.open(self._root, _PATH_ONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        for each in folders:
            at = self._keep(os.open(each, _PATH_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at))
        return self._keep(os.open(name, flags | os.O_NOFOLLOW, dir_fd=at))

    def _keep(self, descriptor: int) -> int:
        self._open.append(descriptor)
        return descriptor


def _read(folder: _Folder, path: str, told: str) -> bytes:
    """The bytes of the file at `path` in `folder`, at most `LARGEST`; `told` is what it is called in errors."""
    try:
        file = folder.open(path)
        found = os.fstat(file)
        _check_kind(found.st_mode, told)
        if found.st_size > LARGEST:
            raise _too_large(told, f"{found.st_size:,}")
        data = b""
        while len(data) <= LARGEST and (more := os.read(file, LARGEST + 1 - len(data))):
            data += more
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise ContextError(f"'{told}' was exchanged for a link while it was looked at", "try again") from error
        raise _unreadable(told, error) from error
    if len(data) > LARGEST:
        raise _too_large(told, "more")
    return data


def _too_large(path: str, size: str) -> ContextError:
    return ContextError(
        f"'{path}' is too large: it has {size} bytes, and at most {LARGEST:,} are allowed",
        "leave it out, or put the part of it that is needed into a file of its own",
    )
