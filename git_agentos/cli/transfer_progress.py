"""The progress of a transfer."""

from __future__ import annotations

from git_agentos.cli.status_line import StatusLine
from git_agentos.util import quote


class TransferProgress(StatusLine):
    """A `sync.results.Observer`: what is being transferred, and git's own progress, on the status line alone."""

    def begins(self, what: str) -> None:
        if self.is_live:
            self.start(what, "")

    def output(self, line: str) -> None:
        if self.is_live:
            self.update(quote.line(line))
