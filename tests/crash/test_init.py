"""An `init` that is killed at any step: the next one completes it, and `init --remove` takes all of it back, whether or
not it was completed. The same for an `init --remove` that is killed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import at_rest
from tests.support.faults.server import Runner
from tests.support.repo import Repo, git
from tests.support.sampling import budget, evenly

_BUDGET = 16
HARNESSES = (".claude", ".codex", ".gemini", ".cursor", ".copilot", ".config/opencode")


class Place:
    """A repository with a linked worktree and a home folder, made ready again for each attempt."""

    def __init__(self, repo: Repo) -> None:
        self.repo, self.top = repo, repo.path.parent
        self.home = self.top / "home"
        self.linked = self.top / "linked"
        for name in HARNESSES:
            (self.home / name).mkdir(parents=True)
        (self.home / ".codex" / "config.toml").write_text('model = "x"\n')
        repo.git("worktree", "add", "-q", "-b", "linked", str(self.linked))
        (repo.path / ".gemini").mkdir()
        (repo.path / ".gemini" / "settings.json").write_text("{}")
        repo.commit("settings of gemini")
        self.environment = {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / ".config")}
        self.keep()

    def keep(self) -> None:
        """What is there now is what `fresh` brings back."""
        self._template = self.top.with_name(f"{self.top.name}.template")
        shutil.rmtree(self._template, ignore_errors=True)
        at_rest.copy(self.top, self._template)

    def fresh(self) -> None:
        at_rest.copy(self._template, self.top)

    def users(self) -> dict[str, bytes]:
        """Every file and folder but those of git-agentos, git's index, objects and refs."""
        found = {}
        for path in sorted(self.top.rglob("*")):
            parts = path.relative_to(self.top).parts
            ours = "agentos" in parts or "git-agentos" in parts or ".agentos" in parts
            if ours or {"objects", "refs", "logs"} & {*parts} or path.name in ("index", ".config"):
                continue
            found["/".join(parts)] = path.read_bytes() if path.is_file() else b"folder"
        return found

    def killed(self, runner: Runner, *argv: str) -> Iterator[str]:
        """Kill the command at one step after the other; where it was killed."""
        done = runner.run_ok(self.repo.path, *argv, env=self.environment)
        for step in evenly(list(range(1, len(done.steps) + 1)), budget(_BUDGET)):
            self.fresh()
            mode = "kill-group" if step % 2 else "kill"
            done = runner.run(self.repo.path, *argv, step=step, mode=mode, env=self.environment)
            if done.code == 0 and len(done.steps) < step:
                continue
            assert done.code == -9, str(done)
            yield f"killed before step {step}: {done.steps[-1]}"

    def run(self, runner: Runner, *argv: str) -> None:
        runner.run_ok(self.repo.path, "recover", env=self.environment)  # removes git's locks
        runner.run_ok(self.repo.path, *argv, env=self.environment)


@pytest.fixture
def place(make_place: Path) -> Place:
    repo = Repo.init(make_place / "repo")
    repo.write("notes.txt", "one\n")
    repo.commit("first")
    return Place(repo)


@pytest.fixture
def make_place(tmp_path: Path) -> Path:
    folder = tmp_path / "top"
    folder.mkdir()
    return folder


@pytest.mark.slow
def test_an_init_that_was_killed_is_completed(runner: Runner, place: Place) -> None:
    before = place.users()
    place.run(runner, "init", "--yes")
    wanted = place.users()
    assert wanted != before
    place.fresh()
    for what in place.killed(runner, "init", "--yes"):
        place.run(runner, "init", "--yes")
        assert place.users() == wanted, what
        place.run(runner, "init", "--remove")
        assert place.users() == before, what


@pytest.mark.slow
@pytest.mark.parametrize("has_codex_settings", [True, False])
def test_an_init_that_was_killed_is_taken_back(runner: Runner, place: Place, has_codex_settings: bool) -> None:
    if not has_codex_settings:
        (place.home / ".codex" / "config.toml").unlink()
        place.keep()
    before = place.users()
    for what in place.killed(runner, "init", "--yes"):
        place.run(runner, "init", "--remove")
        assert place.users() == before, what
        git(place.repo.path, "status")


@pytest.mark.slow
def test_a_removal_that_was_killed_is_completed(runner: Runner, place: Place) -> None:
    before = place.users()
    place.run(runner, "init", "--yes")
    place.keep()
    for what in place.killed(runner, "init", "--remove"):
        place.run(runner, "init", "--remove")
        assert place.users() == before, what
