"""The inputs of a test run, by hash: tests, conftests, pytest's configuration, the interpreter.

The red gate records them when it holds; every later change to one of them is a veto: a file that was edited or removed,
or a new one that would take part. They are

* files that pytest takes for tests by their names (`test_*.py`, `*_test.py`, and what the project's `python_files`
  says), and every `conftest.py`;
* every file below a folder `tests`, and below `test` at the top: what tests read decides their outcome, too;
* pytest's own configuration files, and what pytest reads of pyproject.toml, setup.cfg, tox.ini and entry_points.txt;
* what Python runs first: sitecustomize, usercustomize, `*.pth`; and whether there are modules at the top with the names
  of pytest and its dependencies (not their content: the project may be one of these);
* the interpreter with its startup files, pytest's plugins and pytest itself (one hash, with the key `<python>`).

The folders of git and git-agentos, virtual environments and caches are left out. A link is recorded by its target, with
the target's content if that is in the worktree. Data files that the tests themselves write when they run are marked
and not compared (`ignore_written`); code and configuration always are.
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
from git_agentos.util import files

PYTHON = "<python>"
_PART = "#pytest"
_WRITTEN = "written by the tests"
_EXISTS = "there"
_TEST_FILES = ("test_*.py", "*_test.py")
_FIRST = ("sitecustomize", "usercustomize")
_PYTEST = ("pytest", "_pytest", "pluggy", "iniconfig", "exceptiongroup")
_MODULE = (".py", ".pyc", ".pyd", ".so")
_CODE = (*_MODULE, ".pth", ".pyi", ".pyx", ".ini", ".toml", ".cfg")
_CACHES = frozenset(
    """.git .agentos __pycache__ node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis .tox .nox .cache
    .eggs .benchmarks htmlcov""".split()
)
_LEFTOVERS = ("*.pyc", "*.pyo", ".coverage", ".coverage.*", "*.swp", "*~", ".DS_Store", "*.log")
_UNLIKELY_NAME = "qzjx.py"  # only a pattern that matches all code matches it


def hash_inputs(root: str, more: Iterable[str] = ()) -> Mapping[str, str]:
    """The sha256 of every input in the worktree at `root`, by path (`pyproject.toml#pytest` for a part of a file).
    `more` are further files (`helpers`), as far as they exist."""
    hashes: dict[str, str] = {}
    patterns = test_patterns(pytest_config.read_options(root))
    for path, is_link in _walk(root):
        if is_test(path, patterns) or _runs_first(path):
            _add_file(root, path, is_link, hashes)
        elif shadows(path):
            hashes[path] = _EXISTS
        elif os.path.basename(path) in pytest_config.SHARED_FILES:
            with contextlib.suppress(OSError):
                data = files.read(os.path.join(root, path), follow=True)
                section = pytest_config.section(os.path.basename(path), data)
                if section is not None and (not path.endswith(".txt") or _is_metadata(path)):
                    hashes[path + _PART] = hashlib.sha256(section).hexdigest()
    for path in more:
        full = os.path.join(root, path)
        if hashes.get(path, _EXISTS) == _EXISTS and os.path.lexists(full):
            hashes.pop(path, None)
            _add_file(root, path, os.path.islink(full), hashes)
    return dict(sorted(hashes.items()))


def diff(before: Mapping[str, str], after: Mapping[str, str]) -> Sequence[str]:
    """What differs, a sentence each: `tests/test_a.py was changed`, `conftest.py is new`. The interpreter is compared
    where both have it."""
    changes = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old == new or _WRITTEN in (old, new):
            continue
        if key == PYTHON:
            if old is not None and new is not None:
                changes.append("the interpreter, its startup files, its plugins, or pytest itself were changed")
            continue
        path = _file(key)
        name = key if path == key else f"pytest's part of {path}"
        changes.append(f"{name} {'was removed' if new is None else 'is new' if old is None else 'was changed'}")
    return changes


def ignore_written(before: Mapping[str, str], after: Mapping[str, str]) -> Mapping[str, str]:
    """`after`, the hashes when the tests have run, with the data files that the run itself wrote marked: they are not
    compared, now or later."""
    removed = {key: _WRITTEN for key in before if key not in after and _is_data(key)}
    return removed | {
        key: _WRITTEN if before.get(key) != value and _is_data(key) else value for key, value in after.items()
    }


def paths(hashes: Mapping[str, str]) -> Sequence[str]:
    """The files that are recorded, whole or in part."""
    return sorted({_file(key) for key, value in hashes.items() if key != PYTHON and value != _WRITTEN})


def whole_files(hashes: Mapping[str, str]) -> Sequence[str]:
    """The paths that are recorded with all of their content."""
    return [key for key in hashes if key != PYTHON and not key.endswith(_PART) and hashes[key] != _EXISTS]


def has_content(hashes: Mapping[str, str], root: str, path: str) -> bool:
    """Whether the content of a file is recorded; of a link, that of its target."""
    top = os.path.realpath(root)
    real = os.path.relpath(os.path.realpath(os.path.join(top, path)), top)
    return re.fullmatch("[0-9a-f]{64}", hashes.get(real, "")) is not None


def hash_rest(root: str, hashes: Mapping[str, str]) -> str:
    """One hash of all other files in the worktree (names, sizes and times), to tell whether anything was changed."""
    digest = hashlib.sha256()
    for path, _ in sorted(_walk(root)):
        if path in hashes or _matches(os.path.basename(path), _LEFTOVERS):
            continue
        with contextlib.suppress(OSError):
            status = os.lstat(os.path.join(root, path))
            digest.update(f"{path!r} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def hash_environment(folders: Sequence[str], prefix: str | None = None, python: str | None = None) -> str:
    """One hash of what an interpreter runs first, and of pytest itself. `folders` are those that it imports from,
    `prefix` is that of its virtual environment, `python` its path (a link is known by its target)."""
    names = ["*.pth", "sitecustomize*", "usercustomize*", "*.dist-info/entry_points.txt", "*.egg-info/entry_points.txt"]
    names += [f"{package}{end}" for package in ("pytest", "_pytest", "pluggy") for end in (".py", "/**/*.py")]
    packages = [each for each in folders if os.path.basename(each) in ("site-packages", "dist-packages")]
    patterns = [os.path.join(glob.escape(folder), name) for folder in packages for name in names]
    found = {path for pattern in patterns for path in glob.glob(pattern, recursive=True)}
    found |= {os.path.join(prefix, "pyvenv.cfg")} if prefix is not None else set()
    found |= {python} if python is not None and not os.path.islink(python) else set()
    digest = hashlib.sha256()
    for path in sorted(found):
        content = _hash_file(path)
        if path.endswith("entry_points.txt"):
            section = None
            with contextlib.suppress(OSError):
                section = pytest_config.section("entry_points.txt", files.read(path, follow=True))
            if section is None:
                continue
            content = hashlib.sha256(section).hexdigest()
        digest.update(os.fsencode(path) + b"\0" + content.encode() + b"\0")
    return digest.hexdigest()


# -- what a path is ----------------------------------------------------------------------------------------------------


def is_test(path: str, patterns: Collection[str] = ()) -> bool:
    """Whether a file is recorded whole because of its name and folder; `patterns` are further ones for names."""
    *folders, name = path.split("/")
    if _matches(name, _LEFTOVERS) or not _CACHES.isdisjoint(folders):
        return False
    if name in (*pytest_config.OWN_FILES, "conftest.py") or "tests" in folders or folders[:1] == ["test"]:
        return True
    return is_collected(path, patterns)


def is_collected(path: str, patterns: Collection[str] = ()) -> bool:
    """Whether pytest collects tests from a file, by its name; `patterns` are further ones."""
    name = os.path.basename(path)
    return any(fnmatch.fnmatchcase(path if "/" in each else name, each) for each in (*_TEST_FILES, *patterns))


def test_patterns(options: pytest_config.Options) -> Sequence[str]:
    """The project's own patterns for test files, without those that match all code."""
    return [each for each in options.test_files if not fnmatch.fnmatchcase(_UNLIKELY_NAME, each)]


def is_configuration(path: str) -> bool:
    """Whether a file, or a part of it, is pytest's configuration."""
    return os.path.basename(path) in pytest_config.CONFIGURATION_FILES


def shadows(path: str, names: Collection[str] = _PYTEST) -> bool:
    """Whether a file at the top (or in `src`) makes a module or package with one of `names`: the project's modules are
    found before all others."""
    parts = path.split("/")
    parts = parts[1:] if parts[:1] == ["src"] and len(parts) > 1 else parts
    is_module = len(parts) == 1 or (len(parts) == 2 and parts[1].startswith("__init__."))
    return is_module and parts[-1].endswith(_MODULE) and parts[0].partition(".")[0] in names


def comes_first(path: str) -> bool:
    """Whether Python runs a file before all others, or takes it for a part of pytest or for a compiled conftest."""
    return shadows(path) or (_runs_first(path) and os.path.basename(path) != "conftest.py")


def _runs_first(path: str) -> bool:
    *folders, name = path.split("/")
    if name.endswith(".pth"):
        return True
    parts = [each.partition(".")[0] for each in (*folders[-1:], name)] if name.endswith(_MODULE) else []
    return bool({*_FIRST, "conftest"}.intersection(parts))


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, each) for each in patterns)


def _is_metadata(path: str) -> bool:
    return os.path.dirname(path).endswith((".egg-info", ".dist-info"))


def _is_data(key: str) -> bool:
    return key != PYTHON and not key.endswith(_PART) and not key.endswith(_CODE)


def _file(key: str) -> str:
    """The file that a key is about."""
    path = key.removesuffix(_PART)
    return path if os.path.basename(path) in pytest_config.SHARED_FILES else key


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


def _add_file(root: str, path: str, is_link: bool, hashes: dict[str, str]) -> None:
    """Record a file; of a link its target, and the file there if that is in the worktree."""
    if path in hashes:
        return
    full = os.path.join(root, path)
    if not is_link:
        hashes[path] = _hash_file(full)
        return
    with contextlib.suppress(OSError):
        hashes[path] = "link to " + os.readlink(full)
    target = os.path.relpath(os.path.realpath(full), os.path.realpath(root))
    if target.startswith("..") or not _CACHES.isdisjoint(target.split("/")):
        return
    inside = os.path.join(root, target)
    if os.path.isfile(inside):
        _add_file(root, target, False, hashes)
    elif os.path.isdir(inside) and target != ".":
        for each, link in _walk(inside):
            _add_file(root, f"{target}/{each}", link, hashes)


def _hash_file(path: str) -> str:
    """The sha256 of a regular file; for anything else, what it is."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return "no plain file"
        return hashlib.file_digest(file, "sha256").hexdigest()
