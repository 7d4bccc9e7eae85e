"""The scanner that `sync` uses: that of `secrets`, with the repository's key for fingerprints."""

from __future__ import annotations

from git_agentos.git.location import Location
from git_agentos.secrets import fingerprints
from git_agentos.secrets.scanner import Scanner as SecretScanner
from git_agentos.sync.scan import Scanner


def installed(location: Location) -> Scanner:
    """The scanner for the repository of a worktree."""
    return SecretScanner(fingerprints.key(location))
