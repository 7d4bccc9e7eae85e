"""The changed paths of one worktree, in the order of their last change.

A token names a moment: `agentos:<watch>:<number>`. `<watch>` is random for each time that a worktree begins to be
watched, so a token of another worktree, another daemon or a time before an interruption is never taken for one of
ours. git keeps it in its index, beside the entries that it need not look at (githooks(5), fsmonitor-watchman, version
2).
"""

from __future__ import annotations

import os
import re

_PREFIX = "agentos"
_TOKEN = re.compile(rf"{_PREFIX}:([0-9a-f]{{16}}):([0-9]{{1,18}})\Z")
_MOST = 50_000
"""Paths that are remembered. Whoever has not asked since the oldest of them is told that everything may have
changed."""


class Changes:
    """What changed since when. Paths are bytes relative to the worktree; a folder of which everything may have changed
    ends with a slash."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._number = 0
        self._numbers: dict[bytes, int] = {}  # path -> the number of its last change; the newest last
        self._forgotten = 0  # changes up to this one are not remembered
        self._watch = ""
        self.begin_anew()

    @property
    def token(self) -> str:
        """This moment."""
        return f"{_PREFIX}:{self._watch}:{self._number}"

    def note(self, path: bytes) -> None:
        """A path changed."""
        self._number += 1
        self._numbers.pop(path, None)
        self._numbers[path] = self._number
        if len(self._numbers) > self._most:
            oldest = next(iter(self._numbers))
            self._forgotten = self._numbers.pop(oldest)

    def begin_anew(self) -> None:
        """From here on nothing is known of what was before: no token that was given is answered any more."""
        self._watch = os.urandom(8).hex()
        self._number = self._forgotten = 0
        self._numbers.clear()

    def since(self, token: str) -> list[bytes] | None:
        """The paths that changed since the moment of a token; None where everything may have changed."""
        found = _TOKEN.match(token)
        if found is None or found[1] != self._watch:
            return None
        number = int(found[2])
        if not self._forgotten <= number <= self._number:
            return None
        changed = []
        for path in reversed(self._numbers):
            if self._numbers[path] <= number:
                break
            changed.append(path)
        return changed
