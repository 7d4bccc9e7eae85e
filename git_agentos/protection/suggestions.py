"""What new worktrees of a project will need, by its lock files and by what git ignores: suggested, never set.

A lock file is not read: that it is there says which program installs what the project needs.
"""

from __future__ import annotations

import os

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.config import SETUP
from git_agentos.git import ignore
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.worktree import setup

# One line for each language: its lock files, and the command for each. Of one language, the first that is there counts.
_COMMANDS = (
    (
        ("pnpm-lock.yaml", "pnpm install --frozen-lockfile"),
        ("yarn.lock", "yarn install --frozen-lockfile"),
        ("bun.lock", "bun install --frozen-lockfile"),
        ("bun.lockb", "bun install --frozen-lockfile"),
        ("package-lock.json", "npm ci"),
        ("npm-shrinkwrap.json", "npm ci"),
    ),
    (
        ("uv.lock", "uv sync"),
        ("poetry.lock", "poetry install"),
        ("pdm.lock", "pdm sync"),
        ("Pipfile.lock", "pipenv sync"),
    ),
    (("Cargo.lock", "cargo fetch"),),
    (("Gemfile.lock", "bundle install"),),
    (("composer.lock", "composer install"),),
    (("go.sum", "go mod download"),),
    (("mix.lock", "mix deps.get"),),
)
# Files with settings of one machine, which projects mostly have git ignore.
_LOCAL = (".env", ".env.local", ".envrc", ".env.development", ".env.test")


class Suggestion(NamedTuple):
    """`command` is what to run in a shell, in the folder of the worktree; `reason` says why."""

    command: str
    reason: str


def find(context: OpenWorktree) -> list[Suggestion]:
    """What is suggested for the worktree of `context`."""
    return [*_setup_command(context), *_included_files(context)]


def _setup_command(context: OpenWorktree) -> list[Suggestion]:
    if SETUP in context.settings.values:
        return []
    root = context.location.root
    present = [
        next(((name, command) for name, command in each if os.path.isfile(os.path.join(root, name))), None)
        for each in _COMMANDS
    ]
    pairs = [each for each in present if each is not None]
    if not pairs:
        return []
    text = " && ".join(command for _, command in pairs)
    names = " and ".join(name for name, _ in pairs)
    return [Suggestion(f"git config agentos.setup '{text}'", f"installs in each new worktree what {names} lists")]


def _included_files(context: OpenWorktree) -> list[Suggestion]:
    """Ignored files that a new worktree would lack."""
    root = context.location.root
    if os.path.lexists(os.path.join(root, setup.INCLUDE)):
        return []
    present = [os.fsencode(name) for name in _LOCAL if os.path.isfile(os.path.join(root, name))]
    names = [os.fsdecode(name) for name in ignore.ignored_among(context.repository, present)] if present else []
    if not names:
        return []
    command = f"printf '%s\\n' {' '.join(names)} >{setup.INCLUDE}"
    return [Suggestion(command, f"copies {' and '.join(names)}, which git ignores, into each new worktree")]
