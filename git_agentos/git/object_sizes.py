"""What objects take on disk."""

from __future__ import annotations

import os
from collections.abc import Collection

from git_agentos.git.objects import loose
from git_agentos.git.repository import Repository

BLOCK = 512  # of `st_blocks`


def on_disk(repository: Repository, oids: Collection[str]) -> int:
    """How many bytes on disk objects take: of a loose one its blocks, of a packed one its part of the pack."""
    return sum(of_each(repository, oids).values())


def of_kinds(repository: Repository, oids: Collection[str]) -> tuple[dict[str, int], set[str]]:
    """What each object takes, loose ones by their length, and which of them are blobs. Quicker than `of_each`."""
    args = ("cat-file", "--buffer", "--batch-check=%(objectname) %(objectsize:disk) %(objecttype)")
    listed = repository.git(*args, data="\n".join([*oids, ""]).encode()).decode("ascii").split("\n")
    rows = [line.split(" ") for line in listed if line]
    return {row[0]: int(row[1]) for row in rows if len(row) == 3}, {row[0] for row in rows if row[2:] == ["blob"]}


def of_each(repository: Repository, oids: Collection[str]) -> dict[str, int]:
    """The same of each object; objects that are missing are left out."""
    found: dict[str, int] = {}
    packed = []
    for oid in oids:
        try:
            found[oid] = os.lstat(loose.path(repository.objects_dir, oid)).st_blocks * BLOCK
        except OSError:
            packed.append(oid)
    if packed:
        args = ("cat-file", "--buffer", "--batch-check=%(objectname) %(objectsize:disk)")
        for line in repository.git(*args, data="".join(f"{oid}\n" for oid in packed).encode()).splitlines():
            name, _, number = line.partition(b" ")
            if number.isdigit():
                found[name.decode("ascii")] = int(number)
    return found
