"""A terminal for a process of git-agentos, and what was written to it."""

from __future__ import annotations

import os
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path

from tests.support.waiting import wait_until

ALTERNATE, NORMAL = b"\x1b[?1049h", b"\x1b[?1049l"


class Terminal:
    """A process with a terminal of its own, which reads what is written to it. With `controls`, it is the process's
    controlling terminal, as that of a window: the system sends signals when it is gone."""

    def __init__(
        self,
        folder: Path,
        *args: str,
        env: Mapping[str, str] | None = None,
        err: int | None = None,
        controls: bool = False,
    ) -> None:
        self.ours, theirs = os.openpty()
        termios.tcsetwinsize(theirs, (24, 100))
        self.before = termios.tcgetattr(theirs)
        self.process = subprocess.Popen(
            [*(("setsid", "--ctty") if controls else ()), sys.executable, "-P", "-m", "git_agentos", *args],
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs if err is None else err,
            env={**os.environ, "TERM": "xterm-256color", **(env or {})},
            start_new_session=not controls,
        )
        self.theirs = theirs
        os.set_blocking(self.ours, False)
        self.written = b""

    def read(self) -> bytes:
        """All that was written until now."""
        try:
            while data := os.read(self.ours, 1 << 16):
                self.written += data
        except (BlockingIOError, OSError):
            pass
        return self.written

    def type(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def wait_for(self, text: bytes) -> None:
        wait_until(lambda: text in self.read() or self.process.poll() is not None, f"{text!r} on the terminal")
        assert text in self.read()

    def end(self) -> int:
        """The exit code; what is written must be read until then."""
        wait_until(lambda: self.read() is not None and self.process.poll() is not None, "the end")
        self.read()
        return self.process.returncode

    def is_as_before(self) -> bool:
        """Whether the terminal's settings are those of before, and its normal screen is shown."""
        same = termios.tcgetattr(self.theirs) == self.before
        return same and self.written.rfind(NORMAL) > self.written.rfind(ALTERNATE)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for each in (self.ours, self.theirs):
            try:
                os.close(each)
            except OSError:
                pass
