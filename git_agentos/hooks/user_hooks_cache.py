"""A cache of where the user's own hooks are, so that the scripts need not run git each time.

`<common dir>/agentos/guard/chain/<worktree>` is sourced by `load` in `hooks/guard.sh`: it sets the script's variables,
and its last command fails if a configuration file is newer than the cache, or the environment names other files.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Mapping

from git_agentos.errors import AgentosError
from git_agentos.git import gitfile, user_hooks
from git_agentos.hooks import CONTINUE, HookCall, output
from git_agentos.util import directories, files

# The variables that decide which files git reads; the shell compares them with those of the cache.
_LEADING = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
# A configuration file that was written less than this before it was read may change again without a newer time.
_CLOCK_TICK = 0.02  # seconds; file systems count in smaller steps
_WHOLE_SECONDS = 2.0  # for a shell that compares seconds


def refresh(hook: HookCall) -> int:
    """Rewrite the cache, and print its text: `args` are its path, and whether this shell compares fractions of
    seconds."""
    cache, precise = hook.args[0], any(hook.args[1:])
    begun = time.time()
    # git starts hooks at the top of a worktree, or in a bare repository.
    git_dir = os.path.abspath(os.environ.get("GIT_DIR") or gitfile.resolve(".git") or ".")
    common_dir = os.path.realpath(gitfile.common_dir(git_dir))
    found = user_hooks.read(os.getcwd(), git_dir, common_dir, os.environ)
    text = _text(found, *_policy())
    output.to_stdout(text)
    # If it cannot be written, the next hook refreshes it again.
    with contextlib.suppress(OSError):
        _write(cache, text, begun - (_CLOCK_TICK if precise else _WHOLE_SECONDS))
    _report_tampering(hook.pid, git_dir)
    return CONTINUE


def _report_tampering(pid: int, git_dir: str) -> None:
    """Report edits of the guard: a configuration file has changed, which may disable the guard's other layer."""
    from git_agentos.guard import identity, tampering

    with contextlib.suppress(AgentosError, OSError):
        who = identity.identify(os.environ, git_dir, pid)
        report = tampering.report_at(os.getcwd(), who, os.environ)
        output.to_stderr(f"git-agentos: {report} ({tampering.HINT})" if report else "")


def _text(found: user_hooks.UserHooks, strict: str, record: bool) -> str:
    lines = [
        f"user_hooks={shlex.quote(found.hooks)}",
        f"user_fsmonitor={shlex.quote(found.fsmonitor)}",
        f"user_fsmonitor_version={shlex.quote(found.version)}",
        f"strict={strict}",
        f"record={'1' if record else ''}",
    ]
    leading = "|".join(os.environ.get(name, "") for name in _LEADING)
    asked = "|".join(f"${{{name}-}}" for name in _LEADING)
    tests = [f'[ "{asked}" = {shlex.quote(leading)} ]']
    tests += [f'! [ {shlex.quote(path)} -nt "$cache" ]' for path in found.files]
    return "\n".join(lines) + "\n" + " &&\n\t".join(tests) + "\n"


def _policy() -> tuple[str, bool]:
    """Whether policy stops commands that are allowed by default (`all`: even read-only ones; `some`; or empty), and
    whether commits are recorded. Invalid settings are reported by the decision about a command."""
    from git_agentos.guard.configuration import settings
    from git_agentos.guard.decision import ALLOW
    from git_agentos.guard.policy import operations

    try:
        found = settings.read(os.getcwd(), _without_command_line(os.environ))
    except AgentosError:
        return "some", True
    stricter = [
        name
        for name, rule in found.policy.items()
        if rule.decision != ALLOW
        and (name not in operations.OPERATIONS or operations.OPERATIONS[name].default == ALLOW)
    ]
    return "all" if "look" in stricter else "some" if stricter else "", found.auto_on("afterCommit")


def _without_command_line(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        key: value for key, value in environment.items() if not key.startswith(("GIT_CONFIG_PARAM", "GIT_CONFIG_COU"))
    }


def _write(path: str, text: str, as_of: float) -> None:
    folder = directories.make_own(os.path.dirname(path))
    _create_probes(folder)
    files.replace(path, os.fsencode(text), mode=0o600, durable=False, mtime=as_of)


def _create_probes(folder: str) -> None:
    """Create two files with which a shell tests whether it compares fractions of seconds."""
    for name, fraction in ((".sooner", 0), (".later", 500_000_000)):
        path = os.path.join(folder, name)
        if not os.path.lexists(path):
            with open(path, "xb"):
                pass
        os.utime(path, ns=(1_000_000_000_000_000_000 + fraction,) * 2)
