"""The terminal interface in this process, without a terminal: Textual's Pilot types the keys."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from textual.pilot import Pilot

from git_agentos import open_workspace
from git_agentos.ui.app import Interface
from git_agentos.ui.rows import Rows
from tests.support.agents import agent_commit, agent_worktree
from tests.support.repo import Repo
from tests.support.tool import run_ok
from tests.support.waiting import PATIENCE

WIDE, NARROW = (130, 30), (80, 24)


class Driver:
    """An interface that runs, and its user."""

    def __init__(self, app: Interface, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other, and wait each time until what it asks for is on the screen."""
        for key in keys:
            await self.pilot.press(key)
            await self.settled()

    async def settled(self) -> None:
        """Wait until everything that was requested has been read and shown."""
        await self.until(lambda: self.app.background.is_idle, "everything is read")
        await self.pilot.pause()

    async def until(self, condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
        """Wait until `condition` is true; fail if it does not become so."""
        deadline = time.monotonic() + patience
        while not condition():
            assert time.monotonic() < deadline, f"{what}: not after {patience:g} seconds\n{self.screen}"
            await self.pilot.pause(0.02)

    @property
    def screen(self) -> str:
        """The text on the screen."""
        lines = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in lines)

    def says(self, text: str) -> bool:
        """Whether a text is on the screen, which may break its lines."""
        shown = "".join(line.strip(" │") for line in self.screen.splitlines())
        return "".join(text.split()) in "".join(shown.split())

    @property
    def rows(self) -> list[str]:
        """The lines of the list on the screen, without its heading."""
        found = self.app.view.query(Rows).first()
        lines = ("".join(each.text for each in found.render_line(y)) for y in range(1, found.size.height))
        return [line.rstrip() for line in lines if line.strip()]

    def row(self, start: str) -> str:
        """The row whose first cell is `start`, its cells divided by single spaces."""
        found = [" ".join(line[2:].split()) for line in self.rows]
        return next(line for line in found if line.split(" ")[0] == start)


def drive(
    folder: Path, user: Callable[[Driver], Awaitable[None]], size: tuple[int, int] = WIDE, agent: str | None = None
) -> Interface:
    """Run the interface of a repository, with a terminal of that size, until its user is done."""

    async def run() -> Interface:
        app = Interface(str(folder), agent)
        async with app.run_test(size=size) as pilot:
            driver = Driver(app, pilot)
            await driver.settled()
            await user(driver)
        return app

    app = asyncio.run(run())
    app.background.end()
    for each in threading.enumerate():  # what they have started ends with this test, and not in another one
        if each.name.startswith("ui-"):
            each.join(PATIENCE)
    return app


def five_agents(repo: Repo) -> dict[str, Repo]:
    """Five agents: `dev-1` and `dev-2` have committed what conflicts, `dev-3` has changes and two checkpoints of them,
    `dev-4` is archived, and `dev-5` has done nothing."""
    found = {
        "dev-1": agent_commit(repo, "dev-1", {"notes.txt": "one\n"}),
        "dev-2": agent_commit(repo, "dev-2", {"notes.txt": "two\n"}),
        "dev-3": agent_worktree(repo, "dev-3", task="PROJ-3"),
        "dev-4": agent_worktree(repo, "dev-4"),
        "dev-5": agent_worktree(repo, "dev-5"),
    }
    found["dev-3"].write("notes.txt", "first\n")
    open_workspace(found["dev-3"].path).checkpoint("the first state")
    found["dev-3"].write("notes.txt", "second\n")
    found["dev-3"].write("new.py", "def new() -> int:\n    return 1\n")
    open_workspace(found["dev-3"].path).checkpoint("the second state")
    run_ok(repo.path, "worktree", "archive", "dev-4")
    return found
