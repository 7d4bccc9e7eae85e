"""Two hooks for one event: a harness that has ours both in its settings and from a plugin calls both of them.

Then one of them handles the event, and the other one has no objection. Which one comes first does not matter, and a
harness may read only one of the two (it does not trust the other): so each notes the event, and one that finds it noted
by the other source takes the note away and does nothing.

    <git directory of the worktree>/agentos/harness/<name>.events    {"events": [[digest, source, seconds]…], "mac": …}

It is signed, so that no agent can make a hook believe that another one has decided.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any

from git_agentos.errors import AgentosError
from git_agentos.guard import signing
from git_agentos.util import files, locks
from git_agentos.util.named_tuple import NamedTuple

SETTINGS, PLUGIN = "settings", "plugin"
_KEPT = 60.0  # seconds in which the other hook has to come
_KIND = "harness-events"


class Sent(NamedTuple):
    """What a harness has sent: the bytes of an event, and to the hook of which source."""

    data: bytes
    source: str


def is_first(name: str, git_dir: str | None, sent: Sent, environment: Mapping[str, str]) -> bool:
    """Whether the event has to be handled: the other hook has not handled it. In doubt it has to be."""
    if git_dir is None or not os.path.isdir(os.path.join(git_dir, "agentos")):
        return True
    path = os.path.join(git_dir, "agentos", "harness", f"{name}.events")
    try:
        known = signing.key(environment)
        if known is None:
            return True
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with locks.hold(f"{path}.lock"):
            return _note(path, name, sent, known)
    except (AgentosError, OSError):
        return True


def _note(path: str, name: str, sent: Sent, known: bytes) -> bool:
    import hashlib

    digest, now = hashlib.sha256(sent.data).hexdigest(), time.time()
    noted = [each for each in _read(path, name, known) if abs(now - each[2]) < _KEPT]
    other = next((each for each in noted if each[0] == digest and each[1] != sent.source), None)
    if other is None:
        noted.append([digest, sent.source, now])
    else:
        noted.remove(other)
    document = signing.sign_document(_KIND, name, {"events": noted}, known)
    files.replace(path, json.dumps(document).encode("ascii"), mode=0o600, durable=False)
    return other is None


def _read(path: str, name: str, known: bytes) -> list[list[Any]]:
    try:
        document = files.read_object(path, limit=1 << 20)
    except (OSError, ValueError):
        return []
    return list(document["events"]) if signing.verify_document(_KIND, name, document, known) else []
