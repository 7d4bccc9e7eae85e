"""The options that every command has, and one run of a command.

`@command` gives a function the common options, declared once and accepted at every level of the command
line, before and after the subcommand's name; the function itself gets an `Invocation` in their place.
"""

import inspect
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Concatenate, ParamSpec

import typer

from git_agentos.cli import prescan as argv
from git_agentos.cli.output import Output
from git_agentos.errors import AgentosError, RepositoryError, UsageError

if TYPE_CHECKING:
    from git_agentos.git.scan import Scan
    from git_agentos.workspace import Workspace

P = ParamSpec("P")
# What these do where a restore was interrupted: their errors, their text, say so.
_REFUSES = ("restore", "undo", "rollback", "pick", "recover")
_TELLS_OF_GUARD = ("status", "doctor")
_TELLS_OF_INTERRUPTED = ("status", "doctor")


class Invocation:
    """One run of a command: where, as whom, how to answer; and the workspace, opened when it is asked for."""

    def __init__(self, output: Output, scan: "Scan | None" = None, words: Sequence[str] = ()) -> None:
        self.output = output
        self.words = tuple(words)
        self.agent: str | None = None
        self.directories: list[str] = []
        self.subcommand: str | None = None
        self.after_dashes: list[str] = []
        self._scan = scan
        self._warned = False
        self._guard_checked = False

    @property
    def directory(self) -> str:
        return argv.join(self.directories)

    def workspace(self) -> "Workspace":
        """The workspace at `-C PATH`, acting as `--as ID`."""
        from git_agentos.workspace import open_workspace

        workspace = open_workspace(self.directory, agent=self.agent, scan=self._scan)
        self._scan = None
        self._warn_of_interrupted(workspace)
        self._warn_of_tampering(workspace)
        self._restore_settings(workspace)
        return workspace

    def _warn_of_tampering(self, workspace: "Workspace") -> None:
        """Say that the guard of this worktree was tampered with, and write it to the log, whatever the command is."""
        location = workspace.context.location
        marks = (os.path.join(location.git_dir, "config.worktree"), os.path.join(location.shared_state_dir, "guard"))
        if self._guard_checked or not any(map(os.path.lexists, marks)):
            return
        self._guard_checked = True
        from git_agentos.guard import tampering

        said = tampering.report(location, workspace.agent, os.environ)
        if said is not None and argv.look(self.words).command not in _TELLS_OF_GUARD:
            self.output.warn(said, tampering.HINT)

    def _restore_settings(self, workspace: "Workspace") -> None:
        """Write the settings again by which a harness asks the guard, where somebody has removed them."""
        from git_agentos.guard import signing

        if not os.path.isdir(os.path.join(signing.folder(os.environ), "integrations")):
            return
        from git_agentos.guard.harness import integration

        try:
            for name, path in integration.restore_removed(workspace.context.location.root, os.environ):
                text = f"'{path}' was gone, and {name} did not ask the guard: our hooks were written again"
                self.output.warn(text, f"git agentos guard integrate {name} --remove takes them out")
        except (AgentosError, OSError):
            return  # `doctor` tells it

    def _warn_of_interrupted(self, workspace: "Workspace") -> None:
        """Say that a restore was interrupted here, whatever the command is; some say so themselves, or refuse."""
        command = argv.look(self.words).command
        if self._warned or command in _REFUSES or (command in _TELLS_OF_INTERRUPTED and not self.output.json):
            return
        self._warned = True
        from git_agentos.checkpoint import journal

        try:
            found = journal.interrupted_command(workspace.context.repository.location)
        except RepositoryError as error:
            self.output.warn(error.message, error.hint or "git agentos doctor tells more")
            return
        if found is not None:
            text = f"an interrupted {found} is waiting in this worktree: files may be of the state before or after it"
            self.output.warn(text, "git agentos recover finishes it; git agentos recover --abort goes back")

    def close(self) -> None:
        """Stop a scan that was started in vain."""
        if self._scan is not None:
            self._scan.discard()
            self._scan = None


def show_help(ctx: typer.Context, value: bool) -> None:
    """The callback of `--help`."""
    if not value or ctx.resilient_parsing:
        return
    from git_agentos.cli import command_tree as tree

    path = ctx.command_path.split()[len(tree.PROGRAM) :]
    invocation: Invocation = ctx.obj
    invocation.output.print(tree.help_text(tree.find(path)))
    raise typer.Exit


_DIRECTORY = Annotated[
    list[str] | None, typer.Option("-C", metavar="PATH", help="Work as if started in PATH.", show_default=False)
]
_AGENT = Annotated[str | None, typer.Option("--as", metavar="ID", help="Act as agent ID.", show_default=False)]
_JSON = Annotated[bool, typer.Option("--json", help="Answer with one JSON document on stdout.")]
_QUIET = Annotated[bool, typer.Option("-q", "--quiet", help="Print ids alone, no notes or hints.")]
_HELP = Annotated[
    bool, typer.Option("-h", "--help", help="Show this help.", is_eager=True, expose_value=False, callback=show_help)
]
_COMMON: tuple[tuple[str, object, object], ...] = (
    ("common_directory", _DIRECTORY, None),
    ("common_agent", _AGENT, None),
    ("common_json", _JSON, False),
    ("common_quiet", _QUIET, False),
    ("common_help", _HELP, False),
)
COMMON_NAMES = frozenset(name for name, _, _ in _COMMON)


def command(function: Callable[Concatenate[Invocation, P], None]) -> Callable[..., None]:
    """Give `function` the common options; it is called with the invocation and its own options."""
    own = list(inspect.signature(function).parameters.values())[1:]

    def call(ctx: typer.Context, *args: P.args, **options: P.kwargs) -> None:
        invocation: Invocation = ctx.obj
        common = {name: options.pop(name, None) for name in COMMON_NAMES}
        _merge(invocation, common)
        invocation.subcommand = ctx.invoked_subcommand
        if invocation.subcommand is not None:
            function(invocation, *args, **options)
            return
        from git_agentos.cli import authorization as permission

        with permission.running(ctx, invocation):
            function(invocation, *args, **options)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("ctx", keyword, annotation=typer.Context),
        *(each.replace(kind=keyword) for each in own),
        *(inspect.Parameter(name, keyword, default=default, annotation=kind) for name, kind, default in _COMMON),
    ]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # how typer is told of them
    call.__annotations__ = {}
    call.__name__, call.__doc__ = function.__name__, function.__doc__
    return call


def _merge(invocation: Invocation, common: dict[str, object]) -> None:
    """Add what one level of the command line says; the inner level has the last word, `-C` add up."""
    directories = common["common_directory"]
    if isinstance(directories, list):
        invocation.directories += directories
    if isinstance(common["common_agent"], str):
        invocation.agent = common["common_agent"]
    invocation.output.json = invocation.output.json or bool(common["common_json"])
    invocation.output.quiet = invocation.output.quiet or bool(common["common_quiet"])


def paths_from(invocation: Invocation, paths: list[str] | None) -> list[str]:
    """The PATH arguments, with those behind `--`."""
    return [*(paths or ()), *invocation.after_dashes]


def number(text: str | None, option: str = "-n") -> int | None:
    """The value of an option that takes a number: at most nine digits."""
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    what = "a number of at most nine digits" if text.isdigit() else "a number"
    raise UsageError(f"{option} takes {what}, not '{text if len(text) <= 40 else f'{text[:40]}...'}'")


def has_runs(workspace: "Workspace") -> bool:
    """Whether there was ever a run in the repository; where there was none, nothing of runs is loaded."""
    location = workspace.context.location
    if os.path.isdir(os.path.join(location.shared_state_dir, "runs")):
        return True
    from git_agentos.git import refs

    return bool(refs.list_refs(location, "refs/agentos/runs/", skip_broken=True))


# Options that several commands share.
Agent = Annotated[
    str | None, typer.Option("--agent", metavar="ID", help="Look in the timeline of agent ID.", show_default=False)
]
All = Annotated[bool, typer.Option("--all", help="Look in the timelines of all worktrees.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Limit = Annotated[
    str | None, typer.Option("-n", "--max-count", metavar="N", help="Show at most N checkpoints.", show_default=False)
]
Id = Annotated[str, typer.Argument(metavar="ID")]
