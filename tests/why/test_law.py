"""The law of `why`: it names the turn that wrote a line, or none; never another one.

Histories are random, of two sessions, a person and git in one worktree, and an agent in another one whose commits are
merged. Every line that is written is unlike all others, so it is known who wrote it.
"""

from __future__ import annotations

import os
import random

import pytest

from git_agentos.turns import listing, revert
from git_agentos.why import explain
from tests.support.agents import agent_worktree
from tests.support.repo import Repo
from tests.support.runs import context_of
from tests.support.sessions import ClaudeSession

PATH = "code.py"
STEPS = 30


class Worker:
    """A session in a worktree: the turn that goes on in it."""

    def __init__(self, repo: Repo, name: str) -> None:
        self.repo, self.name = repo, name
        self.session = ClaudeSession(repo, name)
        self.turn: str | None = None


class History:
    """A random history; `truth` has the turn that wrote a line, None for lines of others."""

    def __init__(self, repo: Repo, seed: int) -> None:
        self.random = random.Random(seed)
        self.repo = repo
        repo.write(PATH, "".join(f"line {n}\n" for n in range(12)))
        repo.git("add", PATH)
        repo.commit("begin")
        self.dev = agent_worktree(repo, "dev")
        self.here = [Worker(repo, "s-one"), Worker(repo, "s-two")]
        self.there = Worker(self.dev, "s-dev")
        self.truth: dict[str, str | None] = {f"line {n}": None for n in range(12)}
        self.count = 0

    def step(self) -> str:
        choices = [
            self.turn_of_one, self.turn_of_one, self.turn_of_one, self.two_at_once, self.person, self.person,
            self.commit, self.dev_works, self.merge_dev, self.stash, self.revert_a_turn, self.restore,
            self.edit_and_commit, self.amend,
        ]  # fmt: skip
        chosen = self.random.choice(choices)
        chosen()
        return chosen.__name__

    # -- who does what ---------------------------------------------------------------------------------------------

    def begin(self, worker: Worker) -> None:
        worker.session.prompt(f"prompt {self.count}")
        self.count += 1
        found = listing.list_turns(context_of(worker.repo)).turns
        worker.turn = next(each.id for each in found if each.session_id == worker.name)

    def edit(self, repo: Repo, turn: str | None) -> None:
        """Insert, change and remove some lines."""
        lines = repo.read(PATH).decode().splitlines() if repo.exists(PATH) else []
        for _ in range(self.random.randint(1, 3)):
            self.count += 1
            text = f"text {self.count}"
            at = self.random.randint(0, len(lines))
            way = self.random.choice(["insert", "insert", "change", "remove"])
            if way != "insert" and at < len(lines) > 4:
                del lines[at]
            if way != "remove":
                lines.insert(at, text)
                self.truth[text] = turn
        repo.write(PATH, "".join(f"{each}\n" for each in lines))

    def turn_of_one(self) -> None:
        worker = self.random.choice(self.here)
        self.begin(worker)
        for _ in range(self.random.randint(0, 3)):
            self.edit(worker.repo, worker.turn)
            worker.session.edited(PATH)
        if self.random.random() < 0.3:
            worker.session.ran("git status")
        if self.random.random() < 0.8:
            worker.session.stop()
        else:  # interrupted: what follows is somebody else's, until its next prompt
            self.edit(worker.repo, None)
            worker.session.prompt("the next")
            worker.session.stop()

    def two_at_once(self) -> None:
        one, two = self.random.sample(self.here, 2)
        self.begin(one)
        self.begin(two)
        for _ in range(self.random.randint(1, 4)):
            worker = self.random.choice([one, two])
            self.edit(worker.repo, worker.turn)
            self.random.choice([one, two]).session.edited(PATH)
        for worker in self.random.sample([one, two], 2):
            worker.session.stop()
        self.edit(self.repo, None)

    def person(self) -> None:
        self.edit(self.repo, None)

    def commit(self) -> None:
        self.repo.git("add", "-A")
        self.repo.git("commit", "-q", "--allow-empty", "-m", f"commit {self.count}")
        self.count += 1

    def edit_and_commit(self) -> None:
        worker = self.random.choice(self.here)
        self.commit()
        self.begin(worker)
        self.edit(worker.repo, worker.turn)
        self.commit()
        worker.session.ran("edit, and git commit")
        worker.session.stop()

    def amend(self) -> None:
        self.edit(self.repo, None)
        self.repo.git("commit", "-q", "--amend", "--allow-empty", "-a", "-m", f"amended {self.count}")

    def dev_works(self) -> None:
        self.begin(self.there)
        self.edit(self.dev, self.there.turn)
        self.there.session.edited(PATH)
        self.there.session.stop()
        self.dev.git("commit", "-q", "-a", "--allow-empty", "-m", f"of dev {self.count}")
        self.count += 1

    def merge_dev(self) -> None:
        """In a turn, by a merge or by picks, which is aborted where it conflicts."""
        worker = self.random.choice(self.here)
        self.commit()
        self.begin(worker)
        if self.random.random() < 0.5:
            if self.repo.try_git("merge", "-q", "--no-edit", "agent/dev"):
                self.repo.try_git("merge", "--abort")
        elif self.random.random() < 0.5:
            if self.repo.try_git("merge", "-q", "--squash", "agent/dev"):
                self.repo.git("reset", "-q", "--hard")
        elif self.repo.try_git("cherry-pick", "--allow-empty", "agent/dev"):
            self.repo.try_git("cherry-pick", "--abort")
        worker.session.ran("git merge")
        worker.session.stop()

    def stash(self) -> None:
        worker = self.random.choice(self.here)
        self.edit(self.repo, None)
        self.begin(worker)
        self.repo.git("stash", "-q")
        worker.session.ran("git stash")
        assert self.repo.try_git("stash", "pop", "-q") == 0
        worker.session.ran("git stash pop")
        worker.session.stop()

    def revert_a_turn(self) -> None:
        turns = [each for each in listing.list_turns(context_of(self.repo)).turns if each.ended_at is not None]
        if turns:
            revert.revert(context_of(self.repo), self.random.choice(turns).id)

    def restore(self) -> None:
        """A turn brings back an older state of the file."""
        turns = [each.before for each in listing.list_turns(context_of(self.repo)).turns if each.before is not None]
        if turns:
            worker = self.random.choice(self.here)
            chosen = self.random.choice(turns)
            self.begin(worker)
            self.repo.git("restore", "--source", chosen, "--", PATH)
            worker.session.ran("git restore")
            worker.session.stop()


@pytest.mark.parametrize("seed", range(6))
def test_the_law(repo: Repo, seed: int) -> None:
    history = History(repo, seed)
    done: list[str] = []
    named = known = 0
    for step in range(STEPS):
        done.append(history.step())
        if step % 3 and step != STEPS - 1:
            continue
        for where in (repo, history.dev):
            for line in explain.why(context_of(where), os.fsencode(PATH)).lines:
                truth = history.truth[line.text]
                assert line.turn in (truth, None), f"{line}: it is of {truth}; {done}"
                named += line.turn is not None
                known += truth is not None
    assert named > known * 0.2, f"{named} of {known}"
