"""An engine of tests: what would be its workers is done at once, by what the test says of each task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.fleet import names, records
from git_agentos.fleet.engines.port import Ended, Order, Unfit
from git_agentos.fleet.records import Live, Result
from git_agentos.fleet.remote import Answer, Remote
from git_agentos.workspace import open_workspace
from tests.support.repo import Repo

NOW = "2026-11-26T12:00:00.000Z"
WHO = b"A <a@example.com>"

# What a worker does: it may give its task a result, and returns its exit code; None: the engine has given it up.
Deed = Callable[["ScriptedEngine", Order], int | None]


def context_of(repo: Repo) -> OpenWorktree:
    return open_workspace(str(repo.path)).context


def remote_of(repo: Repo) -> Remote:
    return Remote(context_of(repo).repository, "origin")


def put_result(remote: Remote, fleet: str, result: Result, *, instead_of: str | None = None) -> Answer:
    """Give a task a result, as a worker does."""
    with remote.repository.writer() as writer:
        oid = records.write_result(writer, fleet, result, WHO)
        writer.flush()
    return remote.settle(fleet, result.task, oid, instead_of=instead_of)


def put_live(remote: Remote, fleet: str, task: str, *, step: int = 1, evidence: str | None = None) -> Answer:
    """Say that a task runs, as a worker does."""
    live = Live(task, 1, "machine", NOW, NOW, names.run_id(fleet, task), step)
    with remote.repository.writer() as writer:
        oid = records.write_live(writer, fleet, live, WHO, evidence)
        writer.flush()
    return remote.replace(names.live_ref(fleet, task), oid, remote.tracked(names.live_ref(fleet, task)))


def passes(engine: ScriptedEngine, order: Order) -> int:
    _fleet, task, old = engine.facts(order)
    put_result(engine.remote, _fleet, Result(task, "passed", 1, "ok", "machine", NOW, NOW), instead_of=old)
    return 0


def fails(engine: ScriptedEngine, order: Order) -> int:
    fleet, task, old = engine.facts(order)
    put_result(engine.remote, fleet, Result(task, "failed", 1, "failed", "machine", NOW, NOW, "bad"), instead_of=old)
    return 1


def dies(_engine: ScriptedEngine, _order: Order) -> int:
    return 137


def is_given_up(_engine: ScriptedEngine, _order: Order) -> None:
    return None


class ScriptedEngine:
    """Does `deeds`: task -> what its worker does, each time that it is started; the last one again and again. Workers
    are clones of their own."""

    name = "scripted"
    program = ("git", "agentos")
    reports_ends: bool = True

    def __init__(self, worker: Repo, deeds: Mapping[str, Sequence[Deed]] | None = None, *, unfit: str = "") -> None:
        self.remote = remote_of(worker)
        self.started: list[Order] = []
        self.cancelled: list[str] = []
        self.has_ended = False
        self._deeds = {task: list(each) for task, each in (deeds or {}).items()}
        self._unfit = unfit
        self._ended: list[Ended] = []

    def facts(self, order: Order) -> tuple[str, str, str | None]:
        """Fleet, task, and the result that it has."""
        fleet, task = order.argv[4:6]
        return fleet, task, self.remote.list().get(names.result_ref(fleet, task))

    def check(self, orders: Sequence[Order], /) -> None:
        for order in orders:
            if order.task == self._unfit:
                raise Unfit(order.task, f"no machine has what '{order.task}' needs")

    def start(self, order: Order, /) -> None:
        self.started.append(order)
        deeds = self._deeds.get(order.task, [passes])
        code = (deeds.pop(0) if len(deeds) > 1 else deeds[0])(self, order)
        self._ended.append(Ended(order.task, code, "no node" if code is None else None))

    def poll(self, _patience: float, /) -> Sequence[Ended]:
        found, self._ended = self._ended, []
        return found

    def describe(self, task: str, /) -> str | None:
        return f"run {task}" if not self.reports_ends else None

    def cancel(self, task: str, /) -> None:
        self.cancelled.append(task)
        self._ended.append(Ended(task, 143))

    def end(self) -> None:
        self.has_ended = True


def tasks_file(folder: Path, *ids: str, name: str = "f.toml") -> str:
    """A file with tasks that differ by their ids alone."""
    path = folder / name
    path.write_text("".join(f'[[task]]\nid = "{id_}"\nagent = "echo {id_} >f"\n' for id_ in ids))
    return str(path)
