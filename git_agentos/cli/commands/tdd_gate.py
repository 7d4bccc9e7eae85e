"""`git agentos tdd gate`: the red and the green gate alone, for other agents and for CI."""

import os
from typing import Annotated

import typer

from git_agentos.cli import quote
from git_agentos.cli.invocation import Invocation, command
from git_agentos.cli.render.text import tdd_gate as text_tdd_gate
from git_agentos.errors import UsageError

_NEW = Annotated[list[str] | None, typer.Argument(metavar="-- TESTS...", show_default=False)]
_TESTS = Annotated[list[str] | None, typer.Argument(metavar="[-- TESTS...]", show_default=False)]
_TIMEOUT = Annotated[
    str | None,
    typer.Option(
        "--test-timeout", metavar="TIME", help="End the tests after this: 90s, 5m; 300s by default.", show_default=False
    ),
]
_SANDBOX = Annotated[
    bool, typer.Option("--sandbox", help="No network, and writes in the worktree alone (needs bubblewrap).")
]
_SECONDS = 300.0
_INTERRUPTED = 130


def register(group: typer.Typer) -> None:
    """Add the command and what is below it."""
    gates = typer.Typer(name="gate", rich_markup_mode=None)
    gates.callback()(gate)
    gates.command("red")(red)
    gates.command("green")(green)
    group.add_typer(gates)


@command
def gate(run: Invocation) -> None:
    """Let the exit code of real tests decide, in any worktree.

    'red' before the code is written, 'green' afterwards; both exit with 0 only where it really is so.
    """


@command
def red(run: Invocation, tests: _NEW = None, test_timeout: _TIMEOUT = None, sandbox: _SANDBOX = False) -> None:
    """Check that new tests fail, and freeze them.

    TESTS are files, folders or node ids, and all that is new. They have to fail, in their own code and not in a fixture
    or while they are imported, and nothing else may fail. All tests, conftests and pytest's configuration are frozen
    then: 'gate green' compares.
    """
    if not tests:
        raise UsageError("no tests given", "git agentos tdd gate red -- TESTS...: those that are new")
    _judge(run, "red", tests, test_timeout, sandbox)


@command
def green(run: Invocation, tests: _TESTS = None, test_timeout: _TIMEOUT = None, sandbox: _SANDBOX = False) -> None:
    """Check that the tests that 'gate red' saw fail pass now, unchanged.

    Without TESTS, all of the project's tests are run; with TESTS, those and the ones that were red. None may fail, each
    that was red has to pass, and nothing that was frozen may have changed. A second, short run tells whether the exit
    code can be believed.
    """
    _judge(run, "green", tests or [], test_timeout, sandbox)


def _judge(run: Invocation, which: str, tests: list[str], timeout: str | None, sandbox: bool) -> None:
    from git_agentos.run.spec import duration
    from git_agentos.run.stop import Stop
    from git_agentos.tdd.gate import command

    seconds = duration(timeout) if timeout is not None else _SECONDS
    context = run.workspace().context
    judged = command.red if which == "red" else command.green
    with Stop(context.location, "gate") as stop:
        found = judged(
            context,
            os.path.abspath(run.directory),
            tests,
            dict(os.environ),
            timeout=seconds,
            sandbox=sandbox,
            show=lambda line: run.output.progress(quote.contents(line)),
            stop=lambda: stop.signal is not None,
        )
    run.output.show("tdd-gate", found, lambda style: text_tdd_gate.judged(found, style))
    if found.interrupted:
        raise typer.Exit(_INTERRUPTED)
    if not found.holds:
        raise typer.Exit(1)
