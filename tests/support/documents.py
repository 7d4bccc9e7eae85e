"""The examples in documents: fenced blocks, marked by the line before them, and how they are run.

    <!-- runnable -->           it runs: shell (`sh`) or Python (`python`)
    <!-- output -->             what the block before it prints
    <!-- not run: REASON -->    it cannot run in the tests

Blocks of JSON, TOML and Mermaid are data and have no marker.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.env import sealed_environment

DATA = ("json", "mermaid", "toml")
RUNNABLE, OUTPUT, NOT_RUN = "runnable", "output", "not run"

_MARKER = re.compile(r"<!-- (runnable|output|not run: (?P<reason>\S.+)) -->")
_FENCE = re.compile(r"\s*```(?P<language>[\w-]*)\n?")


@dataclass(frozen=True)
class Block:
    """A fenced block: `mark` is empty where there is no marker, `line` is that of the fence."""

    line: int
    mark: str
    reason: str
    language: str
    body: str


def read(document: Path) -> Iterator[Block]:
    """All fenced blocks of a document, in order."""
    before, begin = "", 0
    body: list[str] | None = None
    language = ""
    for number, line in enumerate(document.read_text().splitlines(keepends=True), 1):
        fence = _FENCE.fullmatch(line)
        if body is not None and line.strip() == "```":
            found = _MARKER.fullmatch(before)
            mark = NOT_RUN if found and found["reason"] else found[1] if found else ""
            yield Block(begin, mark, (found["reason"] or "") if found else "", language, "".join(body))
            body, before = None, ""
        elif body is not None:
            body.append(line)
        elif fence is not None:
            body, language, begin = [], fence["language"], number
        else:
            before = line.strip()
    assert body is None, f"{document}:{begin}: the block has no end"


def blocks(document: Path, mark: str, language: str) -> list[str]:
    """The marked blocks of a document in one language, in order."""
    return [each.body for each in read(document) if (each.mark, each.language) == (mark, language)]


def environment(folder: Path) -> dict[str, str]:
    """A sealed environment in which `git agentos` is this source tree; its programs and its home are in `folder`."""
    programs = folder / "bin"
    programs.mkdir()
    program = programs / "git-agentos"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m git_agentos "$@"\n')
    program.chmod(0o755)
    sealed = sealed_environment(folder / "home", os.environ)
    return sealed | {"PATH": f"{programs}{os.pathsep}{sealed['PATH']}"}


def run_shell(block: str, cwd: Path, env: dict[str, str]) -> str:
    """Run a shell block, stopping at the first failure; what it printed."""
    return _run(["bash", "-euo", "pipefail", "-c", block], block, cwd, env)


def run_python(block: str, cwd: Path, env: dict[str, str]) -> str:
    """Run a Python block as a program; what it printed."""
    return _run([sys.executable, "-W", "error", "-c", block], block, cwd, env)


def _run(words: list[str], block: str, cwd: Path, env: dict[str, str]) -> str:
    done = subprocess.run(words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, f"{block}\nexited {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout
