"""What keeps a harness from reading our hooks where they are, as far as its own files tell."""

from __future__ import annotations

from collections.abc import Mapping


def needs(name: str, root: str, path: str, environment: Mapping[str, str]) -> list[str]:
    """What is still to be done before harness `name` reads `path` in the worktree at `root`, one sentence each."""
    return []
