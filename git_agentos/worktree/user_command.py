"""The commands of the user that are run in a worktree: agentos.setup in a new one, agentos.teardown in one that goes.

They come from the user's own configuration (`git.own_configuration`), never from a file in a repository.
"""

from __future__ import annotations

from git_agentos import config, redact
from git_agentos.git import own_configuration, process
from git_agentos.git.location import Location
from git_agentos.process import programs
from git_agentos.process.programs import Ended
from git_agentos.worktree import ports
from git_agentos.worktree.record import Record

_MAX_OUTPUT_LINES = 20


def find(location: Location, values: config.ConfigValues, key: str) -> str | None:
    """The command in `key`, None where it has none; ConfigurationError where it was set in a place from which it is not
    taken. `values` are the configuration at `location`."""
    if key not in values:
        return None
    hint = f"no command is taken from there; if you trust it: git config {key} COMMAND"
    return own_configuration.value(location, key, hint, command_line=True)


def run(command: str, root: str, made: Record, *, timeout: float | None = None) -> Ended:
    """Run a command in the top folder of a worktree, with its agent, its task and its ports in the environment."""
    identity = {"AGENTOS_AGENT_ID": made.id, "AGENTOS_TASK_ID": made.task or ""}
    env = ports.without(process.user_environment(identity)) | ports.variables(made)
    return programs.run_shell(command, cwd=root, env=env, timeout=timeout)


def describe(ended: Ended) -> str:
    """How a command that failed has ended, in words."""
    if ended.code is None:
        return "ran out of time"
    return f"was killed by signal {-ended.code}" if ended.code < 0 else f"exited with {ended.code}"


def last_lines(ended: Ended) -> list[str]:
    """The end of what a command wrote, without secrets."""
    text = redact.redact(ended.output.decode("utf-8", "replace"))[0]
    return text.rstrip().splitlines()[-_MAX_OUTPUT_LINES:]
