"""What shell text does to the files that it names: which are not the agent's to change, and which must be saved first.

Before a program that writes to or deletes files, or that is not known, the guard saves the worktree in which it runs,
and the worktrees of the repository and the ignored files that it names.

No other checkpoint holds ignored files. Those up to `agentos.maxFileSize` are saved, and at most `MOST_FILES` files and
`MOST_BYTES` for one command, the small ones first: before `rm -rf .env node_modules` the guard saves `.env`, and does
not copy a gigabyte.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from git_agentos import config
from git_agentos.errors import AgentosError
from git_agentos.git import process
from git_agentos.guard.assessment.file_owners import FileOwners
from git_agentos.guard.call import UNKNOWN, Call
from git_agentos.guard.decision import Operation, SaveScope
from git_agentos.guard.identity import Identity
from git_agentos.guard.paths import git_directories, is_below, is_device
from git_agentos.guard.shell import file_programs
from git_agentos.guard.shell.file_programs import Files, is_called
from git_agentos.guard.shell.reader import Program
from git_agentos.guard.shell.words import known
from git_agentos.util.named_tuple import NamedTuple

MOST_FILES = 2000
MOST_BYTES = 64 << 20
_SHOWN = 3
# Everything in a folder whose name is unknown: everything in `/` if the variable is not set.
_ALL_OF_UNKNOWN = re.compile(UNKNOWN + r"/+\.?\*")


# These act on a link itself, not on what it leads to.
_OF_LINKS = frozenset({"rm", "unlink", "rmdir", "mv", "ln", "trash", "trash-put"})


class FileEffect(NamedTuple):
    """`operations` that a program does, or what must be saved before it of the worktree `root`."""

    operations: Sequence[Operation] = ()
    save: SaveScope | None = None
    root: str | None = None


class NamedFiles:
    """The files of one shell text, which `identity` gives as `call`. `values` returns git's configuration."""

    def __init__(self, call: Call, identity: Identity, values: Callable[[], Mapping[str, Sequence[str]]]) -> None:
        self.call = call
        self.identity = identity
        self.values = values
        self.owners = FileOwners(call, identity)
        self.links: dict[str, str] = {}  # links that the text makes -> their targets

    def named_by(self, program: Program) -> Iterator[FileEffect]:
        """What a program does to files that it names, and to those that the shell writes its output to."""
        writes = Files(tuple(word for word in program.writes if not is_device(word)), overwrites=True)
        argv = program.argv if program.argv and known(program.argv[0]) else ()
        files_written_by = file_programs.files_written_by(argv, program.directory) if argv else None
        of_links = bool(argv) and file_programs.plain(argv[0]) in _OF_LINKS
        for files, follows in ((files_written_by, not of_links), (writes, True)):
            if files is not None and (files.paths or files.deleted_trees or files.into):
                yield from self._of(program, files, follows=follows)
        if argv and file_programs.plain(argv[0]) == "ln":
            made = file_programs.links(argv, program.directory)
            if not file_programs.is_symbolic(argv):
                # A write to a hard link changes the file.
                yield from self._of(program, Files(into=tuple(made.values())), follows=True)
            self.links |= made

    def unnamed_by(self, program: Program) -> Iterator[FileEffect]:
        """What must be saved before a program that may change files which its command line does not name."""
        if self.identity.agent is None or not file_programs.may_write(program.argv):
            return
        if file_programs.files_written_by(program.argv, program.directory) is None:
            mentioned_paths = Files(into=tuple(file_programs.mentioned_paths(program.argv)))
            yield from self._saves(program, mentioned_paths, named=False)

    def _of(self, program: Program, files: Files, *, follows: bool) -> Iterator[FileEffect]:
        found = file_programs.in_git_directory(files, program.directory, git_directories(program.directory))
        if found is not None:
            yield FileEffect([Operation("git-dir-write", found.replace(UNKNOWN, "…"))])
            return
        asked = self._others_files(program, files, follows)
        asked += [
            Operation("unresolved", w.replace(UNKNOWN, "…"))
            for w in files.deleted_trees
            if _ALL_OF_UNKNOWN.fullmatch(w)
        ]
        if asked:
            yield FileEffect(asked)
        if files.overwrites and file_programs.exists(files, program.directory):
            yield from self._saves(program, files, named=True)

    def _others_files(self, program: Program, files: Files, follows: bool) -> list[Operation]:
        """The operations on files that are not the agent's to change; with `follows`, also on what links lead to."""
        found: list[Operation] = []
        for word in dict.fromkeys((*files.paths, *files.deleted_trees, *files.into)):
            # Of a partly unknown word, the folder with which it begins counts.
            whole = known(word) and (word in files.deleted_trees or (files.below and word in files.into))
            for directory in self._directories(program):
                for path in file_programs.named(word, directory):
                    if is_device(path):
                        continue
                    through = follows or word.endswith("/")
                    target = self._without_links(path, through)
                    operation = self.owners.operation(target, whole=whole, follows=through)
                    # A file outside of every worktree would be a false stop after each `cd build; rm -rf ../dist`.
                    if operation is not None and (directory == program.directory or operation.name == "other-worktree"):
                        found.append(operation._replace(subject=word.replace(UNKNOWN, "…")))
        return list(dict.fromkeys(found))

    def _without_links(self, path: str, follows: bool) -> str:
        """`path` as it will be once the text has made its links."""
        for link, target in reversed(self.links.items()):
            if is_below(path, link) and (follows or path != link):
                return target + path[len(link) :]
        return path

    def _saves(self, program: Program, files: Files, *, named: bool) -> Iterator[FileEffect]:
        """What must be saved before a program: the worktree in which it runs, those of the files in `files`, and, if
        these files are its `named` targets, the ignored ones among them."""
        words = [word for word in (*files.paths, *files.deleted_trees, *files.into) if known(word)]
        paths = [path for word in words for path in file_programs.named(word, program.directory)]
        by_root: dict[str, list[str]] = {}
        folders = self._directories(program)
        for path in (*folders, *paths):
            root = self.owners.worktree(path)
            if root is not None and (named or path in folders or self.owners.is_sibling(root)):
                real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
                by_root.setdefault(root, []).extend(each for each in (real, os.path.realpath(path)) if path in paths)
        everywhere = len(words) < len(files.paths + files.deleted_trees + files.into) and file_programs.deletes(
            program.argv
        )
        for root, inside in by_root.items():
            if not os.access(root, os.W_OK):
                continue  # a sandbox protects it
            below = [root] if everywhere else inside
            save = self._ignored_among(root, below if named else [], files.names, collapse=everywhere)
            yield FileEffect((), save, root)

    def _directories(self, program: Program) -> tuple[str, ...]:
        """Where a program may run: in the most likely directory, or, if a `cd` may not have been done, in the first."""
        likely, first = program.directory, self.call.cwd
        return (likely, first) if program.cwd_unknown and first != likely else (likely,)

    def _ignored_among(self, root: str, paths: Sequence[str], names: Sequence[str], *, collapse: bool) -> SaveScope:
        inside = [path for path in paths if is_below(path, root)]
        if not inside or self.identity.agent is None:
            return SaveScope()
        return _save_of_ignored(root, inside, names, self.values(), collapse=collapse)


# -- ignored files -----------------------------------------------------------------------------------------------------


def _save_of_ignored(
    root: str,
    paths: Iterable[str],
    names: Sequence[str],
    values: Mapping[str, Sequence[str]],
    *,
    collapse: bool = False,
) -> SaveScope:
    """What to save of the ignored files at and below `paths` (absolute, in the worktree `root`) whose names match one
    of `names`, if there are any. `values` is git's configuration. With `collapse`, folders that are ignored as a whole
    are left out."""
    wanted = sorted({os.path.relpath(path, root) for path in paths if os.path.lexists(path)})
    if not wanted:
        return SaveScope()
    listed = _ignored(root, wanted, collapse)
    found = [path for path in listed if is_called(path, names)]
    repositories = frozenset(path.rstrip(b"/") for path in found if path.endswith(b"/") and not collapse)
    sizes = {path: _size(root, path) for path in found if not path.endswith(b"/")}
    limit = _limit(values)
    ignored: set[bytes] = set()
    left: list[bytes] = []
    total = 0
    for path, size in sorted(sizes.items(), key=lambda each: (each[1], each[0])):
        if (limit and size > limit) or len(ignored) >= MOST_FILES or total + size > MOST_BYTES:
            left.append(path)
        else:
            ignored.add(path)
            total += size
    return SaveScope(frozenset(ignored), repositories=repositories, left_out=_not_saved_note(left, len(sizes)))


def _ignored(root: str, paths: Sequence[str], collapse: bool) -> list[bytes]:
    options = ["--directory"] if collapse else []
    args = ["ls-files", "--others", "--ignored", "--exclude-standard", *options, "-z", "--", *paths]
    try:
        out = process.run(args, cwd=root, env=process.environment())
    except AgentosError:
        return []
    return [path for path in out.split(b"\0") if path and not path.startswith(b".agentos/")]


def _size(root: str, path: bytes) -> int:
    try:
        found = os.lstat(os.path.join(os.fsencode(root), path))
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _limit(values: Mapping[str, Sequence[str]]) -> int:
    try:
        return config.max_file_size(values)
    except AgentosError:
        return config.DEFAULT_MAX_FILE_SIZE


def _not_saved_note(left: Sequence[bytes], total: int) -> str:
    """The part of the message about files that are not saved."""
    if not left:
        return ""
    names = ", ".join(repr(os.fsdecode(path)) for path in left[:_SHOWN]) + (" ..." if len(left) > _SHOWN else "")
    return (
        f"{len(left)} of {total} ignored files are not saved: {names} (the limits are agentos.maxFileSize for each,"
        f" and {MOST_FILES} files and {MOST_BYTES >> 20} MiB for a command)"
    )
