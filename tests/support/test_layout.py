"""How the tests are laid out: a test module is no library for others, and folders mirror the package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.env import PROJECT_ROOT

TESTS = PROJECT_ROOT / "tests"
# Folders of tests that no package owns: they are about several of them at once.
KINDS = frozenset("clients concurrency crash errors filesystems law log plain_git project states support".split())


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


@pytest.mark.parametrize("folder", [TESTS, PROJECT_ROOT / "bench"], ids=lambda folder: folder.name)
def test_no_module_imports_a_test_module(folder: Path) -> None:
    """What test modules share is in tests/support; fixtures that they share are in conftest.py."""
    found = [
        (str(path.relative_to(PROJECT_ROOT)), module)
        for path in sorted(folder.rglob("*.py"))
        for module in _imports(path)
        if any(part.startswith("test_") or part == "conftest" for part in module.split(".")[:-1])
        or (module.rpartition(".")[2].startswith("test_") and module.startswith("tests."))
    ]
    assert found == []


def test_folders_mirror_the_package() -> None:
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")} - {Path()}
    ours = {folder for folder in folders if folder.parts[0] not in KINDS}
    assert (
        sorted(str(each) for each in ours if not (PROJECT_ROOT / "git_agentos" / each / "__init__.py").exists()) == []
    )
