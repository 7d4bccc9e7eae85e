"""The recorders: checkpoints after or before a git command. They never stop it.

    post-commit, post-merge, post-rewrite   after_commit     agentos.auto.afterCommit
    post-checkout                           after_checkout   agentos.auto.afterCommit
    pre-commit                              pre_commit       agentos.auto.beforeRisky
    a merge, before it changes a file       before_merge     agentos.auto.beforeMerge
    an agent's push to the stash            before_risky     agentos.auto.beforeRisky

A command does not wait for the post-… recorders: the hook writes a note and starts them in the background (`pending`).
Errors are printed once (those of background processes by the next hook) and written to the log; git continues.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence

from git_agentos.errors import AgentosError
from git_agentos.git.location import Location
from git_agentos.git.scan import Scan
from git_agentos.guard import identity, messages, ownership
from git_agentos.guard.call import Call
from git_agentos.guard.configuration import settings as settings_
from git_agentos.guard.decision import SaveScope
from git_agentos.guard.setup import scripts
from git_agentos.hooks import CONTINUE, HookCall, git_command, output
from git_agentos.hooks.git_command import GitCommand
from git_agentos.process import table

_AFTER = {
    "post-commit": ("after_commit", "after a commit"),
    "post-merge": ("after_commit", "after a merge"),
    "post-rewrite": ("after_commit", "after a rebase"),
    "post-checkout": ("after_checkout", "after a checkout"),
}


def record_noted(location: Location, hook: str, agent: str, argv: tuple[str, ...]) -> None:
    """Create the checkpoint after a command that has ended; `agent` is empty for a person. If a watch daemon is wanted
    and none runs, start one."""
    trigger, description = _AFTER.get(hook, _AFTER["post-commit"])
    environment = {key: value for key, value in os.environ.items() if key != "AGENTOS_AGENT_ID"}
    if agent:
        environment["AGENTOS_AGENT_ID"] = agent
    who = identity.identify(environment, location.git_dir, None)
    call = Call(argv, location.root, environment)
    try:
        settings = settings_.read(location.root, environment)
    except AgentosError as error:
        output.warn_later(scripts.folder(location.common_dir), f"no checkpoint {description}: {error}")
        return
    if settings.auto_on("afterCommit"):
        made = GitCommand(table.own_pid(), table.own_pid(), call, who, settings, location, location.common_dir)
        _record(made, trigger, description, warn=output.warn_later)
    from git_agentos.watch import automatic

    automatic.keep_running(location, settings.values, os.environ)


def new_worktree(hook: HookCall) -> int:
    """Record which agent created a worktree by `git worktree add`: it is the agent's own. Add our hooks to the settings
    of harnesses in it, if `init` does so in every worktree."""
    command = git_command.read(hook.pid)
    location = command.location
    if location is None or location.is_main:
        return CONTINUE
    if command.who.agent is not None:
        caller = ownership.Caller(command.who, command.call.environment, command.call.cwd, table.own_pid())
        ownership.record_maker(caller, location.git_dir)
    from git_agentos.guard.harness import later_worktrees

    for problem in later_worktrees.integrate(location, os.environ):
        output.to_stderr(f"git-agentos: {problem}")
    return CONTINUE


def stash(hook: HookCall) -> int:
    """Before an agent's `git stash push` clears its files: record who pushed the commit (`args`), and create a
    checkpoint that keeps the commit even if the entry is dropped."""
    command = git_command.read(hook.pid)
    location, commit = command.location, hook.args[0]
    if location is None or command.who.agent is None:
        return CONTINUE
    from git_agentos.guard.policy.commands import stash as entries

    listed = entries.listed(location.common_dir)
    entries.record(location.git_dir, commit, listed, command.call.environment)
    if command.settings.auto_on("beforeRisky") and commit not in listed:
        _record(command, "before_risky", "before a push to the stash", commits=(commit,))
    return CONTINUE


def before_commit(command: GitCommand) -> None:
    """Create a checkpoint before a commit, which may replace staged content."""
    if command.settings.auto_on("beforeRisky", person=command.who.agent is None):
        _record(command, "pre_commit", "before a commit")


def before_merge(command: GitCommand) -> None:
    """Create a checkpoint before a merge changes the worktree."""
    if command.settings.auto_on("beforeMerge"):
        _record(command, "before_merge", "before a merge")


def _record(
    command: GitCommand,
    trigger: str,
    description: str,
    *,
    commits: Sequence[str] = (),
    warn: Callable[[str, str], None] = output.warn_once,
) -> None:
    if command.location is None:
        return
    folder = scripts.folder(command.common_dir)
    meta = {"command": messages.command_line(command.call.argv, most=2000)}
    try:
        with warnings.catch_warnings(record=True) as caught:
            _take(command, trigger, description, meta, commits)
    except (AgentosError, OSError) as error:
        warn(folder, f"no checkpoint {description}: {error}")
        from git_agentos.guard.enforcement import saving

        # The error may be that the log cannot be used.
        details = {"reason": str(error)}
        saving.log_error(
            command.location, command.who.agent, command.call.environment, f"no checkpoint {description}", details
        )
        return
    for each in caught:
        warn(folder, str(each.message))
    if not caught:
        output.forget_warning(folder)


def _take(command: GitCommand, trigger: str, description: str, meta: Mapping[str, str], commits: Sequence[str]) -> None:
    if command.location is None:
        return
    with Scan(command.location) as scan:  # git scans while Python imports what a checkpoint needs
        from git_agentos.guard.enforcement import saving

        context = saving.context_at(command.location, command.who.agent, command.call.environment, scan)
        metadata = context.metadata(trigger=trigger, description=description, meta=dict(meta))
        saving.save(context, SaveScope(commits=commits), metadata, whole=False, scan=scan)
