"""The design document and the context files: read and checked, and announced before anything is created or sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from git_agentos.errors import ContextError
from git_agentos.tdd.context import secrets, source_files
from git_agentos.tdd.context.source_files import Text


@dataclass(frozen=True)
class Material:
    """What a model gets of the project: the design document, and the context files in the order given.

    `tokens` is their sum; an upper estimate unless `exact` (they are counted only if the estimate is too high).
    """

    lld: Text
    context: tuple[Text, ...]
    tokens: int
    exact: bool


def load(root: str, lld: str, paths: Sequence[str]) -> Material:
    """Read and check all files; ContextError names the file and the rule. `root` is the project's worktree, `lld` and
    `paths` are relative to it. A file that is named twice counts once."""
    budget = source_files.Budget()
    taken: dict[str, Text] = {}
    for path in (lld, *paths):
        found = source_files.read(root, path)
        if found.path in taken:
            continue
        secrets.check(path, found.text)
        budget.add(path, found.text)
        taken[found.path] = found
    document, *others = taken.values()
    if not document.text.strip():
        raise ContextError(
            f"the design document '{lld}' is empty", "describe in it what is to be built, and how it behaves"
        )
    return Material(document, tuple(others), budget.tokens, budget.exact)


def policy_lines(material: Material, recipient: str) -> Sequence[str]:
    """The data policy, shown before the first call: every file with its size, the tokens, the recipient
    (`models.model.Model.recipient`, a clause such as `Anthropic, over the network`), and what follows later."""
    files = (material.lld, *material.context)
    width = max(len(f"{each.size:,}") for each in files)
    total = sum(each.size for each in files)
    most = "" if material.exact else "at most "
    return (
        f"data policy: what is sent to {recipient}",
        *(
            f"  {each.size:>{width},} bytes  {each.path}{'  (the design document)' if each is material.lld else ''}"
            for each in files
        ),
        f"  {total:,} bytes in {len(files)} {'file' if len(files) == 1 else 'files'}, {most}{material.tokens:,} tokens",
        "with the issue's id; later also the tests and code that it wrote, and pytest's output, without known secrets",
    )
