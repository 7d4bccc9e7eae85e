"""Decides for the shim (`hooks/git-shim`) whether a git command may run. The exit code is 0 for yes, 3 for no, and 10
for yes, but without the configuration by which an agent's client has switched the guard off
(`guard.exec.client_configuration`).

If the command may run, the calling process becomes git; so a grant is used for that process.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from git_agentos.errors import AgentosError
from git_agentos.guard import ancestry, call, identity, tampering
from git_agentos.guard.assessment import assessor
from git_agentos.guard.call import Call
from git_agentos.guard.configuration import settings
from git_agentos.guard.decision import ALLOW, FORBID
from git_agentos.hooks import output
from git_agentos.process import table

RUN, STOP, RUN_GUARDED, INTERRUPTED = 0, 3, 10, 130


def main(args: Sequence[str]) -> int:
    """Decide about `git ARGS` in the current directory. Any error stops the command."""
    try:
        return _decide(tuple(args), table.own_parent())
    except KeyboardInterrupt:
        return INTERRUPTED
    except (AgentosError, OSError) as error:
        output.to_stderr(f"git-agentos: stopped: cannot decide whether this command may run: {error}")
        if isinstance(error, AgentosError) and error.hint:
            output.to_stderr(f"  {error.hint}")
        return STOP
    except Exception as error:  # noqa: BLE001 - the boundary: an agent's command that was not judged does not run
        output.to_stderr(f"git-agentos: stopped: this is a bug in git-agentos: {type(error).__name__}: {error}")
        return STOP


def _decide(args: tuple[str, ...], pid: int) -> int:
    above = table.parents(pid)[:1]
    git = shutil.which("git")
    if above and git is not None and ancestry.is_inner_step(args, above[0], git):
        return RUN  # started by git itself, on a system where it finds its own commands by PATH
    request = call.current_call(("git", *args))
    run = RUN
    if "GIT_CONFIG_COUNT" in request.environment:
        from git_agentos.guard.exec import client_configuration

        rest = client_configuration.without_guard_pairs(request.environment)
        if rest is not None and client_configuration.set_by_harness(pid, request.environment):
            request, run = request._replace(environment=rest), RUN_GUARDED
    return _answer(request, pid, run)


def _answer(request: Call, pid: int, run: int) -> int:
    """Whether the command may run: `run`, or not."""
    who = identity.identify(request.environment, identity.find_git_dir(request.cwd), pid)
    known = settings.read(request.cwd, request.environment)
    assessment = assessor.assess_git(request, who, known)
    edited = tampering.report_at(request.cwd, who, request.environment)
    if edited is not None:
        output.to_stderr(f"git-agentos: {edited} ({tampering.HINT})")
        if assessment.decision.decision == FORBID:
            known = known._replace(mode="strict")  # as for the hooks
    if assessment.decision.decision == ALLOW and assessment.save is None:
        return run  # most commands end here: nothing more is loaded for them
    from git_agentos.git.location import locate
    from git_agentos.guard.enforcement.enforcer import LayerCall, enforce
    from git_agentos.guard.exec.launch import WAIT
    from git_agentos.hooks import decision

    verdict = enforce(
        request,
        assessment,
        who,
        LayerCall("shim", pid, known, on_wait=output.to_stderr if request.environment.get(WAIT) else None),
    )
    output.to_stderr(verdict.message)
    if verdict.run and assessment.root is not None:
        # The process becomes this git: its hooks need not save and decide again.
        what = decision.ALL if assessment.decision.decision != ALLOW else decision.FILES
        decision.record_allowed(locate(assessment.root, use_environment=False).common_dir, pid, what)
    return run if verdict.run else STOP
