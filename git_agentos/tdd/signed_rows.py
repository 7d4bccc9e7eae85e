"""Rows of the workflow database with signatures that only this user can make.

Agents can write to the database. So each checkpoint of LangGraph's has a MAC by the user's key (`guard.signing`) in its
metadata, of the thread's id and its content; and each pending write one of thread, checkpoint, task and channel: no row
can be invented, changed, or moved to another workflow or another step. The MAC names its key: in a database that a
fleet shares, workflows of other users can be shown, and no more.

A process remembers what it has written itself, so that it detects an older row in the place of the newest. Without a
key (in a sandbox) rows have no MAC, and only rows without one are accepted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from git_agentos.errors import TddError
from git_agentos.guard import signing
from git_agentos.tdd.state import id_of

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    _Base = BaseCheckpointSaver[Any]
else:
    _Base = object

MAC = "agentos_mac"
_NO_KEY = "the user's key, which its state is signed with, cannot be read"


class Tampered(TddError):
    """The state of a workflow is not as git-agentos wrote it. `is_foreign`: it is signed with another user's key."""

    def __init__(self, thread: str, reason: str, *, is_foreign: bool = False) -> None:
        id_ = id_of(thread)
        super().__init__(
            f"the state of workflow '{id_}' is damaged or was tampered with: {reason}",
            f"git agentos tdd abort {id_} saves its worktree, and ends it",
        )
        self.reason = reason
        self.is_foreign = is_foreign


class SignedValue:
    """A value of a pending write with its MAC; `kind` and `data` are the value as it is stored."""

    def __init__(self, value: Any, kind: str, data: bytes, mac: str) -> None:
        self.value = value
        self.kind = kind
        self.data = data
        self.mac = mac

    def to_bytes(self) -> bytes:
        return b"\0".join((self.mac.encode("ascii"), self.kind.encode("ascii"), self.data))

    @staticmethod
    def split(data: bytes) -> tuple[str, str, bytes]:
        """The MAC, kind and data of what `to_bytes` made; ValueError for anything else."""
        mac, kind, body = data.split(b"\0", 2)
        return mac.decode("ascii"), kind.decode("ascii"), body


class Unreadable:
    """Stands for a value that cannot be read: other rows can be."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Signed(_Base):
    """Mixed into a saver: it signs what it writes, and verifies what it reads."""

    user_key: bytes | None = None
    is_trusting = False  # shows the state of another user

    def __init__(self, *args: Any, user_key: bytes | None, **more: Any) -> None:
        super().__init__(*args, **more)
        self.user_key = user_key
        self._newest: dict[str, str] = {}

    def prepare_use(self) -> None:
        """Called before the database is used."""

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Write a checkpoint, with its MAC."""
        self.prepare_use()
        thread = str(config["configurable"]["thread_id"])
        signed = {**metadata, MAC: self._mac("state", thread, self._canonical(checkpoint))}
        written = super().put(config, checkpoint, signed, new_versions)  # type: ignore[arg-type]  # one with another key
        self._newest[thread] = checkpoint["id"]
        return written

    def put_writes(self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Write the results of a task, each with its MAC."""
        self.prepare_use()
        signed = []
        for channel, value in writes:
            kind, data = self.serde.dumps_typed(value)
            mac = self._mac("write", *_thread_and_checkpoint(config), task_id, channel, kind, data)
            signed.append((channel, SignedValue(value, kind, data, mac or "")))
        super().put_writes(config, signed, task_id, task_path)

    def get_tuple(self, config: Any) -> Any:
        """A checkpoint with its pending writes, verified; Tampered if it is not as it was written."""
        self.prepare_use()
        thread = str(config["configurable"]["thread_id"])
        try:
            found = super().get_tuple(config)
        except (ValueError, KeyError, TypeError, AttributeError) as error:  # its metadata is no JSON
            raise Tampered(thread, f"a row cannot be read ({error})") from error
        newest = self._newest.get(thread)
        is_newest = found is not None and found.config["configurable"]["checkpoint_id"] == newest
        if newest is not None and "checkpoint_id" not in config["configurable"] and not is_newest:
            raise Tampered(thread, "its rows were changed while a process worked on it")
        return None if found is None else self._verify(found)

    def list(self, config: Any, **more: Any) -> Iterator[Any]:
        """Checkpoints, without those that are not as they were written."""
        self.prepare_use()
        for each in super().list(config, **more):
            try:
                yield self._verify(each)
            except Tampered:
                continue

    def delete_thread(self, thread_id: str) -> None:
        """Remove all rows of a thread."""
        self.prepare_use()
        super().delete_thread(thread_id)
        self._newest.pop(str(thread_id), None)

    def _verify(self, found: Any) -> Any:
        """A checkpoint and its writes, without the MACs; Tampered if one of them is wrong."""
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
            if not isinstance(value, SignedValue):
                if self.user_key is None or self.is_trusting:
                    writes.append((task, channel, value))
                    continue
                raise Tampered(thread, "a row has no signature, or cannot be read")
            ids = _thread_and_checkpoint(found.config)
            self._check(thread, value.mac or None, "write", *ids, task, channel, value.kind, value.data)
            writes.append((task, channel, value.value))
        return found._replace(pending_writes=writes)

    def _check(self, thread: str, mac: object, *parts: str | bytes) -> None:
        if self.is_trusting or (mac is None and self.user_key is None):
            return
        if self.user_key is None:
            raise Tampered(thread, _NO_KEY)
        if not isinstance(mac, str):
            raise Tampered(thread, "a row has no signature")
        if mac != self._mac(*parts):
            is_foreign = mac.partition(":")[0] != _key_name(self.user_key)
            reason = "it was written with another key" if is_foreign else "a row is not as it was written"
            raise Tampered(thread, reason, is_foreign=is_foreign)

    def mac_of_state(self, thread: str, checkpoint: Any) -> str | None:
        """The MAC of a checkpoint."""
        return self._mac("state", str(thread), self._canonical(checkpoint))

    def mac_of_write(self, ids: tuple[str, str, str, str], kind: str, data: bytes) -> str | None:
        """The MAC of a pending write: `ids` are thread, checkpoint, task and channel."""
        return self._mac("write", *ids, kind, data)

    def _mac(self, *parts: str | bytes) -> str | None:
        if self.user_key is None:
            return None
        digest = hashlib.sha256(b"git-agentos tdd")
        for part in parts:
            data = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "big") + data)
        return f"{_key_name(self.user_key)}:{signing.mac(digest.digest(), self.user_key)}"

    def _canonical(self, checkpoint: Any) -> bytes:
        """One form of a checkpoint, whichever database it comes from."""

        def encode(value: Any) -> Any:
            kind, data = self.serde.dumps_typed(value)
            return [kind, data.hex()]

        keys = ("v", "id", "ts", "channel_values", "channel_versions", "versions_seen")
        return json.dumps({key: checkpoint.get(key) for key in keys}, sort_keys=True, default=encode).encode("ascii")


def _thread_and_checkpoint(config: Any) -> tuple[str, str]:
    ids = config["configurable"]
    return str(ids["thread_id"]), str(ids["checkpoint_id"])


def _key_name(key: bytes) -> str:
    """A name of a key, which says nothing about it."""
    return signing.mac(b"git-agentos key", key)[:12]
