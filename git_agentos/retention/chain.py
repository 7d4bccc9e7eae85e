"""A timeline, written again without the checkpoints that are forgotten.

The checkpoints (C) that stay are not touched, so their ids are as before. Their timeline commits (J) are written again,
from the oldest one that changes: with another parent, and the time of writing as the author's time, by which
`timeline.rebuild` knows the newer one. Carriers that follow each other become one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping

from git_agentos.checkpoint import carrier, format, log_sync
from git_agentos.checkpoint.carrier import Lines, Place
from git_agentos.errors import AgentosError
from git_agentos.git import raw_commits
from git_agentos.git.repository import Repository, Writer
from git_agentos.retention.plan import Link, Plan
from git_agentos.store import rows


def lines_of(repository: Repository, link: Link) -> Lines:
    """What a checkpoint, or a carrier, leaves to its timeline. An error if that cannot be read."""
    if link.is_carrier:
        return carrier.read(repository, link.checkpoint)
    found = format.open_checkpoint(repository, link.checkpoint)
    top = repository.entries(repository.commit(found.metadata_commit).tree)
    whole = repository.entries(top[log_sync.ARCHIVE][1]) if log_sync.ARCHIVE in top else {}
    log, memory = (
        b"".join(repository.blob(tree[name][1]) for tree in (whole, top) if name in tree)
        for name in (carrier.LOG, carrier.MEMORY)
    )
    own = log_sync.entry_of(format.describe(link.checkpoint, found.meta))
    return Lines(log + log_sync.lines([rows.line(own)]), memory)


def left_behind(repository: Repository, plan: Plan) -> dict[str, Lines | None]:
    """What the forgotten checkpoints of a plan leave, by id; None where it cannot be read."""
    found: dict[str, Lines | None] = {}
    for link in plan.links:
        if link.checkpoint in plan.forgotten:
            try:
                found[link.checkpoint] = lines_of(repository, link)
            except AgentosError:
                found[link.checkpoint] = None
    return found


class Chain:
    """The new chain of one timeline, with what its forgotten checkpoints leave. `tip` is its newest commit."""

    def __init__(
        self,
        writer: Writer,
        plan: Plan,
        left: Mapping[str, Lines | None],
        committer: bytes,
        rewrite: Callable[[Link], Link] = lambda link: link,
    ) -> None:
        """`rewrite` gives what takes the place of a link that stays."""
        self._repository = writer.repository
        self._writer = writer
        self._plan = plan
        self._left = left
        self._committer = committer
        self._rewrite = rewrite
        self._written_at = max(int(time.time()), self._repository.authored(plan.tip) + 1)
        self._waiting: list[tuple[Link, Lines]] = []
        self._changed = False
        links = plan.links
        self.tip = links[-1].commit.parents[0] if links else plan.tip
        self._tree = writer.hash.empty_tree
        self.extend(links)

    def extend(self, links: list[Link]) -> None:
        """Put further links, newest first, on top: those that other processes have appended meanwhile."""
        for n in range(len(links) - 1, -1, -1):
            link = links[n]
            newer = links[n - 1] if n else None
            forgotten = link.checkpoint in self._plan.forgotten
            joins = link.is_carrier and (
                bool(self._waiting) or (newer is not None and newer.checkpoint in self._plan.forgotten)
            )
            if forgotten or joins:
                lines = self._left.get(link.checkpoint) if forgotten else lines_of(self._repository, link)
                self._waiting.append((link, lines or Lines()))
            else:
                self._carry()
                self._keep(link)
        self._carry()

    def _keep(self, link: Link) -> None:
        now = self._rewrite(link)
        self._changed = self._changed or now != link
        self.tip = self._again(now) if self._changed else link.commit.oid
        self._tree = now.commit.tree

    def _again(self, link: Link) -> str:
        """Write the timeline commit of a checkpoint again, on top of the chain."""
        _, data = self._repository.read(link.commit.oid)
        again = raw_commits.rewritten(data, link.commit.tree, [self.tip, *link.commit.parents[1:]], link.commit.message)
        head, empty, message = again.partition(b"\n\n")
        head = re.sub(rb"(?m)^(author .*) [0-9]+ ([+-][0-9]{4})$", rb"\1 %d \2" % self._written_at, head, count=1)
        return self._writer.write("commit", head + empty + message)

    def _carry(self) -> None:
        """Write a carrier for what waits."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        self._changed = True
        parts = [part for _, part in waiting]
        whole = Lines(_unique(part.log for part in parts), _unique(part.memory for part in parts))
        place = Place(self._plan.timeline, self.tip, self._tree)
        if whole.log or whole.memory:
            seconds = max(link.commit.time for link, _ in waiting)
            self.tip = carrier.write(self._writer, place, whole, self._committer, seconds)


def _unique(parts: Iterable[bytes]) -> bytes:
    """The lines of files, each once."""
    lines = dict.fromkeys(line for part in parts for line in part.split(b"\n") if line)
    return b"".join(line + b"\n" for line in lines)
