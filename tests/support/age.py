"""Keys of age for tests, made by the library that is used for encryption."""

from __future__ import annotations

from pathlib import Path

import pyrage

from tests.support.repo import Repo


class Key:
    """A key of age, in a file of its own; `recipient` is its public part."""

    def __init__(self, folder: Path, name: str) -> None:
        made = pyrage.x25519.Identity.generate()
        self.recipient = str(made.to_public())
        self.path = folder / f"{name}.key"
        self.path.write_text(f"# public key: {self.recipient}\n{made}\n")


def encrypt_to(repo: Repo, *recipients: str) -> None:
    """Set `agentos.sync.encryptTo`."""
    repo.try_git("config", "--unset-all", "agentos.sync.encryptTo")
    for each in recipients:
        repo.git("config", "--add", "agentos.sync.encryptTo", each)


def decrypt_with(repo: Repo, path: Path) -> None:
    """Set `agentos.sync.identity`."""
    repo.config("agentos.sync.identity", str(path))
