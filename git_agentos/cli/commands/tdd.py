"""`git agentos tdd`: tests come first, exit codes decide, a person agrees."""

import typer

from git_agentos.cli.commands import tdd_do, tdd_gate, tdd_look
from git_agentos.cli.invocation import Invocation, command


def register(app: typer.Typer) -> None:
    """Add the command and what is below it."""
    group = typer.Typer(name="tdd", rich_markup_mode=None)
    group.callback()(tdd)
    for module in (tdd_do, tdd_look, tdd_gate):
        module.register(group)
    app.add_typer(group)


@command
def tdd(run: Invocation) -> None:
    """Have code written that real tests ask for; merge it.

    A model writes tests, and code only after they have really failed. It is merged after they have really passed, and
    you have agreed. Exit codes decide; no model is ever asked whether tests passed.
    """
