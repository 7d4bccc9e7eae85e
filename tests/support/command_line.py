"""The command line in process, with streams of its own."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support import daemon


@dataclass(frozen=True)
class Answer:
    """What one command line did."""

    code: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def talk(self) -> str:
        return self.err.decode()

    @property
    def json(self) -> Any:
        """The one document on stdout; nothing else may be there, nor on stderr."""
        assert self.err == b""
        assert self.out.isascii()
        assert self.out.endswith(b"\n")
        assert self.out.count(b"\n") == 1
        return json.loads(self.out)


Cli = Callable[..., Answer]


def command_line(monkeypatch: pytest.MonkeyPatch) -> Cli:
    """What the fixture `cli` gives: `cli("restore", "latest")` is `git agentos restore latest`. With `in_process`, no
    daemon does it (`tests.support.daemon`): the test has changed our code."""
    from git_agentos.cli.entry import run

    def call(*argv: str, terminal: bool = False, in_process: bool = False) -> Answer:
        if not terminal and not in_process and daemon.does(argv):
            with daemon.present(".", argv):
                done = subprocess.run([sys.executable, "-m", "git_agentos", *argv], capture_output=True, check=False)
            return Answer(done.returncode, done.stdout, done.stderr)
        out, err = io.BytesIO(), io.BytesIO()
        with monkeypatch.context() as patch:
            for name, stream in (("stdout", out), ("stderr", err)):
                wrapper = io.TextIOWrapper(stream, encoding="utf-8")
                if terminal:
                    patch.setattr(wrapper, "isatty", lambda: True)
                patch.setattr(sys, name, wrapper)
            code = run(argv)
            return Answer(code, out.getvalue(), err.getvalue())

    return call
