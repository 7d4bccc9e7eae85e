"""Commits as bytes, written again with other parts."""

from __future__ import annotations

from collections.abc import Iterable


def rewritten(raw: bytes, tree: str, parents: Iterable[str], message: bytes | None = None) -> bytes:
    """A raw commit with another tree, other parents, and perhaps another message. Author, committer and times stay."""
    head, _, text = raw.partition(b"\n\n")
    lines = [line for line in head.split(b"\n") if not line.startswith((b"tree ", b"parent "))]
    first = [b"tree " + tree.encode(), *(b"parent " + parent.encode() for parent in parents)]
    return b"\n".join([*first, *lines]) + b"\n\n" + (text if message is None else message)
