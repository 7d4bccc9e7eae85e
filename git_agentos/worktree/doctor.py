"""What `doctor` says of a repository's worktrees: what `worktree repair` would find, and with `--fix` mends."""

from __future__ import annotations

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.findings import Finding
from git_agentos.worktree import repair
from git_agentos.worktree.repair import Mended

_ERRORS = (
    "interrupted",
    "interrupted-restore",
    "damaged-head",
    "damaged-entry",
    "damaged-record",
    "damaged-index",
    "folder-taken",
)
_GUARD = "guard-"
_INFOS = ("trash", "at-work")


def examine(context: OpenWorktree, *, fix: bool) -> list[Finding]:
    """The findings of all worktrees; with `fix`, what can be mended is."""
    found = repair.repair(context).findings if fix else repair.examine(context)
    # What is wrong with the guard, and was not mended here, its own part of `doctor` says.
    return [_finding(each) for each in found if each.fixed or not each.code.startswith(_GUARD)]


def _finding(one: Mended) -> Finding:
    is_error = one.code in _ERRORS or one.code.startswith(_GUARD)
    severity = "error" if is_error else "info" if one.code in _INFOS else "warning"
    hint = None if one.fixed else "git agentos doctor --fix" if one.code == "trash" else one.hint
    return Finding(code_of(one.code), severity, one.message, hint, one.fixed)


def code_of(code: str) -> str:
    """What `doctor` calls a finding of `repair`: those of worktrees say so."""
    is_shared = code in ("locked", "stale-lock", "stale-git-lock") or code.startswith(_GUARD)
    return code if is_shared else f"worktree-{code}"
