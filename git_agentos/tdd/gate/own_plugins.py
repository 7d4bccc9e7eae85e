"""The plugins of pytest that are in git-agentos' own environment, and no part of a project whose tests run there.

A project that has no environment of its own has its tests run by the interpreter that git-agentos runs with. pytest
loads every plugin that is installed there, and some of what git-agentos depends on brings one (anyio, langsmith). They
are not loaded: tests are to do what they would do without git-agentos. What was installed there for its own sake, or
for something else than git-agentos, stays, unless the environment is one for working on git-agentos itself.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable
from importlib import metadata

_GROUP = "pytest11"
_OURS = "git-agentos"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def names(python: str) -> tuple[str, ...]:
    """The plugins that pytest is not to load, where `python` is the interpreter of git-agentos' environment; none where
    it is another one's."""
    if not _is_ours(python):
        return ()
    installed = {_normal(each.metadata["Name"]): each for each in metadata.distributions() if each.metadata["Name"]}
    ours = installed.get(_OURS)
    with_plugins = {name: plugins for name, each in installed.items() if (plugins := _plugins(each))}
    if ours is None or not with_plugins:
        return ()
    others: set[str] = set() if _is_editable(ours) else _projects(installed)
    found = [plugin for name, plugins in with_plugins.items() if name not in others for plugin in plugins]
    return tuple(sorted(found))


def _is_ours(python: str) -> bool:
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(python)))
    return python == sys.executable or os.path.realpath(prefix) == os.path.realpath(sys.prefix)


def _projects(installed: dict[str, metadata.Distribution]) -> set[str]:
    """What is installed for something else than git-agentos: what was asked for by name, what nothing needs, and what
    those need."""
    needed = {each for name, one in installed.items() for each in _requirements(name, one)}
    direct = {_OURS, *_requirements(_OURS, installed[_OURS])}  # its extras may have been asked for one by one
    roots = [
        name
        for name, each in installed.items()
        if name not in direct and (name not in needed or each.read_text("REQUESTED") is not None)
    ]
    found: set[str] = set()
    while roots:
        name = roots.pop()
        if name not in found and name in installed:
            found.add(name)
            roots += _requirements(name, installed[name])
    return found


def _requirements(name: str, distribution: metadata.Distribution) -> list[str]:
    """The distributions that one needs; of git-agentos, of its extras too."""
    wanted = (each for each in distribution.requires or () if name == _OURS or "extra ==" not in each)
    return [_normal(found[0]) for each in wanted if (found := _NAME.match(each)) is not None]


def _plugins(distribution: metadata.Distribution) -> list[str]:
    points: Iterable[metadata.EntryPoint] = distribution.entry_points
    return [each.name for each in points if each.group == _GROUP]


def _is_editable(distribution: metadata.Distribution) -> bool:
    try:
        body = json.loads(distribution.read_text("direct_url.json") or "{}")
        return bool(body.get("dir_info", {}).get("editable"))
    except (ValueError, AttributeError):
        return False


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
