"""The options and arguments that several commands share, each declared once.

A NamedTuple is a set of options that belong together; its field names are the parameters of the domain function that
gets them.
"""

from typing import Annotated, NamedTuple

from git_agentos.cli.parameters import Argument, Option
from git_agentos.errors import UsageError

Id = Annotated[str, Argument(metavar="ID")]
OptionalId = Annotated[str | None, Argument(metavar="[ID]")]
RunId = Annotated[str, Argument(metavar="RUN")]
DryRun = Annotated[bool, Option("--dry-run", help="Show what would be done.")]
Expected = Annotated[
    str | None, Option("--expected", metavar="STATE", help="Refuse unless STATE (of --dry-run) would be replaced.")
]
IdempotencyKey = Annotated[
    str | None, Option("--idempotency-key", metavar="KEY", help="Do nothing if this was done before under KEY.")
]
Stat = Annotated[bool, Option("--stat", help="Show only paths and numbers of changed lines.")]
Squash = Annotated[bool, Option("--squash", help="Merge as one commit.")]
Since = Annotated[str | None, Option("--since", metavar="TIME", help="Only since TIME: ISO 8601 or '2 hours ago'.")]
TaskId = Annotated[str | None, Option("--task", metavar="TASK", help="Task ID to record.")]
Html = Annotated[str | None, Option("--html", metavar="PATH", help="Write one HTML page to PATH.")]


class Timelines(NamedTuple):
    """Which timelines a command reads; by default this worktree's."""

    agent: Annotated[str | None, Option("--agent", metavar="ID", help="Read the timeline of agent ID.")] = None
    all_timelines: Annotated[bool, Option("--all", help="Read the timelines of all worktrees.")] = False


class CheckpointTimelines(NamedTuple):
    """The same, of this clone or of another host."""

    agent: Annotated[str | None, Option("--agent", metavar="ID", help="Read the timeline of agent ID.")] = None
    all_timelines: Annotated[bool, Option("--all", help="Read the timelines of all worktrees.")] = False
    host: Annotated[str | None, Option("--host", metavar="HOST", help="Read those fetched from HOST.")] = None


def number(text: str | None, option: str = "-n") -> int | None:
    """The value of an option that takes a number of at most nine digits."""
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    expected = "a number of at most nine digits" if text.isdigit() else "a number"
    raise UsageError(f"{option} takes {expected}, not '{text if len(text) <= 40 else f'{text[:40]}...'}'")


def pairs(values: list[str] | None, option: str, form: str) -> dict[str, str]:
    """The values of an option that takes KEY=VALUE; `form` is how messages write that."""
    result = {}
    for each in values or ():
        key, equals, value = each.partition("=")
        if not key or not equals:
            raise UsageError(f"{option} takes {form}, not '{each}'")
        result[key] = value
    return result
