"""The sessions of harnesses in a worktree, and the turn of each that began last.

    <git directory of the worktree>/agentos/harness/<key>.json    the turn: `OpenTurn`
    <git directory of the worktree>/agentos/harness/<key>.last    {"turn": id, "checkpoint": id}: its last one

The turns themselves are in the log (`record`). These files only say which turn a later event belongs to, so they are
not written durably: where one is lost, what follows belongs to no turn.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator

from git_agentos.git.location import Location
from git_agentos.process import table
from git_agentos.process.table import Process
from git_agentos.util import directories, files
from git_agentos.util.named_tuple import NamedTuple

_LIMIT = 1 << 16
# Programs that start a hook for a client, and end when the hook does.
_STARTERS = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "env", "git", "git-agentos", "timeout", "nice", "setsid"}
)


class Session(NamedTuple):
    """A session: the harness that it runs in, its id as it is recorded (None: the harness has none), and the name of
    its files."""

    harness: str
    id: str | None
    key: str


class OpenTurn(NamedTuple):
    """The last turn of a session: its id, the prompt's first line, a digest of the whole prompt, the checkpoint before,
    and whether it has ended. `client` is the process that runs the session: number, start, and where that counts."""

    turn: str
    subject: str
    prompt: str
    before: str | None
    ended: bool = False
    client: tuple[int, str, str] | None = None


def session(harness: str, id_: str | None, recorded: str | None) -> Session:
    """The session with the harness's own id; `recorded` is how it is written down."""
    digest = hashlib.sha256(f"{harness}\0{id_ or ''}".encode("utf-8", "surrogatepass"))
    return Session(harness, recorded, digest.hexdigest()[:16])


def digest_of(prompt: str) -> str:
    """What `OpenTurn.prompt` has of a prompt."""
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()


# -- the files ---------------------------------------------------------------------------------------------------------


def read(location: Location, key: str) -> OpenTurn | None:
    """The last turn of a session; None where there is none."""
    try:
        body = files.read_object(_path(location, key, "json"), limit=_LIMIT)
        client = body.get("client")
        found = OpenTurn(
            str(body["turn"]),
            str(body["subject"]),
            str(body["prompt"]),
            None if body["before"] is None else str(body["before"]),
            body["ended"] is True,
            None if client is None else (int(client[0]), str(client[1]), str(client[2])),
        )
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None
    return found


def write(location: Location, key: str, turn: OpenTurn) -> None:
    """Keep the last turn of a session."""
    _replace(location, key, "json", turn._asdict())


def remove(location: Location, key: str) -> None:
    """The session has ended."""
    for ending in ("json", "last"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_path(location, key, ending))


def note_checkpoint(location: Location, key: str, turn: str, checkpoint: str) -> None:
    """Keep the last checkpoint of a turn that is going on."""
    _replace(location, key, "last", {"turn": turn, "checkpoint": checkpoint})


def forget_checkpoint(location: Location, key: str) -> None:
    """Nothing has happened in the turn since."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_path(location, key, "last"))


def last_checkpoint(location: Location, key: str, turn: str) -> str | None:
    """The last checkpoint of this turn, if there was one since it began or was stopped."""
    try:
        body = files.read_object(_path(location, key, "last"), limit=_LIMIT)
    except (OSError, ValueError):
        return None
    found = body.get("checkpoint") if body.get("turn") == turn else None
    return found if isinstance(found, str) else None


def checkpoints_of(location: Location, turn: str) -> tuple[str | None, str | None]:
    """The first and the last checkpoint of a turn that has not ended, as far as they are known."""
    for key in keys(location):
        found = read(location, key)
        if found is not None and found.turn == turn:
            return found.before, last_checkpoint(location, key, turn)
    return None, None


def keys(location: Location) -> Iterator[str]:
    """The names of all sessions that have a file."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for name in sorted(os.listdir(os.path.join(location.state_dir, "harness"))):
            if name.endswith(".json"):
                yield name.removesuffix(".json")


def _path(location: Location, key: str, ending: str) -> str:
    return os.path.join(location.state_dir, "harness", f"{key}.{ending}")


def _replace(location: Location, key: str, ending: str, body: dict[str, object]) -> None:
    path = _path(location, key, ending)
    directories.make_own(location.state_dir)
    directories.make_own(os.path.dirname(path))
    files.replace(path, json.dumps(body).encode("ascii"), mode=0o600, durable=False)


# -- the client's process ----------------------------------------------------------------------------------------------


def client_of(pid: int) -> tuple[int, str, str] | None:
    """The process that runs the session, found from the hook's process `pid`; None where it cannot be told."""
    for parent in table.parents(pid):
        if table.name(parent) in _STARTERS or parent == 1:
            continue
        found = table.identify(parent)
        return None if found is None else (found.pid, found.start, _place())
    return None


def has_died(client: tuple[int, str, str] | None) -> bool:
    """Whether it is certain that the client's process has ended."""
    if client is None or client[2] != _place():
        return False
    return table.identify(client[0]) != Process(client[0], client[1]) or not table.is_alive(client[0])


def _place() -> str:
    """Where process numbers count: this host, since its last start, and this container."""
    try:
        container = os.readlink("/proc/self/ns/pid")
    except OSError:
        container = ""
    return f"{os.uname().nodename} {table.boot_id()} {container}"
