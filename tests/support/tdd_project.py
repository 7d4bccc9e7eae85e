"""Workflows on a small repository with a package and tests: how tests start them, and what they look at afterwards."""

from __future__ import annotations

import atexit
import functools
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from git_agentos import open_workspace
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.tdd import workflows
from git_agentos.tdd.state import Record, Review, Workflow
from git_agentos.tdd.workflows import WorkflowSpec
from tests.support.lean_python import minimal_venv
from tests.support.repo import Repo
from tests.support.state import State, complete_state

LLD = "docs/lld.md"
STUB = "def double(number):\n    raise NotImplementedError\n"
CODE = "def double(number):\n    return 2 * number\n"
WRONG = "def double(number):\n    return number\n"
TESTS = (
    "from calc.more import double\n\n\ndef test_double():\n    assert double(2) == 4\n\n\n"
    "def test_double_nothing():\n    assert double(0) == 0\n"
)


def project(repo: Repo) -> Repo:
    """Make the repository a small Python project with work in every state beside what is committed."""
    repo.write("calc/__init__.py", "")
    repo.write("calc/base.py", "def add(a, b):\n    return a + b\n")
    repo.write("tests/test_base.py", "from calc.base import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n")
    repo.write("pyproject.toml", '[tool.pytest.ini_options]\ntestpaths = ["tests"]\n')
    repo.write(LLD, "# Doubling\n\n`calc.more.double(number)` returns twice the number.\n")
    repo.write(".gitignore", "__pycache__/\n.pytest_cache/\n")
    repo.git("add", "--all")
    repo.git("commit", "--quiet", "--message", "a project")
    repo.config("agentos.tdd.python", str(interpreter()))
    repo.append("calc/base.py", "\n\n# staged by the user\n")
    repo.git("add", "calc/base.py")
    repo.append("calc/base.py", "# and not staged\n")
    repo.write("mine.txt", "the user's, untracked\n")
    return repo


GOOD_SCAFFOLD = {"write": {"tests/test_more.py": TESTS, "calc/more.py": STUB}}
GOOD_CODE = {"write": {"calc/more.py": CODE}}


@functools.cache
def interpreter() -> Path:
    """A Python for the projects of all tests of this process: one that starts quickly."""
    folder = Path(tempfile.mkdtemp(prefix="agentos-lean-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return minimal_venv(folder / "venv")


def script(folder: Path, scaffold: Sequence[Any] = (GOOD_SCAFFOLD,), implement: Sequence[Any] = (GOOD_CODE,)) -> str:
    """The name of a mock that answers so."""
    path = folder / "script.json"
    path.write_text(json.dumps({"scaffold": list(scaffold), "implement": list(implement)}))
    return f"mock:{path}"


def environment() -> Mapping[str, str]:
    """What a user's shell has: where the state of workflows goes is the test's to say (`AGENTOS_WORKFLOW_DB`)."""
    names = ("PATH", "HOME", "LANG", "AGENTOS_WORKFLOW_DB")
    return {name: os.environ[name] for name in names if name in os.environ}


def context_of(repo: Repo) -> OpenWorktree:
    return open_workspace(repo.path).context


@dataclass
class Person:
    """A watcher that keeps what it is told, and says the words it was given, one after the other."""

    says: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    reviews: list[Review] = field(default_factory=list)

    def began(self, workflow: Workflow) -> None:
        self.heard.append(f"began {workflow.state}")

    def node_begins(self, workflow: Workflow, node: str) -> None:
        self.heard.append(f"begins {node[:2]}")

    def output(self, line: bytes) -> None:
        pass

    def node_ended(self, workflow: Workflow, record: Record) -> None:
        self.heard.append(f"ended {record['node'][:2]}")

    def ask(self, review: Review) -> str | None:
        self.reviews.append(review)
        return self.says.pop(0) if self.says else None


def start(repo: Repo, agent: str, person: Person | None = None, **fields: Any) -> Workflow:
    """A workflow for issue 87, until it waits or ends."""
    order = WorkflowSpec(issue_id="87", lld=LLD, agent=agent, **fields)
    return workflows.start(context_of(repo), order, environment(), person or Person(), consent=lambda _: None)


def decide(repo: Repo, id_: str, word: str, person: Person | None = None) -> Workflow:
    return workflows.decide(context_of(repo), id_, word, environment(), person or Person())


def resume(repo: Repo, id_: str, person: Person | None = None, **fields: Any) -> Workflow:
    return workflows.resume(context_of(repo), id_, environment(), person or Person(), **fields)


def nodes_of(workflow: Workflow) -> list[str]:
    """The nodes that were done, in short."""
    return [each["node"][:2] for each in workflow.history]


def users_state(repo: Repo) -> State:
    """Everything of the user's checkout: index, stash, reflogs, refs and time stamps too. Not what every worktree of
    ours brings: its entry and its branch, the configuration's `extensions.worktreeConfig`, our folder in the root."""
    found = complete_state(repo.path, strict=True)
    assert found.strict is not None
    ours = re.compile(r"/\.git/(?:config$|worktrees/|(?:logs/)?refs/heads/feat(?:/|$))|^refs/heads/feat/")
    return replace(
        found,
        strict=replace(
            found.strict,
            git_dir={path: data for path, data in found.strict.git_dir.items() if not ours.search(path)},
            mtimes={path: time for path, time in found.strict.mtimes.items() if path},
        ),
    )
