"""Deleting objects from a repository's own store, loose or in packs, while others read it and write to it.

A git that writes an object which exists already touches its file instead (of a packed one, the pack), and relies on it
from then on. So a file is renamed first; if its time has changed meanwhile, the name is given back. Once it is renamed,
git finds no file to touch, and writes the object again. A file that was touched while somebody else holds a lock that
an index is written under stays: it may belong to what is being added.

    objects/<xx>/tmp_obj_forget_<rest>         a loose object that is being deleted
    objects/pack/tmp_pack_forget_<name>.pack   a pack that is being deleted

`give_back` renames what a killed process left. A pack of which something is needed is written again without the rest,
by `git pack-objects`, and then deleted. Packs with a keep file and those of a promisor remote stay as they are.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from git_agentos.git import links
from git_agentos.git.objects import loose
from git_agentos.git.objects.pack_index import PackIndex
from git_agentos.git.repository import Repository
from git_agentos.util import files
from git_agentos.util.progress import SILENT, counted, phase

if TYPE_CHECKING:
    from git_agentos.util.progress import Progress

_LOOSE, _PACK = "tmp_obj_forget_", "tmp_pack_forget_"
_BESIDE = (".idx", ".rev", ".bitmap", ".mtimes")
_NOT_OURS = (".keep", ".promisor")
_BLOCK = 512
# Why objects stay.
_IN_USE, _PACK_IN_USE, _NOT_WORTH = "in use", "their pack is in use", "there is little else to delete in their pack"
_LATER = (_IN_USE, _PACK_IN_USE, _NOT_WORTH)


@dataclass
class Removed:
    """What was deleted: bytes on disk; `left` are the objects that are still there, by the reason.

    `in_use` are those of them that another attempt may delete. `had_multi_pack_index`: there was one, and the caller
    writes it again.
    """

    freed_bytes: int = 0
    left: dict[str, set[str]] = field(default_factory=dict)
    had_multi_pack_index: bool = False

    @property
    def in_use(self) -> set[str]:
        return {oid for why in _LATER for oid in self.left.get(why, ())}

    def leave(self, reason: str, oids: Iterable[str]) -> None:
        """Note objects that stay."""
        found = set(oids)
        if found:
            self.left.setdefault(reason, set()).update(found)


@dataclass(frozen=True)
class Care:
    """What must stay. Times are in ns since the epoch.

    A file that was touched at `locked_since` or later may belong to an index that is being written (None: there is
    none). A loose object that was touched after `used_until` was touched by somebody else, unless it is one of `own`. A
    pack of which less than 1/`worth` is deleted is not written again (0: each one is).
    """

    locked_since: int | None = None
    used_until: int | None = None
    worth: int = 0
    own: frozenset[str] = frozenset()

    def forbids(self, touched: int, *, loose: bool = False) -> bool:
        """Whether a file that was touched at a time must stay."""
        if self.locked_since is not None and touched >= self.locked_since:
            return True
        return loose and self.used_until is not None and touched > self.used_until


def remove(repository: Repository, oids: Collection[str], care: Care, progress: Progress = SILENT) -> Removed:
    """Delete objects from the repository's own store. The caller has made sure that nothing needs them, and holds the
    lock under which loose objects are packed."""
    done = Removed()
    in_use = [oid for oid in oids if _is_in_use(repository, oid, care)]
    if in_use:
        kept = {*in_use, *links.reached_by(repository, in_use, oids)}
        done.leave(_IN_USE, kept)
        oids = set(oids) - kept
    if oids:
        _remove_loose(repository, counted(progress, "Deleting objects", oids), done)
        with phase(progress, "Repacking objects"):
            _remove_packed(repository, oids, care, done)
    return done


def _is_in_use(repository: Repository, oid: str, care: Care) -> bool:
    try:
        return care.forbids(os.lstat(loose.path(repository.objects_dir, oid)).st_mtime_ns, loose=oid not in care.own)
    except OSError:
        return False


def give_back(repository: Repository, oids: Iterable[str]) -> None:
    """Rename what a process left that was killed while it deleted these objects."""
    for oid in oids:
        path = loose.path(repository.objects_dir, oid)
        _give_back(_hidden(path, _LOOSE), path)
    folder = os.path.join(repository.objects_dir, "pack")
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(folder):
            if name.startswith(_PACK):
                _give_back(os.path.join(folder, name), os.path.join(folder, name.removeprefix(_PACK)))


def _give_back(hidden: str, path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if os.path.lexists(path):
            os.unlink(hidden)
        else:
            os.rename(hidden, path)


def _hidden(path: str, prefix: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, prefix + name)


# -- loose objects -----------------------------------------------------------------------------------------------------


def _remove_loose(repository: Repository, oids: Iterable[str], done: Removed) -> None:
    folders = set()
    for oid in oids:
        path = loose.path(repository.objects_dir, oid)
        try:
            before = os.lstat(path)
        except OSError:
            continue
        if not _take(path, _LOOSE, before):
            done.leave(_IN_USE, [oid])
            continue
        os.unlink(_hidden(path, _LOOSE))
        folders.add(os.path.dirname(path))
        done.freed_bytes += before.st_blocks * _BLOCK
    for folder in folders:
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def _take(path: str, prefix: str, before: os.stat_result) -> bool:
    """Rename a file, unless it was touched since `before`; whether that was done."""
    hidden = _hidden(path, prefix)
    os.rename(path, hidden)
    if os.lstat(hidden).st_mtime_ns == before.st_mtime_ns:
        return True
    _give_back(hidden, path)
    return False


# -- packs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pack:
    """A pack, of which some objects are deleted."""

    path: str  # without the extension
    stat: os.stat_result
    deleted: set[str]
    others: list[str]

    @property
    def size(self) -> int:
        return sum(_blocks(self.path + each) for each in (".pack", *_BESIDE))


def _blocks(path: str) -> int:
    try:
        return os.lstat(path).st_blocks * _BLOCK
    except OSError:
        return 0


def _remove_packed(repository: Repository, oids: Collection[str], care: Care, done: Removed) -> None:
    folder = os.path.join(repository.objects_dir, "pack")
    packs = [each for each in _packs(repository, folder, oids) if _may_go(each, care, done)]
    if not packs:
        return
    before = sum(each.size for each in packs)
    new = _pack_again(repository, folder, [oid for each in packs for oid in each.others])
    done.had_multi_pack_index = _drop_multi_pack_index(repository)
    for each in packs:
        if os.path.basename(each.path) in new:
            continue
        if not _take(f"{each.path}.pack", _PACK, each.stat):
            done.leave(_PACK_IN_USE, each.deleted)
            before -= each.size
            continue
        for path in (f"{each.path}{end}" for end in _BESIDE):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        os.unlink(_hidden(f"{each.path}.pack", _PACK))
    after = sum(_blocks(os.path.join(folder, name + end)) for name in new for end in (".pack", *_BESIDE))
    done.freed_bytes += before - after


def _packs(repository: Repository, folder: str, oids: Collection[str]) -> list[_Pack]:
    found = []
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    for name in names:
        path = os.path.join(folder, name.removesuffix(".idx"))
        if not name.endswith(".idx") or not os.path.lexists(f"{path}.pack"):
            continue
        stat = os.lstat(f"{path}.pack")
        deleted, others = set(), []
        for oid in PackIndex(f"{path}.idx", repository.hash.raw_length).ids():
            if oid in oids:
                deleted.add(oid)
            else:
                others.append(oid)
        if deleted:
            found.append(_Pack(path, stat, deleted, others))
    return found


def _may_go(pack: _Pack, care: Care, done: Removed) -> bool:
    name = os.path.basename(pack.path)
    for end in _NOT_OURS:
        if os.path.lexists(pack.path + end):
            done.leave(f"'{name}{end}' keeps their pack", pack.deleted)
            return False
    if care.forbids(pack.stat.st_mtime_ns):
        done.leave(_PACK_IN_USE, pack.deleted)
        return False
    if care.worth and len(pack.deleted) * care.worth < len(pack.others):
        done.leave(_NOT_WORTH, pack.deleted)
        return False
    return True


def _pack_again(repository: Repository, folder: str, oids: list[str]) -> set[str]:
    """Write a pack of these objects; the names of the packs (`pack-…`)."""
    if not oids:
        return set()
    base = os.path.join(folder, "pack")
    args = ("pack-objects", "-q", "--non-empty", "--delta-base-offset", base)
    written = repository.git(*args, data="".join(f"{oid}\n" for oid in dict.fromkeys(oids)).encode())
    files.sync_directory(folder)
    return {f"pack-{name}" for name in written.decode("ascii").split()}


def _drop_multi_pack_index(repository: Repository) -> bool:
    """Delete the index over all packs, which names packs that go: git uses their own. Whether there was one."""
    folder = os.path.join(repository.objects_dir, "pack")
    there = any(os.path.lexists(os.path.join(folder, name)) for name in ("multi-pack-index", "multi-pack-index.d"))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, "multi-pack-index"))
    for name in os.listdir(folder):
        if name.startswith("multi-pack-index-"):  # its bitmap and its reverse index
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))
    chain = os.path.join(folder, "multi-pack-index.d")
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for name in os.listdir(chain):
            os.unlink(os.path.join(chain, name))
        os.rmdir(chain)
    return there
