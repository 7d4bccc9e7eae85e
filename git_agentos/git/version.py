"""The version of git that runs, and the oldest one that will do."""

from __future__ import annotations

import re
from collections.abc import Mapping

from git_agentos.errors import RepositoryError
from git_agentos.git import process

OLDEST = (2, 38)


def read(cwd: str | None = None, env: Mapping[str, str] | None = None) -> str:
    """What `git version` prints."""
    return process.run(["version"], cwd=cwd, env=env).decode("ascii", "replace").strip()


def parse(text: str) -> tuple[int, int]:
    """The major and the minor version in what `git version` prints; (0, 0) if there is none."""
    found = re.search(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found is not None else (0, 0)


def require(text: str) -> None:
    """RepositoryError if git is too old, by what `git version` prints."""
    if parse(text) < OLDEST:
        raise RepositoryError(f"{text or 'git'} is too old", "install git {}.{} or later".format(*OLDEST))
