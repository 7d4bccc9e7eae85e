"""The remote of a fleet: what its refs are, fetched and changed.

Nothing is trusted and nothing is known but by the remote itself: where an answer is lost, its refs are asked. A remote
that cannot be reached is tried again with growing pauses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from git_agentos.errors import FleetError
from git_agentos.git.repository import Repository
from git_agentos.util.named_tuple import NamedTuple

DONE, TAKEN, REFUSED = "done", "taken", "refused"


class RemoteAway(FleetError):
    """The remote could not be reached for as long as it was waited for."""


class Answer(NamedTuple):
    """What became of a change: DONE; TAKEN where the ref has another value than was expected (`at`; None: it is gone);
    REFUSED where the remote forbids it, for `reason`."""

    state: str
    at: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class FleetRefs:
    """The refs of one fleet, as they were when they were last fetched: task -> id for `live` and `results`."""

    fleet: str
    tasks: str | None = None
    live: Mapping[str, str] = field(default_factory=dict)
    results: Mapping[str, str] = field(default_factory=dict)
    end: str | None = None


class Remote:
    """A remote, by the name that it has in the configuration of `repository`.

    Every method that asks it raises RemoteAway where it cannot be reached for `wait` seconds; with 0, it is tried once.
    """

    def __init__(
        self,
        repository: Repository,
        name: str,
        *,
        wait: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
        away: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """`away` is told why the remote cannot be reached, each time before it is waited for."""
        raise NotImplementedError

    # -- reading: what was fetched is in refs here, below `names.FETCHED` ------------------------------------------

    def list(self, *patterns: str) -> dict[str, str]:
        """Ref -> id of the refs of the remote that have these full names, or are below those that end with `/*`."""
        raise NotImplementedError

    def fetch(self, refs: Iterable[str]) -> dict[str, str]:
        """Fetch these refs of the remote (full names) as far as they are there: ref -> id, with all that they reach.
        The refs here become the same; those that are gone there are deleted here."""
        raise NotImplementedError

    def fetch_fleet(self, fleet: str) -> FleetRefs:
        """Fetch all refs of one fleet; refs here become the same, and are deleted where they are gone there."""
        raise NotImplementedError

    def fetch_all(self) -> tuple[FleetRefs, ...]:
        """Fetch the refs of all fleets; as `fetch_fleet`."""
        raise NotImplementedError

    def fetched(self, fleet: str) -> FleetRefs:
        """The refs of one fleet that were fetched; the remote is not asked."""
        raise NotImplementedError

    def all_fetched(self) -> tuple[FleetRefs, ...]:
        """Those of all fleets, by their ids; the remote is not asked."""
        raise NotImplementedError

    # -- changing: the refs here become what those of the remote are ----------------------------------------------

    def create(self, ref: str, oid: str) -> Answer:
        """Create a ref that does not exist. One that has this value already is DONE."""
        raise NotImplementedError

    def replace(self, ref: str, oid: str | None, old: str | None) -> Answer:
        """Set a ref that is at `old` (None: does not exist) to `oid` (None: delete it)."""
        raise NotImplementedError

    def announce(self, fleet: str, task: str, oid: str, old: str | None) -> Answer:
        """Begin to run a task: set its `live` ref as `replace` does. Where the task has a result then, the ref is
        deleted again and the answer is TAKEN, with the id of the result."""
        raise NotImplementedError

    def settle(self, fleet: str, task: str, oid: str) -> Answer:
        """Make `oid` the result of a task, if there is none, and delete its `live` ref, whatever that is at: in one
        atomic push. TAKEN, with the id of the result that counts, where there is another one."""
        raise NotImplementedError

    def swap(self, changes: Mapping[str, tuple[str | None, str | None]]) -> Answer:
        """Set refs, each from its old value to its new one (ref -> (new, old), None: it does not exist), all or none of
        them. `at` is None unless there is one ref."""
        raise NotImplementedError
