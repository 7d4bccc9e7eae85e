"""`git agentos run`: start, resume, cancel, accept, clean up and inspect runs."""

import contextlib
from typing import TYPE_CHECKING, Annotated, NamedTuple

from git_agentos.cli import authorization
from git_agentos.cli.command import Exit, group
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.options import DryRun, RunId, Squash, Stat, TaskId, number
from git_agentos.cli.parameters import Argument, Option
from git_agentos.cli.render.text import layout, run_end
from git_agentos.cli.render.text import run as render
from git_agentos.errors import AgentosError, ConflictError, UsageError

if TYPE_CHECKING:
    from git_agentos.checkpoint.open_worktree import OpenWorktree
    from git_agentos.run.events import Run
    from git_agentos.run.spec import RunSpec

_EXIT_CODES = {"passed": 0, "accepted": 0, "interrupted": 130}


class Options(NamedTuple):
    """What a run does. A field has the name of the field of `RunSpec`; None is what the file or the default says."""

    task: TaskId = None
    base_ref: Annotated[
        str | None, Option("--from", metavar="REF", help="Start at REF (default: agentos.runBase or HEAD).")
    ] = None
    agents: Annotated[list[str] | None, Option("--agent", metavar="COMMAND", help="Agent command, run by 'sh -c'.")] = (
        None
    )
    validations: Annotated[
        list[str] | None,
        Option("--validate", metavar="COMMAND", help="Command that must exit 0; repeatable."),
    ] = None
    max_attempts: Annotated[
        str | None, Option("--max-attempts", metavar="N", help="Number of attempts (default: 1).")
    ] = None
    on_failure: Annotated[
        str | None,
        Option("--on-failure", metavar="ACTION", help="After failure: 'keep' (default) or 'rollback'."),
    ] = None
    retry_from: Annotated[
        str | None,
        Option("--retry-from", metavar="STATE", help="Start of the next attempt: 'here' (default) or 'pre_run'."),
    ] = None
    timeout: Annotated[
        str | None, Option("--timeout", metavar="TIME", help="Time limit of each command: 90s, 30m, 2h.")
    ] = None
    protected: Annotated[
        str | None,
        Option("--protected", metavar="PATTERNS", help="Protect these branches, too: 'main,release/*'."),
    ] = None
    guard: Annotated[bool | None, Option("--guard/--no-guard", help="Enable the guard (default).")] = None
    cleanup: Annotated[
        bool | None,
        Option("--cleanup/--no-cleanup", help="Archive worktree and branch after failure or acceptance."),
    ] = None
    run_id: Annotated[str | None, Option("--id", metavar="RUN", help="ID of the run.")] = None
    file: Annotated[
        str | None, Option("--file", metavar="PATH", help="Read the run from a TOML file; options override it.")
    ] = None


@group()
def run(ctx: Invocation) -> None:
    """Run an agent and validate its work.

    Each run has its own worktree and branch, and everything in it is saved. Accept its work or roll it back.
    """


@run.command()
def start(ctx: Invocation, options: Options) -> None:
    """Run an agent in its own worktree, and validate its work.

    The branch is 'agentos/run-RUN'; it starts at --from REF, else at agentos.runBase, else at HEAD. A checkpoint is
    taken before and after each step. Exit codes and the diff decide whether an attempt passes. After a failed attempt
    the next one starts; the file that AGENTOS_FEEDBACK_FILE names describes the failure. No protected branch is
    changed.

    The exit code is 0 if the run passed, 1 if it failed, and 130 if it was interrupted.
    """
    from git_agentos.cli.progress import RunProgress
    from git_agentos.run import commands

    spec = _spec(ctx, options)
    if not spec.guard:
        authorization.authorize_option(ctx, "run", "start", option="--no-guard")
    context = runs_context(ctx)
    with RunProgress(ctx.output) as progress:
        result = commands.start(context, spec, progress)
    _show_result(ctx, result)


@run.command()
def resume(ctx: Invocation, run_id: RunId) -> None:
    """Continue an interrupted run.

    Saves its worktree, resets it to the start of the interrupted step, and continues with that step.
    """
    from git_agentos.cli.progress import RunProgress
    from git_agentos.run import commands

    context = runs_context(ctx)
    with RunProgress(ctx.output) as progress:
        result = commands.resume(context, run_id, progress)
    _show_result(ctx, result)


@run.command()
def cancel(ctx: Invocation, run_id: RunId) -> None:
    """Stop a run permanently.

    Ends all its processes. Keeps or rolls back its worktree, as --on-failure says.
    """
    from git_agentos.run import commands

    result = commands.cancel(runs_context(ctx), run_id)
    ctx.output.show("run", result, lambda _: render.finished(result))


@run.command()
def accept(
    ctx: Invocation,
    run_id: RunId,
    into: Annotated[
        str | None, Option("--into", metavar="BRANCH", help="Merge into BRANCH (default: the run's base).")
    ] = None,
    squash: Squash = False,
    cleanup: Annotated[
        bool | None,
        Option("--cleanup/--no-cleanup", help="Archive worktree and branch afterwards (default: as the run)."),
    ] = None,
) -> None:
    """Merge the work of a run that passed into a branch.

    Not for agents. Merges in memory first, as 'worktree merge' does: if there is a conflict, the exit code is 4 and
    nothing is changed. Validated work that is not committed is committed on the run's branch. Refuses if the validation
    has not passed, if the worktree has changed since, or if 'run verify' reports a problem.
    """
    from git_agentos.run import accept as acceptance

    context = runs_context(ctx)
    authorization.require_operator(ctx, context.location, "accepting a run")
    result, merge = acceptance.accept(context, run_id, into=into, squash=squash, cleanup=cleanup)
    if merge.conflicts:
        ctx.output.show("merge", merge, lambda _: run_end.not_accepted(result, merge))
        raise Exit(ConflictError.exit_code)
    ctx.output.show("run", result, lambda style: run_end.accepted(result, merge, style))


@run.command()
def cleanup(
    ctx: Invocation,
    run_ids: Annotated[list[str] | None, Argument(metavar="[RUN]...")] = None,
    all_: Annotated[bool, Option("--all", help="All runs that have ended.")] = False,
    older_than: Annotated[
        str | None, Option("--older-than", metavar="TIME", help="Only runs that ended that long ago: 12h, 14d.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Archive the worktrees of ended runs, and delete their branches.

    Saves everything in a worktree and every commit of its branch first; 'git agentos worktree create run-RUN --revive'
    restores both. The records of runs are kept. Runs that have not ended are skipped, and so are branches that an
    orchestrator named if their work was not accepted. The exit code is 1 if a named run was skipped.
    """
    from git_agentos.run import cleanup as cleaning

    named = ctx.paths(run_ids)
    context = runs_context(ctx)
    result = cleaning.cleanup(context, named, all_=all_, older_than=older_than, dry_run=dry_run)
    ctx.output.show("run-cleanup", result, lambda style: run_end.cleaned_up(result, style))
    if named and result.kept:
        raise Exit(1)


@run.command()
def list_(ctx: Invocation) -> None:
    """List the runs of the repository, newest first."""
    context = runs_context(ctx)
    if ctx.output.ids_only:
        from git_agentos.run import query

        ids = query.ids(context)
        ctx.output.show("run-list", {}, lambda _: layout.ids(ids))
        return
    from git_agentos.run import commands

    runs = commands.list_runs(context)
    ctx.output.show("run-list", {"runs": runs}, lambda style: render.listing(runs, style))


@run.command()
def show(ctx: Invocation, run_id: RunId) -> None:
    """Show details of a run, step by step."""
    from git_agentos.run import commands

    result = commands.show(runs_context(ctx), run_id)
    ctx.output.show("run", result, lambda style: render.details(result, style))


@run.command()
def logs(
    ctx: Invocation,
    run_id: RunId,
    step: Annotated[str | None, Option("--step", metavar="N", help="Only the output of step N.")] = None,
) -> None:
    """Print the output of each step.

    Each step's standard output comes before its standard error. Secrets were removed before the output was stored.
    """
    from git_agentos.cli.render import json
    from git_agentos.run import commands

    result = commands.logs(runs_context(ctx), run_id, number(step, "--step"))
    fields = {"run_id": run_id, "logs": [json.step_log(*each) for each in result]}
    ctx.output.show("run-logs", fields, lambda style: render.logs(result, style))


@run.command()
def diff(ctx: Invocation, run_id: RunId, stat: Stat = False) -> None:
    """Print the changes of a run as a patch.

    The patch leads from the run's base to the current state of its worktree; of a run that was rolled back, to the
    state before the rollback.
    """
    from git_agentos.run import commands

    patch = commands.diff(runs_context(ctx), run_id)
    fields = {"run_id": run_id, "patch": None if stat else patch.decode("utf-8", "surrogateescape")}
    ctx.output.show("run-diff", fields, lambda style: render.diff(patch, style, stat=stat))


@run.command()
def verify(ctx: Invocation, run_id: RunId) -> None:
    """Verify a run's evidence.

    Checks the codes of its events, every file against the events and the manifest, the manifest against the run's last
    checkpoint, and that the commits that are named exist. The exit code is 1 if there is a problem.
    """
    from git_agentos.run import evidence_store

    context = runs_context(ctx)
    with contextlib.suppress(AgentosError):  # `verify` reports the problem
        evidence_store.open_or_rebuild(context.location, run_id)
    result = evidence_store.verify(context, run_id)
    ctx.output.show("run-verify", result, lambda style: render.verified(result, style))
    if not result.ok:
        raise Exit(1)


def runs_context(ctx: Invocation) -> "OpenWorktree":
    """The context of a command on runs.

    First rebuilds evidence that `git clean -fdx` has removed, and copies evidence into git that has no copy there.
    """
    from git_agentos.run import context as run_context
    from git_agentos.run import evidence_store

    context = ctx.workspace().context
    rebuilt = evidence_store.rebuild_folders(context.location)
    if rebuilt:
        folder = run_context.runs_folder(context.location)
        count = "one run" if len(rebuilt) == 1 else f"{len(rebuilt)} runs"
        evidence_store.warn(f"'{folder}' was missing: the evidence of {count} was rebuilt from git")
    evidence_store.copy_missing(context.location)
    return context


def _spec(ctx: Invocation, options: Options) -> "RunSpec":
    """What the run does; for options that were not given, the file or the default decides."""
    from git_agentos.run import spec

    given = {name: value for name, value in options._asdict().items() if value is not None}
    file, agents, validations = (given.pop(name, None) for name in ("file", "agents", "validations"))
    attempts = given.get("max_attempts", "")
    if attempts.isascii() and attempts.isdigit() and len(attempts) < 10:
        given["max_attempts"] = int(attempts)
    if file is None:
        return spec.from_options(agents or (), validations or (), **given)
    for name, given_commands in (("--agent", agents), ("--validate", validations)):
        if given_commands:
            raise UsageError(f"--file and {name} cannot be used together", "the file defines the steps")
    return spec.from_file(ctx.path(file), **given)


def _show_result(ctx: Invocation, result: "Run") -> None:
    """Show how a run ended, and exit with the code for that."""
    ctx.output.show("run", result, lambda _: render.finished(result))
    raise Exit(_EXIT_CODES.get(result.state, 1))
