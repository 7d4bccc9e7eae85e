"""Reading git's configuration: `git config --list` with values, or with scopes and origins.

Keys are as git prints them: the first and the last part in lower case. A key without a value means true.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from git_agentos.git import process
from git_agentos.git.location import Location
from git_agentos.util.named_tuple import NamedTuple

LIST = ("config", "--null", "--list")
LIST_WITH_ORIGINS = (*LIST, "--show-scope", "--show-origin")


class Entry(NamedTuple):
    """One value of git's configuration. `scope` and `origin` are what `git config --show-scope --show-origin` prints;
    `value` is None if the key has no value."""

    scope: str
    origin: str
    key: str
    value: str | None

    @property
    def file(self) -> str | None:
        """The file of the value, as git names it; None if it is not from a file."""
        kind, _, name = self.origin.partition(":")
        return name if kind == "file" else None


def parse(out: bytes) -> dict[str, list[str]]:
    """The output of `config --null --list` or `--get-regexp`: key -> values; the last one applies."""
    values: dict[str, list[str]] = {}
    for record in out.split(b"\0"):
        if record:
            key, newline, value = record.partition(b"\n")
            values.setdefault(os.fsdecode(key), []).append(os.fsdecode(value) if newline else "true")
    return values


def parse_with_origins(out: bytes) -> tuple[Entry, ...]:
    """The output of LIST_WITH_ORIGINS, in git's order: the last entry of a key applies."""
    fields = [os.fsdecode(field) for field in out.split(b"\0")]
    entries = []
    for n in range(0, len(fields) - 2, 3):
        key, newline, value = fields[n + 2].partition("\n")
        entries.append(Entry(fields[n], fields[n + 1], key, value if newline else None))
    return tuple(entries)


def as_variables(pairs: Sequence[tuple[str, str]], *, behind: int = 0) -> dict[str, str]:
    """The variables by which git's environment sets keys to values (git-config(1), GIT_CONFIG_COUNT), behind as many
    pairs that are there already."""
    found = {"GIT_CONFIG_COUNT": str(behind + len(pairs))}
    for number, (key, value) in enumerate(pairs, behind):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found


def read(location: Location) -> dict[str, list[str]]:
    """The configuration as git reads it in this worktree."""
    return parse(process.run(LIST, cwd=location.root, env=location.environment(), neutral_config=False))


def read_with_origins(cwd: str, env: Mapping[str, str], options: Sequence[str] = ()) -> tuple[Entry, ...]:
    """The configuration as git reads it in `cwd`, with `options` of git's own; GitCommandError if git cannot."""
    return parse_with_origins(process.run([*options, *LIST_WITH_ORIGINS], cwd=cwd, env=env, neutral_config=False))


def read_file(path: str, *, includes: bool = False) -> dict[str, list[str]]:
    """The values in one file, with `includes` also in the files that it includes; empty if there is no such file."""
    if not os.path.exists(path):
        return {}
    which = "--includes" if includes else "--no-includes"
    return parse(process.run(["config", "--file", path, which, "--null", "--list"], cwd=os.path.dirname(path)))
