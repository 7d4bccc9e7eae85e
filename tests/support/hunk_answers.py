"""The same answers to `git restore --patch` and to `git agentos restore --patch`."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Sequence
from typing import Any

from git_agentos import open_workspace
from git_agentos.cli import hunk_questions
from git_agentos.cli.output import Output
from tests.support.repo import Repo


class Scripted(Output):
    """A terminal at which the answers are typed one after the other; then the input ends."""

    def __init__(self, answers: Sequence[str]) -> None:
        self._screen = io.BytesIO()
        super().__init__(None, io.TextIOWrapper(self._screen, encoding="utf-8"))
        self._answers = list(answers)

    @property
    def seen(self) -> str:
        return self._screen.getvalue().decode()

    def is_interactive(self) -> bool:
        return True

    def prompt(self, question: str) -> str | None:
        answer = self._answers.pop(0) if self._answers else None
        self.progress(f"{question}{answer}")
        return answer


def by_git(repo: Repo, answers: Sequence[str]) -> None:
    """Answer `git restore --patch`, which compares with the index."""
    env = {**os.environ, "LC_ALL": "C"}
    data = "".join(f"{each}\n" for each in answers).encode()
    done = subprocess.run(
        ["git", "restore", "--patch"], cwd=repo.path, input=data, env=env, capture_output=True, check=False
    )
    assert done.returncode == 0, done
    assert b"error:" not in done.stderr, done


def by_tool(
    repo: Repo, spec: str, answers: Sequence[str], paths: Sequence[str] = (), **options: Any
) -> tuple[Any, str]:
    """Answer `git agentos restore SPEC --patch`; the result, and what was on the screen."""
    workspace = open_workspace(repo.path)
    screen = Scripted(answers)
    choose = hunk_questions.chooser(screen, workspace.context.location)
    return workspace.restore(spec, paths, choose=choose, **options), screen.seen
