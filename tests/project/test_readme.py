"""The session at the top of the README: its commands print what it shows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.support.documents import environment, read
from tests.support.env import PROJECT_ROOT
from tests.support.repo import git

_ENDED = "==ended=="


def session() -> list[tuple[str, list[str]]]:
    """The commands of the session, each with the lines that it prints."""
    [block] = [each for each in read(PROJECT_ROOT / "README.md") if each.language == "console"]
    found: list[tuple[str, list[str]]] = []
    for line in block.body.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line:
            found[-1][1].append(line)
    return found


def constant(line: str) -> str:
    """A line without what differs from one session to the next: ids, times, folders."""
    line = re.sub(r"\b[0-9a-f]{8}\b", "ID", line)
    line = re.sub(r"(just now|\d+ seconds? ago) *", "WHEN ", line)
    return re.sub(r"/\S*/shop", "/home/ada/shop", line)


def test_the_session(tmp_path: Path) -> None:
    env = environment(tmp_path)
    root = tmp_path / "work" / "shop"
    root.mkdir(parents=True)
    git(root, "init", "--quiet", env=env)
    (root / "price.py").write_text("def price(n): return n * 2\n")
    git(root, "add", ".", env=env)
    git(root, "commit", "--quiet", "-m", "start", env=env)
    commands = session()
    script = "".join(f"{command}\necho {_ENDED}\n" for command, _ in commands)
    done = subprocess.run(
        ["bash", "-c", script], cwd=root, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    printed = done.stdout.split(f"{_ENDED}\n")
    for (command, shown), found in zip(commands, printed, strict=False):
        assert list(map(constant, found.splitlines())) == list(map(constant, shown)), command
    assert len(printed) == len(commands) + 1
