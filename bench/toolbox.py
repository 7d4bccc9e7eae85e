"""The contenders: git-agentos, and what git itself offers; each as the one command that is timed.

git-agentos has a virtual environment below the cache folder. If it cannot be installed or run, the table says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from repositories import BenchError

PROJECT = Path(__file__).resolve().parent.parent

OURS = "git-agentos"
STASH_CREATE = "git stash create"
STASH_PUSH = "git stash push + apply"
RAW_INDEX = "raw private index"
IMPORTS = "import typer, pygit2"

RESTORE_STASH = "git reset + clean + stash apply"

_RAW = (
    "cp .git/index .git/raw-index && export GIT_INDEX_FILE=.git/raw-index && git add -A && tree=$(git write-tree) && "
    'commit=$(git commit-tree "$tree" -p HEAD -m bench) && git update-ref refs/bench/raw "$commit"'
)


@dataclass(frozen=True)
class Contender:
    """One command line that takes a checkpoint of the folder it runs in.

    `moves` says that it rewrites the worktree, so it gets a worktree of its own. `what` is for the report.
    `problem` tells why it cannot run; `argv` is then empty.
    """

    name: str
    argv: tuple[str, ...]
    what: str
    moves: bool = False
    problem: str | None = None


@dataclass(frozen=True)
class Toolbox:
    """Where the tools are: the environment that holds git-agentos, and the contenders by name."""

    python: str
    script: str
    versions: dict[str, str]
    contenders: dict[str, Contender]


def prepare_tools(cache: Path, environment: Path | None) -> Toolbox:
    """Install what is missing. `environment` is a venv that has git-agentos already (else one is made from the working
    copy)."""
    problem = None
    if environment is None:
        environment = cache / "venvs" / OURS
        try:
            _install(environment, f"{PROJECT}[ui,watch]")
        except BenchError as error:
            problem = str(error)
    python, script = str(environment / "bin" / "python"), str(environment / "bin" / OURS)
    if problem is None and not os.path.exists(script):
        problem = "its command is not installed"
    versions = _versions(python, (OURS, "typer", "pygit2"))
    versions["Python"] = _say(python, "-c", "import platform; print(platform.python_version())")
    contenders = {
        each.name: each
        for each in (
            Contender(
                OURS,
                (script, "checkpoint", "-q", "-m", "bench"),
                "`git-agentos checkpoint -q -m bench`, the installed console script",
                problem=problem,
            ),
            Contender(STASH_CREATE, ("git", "stash", "create"), "`git stash create`: leaves the untracked files out"),
            Contender(
                STASH_PUSH,
                ("sh", "-c", "git stash push -q -u && git stash apply -q --index"),
                "`git stash push -u` and `git stash apply --index`, which puts back what push took away",
                moves=True,
            ),
            Contender(
                RAW_INDEX,
                ("sh", "-c", _RAW),
                "copy the index, `add -A`, `write-tree`, `commit-tree`, `update-ref`: one tree, no staged state",
            ),
        )
    }
    return Toolbox(python, script, versions, contenders)


def _install(environment: Path, project: str) -> None:
    """Make the venv with the working copy in it, or install that again: it changes under the same version."""
    stamp = environment / "complete"
    python = str(environment / "bin" / "python")
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    if not stamp.exists():
        shutil.rmtree(environment, ignore_errors=True)
        _must([sys.executable, "-m", "venv", str(environment)], "a virtual environment could not be made")
        _must([*pip, project], "pip could not install it")
        stamp.touch()
    else:
        _must([*pip, "--force-reinstall", "--no-deps", project], "pip could not install it")
    _write_launcher(python, environment / "bin" / OURS)


def _write_launcher(python: str, script: Path) -> None:
    """As `install.sh` does."""
    home = _say(
        python, "-I", "-c", "import git_agentos, os; print(os.path.dirname(os.path.dirname(git_agentos.__file__)))"
    )
    script.write_text(
        f"#!{python} -IS\nimport sys\n\nsys.path.insert(0, {home!r})\n\n"
        "from git_agentos.launch import main\n\nsys.exit(main())\n"
    )


def _must(command: Sequence[str], problem: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        raise BenchError(problem)


def _versions(python: str, names: Sequence[str]) -> dict[str, str]:
    found = {}
    for name in names:
        said = _say(python, "-c", f"import importlib.metadata; print(importlib.metadata.version({name!r}))")
        if said:
            found[name] = said
    return found


def _say(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
