"""What is still wanted of a run, beside its evidence: in the repository's git directory, until the run has ended.

<common dir>/agentos/runs/<run id>.json     what it is to do, word for word: the evidence has it without secrets, and
                                            nobody else may read this one. The event `begun` has a code of it
<common dir>/agentos/runs/<run id>.cancel   a signed document: the run is to end. Whoever is at work on it looks for it
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
    """Keep what a run is to do."""
    path = _made(location, run_id, "json")
    lock.clear_path(path)
    files.replace(path, _bytes(text), mode=0o600)


def load_spec(location: Location, run_id: str) -> str | None:
    """What a run is to do; None where that is not kept (it has ended, or was begun on another machine)."""
    try:
        return files.read(_path(location, run_id, "json")).decode("utf-8", "surrogateescape")
    except OSError:
        return None


def sign_spec(run_id: str, text: str) -> str | None:
    """The code of what a run is to do, by the user's key; None where that cannot be read."""
    return signing.sign(_document(run_id, text), os.environ)


def is_signed_spec(run_id: str, text: str, known: object) -> bool:
    """Whether a text is the one of which `known` is the code."""
    return signing.is_signed(_document(run_id, text), known, os.environ)


def request_cancel(location: Location, run_id: str) -> None:
    """Tell whoever is at work on a run that it is to be cancelled."""
    path = _made(location, run_id, "cancel")
    document = signing.sign_document(_CANCEL, run_id, _request(location, run_id), signing.key(os.environ))
    lock.clear_path(path)
    files.replace(path, json.dumps(document).encode("ascii") + b"\n", durable=False)


def cancel_requested(location: Location, run_id: str) -> bool:
    """Whether the run is to be cancelled, by somebody who has the user's key; by anybody where there is none."""
    path = _path(location, run_id, "cancel")
    if not os.path.lexists(path):
        return False
    try:
        document = json.loads(files.read(path, limit=1 << 16))
    except (OSError, ValueError, RecursionError):
        return False
    known = signing.key(os.environ, make=False)
    if not isinstance(document, dict) or document.get("repository") != location.common_dir:
        return False
    return known is None or signing.verify_document(_CANCEL, run_id, document, known)


def clear_cancel(location: Location, run_id: str) -> None:
    """It is not to be cancelled after all: whoever wanted that is gone."""
    _remove(location, run_id, "cancel")


def discard(location: Location, run_id: str) -> None:
    """Nothing is wanted of the run any more."""
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


def _made(location: Location, run_id: str, end: str) -> str:
    directories.make_own(location.shared_state_dir, _FOLDER)
    return _path(location, run_id, end)


def _path(location: Location, run_id: str, end: str) -> str:
    return os.path.join(location.shared_state_dir, _FOLDER, f"{run_id}.{end}")
