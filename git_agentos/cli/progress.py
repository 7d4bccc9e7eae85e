"""How a workflow goes, told while it goes, and the question at its review.

One line a node: what came of it and how long it took. What agents and tests say is seen in passing on a terminal; all
of it is in the evidence (`tdd show`).
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from git_agentos.cli import authorization as permission
from git_agentos.cli import quote
from git_agentos.cli.render.text import tdd as text_tdd
from git_agentos.cli.status_line import Live
from git_agentos.errors import PolicyError

if TYPE_CHECKING:
    from git_agentos.cli.invocation import Invocation
    from git_agentos.tdd.state import Record, Review, Workflow

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Walk(Live):
    """A `tdd.state.Observer`; where it does not ask, a workflow that comes to its review waits."""

    def __init__(self, run: Invocation, *, asks: bool = True) -> None:
        super().__init__(run.output)
        self._run = run
        self._asks = asks

    def began(self, workflow: Workflow) -> None:
        self.say(text_tdd.began(workflow))

    def node_begins(self, workflow: Workflow, node: str) -> None:
        if self.is_drawn:
            self.begin(text_tdd.node_head(workflow, node), "")

    def output(self, line: bytes) -> None:
        if self.is_drawn:
            self.heard(quote.contents(line.rstrip(b"\r\n")))

    def node_ended(self, workflow: Workflow, record: Record) -> None:  # noqa: ARG002 (the protocol's)
        self.end(text_tdd.node_ended(record, self._output.style()))

    def ask(self, review: Review) -> str | None:
        """A word that counts, exactly as it is; None where nobody can be asked or says one."""
        self.rest()
        if not self._asks or not self._output.can_ask():
            return None
        workspace = self._run.workspace()
        try:
            permission.require(self._run, workspace.context.location, "deciding about a workflow")
        except PolicyError as refusal:
            self.say(f"nobody is asked: {quote.line(refusal.message)}")
            return None
        for line in text_tdd.review(review, self._output.style()):
            self.say(line)
        return heard(lambda: self._word(review.workflow))

    def _word(self, workflow: Workflow) -> str | None:
        while True:
            word = self._output.ask(text_tdd.question(workflow))
            if word is None or word in workflow.words:
                return word
            self.say(text_tdd.again(workflow, word))


class _Signal(BaseException):
    """A signal has come."""


def heard(ask: Callable[[], str | None]) -> str | None:
    """What `ask` gives; None where a signal ends it. The signal is then given to whoever listens for it: that may only
    take note of it, and nothing would end the waiting for an answer."""
    if threading.current_thread() is not threading.main_thread():
        return ask()

    def raises(number: int, _: FrameType | None) -> None:
        raise _Signal(number)

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    listened = {number: handler for number, handler in before.items() if handler not in (None, signal.SIG_IGN)}
    caught: int | None = None
    try:
        for number in listened:
            signal.signal(number, raises)
        return ask()
    except _Signal as signalled:
        caught = signalled.args[0]
        return None
    finally:
        for number, handler in listened.items():
            signal.signal(number, handler)
        if caught is not None:
            os.kill(os.getpid(), caught)
