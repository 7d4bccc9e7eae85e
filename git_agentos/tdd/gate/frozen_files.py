"""The tests, conftests and pytest's configuration, frozen by hash when the red gate has held.

A change afterwards is a veto: a file that was edited, removed, or that is new and would take part. Frozen are

* files that are called as tests are (`test_*.py`, `*_test.py`, and what the project's `python_files` says), and
  `conftest.py`, wherever they are;
* every file below a folder `tests`, and below `test` at the top: what tests read decides how they come out, too;
* pytest's own configuration files, and of pyproject.toml, setup.cfg, tox.ini and entry_points.txt what pytest reads;
* what Python runs before anything else: sitecustomize, usercustomize, `*.pth`; and whether there are modules at the top
  that are called like pytest or what it is made of (their content is not: a project may be one of these);
* of the interpreter's environment, its startup files, pytest's plugins and pytest itself (one hash, under `<python>`).

Left out are git's and this tool's own folders, virtual environments, and caches. A link is not followed: where it leads
is frozen, and what it leads to in the worktree. Files that the tests themselves write or change when they are run are
noted, and not compared (`unstable`), unless they are code or configuration.
"""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import hashlib
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from git_agentos.tdd.gate import pytest_config

PYTHON = "<python>"
_PART = "#pytest"
_WRITTEN = "written by the tests"
_FILES = ("test_*.py", "*_test.py")
_FOLDER = "tests"
_FIRST = ("sitecustomize", "usercustomize")
_PYTEST = ("pytest", "_pytest", "pluggy", "iniconfig", "exceptiongroup")
_MODULE = (".py", ".pyc", ".pyd", ".so")
_CODE = (*_MODULE, ".pth", ".pyi", ".pyx", ".ini", ".toml", ".cfg")
_CACHES = frozenset(
    """.git .agentos __pycache__ node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis .tox .nox .cache
    .eggs .benchmarks htmlcov""".split()
)
_LEFTOVERS = ("*.pyc", "*.pyo", ".coverage", ".coverage.*", "*.swp", "*~", ".DS_Store", "*.log")
_ANY_FILE = "qzjx.py"  # a name that no pattern for tests alone matches
_CHUNK = 1 << 20
_MOST_CONFIGURATION = 4 << 20


def freeze(root: str, places: Sequence[str] = (), more: Iterable[str] = ()) -> Mapping[str, str]:
    """The sha256 of everything in the worktree at `root` that decides how its tests come out; by path (relative, text;
    `pyproject.toml#pytest` for a part of a file). `places` are where the interpreter imports from by itself, `more`
    are files that are frozen whatever they are called (`helpers`), as far as they are there."""
    found: dict[str, str] = {}
    files = patterns(pytest_config.names(root))
    for path, is_link in _walk(root):
        if is_test(path, files) or _runs_first(path):
            _whole(root, path, is_link, found)
        elif shadows(path):
            found[path] = "there"
        elif os.path.basename(path) in pytest_config.PARTS and (data := _read(root, path)) is not None:
            part = pytest_config.part(os.path.basename(path), data)
            if part is not None and (not path.endswith(".txt") or _is_metadata(path)):
                found[path + _PART] = hashlib.sha256(part).hexdigest()
    for path in more:
        full = os.path.join(root, path)
        if found.get(path, "there") == "there" and os.path.lexists(full):
            found.pop(path, None)
            _whole(root, path, os.path.islink(full), found)
    if places:
        found[PYTHON] = environment(places)
    return dict(sorted(found.items()))


def changes(frozen: Mapping[str, str], root: str, places: Sequence[str] = ()) -> Sequence[str]:
    """What is not as it was frozen, a sentence each: `tests/test_a.py was changed`, `conftest.py is new`."""
    return compare(frozen, freeze(root, places))


def compare(before: Mapping[str, str], now: Mapping[str, str]) -> Sequence[str]:
    """`changes`, of two looks; what only one of them has looked at (the interpreter) is not compared."""
    said = []
    for key in sorted(before.keys() | now.keys()):
        was, has = before.get(key), now.get(key)
        if was == has or _WRITTEN in (was, has):
            continue
        if key == PYTHON:
            if was is not None and has is not None:
                said.append("the interpreter, its startup files, its plugins, or pytest itself were changed")
            continue
        what = "was removed" if has is None else "is new" if was is None else "was changed"
        said.append(f"{_told(key)} {what}")
    return said


def unstable(before: Mapping[str, str], after: Mapping[str, str]) -> Mapping[str, str]:
    """`after`, a look behind a run of the tests, with what the run itself wrote noted as such: such data are not
    compared, now or later. Code and configuration are never taken for that."""
    gone = {key: _WRITTEN for key in before if key not in after and _is_data(key)}
    return gone | {key: _WRITTEN if before.get(key) != has and _is_data(key) else has for key, has in after.items()}


def paths(frozen: Mapping[str, str]) -> Sequence[str]:
    """The files that are frozen, whole or in part, without what tells the part."""
    return sorted({_file(key) for key, has in frozen.items() if key != PYTHON and has != _WRITTEN})


def rest(root: str, frozen: Mapping[str, str]) -> str:
    """One hash of everything else in the worktree: of names, sizes and times, to tell whether anything was changed."""
    digest = hashlib.sha256()
    for path, _ in sorted(_walk(root)):
        if path in frozen or any(fnmatch.fnmatchcase(os.path.basename(path), each) for each in _LEFTOVERS):
            continue
        with contextlib.suppress(OSError):
            about = os.lstat(os.path.join(root, path))
            digest.update(f"{path!r} {about.st_size} {about.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def holds(frozen: Mapping[str, str], root: str, path: str) -> bool:
    """Whether the content of a file is frozen: of what is there, where `path` leads by links."""
    top = os.path.realpath(root)
    real = os.path.relpath(os.path.realpath(os.path.join(top, path)), top)
    return re.fullmatch("[0-9a-f]{64}", frozen.get(real, "")) is not None


def wholly(frozen: Mapping[str, str]) -> Sequence[str]:
    """The paths that are frozen with their content."""
    return [key for key in frozen if key != PYTHON and not key.endswith(_PART) and frozen[key] != "there"]


def is_test(path: str, patterns: Collection[str] = ()) -> bool:
    """Whether a file is one of those that are frozen whole, by its name and place; `patterns` are further ones for
    names."""
    *folders, name = path.split("/")
    if any(fnmatch.fnmatchcase(name, each) for each in _LEFTOVERS) or not _CACHES.isdisjoint(folders):
        return False
    if name in (*pytest_config.WHOLE, "conftest.py") or _FOLDER in folders or folders[:1] == ["test"]:
        return True
    return is_collected(path, patterns)


def is_collected(path: str, patterns: Collection[str] = ()) -> bool:
    """Whether pytest takes a file for one with tests in it, by its name; `patterns` are further ones."""
    name = os.path.basename(path)
    return any(fnmatch.fnmatchcase(path if "/" in each else name, each) for each in (*_FILES, *patterns))


def patterns(names: pytest_config.Names) -> Sequence[str]:
    """The project's own patterns for test files, without those that all code matches."""
    return [each for each in names.files if not fnmatch.fnmatchcase(_ANY_FILE, each)]


def is_configuration(path: str) -> bool:
    """Whether a file, or a part of it, is pytest's configuration."""
    return os.path.basename(path) in (*pytest_config.WHOLE, *pytest_config.PARTS[:3])


def shadows(path: str, names: Collection[str] = _PYTEST) -> bool:
    """Whether a file at the top (or in `src`) makes a module or package of one of `names`: the project's own come
    before all others."""
    parts = path.split("/")
    parts = parts[1:] if parts[:1] == ["src"] and len(parts) > 1 else parts
    is_module = len(parts) == 1 or (len(parts) == 2 and parts[1].startswith("__init__."))
    return is_module and parts[-1].endswith(_MODULE) and parts[0].partition(".")[0] in names


def comes_first(path: str) -> bool:
    """Whether Python runs a file before all others, or takes it for a part of pytest, or for a compiled conftest."""
    return shadows(path) or (_runs_first(path) and os.path.basename(path) != "conftest.py")


def _runs_first(path: str) -> bool:
    *folders, name = path.split("/")
    if name.endswith(".pth"):
        return True
    parts = [each.partition(".")[0] for each in (*folders[-1:], name)] if name.endswith(_MODULE) else []
    return bool({*_FIRST, "conftest"}.intersection(parts))


def _is_metadata(path: str) -> bool:
    return os.path.dirname(path).endswith((".egg-info", ".dist-info"))


def _is_data(key: str) -> bool:
    return key != PYTHON and not key.endswith(_PART) and not key.endswith(_CODE)


def _file(key: str) -> str:
    """The file that a key of what is frozen is about."""
    path = key.removesuffix(_PART)
    return path if os.path.basename(path) in pytest_config.PARTS else key


def _told(key: str) -> str:
    path = _file(key)
    return key if path == key else f"pytest's part of {path}"


# -- reading -----------------------------------------------------------------------------------------------------------


def _walk(root: str) -> Iterator[tuple[str, bool]]:
    """Every file below `root` that is not left out, by its path, and whether it is a link (to a folder, too)."""
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(os.path.join(root, prefix) if prefix else root) as entries:
            for entry in entries:
                if entry.is_symlink():
                    yield prefix + entry.name, True
                elif not entry.is_dir(follow_symlinks=False):
                    yield prefix + entry.name, False
                elif entry.name not in _CACHES and not _is_environment(entry.path):
                    waiting.append(prefix + entry.name + "/")


def _is_environment(folder: str) -> bool:
    return any(os.path.lexists(os.path.join(folder, name)) for name in ("pyvenv.cfg", "conda-meta"))


def _whole(root: str, path: str, is_link: bool, found: dict[str, str]) -> None:
    """Freeze a file; of a link where it leads, and what is there, if that is in the worktree."""
    if path in found:
        return
    full = os.path.join(root, path)
    if not is_link:
        found[path] = _hash(full)
        return
    with contextlib.suppress(OSError):
        found[path] = "link to " + os.readlink(full)
    target = os.path.relpath(os.path.realpath(full), os.path.realpath(root))
    if target.startswith("..") or not _CACHES.isdisjoint(target.split("/")):
        return
    inside = os.path.join(root, target)
    if os.path.isfile(inside):
        _whole(root, target, False, found)
    elif os.path.isdir(inside) and target != ".":
        for each, link in _walk(inside):
            _whole(root, f"{target}/{each}", link, found)


def _hash(path: str) -> str:
    """The sha256 of a plain file; what it is, where it is none or cannot be read."""
    digest = hashlib.sha256()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return "no plain file"
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _read(root: str, path: str) -> bytes | None:
    """A small plain file; None where there is none."""
    try:
        descriptor = os.open(os.path.join(root, path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(_MOST_CONFIGURATION) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def environment(places: Sequence[str], prefix: str | None = None, python: str | None = None) -> str:
    """One hash of what an interpreter's environment runs before anything else, and of pytest itself; `prefix` is that
    of its virtual environment, `python` the interpreter, of which a link is known by where it leads."""
    names = ["*.pth", "sitecustomize*", "usercustomize*", "*.dist-info/entry_points.txt", "*.egg-info/entry_points.txt"]
    names += [f"{package}{end}" for package in ("pytest", "_pytest", "pluggy") for end in (".py", "/**/*.py")]
    folders = [each for each in places if os.path.basename(each) in ("site-packages", "dist-packages")]
    wanted = [os.path.join(glob.escape(folder), name) for folder in folders for name in names]
    digest = hashlib.sha256()
    found = {path for pattern in wanted for path in glob.glob(pattern, recursive=True)}
    found |= {os.path.join(prefix, "pyvenv.cfg")} if prefix is not None else set()
    found |= {python} if python is not None and not os.path.islink(python) else set()
    for path in sorted(found):
        said = _hash(path)
        if path.endswith("entry_points.txt"):
            part = pytest_config.part("entry_points.txt", _read("/", path) or b"")
            if part is None:
                continue
            said = hashlib.sha256(part).hexdigest()
        digest.update(os.fsencode(path) + b"\0" + said.encode() + b"\0")
    return digest.hexdigest()
