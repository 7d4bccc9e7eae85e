"""Notes of `forget --path` and `--secret` that have begun and are not known to have finished.

    <common dir>/agentos/rewriting    one fingerprint (`secrets.fingerprints`) of a secret or a pattern on each line

The texts themselves are written nowhere, so what a killed command has left can only be done by giving them again.
"""

from __future__ import annotations

import contextlib
import os

from git_agentos.git.location import Location
from git_agentos.retention.redaction import Wanted
from git_agentos.secrets import fingerprints
from git_agentos.util import directories, files

_NAME = "rewriting"
MESSAGE = (
    "what a 'git agentos forget --secret' or '--path' was to remove that did not finish:"
    " give it the same secrets or paths again"
)


def begin(location: Location, wanted: Wanted) -> None:
    """Note what is to be forgotten, durably. The lock on forgetting must be held."""
    _write(location, _read(location) | _marks(location, wanted))


def end(location: Location, wanted: Wanted) -> None:
    """Note that all of it is forgotten."""
    _write(location, _read(location) - _marks(location, wanted))


def is_any(location: Location) -> bool:
    """Whether something has begun that did not finish."""
    return bool(_read(location))


def _marks(location: Location, wanted: Wanted) -> set[str]:
    key = fingerprints.key(location)
    texts = [*wanted.secrets, *(b"path " + os.fsencode(glob) for glob in wanted.globs)]
    return {fingerprints.of(text, key) for text in texts}


def _read(location: Location) -> set[str]:
    with contextlib.suppress(OSError):
        return set(files.read(os.path.join(location.shared_state_dir, _NAME)).decode("ascii", "replace").split())
    return set()


def _write(location: Location, marks: set[str]) -> None:
    path = os.path.join(directories.make_own(location.shared_state_dir), _NAME)
    if marks:
        files.replace(path, "".join(f"{each}\n" for each in sorted(marks)).encode("ascii"), mode=0o600)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
