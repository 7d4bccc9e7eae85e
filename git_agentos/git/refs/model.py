"""The values of refs."""

from __future__ import annotations

import re

from git_agentos.util.named_tuple import NamedTuple


class RefMoved(Exception):
    """A ref did not have the expected value; `actual` is the value that it had."""

    def __init__(self, name: str, actual: str | None) -> None:
        super().__init__(f"{name} is at {actual}")
        self.name = name
        self.actual = actual


class Head(NamedTuple):
    """HEAD: `ref` is the full name of its branch (None if detached), `commit` is None before the first commit."""

    ref: str | None
    commit: str | None

    @property
    def branch(self) -> str | None:
        """The short branch name; None when detached."""
        return self.ref.removeprefix("refs/heads/") if self.ref is not None else None


class ReflogEntry(NamedTuple):
    """The reason why a ref moves, and who moves it (`Name <email>`)."""

    reason: str
    who: str


_ILL_FORMED = re.compile(r"(^|/)(\.|$)|\.\.|\.lock(/|$)|[\x00-\x20\x7f~^:?*\[\\]|@\{")


def is_well_formed(name: str) -> bool:
    """Whether git allows a full name of a ref (git-check-ref-format(1)): for names that come from elsewhere."""
    return name.startswith("refs/") and not name.endswith(".") and not _ILL_FORMED.search(name)


# Where each worktree has refs for itself; git never packs them.
PER_WORKTREE = ("refs/bisect/", "refs/worktree/", "refs/rewritten/")


def is_per_worktree(name: str) -> bool:
    """Whether each worktree has a ref of this name for itself (gitrepository-layout(5), git-worktree(1))."""
    return not name.startswith("refs/") or name.startswith(PER_WORKTREE)
