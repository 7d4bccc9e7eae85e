"""`git agentos guard check`: what would be decided about a command."""

import os
import shutil
from typing import TYPE_CHECKING, Annotated

import typer

from git_agentos.cli import quote
from git_agentos.cli.invocation import Invocation, command
from git_agentos.cli.output import Text
from git_agentos.errors import PolicyError, UsageError
from git_agentos.guard.decision import ALLOW, Decision

if TYPE_CHECKING:
    from git_agentos.guard.call import Call

# Somebody who leaves `git` out means one of these.
_SUBCOMMANDS = frozenset(
    """add am bisect branch checkout cherry-pick clean clone commit config fetch filter-branch gc init log merge prune
    pull push read-tree rebase reflog remote replace reset restore revert stash status submodule switch symbolic-ref tag
    update-ref worktree""".split()
)


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("check")(check)


@command
def check(
    run: Invocation,
    words: Annotated[list[str] | None, typer.Argument(metavar="[-- ARG...]", show_default=False)] = None,
    shell: Annotated[
        str | None, typer.Option("--shell", metavar="TEXT", help="Decide about shell text.", show_default=False)
    ] = None,
) -> None:
    """Say what is decided about a command, and do nothing.

    ARG... is a command line with its program: 'guard check -- git reset --hard'. With --shell, every command that TEXT
    would run is looked at. It is decided for who calls it, in the folder that it is called in: nothing is stopped for
    people. The exit code is 0 where it is allowed, and 3 where it needs approval or is forbidden.
    """
    if (shell is None) == (not words):
        raise UsageError("give a command behind '--', or shell text with --shell")
    from git_agentos.guard import identity
    from git_agentos.guard.assessment import assessor
    from git_agentos.guard.call import Call

    where = os.path.abspath(run.directory)
    who = identity.identify(os.environ, identity.find_git_dir(where), os.getpid(), run.agent)
    call = Call(tuple(words or ()), where, os.environ)
    found = assessor.assess_argv(_with_git(call), who) if shell is None else assessor.assess_text(shell, call, who)
    run.output.show("decision", found.decision, lambda _: worded(found.decision, saved=found.relies_on_checkpoint))
    if found.decision.decision != ALLOW:
        raise typer.Exit(PolicyError.exit_code)


def worded(decision: Decision, *, saved: bool = False) -> Text:
    """A decision in words, and alone under -q; `saved` says that a checkpoint is why it is allowed."""
    lines = [decision.decision + (f": {quote.line(', '.join(decision.operations))}" if decision.operations else "")]
    for name, value in (("why", decision.reason), ("rule", decision.rule), ("instead", decision.instead)):
        if value is not None:
            lines.append(f"  {name}: {quote.line(value)}")
    if saved:
        lines.append("  why: a checkpoint is taken first, and brings it back")
    return Text("".join(f"{line}\n" for line in lines), f"{decision.decision}\n")


def _with_git(call: "Call") -> "Call":
    """`push --force` is meant for `git push --force` where there is no program of that name."""
    name = call.argv[0]
    if name in _SUBCOMMANDS and shutil.which(name) is None:
        return call._replace(argv=("git", *call.argv))
    return call
