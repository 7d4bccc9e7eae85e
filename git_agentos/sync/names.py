"""Names of timelines on remotes and of what was fetched from them.

    refs/agentos/hosts/<host>/timelines/<name>               on a remote
    refs/agentos/hosts/<host>/bundles/<name>                 on a remote, encrypted (`bundles`)
    refs/agentos/remotes/<remote>/<host>/timelines/<name>    here: as it was when it was last fetched or pushed

<host> is a clone of the repository (`host`). <name> is the id of the worktree; from the second generation on, which
begins when checkpoints have been forgotten, `@2` and so on follow. Of one timeline, a number is given once, encrypted
or not. Nothing else below `refs/agentos/hosts/` is a name: a remote can have anything there.
"""

from __future__ import annotations

import re

from git_agentos.checkpoint.timeline import FETCHED
from git_agentos.config import AGENT_ID
from git_agentos.util.named_tuple import NamedTuple

HOSTS = "refs/agentos/hosts/"
_FOLDER = "timelines"
_ENCRYPTED = "bundles"
_NAME = re.compile(rf"({AGENT_ID})/({_FOLDER}|{_ENCRYPTED})/({AGENT_ID})(?:@([1-9][0-9]{{0,8}}))?")


class RemoteTimeline(NamedTuple):
    """A timeline of a host, in one of its generations."""

    host: str
    timeline: str  # the worktree's id
    generation: int = 1
    is_encrypted: bool = False  # on the remote

    @property
    def name(self) -> str:
        return self.timeline if self.generation == 1 else f"{self.timeline}@{self.generation}"

    @property
    def on_remote(self) -> str:
        """Its ref on the remote."""
        return f"{HOSTS}{self.host}/{_ENCRYPTED if self.is_encrypted else _FOLDER}/{self.name}"

    def fetched_from(self, remote: str) -> str:
        """The ref that it has here."""
        return f"{FETCHED}{remote}/{self.host}/{_FOLDER}/{self.name}"


def parse(ref: str) -> RemoteTimeline | None:
    """The timeline that a ref of a remote is; None for any other ref."""
    return _parse(ref.removeprefix(HOSTS)) if ref.startswith(HOSTS) else None


def parse_fetched(ref: str) -> tuple[str, RemoteTimeline] | None:
    """The remote and the timeline of a ref here; None for any other ref. The name of a remote may have slashes."""
    parts = ref.removeprefix(FETCHED).rsplit("/", 3)
    if not ref.startswith(FETCHED) or len(parts) != 4:
        return None
    found = _parse("/".join(parts[1:]))
    return None if found is None or found.is_encrypted else (parts[0], found)


def is_host(name: str) -> bool:
    """Whether a host can have this name."""
    return re.fullmatch(AGENT_ID, name) is not None and _is_safe(name)


def _parse(text: str) -> RemoteTimeline | None:
    found = _NAME.fullmatch(text)
    if found is None or not _is_safe(found[1]) or not _is_safe(found[3]) or found[4] == "1":
        return None
    return RemoteTimeline(found[1], found[3], int(found[4] or 1), found[2] == _ENCRYPTED)


def _is_safe(part: str) -> bool:
    return not part.endswith((".lock", ".")) and ".." not in part
