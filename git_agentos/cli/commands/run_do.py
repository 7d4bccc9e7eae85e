"""`git agentos run`: start, resume, cancel, accept."""

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from git_agentos.cli import authorization as permission
from git_agentos.cli.invocation import DryRun, Invocation, command
from git_agentos.cli.render.text import run as text_run
from git_agentos.cli.render.text import run_cleanup as text_run_end
from git_agentos.errors import ConflictError, UsageError
from git_agentos.run import evidence_store

if TYPE_CHECKING:
    from git_agentos.checkpoint.open_worktree import OpenWorktree
    from git_agentos.run.events import Run
    from git_agentos.run.spec import RunSpec

RunId = Annotated[str, typer.Argument(metavar="RUN")]
CleanUp = Annotated[
    bool | None,
    typer.Option("--cleanup/--no-cleanup", help="Archive worktree and branch once it failed or is accepted."),
]


def register(group: typer.Typer) -> None:
    """Add the commands."""
    group.command("start")(start)
    group.command("resume")(resume)
    group.command("cancel")(cancel)
    group.command("accept")(accept)
    group.command("cleanup")(cleanup)


@command
def start(
    run: Invocation,
    task: Annotated[
        str | None, typer.Option("--task", metavar="TASK", help="What it is for, in your tracker.", show_default=False)
    ] = None,
    from_ref: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="REF", help="Begin at this commit, not at agentos.runBase or HEAD.", show_default=False
        ),
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            "--agent", metavar="COMMAND", help="The agent: shell text, run in the worktree.", show_default=False
        ),
    ] = None,
    validate: Annotated[
        list[str] | None,
        typer.Option(
            "--validate",
            metavar="COMMAND",
            help="Exits with 0 where the work is good; may be repeated, and all have to.",
            show_default=False,
        ),
    ] = None,
    max_attempts: Annotated[
        str | None,
        typer.Option("--max-attempts", metavar="N", help="Try at most N times; 1 by default.", show_default=False),
    ] = None,
    on_failure: Annotated[
        str | None,
        typer.Option(
            "--on-failure",
            metavar="WHAT",
            help="'rollback': take everything back where it fails; 'keep', the default: leave it.",
            show_default=False,
        ),
    ] = None,
    retry_from: Annotated[
        str | None,
        typer.Option(
            "--retry-from",
            metavar="WHERE",
            help="Try again from 'here', the default, or from 'pre_run'.",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout", metavar="TIME", help="End a command that takes longer: 90s, 30m, 2h.", show_default=False
        ),
    ] = None,
    protected: Annotated[
        str | None,
        typer.Option(
            "--protected",
            metavar="PATTERNS",
            help="Protect these branches too: 'main,release/*'.",
            show_default=False,
        ),
    ] = None,
    guard: Annotated[bool | None, typer.Option("--guard/--no-guard", help="Guard it, which is the default.")] = None,
    cleanup: CleanUp = None,
    run_id: Annotated[
        str | None, typer.Option("--id", metavar="RUN", help="What to call the run.", show_default=False)
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="PATH", help="Take it from this file in TOML; options win.", show_default=False),
    ] = None,
) -> None:
    """Run an agent in a worktree of its own, and validate its work.

    The branch is 'agentos/run-RUN', at a commit: what --from names, else agentos.runBase, else HEAD. A checkpoint is
    taken before and after each step; exit codes and the diff decide how it went. A failed attempt is followed by the
    next, which finds in the file that AGENTOS_FEEDBACK_FILE names what was wrong. No protected branch is touched.

    The exit code is 0 where the run passed, 1 where it failed, 130 where it was interrupted.
    """
    from git_agentos.run import commands

    spec = _spec(
        run,
        file,
        agent or [],
        validate or [],
        task=task,
        base_ref=from_ref,
        max_attempts=max_attempts,
        on_failure=on_failure,
        retry_from=retry_from,
        timeout=timeout,
        protected=protected,
        guard=guard,
        cleanup=cleanup,
        run_id=run_id,
    )
    if not spec.guard:
        permission.ask(run, "run", "start", option="--no-guard")
    context = records(run)
    with _progress(run) as watcher:
        ended = commands.start(context, spec, watcher)
    _end(run, ended)


@command
def resume(run: Invocation, run_id: RunId) -> None:
    """Go on with an interrupted run, at the step that it was in.

    Its worktree is set to where that step began; what was there is saved first.
    """
    from git_agentos.run import commands

    context = records(run)
    with _progress(run) as watcher:
        ended = commands.resume(context, run_id, watcher)
    _end(run, ended)


@command
def cancel(run: Invocation, run_id: RunId) -> None:
    """End a run that is at work or interrupted, for good.

    All its processes are ended. Its worktree is left as --on-failure said: with what was done, or taken back.
    """
    from git_agentos.run import commands

    done = commands.cancel(records(run), run_id)
    run.output.show("run", done, lambda _: text_run.ended(done))


@command
def accept(
    run: Invocation,
    run_id: RunId,
    into: Annotated[
        str | None,
        typer.Option(
            "--into", metavar="BRANCH", help="Merge into this branch, not into its base's.", show_default=False
        ),
    ] = None,
    squash: Annotated[bool, typer.Option("--squash", help="Make one commit of everything.")] = False,
    cleanup: Annotated[
        bool | None,
        typer.Option(
            "--cleanup/--no-cleanup", help="Archive worktree and branch afterwards; as the run says if unset."
        ),
    ] = None,
) -> None:
    """Merge the work of a run that passed into a branch.

    Not for agents. It is merged as 'worktree merge' does, in memory first: with a conflict, the exit code is 4 and
    nothing was changed. What was validated and not committed is committed on the run's branch. Refuses where validation
    has not passed, where the worktree is not as it was validated, and where 'run verify' finds anything.
    """
    from git_agentos.run import accept as accepting

    context = records(run)
    permission.require(run, context.location, "accepting a run")
    done, merged = accepting.accept(context, run_id, into=into, squash=squash, cleanup=cleanup)
    if merged.conflicts:
        run.output.show("merge", merged, lambda _: text_run.not_accepted(done, merged))
        raise typer.Exit(ConflictError.exit_code)
    run.output.show("run", done, lambda style: text_run.accepted(done, merged, style))


@command
def cleanup(
    run: Invocation,
    run_ids: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", show_default=False)] = None,
    all_: Annotated[bool, typer.Option("--all", help="All runs that have ended.")] = False,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="TIME", help="Only what ended that long ago: 12h, 14d.", show_default=False
        ),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Archive the worktrees of ended runs, and delete their branches.

    Everything in a worktree is saved before it goes, and every commit of its branch: 'git agentos worktree create
    run-RUN --revive' brings both back. What is known of a run stays, and so do runs that have not ended, and branches
    that an orchestrator has named and whose work was not accepted. The exit code is 1 where a named run was left.
    """
    from git_agentos.run import cleanup as cleaning

    wanted = [*(run_ids or ()), *run.after_dashes]
    context = records(run)
    done = cleaning.cleanup(context, wanted, all_=all_, older_than=older_than, dry_run=dry_run)
    run.output.show("run-cleanup", done, lambda style: text_run_end.cleaned(done, style))
    if wanted and done.kept:
        raise typer.Exit(1)


def records(run: Invocation) -> "OpenWorktree":
    """Where the command works. Evidence that `git clean -fdx` has taken is made again first, and what has no copy in
    git gets one."""

    context = run.workspace().context
    done = evidence_store.rebuild_folders(context.location)
    if done:
        folder = evidence_store.runs_folder(context.location)
        what = "one run" if len(done) == 1 else f"{len(done)} runs"
        evidence_store.warn(f"'{folder}' was gone: the evidence of {what} was made again from git")
    evidence_store.copy_missing(context.location)
    return context


def _spec(run: Invocation, file: str | None, agents: list[str], validations: list[str], **options: Any) -> "RunSpec":
    """What is to be done; of options that were not given, the file or the default decides."""
    from git_agentos.run import spec

    given = {name: value for name, value in options.items() if value is not None}
    attempts = given.get("max_attempts", "")
    if attempts.isascii() and attempts.isdigit() and len(attempts) < 10:
        given["max_attempts"] = int(attempts)
    if file is None:
        return spec.from_options(agents, validations, **given)
    for name, commands in (("--agent", agents), ("--validate", validations)):
        if commands:
            raise UsageError(f"--file and {name} cannot be used together", "the steps are those of the file")
    return spec.from_file(os.path.join(run.directory, file), **given)


def _progress(run: Invocation) -> Any:
    from git_agentos.cli.status_line import Progress

    return Progress(run.output)


def _end(run: Invocation, ended: "Run") -> None:
    """Show how a run has ended; the exit code says it too."""
    run.output.show("run", ended, lambda _: text_run.ended(ended))
    code = {"passed": 0, "accepted": 0, "interrupted": 130}.get(ended.state, 1)
    if code:
        raise typer.Exit(code)
