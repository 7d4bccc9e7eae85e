"""A block of lines of ours at the end of a file that is the user's, between two comments.

The file becomes what it was, to the byte, when the block is removed: its backup (`backup`) has what was there before.
Where somebody has edited the file since, only the block is removed.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping

from git_agentos.guard.harness import backup
from git_agentos.guard.harness.backup import Backup
from git_agentos.util import files


class OwnBlock:
    """The block that begins with the line `first` (with its line end) and ends with `last`."""

    def __init__(self, first: bytes, last: bytes) -> None:
        self._first, self._last = first, last
        self._form = re.compile(rb"\n?" + re.escape(first) + rb"(.*?)" + re.escape(last), re.DOTALL)

    def lines(self, content: bytes | None) -> bytes | None:
        """What is in the block of a file; None where it has none."""
        found = self._form.search(content or b"")
        return found[1] if found is not None else None

    def without(self, content: bytes | None) -> bytes | None:
        """A file without the block, where the file was edited since it was written."""
        if content is None:
            return None
        return self._form.sub(lambda found: b"\n" if found[0].startswith(b"\n") else b"", content)

    def append(self, original: bytes | None, lines: bytes) -> bytes:
        """A file that has no block, with one."""
        data = original or b""
        return data + (b"\n" if data and not data.endswith(b"\n") else b"") + self._first + lines + self._last

    def is_unedited(self, saved: Backup, content: bytes | None) -> bool:
        """Whether a file is what it was before us, or that and a block. Which block does not matter: the backup is
        saved first, so after a kill the file may have the one before."""
        lines = self.lines(content)
        return content == (saved.before if lines is None else self.append(saved.before, lines))

    def original(self, saved: Backup | None, content: bytes | None) -> bytes | None:
        """The file as the user has it; None where there was none."""
        return saved.before if saved is not None and self.is_unedited(saved, content) else self.without(content)


def write(
    path: str, before: bytes | None, after: bytes | None, saved: Backup | None, environment: Mapping[str, str]
) -> None:
    """Write the file `path`, which is `before`; `after` None removes it. `saved` is its new backup; None where it has
    no block any more."""
    if saved is not None:  # first: after a kill, it must be known what was there
        backup.save(path, saved, environment)
    if after is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    elif after != before:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        files.replace(os.path.realpath(path), after)
    if saved is None:
        backup.drop(path, environment)
