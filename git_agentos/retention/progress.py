"""What a rewriting has done so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from git_agentos.git.location import Location
from git_agentos.retention import pending
from git_agentos.retention.forgetting import Rewritten
from git_agentos.util.named_tuple import NamedTuple


class PreparedEvidence(NamedTuple):
    """The evidence of a run as it will be: the tree of its copy in git (None: it stays), the spec (None: it stays),
    and the note of that."""

    tree: str | None
    spec: str | None
    note: str | None


@dataclass
class Progress:
    """`pairs` are the checkpoints that have other ids now, `kept` all ids; `dropped` are paths that a checkpoint has
    lost; `digests` have the SHA-256 of files of evidence, before and after. `roots` are objects of before, `newest` is
    the time of the newest checkpoint that was written again; `unreachable` says what stays.
    `nested` are the paths of repositories inside of worktrees, `evidence` has what was prepared for runs."""

    pairs: list[Rewritten] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    dropped: dict[bytes, None] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    roots: set[str] = field(default_factory=set)
    unreachable: list[str] = field(default_factory=list)
    newest: int | None = None
    nested: set[bytes] = field(default_factory=set)
    evidence: dict[str, PreparedEvidence] = field(default_factory=dict)

    def replaces(self, location: Location, roots: Iterable[str]) -> None:
        """Note durably what may be deleted, before a ref moves away from it."""
        new = set(roots) - self.roots
        if new:
            pending.note(location, pending.ROOTS, sorted(new))
            self.roots |= new

    def wrote_at(self, seconds: int) -> None:
        """Take the time of a checkpoint that is written again."""
        self.newest = seconds if self.newest is None else max(self.newest, seconds)
