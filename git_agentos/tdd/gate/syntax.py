"""Test files as syntax trees: which test functions there are. No code of a file is run.

A test function has the name that pytest gives it, without parameters: `test_a`, `TestX.test_b`.
"""

from __future__ import annotations

import ast
import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Definition = ast.FunctionDef | ast.AsyncFunctionDef
TEST_PREFIX = "test"


@dataclass(frozen=True)
class Function:
    """A test function: its name, its line, and a text that differs if it was changed."""

    name: str
    line: int
    text: str


def parse(source: bytes) -> ast.Module | None:
    """The syntax tree of a file; None if this Python cannot read it."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def functions(tree: ast.Module, patterns: Sequence[str] = ()) -> Mapping[str, Function]:
    """The test functions of a file by name; the last binding of a name counts. `patterns` are `python_functions`."""
    found: dict[str, Function] = {}
    for prefix, header, node in _bindings(tree.body, "", ""):
        for name in bound_names(node):
            qualified = prefix + name
            if isinstance(node, ast.Delete):
                found.pop(qualified, None)
            elif is_test_name(name, patterns):
                found[qualified] = Function(qualified, node.lineno, header + ast.dump(node))
    return found


def find(tree: ast.Module, name: str) -> Definition | None:
    """The definition of a function, the last one of its name; None if it is not written there (inherited, or made by
    code)."""
    found = None
    for prefix, _, node in _bindings(tree.body, "", ""):
        if isinstance(node, Definition) and prefix + node.name == name:
            found = node
    return found


def has(tree: ast.Module, name: str) -> bool:
    """Whether something is bound to `name`, or may be inherited by its class."""
    outer = name.rpartition(".")[0]
    return any(
        (isinstance(node, ast.ClassDef) and prefix + node.name == outer)
        or name in (prefix + each for each in bound_names(node))
        for prefix, _, node in _bindings(tree.body, "", "")
    )


def function_name(node_id: str, path: str) -> str:
    """The name of the test function of a node id in the file `path`."""
    rest = node_id[len(path) :] if node_id.startswith(path) else node_id.partition("::")[2]
    return rest.removeprefix("::").partition("[")[0].replace("::", ".")


def is_test_name(name: str, patterns: Sequence[str] = ()) -> bool:
    """Whether pytest collects a function of that name, by its default or by `patterns`."""
    return name.startswith(TEST_PREFIX) or any(
        name.startswith(each) or fnmatch.fnmatch(name, each) for each in patterns
    )


def statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body and of its branches, but not those of functions and classes."""
    for node in body:
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for field in ("body", "orelse", "finalbody"):
            yield from statements(getattr(node, field, ()))
        for inner in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            yield from statements(inner.body)


def bound_names(node: ast.stmt) -> Sequence[str]:
    """The plain names that a statement binds or deletes."""
    if isinstance(node, Definition):
        return (node.name,)
    targets: Sequence[ast.expr] = ()
    if isinstance(node, (ast.Assign, ast.Delete)):
        targets = node.targets
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        targets = (node.target,)
    return [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]


def last_name(node: ast.AST) -> str:
    """`c` of `a.b.c`; empty for what is neither a name nor an attribute."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _bindings(body: Sequence[ast.stmt], prefix: str, header: str) -> Iterator[tuple[str, str, ast.stmt]]:
    """Every statement of a module and its classes, with the prefix of the names that it binds, and a text of what
    applies to all of the class."""
    for node in statements(body):
        yield prefix, header, node
        if isinstance(node, ast.ClassDef):
            about = "".join(ast.dump(each) for each in (*node.decorator_list, *node.bases, *node.keywords))
            yield from _bindings(node.body, f"{prefix}{node.name}.", f"{header}{about}\n")
