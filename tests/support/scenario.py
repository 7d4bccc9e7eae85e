"""Scenarios: named working states, and the round trip that each must survive.

    build → state A → checkpoint (nothing changed at all) → wreck → state B → restore: A → undo: B → undo again: A
    build → state A → checkpoint → sync → sync in another clone → restore there: A

A test module collects its builders in a `Scenarios` and parametrizes one test with `.cases()`. Every scenario meets
one in five of the wrecks that fit it, others each day (with `make soak` all), in process; every sixth meets its first
through the command. One in four goes to another clone.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pytest

from tests.support import remotes
from tests.support.elsewhere import needs_all
from tests.support.repo import Repo, filled, git
from tests.support.sampling import is_sampled
from tests.support.state import Permissions, State, assert_same, assert_unchanged, complete_state
from tests.support.tool import COMMAND, IN_PROCESS, Tool, run_ok
from tests.support.wrecks import WRECKS, Wreck, wreck_nested

RESTORE_BRANCH = re.compile(r"refs/heads/restore/[0-9a-f]{8}/\d{8}T\d{6}Z(-\d+)?")

Build = Callable[[Repo], None]
_COMMAND_EVERY = 6
_ELSEWHERE = "in-another-clone"
_GENERIC = ("reset-and-clean", "work-elsewhere", "remove-everything", "swap-types", "rewrite-and-commit")


@dataclass(frozen=True)
class Scenario:
    """`keep`: paths that wrecks leave alone, because a checkpoint does not hold them by design. `start`: `build` gets a
    repository with a small history, an empty one, or only a path. `permissions` and `status`: what comparisons count.
    """

    name: str
    build: Build
    keep: frozenset[bytes] = frozenset()
    wrecks: tuple[str, ...] = _GENERIC
    start: Literal["filled", "empty", "nothing"] = "filled"
    permissions: Permissions = "executable"
    status: bool = True

    def prepare(self, folder: Path) -> Repo:
        """Build the state in a repository below `folder`."""
        repo = Repo(folder / "repo")
        if self.start == "empty":
            Repo.init(repo.path)
        elif self.start == "filled":
            filled(repo.path)
        with needs_all():
            self.build(repo)
        return repo


class Scenarios:
    """The scenarios of one test module."""

    def __init__(self) -> None:
        self.all: list[Scenario] = []

    def add(
        self,
        *,
        keep: Collection[bytes] = (),
        wrecks: tuple[str, ...] = _GENERIC,
        start: Literal["filled", "empty", "nothing"] = "filled",
        permissions: Permissions = "executable",
        status: bool = True,
    ) -> Callable[[Build], Build]:
        """Register a builder; its name, with spaces, is the scenario's."""

        def register(build: Build) -> Build:
            name = build.__name__.strip("_").replace("_", "-")
            self.all.append(Scenario(name, build, frozenset(keep), wrecks, start, permissions, status))
            return build

        return register

    def cases(self, *, elsewhere: bool = True) -> pytest.MarkDecorator:
        """Parametrize `scenario`, `wreck` (its name) and `tool`, for `run_case`; without `elsewhere`, in one clone."""
        return pytest.mark.parametrize(("scenario", "wreck", "tool"), list(self._cases(elsewhere)))

    def _cases(self, elsewhere: bool) -> Iterator[object]:
        for place, scenario in enumerate(self.all):
            for number, wreck in enumerate(scenario.wrecks):
                tool = COMMAND if number == 0 and place % _COMMAND_EVERY == 0 else IN_PROCESS
                if tool is IN_PROCESS and not is_sampled(place, number, one_in=5):
                    continue
                yield pytest.param(scenario, wreck, tool, id=f"{scenario.name}-{wreck}")
            if elsewhere and scenario.start == "filled" and is_sampled(place, one_in=4):
                yield pytest.param(scenario, _ELSEWHERE, COMMAND, id=f"{scenario.name}-{_ELSEWHERE}")

    def names(self) -> list[str]:
        return [scenario.name for scenario in self.all]

    def __getitem__(self, name: str) -> Scenario:
        return next(scenario for scenario in self.all if scenario.name == name)


def round_trip(repo: Repo, scenario: Scenario, wreck: Wreck, tool: Tool) -> None:
    """The whole journey; `repo` is in the scenario's state."""

    def same(expected: State, found: State, what: str, branch: Literal["exact", "any"]) -> None:
        assert_same(expected, found, what, branch=branch, permissions=scenario.permissions, status=scenario.status)

    where = repo.path
    original = complete_state(where, strict=True)
    checkpoint = tool.checkpoint(where, "before the wreck")
    assert_unchanged(original, complete_state(where, strict=True), "the checkpoint changed something")

    wreck(repo, scenario.keep)
    wreck_nested(repo, original.nested.keys())
    wrecked = complete_state(where)

    restored = tool.restore(where, str(checkpoint["id"]))
    now = complete_state(where)
    same(original, now, "restore did not bring the state back", "any")
    assert_head_restored(original, wrecked, now, restored)

    tool.undo(where)
    now = complete_state(where)
    same(wrecked, now, "undo did not go back to the state before the restore", "exact")
    assert_refs_kept(wrecked, now)

    tool.undo(where)
    now = complete_state(where)
    same(original, now, "undo of the undo did not bring the restored state back", "any")
    assert_refs_kept(wrecked, now)

    if tool is COMMAND:
        git(where, "fsck", "--no-dangling", "--no-progress")


def assert_head_restored(original: State, wrecked: State, now: State, restored: Mapping[str, object]) -> None:
    """A state on a branch comes back on a new restore branch, a detached one detached; no other ref moved."""
    if original.head.branch is None:
        assert now.head.branch is None
    else:
        assert now.head.branch is not None
        assert RESTORE_BRANCH.fullmatch(now.head.branch), now.head.branch
        assert restored["branch"] == now.head.branch.removeprefix("refs/heads/")
    assert restored["head"] == original.head.oid
    assert_refs_kept(wrecked, now)


def assert_refs_kept(before: State, after: State) -> None:
    """No ref of the user's came, went or moved; restore branches are ours."""
    assert _users(before.refs) == _users(after.refs)


def run_case(folder: Path, scenario: Scenario, wreck: str, tool: Tool) -> None:
    """Build `scenario` below `folder` and send it through the round trip."""
    if wreck == _ELSEWHERE:
        in_another_clone(scenario.prepare(folder), scenario, folder)
        return
    round_trip(scenario.prepare(folder), scenario, WRECKS[wreck], tool)


def in_another_clone(repo: Repo, scenario: Scenario, folder: Path) -> None:
    """The journey to another machine, which has the same configuration, and of the repository only what `sync` brings.

    A submodule has its git directory outside of the worktree, and what is in there stays; the restore says so.
    """
    original = complete_state(repo.path)
    saved = COMMAND.checkpoint(repo.path, "to another machine")
    shared = remotes.make_bare(folder, repo)
    remotes.connect(repo, shared, "desk")
    remotes.sync(repo)
    there = remotes.clone(folder, shared, "lap")
    for name in ("config", "config.worktree"):
        if (repo.git_dir / name).exists():
            shutil.copy(repo.git_dir / name, there.git_dir / name)
    there.config("agentos.sync.host", "lap")
    remotes.sync(there)
    restored = run_ok(there.path, "restore", str(saved["id"]), "--host", "desk")
    now = complete_state(there.path)
    kept = [path for path in scenario.keep if path not in now.files]
    left = [path for path in original.nested if (repo.path / os.fsdecode(path) / ".git").is_file()]
    assert {os.fsencode(each["path"]).rstrip(b"/") for each in restored["skipped"]} >= set(left)
    original = replace(original, nested={path: each for path, each in original.nested.items() if path not in left})
    kept += left
    assert_same(
        original.without(*kept) if kept else original,
        now.without(*kept) if kept else now,
        "restored in another clone",
        branch="any",
        permissions=scenario.permissions,
        status=scenario.status,
    )


def _users(refs: Mapping[str, str]) -> dict[str, str]:
    return {name: oid for name, oid in refs.items() if not name.startswith("refs/heads/restore/")}
