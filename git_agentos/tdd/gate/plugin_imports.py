"""Imports from the worktree, in the project's interpreter: in the process of pytest and in those that tests start.

Standard library only, and written for old versions of it: it is copied beside `evidence_plugin`. What is installed
editable from another checkout of the repository is found in the worktree instead, whichever way it was installed: by a
path, by setuptools' finder with its mapping, or by a finder that puts itself before all others.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import machinery
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_STANDARD = os.path.realpath(os.path.dirname(os.__file__))


def _order() -> dict[str, Any]:
    with open(os.path.join(_HERE, "order.json"), encoding="ascii") as file:
        found: dict[str, Any] = json.load(file)
    return found


ORDER = _order()  # what is to be done, as `running` has laid it there


class _First:
    """A finder before all others: what the worktree has comes from there, and from its source.

    A folder without `__init__.py` may be a package or only a folder: that is left to the others, and remembered, since
    what is in it is ours all the same.
    """

    def __init__(self, places: list[str]) -> None:
        self._places = places
        self._portions: dict[str, list[str]] = {}
        self._ours = dict.fromkeys(places, True)

    def find_spec(self, name: str, path: Any = None, *_: Any) -> Any:
        parent = name.rpartition(".")[0]
        if not parent and _is_built_in(name):
            return None
        given = path if parent else [*sys.path, *self._places]
        where = self._portions.get(parent) or [each for each in given or () if self._is_ours(each)]
        spec = machinery.PathFinder.find_spec(name, where) if where else None
        if spec is None:
            return None
        if spec.submodule_search_locations is not None:
            self._portions[name] = list(spec.submodule_search_locations)
        if type(spec.loader) is machinery.SourceFileLoader:
            spec.loader = _FromSource(spec.loader.name, spec.loader.path)
        elif isinstance(spec.loader, machinery.SourcelessFileLoader):
            raise ImportError(f"'{spec.origin}' has no source: it cannot be looked at", name=name)
        return spec if spec.loader is not None else None

    def _is_ours(self, place: Any) -> bool:
        if not isinstance(place, str):
            return False
        if place not in self._ours:
            real = os.path.realpath(place)
            self._ours[place] = is_below(real, ORDER["root"]) and not _is_installed(real)
        return self._ours[place]


class _FromSource(machinery.SourceFileLoader):
    """Does not believe what is compiled: who writes `__pycache__` can have anything run in the place of the source."""

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _is_built_in(name: str) -> bool:
    return any(finder.find_spec(name) is not None for finder in (machinery.BuiltinImporter, machinery.FrozenImporter))


def arrange() -> None:
    """Have imports come from the worktree: here, and in the processes that tests start."""
    places = list(ORDER["places"])
    ours = [_HERE, *ORDER["below"]]
    rest = [_translated(each) for each in sys.path if each and each not in ours]
    sys.path[:] = list(dict.fromkeys([_HERE, *places, *(each for each in rest if each is not None)]))
    os.environ["PYTHONPATH"] = os.pathsep.join(ORDER["below"] + places)
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("__editable__"):
            _map_anew(module)
    if not any(isinstance(each, _First) for each in sys.meta_path):
        sys.meta_path.insert(0, _First(places))


def installed() -> list[str]:
    """Where modules are imported from that are neither ours nor the worktree's."""
    ours = {_HERE, *ORDER["below"], *ORDER["places"]}
    return [each for each in sys.path if each not in ours]


def _map_anew(module: Any) -> None:
    """setuptools' finder for an editable project: where it says that packages and parts of namespaces are."""
    mapping = getattr(module, "MAPPING", None)
    if isinstance(mapping, dict):
        found = {name: _translated(str(path)) for name, path in mapping.items()}
        mapping.clear()
        mapping.update({name: path for name, path in found.items() if path is not None})
    spaces = getattr(module, "NAMESPACES", None)
    if isinstance(spaces, dict):
        for paths in spaces.values():
            paths[:] = [each for each in (_translated(str(path)) for path in paths) if each is not None]


def _translated(path: str) -> str | None:
    """Where the same is in the worktree; None where it is not there, the path itself where it is of no checkout."""
    real = os.path.realpath(path)
    other = other_of(real)
    if other is None:
        return path
    found = os.path.join(ORDER["root"], os.path.relpath(real, other))
    there = os.path.exists(found) or os.path.exists(found + ".py")  # setuptools names a module without it
    return os.path.normpath(found) if there else None


def other_of(real: str) -> str | None:
    """The other checkout that a path is in; None where it is in none, or is of what is installed there."""
    if is_below(real, ORDER["root"]) or _is_installed(real):
        return None
    found = [each for each in ORDER["others"] if is_below(real, each)]
    return max(found, key=len) if found else None


def is_own(real: str) -> bool:
    """Whether a path is the worktree's, and not of what is installed in it."""
    return is_below(real, os.path.realpath(ORDER["root"])) and not _is_installed(real)


def _is_installed(real: str) -> bool:
    folders = {"site-packages", "dist-packages"}
    return not folders.isdisjoint(real.split(os.sep)) or is_below(real, _STANDARD)


def is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
