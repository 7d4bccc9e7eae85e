"""`repo.fleets`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypedDict, Unpack

from git_agentos.api.conversion import convert
from git_agentos.api.fleet_results import (
    AcceptedTasks,
    CollectedResults,
    FleetStatus,
    FleetSummary,
)
from git_agentos.errors import UsageError
from git_agentos.workspace import Workspace

if TYPE_CHECKING:
    from git_agentos.fleet.status import Status


class FleetObserver(Protocol):
    """Is called with the progress of a fleet."""

    def changed(self, status: FleetStatus) -> None:
        """A task has another state than before."""

    def away(self, reason: str) -> None:
        """The remote cannot be reached, or changed, for this reason; it is tried again."""

    def not_begun(self, tasks: Sequence[str], seconds: float, command: str) -> None:
        """No worker of these tasks has said that it has begun, so many seconds after they were handed over, the first
        one by `command`. Only with the engine `command`; told again after twice the time."""


class SubmitOptions(TypedDict, total=False):
    """Options of a fleet that is submitted.

    `name` is its id, by default the name of the file; `engine` is `local` (the default), `ray` or `command`;
    `max_parallel` is how many tasks run at once, `retries` how often a worker is started again (2); `pass_env` are
    names of variables that workers get; `address` is that of a Ray cluster, `template` that of the engine `command`.
    `accept_data_policy` is needed where tasks are workflows.
    """

    name: str
    engine: str
    max_parallel: int
    retries: int
    pass_env: Sequence[str]
    address: str
    template: str
    accept_data_policy: bool


class Fleets:
    """Fleets: many tasks, each a run on this machine or another one.

    A remote is named as git names it; by default it is `agentos.fleet.remote`, `origin`, or the only one.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def submit(
        self,
        path: str | os.PathLike[str],
        *,
        remote: str | None = None,
        observer: FleetObserver | None = None,
        **options: Unpack[SubmitOptions],
    ) -> FleetStatus:
        """Record the tasks of a file (relative to the current folder) on the remote, start those that have no result,
        and wait until all have one.

        Call it in the main thread: a signal ends the wait, and KeyboardInterrupt is raised then.
        """
        from git_agentos.fleet import prepared, submission
        from git_agentos.fleet.engines import choice

        retries = options.get("retries", prepared.Request.retries)
        most = options.get("max_parallel")
        if most is not None and most < 1:
            raise UsageError("'max_parallel' is a number from 1 on")
        names = tuple(_texts(options.get("pass_env", ())))
        accepts = options.get("accept_data_policy", False)
        request = prepared.Request(os.path.abspath(path), options.get("name"), remote, names, retries, accepts)
        wanted = choice.Options(
            options.get("engine", choice.Options.engine), most, retries, options.get("address"), options.get("template")
        )
        context = self._workspace.context
        engine = choice.make(wanted, context.location.root, os.environ)
        done = submission.submit(context, request, engine, _Observer(observer), environment=os.environ)
        if done.is_interrupted:
            raise KeyboardInterrupt
        return convert(FleetStatus, done.status)

    def list(self, *, remote: str | None = None, fetch: bool = True) -> tuple[FleetSummary, ...]:
        """All fleets of the remote, newest first; without `fetch`, as they were fetched before."""
        from git_agentos.fleet import status

        found = status.list_fleets(self._workspace.context, remote=remote, fetch=fetch)
        return tuple(convert(FleetSummary, each) for each in found)

    def status(self, fleet: str, *, remote: str | None = None, fetch: bool = True) -> FleetStatus:
        """The state of each task of a fleet; without `fetch`, as it was fetched before. FleetError if there is none."""
        from git_agentos.fleet import status

        return convert(FleetStatus, status.status(self._workspace.context, fleet, remote=remote, fetch=fetch))

    def cancel(self, fleet: str, tasks: Sequence[str] = (), *, remote: str | None = None) -> FleetStatus:
        """Cancel these tasks, or all, as far as they have no result."""
        from git_agentos.fleet import cancellation

        return convert(FleetStatus, cancellation.cancel(self._workspace.context, fleet, _texts(tasks), remote=remote))

    def collect(self, fleet: str, *, remote: str | None = None) -> CollectedResults:
        """Fetch the results that verify, as branches and runs of this repository. The others are in the result, and
        raise nothing."""
        from git_agentos.fleet import collection

        return convert(CollectedResults, collection.collect(self._workspace.context, fleet, remote=remote))

    def accept(
        self,
        fleet: str,
        tasks: Sequence[str] = (),
        *,
        into: str | None = None,
        all_or_nothing: bool = False,
        dry_run: bool = False,
        remote: str | None = None,
    ) -> AcceptedTasks:
        """Merge these tasks, or all that have passed, into `into`, by default the branch that is checked out.

        What conflicts, and results that do not verify or were not validated, are in the result, and raise nothing.
        FleetError if a task that is named has not passed.
        """
        from git_agentos.fleet import acceptance

        done = acceptance.accept(
            self._workspace.context,
            fleet,
            _texts(tasks),
            into=into,
            all_or_nothing=all_or_nothing,
            dry_run=dry_run,
            remote=remote,
        )
        return convert(AcceptedTasks, done)

    def end(self, fleet: str, *, remote: str | None = None) -> FleetStatus:
        """End a fleet that is over: one ref of the remote keeps its results. FleetError while a task has none."""
        from git_agentos.fleet import ending

        return convert(FleetStatus, ending.end(self._workspace.context, fleet, remote=remote))


class _Observer:
    """Gives an observer the API's results."""

    def __init__(self, observer: FleetObserver | None) -> None:
        self._observer = observer

    def changed(self, status: Status) -> None:
        if self._observer is not None:
            self._observer.changed(convert(FleetStatus, status))

    def away(self, reason: str) -> None:
        if self._observer is not None:
            self._observer.away(reason)

    def not_begun(self, tasks: Sequence[str], seconds: float, command: str) -> None:
        if self._observer is not None:
            self._observer.not_begun(tasks, seconds, command)


def _texts(given: Sequence[str]) -> Sequence[str]:
    """One may be given as text."""
    return [given] if isinstance(given, str) else given
