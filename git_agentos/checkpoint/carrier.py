"""Carriers: what a timeline keeps of checkpoints that were forgotten. This docstring is their specification.

Where checkpoints were forgotten, one timeline commit J stands for all of them that followed each other:

    J  tree      that of the timeline commit before it, so that a log of patches shows nothing
       parent 1  the previous J
       parent 2  K, the carrier, in place of a checkpoint
    K  tree      nothing but log.jsonl and memory.jsonl, as in a checkpoint; no parents

The lines of K are those that the forgotten checkpoints carried, oldest first, and, in log.jsonl, the entry of type
`checkpoint` of each of them, which until then was derived from its metadata. J and K have the same message: a line for
people, and the trailers `Agentos-Carrier` (the version, 1) and `Agentos-Worktree`; they have no `Agentos-Format`. Their
time is that of the newest checkpoint for which they stand.

A reader that looks for checkpoints passes over J.
"""

from __future__ import annotations

import re

from git_agentos.errors import CheckpointFormatError
from git_agentos.git import trees
from git_agentos.git.repository import CommitData, Repository, Writer
from git_agentos.util.named_tuple import NamedTuple

VERSION = 1
LOG, MEMORY = b"log.jsonl", b"memory.jsonl"
_MARK = b"\n\nAgentos-Carrier: "
_MESSAGE = rb"[^\n]+\n\nAgentos-Carrier: ([0-9]{1,9})\nAgentos-Worktree: [^\n]+\n"


class Lines(NamedTuple):
    """What a carrier holds: the contents of its two files."""

    log: bytes = b""
    memory: bytes = b""


class Place(NamedTuple):
    """Where a carrier goes: on top of the timeline commit `previous`, which has the tree `tree`."""

    timeline: str
    previous: str
    tree: str


def is_carrier(commit: CommitData) -> bool:
    """Whether a commit is a carrier, or the timeline commit of one."""
    # The message of a checkpoint ends with other trailers, whatever its description is.
    return _MARK in commit.message and re.fullmatch(_MESSAGE, commit.message) is not None


def write(writer: Writer, place: Place, lines: Lines, committer: bytes, seconds: int) -> str:
    """Write a carrier and its timeline commit; the id of the latter."""
    files = {LOG: lines.log, MEMORY: lines.memory}
    entries = {name: (trees.REGULAR, writer.write("blob", data)) for name, data in files.items() if data}
    message = b"log of forgotten checkpoints%s%d\nAgentos-Worktree: %s\n" % (_MARK, VERSION, place.timeline.encode())
    held = writer.write_commit(trees.build(writer, entries), [], message, committer, seconds)
    return writer.write_commit(place.tree, [place.previous, held], message, committer, seconds)


def read(repository: Repository, oid: str) -> Lines:
    """The lines of a carrier. CheckpointFormatError for a newer version."""
    commit = repository.commit(oid)
    found = re.fullmatch(_MESSAGE, commit.message)
    if found is None or int(found[1]) > VERSION:
        raise CheckpointFormatError(
            f"carrier {oid[:8]} has a format that cannot be read", "install a newer git-agentos"
        )
    top = repository.entries(commit.tree)
    return Lines(*(repository.blob(top[name][1]) if name in top else b"" for name in (LOG, MEMORY)))
