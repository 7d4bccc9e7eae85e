"""Saying on the remote how far a task has come, beside the run and never in its way: `live/<task>`, after each step.

A thread pushes what was last noted, at most once in `pause` seconds, so a run that ends sooner pushes its result alone.
Where the remote cannot be reached, the next note is tried later. What has a secret is not pushed: the ref then says how
far the task is, and has nothing to go on from. The thread also looks now and then whether the task has a result by now:
then its run is cancelled here, whatever step it is in.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import replace

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError
from git_agentos.fleet import evidence, names, records
from git_agentos.fleet.evidence import Search, Work
from git_agentos.fleet.records import Live
from git_agentos.fleet.remote import DONE, TAKEN, Remote
from git_agentos.git.repository import Repository
from git_agentos.run import lock
from git_agentos.run.events import Run, Step
from git_agentos.run.step import Observer
from git_agentos.sync.scan import Scanner
from git_agentos.util import times
from git_agentos.util.named_tuple import NamedTuple

_LONGEST_PAUSE = 60.0  # seconds between two attempts to reach a remote that is away
LOOK_EVERY = 30.0  # seconds: how soon a run ends whose task has been cancelled, or was done by another worker
_PATIENCE = 30.0  # seconds that the end waits for a push that is going on


class Attempt(NamedTuple):
    """One worker's attempt at a task: `live` is what it says first, `known` where the ref was then (None: not there),
    `instead_of` the result that is lost (None: there is none), `base` a commit that the remote has."""

    fleet: str
    live: Live
    base: str
    known: str | None = None
    instead_of: str | None = None


class Progress:
    """A `run.step.Observer` that tells `shown`, and the remote. It is entered around the run."""

    def __init__(
        self, context: OpenWorktree, attempt: Attempt, remote: Remote, scanner: Scanner, shown: Observer, pause: float
    ) -> None:
        self._caller = context
        self._context = context._replace(repository=Repository(context.location))  # the thread's own
        self._attempt = attempt
        self._remote = remote
        self._scanner = scanner
        self._shown = shown
        self._pause = pause
        self._at = attempt.known
        self._on_remote = {attempt.base}
        self._is_announced = False
        self._is_held = False
        self._lost = {attempt.instead_of}  # results that do not count
        self._noted: tuple[Live, Work] | None = None
        self._changed = threading.Condition()
        self._ends = False
        self._thread = threading.Thread(target=self._work, name="fleet-progress", daemon=True)
        self.result: str | None = None  # that counts, where it is another worker's
        self.is_replaced = False  # another worker has begun with the task

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._ends = True
            self._changed.notify()
        self._thread.join(_PATIENCE)
        if self.result is not None:  # it may have been seen when the run was over
            lock.discard(self._context.location, self._attempt.live.run_id, "cancel")

    # -- what the run says ---------------------------------------------------------------------------------------------

    def prepared(self, run: Run) -> None:
        """The workspace is ready."""
        self._note(0)
        self._shown.prepared(run)

    def step_begins(self, run: Run, step: Step) -> None:
        """A step begins."""
        self._shown.step_begins(run, step)

    def output(self, line: bytes) -> None:
        """The step's command has written a line."""
        self._shown.output(line)

    def step_ended(self, run: Run, step: Step) -> None:
        """A step has ended."""
        self._note(step.n)
        self._shown.step_ended(run, step)

    def _note(self, step: int) -> None:
        live = replace(self._attempt.live, step=step, updated_at=times.now_text())
        work = evidence.find(self._caller, live.run_id)
        with self._changed:
            self._noted = (live, work)
            self._changed.notify()

    def push_now(self) -> None:
        """Say how far it is, once the run has been interrupted, and the thread has ended."""
        if self._noted is not None and self.result is None and not self.is_replaced:
            self.push(*self._noted)

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        due = time.monotonic() + self._pause
        look = time.monotonic() + LOOK_EVERY
        pause = max(self._pause, 1.0)
        while self.result is None and self._wait(due, look):
            if time.monotonic() >= look:
                look = time.monotonic() + LOOK_EVERY
                with contextlib.suppress(AgentosError, OSError):
                    self._look()
            noted = self._next(due)
            if noted is None:
                continue
            try:
                self.push(*noted)
                pause = max(self._pause, 1.0)
                due = time.monotonic() + self._pause
            except (AgentosError, OSError):
                with self._changed:
                    self._noted = self._noted or noted
                pause = min(2 * pause, _LONGEST_PAUSE)
                due = time.monotonic() + pause

    def _wait(self, due: float, look: float) -> bool:
        """Wait until it is time to push what was noted, or to look; False at the end of the run, whose result says
        more."""
        with self._changed:
            while not self._ends:
                is_to_push = self._noted is not None and not self.is_replaced
                left = (min(due, look) if is_to_push else look) - time.monotonic()
                if left <= 0:
                    return True
                self._changed.wait(left)
            return False

    def _next(self, due: float) -> tuple[Live, Work] | None:
        """What is to be pushed now."""
        with self._changed:
            if self._ends or self.result is not None or self.is_replaced or time.monotonic() < due:
                return None
            noted, self._noted = self._noted, None
            return noted

    def _look(self) -> None:
        """Cancel the run if the task has a result that counts. RemoteAway where the remote cannot be reached."""
        fleet, live = self._attempt.fleet, self._attempt.live
        found = self._remote.fetch_result(fleet, live.task)
        if found is None or found in self._lost:
            return
        repository = Repository(self._context.location)  # there may be a new pack
        if records.read_result(repository, found, fleet, live.task).state == records.LOST:
            self._lost.add(found)
            return
        self.result = found
        lock.request_cancel(self._context.location, live.run_id)

    def push(self, live: Live, work: Work) -> None:
        """Say on the remote how far the task has come. RemoteAway where it cannot be reached."""
        oid = self._write(live, work)
        fleet, task = self._attempt.fleet, live.task
        ref = names.live_ref(fleet, task)
        if self._is_announced:
            answer = self._remote.replace(ref, oid, self._at)
        else:
            answer = self._remote.announce(fleet, task, oid, self._at, instead_of=self._attempt.instead_of)
        if answer.state == DONE:
            self._is_announced, self._at = True, oid
            self._on_remote |= {each for each in work[:2] if each is not None and not self._is_held}
        elif answer.state == TAKEN:
            self._stop_saying()

    def _stop_saying(self) -> None:
        """The ref is another's, or gone: the task has a result, or another worker has begun with it."""
        self._look()
        self.is_replaced = self.result is None

    def _write(self, live: Live, work: Work) -> str:
        repository = self._context.repository
        if not self._is_held and work.timeline is not None:
            search = Search(repository, live.run_id, work, self._on_remote, self._scanner, frozenset())
            self._is_held = not search.is_clean()
        if self._is_held:
            work = Work(None, None, None)
        live = replace(live, commit=work.commit, timeline=work.timeline, checkpoint=_checkpoint(repository, work))
        with repository.writer() as writer:
            who = self._context.settings.committer
            oid = records.write_live(writer, self._attempt.fleet, live, who, work.evidence)
            writer.flush()
        return oid


def _checkpoint(repository: Repository, work: Work) -> str | None:
    return repository.commit(work.timeline).parents[1] if work.timeline is not None else None
