"""Homes in which some harnesses are: folders of their settings, and programs that say a version."""

from __future__ import annotations

import os
from pathlib import Path

_FOLDERS = {
    "claude-code": ".claude",
    "codex": ".codex",
    "gemini": ".gemini",
    "cursor": ".cursor",
    "copilot": ".copilot",
    "opencode": ".config/opencode",
}
# Our key, and the backups of settings: a home keeps them.
_OURS = ".config/git-agentos"


class FakeHome:
    """A home folder at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def has(self, *names: str) -> None:
        """Give it the folders of these harnesses."""
        for name in names:
            (self.path / _FOLDERS[name]).mkdir(parents=True, exist_ok=True)

    def install(self, program: str, version: str | None, *, package: bool = False) -> Path:
        """Put a program into `bin`: one that prints its version, or with `package` one that fails and is in a package
        that says it."""
        folder = self.path / "bin"
        folder.mkdir(exist_ok=True)
        path = folder / program
        if package:
            inner = self.path / "lib" / program / "bin"
            inner.mkdir(parents=True)
            (inner.parent / "package.json").write_text(f'{{"name": "{program}", "version": "{version}"}}')
            (inner / "cli.js").write_text("#!/bin/sh\nexit 9\n")
            (inner / "cli.js").chmod(0o755)
            path.symlink_to(inner / "cli.js")
        else:
            path.write_text("#!/bin/sh\nexit 1\n" if version is None else f"#!/bin/sh\necho '{program} {version}'\n")
            path.chmod(0o755)
        return path

    @property
    def on_path(self) -> dict[str, str]:
        """The environment in which its programs are found."""
        return {"PATH": f"{self.path / 'bin'}{os.pathsep}{os.environ['PATH']}"}

    def files(self) -> dict[str, bytes]:
        """Every file in it, but for our own."""
        found = {}
        for path in sorted(self.path.rglob("*")):
            name = str(path.relative_to(self.path))
            if path.is_file() and not name.startswith((_OURS, ".run/")):
                found[name] = path.read_bytes()
        return found
