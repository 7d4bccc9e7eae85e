"""Tests that test nothing: empty, always true, or bound to fail. Judged by the syntax tree; in doubt, it is a test."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence

from git_agentos.tdd.gate import syntax
from git_agentos.tdd.gate.syntax import Definition

_MAY_DO_SOMETHING = (
    ast.Call, ast.Attribute, ast.Subscript, ast.Import, ast.ImportFrom, ast.With, ast.AsyncWith, ast.Raise, ast.Await,
)  # fmt: skip
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[object, object], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}


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
