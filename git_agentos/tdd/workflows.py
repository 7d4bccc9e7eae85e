"""What the commands call: starting a workflow, going on with it, deciding, looking.

One process at a time works on a workflow: it holds the run's lock. SIGINT, SIGTERM and SIGHUP interrupt it; whatever
ended it, `resume` goes on without doing a finished node again.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, LockedError, RepositoryError, RunError, TddError, UsageError
from git_agentos.git import authorship, process, refs
from git_agentos.guard import authorize
from git_agentos.process import contained
from git_agentos.run import branches, evidence_store, journal, lock
from git_agentos.run.runner import end_as_tampered
from git_agentos.run.stop import Stop
from git_agentos.store import database_path
from git_agentos.tdd import node_run as sites
from git_agentos.tdd import query, state_database
from git_agentos.tdd.context import material, policy
from git_agentos.tdd.gate import setup
from git_agentos.tdd.graph import Graph, Position
from git_agentos.tdd.ids import branch_of, check_issue, new_id
from git_agentos.tdd.models import model
from git_agentos.tdd.node_run import Site, Stopped, now
from git_agentos.tdd.nodes import ground_work
from git_agentos.tdd.query import Found, list_, output, patch, review, show, without_secrets
from git_agentos.tdd.signed_rows import Tampered
from git_agentos.tdd.state import (
    ABORT,
    ABORTED,
    MERGED,
    N0,
    N1,
    N2,
    N3,
    N4,
    N5,
    N6,
    N8,
    RETRY,
    TAMPERED,
    ImplementationState,
    Record,
    Review,
    Workflow,
    words,
)
from git_agentos.worktree import layout

__all__ = [
    "Nobody",
    "Order",
    "Watcher",
    "decide",
    "list_",
    "output",
    "patch",
    "resume",
    "review",
    "show",
    "start",
    "without_secrets",
]


_GIVEN_UP = (N0, N1, N2, N3, N4, N5)  # where one that was interrupted can be aborted: nothing is merged


@dataclass(frozen=True)
class Order:
    """What is to be done; as `git agentos tdd run` has it. `lld` and `context` are relative to the worktree that one
    stands in. `into` None: the branch that is checked out there. `tests` limits which tests are run (none: what the
    project's configuration says)."""

    issue_id: str
    lld: str
    context: tuple[str, ...] = ()
    agent: str | None = None
    into: str | None = None
    test_timeout: float = 300.0
    sandbox: bool = False
    tests: tuple[str, ...] = ()


class Watcher(Protocol):
    """Who is told how a workflow goes, while it goes, and asked where a person has to say something."""

    def began(self, workflow: Workflow) -> None:
        """The workflow begins, or is gone on with."""

    def node_begins(self, workflow: Workflow, node: str) -> None:
        """A node begins."""

    def output(self, line: bytes) -> None:
        """A line that an agent or the tests said, without secrets."""

    def node_ended(self, workflow: Workflow, record: Record) -> None:
        """A node has ended."""

    def ask(self, review: Review) -> str | None:
        """A person's word at N6, as it was typed; None where nobody can be asked (the workflow then waits)."""


class Nobody:
    """Is told, and says nothing."""

    def began(self, workflow: Workflow) -> None:
        pass

    def node_begins(self, workflow: Workflow, node: str) -> None:
        pass

    def output(self, line: bytes) -> None:
        pass

    def node_ended(self, workflow: Workflow, record: Record) -> None:
        pass

    def ask(self, review: Review) -> str | None:  # noqa: ARG002 (as Watcher has it)
        return None


@authorize.entry("tdd", "run")
def start(
    context: OpenWorktree,
    order: Order,
    environment: Mapping[str, str],
    watcher: Watcher,
    *,
    consent: Callable[[Sequence[str]], None],
) -> Workflow:
    """Start a workflow, and go on until it ends, waits, or is interrupted.

    `consent` is given the lines of the data policy before anything is made or sent; it raises where there is none.
    ContextError for what must not be sent, TddError where the issue has an unfinished workflow; nothing was made then.
    """
    issue = check_issue(order.issue_id)
    authorship.require(context.location.root, process.user_environment({}))
    chosen = model.choose(order.agent, context.settings, environment, context.location.root)
    into = _into(context, order.into)
    read = material.load(context.location.root, order.lld, order.context)
    id_ = new_id(issue)
    mark = f"{id_}-{os.urandom(8).hex()}"
    setup.of(context, environment, timeout=order.test_timeout, sandbox=order.sandbox, mark=mark)
    _refuse_second(context, issue, environment)
    consent(policy.told(read, chosen.recipient))
    state = ImplementationState(
        id=id_,
        issue_id=issue,
        repository=database_path.repository_id(context.location),
        machine=platform.node(),
        mark=mark,
        protected=branches.protected_patterns(context, None),
        agent=chosen.name,
        into=into,
        branch=branch_of(issue),
        lld_path=read.lld.path,
        lld_content=read.lld.text,
        context_paths=[each.path for each in read.context],
        context_content={each.path: each.text for each in read.context},
        test_timeout=order.test_timeout,
        sandbox=order.sandbox,
        tests=list(order.tests),
        retry_count=0,
        scaffold_retry_count=0,
        created_at=now(),
        history=[],
    )
    where = state_database.place(context.location, environment)
    with _at_work(context, id_, where, environment, watcher) as work:
        try:
            return work.begin(state)
        except (Tampered, journal.Tampered):
            raise
        except AgentosError:
            # Two for the same issue at the same moment: the branch can be only one's, so the second fails at N0.
            _refuse_second(context, issue, environment)
            raise


@authorize.entry("tdd", "resume")
def resume(
    context: OpenWorktree, id_: str, environment: Mapping[str, str], watcher: Watcher, *, retry: bool = False
) -> Workflow:
    """Go on with an interrupted workflow where it was, or ask again for one that waits; `retry` gives one that waits
    another round. TddError for an unknown or an ended one."""
    found = query.find(context, id_, environment)
    with _at_work(context, found.id, found.place, environment, watcher) as work:
        at = work.position()
        _refuse(found, at)
        if retry and not at.waits:
            raise TddError(
                f"workflow '{found.id}' does not wait for a word",
                f"git agentos tdd resume {found.id} goes on with it",
            )
        return work.go_on(at, RETRY if retry else None)


def decide(context: OpenWorktree, id_: str, word: str, environment: Mapping[str, str], watcher: Watcher) -> Workflow:
    """Say `approve` or `abort` to a workflow that waits; `abort` also to one that was interrupted while it was worked
    on (not while it was merged). TddError where it does not wait, and for `approve` where the work is not green.
    Whether the one who says it may is asked before (`guard.approval.authority`)."""
    authorize.require(context, "tdd", word, operands=(id_,))
    found = query.find(context, id_, environment)
    with _at_work(context, found.id, found.place, environment, watcher) as work:
        if word == ABORT and (tampered := work.tampering()) is not None:
            return work.abandon(tampered)
        at = work.position()
        _refuse(found, at)
        if word == ABORT and at.node in _GIVEN_UP:
            return work.give_up(at)
        if at.node != N6:
            raise TddError(
                f"workflow '{found.id}' does not wait for a word: it was interrupted at {at.node}",
                f"git agentos tdd resume {found.id} goes on with it",
            )
        if word not in words(at.state):
            raise TddError(
                f"workflow '{found.id}' cannot be approved: its work is not green",
                f"git agentos tdd resume {found.id} --retry gives it another round, git agentos tdd abort {found.id}"
                " ends it",
            )
        return work.go_on(at, word)


# -- at work ----------------------------------------------------------------------------------------------------------


class _Work:
    """One workflow at work; its lock is ours."""

    def __init__(self, found: Found, graph: Graph, site: Site, watcher: Watcher) -> None:
        self._found = found
        self._graph = graph
        self._site = site
        self._stop = site.stop
        self._watcher = watcher

    def position(self) -> Position:
        """Where it stands; TddError where there is no such thread, Tampered where that cannot be believed."""
        at = self._graph.position(self._found.id)
        if at is None:
            raise query.unknown(self._found.id) if self._found.place else Tampered(self._found.id, query.MISSING)
        if query.is_here(self._found, at.state):
            self._check(at)
        return at

    def tampering(self) -> str | None:
        """Why its state cannot be believed; None where it can."""
        try:
            self.position()
        except (Tampered, journal.Tampered) as error:
            return error.reason
        return None

    def note(self, reason: str) -> None:
        """Put on record that it was tampered with: its worktree is kept as it is, and it is never merged."""
        with contextlib.suppress(AgentosError, OSError):
            location = self._found.context.location
            try:
                found = evidence_store.open_existing(location, self._found.id)
            except (RunError, RepositoryError):  # it was removed
                found = evidence_store.end_destroyed(location, self._found.id)
            record = found.record()
            if record.problem is not None or not any(each["event"] == "tampered" for each in record.events):
                end_as_tampered(self._found.context, found, reason)

    def abandon(self, reason: str) -> Workflow:
        """End one whose state cannot be believed: what is there is saved, and nothing is merged."""
        self.note(reason)
        self._site.pinned.clear()
        known = query.untold(self._found, reason)
        self._watcher.began(known)
        state = ImplementationState(
            id=known.id,
            issue_id=known.issue_id,
            repository=database_path.repository_id(self._found.context.location),
            machine=platform.node(),
            agent="",
            into=known.into,
            branch=known.branch,
            lld_path="",
            created_at=known.created_at,
            human_decision=ABORT,
            error_message=reason,
            history=[],
        )
        update = ground_work.clean_up(self._site, state)
        self._graph.replace(known.id, {**state, **update})  # type: ignore[typeddict-item]  # the state's keys
        return self._end()

    def _check(self, at: Position) -> None:
        """Tampered where the record of the run is not as it was written, or knows of more than the state does."""
        try:
            kept = self._site.evidence()
        except journal.Tampered:
            raise
        except RunError as error:
            if at.state.get("history") and at.node is not None:
                raise Tampered(self._found.id, error.message) from error
            return
        reason = query.contradiction(kept, at)
        if reason is not None:
            raise Tampered(self._found.id, reason)

    def begin(self, state: ImplementationState) -> Workflow:
        """From the beginning. Where no worktree can be made there is no workflow, and nothing is left."""
        self._watcher.began(self._told(Position(state, N0, False, None)))
        try:
            self._run(lambda: self._graph.begin(self._found.id, state))
        except AgentosError:
            at = self._graph.position(self._found.id)
            if at is not None and at.node == N0:
                self._graph.forget(self._found.id)
            raise
        return self._end()

    def go_on(self, at: Position, word: str | None) -> Workflow:
        """From where it stands, with the word that was said, if one was."""
        self._watcher.began(self._told(at))
        if not at.waits:
            self._run(lambda: self._graph.go_on(self._found.id))
        if word is not None and self._stop.signal is None:
            self._run(lambda: self._graph.answer(self._found.id, word))
        return self._end()

    def give_up(self, at: Position) -> Workflow:
        """End one that was interrupted: what the node at hand has started is ended, and all that is there is saved."""
        self._watcher.began(self._told(at))
        contained.sweep(at.state["mark"])
        with contextlib.suppress(AgentosError):
            sites.unlock(self._site, self._site.run())
        said = sites.plain(at.state, N6, f"'{ABORT}', interrupted at {at.node}", N8, time.monotonic())
        self._graph.say(self._found.id, {"human_decision": ABORT, "error_message": None, "history": [said]})
        self._run(lambda: self._graph.go_on(self._found.id))
        return self._end()

    def _end(self) -> Workflow:
        """Ask, as long as somebody answers; then how it stands."""
        while self._stop.signal is None and (at := self.position()).waits:
            sites.reached(self._site.evidence(), at.state, "waiting")
            word = self._watcher.ask(self._review(at))
            if word is None:
                break
            if word in words(at.state):
                self._run(lambda said=word: self._graph.answer(self._found.id, said))  # type: ignore[misc]
        number = self._stop.signal
        name = signal.Signals(number).name if number is not None else None
        return replace(query.told(self._found, self.position(), alive=False), interrupted_by=name)

    def _run(self, go: Callable[[], None]) -> None:
        with contextlib.suppress(Stopped):
            go()

    def _told(self, at: Position) -> Workflow:
        return query.told(self._found, at, alive=True)

    def _review(self, at: Position) -> Review:
        return query.reviewed(self._found, at, self._told(at))


class _Listener:
    """What nodes tell, told on with the workflow as it then is."""

    def __init__(self, found: Found, watcher: Watcher) -> None:
        self._found = found
        self._watcher = watcher

    def node_begins(self, state: ImplementationState, node: str) -> None:
        self._watcher.node_begins(self._told(state, node), node)

    def output(self, line: bytes) -> None:
        self._watcher.output(line)

    def node_ended(self, state: ImplementationState, record: Record) -> None:
        self._watcher.node_ended(self._told(state, record["next"]), record)

    def _told(self, state: ImplementationState, node: str) -> Workflow:
        return query.told(self._found, Position(state, node, False, None), alive=True)


@contextlib.contextmanager
def _at_work(
    context: OpenWorktree, id_: str, where: str, environment: Mapping[str, str], watcher: Watcher
) -> Iterator[_Work]:
    found = Found(context, id_, where)
    try:
        turn = lock.hold(context.location, id_)
        is_ours = turn.__enter__()
    except LockedError as error:
        raise TddError(f"another process is at work on workflow '{id_}': {error.message}", "wait for it") from error
    with contextlib.ExitStack() as stack:
        stack.push(turn.__exit__)
        stop = stack.enter_context(Stop(context.location, id_))
        where = where or state_database.place(context.location, environment)
        opened = stack.enter_context(state_database.opened(where, context.location))
        site = Site(context, id_, where, environment, stop, _Listener(found, watcher), is_ours)
        work = _Work(found, Graph(site, opened), site, watcher)
        try:
            yield work
        except (Tampered, journal.Tampered) as error:
            work.note(error.reason)
            raise error if isinstance(error, Tampered) else Tampered(id_, error.reason) from error


# -- what speaks against it -------------------------------------------------------------------------------------------


def _into(context: OpenWorktree, given: str | None) -> str:
    """The branch that the work goes into, short."""
    if given is None:
        head = refs.read_head(context.location)
        if head.branch is None:
            raise UsageError("HEAD is detached here", "say where the work is to be merged: --into BRANCH")
        given = head.branch
    name = given.removeprefix(layout.HEADS)
    if refs.resolve(context.location, layout.HEADS + name) is None:
        raise UsageError(f"there is no branch '{name}' with a commit", "git branch lists the branches")
    return name


def _refuse_second(context: OpenWorktree, issue: str, environment: Mapping[str, str]) -> None:
    for each in list_(context, environment):
        if each.issue_id == issue and (each.node is not None or each.state == TAMPERED):
            raise TddError(
                f"issue '{issue}' has an unfinished workflow, '{each.id}', which is {each.state}",
                f"git agentos tdd show {each.id}, resume {each.id}, or abort {each.id}",
            )


def _refuse(found: Found, at: Position) -> None:
    """What cannot be gone on with: what has ended, and what is another clone's."""
    hint = f"git agentos tdd show {found.id} tells how it went"
    if at.node is None:
        how = MERGED if at.state.get("merge_commit") else ABORTED
        raise TddError(f"workflow '{found.id}' has ended: it was {how}", hint)
    if not query.is_here(found, at.state):
        raise TddError(
            f"workflow '{found.id}' is at work in another clone, on '{at.state['machine']}': its worktree is not here",
            hint,
        )
