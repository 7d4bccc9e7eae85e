"""An AST look at code that is no test, for what has nothing to do with its task but with the tests that judge it.

Found is what asks whether it is being tested, reaches into pytest or unittest, ends the process or takes its trace, is
equal to everything, or writes tests and configuration. It is a look and no proof: a person sees the diff all the same,
and what is found goes to that person with it.
"""

from __future__ import annotations

import ast
import builtins
import os
import re
from collections.abc import Iterator, Sequence

_Definition = ast.FunctionDef | ast.AsyncFunctionDef
_TESTERS = frozenset({"pytest", "_pytest", "pluggy", "unittest", "doctest"})
_RUNNERS = frozenset({"pytest", "_pytest", "unittest"})
_LEAVING = frozenset({"exit", "quit"})
_OWN_BUILTINS = frozenset({"help", "quit", "exit", "copyright", "credits", "license"})
_TRACING = {("sys", "settrace"), ("sys", "setprofile"), ("threading", "settrace"), ("threading", "setprofile")}
_ENDING = {("os", "_exit"), ("os", "abort")}
_OUTCOMES = frozenset({"skip", "xfail", "exit", "fail", "importorskip", "hookimpl", "skipif"})
_OURS = re.compile(r"agentos_(?:evidence|imports)|agentos-(?:canary|tests)-.*")
_TEST_FILE = re.compile(
    r"(?:.*/)?(?:conftest\.py|test_[\w{}%-]*\.py|[\w{}%-]+_test\.py|\.?pytest\.(?:ini|toml)|(?:site|user)customize\.py"
    r"|[\w.{}%-]+\.pth)\Z"
)
_WRITING = frozenset(
    """write_text write_bytes unlink rename replace remove touch rmtree copy copy2 copyfile move symlink link symlink_to
    hardlink_to truncate""".split()
)

Found = tuple[int, str]  # line, what


def look(source: bytes, path: str) -> Sequence[Found]:
    """What is found in a file. SyntaxError (or ValueError, RecursionError, MemoryError) where it cannot be read."""
    tree = ast.parse(source)
    found = {*_anywhere(tree, path), *_at_import(tree, path)}
    return sorted(found)


def _anywhere(tree: ast.Module, path: str) -> Iterator[Found]:
    aliases = _aliases(tree)
    forking = _forking(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                if any(each.name.partition(".")[0] == "_pytest" for each in names):
                    yield node.lineno, "imports pytest's own parts (_pytest)"
                if any(_OURS.fullmatch(each.name) for each in names):
                    yield node.lineno, "imports what runs the tests"
            case ast.ImportFrom(module=str() as module, names=names, level=0):
                yield from _imported(node, module, names)
            case ast.Assign(targets=targets):
                for target in targets:
                    yield from _assigned(target, aliases)
            case ast.AugAssign(target=target) | ast.Delete(targets=[target]):
                yield from _assigned(target, aliases)
            case ast.Call():
                yield from _called(node, aliases, forking)
            case ast.Compare(left=ast.Constant(value=str() as name), comparators=[right]):
                if name in _RUNNERS and _dotted(right, aliases)[:2] in (("sys", "modules"), ("sys", "argv")):
                    yield node.lineno, f"asks whether it is run by {name}"
            case ast.Subscript(slice=ast.Constant(value=str() as name)):
                if name in _RUNNERS and _dotted(node.value, aliases) == ("sys", "modules"):
                    yield node.lineno, f"takes {name} out of sys.modules"
            case ast.Constant(value=str() as text):
                if re.fullmatch(r"PYTEST_[A-Z_]+", text):
                    yield node.lineno, f"knows the variable {text}, which only tests have"
                elif _OURS.fullmatch(text):
                    yield node.lineno, f"knows {text}, which runs the tests"
                elif text == "pytest11" and os.path.basename(path) == "setup.py":
                    yield node.lineno, "makes itself a plugin of pytest (pytest11)"
            case ast.ClassDef():
                yield from _class(node)


def _imported(node: ast.ImportFrom, module: str, names: Sequence[ast.alias]) -> Iterator[Found]:
    top = module.partition(".")[0]
    if top == "_pytest":
        yield node.lineno, "imports pytest's own parts (_pytest)"
    if _OURS.fullmatch(module):
        yield node.lineno, "imports what runs the tests"
    if module == "os" and any(each.name == "_exit" for each in names):
        yield node.lineno, "imports os._exit, which ends the process without a word"
    if top == "pytest" and (taken := [each.name for each in names if each.name in _OUTCOMES]):
        yield node.lineno, f"imports pytest.{taken[0]} outside of tests"


def _assigned(target: ast.expr, aliases: dict[str, str]) -> Iterator[Found]:
    """An attribute of pytest, of unittest, or of what is built in, set or deleted."""
    for each in ast.walk(target):
        if not isinstance(each, ast.Attribute) or isinstance(each.ctx, ast.Load):
            continue
        dotted = _dotted(each, aliases)
        if dotted[:1] and dotted[0] in _TESTERS and len(dotted) > 1:
            yield each.lineno, f"changes {'.'.join(dotted)}"
        elif dotted[:1] == ("builtins",) and _is_built_in(dotted[1:]):
            yield each.lineno, f"changes what is built in ({dotted[1]})"


def _called(node: ast.Call, aliases: dict[str, str], forking: set[int]) -> Iterator[Found]:
    dotted = _dotted(node.func, aliases)
    name = node.func.attr if isinstance(node.func, ast.Attribute) else dotted[-1] if dotted else ""
    said = ".".join(dotted)
    if dotted[-2:] in _ENDING and id(node) not in forking:
        yield node.lineno, f"calls {said}, which ends the process without a word"
    elif dotted in _TRACING or dotted[:2] == ("sys", "monitoring"):
        yield node.lineno, f"calls {said}, which watches or changes how everything runs"
    elif dotted[:1] == ("pytest",) and name in _OUTCOMES:
        yield node.lineno, f"calls {said} outside of tests"
    elif name in ("setattr", "delattr") and node.args:
        of = _dotted(node.args[0], aliases)
        key = next(iter(_texts(node)), "")
        if of[:1] and of[0] in _TESTERS:
            yield node.lineno, f"changes {'.'.join(of)}"
        elif of == ("builtins",) and _is_built_in((key,)):
            yield node.lineno, f"changes what is built in ({key})"
    elif name == "get" and dotted[:2] == ("sys", "modules") and _texts(node)[:1] and _texts(node)[0] in _RUNNERS:
        yield node.lineno, f"asks whether it is run by {_texts(node)[0]}"
    elif (name == "open" and _writes(node)) or name in _WRITING:
        inner = [each for part in (node.func, *node.args) for each in ast.walk(part)]
        for each in inner:
            if isinstance(each, ast.Constant) and isinstance(each.value, str) and _TEST_FILE.match(each.value):
                yield node.lineno, f"writes, moves or removes a file called {os.path.basename(each.value)}"


def _at_import(tree: ast.Module, path: str) -> Iterator[Found]:
    """What is done when the module is imported: leaving, and what is left to be done when the process ends."""
    if os.path.basename(path) in ("__main__.py", "setup.py"):
        return
    aliases = _aliases(tree)
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            if not isinstance(node, ast.Lambda):
                waiting += node.decorator_list
            continue
        if isinstance(node, ast.If) and _is_main(node.test):
            waiting += node.orelse
            continue
        if isinstance(node, ast.Call):
            dotted = _dotted(node.func, aliases)
            if dotted == ("sys", "exit") or (len(dotted) == 1 and dotted[0] in _LEAVING):
                yield node.lineno, "ends the process when it is imported"
            elif dotted == ("atexit", "register"):
                yield node.lineno, "leaves something to be done when the process ends, when it is imported"
        elif isinstance(node, ast.Raise) and node.exc is not None:
            raised = _dotted(node.exc.func if isinstance(node.exc, ast.Call) else node.exc, aliases)
            if raised == ("SystemExit",):
                yield node.lineno, "ends the process when it is imported"
        waiting += ast.iter_child_nodes(node)


def _class(node: ast.ClassDef) -> Iterator[Found]:
    """A class that is equal to everything."""
    for each in node.body:
        value: ast.expr | None = None
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and each.name in ("__eq__", "__ne__"):
            value, name = _returned(each), each.name
        elif isinstance(each, ast.Assign) and isinstance(each.value, ast.Lambda):
            names = [target.id for target in each.targets if isinstance(target, ast.Name)]
            name = next((one for one in names if one in ("__eq__", "__ne__")), "")
            value = each.value.body if name else None
        if isinstance(value, ast.Constant) and value.value is (name == "__eq__"):
            yield each.lineno, f"is equal to everything ({node.name}.{name})"


def _returned(node: _Definition) -> ast.expr | None:
    """The one thing that a function returns, whatever it is given."""
    body = [each for each in node.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    return body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None


def _aliases(tree: ast.Module) -> dict[str, str]:
    """What the names are that imports give."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.asname: each.name for each in node.names if each.asname is not None}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return found


def _dotted(node: ast.expr, aliases: dict[str, str]) -> tuple[str, ...]:
    """`a.b.c` as its parts, with the first as it was imported; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ()
    return (*aliases.get(node.id, node.id).split("."), *reversed(parts))


def _forking(tree: ast.Module) -> set[int]:
    """The calls in functions that fork: their children have to leave by os._exit."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
            if any(_dotted(each.func, {})[-1:] in (("fork",), ("forkpty",)) for each in calls):
                found |= {id(each) for each in calls}
    return found


def _is_built_in(parts: Sequence[str]) -> bool:
    return len(parts) == 1 and hasattr(builtins, parts[0]) and parts[0] not in _OWN_BUILTINS and parts[0][:2] != "__"


def _is_main(node: ast.expr) -> bool:
    return any(isinstance(each, ast.Constant) and each.value == "__main__" for each in ast.walk(node))


def _texts(node: ast.Call) -> Sequence[str]:
    return [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def _writes(node: ast.Call) -> bool:
    """Whether a call of `open` is for writing."""
    modes = [*node.args[:2], *(each.value for each in node.keywords if each.arg == "mode")]
    texts = [each.value for each in modes if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return any(len(each) <= 3 and set(each) & set("wax+") for each in texts)
