"""The state machine: random edits, checkpoints, wrecks, restores and undoes, and after each what must hold."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.support.elsewhere import if_possible
from tests.support.law import expectations
from tests.support.law.edits import NAMES, Edit, attributes, edits, wrecks
from tests.support.law.expectations import Snapshot
from tests.support.law.start import NAMES as STARTS
from tests.support.law.start import copy_template
from tests.support.repo import Repo
from tests.support.state import assert_unchanged
from tests.support.tool import IN_PROCESS

_AT_THE_END = 6  # how many of the earlier checkpoints are restored when the example ends


@dataclass(frozen=True)
class Saved:
    """A checkpoint, and the state when it was taken."""

    id: str
    seen: Snapshot


class Law(RuleBasedStateMachine):
    """One repository and what happens in it. `templates` and `folder` are set by the test."""

    templates: ClassVar[Path]
    folder: ClassVar[Path]
    converts: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(dir=self.folder))
        self.saved: list[Saved] = []
        self.before_last: Snapshot | None = None  # what `undo` goes back to
        self.touched = False  # since the last restore or undo
        self.broken = False  # a step failed: the end is not checked as well

    def look(self, *, strict: bool = False) -> Snapshot:
        return expectations.snapshot(self.repo, strict=strict, converts=self.converts)

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        broken, self.broken = self.broken, True
        yield
        self.broken = broken

    @initialize(start=st.sampled_from(STARTS), first=st.lists(edits, max_size=3))
    def begin(self, start: str, first: list[Edit]) -> None:
        with self.step():
            self.repo: Repo = copy_template(self.templates, start, self.place)
            self._do(first)

    @rule(several=st.lists(edits, min_size=1, max_size=5))
    def edit(self, several: list[Edit]) -> None:
        with self.step():
            self._do(several)
            self.touched = True

    @precondition(lambda self: self.saved)
    @rule(first=wrecks, then=st.lists(st.one_of(wrecks, edits), max_size=2))
    def wreck(self, first: Edit, then: list[Edit]) -> None:
        with self.step():
            self._do([first, *then])
            self.touched = True

    @rule()
    def checkpoint(self) -> None:
        with self.step():
            before = self.look(strict=True)
            done = IN_PROCESS.checkpoint(self.repo.path, f"number {len(self.saved)}")
            after = self.look(strict=True)
            assert_unchanged(before.state, after.state, "the checkpoint changed something")
            assert done["skipped"] == [], done["skipped"]
            self.saved.append(Saved(done["id"], before))

    @precondition(lambda self: self.saved)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        with self.step():
            saved = self._choose(data)
            before = self.look()
            now = self._restore(saved, before)
            expectations.restored(saved.seen, before, now, "restore did not bring the state back")

    @precondition(lambda self: self.saved)
    @rule(data=st.data())
    def restore_in_place(self, data: st.DataObject) -> None:
        with self.step():
            saved = self._choose(data)
            before = self.look()
            now = self._restore(saved, before, no_branch=True)
            expectations.restored_in_place(saved.seen, before, now, "restore --no-branch")

    @precondition(lambda self: self.saved)
    @rule(data=st.data())
    def restore_keeping_new(self, data: st.DataObject) -> None:
        with self.step():
            saved = self._choose(data)
            before = self.look()
            now = self._restore(saved, before, keep_new=True)
            expectations.restored_keeping_new(saved.seen, before, now, "restore --keep-new")

    @precondition(lambda self: self.saved)
    @rule(data=st.data(), path=st.sampled_from(NAMES))
    def restore_path(self, data: st.DataObject, path: bytes) -> None:
        with self.step():
            saved = self._choose(data)
            before = self.look()
            there = (path for path in saved.seen.state.files if path not in saved.seen.ignored)
            known = [*there, *(entry.path for entry in saved.seen.state.index)]
            if any(other == path or other.startswith(path + b"/") for other in known):
                now = self._restore(saved, before, path)
                expectations.restored_path(saved.seen, before, now, path, f"restore {path!r}")

    @precondition(lambda self: self.before_last is not None)
    @rule()
    def undo(self) -> None:
        with self.step():
            wanted = self.before_last
            assert wanted is not None
            before = self.look()
            branch = wanted.state.head.branch
            there = before.state.refs.get(branch, "") if branch is not None else ""
            exact, self.touched = not self.touched, False
            self.before_last = before
            done = IN_PROCESS.undo(self.repo.path)
            now = self.look()
            self.saved.append(Saved(done["saved"], before))
            on_branch = branch is None or there.split(" ")[0] in ("", wanted.state.head.oid)
            expectations.undone(wanted, before, now, "undo did not go back", on_branch=on_branch, exact=exact)
            if exact:
                expectations.refs_kept(before.state, now.state, "undo moved a ref")

    def teardown(self) -> None:
        try:
            if not self.broken and self.saved:
                self.at_the_end()
        finally:
            shutil.rmtree(self.place)

    def at_the_end(self) -> None:
        """git finds nothing wrong, and every checkpoint is still to be had (of many, some)."""
        self.repo.git("fsck", "--strict", "--no-dangling", "--no-progress")
        every = {saved.id: saved for saved in self.saved}
        some = list(every.values())[:: max(1, len(every) // _AT_THE_END)]
        for saved in some:
            before = self.look()
            IN_PROCESS.restore(self.repo.path, saved.id)
            expectations.restored(saved.seen, before, self.look(), f"checkpoint {saved.id[:8]} at the end")

    def _do(self, several: list[Edit]) -> None:
        for edit in several:
            with if_possible():
                edit.do(self.repo, self.templates)

    def _choose(self, data: st.DataObject) -> Saved:
        """Mostly one of the newest: index 0 is the newest, to which Hypothesis shrinks."""
        back = data.draw(st.integers(0, len(self.saved) - 1), label="how far back")
        return self.saved[-1 - back]

    def _restore(
        self, saved: Saved, before: Snapshot, *paths: bytes, no_branch: bool = False, keep_new: bool = False
    ) -> Snapshot:
        """Restore, and check what holds for every kind of restore; the state now."""
        names = [os.fsdecode(path) for path in paths]
        done = IN_PROCESS.restore(self.repo.path, saved.id, names, no_branch=no_branch, keep_new=keep_new)
        now = self.look()
        self.before_last, self.touched = before, False
        self.saved.append(Saved(done["saved"], before))
        expectations.refs_kept(before.state, now.state, "restore moved a ref")
        return now


class LawOfLineEnds(Law):
    """The same where `.gitattributes` come and go, and files with the line ends that they ask for, or with others."""

    converts = True

    @rule(several=st.lists(st.one_of(attributes, attributes, edits), min_size=1, max_size=4))
    def convert(self, several: list[Edit]) -> None:
        with self.step():
            self._do(several)
            self.touched = True
