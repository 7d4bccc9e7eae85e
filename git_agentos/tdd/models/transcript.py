"""What is recorded of an exchange with a model: its texts, without secrets, in the folder of the node.

prompt.txt      the prompt
stdout, stderr  the output of a command, or a log of the exchange with a chat model
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import BinaryIO

from git_agentos.process.output import RedactingWriter
from git_agentos.redact_lines import clean_lines, secrets_of

PROMPT = "prompt.txt"
STREAMS = ("stdout", "stderr")
_MAX_TAIL = 16 << 10


class Transcript:
    """The two streams of an exchange, while it lasts: each line goes to them and to `show`.

    Secrets are removed: those of a known form, and the values of `environment` that have the names of secrets.
    """

    def __init__(self, folder: str, show: Callable[[bytes], None], environment: Mapping[str, str]) -> None:
        os.makedirs(folder, exist_ok=True)
        self._paths = [os.path.join(folder, name) for name in STREAMS]
        self.out, self.err = (_create(path) for path in self._paths)
        self._stream = RedactingWriter(self.out, show, secrets_of(environment))

    def __enter__(self) -> Transcript:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in (self.out, self.err):
            file.flush()
            os.fsync(file.fileno())
            file.close()

    def write(self, text: str) -> None:
        """Write a line or more, for a model that does not write itself."""
        self._stream.write(_encode(text if text.endswith("\n") else text + "\n"))

    def last_line(self) -> str:
        """The last line of the output, of stderr if there is one."""
        data = b""
        for file, path in zip((self.out, self.err), self._paths, strict=True):
            file.flush()
            with open(path, "rb") as written:
                written.seek(max(0, written.seek(0, os.SEEK_END) - _MAX_TAIL))
                data += written.read()
        lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1] if lines else "there was no output"


def write_file(folder: str, name: str, text: str, environment: Mapping[str, str]) -> None:
    """Write a text into the folder, without secrets."""
    os.makedirs(folder, exist_ok=True)
    with _create(os.path.join(folder, name)) as file:
        stream = RedactingWriter(file, lambda _: None, secrets_of(environment))
        stream.write(_encode(text))
        stream.close()


def without_secrets(text: str, environment: Mapping[str, str]) -> str:
    """A text without secrets."""
    return b"\n".join(clean_lines(_encode(text).split(b"\n"), secrets_of(environment))).decode("utf-8", "replace")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _create(path: str) -> BinaryIO:
    """A new file; what has its name is removed, a link too."""
    if os.path.lexists(path):
        os.unlink(path)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644), "wb")
