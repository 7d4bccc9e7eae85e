"""What all views have: they read in a thread, show in the application's, and let commands do what is to be done."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.containers import Container
from textual.widget import Widget

from git_agentos.ui.background import Problem
from git_agentos.util.named_tuple import NamedTuple

if TYPE_CHECKING:
    from git_agentos.ui.host import Host
    from git_agentos.workspace import Workspace


class Hint(NamedTuple):
    """A key, and what it does: the line at the bottom and the help show them."""

    key: str
    does: str


class View(Container):
    """One of the five. A subclass gives `read` and `show`; see the docstring of the package."""

    DEFAULT_CSS = """
    View { height: 1fr; width: 1fr; }
    """

    title: ClassVar[str] = ""
    command: ClassVar[str] = ""  # that prints the same
    hints: ClassVar[tuple[Hint, ...]] = ()
    every: ClassVar[float] = 3.0  # seconds between two looks; what changes is to be on the screen within 5

    def __init__(self) -> None:
        super().__init__(id=self.title.lower())
        self._shown: Any = None
        self.problem: Problem | None = None
        self.is_read = False  # whether something has been shown
        self._is_reading = False
        self._next = 0.0
        self._workspace: Workspace | None = None
        self._parts: tuple[Widget, ...] = ()

    # -- for a subclass ------------------------------------------------------------------------------------------------

    def read(self) -> Any:
        """Read what is shown. Called in a thread of the view, again and again while it is on the screen: what has not
        changed should not be read again. An AgentosError or OSError is shown instead."""
        raise NotImplementedError

    def show(self, found: Any) -> None:
        """Show what was read, if it differs from what is shown."""
        raise NotImplementedError

    def took(self) -> None:
        """Called in the application's thread after each `read` that was successful."""

    def find_focus(self) -> Widget | None:
        """The widget that has the keys when the view comes on the screen."""
        return next((each for each in self.query("*") if each.can_focus and each.display), None)

    def move_pane(self, by: int) -> None:
        """`h` and `l`: to the pane on the left or on the right."""
        panes = [each for each in self.query("*") if each.can_focus and each.display]
        if self.app.focused in panes:
            panes[max(0, min(panes.index(self.app.focused) + by, len(panes) - 1))].focus()

    def turn(self, by: int) -> None:
        """`[` and `]`: to the one before or after of what a pane can show."""

    def find_folder(self) -> str | None:
        """The worktree in which `z` undoes; None: where the interface was started. WorktreeError if there is none."""
        return None

    # -- for a subclass to call ----------------------------------------------------------------------------------------

    def open(self) -> Workspace:
        """In `read`: the worktree in which the interface was started. It is opened once, and again after an error."""
        if self._workspace is None:
            self._workspace = self.ui.open_workspace()
        return self._workspace

    @property
    def ui(self) -> Host:
        """The application."""
        return cast("Host", self.app)

    # -- for the application -------------------------------------------------------------------------------------------

    def look(self, *, now: bool = False) -> None:
        """Read again if it is time to, or `now`."""
        if self._is_reading or (not now and time.monotonic() < self._next):
            if now:
                self._next = 0.0
            return
        self._is_reading = True
        self.ui.background.request(self.title, self.read, self._take)
        self._next = time.monotonic() + self.every

    def on_mount(self) -> None:
        self._parts = tuple(self.query("*"))

    @property
    def _is_whole(self) -> bool:
        """Whether everything in it is there: not while the interface ends, which removes one after the other."""
        return self.is_attached and all(each.is_attached for each in self._parts)

    def _take(self, found: Any) -> None:
        self._is_reading = False
        if isinstance(found, Problem):
            self._workspace = None
        if not self._is_whole:
            return
        before, self.problem = self.problem, found if isinstance(found, Problem) else None
        if self.problem is None and (not self.is_read or found != self._shown):
            self.is_read, self._shown = True, found
            self.show(found)
        if self.problem is None:
            self.took()
        if before != self.problem:
            self.ui.tell_state()
