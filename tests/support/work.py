"""How much work a call does, counted and not timed: lines of Python, git processes, objects read, trees parsed.

A time depends on the machine and on its load; a count does not, and shows just as well whether the work grows with the
change or with its square. Lines are counted as they are executed (a loop in one line counts each time round), so that a
search through a list for each item of another one shows, whoever does it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from git_agentos.git import process, trees
from git_agentos.git.repository import Repository


@dataclass(frozen=True)
class Counts:
    """Counts of one call. `lines` are those of this package, and calls of Python functions elsewhere; `by_function` has
    them for each function, as `module:name`."""

    lines: int
    git: int
    reads: int
    parses: int
    by_function: Counter[str]

    def growth(self, smaller: Counts, most: float) -> dict[str, tuple[int, int]]:
        """Which counts are more than `most` times those of the smaller work: name -> (smaller, this); for lines, the
        functions that grew most too."""
        found = {
            name: (getattr(smaller, name), getattr(self, name))
            for name in ("lines", "git", "reads", "parses")
            if getattr(self, name) > most * getattr(smaller, name)
        }
        if "lines" in found:
            more = {name: count - 2 * smaller.by_function[name] for name, count in self.by_function.items()}
            for name in sorted(more, key=lambda each: -more[each])[:5]:
                found[name] = (smaller.by_function[name], self.by_function[name])
        return found


def counted(call: Callable[[], object]) -> Counts:
    """Run `call` and count what it does in this thread."""
    lines: Counter[CodeType] = Counter()
    calls: Counter[CodeType] = Counter()

    def local(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            lines[frame.f_code] += 1
        return local

    def entered(frame: FrameType, _event: str, _argument: Any) -> Any:
        calls[frame.f_code] += 1
        lines[frame.f_code] += 1  # a generator that goes on does so in the middle of a line
        return local if "/git_agentos/" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        call()
    finally:
        sys.settrace(before)
    named: Counter[str] = Counter()
    for code, count in lines.items():
        named[f"{code.co_filename.rpartition('/git_agentos/')[2]}:{code.co_qualname}"] += count
    return Counts(
        lines=sum(lines.values()),
        git=calls[process.spawn.__code__],
        reads=calls[Repository.read.__code__],
        parses=calls[trees.parse.__code__],
        by_function=named,
    )
