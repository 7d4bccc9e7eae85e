"""`git agentos fleet`: runs on many machines: submitted, looked at, cancelled."""

import os
from typing import TYPE_CHECKING, Annotated, NamedTuple

from git_agentos.cli import authorization
from git_agentos.cli.command import Exit, group
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.options import DryRun, number
from git_agentos.cli.parameters import Argument, Option
from git_agentos.cli.render.text import fleet as render
from git_agentos.errors import FleetError, UsageError

if TYPE_CHECKING:
    from git_agentos.fleet.engines.choice import Options as EngineOptions
    from git_agentos.fleet.submission import Submitted

FleetId = Annotated[str, Argument(metavar="FLEET")]
Tasks = Annotated[list[str] | None, Argument(metavar="[TASK]...")]
Remote = Annotated[
    str | None, Option("--remote", metavar="REMOTE", help="Use REMOTE (default: agentos.fleet.remote or origin).")
]
NoFetch = Annotated[bool, Option("--no-fetch", help="Show what was fetched before; do not ask the remote.")]

_INTERRUPTED, _REFUSED = 130, 4
_PAUSE = 2.0  # seconds between two looks at the remote
_RETRIES = 2


class Submission(NamedTuple):
    """How a fleet is submitted."""

    engine: Annotated[
        str | None, Option("--engine", metavar="ENGINE", help="Start workers by ENGINE (default: local).")
    ] = None
    remote: Remote = None
    name: Annotated[str | None, Option("--name", metavar="FLEET", help="Name of the fleet (default: the file's).")] = (
        None
    )
    max_parallel: Annotated[str | None, Option("--max-parallel", metavar="N", help="Run at most N tasks at once.")] = (
        None
    )
    retries: Annotated[
        str | None, Option("--retries", metavar="N", help="Start a worker again up to N times (default: 2).")
    ] = None
    address: Annotated[
        str | None, Option("--address", metavar="HOST:PORT", help="Address of the cluster for the engine 'ray'.")
    ] = None
    command: Annotated[
        str | None, Option("--command", metavar="TEMPLATE", help="Text for the engine 'command', with {command}.")
    ] = None
    pass_env: Annotated[
        list[str] | None, Option("--pass-env", metavar="NAME", help="Pass the variable NAME to workers; repeatable.")
    ] = None
    accepts_policy: Annotated[bool, Option("--yes-data-policy", help="Accept the data policy of workflows.")] = False
    detach: Annotated[bool, Option("--detach", help="Return when the tasks are recorded; do not wait.")] = False
    dry_run: DryRun = False


class Acceptance(NamedTuple):
    """How tasks are accepted."""

    into: Annotated[
        str | None, Option("--into", metavar="BRANCH", help="Merge into BRANCH (default: the current branch).")
    ] = None
    all_or_nothing: Annotated[
        bool, Option("--all-or-nothing", help="Merge nothing if a task conflicts or is refused.")
    ] = False
    dry_run: DryRun = False
    remote: Remote = None


@group()
def fleet(ctx: Invocation) -> None:
    """Run many tasks, on this machine or on others.

    Each task is a run as of 'git agentos run start'. Tasks and results are refs of a remote, which every clone can
    read; an engine starts a worker for each task.
    """


@fleet.command()
def submit(
    ctx: Invocation,
    file: Annotated[str, Argument(metavar="FILE")],
    *,
    options: Submission,
) -> None:
    """Record the tasks in FILE on a remote, and run them.

    FILE is TOML with a [[task]] for each, or has one JSON object a line. Submitted again under the same name, the fleet
    goes on: what has a result is not run again. Waits until every task has a result.

    The exit code is 0 if all tasks have passed, 1 if not, 3 if the data policy of its workflows was not accepted, and
    130 if the wait was interrupted.
    """
    from git_agentos.cli.fleet_progress import FleetProgress
    from git_agentos.fleet import prepared, submission
    from git_agentos.fleet.engines import choice

    context = ctx.workspace().context
    request = prepared.Request(
        ctx.path(file),
        options.name,
        options.remote,
        tuple(options.pass_env or ()),
        _retries(options),
        options.accepts_policy,
    )
    engine = choice.make(_engine_options(options), context.location.root, os.environ)
    if options.dry_run:
        planned = submission.plan(context, request, engine, environment=os.environ)
        ctx.output.show("fleet", planned.status, lambda style: render.planned(planned, style))
        return
    if options.detach:
        started = submission.detach(context, request, engine, _words(options), environment=os.environ)
        ctx.output.show("fleet", started.status, lambda _: render.detached(started))
        return
    with FleetProgress(ctx.output) as progress:
        done = submission.submit(context, request, engine, progress, environment=os.environ)
    ctx.output.show("fleet", done.status, lambda style: render.submitted(done, style))
    raise Exit(_exit_code(done))


@fleet.command()
def status(
    ctx: Invocation,
    fleet: FleetId,
    follow: Annotated[bool, Option("--follow", help="Print what changes, until every task has a result.")] = False,
    remote: Remote = None,
    no_fetch: NoFetch = False,
) -> None:
    """Show the state of each task of a fleet.

    Fetches the refs of the fleet first. Nothing is verified: 'git agentos fleet collect' does that.
    """
    from git_agentos.fleet import status as statuses

    context = ctx.workspace().context
    if not follow:
        result = statuses.status(context, fleet, remote=remote, fetch=not no_fetch)
        ctx.output.show("fleet", result, lambda style: render.status(result, style))
        return
    if no_fetch:
        raise UsageError("--follow and --no-fetch cannot be used together")
    import time

    from git_agentos.cli.fleet_progress import FleetProgress
    from git_agentos.fleet import contents, names

    there = contents.open_remote(context, remote)
    with FleetProgress(ctx.output) as progress:
        for result in statuses.follow(there, names.check_fleet_id(fleet), lambda: time.sleep(_PAUSE)):
            progress.changed(result)
    ctx.output.show("fleet", result, lambda style: render.status(result, style))


@fleet.command()
def list_(ctx: Invocation, remote: Remote = None, no_fetch: NoFetch = False) -> None:
    """List the fleets of a remote, newest first.

    Fetches their refs first.
    """
    from git_agentos.fleet import status as statuses

    result = statuses.list_fleets(ctx.workspace().context, remote=remote, fetch=not no_fetch)
    ctx.output.show("fleets", {"fleets": result}, lambda style: render.listing(result, style))


@fleet.command()
def logs(
    ctx: Invocation,
    fleet: FleetId,
    task: Annotated[str, Argument(metavar="TASK")],
    step: Annotated[str | None, Option("--step", metavar="N", help="Only the output of step N.")] = None,
    remote: Remote = None,
) -> None:
    """Print the output of each step of a task.

    Of a task that runs, as far as its worker has pushed it. Secrets were removed before the output was stored.
    """
    from git_agentos.cli.render import json
    from git_agentos.cli.render.text import run as run_text
    from git_agentos.fleet import logs as reading

    result = reading.read(ctx.workspace().context, fleet, task, remote=remote, step=number(step, "--step"))
    fields = {"id": fleet, "task": task, "logs": [json.step_log(*each) for each in result]}
    ctx.output.show("fleet-logs", fields, lambda style: run_text.logs(result, style))


@fleet.command()
def cancel(ctx: Invocation, fleet: FleetId, tasks: Tasks = None, remote: Remote = None) -> None:
    """Cancel tasks that have no result; without TASK, all of them.

    Their workers look twice a minute, and end the runs then.
    """
    from git_agentos.fleet import cancellation

    result = cancellation.cancel(ctx.workspace().context, fleet, ctx.paths(tasks), remote=remote)
    ctx.output.show("fleet", result, lambda style: render.status(result, style))


@fleet.command()
def worker(
    ctx: Invocation,
    fleet: FleetId,
    task: Annotated[str, Argument(metavar="TASK")],
    remote: Annotated[str | None, Option("--remote", metavar="URL", help="The remote that has the fleet.")] = None,
    from_start: Annotated[bool, Option("--from-start", help="Do not continue an earlier attempt at the task.")] = False,
) -> None:
    """Do one task of a fleet, and push its result.

    An engine starts it. Needs no repository: this machine's clone of the remote is used, or made. If an earlier attempt
    at the task was cut off, continues with its next step.

    The exit code is 0 if the task has a result, 1 if its run failed, 4 if the result of another worker counts, and 130
    if it was interrupted.
    """
    from git_agentos.cli.progress import WorkerProgress
    from git_agentos.fleet import worker as workers

    if remote is None:
        raise UsageError("the remote that has the fleet is missing", "--remote URL")
    with WorkerProgress(ctx.output) as progress:
        done = workers.work(workers.Request(fleet, task, remote, from_start), os.environ, progress)
    ctx.output.show("fleet-worker", done, lambda _: render.worked(done))
    if done.state == workers.STOPPED:
        raise Exit(_INTERRUPTED)
    if done.state == workers.REFUSED:
        raise Exit(_REFUSED)
    if done.run is not None and done.run.state != "passed":
        raise Exit(1)


@fleet.command()
def collect(ctx: Invocation, fleet: FleetId, remote: Remote = None) -> None:
    """Fetch the results of a fleet, as branches and runs of this repository.

    Each result is verified first. The branch of a task is 'fleet/FLEET/TASK'; 'git agentos run list' shows the runs.
    Those that do not verify are named, and the exit code is 1.
    """
    from git_agentos.fleet import collection

    result = collection.collect(ctx.workspace().context, fleet, remote=remote)
    ctx.output.show("fleet-collect", result, lambda style: render.collected(fleet, result, style))
    if result.refused:
        raise Exit(FleetError.exit_code)


@fleet.command()
def accept(
    ctx: Invocation,
    fleet: FleetId,
    tasks: Tasks = None,
    *,
    options: Acceptance,
) -> None:
    """Merge tasks that passed into a branch; without TASK, all of them.

    Not for agents. Verifies and collects each result, merges in memory first, in the order of least conflict, and moves
    the branch once. Of a task with samples, merges the smallest one that passed, unless you name another. Refuses work
    that nothing has validated.

    The exit code is 4 if tasks conflict: they are left out. It is 3 if secrets of a task were held back, and 1 if a
    result does not verify or was not validated.
    """
    from git_agentos.fleet import acceptance

    context = ctx.workspace().context
    if not options.dry_run:
        authorization.require_operator(ctx, context.location, "accepting tasks of a fleet")
    result = acceptance.accept(context, fleet, ctx.paths(tasks), **options._asdict())
    ctx.output.show("fleet-accept", result, lambda style: render.accepted(fleet, result, style))
    if result.exit_code:
        raise Exit(result.exit_code)


@fleet.command()
def end(ctx: Invocation, fleet: FleetId, remote: Remote = None) -> None:
    """End a fleet that is over: one ref of the remote keeps its results.

    Deletes its other refs there. Results can be collected and accepted as before. Refuses while a task has no result.
    """
    from git_agentos.fleet import ending

    result = ending.end(ctx.workspace().context, fleet, remote=remote)
    ctx.output.show("fleet", result, lambda _: render.ended(result))


def _engine_options(options: Submission) -> "EngineOptions":
    from git_agentos.fleet.engines.choice import Options as EngineOptions

    most = number(options.max_parallel, "--max-parallel")
    if most == 0:
        raise UsageError("--max-parallel takes a number from 1, not '0'")
    return EngineOptions(options.engine or "local", most, _retries(options), options.address, options.command)


def _retries(options: Submission) -> int:
    given = number(options.retries, "--retries")
    return _RETRIES if given is None else given


def _words(options: Submission) -> list[str]:
    """The options of the process that waits for a fleet, but for its name and its remote."""
    given = [
        ("--engine", options.engine),
        ("--max-parallel", options.max_parallel),
        ("--retries", options.retries),
        ("--address", options.address),
        ("--command", options.command),
    ]
    words = [word for name, value in given if value is not None for word in (name, value)]
    return [*words, *(word for each in options.pass_env or () for word in ("--pass-env", each))]


def _exit_code(done: "Submitted") -> int:
    if done.is_interrupted:
        return _INTERRUPTED
    return 0 if done.status.has_passed else 1
