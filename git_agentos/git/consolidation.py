"""Packing together what checkpoints have written: loose objects, and packs of a few objects.

A checkpoint of a few files writes a small pack, or some loose objects. Each of these files takes a block on disk, and
every look-up asks each pack. Their names are recorded in a file in the common git directory. When there are enough, git
packs exactly these objects (`pack-objects`, with deltas), and the files are removed, as `git repack -d` would do.
Nothing depends on it: after a failure everything stays, and `git gc` packs it too.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable

from git_agentos.errors import AgentosError
from git_agentos.git import gc
from git_agentos.git.objects import loose
from git_agentos.git.objects.pack_index import PackIndex
from git_agentos.git.objects.writer import WrittenPack
from git_agentos.git.repository import Repository, Writer
from git_agentos.util import directories, files, locks

_NOTES = "loose-objects"  # versions that wrote no small packs have it too, and skip the names of packs
_TAKEN = "loose-objects.packing"
# About 90 checkpoints of a few files. There are few packs of so many objects: git's own `gc --auto` merges them at
# gc.autoPackLimit, 50.
_ENOUGH = 1000
_MOST_PACKS = 16
_LARGEST = 4 << 20  # bytes of a pack that is packed again
_DURABLE = ("-c", "core.fsync=pack,pack-metadata", "-c", "core.fsyncMethod=fsync")  # as what it replaces
# Files of a pack, in the order in which `git repack -d` removes them: without its index, nobody looks for it.
_SUFFIXES = (".idx", ".pack", ".rev", ".bitmap", ".mtimes")


def note(repository: Repository, writer: Writer) -> None:
    """Record what has just been written; pack all that is recorded if it is enough."""
    _note(repository, writer.loose + [_row(pack) for pack in writer.packs if _is_small(pack)])


def note_packs(repository: Repository, bases: Iterable[str]) -> None:
    """Record packs by their paths without a suffix, now that a ref reaches their objects."""
    rows = []
    for base in bases:
        with contextlib.suppress(OSError, ValueError):
            count = len(PackIndex(base + ".idx", repository.hash.raw_length))
            pack = WrittenPack(os.path.basename(base), count, os.path.getsize(base + ".pack"))
            rows += [_row(pack)] if _is_small(pack) else []
    _note(repository, rows)


def _note(repository: Repository, rows: list[str]) -> None:
    if not rows:
        return
    folder = repository.location.shared_state_dir
    with contextlib.suppress(OSError):
        _append(os.path.join(directories.make_own(folder), _NOTES), rows)
        found = _Notes.read(repository, os.path.join(folder, _NOTES))
        enough = len(found.packs) >= _MOST_PACKS or len(found.loose) + sum(found.packs.values()) >= _ENOUGH
        if enough and not gc.is_running(repository.location):
            with contextlib.suppress(AgentosError):
                _pack(repository, folder)


def _is_small(pack: WrittenPack) -> bool:
    return pack.objects < _ENOUGH and pack.size <= _LARGEST


def _row(pack: WrittenPack) -> str:
    return f"{pack.name} {pack.objects}"


def _append(path: str, rows: Iterable[str]) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o644)
    try:
        os.write(descriptor, "".join(f"{row}\n" for row in rows).encode())
    finally:
        os.close(descriptor)


class _Notes:
    """What is recorded: ids of loose objects, and packs by name, with the number of their objects."""

    def __init__(self, loose: list[str], packs: dict[str, int]) -> None:
        self.loose = loose
        self.packs = packs

    @classmethod
    def read(cls, repository: Repository, path: str) -> _Notes:
        """What is in a file of notes; rows that are not ours are skipped."""
        try:
            rows = files.read(path).decode("ascii", "replace").split("\n")
        except FileNotFoundError:
            rows = []
        packs = (re.fullmatch(r"(pack-([0-9a-f]+)) ([0-9]{1,9})", row) for row in rows if row.startswith("pack-"))
        return cls(
            [row for row in rows if repository.hash.is_oid(row)],
            {row[1]: int(row[3]) for row in packs if row is not None and repository.hash.is_oid(row[2])},
        )


def _pack(repository: Repository, folder: str) -> None:
    """Pack what is recorded; LockedError if another process does so."""
    with locks.hold(os.path.join(folder, gc.PACKING), wait=False):
        taken = os.path.join(folder, _TAKEN)
        found = _Notes.read(repository, taken)  # left by a process that was killed here
        os.replace(os.path.join(folder, _NOTES), taken)
        notes = _Notes.read(repository, taken)
        packs = os.path.join(repository.objects_dir, "pack")
        single = [oid for oid in dict.fromkeys(found.loose + notes.loose) if loose.exists(repository.objects_dir, oid)]
        old = _open_packs(packs, repository.hash.raw_length, found.packs | notes.packs)
        oids = list(dict.fromkeys([*single, *(oid for pack in old.values() for oid in pack)]))
        if oids:
            rows = "".join(f"{oid}\n" for oid in oids).encode()
            words = (*_DURABLE, "pack-objects", "-q", "--non-empty", os.path.join(packs, "pack"))
            out = repository.git(*words, data=rows)
            new = [f"pack-{line}" for line in out.decode("ascii").split()]
            files.sync_directory(packs)
            if gc.is_running(repository.location):
                return  # it fails if an index that it has seen is gone; what was taken stays noted
            for oid in single:
                with contextlib.suppress(OSError):
                    os.unlink(loose.path(repository.objects_dir, oid))
            for name in old.keys() - set(new) - _in_multi_pack_index(packs, old):
                _remove(os.path.join(packs, name))
            if len(new) == 1 and len(oids) < _ENOUGH:
                _append(os.path.join(folder, _NOTES), [f"{new[0]} {len(oids)}"])
        os.unlink(taken)


def _open_packs(folder: str, raw_length: int, names: Iterable[str]) -> dict[str, PackIndex]:
    """The indexes of the packs that are still there; those that cannot be read are left to git."""
    found = {}
    for name in names:
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError, ValueError):
            if os.path.exists(path + ".pack"):
                found[name] = PackIndex(path + ".idx", raw_length)
    return found


def _in_multi_pack_index(folder: str, names: Iterable[str]) -> set[str]:
    """The packs that git's multi-pack-index names: without them, it would be damaged (gitformat-pack(5))."""
    try:
        data = files.read(os.path.join(folder, "multi-pack-index"), limit=1 << 30)
    except FileNotFoundError:
        return set()
    except OSError:
        return set(names)
    return {name for name in names if name.encode("ascii") in data}


def _remove(base: str) -> None:
    for suffix in _SUFFIXES:
        with contextlib.suppress(OSError):
            os.unlink(base + suffix)
