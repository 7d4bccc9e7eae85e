"""Nothing above `git/` knows how long an object id is: a repository's `HashAlgorithm` says so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from git_agentos.git.hash_algorithm import BY_NAME
from tests.support.env import PROJECT_ROOT

PACKAGE = PROJECT_ROOT / "git_agentos"
# What looks like the length of an id and is none.
OTHERS = {
    "config.py": {"text[:40]"},
    "cli/options.py": {"text[:40]", "len(text) <= 40"},
    "run/evidence_again.py": {'(?<=")[0-9a-f]{64}(?=")'},  # SHA-256 of files, not of objects
    "store/database.py": {"len(head) == 64", "head[60:64]"},  # SQLite's header
    "tdd/gate/frozen_files.py": {"[0-9a-f]{64}"},  # SHA-256 of files, not of objects
    "tdd/models/mock.py": {"re.sub('[^a-z0-9]+', '_', request.issue_id.lower()).strip('_')[:40]"},
}
NO_IDS = {"secret_forms.py", "rules.py", "placeholders.py"}  # forms of secrets
_LENGTHS = {
    number
    for each in BY_NAME.values()
    for number in (each.hex_length, each.raw_length, each.hex_length + 1, each.hex_length + 6, each.hex_length + 8)
}
_PATTERN = re.compile(r"\[0-9a-f[^\]]*\]\{(\d+,)?(40|64)\}")
_CONSTANTS = {value for each in BY_NAME.values() for value in (each.zero, each.empty_tree)}


def _slices_and_lengths(tree: ast.AST) -> Iterator[tuple[ast.AST, int]]:
    """Numbers that cut text or bytes, that a length is compared with, or by which a string is repeated."""
    for node in ast.walk(tree):
        numbers: list[ast.expr | None] = []
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            numbers = [node.slice.lower, node.slice.upper]
        elif isinstance(node, ast.Compare) and "len(" in ast.unparse(node):
            numbers = [node.left, *node.comparators]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and isinstance(node.left, ast.Constant):
            numbers = [node.right] if isinstance(node.left.value, (str, bytes)) else []
        for number in numbers:
            for inner in ast.walk(number) if number is not None else ():
                if isinstance(inner, ast.Constant) and isinstance(inner.value, int):
                    yield node, inner.value


def findings(path: Path, source: str) -> list[str]:
    """What of a module looks like the length of an id, or like an id of one algorithm."""
    tree = ast.parse(source)
    found = [ast.unparse(node) for node, number in _slices_and_lengths(tree) if number in _LENGTHS]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            if _PATTERN.search(text) or any(each in text for each in _CONSTANTS):
                found.append(text)
    return [each for each in found if each not in OTHERS.get(str(path.relative_to(PACKAGE)), set())]


def test_no_module_knows_how_long_an_id_is() -> None:
    found = {
        str(path.relative_to(PACKAGE)): wrong
        for path in sorted(PACKAGE.rglob("*.py"))
        if PACKAGE / "git" not in path.parents
        and path.name not in NO_IDS
        and (wrong := findings(path, path.read_text()))
    }
    assert found == {}


def test_what_the_search_finds() -> None:
    """The constants that were there before SHA-256, each of them."""
    for source in (
        'ZERO = "0" * 40', 'NULL = b"0" * 40', "short = text[:40]", "digest = data[-20:]", "len(text) == 40",
        "len(oid) in (40, 64)", r'P = re.compile(rb"[0-9a-f]{40}([0-9a-f]{24})?\Z")', 'P = "[0-9a-f]{7,40}"',
        "data[46:]",
        'E = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"', "data[nul + 1 : nul + 20]", "file[:64]",
    ):  # fmt: skip
        assert findings(PACKAGE / "any.py", source) != [], source
    for source in ("text[:12]", "len(text) == 4", '"x" * 8', "size = 40", 'P = "[0-9a-f]{12}"', "value = 1 << 20"):
        assert findings(PACKAGE / "any.py", source) == [], source
