"""Code that deals with the tests that judge it, instead of its task; found by the syntax tree.

Found is code that asks whether it is being tested, reaches into pytest or unittest, ends the process or traces it, is
equal to everything, or writes tests and configuration. This is advice and no proof: a person sees the change all the
same, and the findings with it.
"""

from __future__ import annotations

import ast
import builtins
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from git_agentos.tdd.gate.syntax import Definition

Found = tuple[int, str]  # line, message
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)  # what `scan` raises if it cannot read a file

_TEST_TOOLS = frozenset({"pytest", "_pytest", "pluggy", "unittest", "doctest"})
_RUNNERS = frozenset({"pytest", "_pytest", "unittest"})
_OWN_BUILTINS = frozenset({"help", "quit", "exit", "copyright", "credits", "license"})  # which projects may replace
_OUTCOMES = frozenset({"skip", "xfail", "exit", "fail", "importorskip", "hookimpl", "skipif"})
_TRACES = "watches or changes how everything runs"
_ENDS = "ends the process at once"
_CALLS: Mapping[tuple[str, ...], str] = {
    ("sys", "settrace"): _TRACES,
    ("sys", "setprofile"): _TRACES,
    ("threading", "settrace"): _TRACES,
    ("threading", "setprofile"): _TRACES,
    ("os", "_exit"): _ENDS,
    ("os", "abort"): _ENDS,
}
_AT_IMPORT: Mapping[tuple[str, ...], str] = {
    ("sys", "exit"): "ends the process when it is imported",
    ("exit",): "ends the process when it is imported",
    ("quit",): "ends the process when it is imported",
    ("atexit", "register"): "registers something for when the process ends, when it is imported",
}
_OUR_PLUGIN = re.compile(r"agentos_(?:evidence|imports)|agentos-(?:canary|tests)-.*")
_TEST_FILE = re.compile(
    r"(?:.*/)?(?:conftest\.py|test_[\w{}%-]*\.py|[\w{}%-]+_test\.py|\.?pytest\.(?:ini|toml)|(?:site|user)customize\.py"
    r"|[\w.{}%-]+\.pth)\Z"
)
_WRITERS = frozenset(
    """write_text write_bytes unlink rename replace remove touch rmtree copy copy2 copyfile move symlink link symlink_to
    hardlink_to truncate""".split()
)


def scan(source: bytes, path: str) -> Sequence[Found]:
    """What is found in a file; one of UNREADABLE if it cannot be read."""
    tree = ast.parse(source)
    scanner = _Scanner(tree, path)
    scanner.visit(tree)
    return sorted({*scanner.found, *_scan_import_time(tree, path, scanner.aliases)})


class _Scanner(ast.NodeVisitor):
    """Collects what is found anywhere in a file."""

    def __init__(self, tree: ast.Module, path: str) -> None:
        self.aliases = _aliases(tree)
        self.found: set[Found] = set()
        self._path = path
        self._forking = _calls_in_forking_functions(tree)

    def _add(self, node: ast.AST, message: str) -> None:
        self.found.add((getattr(node, "lineno", 0), message))

    def _dotted(self, node: ast.expr) -> tuple[str, ...]:
        return _dotted(node, self.aliases)

    def visit_Import(self, node: ast.Import) -> None:
        for each in node.names:
            self._check_module(node, each.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level:
            return
        self._check_module(node, module)
        names = [each.name for each in node.names]
        if module == "os" and "_exit" in names:
            self._add(node, f"imports os._exit, which {_ENDS}")
        taken = [name for name in names if name in _OUTCOMES]
        if module.partition(".")[0] == "pytest" and taken:
            self._add(node, f"imports pytest.{taken[0]} outside of tests")

    def _check_module(self, node: ast.AST, module: str) -> None:
        if module.partition(".")[0] == "_pytest":
            self._add(node, "imports pytest's own parts (_pytest)")
        if _OUR_PLUGIN.fullmatch(module):
            self._add(node, "imports what runs the tests")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            *owner, name = self._dotted(node) or ("",)
            self._check_change(node, tuple(owner), name)
        self.generic_visit(node)

    def _check_change(self, node: ast.AST, owner: tuple[str, ...], name: str) -> None:
        """An attribute of pytest, of unittest, or of the built-in names that is set or deleted."""
        if owner[:1] and owner[0] in _TEST_TOOLS:
            self._add(node, f"changes {'.'.join((*owner, name)).rstrip('.')}")
        elif owner == ("builtins",) and hasattr(builtins, name) and name not in _OWN_BUILTINS and name[:2] != "__":
            self._add(node, f"changes what is built in ({name})")

    def visit_Compare(self, node: ast.Compare) -> None:
        name = _runner(node.left)
        if name and self._dotted(node.comparators[0])[:2] in (("sys", "modules"), ("sys", "argv")):
            self._add(node, f"asks whether it is run by {name}")
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        name = _runner(node.slice)
        if name and self._dotted(node.value) == ("sys", "modules"):
            self._add(node, f"takes {name} out of sys.modules")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        text = node.value
        if not isinstance(text, str):
            return
        if re.fullmatch(r"PYTEST_[A-Z_]+", text):
            self._add(node, f"knows the variable {text}, which only tests have")
        elif _OUR_PLUGIN.fullmatch(text):
            self._add(node, f"knows {text}, which runs the tests")
        elif text == "pytest11" and os.path.basename(self._path) == "setup.py":
            self._add(node, "registers a plugin of pytest (pytest11)")

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for method in node.body:
            name, value = _constant_method(method)
            if name in ("__eq__", "__ne__") and value is (name == "__eq__"):
                self._add(method, f"is equal to everything ({node.name}.{name})")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        dotted = self._dotted(node.func)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else dotted[-1] if dotted else ""
        texts = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        effect = _CALLS.get(dotted[-2:] if dotted[-2:-1] == ("os",) else dotted)
        if dotted[:2] == ("sys", "monitoring"):
            effect = _TRACES
        if effect is not None and not (effect is _ENDS and id(node) in self._forking):
            self._add(node, f"calls {'.'.join(dotted)}, which {effect}")
        elif dotted[:1] == ("pytest",) and name in _OUTCOMES:
            self._add(node, f"calls {'.'.join(dotted)} outside of tests")
        elif name in ("setattr", "delattr") and node.args:
            self._check_change(node, self._dotted(node.args[0]), texts[0] if texts else "")
        elif name == "get" and dotted[:2] == ("sys", "modules") and texts and texts[0] in _RUNNERS:
            self._add(node, f"asks whether it is run by {texts[0]}")
        elif (name == "open" and _opens_to_write(node)) or name in _WRITERS:
            for part in (node.func, *node.args):
                for each in ast.walk(part):
                    if isinstance(each, ast.Constant) and isinstance(each.value, str) and _TEST_FILE.match(each.value):
                        self._add(node, f"writes, moves or removes a file called {os.path.basename(each.value)}")
        self.generic_visit(node)


def _scan_import_time(tree: ast.Module, path: str, aliases: Mapping[str, str]) -> Iterator[Found]:
    """What happens when the module is imported: ending the process, and registering something for its end."""
    if os.path.basename(path) in ("__main__.py", "setup.py"):
        return
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, Definition):
            waiting += node.decorator_list
        elif isinstance(node, ast.If) and _asks_for_main(node.test):
            waiting += node.orelse
        elif not isinstance(node, ast.Lambda):
            if isinstance(node, ast.Call):
                effect = _AT_IMPORT.get(_dotted(node.func, aliases))
                if effect is not None:
                    yield node.lineno, effect
            elif isinstance(node, ast.Raise) and node.exc is not None:
                exception = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
                if _dotted(exception, aliases) == ("SystemExit",):
                    yield node.lineno, _AT_IMPORT["sys", "exit"]
            waiting += ast.iter_child_nodes(node)


def _constant_method(node: ast.stmt) -> tuple[str, object]:
    """The name of a method that returns a constant, and the constant; an empty name for anything else."""
    value: ast.expr | None = None
    name = ""
    if isinstance(node, Definition):
        body = [each for each in node.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
        name, value = node.name, body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
        names = [each.id for each in node.targets if isinstance(each, ast.Name)]
        name, value = next((each for each in names if each in ("__eq__", "__ne__")), ""), node.value.body
    return (name, value.value) if isinstance(value, ast.Constant) else ("", None)


def _aliases(tree: ast.Module) -> Mapping[str, str]:
    """What the names that imports bind stand for."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.asname: each.name for each in node.names if each.asname is not None}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return found


def _dotted(node: ast.expr, aliases: Mapping[str, str]) -> tuple[str, ...]:
    """`a.b.c` as its parts, the first as it was imported; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ()
    return (*aliases.get(node.id, node.id).split("."), *reversed(parts))


def _calls_in_forking_functions(tree: ast.Module) -> set[int]:
    """The calls in functions that fork: their children have to end by os._exit."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, Definition):
            calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
            if any(_dotted(each.func, {})[-1:] in (("fork",), ("forkpty",)) for each in calls):
                found |= {id(each) for each in calls}
    return found


def _runner(node: ast.expr) -> str:
    """The name of a program that runs tests, written as a constant; empty for anything else."""
    return str(node.value) if isinstance(node, ast.Constant) and node.value in _RUNNERS else ""


def _asks_for_main(node: ast.expr) -> bool:
    return any(isinstance(each, ast.Constant) and each.value == "__main__" for each in ast.walk(node))


def _opens_to_write(node: ast.Call) -> bool:
    modes = [*node.args[:2], *(each.value for each in node.keywords if each.arg == "mode")]
    texts = [each.value for each in modes if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return any(len(each) <= 3 and set(each) & set("wax+") for each in texts)
