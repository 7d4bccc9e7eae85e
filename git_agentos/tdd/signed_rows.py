"""Rows of the workflow database that only this user can have written.

The database lies where agents can write. So each checkpoint of LangGraph's has a code by the user's key
(`guard.signing`) in its metadata, of the thread's id and everything in it; and each pending write one of thread,
checkpoint, task and channel: none can be made up, changed, or moved to another workflow or another step. The code
names its key: in a database that a fleet shares, other users' workflows can be looked at, and no more.

What a process has written itself it remembers: an older row in the place of the newest is seen as well. Without a key
(in a sandbox) rows have no code, and are believed only where there is none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from git_agentos.errors import TddError
from git_agentos.guard import signing

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    _Base = BaseCheckpointSaver[Any]
else:
    _Base = object

MAC = "agentos_mac"
_NO_KEY = "the user's key, which its state is signed with, cannot be read"


class Tampered(TddError):
    """The state of a workflow is not as git-agentos wrote it. `is_foreign`: another user's key is on it."""

    def __init__(self, id_: str, reason: str, *, is_foreign: bool = False) -> None:
        super().__init__(
            f"the state of workflow '{id_}' is damaged or was tampered with: {reason}",
            f"git agentos tdd abort {id_} saves its worktree, and ends it",
        )
        self.reason = reason
        self.is_foreign = is_foreign


class Vouched:
    """A value of a pending write with its code; `kind` and `data` are the value as it is kept."""

    def __init__(self, value: Any, kind: str, data: bytes, mac: str) -> None:
        self.value = value
        self.kind = kind
        self.data = data
        self.mac = mac

    def to_bytes(self) -> bytes:
        """As it is kept."""
        return b"\0".join((self.mac.encode("ascii"), self.kind.encode("ascii"), self.data))

    @staticmethod
    def split(data: bytes) -> tuple[str, str, bytes]:
        """The code, kind and data of what `to_bytes` made; ValueError for anything else."""
        mac, kind, body = data.split(b"\0", 2)
        return mac.decode("ascii"), kind.decode("ascii"), body


class Unreadable:
    """What stands in for a value that cannot be read: other rows can be."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Signed(_Base):
    """Mixed into a saver: what it keeps is signed, and what it gives back is as it was signed."""

    user_key: bytes | None = None
    is_trusting = False  # looks at the state of another user

    def __init__(self, *args: Any, user_key: bytes | None, **more: Any) -> None:
        super().__init__(*args, **more)
        self.user_key = user_key
        self._newest: dict[str, str] = {}

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Keep a checkpoint, with its code."""
        thread = str(config["configurable"]["thread_id"])
        kept = {**metadata, MAC: self._code("state", thread, self._canonical(checkpoint))}
        done = super().put(config, checkpoint, kept, new_versions)  # type: ignore[arg-type]  # one with another key
        self._newest[thread] = checkpoint["id"]
        return done

    def put_writes(self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Keep what a task gave, each with its code."""
        vouched = []
        for channel, value in writes:
            kind, data = self.serde.dumps_typed(value)
            mac = self._code("write", *_place_of(config), task_id, channel, kind, data)
            vouched.append((channel, Vouched(value, kind, data, mac or "")))
        super().put_writes(config, vouched, task_id, task_path)

    def get_tuple(self, config: Any) -> Any:
        """A checkpoint, verified with its pending writes; Tampered where it is not as it was written."""
        thread = str(config["configurable"]["thread_id"])
        try:
            found = super().get_tuple(config)
        except (ValueError, KeyError, TypeError, AttributeError) as error:  # its metadata is no JSON
            raise Tampered(thread, f"a row cannot be read ({error})") from error
        newest = self._newest.get(thread)
        if newest is not None and "checkpoint_id" not in config["configurable"]:
            self._is_newest(thread, found, newest)
        return None if found is None else self._verified(found)

    def list(self, config: Any, **more: Any) -> Iterator[Any]:
        """Checkpoints; those that are not as they were written are left out."""
        for each in super().list(config, **more):
            try:
                yield self._verified(each)
            except Tampered:
                continue

    @staticmethod
    def _is_newest(thread: str, found: Any, newest: str) -> None:
        if found is None or found.config["configurable"]["checkpoint_id"] != newest:
            raise Tampered(thread, "its rows were changed while it was worked on")

    def delete_thread(self, thread_id: str) -> None:
        """Remove all rows of a thread."""
        super().delete_thread(thread_id)
        self._newest.pop(str(thread_id), None)

    def _verified(self, found: Any) -> Any:
        thread = str(found.config["configurable"]["thread_id"])
        if isinstance(found.checkpoint, Unreadable):
            raise Tampered(thread, f"a row cannot be read ({found.checkpoint.error})")
        canonical = self._canonical(found.checkpoint)
        metadata = found.metadata if isinstance(found.metadata, dict) else {}
        self._check(thread, metadata.get(MAC), "state", thread, canonical)
        if found.checkpoint.get("id") != found.config["configurable"]["checkpoint_id"]:
            raise Tampered(thread, "a row is in another one's place")
        writes = []
        for task, channel, value in found.pending_writes or ():
            if not isinstance(value, Vouched):
                if self.user_key is None or self.is_trusting:
                    writes.append((task, channel, value))
                    continue
                raise Tampered(thread, "a row has no code, or cannot be read")
            place = _place_of(found.config)
            self._check(thread, value.mac or None, "write", *place, task, channel, value.kind, value.data)
            writes.append((task, channel, value.value))
        return found._replace(pending_writes=writes)

    def _check(self, thread: str, code: object, *parts: str | bytes) -> None:
        if self.is_trusting or (code is None and self.user_key is None):
            return
        if self.user_key is None:
            raise Tampered(thread, _NO_KEY)
        if not isinstance(code, str):
            raise Tampered(thread, "a row has no code")
        if code != self._code(*parts):
            is_foreign = code.partition(":")[0] != _name_of(self.user_key)
            why = "it was written with another key" if is_foreign else "a row is not as it was written"
            raise Tampered(thread, why, is_foreign=is_foreign)

    def _code(self, *parts: str | bytes) -> str | None:
        if self.user_key is None:
            return None
        digest = hashlib.sha256(b"git-agentos tdd")
        for part in parts:
            data = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "big") + data)
        return f"{_name_of(self.user_key)}:{signing.mac(digest.digest(), self.user_key)}"

    def _canonical(self, checkpoint: Any) -> bytes:
        """One form of a checkpoint, whichever database it comes from."""

        def other(value: Any) -> Any:
            kind, data = self.serde.dumps_typed(value)
            return [kind, data.hex()]

        kept = {key: checkpoint.get(key) for key in ("v", "id", "ts", "channel_values", "channel_versions")}
        kept["versions_seen"] = checkpoint.get("versions_seen")
        return json.dumps(kept, sort_keys=True, default=other).encode("ascii")


def _place_of(config: Any) -> tuple[str, str]:
    place = config["configurable"]
    return str(place["thread_id"]), str(place["checkpoint_id"])


def _name_of(key: bytes) -> str:
    """What a key is called, which tells nothing of it."""
    return signing.mac(b"git-agentos key", key)[:12]
