"""`git agentos guard`: check, enable, disable, status, confirm, exec, integrate."""

import os
import shutil
import sys
from typing import TYPE_CHECKING, Annotated

from git_agentos.cli import authorization
from git_agentos.cli.command import COMMAND_LINE, Exit, group
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.options import OptionalId
from git_agentos.cli.parameters import Argument, Option
from git_agentos.cli.render.text import guard as render
from git_agentos.cli.text import Text
from git_agentos.errors import PolicyError, UsageError

if TYPE_CHECKING:
    from git_agentos.guard.call import Call

HarnessName = Annotated[str, Argument(metavar="NAME")]

# `guard check -- push --force` means `git push --force`: the subcommands for which `git` may be left out.
_GIT_SUBCOMMANDS = frozenset(
    """add am bisect branch checkout cherry-pick clean clone commit config fetch filter-branch gc init log merge prune
    pull push read-tree rebase reflog remote replace reset restore revert stash status submodule switch symbolic-ref tag
    update-ref worktree""".split()
)


@group()
def guard(ctx: Invocation) -> None:
    """Save or block what agents' git commands destroy.

    Policy is applied in four places: before git changes files, in git's hooks, in a git that comes first on PATH, and
    in the hooks of agent programs. 'git agentos approvals' lists the commands that wait for a decision.
    """


@guard.command()
def check(
    ctx: Invocation,
    words: Annotated[list[str] | None, Argument(metavar="[-- ARG...]")] = None,
    shell: Annotated[str | None, Option("--shell", metavar="TEXT", help="Check shell text.")] = None,
) -> None:
    """Show whether policy allows a command.

    ARG... is a command line with its program: 'guard check -- git reset --hard'. With --shell, checks every command
    that TEXT would run. The command is not run. It is checked for the caller, in the current folder; people's commands
    are always allowed. The exit code is 0 if the command is allowed, and 3 if it needs approval or is forbidden.
    """
    if (shell is None) == (not words):
        raise UsageError("give a command after '--', or shell text with --shell")
    from git_agentos.guard import identity
    from git_agentos.guard.assessment import assessor
    from git_agentos.guard.call import Call
    from git_agentos.guard.decision import ALLOW

    folder = os.path.abspath(ctx.directory)
    caller = identity.identify(os.environ, identity.find_git_dir(folder), os.getpid(), ctx.agent)
    call = Call(tuple(words or ()), folder, os.environ)
    if shell is None:
        assessment = assessor.assess_argv(_with_git(call), caller)
    else:
        assessment = assessor.assess_text(shell, call, caller)
    decision, saved = assessment.decision, assessment.relies_on_checkpoint
    ctx.output.show("decision", decision, lambda _: render.decision(decision, saved=saved))
    if decision.decision != ALLOW:
        raise Exit(PolicyError.exit_code)


@guard.command()
def enable(ctx: Invocation, id_: OptionalId = None) -> None:
    """Enable the guard in a worktree.

    Sets core.hooksPath and core.fsmonitor for this worktree only, then tests the guard; your own hooks and your own
    fsmonitor still run. 'worktree create' does this. Without ID, guards the current worktree.
    """
    from git_agentos.worktree import guarded

    status = guarded.switch_on(ctx.workspace().context, id_, os.environ)
    ctx.output.show("guard-status", status, lambda style: render.guard(status, style))


@guard.command()
def disable(ctx: Invocation, id_: OptionalId = None) -> None:
    """Disable the guard in a worktree.

    Removes exactly what 'enable' has set. What all guarded worktrees share is removed with the last one. Agents need
    approval for this.
    """
    from git_agentos.worktree import guarded

    status = guarded.switch_off(ctx.workspace().context, id_, os.environ)
    ctx.output.show("guard-status", status, lambda style: render.guard(status, style))


@guard.command()
def status(ctx: Invocation, id_: OptionalId = None) -> None:
    """Test the guard's layers.

    Tests them in the worktree itself, with its configuration and your environment; nothing is changed. Shows why a
    layer does not act and how to fix it, and any tampering with the guard of any worktree of the repository.
    """
    from git_agentos.worktree import guarded

    result = guarded.status(ctx.workspace().context, id_, os.environ)
    ctx.output.show("guard-status", result, lambda style: render.guard(result, style))


@guard.command()
def confirm(
    ctx: Invocation,
    keys: Annotated[list[str] | None, Argument(metavar="[KEY...]")] = None,
    list_: Annotated[bool, Option("--list", help="List pending and confirmed settings; change nothing.")] = False,
) -> None:
    """Confirm settings that make the guard weaker.

    A value of agentos.policy.*, agentos.guard.mode, agentos.protected and similar keys that makes the guard weaker
    applies to agents only after a person has confirmed it; until then the stricter value applies. Confirms all pending
    settings, or only KEY. Not for agents: needs a terminal or agentos.approvalKey.
    """
    from git_agentos.guard.configuration import settings

    if list_ and keys:
        raise UsageError("--list and KEY cannot be used together")
    location = ctx.workspace().context.location
    if list_:
        result = settings.review(location.root, os.environ)
        ctx.output.show("confirm", result, lambda style: render.settings(result, style))
        return
    by = authorization.require_operator(ctx, location, "confirming")
    before = settings.review(location.root, os.environ).pending
    result = settings.confirm(location.root, os.environ, keys or (), by=by)
    confirmed = [each for each in before if each not in result.pending]
    ctx.output.show("confirm", result, lambda style: render.confirmed(result, confirmed, style))


@guard.command(rest=COMMAND_LINE)
def exec_(
    ctx: Invocation,
    words: Annotated[list[str] | None, Argument(metavar="-- COMMAND [ARG...]")] = None,
    wait: Annotated[
        bool, Option("--wait", help="Wait for approval instead of failing when a git command needs it.")
    ] = False,
    sandbox: Annotated[
        bool, Option("--sandbox", help="Other worktrees and the guard are read-only (needs bubblewrap).")
    ] = False,
) -> None:
    """Run a command with the guarded git on PATH.

    The exit code is the command's; a git command that is stopped exits with 3.
    """
    from git_agentos.guard.configuration import settings
    from git_agentos.guard.exec import launch
    from git_agentos.worktree import ports

    command = ctx.paths(words)
    if not command:
        raise UsageError("no command given", "git agentos guard exec -- COMMAND [ARG...]")
    workspace = ctx.workspace()
    location = workspace.context.location
    os.chdir(ctx.directory)
    within: list[str] = []
    if sandbox:
        from git_agentos.guard.exec import sandbox as sandboxes

        key = settings.read(location.root, os.environ).approval_key
        within = sandboxes.bwrap_argv(location, os.environ, key, os.getcwd())
    environment = ports.without(os.environ) | ports.variables_of(location.git_dir)
    start = launch.launch(location, workspace.agent, command, environment, wait=wait, within=within)
    os.execve(start.argv[0], start.argv, start.environment)


@guard.command()
def harness(
    ctx: Invocation,
    name: HarnessName,
    plugin: Annotated[bool, Option("--plugin", help="The hook is a plugin's, not one of the settings.")] = False,
) -> None:
    """Answer a harness's hook: reads its JSON from stdin, writes the answer to stdout.

    NAME is claude-code, codex, gemini, cursor, copilot or opencode. Denies a command that policy stops, an edit of a
    file outside the agent's worktree, and whatever is not understood; creates checkpoints of edits, turns and sessions,
    and the worktrees that the harness asks for. 'guard integrate' adds this to the harness's settings. If the harness
    has it from a plugin as well, each event is handled once.
    """
    from git_agentos.guard.harness import adapters, handler, twins

    adapters.get(name)
    data = sys.stdin.buffer.read() if sys.stdin is not None else b""
    source = twins.PLUGIN if plugin else twins.SETTINGS
    worktrees = handler.Worktrees(_create_worktree, _archive_worktree)
    caller = handler.Caller(os.path.abspath(ctx.directory), os.environ, os.getpid(), ctx.agent, source, worktrees)
    try:
        reply = handler.respond(name, data, caller)
    except Exception as error:  # noqa: BLE001 (most harnesses run a tool if its hook fails)
        from git_agentos.cli import crash

        path = crash.record(error, None)
        reply = handler.refusal(
            name, f"git-agentos: denied: the guard cannot decide: a bug; the traceback is in '{path}'"
        )
    # The format is the harness's, even if --json is given.
    ctx.output.json = False
    notes = (reply.stderr.rstrip("\n"),) if reply.stderr else ()
    ctx.output.show("", {}, lambda _: Text(reply.stdout, reply.stdout, notes=notes))
    if reply.code:
        raise Exit(reply.code)


def _create_worktree(name: str, cwd: str, agent: str) -> str:
    from git_agentos.worktree import of_harness

    return of_harness.create(name, cwd, agent, os.environ)


def _archive_worktree(path: str, agent: str) -> None:
    from git_agentos.worktree import of_harness

    of_harness.archive(path, agent, os.environ)


@guard.command()
def integrate(
    ctx: Invocation,
    name: HarnessName,
    id_: OptionalId = None,
    print_: Annotated[bool, Option("--print", help="Print the settings; change nothing.")] = False,
    user: Annotated[
        bool, Option("--user", help="Use the user's settings, for all folders, not this worktree's.")
    ] = False,
    remove: Annotated[bool, Option("--remove", help="Remove the hooks again.")] = False,
) -> None:
    """Add guard hooks to an agent's settings.

    NAME is claude-code, codex, gemini, cursor, copilot or opencode; ID is the worktree (default: the current one).
    Other settings are kept; --remove restores the file if nobody has edited it since. git ignores the files that are
    written in the worktree.
    """
    from git_agentos.guard.harness import integration

    if print_ and remove:
        raise UsageError("--print and --remove cannot be used together")
    if user and id_ is not None:
        raise UsageError("--user and a worktree's ID cannot be used together")
    root = _settings_root(ctx, id_, user=user, any_folder=print_)
    if print_:
        printed = integration.preview(name, root, os.environ, user=user)
        ctx.output.show("guard-integrate", printed, lambda _: Text(printed.settings or ""))
        return
    change = integration.remove if remove else integration.add
    result = change(name, root, os.environ, user=user)
    ctx.output.show("guard-integrate", result, lambda _: render.integrated(result))


def _settings_root(ctx: Invocation, id_: str | None, *, user: bool, any_folder: bool) -> str:
    """The folder of the settings: a worktree, the home folder, or with `any_folder` the current one."""
    from git_agentos.git import gitfile
    from git_agentos.worktree import guarded

    if user:
        return os.path.expanduser("~")
    if id_ is not None or not any_folder:
        return guarded.find(ctx.workspace().context, id_).root
    found = gitfile.find(ctx.directory)
    return found[0] if found is not None else os.path.abspath(ctx.directory)


def _with_git(call: "Call") -> "Call":
    """Add `git` to `push --force`, unless there is a program `push`."""
    name = call.argv[0]
    if name in _GIT_SUBCOMMANDS and shutil.which(name) is None:
        return call._replace(argv=("git", *call.argv))
    return call
