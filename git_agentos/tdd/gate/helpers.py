"""What tests use beside the files that are frozen by name: plugins and helpers outside of `tests`.

Told by reading imports, never by running anything. From the red tests, from conftests, and from the plugins that are
configured, imports are followed through the worktree. Frozen with the tests are

* modules that pytest loads as plugins, and modules that import pytest, unittest or hypothesis, or define hooks;
* modules that no code imports, and that have functions which assert and return nothing, or are named after an
  assertion (`check_price`, `assert_sold`);
* modules and files at the top that are called like helpers or data of tests (`helpers.py`, `fixtures/`, `golden/`),
  where no code imports them and no test file is named after them.

A module that only the code's own names tell from a helper is taken for code: it has to change for the tests to pass.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from git_agentos.tdd.gate import pytest_config, syntax
from git_agentos.util import files

_TOOLS = frozenset({"pytest", "_pytest", "pluggy", "unittest", "hypothesis", "nose", "mock"})
_LOADS = frozenset({"import_module", "__import__", "importorskip"})
_WORDS = frozenset(
    """expectations expected fixtures golden goldens helper helpers testdata testhelper testhelpers testing testkit
    testlib testsupport testutil testutils test_data test_helpers test_support test_utils""".split()
)
_ASSERTS = re.compile(r"_*(?:assert|check|expect|verify)")
_LARGEST = 4 << 20
_MOST = 2000  # modules that are followed


@dataclass
class _Module:
    """A module of the worktree that was reached, and who imports it."""

    path: str
    tree: ast.Module
    importers: set[str] = field(default_factory=set)


def find(
    root: str, starts: Iterable[str], is_frozen: Callable[[str], bool], names: pytest_config.Names
) -> Sequence[str]:
    """The files that the test files and conftests `starts` use, and that `is_frozen` does not have, relative to `root`.
    `names` is what the project's configuration says of plugins and folders."""
    used = _Used(root, is_frozen, names.paths)
    loaded = [each for name in names.loaded for each in used.files_of(name, "")]
    used.follow([*starts, *loaded])
    own = {each.split(".")[0] for each in names.plugins}  # a project that is a plugin of pytest has to change it
    found = {*loaded, *used.helpers(), *used.data()}
    return sorted(each for each in found if not is_frozen(each) and _top(each) not in own)


class _Used:
    def __init__(self, root: str, is_frozen: Callable[[str], bool], paths: Sequence[str]) -> None:
        self._root = root
        self._is_frozen = is_frozen
        self._places = ["", "src", *paths]
        self._modules: dict[str, _Module] = {}
        self._plugins: set[str] = set()

    def follow(self, starts: Iterable[str]) -> None:
        """Read files, and all that they import from the worktree."""
        waiting = [(each, "") for each in starts]
        while waiting and len(self._modules) < _MOST:
            path, importer = waiting.pop()
            module = self._modules.get(path)
            if module is None:
                tree = self._parsed(path)
                if tree is None:
                    continue
                module = self._modules[path] = _Module(path, tree)
                waiting += [(each, path) for each in self._imported(path, tree)]
            module.importers.add(importer)

    def helpers(self) -> Iterator[str]:
        """The modules that are helpers."""
        tests = {path for path in self._modules if self._is_frozen(path)}
        subjects = {_subject(path) for path in tests}
        known = {"", *tests, *self._plugins}
        while found := {each.path for each in self._modules.values() if self._is_helper(each, known, subjects)} - known:
            known |= found
            yield from found
        yield from self._plugins

    def data(self) -> Iterator[str]:
        """Files that tests name, and that are called like data of tests."""
        for module in list(self._modules.values()):
            if not self._is_frozen(module.path):
                continue
            for node in ast.walk(module.tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and 0 < len(node.value) < 200:
                    yield from self._named(node.value, module.path)

    def files_of(self, name: str, importer: str) -> Sequence[str]:
        """The file of a module, and those of its packages; empty for a module of elsewhere."""
        parts = name.split(".")
        folders = [*self._places, *_above(importer)]
        for folder in dict.fromkeys(folders):
            found = []
            for count in range(1, len(parts) + 1):
                base = os.path.join(folder, *parts[:count])
                found += [each for each in (f"{base}.py", f"{base}/__init__.py") if self._is_file(each)]
            if found or os.path.isdir(os.path.join(self._root, folder, parts[0])):
                return found
        return []

    def _is_helper(self, module: _Module, known: set[str], subjects: set[str]) -> bool:
        if self._is_frozen(module.path):
            return False
        if module.path in self._plugins or _uses_tools(module.tree):
            return True
        if not module.importers <= known:
            return False  # code imports it
        return _asserts(module.tree) or (_is_called_so(module.path) and _stem(module.path) not in subjects)

    def _imported(self, path: str, tree: ast.Module) -> Iterator[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for each in node.names:
                    yield from self.files_of(each.name, path)
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(node, path)
                for name in (base, *(f"{base}.{each.name}" for each in node.names)):
                    yield from self.files_of(name.strip("."), path)
            elif isinstance(node, ast.Call) and _last(node.func) in _LOADS and node.args:
                yield from self._constants(node.args[0], path)
            elif isinstance(node, ast.Assign) and any(_last(each) == "pytest_plugins" for each in node.targets):
                found = list(self._constants(node.value, path))
                self._plugins.update(found)
                yield from found

    def _constants(self, node: ast.expr, path: str) -> Iterator[str]:
        for each in ast.walk(node):
            if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value:
                yield from self.files_of(each.value, path)

    def _absolute(self, node: ast.ImportFrom, path: str) -> str:
        """What a module is called that is imported from, relative to the top."""
        if not node.level:
            return node.module or ""
        folders = path.split("/")[: -node.level]
        return ".".join([*folders, *([node.module] if node.module else [])])

    def _named(self, text: str, importer: str) -> Iterator[str]:
        for folder in ("", os.path.dirname(importer)):
            path = os.path.normpath(os.path.join(folder, text))
            if _is_called_so(path) and not path.endswith(".py") and self._is_file(path):
                yield path

    def _is_file(self, path: str) -> bool:
        return not path.startswith(("../", "/")) and os.path.isfile(os.path.join(self._root, path))

    def _parsed(self, path: str) -> ast.Module | None:
        try:
            return syntax.parse(files.read(os.path.realpath(os.path.join(self._root, path)), limit=_LARGEST))
        except OSError:
            return None


def _above(path: str) -> Iterator[str]:
    """The folder of a file and those above it: pytest imports from one of them."""
    while path:
        path = os.path.dirname(path)
        yield path


def _uses_tools(tree: ast.Module) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            if any(each.name.partition(".")[0] in _TOOLS for each in node.names):
                return True
        elif isinstance(node, ast.ImportFrom):
            if not node.level and (node.module or "").partition(".")[0] in _TOOLS:
                return True
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("pytest_"):
            return True
    return False


def _asserts(tree: ast.Module) -> bool:
    """Whether a function of the module asserts for its callers."""
    for node in syntax.statements(tree.body):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        inner = list(ast.walk(node))
        if not node.args.args or not any(_is_assertion(each) for each in inner):
            continue
        gives = any(isinstance(each, ast.Return) and each.value is not None for each in inner)
        if not gives or _ASSERTS.match(node.name):
            return True
    return False


def _is_assertion(node: ast.AST) -> bool:
    """An assertion about something; `assert False` and a bare `raise AssertionError` are how stubs are written."""
    if isinstance(node, ast.Assert):
        return not isinstance(node.test, ast.Constant)
    return isinstance(node, ast.If) and any(_raises(each) for each in node.body)


def _raises(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Raise) or node.exc is None:
        return False
    return _last(node.exc.func if isinstance(node.exc, ast.Call) else node.exc) == "AssertionError"


def _is_called_so(path: str) -> bool:
    """Whether a file at the top, or in a folder at the top, is called like a helper or data of tests."""
    return _top(path).partition(".")[0].lower() in _WORDS


def _top(path: str) -> str:
    return path.removeprefix("src/").removesuffix(".py").split("/")[0]


def _stem(path: str) -> str:
    name = os.path.basename(path).removesuffix(".py")
    return os.path.basename(os.path.dirname(path)) if name == "__init__" else name


def _subject(path: str) -> str:
    """What a test file is named after."""
    return _stem(path).removeprefix("test_").removesuffix("_test")


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
