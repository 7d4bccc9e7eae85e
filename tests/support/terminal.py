"""Commands whose standard error is a real terminal, and what they write there."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_ERASE = b"\r\x1b[K"


class AtTerminal(NamedTuple):
    """What a command did: its exit code, its stdout (a pipe), and all that it wrote to the terminal."""

    code: int
    out: bytes
    written: bytes

    @property
    def drawn(self) -> list[str]:
        """The lines of progress that were drawn, one after the other."""
        pieces = self.written.split(_ERASE)
        return [piece.decode() for piece in pieces[:-1] if piece and b"\n" not in piece]

    @property
    def phases(self) -> list[str]:
        """What they are about, without numbers, each once."""
        return list(dict.fromkeys(re.split(r": | \(\d", line)[0] for line in self.drawn))

    @property
    def left(self) -> str:
        """What stays on the terminal."""
        lines = self.written.replace(b"\r\n", b"\n").split(b"\n")
        return b"\n".join(line.rpartition(_ERASE)[2] for line in lines).decode()


def at_terminal(
    cwd: Path,
    *args: str,
    env: Mapping[str, str] | None = None,
    delay: str = "0",
    program: Sequence[str] = (sys.executable, "-m", "git_agentos"),
) -> AtTerminal:
    """Run `git agentos ARGS` with a terminal as its standard error. It shows its progress after `delay` seconds."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "GIT_PROGRESS_DELAY": delay, **(env or {})}
    with subprocess.Popen(
        [*program, *args],
        cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, env=environment,
    ) as child:  # fmt: skip
        os.close(theirs)
        written: list[bytes] = []
        reader = threading.Thread(target=_read, args=(ours, written))
        reader.start()
        out, _ = child.communicate()
        reader.join()
    os.close(ours)
    return AtTerminal(child.returncode, out, b"".join(written))


def _read(terminal: int, written: list[bytes]) -> None:
    try:
        while data := os.read(terminal, 4096):
            written.append(data)
    except OSError:  # the other end is closed
        pass
