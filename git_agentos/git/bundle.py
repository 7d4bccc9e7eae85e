"""Bundles: a file with the objects that a commit reaches, without those of others (gitformat-bundle(5)).

`git bundle verify` and `git fetch` read what is written here. `git bundle create` does not write it, since that takes
refs, and no ref leads to what is written here; nor does `git bundle unbundle` read it, since that takes only what
continues a ref, and this is read in a quarantine.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import BinaryIO

from git_agentos.errors import RepositoryError
from git_agentos.git import quarantine
from git_agentos.git.hash_algorithm import SHA1, HashAlgorithm
from git_agentos.git.quarantine import Quarantine
from git_agentos.util.named_tuple import NamedTuple

_LONGEST_LINE = 4096
_MOST_LINES = 100_000


class Header(NamedTuple):
    """The beginning of a bundle: the commits that it continues, its refs, and where its pack begins."""

    prerequisites: tuple[str, ...]
    refs: dict[str, str]
    pack: int


def write(room: Quarantine, path: str, ref: str, tip: str, without: Iterable[str]) -> tuple[str, ...]:
    """Write a bundle with one ref: what `tip` reaches and `without` do not. The commits that it continues."""
    algorithm = room.repository.hash
    wanted = "".join([f"{tip}\n", *(f"^{each}\n" for each in without)]).encode("ascii")
    rows = room.git("rev-list", "--boundary", "--stdin", data=wanted).decode("ascii").split()
    prerequisites = tuple(row[1:] for row in rows if row.startswith("-"))
    lines = ["# v2 git bundle"] if algorithm == SHA1 else ["# v3 git bundle", f"@object-format={algorithm.name}"]
    lines += [f"-{each} " for each in prerequisites] + [f"{tip} {ref}", "", ""]
    with open(path, "wb") as file:
        file.write("\n".join(lines).encode("utf-8"))
        file.flush()
        args = ["pack-objects", "--revs", "--thin", "--stdout", "--delta-base-offset", "-q"]
        quarantine.run(room, args, data=wanted, stdout=file.fileno())
    return prerequisites


def read_header(file: BinaryIO, algorithm: HashAlgorithm) -> Header:
    """Read the beginning of a bundle; RepositoryError if that is none, or one of another object format."""
    first = file.readline(_LONGEST_LINE)
    if first not in (b"# v2 git bundle\n", b"# v3 git bundle\n"):
        raise RepositoryError("it is no bundle of git")
    named = SHA1.name
    prerequisites: list[str] = []
    refs: dict[str, str] = {}
    for _ in range(_MOST_LINES):
        line = file.readline(_LONGEST_LINE)
        if line == b"\n":
            if named != algorithm.name:
                raise RepositoryError(f"its objects are named by {named[:20]}, and those here by {algorithm.name}")
            return Header(tuple(prerequisites), refs, file.tell())
        text = line.decode("utf-8", "surrogateescape").removesuffix("\n")
        oid, _, name = text.removeprefix("-").partition(" ")
        if text.startswith("@object-format="):
            named = text.partition("=")[2]
        elif not algorithm.is_oid(oid):
            break
        elif text.startswith("-"):
            prerequisites.append(oid)
        else:
            refs[name] = oid
    raise RepositoryError("the header of its bundle is not sound")


def unpack(room: Quarantine, file: BinaryIO, header: Header) -> None:
    """Write the objects of a bundle to a quarantine. RepositoryError if it does not have what the bundle continues,
    GitCommandError if an object is damaged."""
    wanted = "".join(f"{each}\n" for each in header.prerequisites)
    if b" missing\n" in room.git("cat-file", "--batch-check", data=wanted.encode("ascii")):
        raise RepositoryError("it continues something that is not here; a bundle before it is missing")
    os.lseek(file.fileno(), header.pack, os.SEEK_SET)
    quarantine.run(room, ["index-pack", "--stdin", "--fix-thin"], stdin=file.fileno())
