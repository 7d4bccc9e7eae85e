"""The remote of a fleet: its refs, fetched and changed.

What the remote has is known by its refs alone: where an answer is lost, or is a refusal, they are asked. A remote that
cannot be reached is tried again with growing pauses.
"""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from git_agentos.errors import FleetError, GitCommandError, LockedError
from git_agentos.fleet import fetches, names
from git_agentos.git import refs, transport
from git_agentos.git.repository import Repository
from git_agentos.git.transport import Swap
from git_agentos.util.named_tuple import NamedTuple

T = TypeVar("T")

DONE, TAKEN, REFUSED = "done", "taken", "refused"

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0  # seconds
_AT_ONCE = 50  # tasks of one push
# How often a change is tried again that met another one: it is not the remote that is away.
_MEETINGS = 6
# What git says of a push that met another one, or was broken off: it may be done another time, or is done already.
_PASSING = re.compile(
    r"lock|stale info|fetch first|failed to (update|report)|incorrect old value|already exists|atomic|unable to migrate"
    r"|hung up|time|unpacker|missing necessary objects|internal|does not exist|non-fast-forward|bad pack",
    re.IGNORECASE,
)
_LOCKED = re.compile(r"remote: error: (.*(?:\.lock'|lock references).*)")
_GONE = "couldn't find remote ref"  # a ref was deleted while it was fetched
_NOT_THERE = "remote ref does not exist"  # git does not begin a push that deletes a ref that is gone
_ENDED = "the fleet was ended"
_HINT_LOCKED = "if no git works in it any more, a killed one has left the lock file there: remove that"


class RemoteAway(FleetError):
    """The remote could not be reached or changed within the time to wait for it (`agentos.fleet.remoteWait`)."""


class Answer(NamedTuple):
    """What became of a change: DONE; TAKEN where a ref has another value than was expected (`at`; None: it is gone);
    REFUSED where the remote forbids it, or the fleet was ended, for `reason`."""

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


class _Met(Exception):
    """A change has met another one, and may be done another time; the message says what the remote has said."""


class Remote:
    """A remote, by the name that it has in the configuration of `repository`.

    Every method that asks it raises RemoteAway where it cannot be reached for `wait` seconds; with 0, it is tried once.
    One that fetches raises LockedError where a lock file of git's is in the way here, and stays.
    Before each pause, `away` is called with the reason. `clock` and `pause` replace `time.monotonic` and `time.sleep`.
    """

    def __init__(
        self,
        repository: Repository,
        name: str,
        *,
        wait: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
        away: Callable[[str], None] | None = None,
    ) -> None:
        self.repository = repository
        self.name = name
        self._wait = wait
        self._clock = clock
        self._pause = pause
        self._away = away

    # -- reading: what was fetched is in refs here, below `names.FETCHED` ------------------------------------------

    def list(self) -> dict[str, str]:
        """Ref -> id of the refs of all fleets that the remote has."""
        return self._patiently(self._list)

    def fetch(self, wanted: Iterable[str]) -> dict[str, str]:
        """Fetch these refs of the remote (full names) as far as they are there: ref -> id, with all that they reach.
        The refs here become the same; those that are gone there are deleted here."""
        chosen = tuple(wanted)
        return self._patiently(lambda: self._fetch(chosen))

    def fetch_tasks(self, fleet: str, depth: int) -> None:
        """Fetch the tasks of a fleet, which exist, with as much of the history as `transport.fetch_into` takes."""
        ref = names.tasks_ref(fleet)
        into = {ref: names.fetched_ref(self.name, ref)}
        self._patiently(lambda: self._fetch_into(into, depth))

    def fetch_result(self, fleet: str, task: str) -> str | None:
        """Fetch the result of a task; its id, None where it has none. No other ref is asked for: the answer is as
        short, however many refs the remote has."""
        ref = names.result_ref(fleet, task)
        return self._patiently(lambda: self._fetch_one(ref))

    def fetch_fleet(self, fleet: str) -> FleetRefs:
        """Fetch all refs of one fleet; refs here become the same, and are deleted where they are gone there."""
        self._mirror(f"{names.PREFIX}{fleet}/")
        return self.fetched(fleet)

    def fetch_all(self) -> tuple[FleetRefs, ...]:
        """Fetch the refs of all fleets; as `fetch_fleet`."""
        self._mirror(names.PREFIX)
        return self.all_fetched()

    def fetched(self, fleet: str) -> FleetRefs:
        """The refs of one fleet that were fetched; the remote is not asked."""
        found = self._fetched(f"{names.FETCHED}{self.name}/{fleet}/")
        return found.get(fleet) or FleetRefs(fleet)

    def all_fetched(self) -> tuple[FleetRefs, ...]:
        """Those of all fleets, by their ids; the remote is not asked."""
        found = self._fetched(f"{names.FETCHED}{self.name}/")
        return tuple(found[fleet] for fleet in sorted(found))

    def tracked(self, ref: str) -> str | None:
        """The id that a ref of the remote had when it was last fetched or changed from here; None if it had none."""
        return refs.resolve(self.repository.location, names.fetched_ref(self.name, ref))

    # -- changing: the refs here become what those of the remote are ----------------------------------------------

    def create(self, ref: str, oid: str) -> Answer:
        """Create a ref that does not exist. One that has this value already is DONE."""
        return self.replace(ref, oid, None)

    def replace(self, ref: str, oid: str | None, old: str | None) -> Answer:
        """Set a ref that is at `old` (None: does not exist) to `oid` (None: delete it)."""
        return self.swap({ref: (oid, old)})

    def swap(self, changes: Mapping[str, tuple[str | None, str | None]]) -> Answer:
        """Set refs, each from its old value to its new one (ref -> (new, old), None: it does not exist), all or none of
        them. Where all have the new ones already, it is DONE; TAKEN is about the first ref that has not the old one."""
        return self._patiently(lambda: self._swap(changes))

    def announce(self, fleet: str, task: str, oid: str, old: str | None, *, instead_of: str | None = None) -> Answer:
        """Begin to run a task: set its `live` ref as `replace` does. Where the task has another result then than
        `instead_of`, the ref is deleted again and the answer is TAKEN, with the id of the result."""
        live = names.live_ref(fleet, task)
        answer = self.replace(live, oid, old)
        if answer.state != DONE:
            return answer
        # Only now: a result that arrives later deletes the ref, and so does the end of the fleet.
        there = self.list()
        result = there.get(names.result_ref(fleet, task))
        is_ended = names.end_ref(fleet) in there
        if result == instead_of and not is_ended:
            return answer
        self.replace(live, None, oid)
        return Answer(REFUSED, reason=_ENDED) if is_ended else Answer(TAKEN, result)

    def settle(self, fleet: str, task: str, oid: str, *, instead_of: str | None = None) -> Answer:
        """Make `oid` the result of a task that has none, or the result `instead_of` (one that is lost), and delete its
        `live` ref, whatever that is at: in one atomic push. TAKEN, with the id of the result that counts, where there
        is another one; a `live` ref that is as it was last seen here is deleted then, too."""
        result, live, end = names.result_ref(fleet, task), names.live_ref(fleet, task), names.end_ref(fleet)
        at = self.tracked(live)
        while True:
            changes: dict[str, tuple[str | None, str | None]] = {result: (oid, instead_of)}
            if at is not None:
                changes[live] = (None, at)
            answer = self.swap(changes)
            # What ends a fleet deletes its `live` refs: where there was one to delete, it was not ended.
            if answer.state == REFUSED or (answer.state == DONE and at is not None):
                return answer
            there = self.list()
            if end in there:
                if there.get(result) == oid:
                    self.replace(result, None, oid)
                return Answer(REFUSED, reason=_ENDED)
            counts = there.get(result)
            if counts == oid:
                self.delete_live(fleet, task, there.get(live))
                return Answer(DONE, oid)
            if counts != instead_of:
                mine = self.tracked(live)
                if mine is not None and there.get(live) == mine:
                    self.replace(live, None, mine)
                return Answer(TAKEN, counts)
            at = there.get(live)

    def settle_all(self, fleet: str, results: Mapping[str, tuple[str, str | None]]) -> dict[str, Answer]:
        """Settle many tasks, some in each push: task -> (the result, the lost one that it replaces). The answers."""
        at = self.fetched(fleet).live
        answers: dict[str, Answer] = {}
        tasks = list(results)
        for first in range(0, len(tasks), _AT_ONCE):
            batch = [task for task in tasks[first : first + _AT_ONCE] if task in at]
            changes: dict[str, tuple[str | None, str | None]] = {}
            changes |= {names.result_ref(fleet, task): results[task] for task in batch}
            changes |= {names.live_ref(fleet, task): (None, at[task]) for task in batch}
            if len(batch) > 1 and self.swap(changes).state == DONE:
                answers |= {task: Answer(DONE, results[task][0]) for task in batch}
            for task in tasks[first : first + _AT_ONCE]:
                if task not in answers:
                    oid, lost = results[task]
                    answers[task] = self.settle(fleet, task, oid, instead_of=lost)
        return answers

    def delete_live(self, fleet: str, task: str, at: str | None) -> None:
        """Delete the `live` ref, which is at `at`, of a task that has a result: of a worker that has begun too late."""
        while at is not None:
            answer = self.replace(names.live_ref(fleet, task), None, at)
            at = answer.at if answer.state == TAKEN else None

    # -- one try ---------------------------------------------------------------------------------------------------

    def _list(self) -> dict[str, str]:
        found = transport.list_refs(self.repository.location, self.name)
        return {ref: oid for ref, oid in found.items() if names.parse(ref) is not None}

    def _fetch(self, wanted: tuple[str, ...]) -> dict[str, str]:
        there = self._list()
        found = {ref: there[ref] for ref in wanted if ref in there}
        missing = {ref: names.fetched_ref(self.name, ref) for ref, oid in found.items() if self.tracked(ref) != oid}
        if missing:
            self._fetch_into(missing)
        for ref in wanted:
            if ref not in there:
                self._track(ref, None)
        # A live ref may have moved on meanwhile.
        return {ref: self.tracked(ref) or oid for ref, oid in found.items()}

    def _fetch_one(self, ref: str) -> str | None:
        here = names.fetched_ref(self.name, ref)
        try:
            self._fetch_into({ref: here})
        except GitCommandError as error:
            if _GONE not in error.stderr:
                raise
            return None
        return self.tracked(ref)

    def _fetch_into(self, into: Mapping[str, str], depth: int | None = None) -> None:
        location = self.repository.location
        fetches.fetch(
            location, lambda: transport.fetch_into(location, self.name, into, _silent, depth), wait=self._wait
        )

    def _mirror(self, folder: str) -> None:
        location, ours = self.repository.location, names.fetched_ref(self.name, folder)

        def mirror() -> None:
            transport.mirror(location, self.name, {folder: ours}, _silent)

        self._patiently(lambda: fetches.fetch(location, mirror, wait=self._wait))

    def _fetched(self, folder: str) -> dict[str, FleetRefs]:
        tasks: dict[str, dict[str, dict[str, str]]] = {}
        single: dict[str, dict[str, str]] = {}
        for ref, oid in refs.list_refs(self.repository.location, folder, skip_broken=True).items():
            parsed = names.parse_fetched(ref)
            if parsed is None or parsed[0] != self.name:
                continue
            fleet, kind, task = parsed[1]
            if task is None:
                single.setdefault(fleet, {})[kind] = oid
            else:
                tasks.setdefault(fleet, {}).setdefault(kind, {})[task] = oid
        return {
            fleet: FleetRefs(
                fleet,
                single.get(fleet, {}).get(names.TASKS),
                tasks.get(fleet, {}).get(names.LIVE, {}),
                tasks.get(fleet, {}).get(names.RESULTS, {}),
                single.get(fleet, {}).get(names.END),
            )
            for fleet in {*tasks, *single}
        }

    def _swap(self, changes: Mapping[str, tuple[str | None, str | None]]) -> Answer:
        swaps = [Swap(ref, new, old) for ref, (new, old) in changes.items()]
        output: list[str] = []
        try:
            answers = transport.swap(self.repository.location, self.name, swaps, output.append)
        except GitCommandError as error:
            if _NOT_THERE not in error.stderr:
                raise
            answers = {}
        reasons = [answers.get(ref, "the remote has not answered") for ref in changes]
        if any(reason is not None for reason in reasons):
            there = transport.list_refs(self.repository.location, self.name)
            if any(there.get(ref) != new for ref, (new, _) in changes.items()):
                for ref, (_, old) in changes.items():
                    if there.get(ref) != old:
                        return Answer(TAKEN, there.get(ref))
                # Of an atomic push, one ref has the reason, and the others are not changed because of that.
                said = [reason for reason in reasons if reason is not None]
                reason = next((each for each in said if not _PASSING.search(each)), None)
                if reason is None:
                    # The answer for a ref does not name a lock file that is there.
                    raise _Met(next((line[1] for each in output if (line := _LOCKED.match(each))), said[0]))
                return Answer(REFUSED, reason=reason)
        for ref, (new, _) in changes.items():
            self._track(ref, new)
        return Answer(DONE, next(iter(changes.values()))[0])

    def _track(self, ref: str, oid: str | None) -> None:
        """Set the ref here for one of the remote; a later fetch does it if another process moves or locks it."""
        location, here = self.repository.location, names.fetched_ref(self.name, ref)
        old = refs.resolve(location, here)
        with contextlib.suppress(refs.RefMoved, LockedError):
            if oid is None:
                if old is not None:
                    refs.drop(location, here, old)
            elif oid != old:
                refs.update(location, here, oid, old)

    # -- patience --------------------------------------------------------------------------------------------------

    def _patiently(self, ask: Callable[[], T]) -> T:
        """The answer of the remote, which is asked until it can be reached, or was away for too long."""
        began = self._clock()
        pause, met = _FIRST_PAUSE, 0
        while True:
            try:
                return ask()
            except _Met as error:
                met += 1
                reason, is_over = str(error), met >= _MEETINGS and self._clock() - began >= self._wait
                what, hint = "cannot be changed", _HINT_LOCKED if "lock" in reason else None
            except GitCommandError as error:
                reason = error.message
                met += _GONE in error.stderr
                is_over = self._clock() - began >= self._wait and not (_GONE in error.stderr and met < _MEETINGS)
                what, hint = "cannot be reached", f"git ls-remote {self.name} shows whether it can be reached"
            message = f"the remote '{self.name}' {what}: {reason}"
            if is_over:
                raise RemoteAway(message, hint)
            if self._away is not None:
                self._away(message)
            # Not all at the same moment: there may be a thousand.
            self._pause(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE)


def _silent(_: str) -> None:
    """For git's progress, which nobody waits for."""
