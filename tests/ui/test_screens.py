"""The screens as pictures, compared with those that were looked at."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from git_agentos.ui import texts
from git_agentos.ui.commands import Command, Commands
from git_agentos.ui.views import timeline
from tests.support import runs
from tests.support.confirming import set_up_key
from tests.support.guard.approvals import asked
from tests.support.repo import Repo
from tests.support.screens import Screens
from tests.support.ui import NARROW, WIDE, Driver, drive, five_agents

_KEYS = {
    "agents": (),
    "timeline": ("j", "j", "enter"),
    "search": ("j", "j", "enter", "slash", "f", "i", "r"),
    "question": ("j", "j", "enter", "r"),
    "files": ("j", "j", "enter", "j", "f", "j", "j"),
    "conflicts": ("3",),
    "runs": ("4", "j", "]", "]"),
    "approvals": ("5", "]"),
    "granting": ("5", "]", "g"),
    "help": ("question_mark",),
}


@pytest.mark.parametrize(
    ("name", "size"),
    [
        *(pytest.param(name, WIDE, id=name) for name in _KEYS),
        *(pytest.param(name, NARROW, id=f"{name}-narrow") for name in ("agents", "timeline")),
    ],
)
def test_a_screen_is_as_it_was(
    repo: Repo,
    snapshot: SnapshotAssertion,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
    size: tuple[int, int],
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(texts, "age", lambda _: "5 min")
    monkeypatch.setattr(timeline, "_PAUSE", 0.0)
    monkeypatch.setattr(timeline, "density", lambda _, __, ___, width: [(n * n) % 7 for n in range(width)])
    monkeypatch.setattr(timeline, "place", lambda _, __, width: width // 2)
    monkeypatch.setattr(Commands, "line", _line)
    agents = five_agents(repo)
    agents["dev-3"].write("notes.txt", "third\n")
    if name == "runs":
        runs.start(repo, "echo work > work.txt", validate=["true"], run_id="T-1", task="PROJ-1")
        runs.start(repo, "echo tried > tried.txt", validate=["exit 3"], run_id="T-2", max_attempts=2)
    if name in ("approvals", "granting"):
        set_up_key(repo, tmp_path)
        asked(repo, agents["dev-1"], "git", "merge", "other")
        asked(repo, agents["dev-2"], "git", "push", "--force")
    pictures: list[str] = []

    async def user(ui: Driver) -> None:
        await ui.press(*_KEYS[name])
        await ui.pilot.pause()
        pictures.append(ui.app.export_screenshot(title=""))

    drive(repo.path, user, size)
    assert pictures[0] == snapshot(extension_class=Screens)


def _line(self: Commands, command: Command) -> str:
    return " ".join(["git", "agentos", "-C", "/home/ada/app.worktrees/dev-3", *command.words])
