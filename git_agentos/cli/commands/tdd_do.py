"""`git agentos tdd`: run, resume, approve, abort."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from git_agentos.cli import authorization as permission
from git_agentos.cli.invocation import Invocation, command
from git_agentos.cli.render.text import tdd as text_tdd
from git_agentos.errors import ConflictError, PolicyError, UsageError

if TYPE_CHECKING:
    from git_agentos.checkpoint.open_worktree import OpenWorktree
    from git_agentos.cli.progress import Walk
    from git_agentos.tdd.state import Workflow

WorkflowId = Annotated[str, typer.Argument(metavar="ID")]


def register(group: typer.Typer) -> None:
    """Add the commands."""
    group.command("run")(run_)
    group.command("resume")(resume)
    group.command("approve")(approve)
    group.command("abort")(abort)


@command
def run_(
    run: Invocation,
    tests: Annotated[list[str] | None, typer.Argument(metavar="[-- TESTS...]", show_default=False)] = None,
    issue: Annotated[
        str | None,
        typer.Option("--issue", metavar="ISSUE", help="What it is for, in your tracker.", show_default=False),
    ] = None,
    lld: Annotated[
        str | None,
        typer.Option("--lld", metavar="PATH", help="The design document: what is to be built.", show_default=False),
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--context", metavar="PATH", help="A file that the model is shown; may be repeated.", show_default=False
        ),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent",
            metavar="MODEL",
            help="Who writes: 'mock', 'command:SHELL TEXT' or 'model:PROVIDER:NAME'.",
            show_default=False,
        ),
    ] = None,
    into: Annotated[
        str | None,
        typer.Option(
            "--into", metavar="BRANCH", help="Merge into this branch, not into the one you are on.", show_default=False
        ),
    ] = None,
    test_timeout: Annotated[
        str, typer.Option("--test-timeout", metavar="TIME", help="End the tests after this: 90s, 5m; 300s by default.")
    ] = "300s",
    sandbox: Annotated[
        bool, typer.Option("--sandbox", help="Tests have no network, and write in the worktree alone.")
    ] = False,
    agreed: Annotated[
        bool, typer.Option("--yes-data-policy", help="Agree to what will be sent to whom, without being asked.")
    ] = False,
) -> None:
    """Have tests written, then the code that they ask for.

    It is merged when you agree. All of it happens in a worktree of its own, on the branch 'feat/issue-ISSUE'. Nothing
    is made, and nothing sent, before the files of --lld and --context are checked and you have agreed to send them.
    With TESTS..., these are run, and not what the project's configuration says.

    The exit code is 0 where it was merged or aborted, 3 where it waits for a decision, 4 where it conflicts with the
    branch, 130 where it was interrupted.
    """
    for name, value in (("--issue ISSUE", issue), ("--lld PATH", lld)):
        if not value:
            raise UsageError(f"give {name}")
    from git_agentos.run import spec
    from git_agentos.tdd import workflows

    context = records(run)
    here = os.path.relpath(os.path.realpath(run.directory), os.path.realpath(context.location.root))
    order = workflows.Order(
        issue_id=issue or "",
        lld=_from_root(here, lld or ""),
        context=tuple(_from_root(here, each) for each in files or ()),
        agent=_agent(run, agent),
        into=into,
        test_timeout=spec.duration(test_timeout),
        sandbox=sandbox,
        tests=tuple(tests or ()),
    )
    with _walk(run) as watcher:
        ended = workflows.start(context, order, os.environ, watcher, consent=_consent(run, watcher, agreed=agreed))
    _end(run, ended)


@command
def resume(
    run: Invocation,
    workflow: WorkflowId,
    retry: Annotated[bool, typer.Option("--retry", help="Give one that waits for a decision another round.")] = False,
) -> None:
    """Go on with a workflow that was interrupted, at the node that it was in.

    No node that was finished is done again. One that waits for a decision asks for it; --retry is such a decision, and
    not an agent's.
    """
    from git_agentos.tdd import workflows

    context = records(run)
    with _walk(run) as watcher:
        ended = workflows.resume(context, workflow, os.environ, watcher, retry=retry)
    _end(run, ended)


@command
def approve(run: Invocation, workflow: WorkflowId) -> None:
    """Merge the work of a workflow that waits and is green.

    Not for agents: it takes a terminal, or agentos.approvalKey. Where it conflicts with the branch, nothing is merged,
    it waits again, and the exit code is 4.
    """
    context = records(run)
    permission.require(run, context.location, "approving a workflow")
    _decide(run, context, workflow, "approve")


@command
def abort(run: Invocation, workflow: WorkflowId) -> None:
    """End a workflow without merging it.

    Its worktree and branch are removed, after a checkpoint of everything. An agent needs approval for this.
    """
    _decide(run, records(run), workflow, "abort")


def _decide(run: Invocation, context: "OpenWorktree", workflow: str, word: str) -> None:
    from git_agentos.tdd import workflows

    with _walk(run, asks=False) as watcher:
        ended = workflows.decide(context, workflow, word, os.environ, watcher)
    _end(run, ended, wanted=word)


def _from_root(here: str, path: str) -> str:
    """A path that is meant relative to the folder `here` of the worktree, relative to the worktree's root. What leads
    out of it goes on to do so."""
    return path if here == "." or os.path.isabs(path) else os.path.normpath(os.path.join(here, path))


def _agent(run: Invocation, agent: str | None) -> str | None:
    """The agent's name; the file of a mock's script is meant relative to where one is told to work."""
    kind, _, script = (agent or "").partition(":")
    return f"mock:{os.path.abspath(os.path.join(run.directory, script))}" if kind == "mock" and script else agent


def _walk(run: Invocation, *, asks: bool = True) -> "Walk":
    from git_agentos.cli.progress import Walk

    return Walk(run, asks=asks)


def _consent(run: Invocation, watcher: "Walk", *, agreed: bool) -> Callable[[Sequence[str]], None]:
    """Shows the data policy, and wants a yes to it."""

    def consent(lines: Sequence[str]) -> None:
        for line in text_tdd.policy(lines):
            watcher.say(line)
        if agreed:
            return
        if not run.output.can_ask():
            raise PolicyError(
                "nobody has agreed to what would be sent, and there is no terminal to ask at: nothing was made or sent",
                "--yes-data-policy agrees to it; in a terminal, without --json and -q, it is shown and asked",
            )
        if run.output.ask(text_tdd.CONSENT) != "yes":
            raise PolicyError("you did not agree to what would be sent: nothing was made or sent")

    return consent


def _end(run: Invocation, ended: "Workflow", *, wanted: str | None = None) -> None:
    """Show how a workflow stands now; the exit code says it too."""
    run.output.show("tdd", ended, lambda style: text_tdd.ended(ended, style))
    code = _code(ended, wanted)
    if code:
        raise typer.Exit(code)


def _code(ended: "Workflow", wanted: str | None) -> int:
    if ended.state in ("merged", "aborted"):
        return 0
    if ended.interrupted_by:
        return 130
    if ended.state == "waiting":
        waits = PolicyError.exit_code if wanted is None else 1
        return ConflictError.exit_code if ended.conflicts else waits
    return 1


def records(run: Invocation) -> "OpenWorktree":
    """Where the command works. What `git clean -fdx` has taken of workflows is made again first."""
    from git_agentos.cli.commands import run_do
    from git_agentos.run import evidence_store
    from git_agentos.tdd import state_copies

    context = run_do.records(run)
    done = state_copies.bring_back(context, every=True)
    if done:
        what = "one workflow" if len(done) == 1 else f"{len(done)} workflows"
        evidence_store.warn(f"the state of {what} was gone: it was made again from git")
    state_copies.copy_missing(context.location)
    return context
