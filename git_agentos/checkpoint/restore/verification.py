"""The check of a restore before it is final: that the files and the new index are those of the target."""

from __future__ import annotations

import contextlib
import filecmp
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from git_agentos.checkpoint.model import State
from git_agentos.checkpoint.own_bytes import OwnBytes
from git_agentos.checkpoint.paths import covers
from git_agentos.checkpoint.restore.application import Application
from git_agentos.checkpoint.restore.plan import Plan
from git_agentos.config import Settings
from git_agentos.errors import GitCommandError, RestoreError
from git_agentos.git import filters, index, trees
from git_agentos.git.repository import Repository, Writer


@dataclass(frozen=True)
class Verification:
    """The check of one restore to `target`; `paths` limit what it restores."""

    repository: Repository
    settings: Settings
    target: State
    paths: Sequence[bytes] | None

    def refresh(
        self, unmodified: Mapping[bytes, trees.Entry], application: Application, new_index: str, folder: str
    ) -> list[bytes]:
        """Refresh the stat data of unmodified files; returns the paths at which the index then differs from the
        target's.

        (`merge --abort` and others refuse if an unmodified file has stale stat data.)
        """
        try:
            index.refresh(self.repository, new_index, unmodified, self.settings.values)
            differing = index.differences(self.repository, new_index, self.target.index_tree)
        except GitCommandError:
            # A filter or an encoding fails for one of the files, as it did when they were saved.
            differing = list(unmodified)
        # Files that git called unmodified only because of their stat data: `git add` would store another blob.
        believed = self._as_restored({path: unmodified[path] for path in differing if path in unmodified}, folder)
        if not believed:
            return differing
        application.backdate(believed, int(os.stat(new_index).st_mtime))
        index.set_stat_data(self.repository, new_index, believed, folder, self.settings.values)
        return index.differences(self.repository, new_index, self.target.index_tree)

    def _as_restored(self, entries: Mapping[bytes, trees.Entry], folder: str) -> dict[bytes, trees.Entry]:
        """The entries whose files have the bytes that they had in the target; others were changed meanwhile."""
        into = os.path.join(folder, "expected")
        own = OwnBytes(self.target)
        plain = {path: entry for path, entry in entries.items() if own.of(path, entry[1]) is None}
        if plain:
            os.mkdir(into)
            index_now = os.path.join(folder, "index")
            line_ends = filters.with_line_ends(self.settings.values, self.target.line_ends or {})
            options = filters.options(line_ends if self.target.line_ends is not None else self.settings.values)
            source = filters.AttributeSource(options=options)
            filters.to_files(self.repository, plain, into, base_index=index_now, source=source)
        found = {}
        for path, entry in entries.items():
            full = os.path.join(os.fsencode(self.repository.location.root), path)
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                form = own.of(path, entry[1])
                if form is not None:
                    same = form.is_at(full)
                else:
                    same = filecmp.cmp(os.path.join(os.fsencode(into), path), full, shallow=False)
                if same:
                    found[path] = entry
        return found

    def unmodified(self, writer: Writer, plan: Plan) -> dict[bytes, trees.Entry]:
        """Files that were written or prepared, and that are unmodified in the target: their stat data in the index is
        stale."""
        apart = {*self.target.assume_unchanged, *self.target.skip_worktree, *self.target.stages, *plan.unwritten}
        narrowing = None if self.paths is None else frozenset(self.paths)
        return {
            path: entry
            for path in dict.fromkeys([*plan.write, *plan.index.entries])
            if path not in apart
            and covers(narrowing, path)
            and (entry := trees.find(writer, self.target.tree, path)) is not None
            and entry[0] not in (trees.GITLINK, trees.DIRECTORY)
            and entry == trees.find(writer, self.target.index_tree, path)
            and os.path.lexists(os.path.join(os.fsencode(self.repository.location.root), path))
        }

    def verify(self, application: Application, new_index: str, differing: Sequence[bytes]) -> None:
        """Check that worktree and new index are the target's: the new files are unchanged, removed ones are gone, and
        git reads the index as the target's tree."""
        wrong = application.mismatches()
        if self.paths is None:
            wrong += [
                path for path in differing if path not in self.target.stages and path not in self.target.intent_to_add
            ]
            if index.stages(self.repository, new_index) != self.target.stages:
                wrong += self.target.stages
        if wrong:
            names = ", ".join(f"'{os.fsdecode(path)}'" for path in sorted(set(wrong))[:3])
            raise RestoreError(
                f"{len(set(wrong))} paths changed while they were being restored: {names}",
                "another program writes to this worktree; everything was reverted",
            )
