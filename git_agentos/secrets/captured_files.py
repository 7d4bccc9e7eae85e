"""What `doctor` says of ignored files that checkpoints have, and whose names say that they hold secrets.

They are captured because `agentos.includeIgnored` asks for it. That is no mistake: a restore brings them back. But they
are in the object store, and go wherever the timelines go. Only names are looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from git_agentos.config import Settings
from git_agentos.errors import GitCommandError
from git_agentos.findings import Finding
from git_agentos.git import ignore
from git_agentos.git.repository import Repository
from git_agentos.secrets import file_names
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.values import count

_SHOWN = 5


class Pushed(NamedTuple):
    """A timeline that was pushed without encryption, where to, and the ignored files in its checkpoints."""

    timeline: str
    remote: str
    ignored: Sequence[bytes]


def examine(repository: Repository, settings: Settings) -> Iterator[Finding]:
    """The ignored files of the worktree that are captured and may hold secrets."""
    if not settings.include_ignored:
        return
    try:
        captured = ignore.ignored_among(repository, ignore.matching(repository, settings.include_ignored))
    except GitCommandError as error:
        yield Finding("captured-secrets", "warning", f"ignored files cannot be listed: {error.message}", error.hint)
        return
    named = secret_names(captured)
    if named:
        message = (
            f"checkpoints hold {count(len(named), 'ignored file')} that may have secrets, since agentos.includeIgnored"
            f" matches: {_shown(named)}"
        )
        yield Finding(
            "captured-secrets", "info", message, "do not push these checkpoints to others, or do so encrypted"
        )


def examine_pushed(pushed: Iterable[Pushed]) -> Iterator[Finding]:
    """The timelines that were pushed unencrypted with such files."""
    for each in pushed:
        named = secret_names(each.ignored)
        if named:
            message = (
                f"timeline '{each.timeline}' was pushed to '{each.remote}' unencrypted, with ignored files that may"
                f" have secrets: {_shown(named)}"
            )
            yield Finding(
                "pushed-secrets", "warning", message, "replace the keys in them: whoever reads the remote has them"
            )


def secret_names(paths: Iterable[bytes]) -> list[str]:
    """Those of `paths` whose names say that they hold secrets."""
    names = sorted(os.fsdecode(path) for path in paths)
    return [name for name in names if file_names.pattern_of(name) is not None and not file_names.is_example(name)]


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f"'{name}'" for name in names[:_SHOWN]) + more
