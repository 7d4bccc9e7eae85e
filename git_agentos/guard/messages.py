"""The messages of the guard, for a reader who did not expect to be stopped."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from git_agentos.redact import MASK, redact

_MOST = 200  # characters of a command line
_MOST_COMMITS = 5
# Operations on refs alone: restoring the worktree's files would not help.
_OF_REFS = (
    "branch-delete",
    "branch-force",
    "branch-move",
    "branch-rename",
    "tag-",
    "ref-",
    "stash-drop",
    "stash-clear",
)


def redacted(argv: Sequence[str]) -> list[str]:
    """The words of a command line without the secrets in them."""
    words = [redact(word)[0] for word in argv]
    for n in range(1, len(words)):
        before, word = argv[n - 1], argv[n]
        if redact(f"{before} {word}")[1] > redact(before)[1] + redact(word)[1]:
            words[n] = MASK
    return words


def command_line(argv: Sequence[str], *, most: int = _MOST) -> str:
    """A command line on one line, without secrets and without control characters."""
    words = [os.path.basename(argv[0]) or argv[0], *redacted(argv)[1:]] if argv else []
    text = printable(shlex.join(words).replace(f"'{MASK}'", MASK))
    return text if len(text) <= most else text[: most - 3] + "..."


def printable(text: str) -> str:
    """`text` on one line, with escapes for characters that cannot be seen."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def stopped_message(argv: Sequence[str], reason: str | None, lines: Sequence[str]) -> str:
    """The message for a command that is stopped."""
    return message(f"stopped '{command_line(argv)}'" + _because(reason), lines)


def approval_message(argv: Sequence[str], reason: str | None, lines: Sequence[str]) -> str:
    """The message for a command that needs approval."""
    return message(f"'{command_line(argv)}' needs approval" + _because(reason), lines)


def _because(reason: str | None) -> str:
    return f": {printable(reason)}" if reason else ""


def message(first: str, lines: Sequence[str] = ()) -> str:
    """A message with `lines` indented below it."""
    return "\n".join([f"git-agentos: {first}", *(f"  {line}" for line in lines if line)])


def recovery_lines(checkpoint: str, operations: Sequence[str], commits: Sequence[str]) -> list[str]:
    """How to get back what a command took away: files from a checkpoint, and `commits` that no ref may reach."""
    lines = []
    if not operations or not all(name.startswith(_OF_REFS) for name in operations):
        lines.append(f"to get it back: git agentos restore {checkpoint[:8]}")
    elif not commits:
        lines.append("no commit is lost: other refs still contain these commits")
    if commits:
        shown = " ".join(oid[:8] for oid in commits[:_MOST_COMMITS]) + (" ..." if len(commits) > _MOST_COMMITS else "")
        is_stash = all(name.startswith("stash-") for name in operations)
        how = "git stash store COMMIT" if is_stash else "git branch NAME COMMIT"
        lines.append(f"commits that are kept: {shown} ({how})")
    return lines


def state_lines(saved: str | None, changed: Sequence[str] | None) -> list[str]:
    """The state that a stopped command has left. `changed` are lines about what it has changed, None if that is not
    known; `saved` is the checkpoint of the present state."""
    where = f"the state is saved as {saved[:8]} (git agentos restore {saved[:8]})" if saved is not None else ""
    if changed is None:
        return ["it was stopped while it ran; what it has changed is not known", where]
    if changed:
        return [*changed, f"the state that is there now is saved as {saved[:8]}" if saved is not None else ""]
    return [f"nothing has changed; {where}" if where else "nothing has changed"]
