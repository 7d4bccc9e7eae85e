"""What is sent to a model: the design document and the context files, and which files of the project may be sent.

A file has to be a regular one, without the name of a secret, and not too large:

    path      relative to the project's root, without '..'; a link may lead elsewhere in the project, but not out of it
    kind      a regular file: no folder, device, pipe or socket
    name      no component has the name of a secret (`secrets.file_names`), none is '.git' or '.agentos'
    size      at most 102,400 bytes each
    text      UTF-8 without NUL; anything else is binary
    tokens    at most 200,000 in all (`tokens`)

A path is resolved first, and every rule applies to the resolved path as well. The file is then opened once, component
by component and following no link, and checked again: a file that was exchanged meanwhile is refused, not read. Every
refusal is a ContextError (a ValueError) that names the file and the rule.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from git_agentos.errors import ContextError, system_reason
from git_agentos.git import trees
from git_agentos.git.repository import Repository
from git_agentos.secrets import file_names
from git_agentos.tdd.context import secrets, tokens
from git_agentos.util.values import count

MAX_FILE_BYTES = 102_400
MAX_TOKENS = 200_000  # of all files together

_PRIVATE_FOLDERS = (".git", ".agentos")

_LEAVE_OUT = "leave it out; write what a model has to know of it into the design document"
_RELATIVE = "name files of the project, relative to its root"
_PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY)


@dataclass(frozen=True)
class Text:
    """A file that was read: `path` is relative to the root, without links; `text` is its `size` bytes."""

    path: str
    text: str
    size: int


@dataclass(frozen=True)
class Documents:
    """The design document, and the context files in the order given.

    `tokens` is their sum; an upper estimate unless `exact` (they are counted only if the estimate is too high).
    """

    lld: Text
    context: tuple[Text, ...]
    tokens: int
    exact: bool


def load(root: str, lld: str, paths: Sequence[str]) -> Documents:
    """Read and check all files; ContextError names the file and the rule. `root` is the project's worktree, `lld` and
    `paths` are relative to it. A file that is named twice counts once."""
    return _gather(lld, paths, functools.partial(read, root))


def of_commit(repository: Repository, commit: str, lld: str) -> Documents:
    """The design document alone, as a commit has it, checked by the same rules; `lld` is relative to its root."""

    def read_blob(path: str) -> Text:
        _check_form(path)
        _check_names(path, path)
        entry = trees.find(repository, repository.commit_tree(commit), os.fsencode(path))
        if entry is None:
            raise ContextError(f"'{path}' does not exist in commit {commit[:12]}", _RELATIVE)
        mode, oid = entry
        if mode == trees.DIRECTORY:
            raise ContextError(f"'{path}' is a folder", "name each file of it that is needed")
        if mode not in (trees.REGULAR, trees.EXECUTABLE):
            raise ContextError(f"'{path}' is no regular file", _LEAVE_OUT)
        if repository.is_large(oid, MAX_FILE_BYTES):
            raise _too_large(path, "more")
        data = repository.blob(oid)
        return Text(path, decode(data, path), len(data))

    return _gather(lld, (), read_blob)


def _gather(lld: str, paths: Sequence[str], reading: Callable[[str], Text]) -> Documents:
    budget = Budget()
    taken: dict[str, Text] = {}
    for path in (lld, *paths):
        found = reading(path)
        if found.path in taken:
            continue
        secrets.check(path, found.text)
        budget.add(path, found.text)
        taken[found.path] = found
    document, *others = taken.values()
    if not document.text.strip():
        raise ContextError(
            f"the design document '{lld}' is empty", "describe in it what is to be built, and how it behaves"
        )
    return Documents(document, tuple(others), budget.tokens, budget.exact)


def policy_lines(documents: Documents, recipient: str) -> Sequence[str]:
    """The data policy, shown before the first call: every file with its size, the tokens, the recipient
    (`models.model.Model.recipient`, a clause such as `Anthropic, over the network`), and what follows later."""
    files = (documents.lld, *documents.context)
    width = max(len(f"{each.size:,}") for each in files)
    total = sum(each.size for each in files)
    most = "" if documents.exact else "at most "
    return (
        f"data policy: what is sent to {recipient}",
        *(
            f"  {each.size:>{width},} bytes  {each.path}{'  (the design document)' if each is documents.lld else ''}"
            for each in files
        ),
        f"  {total:,} bytes in {count(len(files), 'file')}, {most}{documents.tokens:,} tokens",
        "with the issue's id; later also the tests and code that it wrote, and pytest's output, without known secrets",
    )


def validate_context_path(path_str: str | os.PathLike[str], project_root: str | os.PathLike[str]) -> Path:
    """The file that `path_str` (relative to `project_root`) names, absolute and resolved; ContextError, which is a
    ValueError, if it must not be sent to a model because of its location, kind or name."""
    root = _root(project_root)
    return Path(root, _located(root, os.fspath(path_str)))


def validate_context_limits(files: Iterable[str | os.PathLike[str]]) -> None:
    """Check that each of `files` is a text of at most 102,400 bytes, and that all have at most 200,000 tokens;
    ContextError, which is a ValueError, names the file that exceeds a limit."""
    budget = Budget()
    for each in files:
        path = os.fspath(each)
        budget.add(path, decode(_read(None, path, path), path))


class Budget:
    """The tokens used so far: estimated, and counted as soon as the estimate is too high, since loading the library
    that counts takes longer than everything else."""

    def __init__(self) -> None:
        self.tokens = 0
        self.exact = False
        self._texts: list[str] = []

    def add(self, path: str, text: str) -> None:
        """Add the text of a file; ContextError if that exceeds the limit."""
        if self.exact:
            self.tokens += tokens.count(text) or 0
        else:
            self._texts.append(text)
            self.tokens += tokens.estimate(text)
            if self.tokens > MAX_TOKENS:
                self._count()
        if self.tokens > MAX_TOKENS:
            how = "has" if self.exact else "may have (an upper estimate)"
            raise ContextError(
                f"the context is too large: with '{path}' it {how} {self.tokens:,} tokens, and at most {MAX_TOKENS:,}"
                " are allowed",
                "name fewer or smaller files"
                if self.exact
                else f"name fewer or smaller files, or {tokens.INSTALL_HINT}",
            )

    def _count(self) -> None:
        counted = [number for text in self._texts if (number := tokens.count(text)) is not None]
        if len(counted) == len(self._texts):
            self.exact = True
            self.tokens = sum(counted)
            self._texts.clear()


def read(project_root: str, path: str) -> Text:
    """Read the file at `path`, checked by every rule except those for all files together."""
    root = _root(project_root)
    located = _located(root, path)
    data = _read(root, located, path)
    return Text(located, decode(data, path), len(data))


def decode(data: bytes, path: str) -> str:
    """The text of a file; ContextError if it is binary."""
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


# -- paths -------------------------------------------------------------------------------------------------------------


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
    _check_form(path)
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


def _check_form(path: str) -> None:
    if not path:
        raise ContextError("the path of a context file is empty", _RELATIVE)
    if "\0" in path:
        raise ContextError(f"'{path}' is no path: it has a NUL byte")
    if os.path.isabs(path):
        raise ContextError(f"'{path}' is not in the project: it is an absolute path", _RELATIVE)
    if ".." in path.split("/"):
        raise ContextError(f"'{path}' is not in the project: it has '..' in it", _RELATIVE)


def _check_names(path: str, given: str) -> None:
    shown = f"'{given}'" if path == given else f"'{given}', which is '{path}',"
    if (folder := private_folder(path)) is not None:
        raise ContextError(f"{shown} lies in '{folder}', which is not part of the project", _LEAVE_OUT)
    if (pattern := file_names.pattern_of(path)) is not None:
        raise ContextError(f"{shown} may hold secrets: its name matches '{pattern}'", _LEAVE_OUT)


def private_folder(path: str) -> str | None:
    """The folder in `path` that belongs to git or to git-agentos; None if there is none."""
    return next((part for part in path.split("/") if part.casefold() in _PRIVATE_FOLDERS), None)


def _check_kind(mode: int, path: str) -> None:
    if stat.S_ISDIR(mode):
        raise ContextError(f"'{path}' is a folder", "name each file of it that is needed")
    if not stat.S_ISREG(mode):
        raise ContextError(f"'{path}' is no regular file", _LEAVE_OUT)


def _unreadable(path: str, error: OSError) -> ContextError:
    if isinstance(error, FileNotFoundError):
        return ContextError(f"'{path}' does not exist", _RELATIVE)
    return ContextError(f"'{path}' cannot be read: {system_reason(error)}")


# -- reading -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _opened(root: str | None, path: str) -> Iterator[int]:
    """A descriptor of the file at `path` in the folder `root`, reached without links; None: of the file at any path."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    with contextlib.ExitStack() as stack:

        def keep(descriptor: int) -> int:
            stack.callback(os.close, descriptor)
            return descriptor

        if root is None:
            yield keep(os.open(path, flags))
            return
        *folders, name = path.split("/")
        at = keep(os.open(root, _PATH_ONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        for each in folders:
            at = keep(os.open(each, _PATH_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at))
        yield keep(os.open(name, flags | os.O_NOFOLLOW, dir_fd=at))


def _read(root: str | None, path: str, shown: str) -> bytes:
    """The bytes of the file at `path` in `root`, at most `MAX_FILE_BYTES`; `shown` is its name in errors."""
    data = b""
    try:
        with _opened(root, path) as file:
            found = os.fstat(file)
            _check_kind(found.st_mode, shown)
            if found.st_size > MAX_FILE_BYTES:
                raise _too_large(shown, f"{found.st_size:,}")
            while len(data) <= MAX_FILE_BYTES and (more := os.read(file, MAX_FILE_BYTES + 1 - len(data))):
                data += more
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise ContextError(f"'{shown}' was exchanged for a link while it was read", "try again") from error
        raise _unreadable(shown, error) from error
    if len(data) > MAX_FILE_BYTES:
        raise _too_large(shown, "more")
    return data


def _too_large(path: str, size: str) -> ContextError:
    return ContextError(
        f"'{path}' is too large: it has {size} bytes, and at most {MAX_FILE_BYTES:,} are allowed",
        "leave it out, or put the part of it that is needed into a file of its own",
    )
