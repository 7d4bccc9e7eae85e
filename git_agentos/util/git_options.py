"""The options that stand between `git` and its subcommand (git(1))."""

from __future__ import annotations

from collections.abc import Sequence

# Those whose value is the next word; all others stand alone or have it after `=`.
WITH_VALUE = frozenset(
    ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix", "--attr-source")
)


def length(words: Sequence[str]) -> int:
    """How many of the words that follow `git` are options of git's own, with their values."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in WITH_VALUE else 1
    return min(at, len(words))
