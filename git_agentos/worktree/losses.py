"""What is deleted with a worktree: it is saved in a checkpoint, and listed where it cannot be saved."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from git_agentos.checkpoint.model import Skipped, SkipReason, State
from git_agentos.errors import AgentosError
from git_agentos.git import ignore, refs, untracked
from git_agentos.git.location import Location
from git_agentos.git.repository import Repository
from git_agentos.util import files

_PSEUDO_REFS = ("ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "FETCH_HEAD")
_OURS = "refs/agentos/"


@dataclass(frozen=True)
class Losses:
    """The five kinds of what is deleted with a worktree; all of it is in the checkpoint that was taken first.

    `dirty` are tracked paths with changes, `untracked` and `ignored` files, `commits` ids of commits that no other ref
    reaches, `submodules` the paths of submodules and nested repositories.
    """

    dirty: list[str] = field(default_factory=list)
    untracked: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    commits: list[str] = field(default_factory=list)
    submodules: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Inventory:
    """What git does not list in a folder: `closed` directories that cannot be read, `special` files (sockets, pipes,
    devices, which have no contents to save), `odd` entries named `.git` that are no repository. Bytes, relative."""

    closed: Sequence[bytes]
    special: Sequence[bytes]
    odd: Sequence[bytes]


def take_stock(root: str) -> Inventory:
    """Search a worktree for what git ignores silently."""
    closed: list[bytes] = []
    special: list[bytes] = []
    odd: list[bytes] = []
    top = os.fsencode(root)
    for folder, entries in _folders(top):
        if entries is None:
            closed.append(folder)
            continue
        for entry in entries:
            if entry.name == b".git":
                if folder != top and not untracked.is_repository(folder):
                    odd.append(entry.path)
            elif not (entry.is_file(follow_symlinks=False) or entry.is_symlink() or entry.is_dir()):
                special.append(entry.path)
    return Inventory(*(sorted(os.path.relpath(path, top) for path in paths) for paths in (closed, special, odd)))


def changed_since(root: str, moment: int) -> str | None:
    """Something in a folder that has changed since `moment` (nanoseconds since the epoch); None where nothing has.

    Repositories inside are left out below their `.git`, as is our own folder: saving them writes there.
    """
    top = os.fsencode(root)
    for folder, entries in _folders(top):
        for entry in entries or ():
            if entry.name == b".git" or (folder == top and untracked.is_agentos_path(entry.name)):
                continue
            with contextlib.suppress(FileNotFoundError):
                if entry.stat(follow_symlinks=False).st_ctime_ns > moment:
                    return os.fsdecode(os.path.relpath(entry.path, top))
    return None


def _folders(top: bytes) -> Iterator[tuple[bytes, list[os.DirEntry[bytes]] | None]]:
    """Every folder of a worktree with its entries (None where it cannot be read), but no git directory and not our
    own folder."""
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as found:
                entries = list(found)
        except OSError:
            yield folder, None
            continue
        yield folder, entries
        for entry in entries:
            is_ours = entry.name == b".git" or (folder == top and untracked.is_agentos_path(entry.name))
            if not is_ours and entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)


def of_state(state: State, commits: Sequence[str]) -> Losses:
    """The losses, by the state that was captured."""
    inner = {path + b"/" for path in state.nested}

    def names(paths: Sequence[bytes]) -> list[str]:
        return [os.fsdecode(path) for path in sorted(paths)]

    return Losses(
        dirty=names([*{*state.staged, *state.unstaged} - state.nested.keys()]),
        untracked=names([path for path in state.untracked if path not in inner]),
        ignored=names([*state.ignored]),
        commits=list(commits),
        submodules=names([*state.nested]),
    )


# -- commits -------------------------------------------------------------------------------------------------------


def own_commits(repository: Repository, *, without: str | None = None) -> tuple[list[str], list[str]]:
    """The commits that only this worktree keeps (by its HEAD, its reflog, its own refs), newest first, and the tips
    among them. `without` is a branch that goes with the worktree, and its reflog."""
    location = repository.location
    candidates = set(_own_tips(location))
    # A damaged ref keeps no commit alive: what it may have named counts as this worktree's own, and is saved.
    sound = refs.list_refs(location, "refs/", skip_broken=True)
    staying = {name: oid for name, oid in sound.items() if not name.startswith(refs.PER_WORKTREE)}
    if without is not None:
        candidates |= set(_reflog(location, without))
        if without in staying:
            candidates.add(staying.pop(without))
    others = {oid for name, oid in staying.items() if not name.startswith(_OURS)}
    commits = _commits(repository, candidates - others)
    if not commits:
        return [], []
    lines = "".join([f"{oid}\n" for oid in commits] + [f"^{oid}\n" for oid in sorted(others)])
    out = repository.git("rev-list", "--ignore-missing", "--parents", "--stdin", data=lines.encode()).decode()
    rows = [line.split(" ") for line in out.splitlines()]
    parents = {parent for row in rows for parent in row[1:]}
    found = [row[0] for row in rows]
    return found, [oid for oid in found if oid not in parents]


def _own_tips(location: Location) -> Iterator[str]:
    with contextlib.suppress(AgentosError):
        head = refs.read_head(location).commit
        if head is not None:
            yield head
    yield from _reflog(location, "HEAD")
    yield from refs.own_refs(location).values()
    for name in _PSEUDO_REFS:
        with contextlib.suppress(OSError):
            for line in files.read(os.path.join(location.git_dir, name), follow=True).splitlines():
                yield _first_word(line)


def _first_word(line: bytes) -> str:
    """The id that a line of a ref's file begins with."""
    return line.split(maxsplit=1)[0].decode("ascii", "replace") if line.strip() else ""


def _reflog(location: Location, name: str) -> Iterator[str]:
    """Every commit that a reflog names."""
    for line in refs.read_log(location, name):
        for word in line.split(b" ", 2)[:2]:
            yield word.decode("ascii", "replace")


def _commits(repository: Repository, candidates: set[str]) -> list[str]:
    """Those candidates that are commits which are there."""
    wanted = sorted(oid for oid in candidates if repository.hash.is_oid(oid) and oid != repository.hash.zero)
    if not wanted:
        return []
    data = "".join(f"{oid}\n" for oid in wanted).encode()
    out = repository.git("cat-file", "--batch-check=%(objectname) %(objecttype)", data=data).decode()
    return [line.split(" ")[0] for line in out.splitlines() if line.endswith(" commit")]


# -- what cannot be saved ------------------------------------------------------------------------------------------


def unsaved(state: State, stock: Inventory) -> list[Skipped]:
    """What of a worktree the state does not hold, and why."""
    found = list(state.skipped)
    known = {item.path for item in found}
    closed = [os.fsdecode(path) for path in stock.closed]
    found += [Skipped(path + "/", SkipReason.UNREADABLE) for path in closed if path not in known]
    found += [Skipped(os.fsdecode(path), "a '.git' that is no repository: git passes it over") for path in stock.odd]
    return sorted(found, key=lambda item: item.path)


def is_ignored(repository: Repository, state: State, paths: Sequence[str]) -> set[str]:
    """Those of `paths` (text, a directory with a trailing slash) that git's rules ignore.

    What lies in a repository inside is ignored where that whole repository is.
    """
    if not paths:
        return set()
    inner = [os.fsdecode(path) + "/" for path in state.nested]
    asked = {path: next((each for each in inner if path.startswith(each)), path) for path in paths}
    names = sorted({os.fsencode(path) for path in asked.values()})
    ignored = {os.fsdecode(path) for path in ignore.ignored_among(repository, names)}
    return {path for path, each in asked.items() if each in ignored}
