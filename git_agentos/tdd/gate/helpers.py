"""Plugins and helpers of tests outside of the files that are frozen by their names.

They are found by reading imports; no code is run. From the red tests, from conftests, and from the plugins that are
configured, imports are followed through the worktree. Frozen with the tests are

* modules that pytest loads as plugins, and modules that import pytest, unittest or hypothesis, or define hooks;
* modules that no code imports, and that have functions which assert and return nothing, or are named after an
  assertion (`check_price`, `assert_sold`);
* modules and files at the top that have the name of helpers or data of tests (`helpers.py`, `fixtures/`, `golden/`),
  where no code imports them and no test file is named after them.

A module that looks like code is code: it has to change for the tests to pass.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from git_agentos.tdd.gate import pytest_config, syntax
from git_agentos.util import files

_TEST_TOOLS = frozenset({"pytest", "_pytest", "pluggy", "unittest", "hypothesis", "nose", "mock"})
_IMPORTERS = frozenset({"import_module", "__import__", "importorskip"})
_HELPER_NAMES = frozenset(
    """expectations expected fixtures golden goldens helper helpers testdata testhelper testhelpers testing testkit
    testlib testsupport testutil testutils test_data test_helpers test_support test_utils""".split()
)
_ASSERTION_NAME = re.compile(r"_*(?:assert|check|expect|verify)")
_MAX_BYTES = 4 << 20
_MAX_MODULES = 2000


@dataclass
class _Module:
    """A module of the worktree that was reached, and the modules that import it."""

    path: str
    tree: ast.Module
    importers: set[str] = field(default_factory=set)


def find_helpers(
    root: str, starts: Iterable[str], is_frozen: Callable[[str], bool], options: pytest_config.Options
) -> Sequence[str]:
    """The files (relative to `root`) that the test files and conftests `starts` use, and that are not frozen yet.
    `options` is what the project's configuration says of plugins and folders."""
    imports = _Imports(root, is_frozen, options.folders)
    loaded = [each for name in options.loaded for each in imports.files_of(name, "")]
    imports.follow([*starts, *loaded])
    own = {each.split(".")[0] for each in options.plugins}  # a project that is a plugin of pytest has to change it
    found = {*loaded, *imports.helpers(), *imports.data_files()}
    return sorted(each for each in found if not is_frozen(each) and _top_name(each) not in own)


class _Imports:
    """The modules of a worktree that are reached by imports."""

    def __init__(self, root: str, is_frozen: Callable[[str], bool], folders: Sequence[str]) -> None:
        self._root = root
        self._is_frozen = is_frozen
        self._folders = ["", "src", *folders]
        self._modules: dict[str, _Module] = {}
        self._plugins: set[str] = set()

    def follow(self, starts: Iterable[str]) -> None:
        """Read files, and all that they import from the worktree."""
        waiting = [(each, "") for each in starts]
        while waiting and len(self._modules) < _MAX_MODULES:
            path, importer = waiting.pop()
            module = self._modules.get(path)
            if module is None:
                tree = self._parse(path)
                if tree is None:
                    continue
                module = self._modules[path] = _Module(path, tree)
                waiting += [(each, path) for each in self._imported_files(path, tree)]
            module.importers.add(importer)

    def helpers(self) -> Iterator[str]:
        """The modules that are helpers: what only tests and helpers import may be one."""
        tests = {path for path in self._modules if self._is_frozen(path)}
        subjects = {_subject(path) for path in tests}
        known = {"", *tests, *self._plugins}
        while found := {each.path for each in self._modules.values() if self._is_helper(each, known, subjects)} - known:
            known |= found
            yield from found
        yield from self._plugins

    def data_files(self) -> Iterator[str]:
        """The files that tests name, and that have the name of test data."""
        for module in list(self._modules.values()):
            if not self._is_frozen(module.path):
                continue
            for node in ast.walk(module.tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and 0 < len(node.value) < 200:
                    yield from self._data_files_named(node.value, module.path)

    def files_of(self, name: str, importer: str) -> Sequence[str]:
        """The file of a module and those of its packages; empty if it is not in the worktree."""
        parts = name.split(".")
        for folder in dict.fromkeys([*self._folders, *_parents(importer)]):
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
        if module.path in self._plugins or _uses_test_tools(module.tree):
            return True
        if not module.importers <= known:
            return False  # code imports it
        return _asserts(module.tree) or (_has_helper_name(module.path) and _stem(module.path) not in subjects)

    def _imported_files(self, path: str, tree: ast.Module) -> Iterator[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for each in node.names:
                    yield from self.files_of(each.name, path)
            elif isinstance(node, ast.ImportFrom):
                base = _absolute_name(node, path)
                for name in (base, *(f"{base}.{each.name}" for each in node.names)):
                    yield from self.files_of(name.strip("."), path)
            elif isinstance(node, ast.Call) and syntax.last_name(node.func) in _IMPORTERS and node.args:
                yield from self._files_of_constants(node.args[0], path)
            elif isinstance(node, ast.Assign) and "pytest_plugins" in map(syntax.last_name, node.targets):
                plugins = list(self._files_of_constants(node.value, path))
                self._plugins.update(plugins)
                yield from plugins

    def _files_of_constants(self, node: ast.expr, path: str) -> Iterator[str]:
        for each in ast.walk(node):
            if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value:
                yield from self.files_of(each.value, path)

    def _data_files_named(self, text: str, importer: str) -> Iterator[str]:
        for folder in ("", os.path.dirname(importer)):
            path = os.path.normpath(os.path.join(folder, text))
            if _has_helper_name(path) and not path.endswith(".py") and self._is_file(path):
                yield path

    def _is_file(self, path: str) -> bool:
        return not path.startswith(("../", "/")) and os.path.isfile(os.path.join(self._root, path))

    def _parse(self, path: str) -> ast.Module | None:
        try:
            return syntax.parse(files.read(os.path.join(self._root, path), limit=_MAX_BYTES, follow=True))
        except OSError:
            return None


def _absolute_name(node: ast.ImportFrom, path: str) -> str:
    """The name of the module that is imported from, as seen from the top."""
    if not node.level:
        return node.module or ""
    return ".".join([*path.split("/")[: -node.level], *([node.module] if node.module else [])])


def _parents(path: str) -> Iterator[str]:
    """The folder of a file and those above it: pytest imports from one of them."""
    while path:
        path = os.path.dirname(path)
        yield path


def _uses_test_tools(tree: ast.Module) -> bool:
    for node in ast.walk(tree):
        names: Sequence[str] = ()
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        elif isinstance(node, syntax.Definition) and node.name.startswith("pytest_"):
            return True
        if any(each.partition(".")[0] in _TEST_TOOLS for each in names):
            return True
    return False


def _asserts(tree: ast.Module) -> bool:
    """Whether a function of the module asserts for its callers."""
    for node in syntax.statements(tree.body):
        if not isinstance(node, syntax.Definition):
            continue
        inner = list(ast.walk(node))
        if not node.args.args or not any(_is_assertion(each) for each in inner):
            continue
        returns = any(isinstance(each, ast.Return) and each.value is not None for each in inner)
        if not returns or _ASSERTION_NAME.match(node.name):
            return True
    return False


def _is_assertion(node: ast.AST) -> bool:
    """Whether a node asserts something; `assert False` and a bare `raise AssertionError` are stubs."""
    if isinstance(node, ast.Assert):
        return not isinstance(node.test, ast.Constant)
    return isinstance(node, ast.If) and any(_raises_assertion_error(each) for each in node.body)


def _raises_assertion_error(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Raise) or node.exc is None:
        return False
    return syntax.last_name(node.exc.func if isinstance(node.exc, ast.Call) else node.exc) == "AssertionError"


def _has_helper_name(path: str) -> bool:
    return _top_name(path).partition(".")[0].lower() in _HELPER_NAMES


def _top_name(path: str) -> str:
    return path.removeprefix("src/").removesuffix(".py").split("/")[0]


def _stem(path: str) -> str:
    name = os.path.basename(path).removesuffix(".py")
    return os.path.basename(os.path.dirname(path)) if name == "__init__" else name


def _subject(path: str) -> str:
    """What a test file is named after."""
    return _stem(path).removeprefix("test_").removesuffix("_test")
