"""An AST look at test files: which tests are there, and what was done to those that were there before.

A test is called as pytest calls it without its parameters: `test_a`, `TestX.test_b`. Nothing of a file is ever run
here. What a test is worth is told by `hollow`.
"""

from __future__ import annotations

import ast
import fnmatch
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_TEST = "test"
# In a conftest these decide what runs, or what is said of it; others make fixtures and options.
_HARMLESS_HOOKS = frozenset({"pytest_addoption", "pytest_generate_tests", "pytest_make_parametrize_id"})
_SKIPS = frozenset(
    """skip skipif xfail importorskip skipTest SkipTest skipIf skipUnless expectedFailure collect_ignore
    collect_ignore_glob __test__ deselect deselected""".split()
)
_ENDS = {("os", "_exit"), ("pytest", "exit"), ("os", "abort"), ("sys", "exit")}


@dataclass(frozen=True)
class Function:
    """A test function: what it is called, its line, and what tells whether it was changed."""

    name: str
    line: int
    text: str


def parse(source: bytes) -> ast.Module | None:
    """The file as a tree; None where it is none that this Python can read."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def functions(tree: ast.Module, patterns: Sequence[str] = ()) -> Mapping[str, Function]:
    """The test functions of a file, by name, as they are bound last. `patterns` are those of `python_functions`."""
    found: dict[str, Function] = {}
    for prefix, header, node in _bindings(tree.body, "", ""):
        names = _names(node)
        for name in names:
            qualified = prefix + name
            if isinstance(node, ast.Delete):
                found.pop(qualified, None)
            elif is_test_name(name, patterns):
                found[qualified] = Function(qualified, node.lineno, header + ast.dump(node))
    return found


def find(tree: ast.Module, name: str) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, ast.ClassDef | None] | None:
    """The function of a name, and the class that it is in; None where it is not written there (inherited, made by
    code)."""
    body: Sequence[ast.stmt] = tree.body
    owner: ast.ClassDef | None = None
    *outer, last = name.split(".")
    for each in outer:
        classes = [node for node in statements(body) if isinstance(node, ast.ClassDef) and node.name == each]
        if not classes:
            return None
        owner = classes[-1]
        body = owner.body
    for node in reversed(list(statements(body))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == last:
            return node, owner
    return None


def has(tree: ast.Module, name: str) -> bool:
    """Whether something is called `name` there, or is in a class that is there and does not say (it may inherit)."""
    if find(tree, name) is not None:
        return True
    if any(prefix + each == name for prefix, _, node in _bindings(tree.body, "", "") for each in _names(node)):
        return True
    outer = name.rpartition(".")[0]
    return bool(outer) and any(
        isinstance(node, ast.ClassDef) and prefix + node.name == outer
        for prefix, _, node in _bindings(tree.body, "", "")
    )


def altered(path: str, before: bytes, after: bytes | None, patterns: Sequence[str] = ()) -> Sequence[str]:
    """What was done to the tests of a file that was there before, a sentence each; adding to it is nothing."""
    if before == after:
        return ()
    old = parse(before)
    were = functions(old, patterns) if old is not None else {}
    if after is None:
        return (f"{path}, which has tests, was removed",) if were else ()
    new = parse(after)
    if old is None:
        return ()
    if new is None:
        return (f"{path} cannot be read as Python any more",)
    now = functions(new, patterns)
    said = [f"{path}: the test {name} was removed" for name in were if name not in now]
    said += [
        f"{path}:{now[name].line}: the test {name} was changed"
        for name, each in were.items()
        if name in now and now[name].text != each.text
    ]
    if were:
        said += [f"{path}: it now says `{name}` outside of new tests" for name in _more(_skips(old), _skips(new))]
    return said


def interferes(path: str, before: bytes | None, after: bytes) -> Sequence[str]:
    """What a conftest does beside giving fixtures and options: hooks, skipping, ending the process. What it did before
    is not told."""
    new = parse(after)
    if new is None:
        return (f"{path} cannot be read as Python",)
    old = parse(before) if before is not None else None
    known = _hooks(old) if old is not None else {}
    said = [
        f"{path}:{line}: the hook {name} decides what is run, or what is said of it"
        for name, (line, text) in _hooks(new).items()
        if known.get(name, (0, ""))[1] != text
    ]
    said += [f"{path}: it says `{name}`" for name in _more(_skips(old), _skips(new))]
    said += [f"{path}: it calls {name}" for name in _more(_ends(old), _ends(new))]
    return said


def of_node(node_id: str, path: str) -> str:
    """The name of the test function of a node id in the file `path`: without parameters."""
    rest = node_id[len(path) :] if node_id.startswith(path) else node_id.partition("::")[2]
    return rest.removeprefix("::").partition("[")[0].replace("::", ".")


def is_test_name(name: str, patterns: Sequence[str] = ()) -> bool:
    """Whether pytest would take a function of that name; as the default has it, and as `patterns` have it."""
    return name.startswith(_TEST) or any(name.startswith(each) or fnmatch.fnmatch(name, each) for each in patterns)


def statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body, and of what branches in it, but not of functions and classes."""
    for node in body:
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for field in ("body", "orelse", "finalbody"):
            yield from statements(getattr(node, field, ()))
        for inner in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            yield from statements(inner.body)


def _bindings(body: Sequence[ast.stmt], prefix: str, header: str) -> Iterator[tuple[str, str, ast.stmt]]:
    """Everything that gives something a name in a module and its classes: what is before the name, what holds for all
    of the class, and the statement."""
    for node in statements(body):
        yield prefix, header, node
        if isinstance(node, ast.ClassDef):
            about = [*node.decorator_list, *node.bases, *node.keywords]
            yield from _bindings(
                node.body, f"{prefix}{node.name}.", header + "".join(ast.dump(each) for each in about) + "\n"
            )


def _names(node: ast.stmt) -> Sequence[str]:
    """What a statement binds (or deletes), as far as it is plain names."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return (node.name,)
    targets: Sequence[ast.expr] = ()
    if isinstance(node, (ast.Assign, ast.Delete)):
        targets = node.targets
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        targets = (node.target,)
    return [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]


def _skips(tree: ast.Module | None) -> Counter[str]:
    """How often a file skips something outside of its test functions."""
    if tree is None:
        return Counter()
    found: Counter[str] = Counter()
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith(_TEST):
            continue
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if name in _SKIPS:
            found[name] += 1
        waiting += ast.iter_child_nodes(node)
    return found


def _ends(tree: ast.Module | None) -> Counter[str]:
    """How often a file ends the process."""
    if tree is None:
        return Counter()
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return Counter(
        f"{each.value.id}.{each.attr}"
        for each in calls
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and (each.value.id, each.attr) in _ENDS
    )


def _hooks(tree: ast.Module) -> Mapping[str, tuple[int, str]]:
    """The hooks of a conftest that decide something, with line and text; plugins that it loads count as one."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if not node.name.startswith("pytest_") or node.name in _HARMLESS_HOOKS:
                continue
            if node.name == "pytest_configure" and _only_adds_lines(node):
                continue
            found[node.name] = (node.lineno, ast.dump(node))
        elif isinstance(node, ast.Assign):
            for name in _names(node):
                if name.startswith("pytest_"):
                    found[name] = (node.lineno, ast.dump(node))
        elif isinstance(node, ast.keyword) and node.arg == "specname":
            found[f"specname={ast.unparse(node.value)}"] = (node.value.lineno, ast.dump(node))
    return found


def _only_adds_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether `pytest_configure` does nothing but tell of markers."""
    return all(
        isinstance(each, ast.Expr)
        and (
            isinstance(each.value, ast.Constant)
            or (
                isinstance(each.value, ast.Call)
                and isinstance(each.value.func, ast.Attribute)
                and each.value.func.attr == "addinivalue_line"
            )
        )
        for each in node.body
    )


def _more(before: Counter[str], after: Counter[str]) -> Sequence[str]:
    return sorted(name for name, count in after.items() if count > before[name])
