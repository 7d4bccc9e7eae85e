"""The examples in documents: fenced blocks that are marked to be run, and how they are run.

A fenced block runs if the line before it is `<!-- runnable -->`; the block after `<!-- output -->` is what is printed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.env import sealed_environment

FENCE = re.compile(
    r"^<!-- (?P<mark>runnable|output) -->\n```(?P<language>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)


def blocks(document: Path, mark: str, language: str) -> list[str]:
    """The marked blocks of a document, in order."""
    found = FENCE.finditer(document.read_text())
    return [match["body"] for match in found if match["mark"] == mark and match["language"] == language]


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
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{block}\nexited {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout
