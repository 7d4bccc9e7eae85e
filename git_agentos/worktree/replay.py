"""Replaying commits onto another commit, in memory, as `git rebase` does: each is merged alone, and is written again
with its author and its message.

git 2.40 can merge with a given base (`merge-tree --merge-base`). Earlier ones find it themselves, so the commit that is
replayed onto is given a stand-in: the same tree, on the parent of the commit that is replayed.
"""

from __future__ import annotations

from collections.abc import Sequence

from git_agentos.git import merge_tree
from git_agentos.git.merge_tree import MergeEnvironment, MergeResult
from git_agentos.git.repository import Repository, Writer
from git_agentos.util.named_tuple import NamedTuple

# What is kept of a commit's header. Signatures do not hold for another commit.
_KEPT = (b"author ", b"encoding ")


class Replayed(NamedTuple):
    """The commit that replaying led to; where one conflicts, `conflict` is that merge, and `tip` the commit before."""

    tip: str
    conflict: MergeResult | None = None


class Committer(NamedTuple):
    """Who writes the commits (`Name <email>`), and when, in seconds since the epoch."""

    who: bytes
    seconds: int


def replay(
    repository: Repository, writer: Writer, commits: Sequence[str], onto: str, where: MergeEnvironment, by: Committer
) -> Replayed:
    """Replay `commits`, the oldest first, each the only parent of the next, onto the commit `onto`.

    One whose change is there already is left out, unless it never had one. The result is on disk.
    """
    tip = onto
    for oid in commits:
        commit = repository.commit(oid)
        [parent] = commit.parents
        if parent == tip:
            tip = oid
            continue
        tree = repository.commit_tree(tip)
        stand_in = writer.write_commit(tree, [parent], b"", by.who, by.seconds)
        writer.flush()
        found = merge_tree.merge(repository, stand_in, oid, where, durable=True)
        if not found.clean:
            return Replayed(tip, found)
        if found.tree != tree or commit.tree == repository.commit_tree(parent):
            tip = writer.write("commit", _rewritten(repository.read(oid)[1], found.tree, tip, by))
            writer.flush()
    return Replayed(tip)


def _rewritten(data: bytes, tree: str, parent: str, by: Committer) -> bytes:
    """A raw commit with another tree, parent and committer."""
    head, _, message = data.partition(b"\n\n")
    kept = {name: line for line in head.split(b"\n") for name in _KEPT if line.startswith(name)}
    stamp = b"%b %d +0000" % (by.who, by.seconds)
    lines = [b"tree " + tree.encode(), b"parent " + parent.encode(), kept.get(b"author ", b"author " + stamp)]
    lines += [b"committer " + stamp, *([kept[b"encoding "]] if b"encoding " in kept else [])]
    return b"\n".join([*lines, b"", message])
