"""The sh scripts run where another shell is /bin/sh, and where the system's programs are not GNU's.

macOS has bash 3.2 and BSD's programs, Alpine busybox, Android toybox. What the scripts may use is held against POSIX, and
they are run with the shells and programs of that kind that Debian has.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import substitutes

_ROOT = Path(__file__).parents[2]
_SCRIPTS = sorted([_ROOT / "install.sh", *(path for path in (_ROOT / "hooks").iterdir() if path.suffix != ".md")])

# The programs that the scripts start, with the options that POSIX has of those they use. BSD's, busybox's and toybox's
# programs have them too.
_OPTIONS = {
    "awk": "v", "cat": "", "chmod": "", "cmp": "s", "cp": "", "cut": "c", "date": "u", "diff": "", "dirname": "", "env": "",
    "find": "path prune print o", "grep": "qxFsE", "id": "u", "ln": "s sf", "ls": "ld", "mkdir": "p", "mv": "f",
    "ps": "o p", "rm": "f rf", "rmdir": "", "sed": "n", "sh": "c", "sleep": "", "sort": "r", "tail": "n", "tr": "s",
}  # fmt: skip
# Not in POSIX: `readlink` came with its issue 8, and with `mktemp [-d] [TEMPLATE]` is on every system; `setsid` is asked for before.
_EVERYWHERE = {"readlink": "", "mktemp": "d", "setsid": ""}
# These take any options: they are our own requirements.
_REQUIRED = {"git", "git-agentos", "man"}
_SHELLS_OWN = {
    ".", ":", "[", "break", "cd", "command", "continue", "echo", "eval", "exec", "exit", "export", "kill", "printf", "pwd", "read", "return", "set",
    "shift", "trap", "true", "umask", "unset",
}  # fmt: skip
# The tests that run the scripts, but for those that name a shell themselves or build whole environments by pip.
_RUN = ["tests/hooks/test_scripts.py", "tests/hooks/test_shim.py", "tests/project/test_install.py"]
_NOT_RUN = "not readable and not another_shell and not update_failed_update and not below_a_prefix"


def _tree(path: Path) -> Any:
    shfmt = Path(sys.executable).with_name("shfmt")
    # Placeholders are filled in where the scripts are placed; here they are words.
    done = subprocess.run(
        [shfmt, "-ln", "posix", "--to-json"], input=path.read_bytes(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def _nodes(tree: Any, kind: str) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        if tree.get("Type") == kind:
            yield tree
        for value in tree.values():
            yield from _nodes(value, kind)
    elif isinstance(tree, list):
        for value in tree:
            yield from _nodes(value, kind)


def _literal(word: dict[str, Any]) -> str | None:
    """The text of a word without quotes and expansions; None for any other."""
    values = [part["Value"] for part in word["Parts"] if part["Type"] in ("Lit", "SglQuoted")]
    return "".join(values) if len(values) == len(word["Parts"]) else None


@functools.cache
def _functions() -> set[str]:
    """The functions of all scripts: guard.sh is read by others."""
    return {node["Name"]["Value"] for path in _SCRIPTS for node in _nodes(_tree(path), "FuncDecl")}


def _commands(path: Path) -> Iterator[list[str | None]]:
    """The words of every command of a script; None for a word that is not literal."""
    for call in _nodes(_tree(path), "CallExpr"):
        words = [_literal(word) for word in call.get("Args") or []]
        while words and words[0] in ("command", "exec") or words[:1] == ["-p"]:
            words = words[1:]
        if (
            words
            and words[0] is not None
            and words[0] not in _functions() | _SHELLS_OWN
            and not words[0].startswith(("-", "@"))
        ):
            yield words


@pytest.mark.parametrize("path", _SCRIPTS, ids=lambda path: path.name)
def test_only_options_that_every_system_has(path: Path) -> None:
    allowed = _OPTIONS | _EVERYWHERE
    for name, *words in _commands(path):
        assert name is not None
        if name in _REQUIRED:
            continue
        assert name in allowed, f"{path.name}: the program '{name}' is not known to be on every system"
        for word in words:
            if word == "--":
                break
            if word is None or not word.startswith("-") or word == "-" or word.removeprefix("-").isdigit():
                continue
            option = word[1:]
            known = option in allowed[name].split() or (set(option) <= set(allowed[name]) and " " not in allowed[name])
            assert known, f"{path.name}: '{name} {word}' is not in POSIX"


@pytest.mark.parametrize("path", _SCRIPTS, ids=lambda path: path.name)
def test_checkbashisms_finds_none(path: Path) -> None:
    if shutil.which("checkbashisms") is None:
        pytest.skip("checkbashisms is not installed (apt install devscripts)")
    done = subprocess.run(["checkbashisms", "--posix", "--force", path], capture_output=True, text=True, check=False)
    found = [line for line in done.stderr.splitlines() if line.startswith(("possible bashism", "error"))]
    assert found == []


@pytest.mark.parametrize("other", ["busybox", "bash", "zsh", "busybox's programs", "toybox's programs"])
def test_scripts_run_with_other_programs(other: str, tmp_path: Path) -> None:
    name, _, programs = other.partition("'")
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    if not substitutes.can_mount():
        pytest.skip("covering a program of the system needs the right to mount")
    covered = substitutes.tools_of(program, [*_OPTIONS, *_EVERYWHERE]) if programs else substitutes.other_sh(program)
    assert covered
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "AGENTOS_TEST_"))}
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={tmp_path / 'inner'}", "-k", _NOT_RUN]
    done = substitutes.run_with(covered, [sys.executable, "-m", "pytest", *options, *_RUN], environment, _ROOT)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
