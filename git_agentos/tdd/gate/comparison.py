"""The tests of a worktree compared with those of the commit that it began at.

Only additions are allowed: test functions, files, fixtures. What existed is compared by its syntax tree, so that a
comment or a new import is no change. New tests are refused that test nothing: those that are empty, always true, or
bound to fail, by the syntax tree; in doubt, it is a test.
"""

from __future__ import annotations

import ast
import operator
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from git_agentos.git import trees
from git_agentos.git.repository import Repository
from git_agentos.tdd.gate import frozen_files, pytest_config, syntax
from git_agentos.tdd.gate.pytest_run import PASSED, Case
from git_agentos.tdd.gate.syntax import Definition
from git_agentos.util import files

_MAX_BYTES = 8 << 20  # of a test file
# Other hooks in a conftest decide what runs, or what is reported; these add fixtures, parameters and options.
_HARMLESS_HOOKS = frozenset({"pytest_addoption", "pytest_generate_tests", "pytest_make_parametrize_id"})
_SKIPS = frozenset(
    """skip skipif xfail importorskip skipTest SkipTest skipIf skipUnless expectedFailure collect_ignore
    collect_ignore_glob __test__ deselect deselected""".split()
)
_EXITS = {("os", "_exit"), ("pytest", "exit"), ("os", "abort"), ("sys", "exit")}
# What a test without an assertion may test by.
_MAY_DO_SOMETHING = (
    ast.Call, ast.Attribute, ast.Subscript, ast.Import, ast.ImportFrom, ast.With, ast.AsyncWith, ast.Raise, ast.Await,
)  # fmt: skip
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[object, object], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}


class WorktreeTests:
    """The tests of a worktree as they are now."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.options = pytest_config.read_options(root)
        self.patterns = frozen_files.test_patterns(self.options)

    def read(self, path: str) -> bytes | None:
        """The content of a file; None if it is no regular file, or too large for a test."""
        try:
            return files.read(os.path.join(self.root, path), limit=_MAX_BYTES, follow=True)
        except OSError:
            return None

    def trivial(self, path: str, names: Iterable[str]) -> Sequence[str]:
        """The trivial ones among the tests `names` of a file, a sentence each."""
        tree = syntax.parse(self.read(path) or b"")
        reasons = find_trivial_tests(tree, names) if tree is not None else {}
        return [f"{path}: the test {name} {reason}" for name, reason in reasons.items()]

    def trivial_cases(self, cases: Sequence[Case]) -> Sequence[str]:
        """`trivial`, of tests that were run."""
        names: dict[str, dict[str, None]] = {}
        for each in cases:
            names.setdefault(each.path, {})[syntax.function_name(each.node_id, each.path)] = None
        return [sentence for path, each in names.items() for sentence in self.trivial(path, each)]


class BaseTests:
    """The tests of a commit, to be compared with those of a worktree."""

    def __init__(self, repository: Repository, commit: str, worktree: WorktreeTests, now: Mapping[str, str]) -> None:
        """`now` are the hashes of the worktree's inputs (`frozen_files.hash_inputs`)."""
        self._repository = repository
        self._worktree = worktree
        self._now = now
        self._blobs: dict[str, str] = {}
        modules = []  # submodules have a history of their own
        for path, (mode, oid) in trees.walk(repository, repository.commit_tree(commit)):
            if mode in (trees.REGULAR, trees.EXECUTABLE):
                self._blobs[os.fsdecode(path)] = oid
            elif mode == trees.GITLINK:
                modules.append(os.fsdecode(path) + "/")
        self._modules = tuple(modules)

    def is_new(self, case: Case) -> bool:
        """Whether the function of a test is not in the commit."""
        before = self._read(case.path)
        if before is None:
            return True
        tree, name = syntax.parse(before), syntax.function_name(case.node_id, case.path)
        if tree is None or syntax.has(tree, name):
            return False
        now = syntax.parse(self._worktree.read(case.path) or b"")  # a name in neither is a doctest
        return case.outcome != PASSED or (now is not None and syntax.has(now, name))

    def vetoes(self) -> Sequence[str]:
        """Changes of existing tests, hooks and configuration, and new trivial tests, a sentence each."""
        candidates = {path for path in self._now if path.endswith(".py") and not path.startswith(self._modules)}
        found = [each for path in sorted(self._test_files | candidates) for each in self._file_vetoes(path)]
        found += self._new_startup_files()
        if self._has_tests:
            found += [f"pytest's configuration was changed: {each}" for each in self._changed_configuration()]
        return found

    def hook_vetoes(self) -> Sequence[str]:
        """Of `vetoes`, those about new hooks and startup files."""
        found = list(self._new_startup_files())
        for path in self._now:
            after = self._worktree.read(path) if os.path.basename(path) == "conftest.py" else None
            if after is not None:
                sentences = conftest_vetoes(path, self._read(path), after)
                found += [each for each in sentences if "pytest_plugins" not in each]
        return found

    def _new_startup_files(self) -> Sequence[str]:
        return [
            f"{path} is new, and would run before pytest starts"
            for path in self._now
            if path not in self._blobs and frozen_files.comes_first(path)
        ]

    @cached_property
    def _test_files(self) -> set[str]:
        patterns = self._worktree.patterns
        return {path for path in self._blobs if path.endswith(".py") and frozen_files.is_test(path, patterns)}

    @property
    def _has_tests(self) -> bool:
        parsed = (syntax.parse(self._read(path) or b"") for path in self._test_files)
        return any(each is not None and syntax.functions(each, self._worktree.options.functions) for each in parsed)

    def _read(self, path: str) -> bytes | None:
        oid = self._blobs.get(path)
        return self._repository.blob(oid) if oid is not None else None

    def _file_vetoes(self, path: str) -> Sequence[str]:
        """The vetoes about one test file."""
        oid = self._blobs.get(path)
        full = os.fsencode(os.path.join(self._worktree.root, path))
        if oid is not None and not os.path.islink(full) and self._repository.hash.hash_file(full) == oid:
            return ()
        before, after = self._read(path), self._worktree.read(path)
        patterns = self._worktree.options.functions
        found = list(changed_tests(path, before, after, patterns)) if before is not None else []
        if after is None:
            return found
        if os.path.basename(path) == "conftest.py":
            found += conftest_vetoes(path, before, after)
        tree = syntax.parse(after)
        if tree is not None and frozen_files.is_collected(path, self._worktree.patterns):
            old = syntax.parse(before) if before is not None else None
            names = [name for name in syntax.functions(tree, patterns) if old is None or not syntax.has(old, name)]
            found += self._worktree.trivial(path, names)
        return found

    def _changed_configuration(self) -> Sequence[str]:
        paths = {each for each in (*self._blobs, *frozen_files.paths(self._now)) if frozen_files.is_configuration(each)}
        paths = {each for each in paths if not each.startswith(self._modules)}
        return [path for path in sorted(paths) if _section(path, self._read(path)) != self._section_now(path)]

    def _section_now(self, path: str) -> bytes | None:
        return _section(path, self._worktree.read(path))


def _section(path: str, data: bytes | None) -> bytes | None:
    name = os.path.basename(path)
    return data if data is None or name in pytest_config.OWN_FILES else pytest_config.section(name, data)


def changed_tests(path: str, before: bytes, after: bytes | None, patterns: Sequence[str] = ()) -> Sequence[str]:
    """The changes of existing tests in a file, a sentence each; additions are none."""
    if before == after:
        return ()
    old = syntax.parse(before)
    old_tests = syntax.functions(old, patterns) if old is not None else {}
    if after is None:
        return (f"{path}, which has tests, was removed",) if old_tests else ()
    if old is None:
        return ()
    new = syntax.parse(after)
    if new is None:
        return (f"{path} cannot be read as Python any more",)
    new_tests = syntax.functions(new, patterns)
    found = [f"{path}: the test {name} was removed" for name in old_tests if name not in new_tests]
    found += [
        f"{path}:{new_tests[name].line}: the test {name} was changed"
        for name, each in old_tests.items()
        if name in new_tests and new_tests[name].text != each.text
    ]
    if old_tests:
        found += [f"{path}: new use of `{name}` outside new tests" for name in _added(_skips(old), _skips(new))]
    return found


def conftest_vetoes(path: str, before: bytes | None, after: bytes) -> Sequence[str]:
    """What a conftest newly does besides providing fixtures and options: hooks, skips, ending the process."""
    new = syntax.parse(after)
    if new is None:
        return (f"{path} cannot be read as Python",)
    old = syntax.parse(before) if before is not None else None
    known = _hooks(old) if old is not None else {}
    found = [
        f"{path}:{line}: the hook {name} decides which tests run, or what is reported"
        for name, (line, text) in _hooks(new).items()
        if known.get(name, (0, ""))[1] != text
    ]
    found += [f"{path}: new use of `{name}`" for name in _added(_skips(old), _skips(new))]
    found += [f"{path}: it calls {name}" for name in _added(_exits(old), _exits(new))]
    return found


def _skips(tree: ast.Module | None) -> Counter[str]:
    """How often a file skips something outside of its test functions."""
    found: Counter[str] = Counter()
    waiting: list[ast.AST] = [tree] if tree is not None else []
    while waiting:
        node = waiting.pop()
        if isinstance(node, Definition) and node.name.startswith(syntax.TEST_PREFIX):
            continue
        name = syntax.last_name(node)
        if name in _SKIPS:
            found[name] += 1
        waiting += ast.iter_child_nodes(node)
    return found


def _exits(tree: ast.Module | None) -> Counter[str]:
    """How often a file ends the process."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call)) if tree is not None else ()
    return Counter(
        f"{each.value.id}.{each.attr}"
        for each in calls
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and (each.value.id, each.attr) in _EXITS
    )


def _hooks(tree: ast.Module) -> Mapping[str, tuple[int, str]]:
    """The hooks of a conftest that decide something, with line and text, and the plugins that it loads."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, Definition):
            if not node.name.startswith("pytest_") or node.name in _HARMLESS_HOOKS:
                continue
            if node.name == "pytest_configure" and all(map(_only_adds_a_line, node.body)):
                continue
            found[node.name] = (node.lineno, ast.dump(node))
        elif isinstance(node, ast.Assign):
            for name in syntax.bound_names(node):
                if name.startswith("pytest_"):
                    found[name] = (node.lineno, ast.dump(node))
        elif isinstance(node, ast.keyword) and node.arg == "specname":
            found[f"specname={ast.unparse(node.value)}"] = (node.value.lineno, ast.dump(node))
    return found


def _only_adds_a_line(node: ast.stmt) -> bool:
    """Whether a statement is a docstring, or declares a marker."""
    if not isinstance(node, ast.Expr):
        return False
    call = node.value
    return isinstance(call, ast.Constant) or (
        isinstance(call, ast.Call) and syntax.last_name(call.func) == "addinivalue_line"
    )


def _added(before: Counter[str], after: Counter[str]) -> Sequence[str]:
    return sorted(name for name, count in after.items() if count > before[name])


# -- trivial tests -----------------------------------------------------------------------------------------------------


def find_trivial_tests(tree: ast.Module, names: Iterable[str]) -> Mapping[str, str]:
    """Those of the tests `names` that are trivial, with the reason. What is inherited or made by code is not judged."""
    definitions = {name: syntax.find(tree, name) for name in names}
    reasons = {name: _reason(each) for name, each in definitions.items() if each is not None}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _reason(function: Definition) -> str | None:
    if _is_empty(function.body):
        return "has an empty body"
    if _is_always_true(function):
        return "asserts nothing but what is always true"
    return "can never pass" if _always_fails(function) else None


def _is_empty(body: Sequence[ast.stmt]) -> bool:
    return all(
        isinstance(each, ast.Pass)
        or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        or (isinstance(each, ast.Return) and (each.value is None or isinstance(each.value, ast.Constant)))
        for each in body
    )


def _is_always_true(function: Definition) -> bool:
    nodes = [node for part in function.body for node in ast.walk(part)]
    asserts = [node for node in nodes if isinstance(node, ast.Assert)]
    if any(_truth(each.test) is not True for each in asserts):
        return False
    if not asserts:
        return not any(isinstance(node, _MAY_DO_SOMETHING) for node in nodes)
    return not any(
        isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and _is_check(syntax.last_name(node.func)))
        for node in ast.walk(function)
    )


def _always_fails(function: Definition) -> bool:
    """Whether it fails whatever the code does: at its own level, before anything that may return."""
    for each in function.body:
        if any(isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)) for node in ast.walk(each)):
            return False
        if isinstance(each, ast.Raise) or (isinstance(each, ast.Assert) and _truth(each.test) is False):
            return True
        call = each.value if isinstance(each, ast.Expr) else None
        if isinstance(call, ast.Call) and syntax.last_name(call.func) == "fail":
            return True
    return False


def _is_check(name: str) -> bool:
    return name.startswith(("assert", "expect", "verify", "check")) or name in ("raises", "warns", "fail")


def _truth(node: ast.expr) -> bool | None:
    """Whether an expression is always true or always false; None if that depends on something."""
    if isinstance(node, ast.Constant):
        return bool(node.value)
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return bool(node.elts) if not any(isinstance(each, ast.Starred) for each in node.elts) else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _truth(node.operand)
        return None if inner is None else not inner
    if isinstance(node, ast.BoolOp):
        decisive = isinstance(node.op, ast.Or)
        parts = [_truth(each) for each in node.values]
        return decisive if decisive in parts else None if None in parts else not decisive
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
        try:
            sides = ast.literal_eval(node.left), ast.literal_eval(node.comparators[0])
        except (ValueError, TypeError, SyntaxError, RecursionError):
            return None
        return _COMPARISONS[type(node.ops[0])](*sides)
    return None
