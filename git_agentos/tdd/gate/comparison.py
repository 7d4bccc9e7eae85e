"""The tests of the worktree against those of the commit that it began at: what is new, and what was done to the rest.

Only adding is allowed: test functions, files, fixtures. What was there is compared by its AST, so that a comment or a
new import changes nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from functools import cached_property

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.git import objects, trees
from git_agentos.tdd.gate import frozen_files, pytest_config, syntax, trivial_tests
from git_agentos.tdd.gate.cases import PASSED, Case

_MOST = 8 << 20


class Worktree:
    """The tests of a worktree as they are."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.names = pytest_config.names(root)

    def read(self, path: str) -> bytes | None:
        """A plain file; None where there is none, or it is too large for a test."""
        try:
            descriptor = os.open(os.path.join(self.root, path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            return file.read() if stat.S_ISREG(about.st_mode) and about.st_size <= _MOST else None

    def none(self, path: str, names: Sequence[str]) -> Sequence[str]:
        """Those of the tests `names` in a file that are none, a sentence each."""
        tree = syntax.parse(self.read(path) or b"")
        said = trivial_tests.of(tree, names) if tree is not None else {}
        return [f"{path}: the test {name} {why}" for name, why in said.items()]

    def hollow(self, node_ids: Sequence[tuple[str, str]]) -> Sequence[str]:
        """`none`, of tests given by node id and file."""
        files: dict[str, dict[str, None]] = {}
        for node_id, path in node_ids:
            files.setdefault(path, {})[syntax.of_node(node_id, path)] = None
        return [each for path, names in files.items() for each in self.none(path, list(names))]


class Base:
    """The tests of a commit, beside those of a worktree."""

    def __init__(self, here: OpenWorktree, commit: str, worktree: Worktree, now: Mapping[str, str]) -> None:
        """`now` is what `frozen_files.freeze` says of the worktree."""
        self._repository = here.repository
        self._worktree = worktree
        self._now = now
        tree = self._repository.commit_tree(commit)
        self._files: dict[str, str] = {}
        modules = []  # what is in them has a history of its own, and no file in this one
        for path, (mode, oid) in trees.walk(self._repository, tree):
            if mode in (trees.REGULAR, trees.EXECUTABLE):
                self._files[os.fsdecode(path)] = oid
            elif mode == trees.GITLINK:
                modules.append(os.fsdecode(path) + "/")
        self._modules = tuple(modules)

    def is_new(self, case: Case) -> bool:
        """Whether the function of a test is not in the commit."""
        before = self._before(case.path)
        if before is None:
            return True
        tree, name = syntax.parse(before), syntax.of_node(case.node_id, case.path)
        if tree is None or syntax.has(tree, name):
            return False
        now = syntax.parse(self._worktree.read(case.path) or b"")  # what neither has is no function: a doctest
        return case.outcome != PASSED or (now is not None and syntax.has(now, name))

    def vetoes(self) -> Sequence[str]:
        """What was done to tests that were there, and new ones that are none: a sentence each."""
        said: list[str] = []
        for path in sorted(self._tests_of_base | {each for each in self._now if self._may_be_new(each)}):
            said += self._about(path)
        said += self._first()
        if self._has_tests:
            said += [f"pytest's configuration was changed: {each}" for each in self._configured_otherwise()]
        return said

    def interference(self) -> Sequence[str]:
        """Of `vetoes`, what decides how tests come out and is no test: hooks, and what runs before all others."""
        said = list(self._first())
        for path in self._now:
            after = self._worktree.read(path) if os.path.basename(path) == "conftest.py" else None
            if after is not None:
                said += [
                    each for each in syntax.interferes(path, self._before(path), after) if "pytest_plugins" not in each
                ]
        return said

    def _first(self) -> Sequence[str]:
        return [
            f"{path} is new, and comes before everything else that Python runs"
            for path in self._now
            if path not in self._files and frozen_files.comes_first(path)
        ]

    def _may_be_new(self, path: str) -> bool:
        return path.endswith(".py") and not path.startswith(self._modules)

    @cached_property
    def _tests_of_base(self) -> set[str]:
        patterns = frozen_files.patterns(self._worktree.names)
        return {path for path in self._files if path.endswith(".py") and frozen_files.is_test(path, patterns)}

    @cached_property
    def _has_tests(self) -> bool:
        """Whether there was any test in the commit."""
        for path in self._tests_of_base:
            tree = syntax.parse(self._before(path) or b"")
            if tree is not None and syntax.functions(tree, self._worktree.names.functions):
                return True
        return False

    def _before(self, path: str) -> bytes | None:
        oid = self._files.get(path)
        return self._repository.blob(oid) if oid is not None else None

    def _about(self, path: str) -> Sequence[str]:
        """What is to be said of one test file."""
        oid = self._files.get(path)
        full = os.fsencode(os.path.join(self._worktree.root, path))
        if oid is not None and not os.path.islink(full) and objects.hash_file(full) == oid:
            return ()
        before, after = self._before(path), self._worktree.read(path)
        patterns = self._worktree.names.functions
        said = list(syntax.altered(path, before, after, patterns)) if before is not None else []
        if after is None:
            return said
        if os.path.basename(path) == "conftest.py":
            said += syntax.interferes(path, before, after)
        tree = syntax.parse(after)
        if tree is not None and frozen_files.is_collected(path, frozen_files.patterns(self._worktree.names)):
            old = syntax.parse(before) if before is not None else None
            names = [name for name in syntax.functions(tree, patterns) if old is None or not syntax.has(old, name)]
            said += self._worktree.none(path, names)
        return said

    def _configured_otherwise(self) -> Sequence[str]:
        paths = {each for each in self._files if frozen_files.is_configuration(each)}
        paths |= {each for each in frozen_files.paths(self._now) if frozen_files.is_configuration(each)}
        paths = {each for each in paths if not each.startswith(self._modules)}
        return [path for path in sorted(paths) if self._part(path, self._before(path)) != self._part_now(path)]

    def _part_now(self, path: str) -> bytes | None:
        return self._part(path, self._worktree.read(path))

    @staticmethod
    def _part(path: str, data: bytes | None) -> bytes | None:
        name = os.path.basename(path)
        return data if data is None or name in pytest_config.WHOLE else pytest_config.part(name, data)
