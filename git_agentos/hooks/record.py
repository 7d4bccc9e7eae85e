"""The recorders: checkpoints that are taken after something, or before it, and stop nothing.

    post-commit, post-merge, post-rewrite   after_commit     agentos.auto.afterCommit
    post-checkout                           after_checkout   agentos.auto.afterCommit
    pre-commit                              pre_commit       agentos.auto.beforeRisky
    a merge, before it touches a file       before_merge     agentos.auto.beforeMerge
    an agent's push to the stash            before_risky     agentos.auto.beforeRisky

What goes wrong is said once and written to the log, and git goes on.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence

from git_agentos.errors import AgentosError
from git_agentos.guard import ownership, wording
from git_agentos.guard.decision import Save
from git_agentos.guard.setup import place
from git_agentos.hooks import subject, talk
from git_agentos.hooks.called import Called
from git_agentos.hooks.subject import Subject


def post_commit(called: Called) -> int:
    """After a commit."""
    return _after(called.pid, "after_commit", "after a commit")


def post_merge(called: Called) -> int:
    """After a merge; `args` tell whether it was squashed."""
    return _after(called.pid, "after_commit", "after a merge")


def post_rewrite(called: Called) -> int:
    """After a rebase."""
    return _after(called.pid, "after_commit", "after a rebase")


def post_checkout(called: Called) -> int:
    """After a branch was switched."""
    return _after(called.pid, "after_checkout", "after a checkout")


def new_worktree(called: Called) -> int:
    """A worktree was made by `git worktree add`: it is the agent's own who did it."""
    asked = subject.of(called.pid)
    if asked.location is not None and not asked.location.is_main and asked.who.agent is not None:
        caller = ownership.Caller(asked.who, asked.call.environment, asked.call.cwd, os.getpid())
        ownership.record_maker(caller, asked.location.git_dir)
    return 0


def stash(called: Called) -> int:
    """An agent pushes a commit to the stash (`args`), and has not cleared its files yet: who pushed it is recorded, and
    its checkpoint keeps the commit, whoever drops the entry."""
    asked = subject.of(called.pid)
    location, commit = asked.location, called.args[0]
    if location is None or asked.who.agent is None:
        return 0
    from git_agentos.guard.policy import stash as entries

    listed = entries.listed(location.common_dir)
    entries.record(location.git_dir, commit, listed, asked.call.environment)
    if asked.settings.auto_on("beforeRisky") and commit not in listed:
        _record(asked, "before_risky", "before a push to the stash", commits=(commit,))
    return 0


def before_commit(asked: Subject) -> None:
    """Before a commit: what is staged now may be replaced by what is committed."""
    if asked.settings.auto_on("beforeRisky"):
        _record(asked, "pre_commit", "before a commit")


def before_merge(asked: Subject) -> None:
    """Before a merge touches the worktree."""
    if asked.settings.auto_on("beforeMerge"):
        _record(asked, "before_merge", "before a merge")


def _after(pid: int, trigger: str, description: str) -> int:
    asked = subject.of(pid)
    if asked.settings.auto_on("afterCommit"):
        _record(asked, trigger, description)
    return 0


def _record(asked: Subject, trigger: str, description: str, commits: Sequence[str] = ()) -> None:
    if asked.location is None:
        return
    folder = place.folder(asked.common_dir)
    meta = {"command": wording.command(asked.call.argv, most=2000)}
    try:
        with warnings.catch_warnings(record=True) as heard:
            _take(asked, trigger, description, meta, commits)
    except (AgentosError, OSError) as error:
        talk.warn_once(folder, f"no checkpoint {description}: {error}")
        _log(asked, f"no checkpoint {description}", str(error))
        return
    for each in heard:
        talk.warn_once(folder, str(each.message))
    if not heard:
        talk.forget(folder)


def _take(asked: Subject, trigger: str, description: str, meta: Mapping[str, str], commits: Sequence[str]) -> None:
    from git_agentos.guard import saving

    assert asked.location is not None
    context = saving.context_at(asked.location, asked.who.agent, asked.call.environment)
    saving.save(context, Save(commits=commits), description=description, meta=meta, whole=False, trigger=trigger)


def _log(asked: Subject, summary: str, reason: str) -> None:
    """Tell the log, where there is one: that nothing can be saved may be why there is none."""
    from git_agentos import log
    from git_agentos.guard import saving

    assert asked.location is not None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            context = saving.context_at(asked.location, asked.who.agent, asked.call.environment)
            if asked.who.agent is not None or log.is_open(context):
                log.note(context, "error", summary, details={"reason": reason})
    except (AgentosError, OSError):
        return
