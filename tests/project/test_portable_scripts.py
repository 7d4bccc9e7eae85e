"""The sh scripts run where another shell is /bin/sh, and where the system's programs are not GNU's.

macOS has bash 3.2 and BSD's programs, Alpine busybox, Android toybox. What the scripts use is compared with POSIX, and
their tests run with the shells and programs of that kind that Debian has.
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

# The programs that the scripts start, with the options that they use; all are in POSIX. Three programs are not, but are
# on every system: `readlink` without options, `mktemp [-d] [TEMPLATE]`, and `setsid`, which is looked for before.
_ALLOWED = {
    "awk": "-v", "cat": "", "chmod": "", "cmp": "-s", "cp": "", "cut": "-c", "date": "-u", "diff": "",
    "dirname": "", "env": "", "find": "-path -prune -print -o", "grep": "-E -q -qsF -qxF", "id": "-u",
    "ln": "-s -sf", "ls": "-ld", "mkdir": "-p", "mktemp": "-d", "mv": "-f", "ps": "-o -p", "readlink": "",
    "rm": "-f -rf", "rmdir": "", "sed": "-n", "setsid": "", "sh": "-c", "sleep": "", "sort": "-r", "tail": "-n",
    "tr": "-s",
}  # fmt: skip
# These are required, or looked for before.
_REQUIRED = {"git", "git-agentos", "apt-get", "man"}
_BUILTINS = set(""": . [ break cd command continue echo eval exec exit export kill printf pwd read return set shift
trap true umask unset""".split())  # fmt: skip
# The tests that run the scripts, but for those that name a shell themselves or build whole environments by pip.
_RUN = ["tests/hooks/test_scripts.py", "tests/hooks/test_shim.py", "tests/project/test_install.py"]
_NOT_RUN = "not readable and not another_shell and not update_failed_update and not below_a_prefix"


def _tree(path: Path) -> Any:
    shfmt = Path(sys.executable).with_name("shfmt")
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


def _programs(path: Path) -> Iterator[list[str | None]]:
    """The words of every command of a script that starts a program; None for a word that is not literal."""
    for call in _nodes(_tree(path), "CallExpr"):
        words = [_literal(word) for word in call.get("Args") or []]
        while words and words[0] in ("command", "exec", "-p", "-v", "-pv"):
            words = words[1:]
        name = words[0] if words else None
        # A placeholder is filled in where the script is placed.
        if name is not None and name not in _functions() | _BUILTINS | _REQUIRED and not name.startswith("@"):
            yield words


@pytest.mark.parametrize("path", _SCRIPTS, ids=lambda path: path.name)
def test_only_options_that_every_system_has(path: Path) -> None:
    for name, *words in _programs(path):
        assert name in _ALLOWED, f"{path.name}: the program '{name}' is not known to be on every system"
        options = [word for word in words if word is not None and word.startswith("-") and word != "--"]
        unknown = [word for word in options if word not in _ALLOWED[name].split() and not word[1:].isdigit()]
        assert unknown == [], f"{path.name}: {name} {' '.join(unknown)}"


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
    covered = substitutes.tools_of(program, list(_ALLOWED)) if programs else substitutes.other_sh(program)
    assert covered
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "AGENTOS_TEST_"))}
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={tmp_path / 'inner'}", "-k", _NOT_RUN]
    done = substitutes.run_with(covered, [sys.executable, "-m", "pytest", *options, *_RUN], environment, _ROOT)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
