"""The chain of a timeline on a remote: which checkpoints it lacks, and the commits that are appended for them.

It is a chain of its own over the same checkpoints. Each of its commits is the timeline commit of the checkpoint with
another first parent: the commit before it *there*. So it is a timeline commit like any other, always the same for the
same chain, and as long as nothing was held back or forgotten, the very commits that are here. The chain is only
appended to. Where it has a checkpoint that the timeline has no more (it was forgotten, or rewritten), a new generation
of the chain takes its place.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from git_agentos.checkpoint import carrier, timeline
from git_agentos.git.repository import CommitData, Repository, Writer
from git_agentos.util.named_tuple import NamedTuple

# What a long first push is cut into, so that one that is cut off goes on where it was.
_PORTION = 500


class Lacking(NamedTuple):
    """What a remote lacks of a timeline: the commits here of the checkpoints, oldest first. They are appended to
    `base` (None: to a new chain, which begins with `root`). With `is_new_generation`, `base` is None, and the chain of
    before is to be deleted afterwards; `kept` of the first of `commits` were in it."""

    commits: tuple[CommitData, ...]
    base: str | None
    root: str
    is_new_generation: bool = False
    kept: frozenset[str] = frozenset()


def lacking(repository: Repository, tip: str, remote_tip: str | None) -> Lacking:
    """What the chain at `remote_tip` lacks of the timeline at `tip`. The commits of both are here."""
    new: list[CommitData] = []
    root = tip
    for commit in timeline.commits(repository, tip):
        if commit.oid == remote_tip:
            return Lacking(tuple(reversed(new)), remote_tip, remote_tip)
        new.append(commit)
        root = commit.parents[0]
    new.reverse()
    if remote_tip is None:
        return Lacking(tuple(new), None, root)
    there = contents(repository, remote_tip)
    if there - {commit.parents[1] for commit in new}:
        return Lacking(tuple(new), None, root, is_new_generation=True, kept=there)
    return Lacking(tuple(each for each in new if each.parents[1] not in there), remote_tip, root)


def anew(repository: Repository, tip: str, remote_tip: str) -> Lacking:
    """The timeline at `tip` as a new generation, which takes the place of the chain at `remote_tip`."""
    return lacking(repository, tip, None)._replace(is_new_generation=True, kept=contents(repository, remote_tip))


def contents(repository: Repository, tip: str, until: str | None = None) -> frozenset[str]:
    """The checkpoints of a chain, down to its commit `until`."""
    commits = itertools.takewhile(lambda commit: commit.oid != until, timeline.commits(repository, tip))
    return frozenset(commit.parents[1] for commit in commits)


def newest(found: Lacking, last: int | None) -> Lacking:
    """`found` with at most the `last` newest of the checkpoints that were never on the remote. A carrier is none; it
    is left out with the checkpoints before it."""
    new = [each for each in found.commits if each.parents[1] not in found.kept]
    checkpoints = [each for each in new if not carrier.is_carrier(each)]
    if last is None or len(checkpoints) <= last:
        return found
    oldest = checkpoints[len(checkpoints) - last]
    left_out = {each.oid for each in new[: new.index(oldest)]}
    return found._replace(commits=tuple(each for each in found.commits if each.oid not in left_out))


def build(repository: Repository, writer: Writer, found: Lacking, chosen: Sequence[CommitData]) -> list[str]:
    """Write the commits that append the checkpoints of `chosen`; their ids, in order."""
    previous = found.base or found.root
    made = []
    for commit in chosen:
        if commit.parents[0] != previous:
            previous = writer.write("commit", _with_first_parent(repository.read(commit.oid)[1], previous))
        else:
            previous = commit.oid
        made.append(previous)
    return made


def portions(commits: Sequence[str]) -> Iterator[tuple[int, str]]:
    """How many checkpoints there are up to which commits, so that each push has a part of them."""
    for end in range(_PORTION, len(commits), _PORTION):
        yield end, commits[end - 1]
    if commits:
        yield len(commits), commits[-1]


def is_appended(repository: Repository, old: str, new: str) -> bool:
    """Whether the chain at `new` is the one at `old` with more appended."""
    return old == new or any(
        commit.parents[0] == old or commit.oid == old for commit in timeline.commits(repository, new)
    )


def _with_first_parent(data: bytes, parent: str) -> bytes:
    """A raw commit with another first parent."""
    replaced, count = re.subn(rb"(?m)^parent [0-9a-f]+$", b"parent " + parent.encode("ascii"), data, count=1)
    assert count == 1 and data.partition(b"\n")[2].startswith(b"parent ")
    return replaced
