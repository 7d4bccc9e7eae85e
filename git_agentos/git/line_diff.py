"""Which lines two texts have in common, as git's own diff finds them (by libgit2, without a repository)."""

from __future__ import annotations

from git_agentos.git.objects import libgit2


def split(data: bytes) -> list[bytes]:
    """The lines of a file, each with its end; only LF ends one."""
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def common(old: bytes, new: bytes) -> dict[int, int]:
    """Line of `new` -> the line of `old` that it is, for those that are unchanged; counted from 0."""
    found: dict[int, int] = {}
    count = len(split(new))
    at_old = at_new = 0
    for hunk in libgit2.hunks(old, new):
        # A side without lines is given by the line before it.
        start = hunk.new_start - 1 if hunk.new_lines else hunk.new_start
        for line in range(at_new, start):
            found[line] = at_old + line - at_new
        old_start = hunk.old_start - 1 if hunk.old_lines else hunk.old_start
        at_old, at_new = old_start + hunk.old_lines, start + hunk.new_lines
    for line in range(at_new, count):
        found[line] = at_old + line - at_new
    return found
