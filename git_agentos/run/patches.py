"""Patches from one tree to another; for evidence, without secrets.

A patch shows parts of files, and what is secret in a line may follow from lines that it does not show (a private key).
Therefore the whole files before and after are looked at, and each line of the patch stands as it does in them without
secrets. Lines stay as many as they are. A change of a binary file that holds a secret is left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from git_agentos import redact
from git_agentos.errors import AgentosError
from git_agentos.git.repository import Repository
from git_agentos.redact_lines import MASK, Cleaner, clean_lines

_SECTION = re.compile(rb"^(?=diff --git )", re.MULTILINE)
_INDEX = re.compile(rb"index ([0-9a-f]+)\.\.([0-9a-f]+)(?: \d+)?\Z")
_HUNK = re.compile(rb"(@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@)(.*)", re.DOTALL)
_BINARY = b"GIT binary patch"
_LEFT_OUT = b"[git-agentos: this binary change is left out, since it holds a secret]"

# The lines of a file by number, for each side of a patch: `-` before, `+` after.
_Side = dict[int, bytes]


def patch(repository: Repository, old: str, new: str, env: Mapping[str, str] | None = None) -> bytes:
    """The patch from one tree (or commit) to another, for `git apply`; `env` says where git finds them."""
    wanted = ["diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv"]
    return repository.git(*wanted, old, new, env=env)


def without_secrets(repository: Repository, patch: bytes, values: frozenset[bytes]) -> bytes:
    """`patch`, made by git with full object ids, without what `redact_lines` takes out; `values` are secret too."""
    return b"".join(_section(repository, each, values) for each in _SECTION.split(patch))


def _section(repository: Repository, section: bytes, values: frozenset[bytes]) -> bytes:
    """The part of a patch that is about one file."""
    lines = section.split(b"\n")
    begin = next((n for n, line in enumerate(lines) if line.startswith((b"@@ ", _BINARY))), len(lines))
    head = [line if line.startswith(b"index ") else Cleaner(values).clean(line) for line in lines[:begin]]
    ids = next((found.groups() for line in lines[:begin] if (found := _INDEX.match(line)) is not None), ())
    contents = [_content(repository, oid.decode()) for oid in ids]
    if begin < len(lines) and lines[begin].startswith(_BINARY):
        hold = any(_holds(content or b"", values) for content in contents)
        return b"\n".join([*head, _LEFT_OUT, b""] if hold else [*head, *lines[begin:]])
    before, after = _sides(lines[begin:], [each if _is_suspect(each, values) else None for each in contents])
    clean = {b"-": _clean_side(before, values), b"+": _clean_side(after, values)}
    if clean[b"-"] == before and clean[b"+"] == after:
        return b"\n".join([*head, *lines[begin:]])
    return b"\n".join([*head, *_cleaned(lines[begin:], clean)])


def _content(repository: Repository, oid: str) -> bytes | None:
    """A file's content; None where the id is of no blob in the store (no file, a submodule)."""
    if not oid.strip("0"):
        return None
    try:
        kind, data = repository.read(oid)
    except AgentosError:
        return None
    return data if kind == "blob" else None


def _holds(content: bytes, values: frozenset[bytes]) -> bool:
    """Whether a binary file holds a secret, as bytes or as UTF-16."""
    for data in (content, content.replace(b"\0", b"")):
        if any(value in data for value in values) or redact.redact(os.fsdecode(data))[1]:
            return True
    return False


def _is_suspect(content: bytes | None, values: frozenset[bytes]) -> bool:
    return content is not None and not Cleaner(values).is_plain(content)


def _walk(lines: list[bytes]) -> Iterator[tuple[bytes, bytes, int, int]]:
    """Each line of some hunks: the line, its sign (`@` for a hunk's header, `\\` for a note), and the numbers that it
    has in the files before and after."""
    old = new = old_left = new_left = 0
    for line in lines:
        sign = line[:1]
        hunk = _HUNK.match(line) if old_left <= 0 and new_left <= 0 else None
        if hunk is not None:
            old, new = int(hunk[2]), int(hunk[4])
            old_left, new_left = int(hunk[3] or 1), int(hunk[5] or 1)
            yield line, b"@", 0, 0
        elif sign in (b" ", b"-", b"+") and (old_left > 0 or new_left > 0):
            yield line, sign, old, new
            in_old, in_new = sign != b"+", sign != b"-"
            old, old_left = old + in_old, old_left - in_old
            new, new_left = new + in_new, new_left - in_new
        else:
            yield line, b"\\", 0, 0


def _sides(lines: list[bytes], contents: list[bytes | None]) -> tuple[_Side, _Side]:
    """The lines that hunks show, by number; of a file whose content is given, all of its lines."""
    sides: tuple[_Side, _Side] = ({}, {})
    for line, sign, old, new in _walk(lines):
        if sign in (b" ", b"-"):
            sides[0][old] = line[1:]
        if sign in (b" ", b"+"):
            sides[1][new] = line[1:]
    for side, content in zip(sides, contents, strict=False):
        if content is not None:
            side.update(enumerate(content.split(b"\n"), 1))
    return sides


def _clean_side(side: _Side, values: frozenset[bytes]) -> _Side:
    numbers = sorted(side)
    return dict(zip(numbers, clean_lines([side[n] for n in numbers], values), strict=True))


def _cleaned(lines: list[bytes], clean: dict[bytes, _Side]) -> Iterator[bytes]:
    """The lines of hunks as their files have them without secrets."""
    for line, sign, old, new in _walk(lines):
        if sign == b"@":
            # What stands behind the numbers is a line of the file that the hunk does not show.
            yield _HUNK.sub(rb"\1", line)
        elif sign == b"-":
            yield sign + clean[b"-"].get(old, MASK)
        elif sign == b"+":
            yield sign + clean[b"+"].get(new, MASK)
        elif sign == b" ":
            one, other = clean[b"-"].get(old, MASK), clean[b"+"].get(new, MASK)
            yield sign + (other if one == line[1:] else one)
        else:
            yield line
