"""libgit2, by the part of pygit2 that is needed here: objects, and the ancestry of commits.

`import pygit2` also prepares remotes, TLS certificates, archives and many classes, which takes longer than most
checkpoints. We need only its extension module, and the enumerations and options beside it. They are imported as parts
of an otherwise empty package, which is removed immediately, so that a later `import pygit2` in this process gets
everything. If that is not possible, all of pygit2 is imported here.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import types
from typing import TYPE_CHECKING, Any

from git_agentos.util.named_tuple import NamedTuple

if TYPE_CHECKING:
    from pygit2 import Odb as OdbType
    from pygit2 import Repository as RepositoryType

_PACKAGE = "pygit2"


class _Parts(NamedTuple):
    """The extension module; `option` gets and sets libgit2's options, named by `options`."""

    core: Any
    option: Any
    options: Any


def _load() -> _Parts:
    # Another thread could import pygit2 meanwhile, and would find the empty package.
    if _PACKAGE not in sys.modules and threading.active_count() == 1:
        try:
            return _load_parts()
        except (ImportError, AttributeError):
            pass  # a pygit2 with another structure
    return _parts_of(importlib.import_module)


def _load_parts() -> _Parts:
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or found.submodule_search_locations is None:
        raise ImportError(_PACKAGE)
    package = types.ModuleType(_PACKAGE)
    package.__path__ = list(found.submodule_search_locations)
    sys.modules[_PACKAGE] = package
    try:
        parts = _parts_of(importlib.import_module)
        parts.core._cache_enums()
        return parts
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]:
            del sys.modules[name]


def _parts_of(load: Any) -> _Parts:
    load(_PACKAGE)
    options = load(f"{_PACKAGE}.options")
    return _Parts(load(f"{_PACKAGE}._pygit2"), options.option, load(f"{_PACKAGE}.enums").Option)


_parts = _load()

Oid = _parts.core.Oid
GitError: type[Exception] = _parts.core.GitError
_FORCE_TEXT = 1 << 20  # git_diff_option_t
KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}  # git_object_t


def open_repository(git_dir: str) -> RepositoryType:
    """The repository with this git directory."""
    core = _parts.core
    opened: RepositoryType = core.Repository(core.init_file_backend(git_dir, 0))
    return opened


def open_objects(path: str) -> OdbType:
    """The object store in this folder, as it is on disk now."""
    opened: OdbType = _parts.core.Odb(path)
    return opened


def validates_owner() -> bool:
    """Whether libgit2 refuses repositories of other users."""
    return bool(_parts.option(_parts.options.GET_OWNER_VALIDATION))


def validate_owner(value: bool) -> None:
    """Set whether libgit2 refuses repositories of other users."""
    _parts.option(_parts.options.SET_OWNER_VALIDATION, value)


def known_extensions() -> set[str]:
    """The `extensions.*` that libgit2 accepts."""
    return set(_parts.option(_parts.options.GET_EXTENSIONS))


def know_extensions(names: list[str]) -> None:
    """Set the `extensions.*` that libgit2 accepts besides its own."""
    _parts.option(_parts.options.SET_EXTENSIONS, names, len(names))


class Hunk(NamedTuple):
    """Lines of one text in the place of lines of another, as in the header of a patch without context."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int


def hunks(old: bytes, new: bytes) -> list[Hunk]:
    """The changes that make `new` of `old`, as `git diff` finds them; any bytes count as text."""
    if old == new:
        return []
    patch = _parts.core.Patch.create_from(old, new, context_lines=0, interhunk_lines=0, flag=_FORCE_TEXT)
    return [Hunk(each.old_start, each.old_lines, each.new_start, each.new_lines) for each in patch.hunks]
