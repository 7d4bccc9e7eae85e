"""The commands that actions are: each is run in a process of its own, without a shell, and recorded with its exit code.

So an action gives the answer of the command, under the same policy and identity, and can be typed as it is shown.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from git_agentos.errors import system_reason
from git_agentos.process import programs
from git_agentos.util import quote
from git_agentos.util.named_tuple import NamedTuple

_MOST = 1000  # commands that are remembered
_NOT_STARTED = 127
_LONGEST = 2000  # characters that are kept of what a command says


class Command(NamedTuple):
    """A command of git agentos: its words, without `git agentos`, and the folder that it works in (None: where the
    interface was started). `asks_person`: it needs a terminal as stdin, for it is a person's decision."""

    words: tuple[str, ...]
    folder: str | None = None
    asks_person: bool = False


class Ran(NamedTuple):
    """A command that has ended: how a user would type it, when it began (seconds since the epoch), how long it took,
    its exit code and its document (None where it printed none). `message` and `hint` are those of its error; `said` is
    what it wrote to stderr."""

    line: str
    began: float
    seconds: float
    code: int
    document: dict[str, Any] | None
    message: str | None
    hint: str | None
    said: str

    @property
    def succeeded(self) -> bool:
        return self.code == 0


class Commands:
    """Runs commands, and remembers them: in `directory` if they have no folder (empty: the current one), as `agent`.
    `terminal` is what those get as stdin that need a person's terminal; by default stdin."""

    def __init__(self, directory: str = "", agent: str | None = None, terminal: int | None = None) -> None:
        self._directory, self._agent, self._terminal = directory, agent, terminal
        self._lock = threading.Lock()
        self._ran: list[Ran] = []

    @property
    def ran(self) -> tuple[Ran, ...]:
        """Those that have ended, the oldest first."""
        with self._lock:
            return tuple(self._ran)

    def line(self, command: Command) -> str:
        """A command as a user would type it."""
        return quote.line(shlex.join(["git", "agentos", *self._words(command)]))

    def run(self, command: Command) -> Ran:
        """Run a command, and wait for its end."""
        argv = [sys.executable, "-P", "-m", "git_agentos", "--json", *self._words(command)]
        terminal = self._terminal
        if terminal is None and sys.__stdin__:
            terminal = sys.__stdin__.fileno()
        stdin = terminal if command.asks_person else None
        began, clock = time.time(), time.monotonic()
        try:
            code, out, said = _run(argv, stdin)
        except OSError as error:
            code, out, said = _NOT_STARTED, b"", f"the command cannot be started: {system_reason(error)}"
        document = _document(out)
        error_of = document["error"] if document is not None and document["schema"] == "agentos.error.v1" else None
        message, hint = (error_of["message"], error_of["hint"]) if error_of is not None else (None, None)
        if code and message is None and document is None:
            message = said.strip().splitlines()[-1] if said.strip() else f"it ended with exit code {code}"
        done = Ran(self.line(command), began, time.monotonic() - clock, code, document, message, hint, said)
        with self._lock:
            self._ran.append(done)
            del self._ran[:-_MOST]
        return done

    def text(self, command: Command) -> Sequence[str]:
        """The lines that a command prints which only reads: stdout, then stderr. It is not remembered."""
        argv = [sys.executable, "-P", "-m", "git_agentos", *self._words(command)]
        _, out, said = _run(argv, None)
        return [*out.decode("utf-8", "replace").splitlines(), *said.splitlines()]

    def _words(self, command: Command) -> list[str]:
        folder = command.folder or self._directory
        agent = [] if self._agent is None else ["--as", self._agent]
        return [*(["-C", folder] if folder else []), *agent, *command.words]


def explain_restore(plan: Ran) -> str:
    """What a restore or an undo would do, by the document of its dry run."""
    found = plan.document or {}
    changed, removed = found.get("changed", []), found.get("removed", [])
    rows = [f"to checkpoint {found.get('checkpoint', '')[:8]}"]
    if found.get("branch"):
        rows.append(f"HEAD goes to {quote.line(str(found['branch']))}")
    rows += [f"write   {quote.path(each)}" for each in changed] + [f"remove  {quote.path(each)}" for each in removed]
    return "\n".join(rows if changed or removed else [*rows, "no file has to change"])


def _run(argv: Sequence[str], stdin: int | None) -> tuple[int, bytes, str]:
    child = programs.start_piped(argv, cwd=os.getcwd(), env=os.environ, stdin=stdin)
    out, err = child.communicate()
    return child.returncode, out, err.decode("utf-8", "replace")[-_LONGEST:]


def _document(out: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(out)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("schema"), str) else None
