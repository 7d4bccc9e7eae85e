"""The state of workflows, written again with other texts in it: `forget` does it.

A row that was this user's is signed again. One that was not keeps its signature, which is wrong afterwards.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import os
from collections.abc import Callable
from typing import Any

from git_agentos.guard import signing
from git_agentos.store import threads
from git_agentos.store.database import Connection
from git_agentos.tdd.signed_rows import MAC, Signed, SignedValue, Unreadable

Text = Callable[[str], str]
Row = list[Any]


class _Signer(Signed):
    """Makes the MACs of rows, without a database."""

    def __init__(self, serializer: Any) -> None:
        self.serde = serializer
        self.user_key = signing.key(os.environ, make=False)


class Cleaner:
    """Changes rows of LangGraph's tables by a function of text. TddError if its library is not installed."""

    def __init__(self, text: Text) -> None:
        from git_agentos.tdd import state_database

        self._text = text
        try:
            self._signer = _Signer(state_database.serializer())
        except ImportError as error:
            raise state_database.missing_extra("tdd", error) from error

    def tables(self, connection: Connection) -> bool:
        """Change all rows of a database; whether any was."""
        changed = False
        for table, columns, clean in (
            ("checkpoints", threads.CHECKPOINTS, self._checkpoint),
            ("writes", threads.WRITES, self._write),
        ):
            if not threads.has_table(connection, table):
                continue
            for number, *row in connection.execute(f"SELECT rowid, {', '.join(columns)} FROM {table}").fetchall():
                new = clean(row)
                if new is not None:
                    marks = ", ".join(f"{name} = ?" for name in columns)
                    connection.execute(f"UPDATE {table} SET {marks} WHERE rowid = ?", (*new, number))
                    changed = True
        return changed

    def document(self, data: bytes) -> bytes:
        """Change the rows in a copy of a workflow's state (`threads.take`)."""
        body = json.loads(data)
        changed = False
        for key, clean in (("checkpoints", self._checkpoint), ("writes", self._write)):
            for n, packed in enumerate(body[key]):
                new = clean([threads.unpacked(each) for each in packed])
                if new is not None:
                    body[key][n] = [threads.packed(each) for each in new]
                    changed = True
        return json.dumps(body, indent=1).encode("ascii") + b"\n" if changed else data

    def _checkpoint(self, row: Row) -> Row | None:
        thread, _, _, _, kind, data, metadata = row
        before = self._signer.serde.loads_typed((kind, data))
        known = json.loads(metadata) if metadata else {}
        after, new_metadata = self._value(before), self._value(known)
        if isinstance(before, Unreadable) or (after == before and new_metadata == known):
            return None
        if isinstance(known, dict) and known.get(MAC) == self._signer.mac_of_state(thread, before):
            new_metadata[MAC] = self._signer.mac_of_state(thread, after)
        new_kind, new_data = self._signer.serde.dumps_typed(after)
        encoded = json.dumps(new_metadata, ensure_ascii=False).encode("utf-8", "ignore")
        return [*row[:4], new_kind, new_data, encoded if isinstance(metadata, bytes) else encoded.decode()]

    def _write(self, row: Row) -> Row | None:
        thread, _, checkpoint, task, _, _, channel, kind, data = row
        found = self._signer.serde.loads_typed((kind, data))
        before = found.value if isinstance(found, SignedValue) else found
        after = self._value(before)
        if isinstance(before, Unreadable) or after == before:
            return None
        new_kind, new_data = self._signer.serde.dumps_typed(after)
        if isinstance(found, SignedValue):
            ids = (str(thread), str(checkpoint), task, channel)
            code = found.mac
            if code == self._signer.mac_of_write(ids, found.kind, found.data):
                code = self._signer.mac_of_write(ids, new_kind, new_data) or ""
            new_kind, new_data = self._signer.serde.dumps_typed(SignedValue(after, new_kind, new_data, code))
        return [*row[:7], new_kind, new_data]

    def _value(self, value: Any) -> Any:
        """A value in which all texts are changed."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {self._value(key): self._value(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._value(each) for each in value]
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            return tuple(self._value(each) for each in value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._fields(value)
        return value

    def _fields(self, value: Any) -> Any:
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        new = {name: self._value(each) for name, each in fields.items()}
        if new == fields:
            return value
        changed = copy.copy(value)
        for name, each in new.items():
            object.__setattr__(changed, name, each)
        return changed


def clean_tables(connection: Connection, text: Text) -> bool:
    """Change the rows of workflows in a database, if it has any; whether any was."""
    if not any(threads.has_table(connection, table) for table in ("checkpoints", "writes")):
        return False
    return Cleaner(text).tables(connection)


def clean_document(data: bytes, text: Text) -> bytes:
    """Change the rows in a copy of a workflow's state. ValueError, KeyError or TypeError if it is damaged."""
    return Cleaner(text).document(data)
