"""Any program that works in the worktree: a headless agent, or a script.

It gets the prompt on stdin and in a file (`AGENTOS_PROMPT_FILE`: outside of the worktree, readable by its owner alone,
removed afterwards), the node in `AGENTOS_TDD_NODE`, the number of the attempt (1 for the first) in `AGENTOS_ATTEMPT`;
the rest of the environment is the user's, keys included. It runs like the agent of a run: guarded, in a process group
of its own, and no process of it remains. Its output is recorded and does not count: what it changed is read from git,
and judged by tests.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import TddError
from git_agentos.git import authorship, process
from git_agentos.guard.exec import launch
from git_agentos.process import contained
from git_agentos.redact import redact
from git_agentos.run import rebuild
from git_agentos.run.step import command_environment
from git_agentos.tdd.models import transcript
from git_agentos.tdd.models.model import COMMAND, ModelResult, Request
from git_agentos.tdd.models.transcript import Transcript
from git_agentos.util import directories, files
from git_agentos.worktree import ports

PROMPT_FILE, NODE, ATTEMPT = "AGENTOS_PROMPT_FILE", "AGENTOS_TDD_NODE", "AGENTOS_ATTEMPT"
_NOT_RUN = (126, 127)
_DATABASE = "AGENTOS_WORKFLOW_DB"  # as a URL it may contain the password of the workflow database
_PROMPT_NAME = "tdd-prompt"


class Command:
    """A model that is a command: `text` is shell text, `limit` in seconds."""

    def __init__(self, text: str, environment: Mapping[str, str], limit: float | None = None) -> None:
        self.name = f"{COMMAND}:{text}"
        self.recipient = f"the program that '{redact(text)[0]}' starts, and wherever that sends it"
        self._text = text
        self._environment = environment
        self._limit = limit

    def work(self, request: Request) -> ModelResult:
        transcript.write_file(request.folder, transcript.PROMPT, request.prompt, self._environment)
        with Transcript(request.folder, request.show, self._environment) as log:
            with prompt_file(request.worktree, request.prompt) as path:
                environment = environment_of(request, self._environment) | {PROMPT_FILE: path}
                ended = run(request, self._text, environment, log, limit=self._limit, stdin=path)
            if ended.exit_code in _NOT_RUN:
                raise TddError(
                    f"the agent's command cannot be run (exit code {ended.exit_code}): {log.last_line()}",
                    f"check that '{redact(self._text)[0]}' works in a shell",
                )
            error = f"the agent took longer than {self._limit:g} s" if ended.timed_out and self._limit else None
            return ModelResult(error, ended.exit_code, interrupted=ended.interrupted)


def run(
    request: Request,
    text: str,
    environment: Mapping[str, str],
    log: Transcript,
    *,
    limit: float | None = None,
    stdin: str | None = None,
) -> contained.Result:
    """Run shell text in the worktree as the agent at work there."""
    location = request.worktree.location
    guarded = launch.with_shim(location, request.run.agent_id, contained.shell(text), environment)
    command = contained.Command(guarded.argv, location.root, guarded.environment, limit, stdin)
    ended = contained.run(command, log.out, log.err, show=request.show, stop=request.stop)
    # What was killed may have been a git, whose locks nobody else removes.
    rebuild.unlock(location, request.run, killed=ended.is_killed)
    return ended


def environment_of(request: Request, base: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program of a workflow."""
    run = request.run
    mine = {key: value for key, value in base.items() if key not in process.LOCATION_VARIABLES}
    if "://" in mine.get(_DATABASE, ""):
        del mine[_DATABASE]
    found = command_environment(mine, run_id=run.run_id, agent=run.agent_id, task=run.task_id, mark=request.mark)
    found |= authorship.variables(request.worktree.location.root, mine, found)
    found |= ports.variables_of(request.worktree.location.git_dir)
    return found | {NODE: request.node, ATTEMPT: str(request.attempt + 1), "PWD": request.worktree.location.root}


@contextlib.contextmanager
def prompt_file(worktree: OpenWorktree, text: str) -> Iterator[str]:
    """The prompt in a file that nobody else can read, while it is needed; a killed process may have left one."""
    path = os.path.join(directories.make_own(worktree.location.state_dir), _PROMPT_NAME)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    try:
        files.write_new(path, text.encode("utf-8", "replace"), 0o600, durable=False)
        yield path
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
