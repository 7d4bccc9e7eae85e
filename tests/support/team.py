"""Agents in one repository who have done a bit of everything: for what shows all of them."""

from __future__ import annotations

import shutil

from tests.support.agents import agent_commit, agent_worktree
from tests.support.repo import Repo
from tests.support.runs import start
from tests.support.sessions import ClaudeSession
from tests.support.tool import run_ok

AGENTS = ("archived", "broken", "idle", "left", "right")


class Team:
    """`left` and `right` conflict; `left` was merged, has restored, and logged an error and a decision; `right` had a
    turn. `archived` is archived, the folder of `broken` is deleted, `idle` has done nothing. There is one run. `ids`
    has what `left` made: checkpoint, saved state, commit, merge, error, decision."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self.ids: dict[str, str] = {}
        agent_worktree(repo, "idle")
        self._left()
        self._right()
        agent_commit(repo, "archived", {"old.txt": "old\n"})
        run_ok(repo.path, "worktree", "archive", "archived")
        broken = agent_commit(repo, "broken", {"lost.txt": "lost\n"})
        run_ok(broken.path, "checkpoint", "-m", "before it broke")
        shutil.rmtree(broken.path)
        self.run = start(repo, "echo done > done.txt", validate=["test -e done.txt"])

    @property
    def agents(self) -> list[str]:
        return sorted((*AGENTS, f"run-{self.run.run_id}"))

    def _left(self) -> None:
        there = agent_worktree(self.repo, "left", task="T-1")
        self.ids["checkpoint"] = run_ok(there.path, "checkpoint", "-m", "begun\nwith more below")["id"]
        there.write("both.txt", "left\n")
        self.ids["commit"] = there.commit("the left one")
        there.write("both.txt", "worse\n")
        self.ids["saved"] = run_ok(there.path, "restore", "latest", "--no-branch")["saved"]
        run_ok(there.path, "log", "add", "action", "looked around")
        self.ids["error"] = run_ok(there.path, "log", "add", "error", "it broke\nbadly")["id"]
        self.ids["decision"] = run_ok(there.path, "log", "add", "decision", "go left")["id"]
        run_ok(there.path, "log", "add", "nudge", "please be quick")
        there.git("reset", "-q", "--hard", self.ids["commit"])
        self.ids["merge"] = run_ok(self.repo.path, "worktree", "merge", "left")["merge_commit"]

    def _right(self) -> None:
        there = agent_worktree(self.repo, "right", base="main~1")
        session = ClaudeSession(there)
        session.prompt("go right\nplease")
        there.write("both.txt", "right\n")
        session.edited("both.txt")
        there.commit("the right one")
        session.stop()
