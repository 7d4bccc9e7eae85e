"""`git agentos tdd`: start, decide and inspect workflows; `tdd gate`."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

from git_agentos.cli import authorization
from git_agentos.cli.command import Exit, group
from git_agentos.cli.commands.run import runs_context
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.options import Html
from git_agentos.cli.parameters import Argument, Option
from git_agentos.cli.render.text import layout
from git_agentos.cli.render.text import tdd as render
from git_agentos.errors import ConflictError, PolicyError, UsageError
from git_agentos.util import quote

if TYPE_CHECKING:
    from git_agentos.checkpoint.open_worktree import OpenWorktree
    from git_agentos.cli.progress import WorkflowProgress
    from git_agentos.tdd.state import Workflow

WorkflowId = Annotated[str, Argument(metavar="ID")]
TestTimeout = Annotated[
    str, Option("--test-timeout", metavar="TIME", help="Time limit of tests: 90s, 5m (default: 300s).")
]
Sandbox = Annotated[bool, Option("--sandbox", help="Tests have no network, and write only in the worktree.")]
_INTERRUPTED = 130


class Options(NamedTuple):
    """What a workflow builds, and how."""

    issue: Annotated[str | None, Option("--issue", metavar="ISSUE", help="Issue ID to record.")] = None
    lld: Annotated[str | None, Option("--lld", metavar="PATH", help="Design document: what is to be built.")] = None
    files: Annotated[
        list[str] | None, Option("--context", metavar="PATH", help="File to show the model; repeatable.")
    ] = None
    agent: Annotated[
        str | None,
        Option("--agent", metavar="MODEL", help="Author: 'mock', 'command:SHELL TEXT' or 'model:PROVIDER:NAME'."),
    ] = None
    into: Annotated[
        str | None, Option("--into", metavar="BRANCH", help="Merge into BRANCH (default: the current one).")
    ] = None
    test_timeout: TestTimeout = "300s"
    sandbox: Sandbox = False
    accepts_policy: Annotated[bool, Option("--yes-data-policy", help="Accept the data policy without a prompt.")] = (
        False
    )


class GateOptions(NamedTuple):
    """How `tdd gate` runs tests."""

    test_timeout: TestTimeout = "300s"
    sandbox: Sandbox = False


@group()
def tdd(ctx: Invocation) -> None:
    """Have a model write tests, then code.

    The model writes tests first, and code only after the tests have failed. The work is merged after the tests have
    passed and you have approved it. Exit codes decide whether tests passed; no model is asked.
    """


@tdd.command()
def run_(
    ctx: Invocation,
    tests: Annotated[list[str] | None, Argument(metavar="[-- TESTS...]")] = None,
    *,
    options: Options,
) -> None:
    """Start a workflow: tests, then code, then a merge.

    The workflow has its own worktree, on the branch 'feat/issue-ISSUE', and is merged when you approve it. Before
    anything is created or sent, the files of --lld and --context are checked, and you have to accept the data policy.
    Runs TESTS... instead of the tests in the project's configuration.

    The exit code is 0 if the workflow was merged or aborted, 3 if it waits for a decision, 4 if it conflicts with the
    branch, and 130 if it was interrupted.
    """
    for name, value in (("--issue ISSUE", options.issue), ("--lld PATH", options.lld)):
        if not value:
            raise UsageError(f"give {name}")
    from git_agentos.run import spec
    from git_agentos.tdd import workflows

    context = workflows_context(ctx)
    folder = os.path.relpath(os.path.realpath(ctx.directory), os.path.realpath(context.location.root))
    order = workflows.WorkflowSpec(
        issue_id=options.issue or "",
        lld=_from_root(folder, options.lld or ""),
        context=tuple(_from_root(folder, each) for each in options.files or ()),
        agent=_agent(ctx, options.agent),
        into=options.into,
        test_timeout=spec.duration(options.test_timeout),
        sandbox=options.sandbox,
        tests=tuple(tests or ()),
    )
    with _progress(ctx) as progress:
        consent = _consent(ctx, progress, accepted=options.accepts_policy)
        workflow = workflows.start(context, order, os.environ, progress, consent=consent)
    _show_result(ctx, workflow)


@tdd.command()
def resume(
    ctx: Invocation,
    id_: WorkflowId,
    retry: Annotated[bool, Option("--retry", help="Retry a waiting workflow.")] = False,
) -> None:
    """Continue an interrupted workflow.

    Continues with the node that was interrupted; finished nodes are not repeated. If the workflow waits for a decision,
    asks for it. --retry is such a decision, and not for agents.
    """
    from git_agentos.tdd import workflows

    context = workflows_context(ctx)
    with _progress(ctx) as progress:
        workflow = workflows.resume(context, id_, os.environ, progress, retry=retry)
    _show_result(ctx, workflow)


@tdd.command()
def approve(ctx: Invocation, id_: WorkflowId) -> None:
    """Merge a workflow whose tests pass.

    Not for agents: needs a terminal or agentos.approvalKey. If it conflicts with the branch, nothing is merged, the
    workflow waits again, and the exit code is 4.
    """
    context = workflows_context(ctx)
    authorization.require_operator(ctx, context.location, "approving a workflow")
    _decide(ctx, context, id_, "approve")


@tdd.command()
def abort(ctx: Invocation, id_: WorkflowId) -> None:
    """End a workflow without merging it.

    Creates a checkpoint of everything, then removes its worktree and branch. Agents need approval for this.
    """
    _decide(ctx, workflows_context(ctx), id_, "abort")


@tdd.command()
def status(ctx: Invocation, id_: Annotated[str | None, Argument(metavar="[ID]")] = None) -> None:
    """Show the state of a workflow, and the next steps.

    Without ID, shows the only unfinished workflow, or the newest if all are finished.
    """
    from git_agentos.tdd import query

    context = workflows_context(ctx)
    workflow = query.show_default(context, os.environ) if id_ is None else query.show(context, id_, os.environ)
    ctx.output.show("tdd", workflow, lambda style: render.status(workflow, style))


@tdd.command()
def show(ctx: Invocation, id_: WorkflowId, html: Html = None) -> None:
    """Show the history and the changes of a workflow.

    Shows each node with its exit code, vetoes, hashes, checkpoints, output and changes, and the whole change. With
    --html, writes one page that needs no network.
    """
    from git_agentos.tdd import query

    context = workflows_context(ctx)
    review = query.review(context, id_, os.environ)
    workflow = review.workflow
    results = render.NodeOutputs(
        outputs={each["n"]: query.output(context, workflow, each) for each in workflow.history},
        patches={each["n"]: query.patch(context, workflow, each) for each in workflow.history},
    )
    if html is None:
        ctx.output.show("tdd", workflow, lambda style: render.details(review, results, style))
        return
    from git_agentos.cli.render.html import page
    from git_agentos.cli.render.html import workflow as pages

    path = page.write(ctx.path(html), pages.workflow(query.without_secrets(context, review), results))
    ctx.output.show("tdd", workflow, lambda _: render.page_written(workflow, path))


@tdd.command()
def list_(
    ctx: Invocation,
    all_clones: Annotated[bool, Option("--all", help="Include workflows of other clones.")] = False,
) -> None:
    """List the workflows of the repository, newest first.

    With --all, also lists those of other clones and machines that share the database.
    """
    context = workflows_context(ctx)
    if ctx.output.ids_only and not all_clones:
        # Without LangGraph, which takes long to import: a workflow is a run with the same id.
        from git_agentos.run import commands

        ids = [each.run_id for each in commands.list_runs(context) if each.tool == "tdd"]
        ctx.output.show("tdd-list", {}, lambda _: layout.ids(ids))
        return
    from git_agentos.tdd import query

    result = query.list_workflows(context, os.environ, everywhere=all_clones)
    ctx.output.show("tdd-list", {"workflows": result}, lambda style: render.listing(result, style))


@tdd.command()
def graph(ctx: Invocation) -> None:
    """Print the graph of a workflow as Mermaid, generated from the code."""
    from git_agentos.tdd.graph import mermaid

    diagram = mermaid()
    ctx.output.show("tdd-graph", {"mermaid": diagram}, lambda _: render.graph(diagram))


@tdd.group()
def gate(ctx: Invocation) -> None:
    """Check that new tests fail (red), then pass (green).

    Works in any worktree. Run 'red' before the code is written and 'green' after it; both exit with 0 only if the
    condition holds.
    """


@gate.command()
def red(
    ctx: Invocation,
    tests: Annotated[list[str] | None, Argument(metavar="-- TESTS...")] = None,
    *,
    options: GateOptions,
) -> None:
    """Check that new tests fail, and freeze them.

    TESTS are the files, folders or node ids of all new tests. They must fail in their own code, not in a fixture or
    during import, and no other test may fail. Then all tests, conftests and pytest's configuration are frozen: 'gate
    green' checks that they have not changed.
    """
    if not tests:
        raise UsageError("no tests given", "name the new tests: git agentos tdd gate red -- TESTS...")
    _check_gate(ctx, "red", tests, options)


@gate.command()
def green(
    ctx: Invocation,
    tests: Annotated[list[str] | None, Argument(metavar="[-- TESTS...]")] = None,
    *,
    options: GateOptions,
) -> None:
    """Check that the tests that failed at 'gate red' now pass, unchanged.

    Without TESTS, runs all tests of the project; with TESTS, runs those and the ones that were red. No test may fail,
    each test that was red must pass, and nothing that was frozen may have changed. A second, short run checks that the
    exit code can be trusted.
    """
    _check_gate(ctx, "green", tests or [], options)


def workflows_context(ctx: Invocation) -> "OpenWorktree":
    """The context of a command on workflows; first rebuilds state that `git clean -fdx` has removed."""
    from git_agentos.run import evidence_store
    from git_agentos.tdd import state_copies

    context = runs_context(ctx)
    rebuilt = state_copies.restore_missing(context, every=True)
    if rebuilt:
        count = "one workflow" if len(rebuilt) == 1 else f"{len(rebuilt)} workflows"
        evidence_store.warn(f"the state of {count} was missing: it was rebuilt from git")
    state_copies.copy_missing(context.location)
    return context


def _progress(ctx: Invocation, *, asks: bool = True) -> "WorkflowProgress":
    from git_agentos.cli.progress import WorkflowProgress

    return WorkflowProgress(ctx, asks=asks)


def _decide(ctx: Invocation, context: "OpenWorktree", id_: str, decision: str) -> None:
    from git_agentos.tdd import workflows

    with _progress(ctx, asks=False) as progress:
        workflow = workflows.decide(context, id_, decision, os.environ, progress)
    _show_result(ctx, workflow, requested=decision)


def _from_root(folder: str, path: str) -> str:
    """A path relative to `folder` of the worktree as one relative to the root; it may lead out of the worktree."""
    return path if folder == "." or os.path.isabs(path) else os.path.normpath(os.path.join(folder, path))


def _agent(ctx: Invocation, agent: str | None) -> str | None:
    """The agent's name; the path of a mock's script is relative to `-C PATH`."""
    kind, _, script = (agent or "").partition(":")
    return f"mock:{os.path.abspath(ctx.path(script))}" if kind == "mock" and script else agent


def _consent(ctx: Invocation, progress: "WorkflowProgress", *, accepted: bool) -> Callable[[Sequence[str]], None]:
    """Show the data policy and ask whether it is accepted."""

    def consent(lines: Sequence[str]) -> None:
        for line in render.policy(lines):
            progress.print(line)
        if accepted:
            return
        if not ctx.output.is_interactive():
            raise PolicyError(
                "the data policy was not accepted, and there is no terminal for a prompt: nothing was created or sent",
                "--yes-data-policy accepts it; in a terminal, without --json and -q, you are asked",
            )
        if ctx.output.prompt(render.CONSENT) != "yes":
            raise PolicyError("you did not accept the data policy: nothing was created or sent")

    return consent


def _show_result(ctx: Invocation, workflow: "Workflow", *, requested: str | None = None) -> None:
    """Show the state of a workflow, and exit with the code for it."""
    ctx.output.show("tdd", workflow, lambda style: render.finished(workflow, style))
    raise Exit(_exit_code(workflow, requested))


def _exit_code(workflow: "Workflow", requested: str | None) -> int:
    if workflow.state in ("merged", "aborted"):
        return 0
    if workflow.interrupted_by:
        return _INTERRUPTED
    if workflow.state != "waiting":
        return 1
    if workflow.conflicts:
        return ConflictError.exit_code
    return PolicyError.exit_code if requested is None else 1


def _check_gate(ctx: Invocation, name: str, tests: list[str], options: GateOptions) -> None:
    from git_agentos.run.lock import Stop
    from git_agentos.run.spec import duration
    from git_agentos.tdd.gate import command
    from git_agentos.tdd.gate.pytest_run import Control

    timeout = duration(options.test_timeout)
    context = ctx.workspace().context
    check = command.red if name == "red" else command.green
    with Stop(context.location, "gate") as stop:
        control = Control(
            show=lambda line: ctx.output.progress(quote.contents(line)), stop=lambda: stop.signal is not None
        )
        gate_options = command.GateOptions(dict(os.environ), timeout, options.sandbox, control)
        result = check(context, os.path.abspath(ctx.directory), tests, gate_options)
    ctx.output.show("tdd-gate", result, lambda style: render.gate(result, style))
    if result.interrupted:
        raise Exit(_INTERRUPTED)
    if not result.holds:
        raise Exit(1)
