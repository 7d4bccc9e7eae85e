"""Imports from the worktree, in the project's interpreter: in pytest's process and in those that tests start.

It uses nothing but the standard library, and supports old versions of it: `pytest_run` copies it beside `plugin`. A
project that is installed editable from another checkout of the repository is imported from the worktree instead,
whichever way it was installed: by a path, by setuptools' finder with its mapping, or by a finder before all others.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import machinery
from typing import Any

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_STANDARD_LIBRARY = os.path.realpath(os.path.dirname(os.__file__))


def _read_job() -> dict[str, Any]:
    with open(os.path.join(_FOLDER, "job.json"), encoding="ascii") as file:
        job: dict[str, Any] = json.load(file)
    return job


# root (the worktree), others (other checkouts), folders (for sys.path), canary (a name, or None), results (a folder),
# sitecustomize (a folder for PYTHONPATH, or nothing)
JOB = _read_job()


class _WorktreeFinder:
    """A finder before all others: what the worktree has is imported from there, and from source.

    A folder without `__init__.py` may be a package or only a folder. That is left to the other finders; it is
    remembered, since the modules in it belong to the worktree all the same.
    """

    def __init__(self, folders: list[str]) -> None:
        self._folders = folders
        self._portions: dict[str, list[str]] = {}
        self._is_own = dict.fromkeys(folders, True)

    def find_spec(self, name: str, path: Any = None, *_: Any) -> Any:
        parent = name.rpartition(".")[0]
        if not parent and _is_built_in(name):
            return None
        searched = path if parent else [*sys.path, *self._folders]
        own = self._portions.get(parent) or [each for each in searched or () if self._is_own_folder(each)]
        spec = machinery.PathFinder.find_spec(name, own) if own else None
        if spec is None:
            return None
        if spec.submodule_search_locations is not None:
            self._portions[name] = list(spec.submodule_search_locations)
        if type(spec.loader) is machinery.SourceFileLoader:
            spec.loader = _SourceLoader(spec.loader.name, spec.loader.path)
        elif isinstance(spec.loader, machinery.SourcelessFileLoader):
            raise ImportError(f"'{spec.origin}' has no source, so nobody can review it", name=name)
        return spec if spec.loader is not None else None

    def _is_own_folder(self, folder: Any) -> bool:
        if not isinstance(folder, str):
            return False
        if folder not in self._is_own:
            self._is_own[folder] = is_own(os.path.realpath(folder))
        return self._is_own[folder]


class _SourceLoader(machinery.SourceFileLoader):
    """Ignores compiled files: a process that can write to `__pycache__` could replace the source."""

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _is_built_in(name: str) -> bool:
    return any(finder.find_spec(name) is not None for finder in (machinery.BuiltinImporter, machinery.FrozenImporter))


def redirect_imports() -> None:
    """Make imports come from the worktree, here and in the processes that tests start."""
    folders = list(JOB["folders"])
    ours = [_FOLDER, *JOB["sitecustomize"]]
    rest = [_translate(each) for each in sys.path if each and each not in ours]
    sys.path[:] = list(dict.fromkeys([_FOLDER, *folders, *(each for each in rest if each is not None)]))
    os.environ["PYTHONPATH"] = os.pathsep.join(JOB["sitecustomize"] + folders)
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("__editable__"):
            _translate_editable(module)
    if not any(isinstance(each, _WorktreeFinder) for each in sys.meta_path):
        sys.meta_path.insert(0, _WorktreeFinder(folders))


def installed_folders() -> list[str]:
    """The folders of sys.path that belong neither to the plugin nor to the worktree."""
    ours = {_FOLDER, *JOB["sitecustomize"], *JOB["folders"]}
    return [each for each in sys.path if each not in ours]


def _translate_editable(module: Any) -> None:
    """Change where setuptools' finder for an editable project looks for packages and parts of namespaces."""
    mapping = getattr(module, "MAPPING", None)
    if isinstance(mapping, dict):
        translated = {name: _translate(str(path)) for name, path in mapping.items()}
        mapping.clear()
        mapping.update({name: path for name, path in translated.items() if path is not None})
    namespaces = getattr(module, "NAMESPACES", None)
    if isinstance(namespaces, dict):
        for paths in namespaces.values():
            paths[:] = [each for each in (_translate(str(path)) for path in paths) if each is not None]


def _translate(path: str) -> str | None:
    """The same path in the worktree, None if it does not exist there; a path outside of other checkouts itself."""
    real = os.path.realpath(path)
    other = other_checkout_of(real)
    if other is None:
        return path
    translated = os.path.join(JOB["root"], os.path.relpath(real, other))
    exists = os.path.exists(translated) or os.path.exists(translated + ".py")  # setuptools omits it in a module's path
    return os.path.normpath(translated) if exists else None


def other_checkout_of(real: str) -> str | None:
    """The other checkout that has a path; None if none has it, or it is an installed file."""
    if is_below(real, JOB["root"]) or _is_installed(real):
        return None
    others = [each for each in JOB["others"] if is_below(real, each)]
    return max(others, key=len) if others else None


def is_own(real: str) -> bool:
    """Whether a path belongs to the worktree, and is not an installed file."""
    return is_below(real, os.path.realpath(JOB["root"])) and not _is_installed(real)


def _is_installed(real: str) -> bool:
    folders = {"site-packages", "dist-packages"}
    return not folders.isdisjoint(real.split(os.sep)) or is_below(real, _STANDARD_LIBRARY)


def is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
