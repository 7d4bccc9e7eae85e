"""Findings of `doctor` and `worktree repair`, and their fixes.

A check yields a `Finding`, or a `Fixable` if it can fix the problem. `report` lists them; with `fix`, each one is fixed
before the next check runs, so that every check sees the fixes before it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from git_agentos.errors import AgentosError, system_reason

DOCTOR_FIX = "git agentos doctor --fix"


@dataclass(frozen=True)
class Finding:
    """One finding: `severity` is `error`, `warning` or `info`; `hint` says what to do.

    `fixed`: it has been fixed.
    """

    code: str
    severity: str
    message: str
    hint: str | None = None
    fixed: bool = False


@dataclass(frozen=True)
class Fixable:
    """A finding that can be fixed: `fix` does so, and returns a text about what it did (may be empty).

    `finding` is reported if it is not fixed.
    """

    finding: Finding
    fix: Callable[[], str]


def fixable(code: str, severity: str, message: str, fix: Callable[[], str], hint: str | None = DOCTOR_FIX) -> Fixable:
    """A `Fixable` of these parts."""
    return Fixable(Finding(code, severity, message, hint), fix)


def repairable(id_: str | None, code: str, severity: str, message: str, fix: Callable[[], str]) -> Fixable:
    """A finding that `worktree repair` fixes; `id_` is the worktree (None: the whole repository)."""
    return fixable(code, severity, message, fix, f"git agentos worktree repair{f' {id_}' if id_ else ''}")


def report(checks: Iterable[Finding | Fixable], *, fix: bool) -> Iterator[Finding]:
    """The findings of checks; with `fix`, fixed if possible."""
    for each in checks:
        yield resolve(each, fix=fix)


def resolve(found: Finding | Fixable, *, fix: bool) -> Finding:
    """One finding; with `fix`, fixed if possible. An error of the fix becomes a part of the message."""
    if isinstance(found, Finding):
        return found
    finding = found.finding
    if not fix:
        return finding
    try:
        words = found.fix()
    except (AgentosError, OSError) as error:
        reason, hint = reason_of(error)
        return replace(finding, message=f"{finding.message}, and cannot be repaired: {reason}", hint=hint)
    message = f"{finding.message}: {words}" if words else finding.message
    return replace(finding, message=message, hint=None, fixed=True)


def reason_of(error: AgentosError | OSError) -> tuple[str, str | None]:
    """The message of an error, and its hint."""
    if isinstance(error, AgentosError):
        return error.message, error.hint
    name = error.filename2 or error.filename
    where = f"'{os.fsdecode(name)}': " if isinstance(name, str | bytes) else ""
    return where + system_reason(error), None
