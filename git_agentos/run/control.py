"""Private files of a run in the repository's git directory, until the run has ended:

<common dir>/agentos/runs/<run id>.json     its spec, word for word: the evidence has it without secrets, and only its
                                            owner can read this file. The event `begun` has a MAC of it
<common dir>/agentos/runs/<run id>.cancel   a signed request to cancel the run, which its process looks for
"""

from __future__ import annotations

import contextlib
import json
import os

from git_agentos.git.location import Location
from git_agentos.guard import signing
from git_agentos.run import lock
from git_agentos.util import directories, files

_FOLDER = "runs"
_CANCEL = "run-cancel"


def save_spec(location: Location, run_id: str, text: str) -> None:
    """Save the spec of a run."""
    path = _own_path(location, run_id, "json")
    lock.clear_path(path)
    files.replace(path, _bytes(text), mode=0o600)


def load_spec(location: Location, run_id: str) -> str | None:
    """The spec of a run; None where it is not here (the run has ended, or was begun on another machine)."""
    try:
        return files.read(_path(location, run_id, "json")).decode("utf-8", "surrogateescape")
    except OSError:
        return None


def sign_spec(run_id: str, text: str) -> str | None:
    """The MAC of a run's spec, by the user's key; None where the key cannot be read."""
    return signing.sign(_document(run_id, text), os.environ)


def is_signed_spec(run_id: str, text: str, known: object) -> bool:
    """Whether `known` is the MAC of a text."""
    return signing.is_signed(_document(run_id, text), known, os.environ)


def request_cancel(location: Location, run_id: str) -> None:
    """Ask the process that has a run to cancel it."""
    path = _own_path(location, run_id, "cancel")
    document = signing.sign_document(_CANCEL, run_id, _request(location, run_id), signing.key(os.environ))
    lock.clear_path(path)
    files.replace(path, json.dumps(document).encode("ascii") + b"\n", durable=False)


def cancel_requested(location: Location, run_id: str) -> bool:
    """Whether a run is to be cancelled: the request has to be signed with the user's key, where there is one."""
    path = _path(location, run_id, "cancel")
    if not os.path.lexists(path):
        return False
    try:
        document = files.read_object(path, limit=1 << 16)
    except (OSError, ValueError):
        return False
    known = signing.key(os.environ, make=False)
    if document.get("repository") != location.common_dir:
        return False
    return known is None or signing.verify_document(_CANCEL, run_id, document, known)


def clear_cancel(location: Location, run_id: str) -> None:
    """Remove the request to cancel a run."""
    _remove(location, run_id, "cancel")


def discard(location: Location, run_id: str) -> None:
    """Remove the private files of a run."""
    for end in ("json", "cancel"):
        _remove(location, run_id, end)


def _remove(location: Location, run_id: str, end: str) -> None:
    path = _path(location, run_id, end)
    lock.clear_path(path)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _request(location: Location, run_id: str) -> dict[str, str]:
    return {"run_id": run_id, "repository": location.common_dir}


def _document(run_id: str, text: str) -> bytes:
    return f"git-agentos run-spec {run_id}\0".encode("ascii") + _bytes(text)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _own_path(location: Location, run_id: str, end: str) -> str:
    directories.make_own(location.shared_state_dir, _FOLDER)
    return _path(location, run_id, end)


def _path(location: Location, run_id: str, end: str) -> str:
    return os.path.join(location.shared_state_dir, _FOLDER, f"{run_id}.{end}")
