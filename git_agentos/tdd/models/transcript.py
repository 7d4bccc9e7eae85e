"""What is kept of an exchange with a model: its texts, without secrets, in the folder of the node that asked.

prompt.txt      what was asked
stdout, stderr  what was said: by a command, or the answers of a model and what became of them
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import BinaryIO

from git_agentos.process.output import RedactingWriter
from git_agentos.redact_lines import secrets_of

PROMPT = "prompt.txt"
STREAMS = ("stdout", "stderr")
_MOST_SAID = 16 << 10


class Said:
    """The two streams of an exchange, while it goes on: what is said goes line by line to them and to `show`.

    `environment` tells the values that are secret beside what can be known by its form.
    """

    def __init__(self, folder: str, show: Callable[[bytes], None], environment: Mapping[str, str]) -> None:
        os.makedirs(folder, exist_ok=True)
        self._paths = [os.path.join(folder, name) for name in STREAMS]
        self.out, self.err = (_fresh(path) for path in self._paths)
        self._values = secrets_of(environment)
        self._stream = RedactingWriter(self.out, show, self._values)

    def __enter__(self) -> Said:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in (self.out, self.err):
            file.flush()
            os.fsync(file.fileno())
            file.close()

    def say(self, text: str) -> None:
        """Say something for one who does not do so himself."""
        self._stream.write(_bytes(text if text.endswith("\n") else text + "\n"))

    def last(self) -> str:
        """The last of what was said, stdout first."""
        data = b""
        for file, path in zip((self.out, self.err), self._paths, strict=True):
            file.flush()
            with open(path, "rb") as kept:
                size = kept.seek(0, os.SEEK_END)
                kept.seek(max(0, size - _MOST_SAID))
                data += kept.read()
        return data[-_MOST_SAID:].decode("utf-8", "replace")


def write(folder: str, name: str, text: str, environment: Mapping[str, str]) -> None:
    """Keep a text."""
    os.makedirs(folder, exist_ok=True)
    with _fresh(os.path.join(folder, name)) as file:
        stream = RedactingWriter(file, lambda _: None, secrets_of(environment))
        stream.write(_bytes(text))
        stream.close()


def clean(text: str, environment: Mapping[str, str]) -> str:
    """A text without secrets."""
    out: list[bytes] = []
    with open(os.devnull, "wb") as nothing:
        stream = RedactingWriter(nothing, out.append, secrets_of(environment))
        stream.write(_bytes(text))
        stream.close()
    return b"\n".join(out).decode("utf-8", "replace")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _fresh(path: str) -> BinaryIO:
    """A file that was not there before: what lies in its place goes, a link too."""
    if os.path.lexists(path):
        os.unlink(path)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644), "wb")
