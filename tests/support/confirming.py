"""A person who sets up the guard: a setting that makes it weaker counts once it is confirmed."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.repo import Repo


def confirm(where: Path) -> None:
    """Confirm what is set for the repository at `where`, as `git agentos guard confirm` does in a terminal."""
    from git_agentos.guard import signing
    from git_agentos.guard.configuration import settings

    signing.key(os.environ)  # is there also where nothing is to be confirmed
    settings.confirm(str(where), os.environ, (), by="terminal")


def set_up(repo: Repo, key: str, value: str) -> None:
    """Set a key in the repository's configuration, and confirm it."""
    repo.git("config", key, value)
    confirm(repo.path)


def set_up_key(repo: Repo, folder: Path) -> Path:
    """Make the key of an orchestrator in `folder`, which may decide about the repository's requests; its path."""
    path = folder / "orchestrator.key"
    path.write_text("any text")
    set_up(repo, "agentos.approvalKey", str(path))
    return path
