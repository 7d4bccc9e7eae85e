"""The checkpoint of everything in a worktree that is about to be removed.

It holds changes, untracked and ignored files, repositories inside, and the commits that only this worktree reaches;
with it the log, the memory, the contents of the database, the evidence of runs and the record of the worktree.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from git_agentos import log
from git_agentos.checkpoint import format
from git_agentos.checkpoint.capture.request import CaptureRequest
from git_agentos.checkpoint.creation import capture_worktree, preview_worktree, write_checkpoint
from git_agentos.checkpoint.model import Skipped, SkipReason, State
from git_agentos.checkpoint.nested import NestedOptions
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import UNCHANGED, IncompleteCaptureError
from git_agentos.git import merge_tree, state_dir, trees
from git_agentos.git.repository import Writer
from git_agentos.git.scan import Scan
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.progress import phase
from git_agentos.worktree import journal, layout, losses, record, revival
from git_agentos.worktree.losses import Inventory, Losses
from git_agentos.worktree.record import AgentWorktree

_TRIGGERS = {journal.REMOVE: "before_remove", journal.ARCHIVE: "archive"}
_MAX_LISTED = 10


class Saved(NamedTuple):
    """What was saved before a worktree is deleted; the fields are those of `removal.Removal`."""

    checkpoint: str
    revives: str
    head_sha: str | None
    losses: Losses
    discarded: list[Skipped]
    not_saved: list[Skipped]


class RemovalRequest(NamedTuple):
    """How a worktree is removed: `operation` is `remove` or `archive`. With `delete_branch` its branch is deleted as
    well, so that its commits count as its own; with `discard_ignored`, ignored files may be lost that cannot be
    saved. `teardown`: the user's command `agentos.teardown` is run before."""

    operation: str
    delete_branch: bool = False
    discard_ignored: bool = False
    teardown: bool = True


class FinalCheckpoint:
    """How one worktree is saved."""

    def __init__(self, context: OpenWorktree, worktree: AgentWorktree, request: RemovalRequest) -> None:
        self.context = context
        self.inner = context.in_worktree(worktree.location)
        self.worktree = worktree
        self.operation = request.operation
        self.deleted_branch = worktree.ref if request.delete_branch else None
        self.discard_ignored = request.discard_ignored

    def save(self) -> Saved:
        """One checkpoint of everything in the folder."""
        inner = self.inner
        with inner.repository.writer() as writer:
            state, stock, discarded = self._read(writer)
            state, commits = self._with_own_commits(inner, state)
            attachments = self._attachments(inner, writer, without_folder=False)
            id_ = self._write(inner, writer, state, f"worktree {self.worktree.id} {self.operation}d", attachments)
        not_saved = [Skipped(os.fsdecode(path), "a socket, pipe or device") for path in stock.special]
        return Saved(id_, id_, state.head.commit, losses.of_state(state, commits), discarded, not_saved)

    def check(self) -> None:
        """IncompleteCaptureError where `save` would refuse; nothing is written."""
        with merge_tree.discarding_writer(self.inner.repository) as writer:
            self._read(writer, preview=True)

    def save_without_folder(self) -> Saved:
        """What there is of a worktree whose folder is gone: HEAD, index and commits, in a checkpoint that is not its
        last state, unless it has all that the last state has; else that is written again as the newest one."""
        id_ = self.worktree.id
        before = revival.find_last_state(self.context, id_, self.inner.location)
        with state_dir.scratch(self.context.location) as folder:
            # An empty folder stands in for the missing one, so that HEAD and index can be read.
            inner = self.context.in_worktree(self.worktree.location._replace(root=folder))
            with inner.repository.writer() as writer:
                state = self._capture(inner, writer, Scan(inner.location))
                # The missing folder says nothing about the files: they are taken to be as the index has them.
                state = state._replace(tree=state.index_tree, visible_tree=state.index_tree, unstaged=[], untracked=[])
                state = state._replace(skipped=[], empty_directories=[], absent=[], nested={})
                state, commits = self._with_own_commits(inner, state)
                meta = {revival.FOLDER: revival.MISSING}
                if before is None or revival.covers(inner.repository, writer, state, before):
                    words = f"worktree {id_} {self.operation}d: HEAD and index, its folder was missing"
                    attachments = self._attachments(inner, writer, without_folder=True)
                    written = revives = self._write(inner, writer, state, words, attachments, meta=meta)
                else:
                    words = f"HEAD and index of the worktree {id_}, whose folder was missing"
                    trigger = _TRIGGERS[journal.REMOVE]
                    self._write(inner, writer, state, words, None, trigger=trigger, meta=meta)
                    written, revives = self._write_again(inner, writer, before, meta), before.source
        reason = "the folder is missing: nothing in it could be read"
        lost = [Skipped(self.worktree.root, reason)]
        return Saved(written, revives, state.head.commit, losses.of_state(state, commits), [], lost)

    # -- the state ---------------------------------------------------------------------------------------------------

    def _read(self, writer: Writer, *, preview: bool = False) -> tuple[State, Inventory, list[Skipped]]:
        """The state, what else is in the folder, and what of it will be lost."""
        started = Scan(self.inner.location)  # git scans meanwhile
        try:
            with phase(self.context.progress, "Listing files"):
                stock = losses.take_stock(self.inner.location.root)
        except BaseException:
            started.discard()
            raise
        state = self._capture(self.inner, writer, started, preview=preview)
        return state, stock, self._check_unsaved(self.inner, state, losses.unsaved(state, stock))

    def _capture(self, inner: OpenWorktree, writer: Writer, started: Scan, *, preview: bool = False) -> State:
        request = CaptureRequest(everything_ignored=True, nested=NestedOptions(git_dir_goes=True))
        try:
            if preview:
                return preview_worktree(inner, writer, request=request, scan=started)
            metadata = inner.metadata(trigger=_TRIGGERS[self.operation])
            return capture_worktree(inner, writer, metadata, request=request, scan=started)
        except IncompleteCaptureError as error:
            raise IncompleteCaptureError(
                f"not everything in the worktree '{self.worktree.id}' can be saved: {error.message}",
                "; ".join(filter(None, [error.hint, UNCHANGED])),
            ) from error

    def _with_own_commits(self, inner: OpenWorktree, state: State) -> tuple[State, list[str]]:
        """The state with the commits pinned that only this worktree reaches, and these."""
        commits, tips = losses.own_commits(inner.repository, without=self.deleted_branch)
        return state._replace(pins=[*dict.fromkeys([*state.pins, *tips])]), commits

    def _check_unsaved(self, inner: OpenWorktree, state: State, unsaved: Sequence[Skipped]) -> list[Skipped]:
        """What will be lost; IncompleteCaptureError unless that was asked for."""
        if not unsaved:
            return []
        ignored = losses.is_ignored(inner.repository, state, [item.path for item in unsaved])
        refused = [item for item in unsaved if item.path not in ignored or not self.discard_ignored]
        if not refused:
            return list(unsaved)
        shown = [f"cannot be saved: '{item.path}' ({item.reason})" for item in refused[:_MAX_LISTED]]
        if len(refused) > _MAX_LISTED:
            shown.append(f"cannot be saved: {len(refused) - _MAX_LISTED} more")
        number = f"{len(refused)} files" if len(refused) > 1 else "a file"
        raise IncompleteCaptureError(
            f"{number} in the worktree '{self.worktree.id}' cannot be saved, and would be lost: '{refused[0].path}'"
            + (" and others" if len(refused) > 1 else ""),
            "\n".join([*shown, self._hint(refused, ignored)]),
        )

    def _hint(self, refused: Sequence[Skipped], ignored: set[str]) -> str:
        ways = ["move it away"]
        if any(item.kind is SkipReason.TOO_LARGE for item in refused):
            ways.append("raise the limit (git config agentos.maxFileSize SIZE, 0 for none)")
        if self.operation == journal.REMOVE and all(item.path in ignored for item in refused):
            ways.append("delete it with --discard-ignored")
        return f"{', or '.join(ways)}; {UNCHANGED}"

    # -- writing it --------------------------------------------------------------------------------------------------

    def _write(
        self,
        inner: OpenWorktree,
        writer: Writer,
        state: State,
        description: str,
        attachments: dict[bytes, trees.Entry] | None,
        **fields: Any,
    ) -> str:
        """Write a checkpoint; its id."""
        fields = {"trigger": _TRIGGERS[self.operation], **fields}
        metadata = inner.metadata(description=description, task_id=self.worktree.record.task, **fields)
        metadata = metadata._replace(worktree_path=self.worktree.root)
        return write_checkpoint(inner, writer, state, metadata, attachments=attachments).checkpoint.id

    def _write_again(self, inner: OpenWorktree, writer: Writer, before: revival.Saved, meta: Mapping[str, str]) -> str:
        """Write the last state once more, as the newest checkpoint: the one that says how the worktree ended."""
        state = format.read_state(inner.repository, before.state)
        state = format.with_visible_tree(inner.repository, writer, state)
        words = f"worktree {self.worktree.id} {self.operation}d, its folder was missing: as in {before.source[:8]}"
        meta = {**meta, revival.STATE_OF: before.source}
        attachments = self._attachments(inner, writer, without_folder=True)
        fields = {"meta": meta, "restores": before.of, "restored_part": before.part}
        return self._write(inner, writer, state, words, attachments, **fields)

    def _attachments(self, inner: OpenWorktree, writer: Writer, *, without_folder: bool) -> dict[bytes, trees.Entry]:
        """The record, what the workflow database holds, and the evidence of runs."""
        known = self.worktree.record
        body = json.dumps(asdict(known), indent=1, sort_keys=True).encode("ascii") + b"\n"
        files: dict[bytes, trees.Entry] = {record.ATTACHMENT: (trees.REGULAR, writer.write("blob", body))}
        if known.run_id is not None:
            files.update(_evidence(writer, layout.main_folder(self.context.location), known.run_id))
        if without_folder:
            # A missing worktree may have left a folder with our database in it.
            if os.path.isdir(os.path.join(self.worktree.root, ".agentos")):
                files.update(log.archive_files(self.inner, writer))
            return files
        files.update(log.archive_files(inner, writer))
        files.update(_evidence(writer, inner.location.root))
        return files


def _evidence(writer: Writer, root: str, run_id: str = "") -> Iterator[tuple[bytes, trees.Entry]]:
    """The evidence of runs (of one, where it is named) that lies in a folder, as entries of a checkpoint."""
    runs = os.path.join(os.fsencode(root), b".agentos", b"runs")
    for folder, _, names in os.walk(os.path.join(runs, os.fsencode(run_id))):
        for name in names:
            full = os.path.join(folder, name)
            if os.path.isfile(full) and not os.path.islink(full):
                with open(full, "rb") as file:
                    oid = writer.write_stream(file.fileno(), os.fstat(file.fileno()).st_size)
                yield b"runs/" + os.path.relpath(full, runs), (trees.REGULAR, oid)
