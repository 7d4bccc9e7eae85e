"""The design document and the context files, read and checked before anything is made or sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from git_agentos.errors import ContextError
from git_agentos.tdd.context import secrets, source_files


@dataclass(frozen=True)
class Source:
    """A file that goes into the prompt: `path` relative to the project's root, its text, its size in bytes."""

    path: str
    text: str
    size: int


@dataclass(frozen=True)
class Material:
    """All that a model is given of the project: the design document and the context files, in the order named.

    `tokens` is what they come to; an upper estimate unless `exact` (it is counted only where the estimate is too high).
    """

    lld: Source
    context: tuple[Source, ...]
    tokens: int
    exact: bool


def load(root: str, lld: str, paths: Sequence[str]) -> Material:
    """Read and check everything; ContextError names the file and the rule. `root` is the project's worktree, `lld` and
    `paths` are relative to it. A file that is named twice is taken once."""
    budget = source_files.Budget()
    taken: dict[str, Source] = {}
    for path in (lld, *paths):
        found = source_files.read(root, path)
        if found.path in taken:
            continue
        secrets.check(path, found.text)
        budget.add(path, found.text)
        taken[found.path] = Source(found.path, found.text, found.size)
    document, *others = taken.values()
    if not document.text.strip():
        raise ContextError(f"the design document '{lld}' is empty", "write down what is to be built, and how it shows")
    return Material(document, tuple(others), budget.tokens, budget.exact)
