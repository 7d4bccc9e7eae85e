"""The harnesses that are on this machine: those of which the user has a program on PATH, or a folder of settings; and
their versions, as their packages say, or else the programs themselves."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping

from git_agentos.errors import AgentosError
from git_agentos.guard.harness.adapters import HARNESSES
from git_agentos.process import programs
from git_agentos.util import files
from git_agentos.util.named_tuple import NamedTuple

_PATIENCE = 10.0  # seconds for a program to say its version
_ABOVE = 3  # folders in which the package of a program may be
_VERSION = re.compile(r"\d+\.\d+(\.\d+)?")


class _Signs(NamedTuple):
    """By what a harness is found: programs, the folder of its settings below the home folder, and the variable that
    names another one, in which the last part of `folder` may be repeated (`inner`).

    `oldest` is the first version whose hooks are known to work with ours, `newest` the newest one that was tried.
    """

    programs: tuple[str, ...]
    folder: str
    variable: str = ""
    inner: str = ""
    oldest: tuple[int, ...] | None = None
    newest: tuple[int, ...] | None = None


_SIGNS: Mapping[str, _Signs] = {
    "claude-code": _Signs(("claude",), ".claude", "CLAUDE_CONFIG_DIR", oldest=(2, 0), newest=(2, 1, 197)),
    "codex": _Signs(("codex",), ".codex", "CODEX_HOME", oldest=(0, 169), newest=(0, 169, 0)),
    "gemini": _Signs(("gemini",), ".gemini", "GEMINI_CLI_HOME", ".gemini", oldest=(0, 61), newest=(0, 61, 0)),
    "cursor": _Signs(("cursor-agent", "cursor"), ".cursor"),
    "copilot": _Signs(("copilot",), ".copilot", "COPILOT_HOME", oldest=(1, 0), newest=(1, 0, 102)),
    "opencode": _Signs(
        ("opencode",), ".config/opencode", "XDG_CONFIG_HOME", "opencode", oldest=(1, 18), newest=(1, 18, 33)
    ),
}


class Presence(NamedTuple):
    """A harness on this machine: its program, and the folder of its settings; None where there is none."""

    name: str
    program: str | None
    folder: str | None


def found(environment: Mapping[str, str]) -> list[Presence]:
    """Those that are there."""
    every = [of(name, environment) for name in HARNESSES]
    return [each for each in every if each.program is not None or each.folder is not None]


def of(name: str, environment: Mapping[str, str]) -> Presence:
    """What there is of one harness."""
    signs = _SIGNS[name]
    path = environment.get("PATH", os.defpath)
    program = next(filter(None, (shutil.which(each, path=path) for each in signs.programs)), None)
    folder = settings_folder(name, environment)
    return Presence(name, program, folder if os.path.isdir(folder) else None)


def settings_folder(name: str, environment: Mapping[str, str]) -> str:
    """Where a harness has its user's settings."""
    signs = _SIGNS[name]
    given = environment.get(signs.variable, "") if signs.variable else ""
    if os.path.isabs(given):
        return os.path.join(given, signs.inner)
    return os.path.join(environment.get("HOME") or os.path.expanduser("~"), signs.folder)


# -- versions ----------------------------------------------------------------------------------------------------------


def version(program: str, environment: Mapping[str, str]) -> str | None:
    """The version of a program: that of the package that it is in, else what it prints when it is asked. None where
    neither says one."""
    folder = os.path.dirname(os.path.realpath(program))
    for _ in range(_ABOVE):
        try:
            said = files.read_object(os.path.join(folder, "package.json"))["version"]
        except (OSError, ValueError, KeyError, RecursionError):
            folder = os.path.dirname(folder)
            continue
        return said if isinstance(said, str) and _VERSION.match(said) else None
    try:
        ended = programs.run([program, "--version"], cwd=os.sep, env=environment, timeout=_PATIENCE)
    except (OSError, AgentosError):
        return None
    found = _VERSION.search(ended.output.decode("utf-8", "replace"))
    return found[0] if found is not None and ended.code == 0 else None


def version_problem(name: str, version: str | None) -> str | None:
    """Why it is not known whether a version of a harness works with our hooks: it is older than any that does, or its
    first number (of `0.N`: its second) is above that of the newest one that was tried. None where it is known."""
    signs = _SIGNS[name]
    if signs.oldest is None or signs.newest is None:
        return "no version of it was tried with git-agentos"
    if version is None:
        return None
    numbers = _numbers(version)
    if numbers < signs.oldest:
        return f"version {version} is older than the first one that is known to run our hooks ({_text(signs.oldest)})"
    if _series(numbers) > _series(signs.newest):
        return f"version {version} is newer than the newest one that was tried ({_text(signs.newest)})"
    return None


def newest_tried(name: str) -> str | None:
    """The newest version of a harness that was tried with our hooks."""
    newest = _SIGNS[name].newest
    return None if newest is None else _text(newest)


def _numbers(version: str) -> tuple[int, ...]:
    found = _VERSION.match(version)
    return tuple(int(each) for each in found[0].split(".")) if found is not None else ()


def _series(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return numbers[:2] if numbers[:1] == (0,) else numbers[:1]


def _text(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
