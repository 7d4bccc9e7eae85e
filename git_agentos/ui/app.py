"""The application: the views, the line of their names above, the line with keys and messages below.

Every action is a command (`commands`): `perform` shows what it is, asks, runs it in a thread and reads the view again.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.message import Message
from textual.widgets import ContentSwitcher

from git_agentos.checkpoint import journal
from git_agentos.checkpoint.journal import LastRestore
from git_agentos.errors import AgentosError
from git_agentos.ui.background import Background, Problem
from git_agentos.ui.commands import Command, Commands, Ran, explain_restore
from git_agentos.ui.known_conflicts import KnownConflicts
from git_agentos.ui.lines import OneLine
from git_agentos.ui.screens.commands import CommandLog
from git_agentos.ui.screens.help import Help
from git_agentos.ui.screens.question import Question
from git_agentos.ui.view import Hint, View
from git_agentos.ui.views import VIEWS
from git_agentos.ui.views.timeline import Timeline
from git_agentos.workspace import Workspace, open_workspace

_MESSAGE = 20.0  # seconds that a message stays
_TICK = 0.5  # seconds; each view says how often it looks (`View.every`)
_KEYS = (Hint("?", "keys"), Hint("@", "commands"), Hint("q", "quit"))
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
SIGNALLED = 128  # the exit code is so much more than the signal
_PATIENCE = 30.0  # seconds for what was typed before a signal, and to restore the terminal


class Delivered(Message, namespace="ui"):
    """What a thread has read, to be given in the thread of the application."""

    def __init__(self, give: Callable[[], None]) -> None:
        super().__init__()
        self.give = give


class Interface(App[None]):
    """The terminal interface of the repository that `directory` is in (empty: the current one); `agent` is the
    acting agent, as of `open_workspace`. `terminal` is a descriptor of the one by which a person decides: by default
    stdin."""

    CSS = """
    * { scrollbar-color: ansi_blue; scrollbar-background: ansi_default; scrollbar-color-hover: ansi_blue;
        scrollbar-background-hover: ansi_default; scrollbar-color-active: ansi_blue;
        scrollbar-background-active: ansi_default; }
    Screen { background: ansi_default; color: ansi_default; layers: base; }
    #names, #state { background: ansi_default; color: ansi_default; }
    #views { height: 1fr; background: ansi_default; }
    """
    TITLE = "git agentos"
    ENABLE_COMMAND_PALETTE = False
    ESCAPE_TO_MINIMIZE = False

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"go({number - 1})", show=False) for number in range(1, 6)),
        Binding("tab", "turn_view(1)", show=False, priority=True),
        Binding("shift+tab", "turn_view(-1)", show=False, priority=True),
        Binding("h,left", "pane(-1)", show=False),
        Binding("l,right", "pane(1)", show=False),
        Binding("left_square_bracket", "turn(-1)", show=False),
        Binding("right_square_bracket", "turn(1)", show=False),
        Binding("z", "undo(False)", show=False),
        Binding("ctrl+z", "undo(True)", show=False),
        Binding("at", "commands", show=False),
        Binding("question_mark", "help", show=False),
        Binding("R", "read_again", show=False),
        Binding("q,ctrl+c,ctrl+q", "leave", show=False),
    ]

    def __init__(
        self,
        directory: str = "",
        agent: str | None = None,
        *,
        driver: type[Driver] | None = None,
        terminal: int | None = None,
    ) -> None:
        super().__init__(driver, ansi_color=True)
        self.theme = "ansi-dark"  # the terminal's own colours
        self._directory, self._agent = directory, agent
        self.commands = Commands(directory, agent, terminal)
        self.background = Background(self._deliver)
        self.conflicts = KnownConflicts()
        self.views: tuple[View, ...] = tuple(kind() for kind in VIEWS)
        self._message, self._said = ("", ""), 0.0
        self._numbers = itertools.count()
        self.ended_by: int | None = None  # the signal that has ended it

    def open_workspace(self, folder: str | None = None) -> Workspace:
        """Open the worktree in a folder (by default where the interface was started). A thread uses its own."""
        return open_workspace(folder or self._directory or ".", agent=self._agent)

    # -- the screen ----------------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield OneLine(id="names")
        with ContentSwitcher(id="views", initial=self.views[0].id):
            yield from self.views
        yield OneLine(id="state")

    def on_mount(self) -> None:
        warnings.showwarning = self._warned  # type: ignore[assignment] # stderr is the screen
        if not self.is_headless:
            loop = asyncio.get_running_loop()
            for each in _SIGNALS:
                loop.add_signal_handler(each, self._end_by, each)
        self.go(self.views[0])
        self.set_interval(_TICK, self._tick)

    @property
    def view(self) -> View:
        """The view on the screen."""
        shown = self.query_one("#views", ContentSwitcher).current
        return next(each for each in self.views if each.id == shown)

    def go(self, view: View) -> None:
        """Bring a view on the screen."""
        self.query_one("#views", ContentSwitcher).current = view.id
        focus = view.find_focus()
        if focus is not None:
            focus.focus()
        self.say("")
        view.look(now=True)

    def show_timeline(self, agent: str) -> None:
        """Bring the timeline of an agent on the screen."""
        view = self.query_one(Timeline)
        view.choose(agent)
        self.go(view)

    def say(self, message: str, style: str = "") -> None:
        """Show a message in the last line, in place of the keys; an empty one shows the keys again."""
        self._message, self._said = (message, style), time.monotonic()
        self.tell_state()

    def tell_state(self) -> None:
        """Draw the first and the last line."""
        view = self.view
        names = [
            (f" {n} {each.title} ", "bold reverse" if each is view else "") for n, each in enumerate(self.views, 1)
        ]
        self.query_one("#names", OneLine).replace(*names)
        state = self.query_one("#state", OneLine)
        if view.problem is not None:
            hint = f" ({view.problem.hint})" if view.problem.hint else ""
            state.replace((f"error: {view.problem.message}{hint}", "red"))
        elif self._message[0]:
            state.replace(self._message)
        else:
            parts = [((key, "bold"), (f" {does}  ", "")) for key, does in (*_KEYS[:1], *view.hints, *_KEYS[1:])]
            state.replace(*itertools.chain.from_iterable(parts))

    def on_click(self, event: events.Click) -> None:
        """A click on the name of a view."""
        if event.screen_y == 0 and len(self.screen_stack) == 1:
            end = 0
            for each in self.views:
                end += len(each.title) + 4
                if event.screen_x < end:
                    self.go(each)
                    return

    # -- what is read --------------------------------------------------------------------------------------------------

    @property
    def _is_shown(self) -> bool:
        """Whether there are views: not while it ends, when timers and threads may still come."""
        return bool(self.query("#views"))

    def _tick(self) -> None:
        if not self._is_shown:
            return
        if self._message[0] and time.monotonic() > self._said + _MESSAGE:
            self.say("")
        self.view.look()

    def _deliver(self, give: Callable[[], None]) -> None:
        self.post_message(Delivered(give))

    def on_ui_delivered(self, message: Delivered) -> None:
        if self._is_shown:
            message.give()

    def _warned(self, message: Warning | str, *_: Any) -> None:
        self._deliver(lambda: self.say(f"warning: {message}", "yellow"))

    # -- actions -------------------------------------------------------------------------------------------------------

    def perform(
        self,
        command: Command,
        question: str,
        *,
        plan: Command | None = None,
        explain: Callable[[Ran], str] | None = None,
        then: Callable[[Ran], None] | None = None,
    ) -> None:
        """Ask a question that shows a command, and run it if the answer is yes. `plan` is run before: `explain` makes
        the text of it that stands in the question; where it fails, its error is shown and nothing is asked. `then` is
        called with the command that has ended, well or not."""
        if plan is None:
            self._ask(command, question, "", then)
            return

        def planned(found: Ran) -> None:
            if found.succeeded:
                self._ask(command, question, explain(found) if explain is not None else "", then)

        self.start_command(plan, planned)

    def _ask(self, command: Command, question: str, plan: str, then: Callable[[Ran], None] | None) -> None:
        def answered(yes: bool | None) -> None:
            if yes:
                self.start_command(command, then)
            else:
                self.say("nothing was changed")

        self.push_screen(Question(question, self.commands.line(command), plan), answered)

    def start_command(self, command: Command, then: Callable[[Ran], None] | None = None) -> None:
        """Run a command in a thread, say how it ended, and read the view again."""

        def ended(ran: Ran) -> None:
            self.tell(ran)
            if then is not None:
                then(ran)
            self.view.look(now=True)

        self.say(f"$ {self.commands.line(command)}")
        self.background.request(f"command {next(self._numbers)}", lambda: self.commands.run(command), ended)

    def tell(self, ran: Ran) -> None:
        """Say how a command has ended."""
        if ran.succeeded:
            self.say(f"done: {ran.line}", "green")
        else:
            hint = f" ({ran.hint})" if ran.hint else ""
            self.say(f"error: {ran.message or ran.said.strip() or f'exit code {ran.code}'}{hint}", "red")

    def action_go(self, number: int) -> None:
        if number < len(self.views):
            self.go(self.views[number])

    def action_turn_view(self, by: int) -> None:
        self.go(self.views[(self.views.index(self.view) + by) % len(self.views)])

    def action_pane(self, by: int) -> None:
        self.view.move_pane(by)

    def action_turn(self, by: int) -> None:
        self.view.turn(by)

    def action_undo(self, again: bool) -> None:
        try:
            folder = self.view.find_folder()
        except AgentosError as error:
            self.say(f"error: {error}", "red")
            return

        def asked(last: LastRestore | Problem | None) -> None:
            if isinstance(last, Problem):
                self.say(f"error: {last.message}", "red")
                return
            done = last.command if last is not None else "restore"
            if again and last is not None and done != "undo":
                self.say(f"there is no undo to undo here: the last was a {done}, which z undoes", "yellow")
                return
            what = "Undo the undo?" if again else f"Undo the last {done}?"
            plan = Command(("undo", "--dry-run"), folder)
            self.perform(Command(("undo",), folder), what, plan=plan, explain=explain_restore)

        self.background.request("undo", lambda: journal.read_last(self.open_workspace(folder).context.location), asked)

    def action_commands(self) -> None:
        self.push_screen(CommandLog(self.commands.ran))

    def action_help(self) -> None:
        self.push_screen(Help(self.view))

    def action_read_again(self) -> None:
        self.view.look(now=True)

    def action_leave(self) -> None:
        self.background.end()
        self.exit()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 (Textual's)
        """Keys of the views mean nothing while a question or another screen lies over them."""
        ours = {"go", "turn_view", "pane", "turn", "undo", "commands", "help", "read_again", "leave"}
        return action not in ours or len(self.screen_stack) == 1

    def _end_by(self, number: int) -> None:
        self.ended_by = number
        end_soon(number, _PATIENCE)
        self.action_leave()


def end_soon(number: int, patience: float) -> None:
    """End this process as by a signal after so many seconds, if it has not ended by itself."""
    timer = threading.Timer(patience, os._exit, (SIGNALLED + number,))
    timer.daemon = True
    timer.start()
