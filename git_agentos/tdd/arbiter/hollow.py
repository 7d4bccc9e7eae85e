"""Tests that are none: empty, constant, bound to fail, or without a call into the code.

Told by the AST alone. What is uncertain counts as a test: a name that is not known to be a tool of testing or a part of
the standard library that reaches nothing may be the code, and so may a fixture that is not written in the same file. A
test that runs a program or reads a file counts as well, since what it looks at may be the code's.
"""

from __future__ import annotations

import ast
import builtins
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from git_agentos.tdd.arbiter import look

_Definition = ast.FunctionDef | ast.AsyncFunctionDef
_TOOLS = frozenset("pytest _pytest hypothesis mock freezegun time_machine faker parameterized nose __future__".split())
# Of the standard library, what may lead to the code.
_REACHING = frozenset(
    """subprocess os runpy importlib ctypes socket urllib http asyncio pathlib shutil sys io pkgutil multiprocessing
    threading concurrent sqlite3 zipfile tarfile glob fileinput linecache tokenize configparser tomllib mmap select
    selectors pty pexpect site sysconfig zipimport doctest code compileall py_compile builtins""".split()
)
_REACHING_BUILTINS = frozenset({"open", "exec", "eval", "__import__", "compile", "globals", "vars"})
# Asking these about the code tells nothing of what it does.
_WEAK = frozenset({"hasattr", "callable", "isinstance", "issubclass", "id", "type", "print", "repr", "str", "bool"})
_FIXTURES = frozenset(
    """tmp_path tmp_path_factory tmpdir tmpdir_factory monkeypatch capsys capsysbinary capfd capfdbinary caplog request
    recwarn record_property record_testsuite_property record_xml_attribute doctest_namespace pytestconfig cache mocker
    self cls subtests""".split()
)
_UNITTEST = ("assert", "fail", "skip", "subTest", "addCleanup", "addClassCleanup", "enterContext", "maxDiff")
_COMPARED: Mapping[type[ast.cmpop], Callable[[object, object], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}


def of(tree: ast.Module, names: Iterable[str], here: Callable[[str], bool] = lambda _: False) -> Mapping[str, str]:
    """Those of the tests called `names` in a file that are none, and why. What cannot be seen (inherited, made by code)
    is not told. `here` says whether the project itself has a module of a name, whatever the standard library has."""
    file = _File(tree, here)
    said = {}
    for name in names:
        found = look.find(tree, name)
        reason = _why(file, *found) if found is not None else None
        if reason is not None:
            said[name] = reason
    return said


def _why(file: _File, function: _Definition, owner: ast.ClassDef | None) -> str | None:
    if _is_empty(function.body):
        return "has an empty body"
    if _says_nothing(function):
        return "asserts nothing but what is always true"
    if _always_fails(function):
        return "can never pass"
    return None if file.uses_code(function, owner) else "does not call the code"


def _is_empty(body: Sequence[ast.stmt]) -> bool:
    return all(
        isinstance(each, ast.Pass)
        or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        or (isinstance(each, ast.Return) and (each.value is None or isinstance(each.value, ast.Constant)))
        for each in body
    )


def _says_nothing(function: _Definition) -> bool:
    """Whether it has asserts, and nothing that could ever be wrong."""
    asserts = [node for node in ast.walk(function) if isinstance(node, ast.Assert)]
    if not asserts or any(_truth(each.test) is not True for each in asserts):
        return False
    return not any(
        isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and _checks(_last(node.func)))
        for node in ast.walk(function)
    )


def _always_fails(function: _Definition) -> bool:
    """Whether it fails, or leaves, whatever the code does: at its own level, before anything that may return."""
    for each in function.body:
        if any(isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)) for node in ast.walk(each)):
            return False
        if isinstance(each, ast.Raise) or (isinstance(each, ast.Assert) and _truth(each.test) is False):
            return True
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call) and _last(each.value.func) == "fail":
            return True
    return False


def _checks(name: str) -> bool:
    return name.startswith(("assert", "expect", "verify", "check")) or name in ("raises", "warns", "fail")


def _truth(node: ast.expr) -> bool | None:
    """Whether an expression is always true or always false; None where that depends on something."""
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
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
        try:
            sides = ast.literal_eval(node.left), ast.literal_eval(node.comparators[0])
        except (ValueError, TypeError, SyntaxError, RecursionError):
            return None
        return _COMPARED[type(node.ops[0])](*sides)
    return None


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _root(node: ast.expr) -> ast.expr:
    """What an expression such as `a.b[0].c()` begins with; `self.x` stays as it is."""
    while True:
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                return node
            node = node.value
        elif isinstance(node, (ast.Subscript, ast.Await, ast.Starred)):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            return node


class _File:
    """A test file, as far as it takes to tell what in it leads to the code."""

    def __init__(self, tree: ast.Module, here: Callable[[str], bool]) -> None:
        self._here = here
        self._any = False  # everything may come from `from code import *`
        self._code: set[str] = set(_REACHING_BUILTINS)
        self._local: dict[str, _Definition | ast.ClassDef] = {}
        self._asked: dict[int, bool] = {}
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self._code.update(self._imported(node))
        for statement in look.statements(tree.body):
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self._local[statement.name] = statement
        self._code |= self._assigned(tree.body, self._code, None)

    def uses_code(self, node: _Definition | ast.ClassDef, owner: ast.ClassDef | None) -> bool:
        """Whether something in a function or class does something with the code."""
        if id(node) in self._asked:
            return self._asked[id(node)]
        self._asked[id(node)] = False  # what calls itself is no use of the code
        names = set(self._code)
        if isinstance(node, ast.ClassDef):
            if any(self._mentions(each, names, None) for each in node.bases):
                self._asked[id(node)] = True
                return True
        else:
            names -= {each.arg for each in _arguments(node)} - self._parameters(node, owner)
            names |= self._parameters(node, owner)
        names |= self._assigned(node.body, names, owner)
        answer = any(self._is_use(each, names, owner) for part in node.body for each in ast.walk(part))
        self._asked[id(node)] = answer
        return answer

    def _imported(self, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        if isinstance(node, ast.Import):
            for each in node.names:
                if self._is_code(each.name):
                    yield each.asname or each.name.partition(".")[0]
        elif node.level or self._is_code(node.module or ""):
            for each in node.names:
                self._any = self._any or each.name == "*"
                yield each.asname or each.name

    def _is_code(self, module: str) -> bool:
        top = module.partition(".")[0]
        if self._here(top):
            return True
        return top not in _TOOLS and (top not in sys.stdlib_module_names or top in _REACHING)

    def _parameters(self, node: _Definition, owner: ast.ClassDef | None) -> set[str]:
        """Those of a function's parameters that may bring the code: fixtures, and what is parametrized with it."""
        given: dict[str, bool] = {}
        for each in (*node.decorator_list, *(owner.decorator_list if owner is not None else ())):
            leads = self._mentions(each, self._code, owner)
            if isinstance(each, ast.Call) and _last(each.func) == "parametrize" and each.args:
                first = each.args[0]
                words = [each.value for each in ast.walk(first) if isinstance(each, ast.Constant)]
                names = [name.strip() for word in words if isinstance(word, str) for name in word.split(",")]
                given |= dict.fromkeys(names, leads)
            elif isinstance(each, ast.Call) and _last(each.func) in ("given", "example", "patch", "object"):
                given |= {word.arg: leads for word in each.keywords if word.arg is not None}
        found = set()
        for argument in _arguments(node):
            name = argument.arg
            local = self._local.get(name)
            if name in given:
                leads = given[name]
            elif local is not None:
                leads = self.uses_code(local, None)
            else:
                leads = name not in _FIXTURES
            if leads:
                found.add(name)
        return found

    def _assigned(self, body: Sequence[ast.stmt], names: set[str], owner: ast.ClassDef | None) -> set[str]:
        """The names that are given something of the code."""
        found = set(names)
        nodes = [node for part in body for node in ast.walk(part)]
        size = -1
        while size != len(found):
            size = len(found)
            for node in nodes:
                for targets, value in _given(node):
                    if self._mentions(value, found, owner):
                        found.update(_named(targets))
        return found

    def _is_use(self, node: ast.AST, names: set[str], owner: ast.ClassDef | None) -> bool:
        if isinstance(node, ast.Call):
            if self._leads(_root(node.func), names, owner):
                return True
            weak = isinstance(node.func, ast.Name) and node.func.id in _WEAK
            parts = [*node.args, *(word.value for word in node.keywords)]
            return not weak and any(self._mentions(each, names, owner) for each in parts)
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if all(isinstance(each, (ast.Is, ast.IsNot)) for each in node.ops):
                sides = [] if any(isinstance(each, ast.Constant) for each in sides) else sides
            return any(self._mentions(each, names, owner) for each in sides)
        if isinstance(node, (ast.BinOp, ast.Subscript, ast.FormattedValue, ast.Await, ast.Starred)):
            return self._mentions(node, names, owner)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            return self._mentions(node.iter, names, owner)
        return isinstance(node, ast.withitem) and self._mentions(node.context_expr, names, owner)

    def _mentions(self, node: ast.AST, names: set[str], owner: ast.ClassDef | None) -> bool:
        return any(
            self._leads(each, names, owner)
            for each in ast.walk(node)
            if isinstance(each, ast.Name) or (isinstance(each, ast.Attribute) and _root(each) is each)
        )

    def _leads(self, node: ast.expr, names: set[str], owner: ast.ClassDef | None) -> bool:
        """Whether what an expression begins with is the code's, or something here that uses it."""
        if isinstance(node, ast.Attribute):
            return self._of_self(node.attr, names, owner)
        if not isinstance(node, ast.Name):
            return False
        local = self._local.get(node.id)
        if local is not None:
            return self.uses_code(local, None)
        return node.id in names or (self._any and node.id not in _WEAK and not hasattr(builtins, node.id))

    def _of_self(self, name: str, names: set[str], owner: ast.ClassDef | None) -> bool:
        """Whether `self.NAME` may be the code's: inherited from what is not seen, or made of it in the class."""
        if owner is None or name.startswith(_UNITTEST):
            return False
        for statement in look.statements(owner.body):
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) and statement.name == name:
                return self.uses_code(statement, owner)
        set_here = False
        for node in ast.walk(owner):
            for targets, value in _given(node):
                for each in (inner for target in targets for inner in ast.walk(target)):
                    if (isinstance(each, ast.Attribute) and each.attr == name) or (
                        isinstance(each, ast.Name) and each.id == name
                    ):
                        set_here = True
                        if self._mentions_names(value, names):
                            return True
        return not set_here and any(_last(base) not in ("TestCase", "object") for base in owner.bases)

    def _mentions_names(self, node: ast.AST, names: set[str]) -> bool:
        return any(
            each.id in names or (each.id in self._local and self.uses_code(self._local[each.id], None))
            for each in ast.walk(node)
            if isinstance(each, ast.Name)
        )


def _named(targets: Sequence[ast.expr]) -> Iterator[str]:
    return (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))


def _arguments(node: _Definition) -> Sequence[ast.arg]:
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def _given(node: ast.AST) -> Iterator[tuple[Sequence[ast.expr], ast.expr]]:
    """What is assigned to what, in whatever way."""
    match node:
        case ast.Assign():
            yield node.targets, node.value
        case ast.AugAssign() | ast.NamedExpr() | ast.AnnAssign(value=ast.expr()):
            assert node.value is not None
            yield (node.target,), node.value
        case ast.For() | ast.AsyncFor() | ast.comprehension():
            yield (node.target,), node.iter
        case ast.withitem(optional_vars=ast.expr() as target):
            yield (target,), node.context_expr
