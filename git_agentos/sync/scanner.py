"""The scanner that `sync` uses: that of `secrets`, with the repository's key for fingerprints, and the program that is
installed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cached_property

from git_agentos.git.location import Location
from git_agentos.secrets import fingerprints, programs
from git_agentos.secrets.scanner import Finding
from git_agentos.secrets.scanner import Scanner as SecretScanner
from git_agentos.sync.scan import Scanner


class _Installed:
    """Our own rules and detect-secrets; with `scan_all`, a program as well."""

    def __init__(self, location: Location) -> None:
        self._location = location

    @cached_property
    def _own(self) -> SecretScanner:
        return SecretScanner(fingerprints.key(self._location))

    @cached_property
    def _program(self) -> programs.Program | None:
        return programs.find(os.environ, self._location)

    @property
    def version(self) -> str:
        program = "" if self._program is None else f"+{programs.version(self._program, os.environ)}"
        return self._own.version + program

    def scan(self, path: bytes, data: bytes) -> Sequence[Finding]:
        return self._own.scan(path, data)

    def scan_all(self, blobs: Iterable[tuple[bytes, bytes]]) -> Sequence[Sequence[Finding]]:
        if self._program is None:
            return self._own.scan_all(blobs)
        return programs.scan_all(self._program, self._own, blobs, self._location, os.environ)


def installed(location: Location) -> Scanner:
    """The scanner for the repository of a worktree."""
    return _Installed(location)
