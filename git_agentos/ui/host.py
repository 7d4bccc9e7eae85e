"""What views need of the application, which knows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from git_agentos.ui.background import Background
from git_agentos.ui.commands import Command, Commands, Ran
from git_agentos.ui.known_conflicts import KnownConflicts
from git_agentos.workspace import Workspace


class Host(Protocol):
    """The application, as a view sees it."""

    background: Background
    commands: Commands
    conflicts: KnownConflicts

    def open_workspace(self, folder: str | None = None) -> Workspace:
        """Open the worktree in a folder (by default where the interface was started). A thread uses its own."""

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

    def start_command(self, command: Command, then: Callable[[Ran], None] | None = None) -> None:
        """Run a command in a thread, say how it ended, and read the view again."""

    def say(self, message: str, style: str = "") -> None:
        """Show a message in the last line, in place of the keys; an empty one shows the keys again."""

    def show_timeline(self, agent: str) -> None:
        """Bring the timeline of an agent on the screen."""

    def tell_state(self) -> None:
        """Draw the first and the last line."""
