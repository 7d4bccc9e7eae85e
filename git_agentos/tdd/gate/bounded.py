"""What tests say, bounded: its beginning and its end, with a note between of how much is left out.

The beginning is where collection errors stand, the end where the summary is.
"""

from __future__ import annotations

import io
from collections import deque
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

HEAD, TAIL = 512 << 10, 512 << 10  # bytes, of what is kept
_TEXT_HEAD, _TEXT_TAIL = 16 << 10, 48 << 10  # bytes, of what is handed on as text


class Bounded(io.RawIOBase):
    """A file that keeps the beginning and the end of what is written to it. The beginning goes to `file` (if there is
    one) at once, the end when it is closed; `file` stays open."""

    def __init__(self, file: BinaryIO | None = None) -> None:
        super().__init__()
        self._file = file
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = self._left_out = 0

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        whole = bytes(data)
        room = max(0, HEAD - len(self._head)) if not self._tail else 0
        first, rest = whole[:room], whole[room:]
        if first:
            self._head += first
            if self._file is not None:
                self._file.write(first)
        if rest:
            self._keep(rest)
        return len(whole)

    def flush(self) -> None:
        if self._file is not None and not self._file.closed:
            self._file.flush()

    def close(self) -> None:
        if not self.closed and self._file is not None:
            self._file.write(_note(self._left_out) + b"".join(self._tail))
        super().close()

    def text(self) -> str:
        """What is kept, as text of at most 64 KiB and a note, cut where lines end."""
        tail = b"".join(self._tail)
        if not self._left_out and len(self._head) + len(tail) <= _TEXT_HEAD + _TEXT_TAIL:
            return _text(bytes(self._head) + tail)
        kept = bytes(self._head) + tail
        first, last = kept[:_TEXT_HEAD], kept[-_TEXT_TAIL:]
        first = first[: first.rfind(b"\n") + 1] or first
        last = last[last.find(b"\n") + 1 :] or last
        left_out = self._left_out + len(kept) - len(first) - len(last)
        return _text(first + _note(left_out) + last)

    def _keep(self, data: bytes) -> None:
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size > TAIL:
            excess = self._tail_size - TAIL
            gone = self._tail.popleft()
            if len(gone) > excess:
                self._tail.appendleft(gone[excess:])
                gone = gone[:excess]
            self._tail_size -= len(gone)
            self._left_out += len(gone)

    def __exit__(self, *_: Any) -> None:
        self.close()


def _note(left_out: int) -> bytes:
    return b"\n[git-agentos: %d bytes are left out here]\n" % left_out if left_out else b""


def _text(data: bytes) -> str:
    """Without what databases cannot keep."""
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")
