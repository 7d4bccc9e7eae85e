"""Restores nested repositories: each by a transaction of its own, within the transaction of the outer worktree.

`nested` describes and recreates them; this module restores them, moves them aside, and reverts that if the outer
restore fails. The transaction is passed as an argument, because `transaction` imports this module.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from git_agentos.checkpoint import journal, nested, nested_objects, timeline
from git_agentos.checkpoint.journal import Journal
from git_agentos.checkpoint.model import Metadata, Skipped, State
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.checkpoint.restore import head
from git_agentos.checkpoint.restore.application import Application
from git_agentos.checkpoint.restore.head import HeadTarget
from git_agentos.checkpoint.restore.request import Restoration, RestoreRequest, read_target
from git_agentos.errors import CheckpointFormatError, CheckpointNotFound, DamagedFile, MissingObjectsError
from git_agentos.git import refs, state_dir
from git_agentos.git.location import Location
from git_agentos.git.refs import Head
from git_agentos.git.repository import Repository
from git_agentos.git.scan import Scan
from git_agentos.util import times

Run = Callable[[OpenWorktree, Metadata, RestoreRequest], Restoration]


class NotThereError(Exception):
    """A nested repository cannot be restored: it is listed as skipped, and the rest is restored."""


def move_aside(repository: Repository, paths: Iterable[bytes], saved: str, application: Application) -> list[Skipped]:
    """Move repositories out of the worktree, and keep them under the id of the checkpoint `saved`.

    Returns those that cannot be moved.
    """
    skipped = []
    for path in paths:
        if nested.move_aside(repository, path, saved):
            application.on_revert(functools.partial(_bring_back, repository, path, saved))
        else:
            skipped.append(Skipped(os.fsdecode(path) + "/", "a repository on another file system: left in place"))
    return skipped


def _bring_back(repository: Repository, path: bytes, key: str) -> None:
    if not nested.reinstate(repository, path, key=key):
        raise OSError(f"'{os.fsdecode(path)}' could not be moved back")


@dataclass(frozen=True)
class NestedRestore:
    """The restore of nested repositories, within the restore `request` of the outer worktree. A different repository in
    the place of one is moved aside under the id of the checkpoint `saved`; `run` restores one repository."""

    worktree: OpenWorktree
    metadata: Metadata
    request: RestoreRequest
    application: Application
    saved: str
    run: Run

    def restore_all(self, wanted: Mapping[bytes, str]) -> list[Skipped]:
        """Restore repositories (path -> description) to the states described; returns those that cannot be restored."""
        skipped = []
        for path, oid in wanted.items():
            try:
                lost = self._restore(path, oid)
            except (CheckpointFormatError, CheckpointNotFound, MissingObjectsError, NotThereError) as error:
                skipped.append(Skipped(os.fsdecode(path) + "/", f"nested repository: {error}"))
            else:
                name = os.fsdecode(path) + "/.git/"
                skipped += [Skipped(name + ref, "the checkpoint does not contain what it names") for ref in lost]
        return skipped

    def _restore(self, path: bytes, description: str) -> list[str]:
        """Restore a nested repository to the described state, and recreate it if it is gone; returns the refs that
        could not be recreated."""
        record = nested.read(self.worktree.repository, description)
        location, lost = self._located(path, record)
        if location is None or record["checkpoint"] is None:
            raise NotThereError("it cannot be opened")
        inner = self._opened(location)
        own = self.metadata._replace(worktree_id=inner.worktree_id, worktree_path=location.root)
        target = read_target(inner.repository, record["checkpoint"])
        with state_dir.lock(location, "worktree", wait=True):
            move = self._move(location, record["checkpoint"], target)
            if journal.exists(location):
                journal.remove(location)  # the outer restore was killed, and is being repeated
            exact = self.request.exact and target.complete
            request = RestoreRequest("restore", record["checkpoint"], target, move, times.name_stamp(), exact=exact)
            before = self.run(inner, own, request).saved
        made = move.head.ref
        if move.create and made is not None:
            self.application.on_revert(lambda: head.delete_unused_branch(location, made, move.head.commit))
        if before is not None:
            self.application.on_revert(lambda: _go_back(inner, own, before, self.run))
        return lost

    def _opened(self, location: Location) -> OpenWorktree:
        scan = Scan(location)
        settings = self.worktree.settings._replace(values=scan.config())
        scan.discard()
        return self.worktree._replace(
            repository=Repository(location), settings=settings, worktree_id=timeline.worktree_id(location)
        )

    def _move(self, location: Location, checkpoint: str, target: State) -> HeadTarget:
        """Where the HEAD of the repository goes."""
        made = head.restore_branch(checkpoint, self.request.stamp)
        if target.head.commit is not None and refs.resolve(location, made) == target.head.commit:
            return HeadTarget(Head(made, target.head.commit), create=False)  # created by an attempt that was killed
        return head.original_head(location, checkpoint, target, self.request.stamp)

    def _located(self, path: bytes, record: Mapping[str, object]) -> tuple[Location | None, list[str]]:
        """The repository at `path`, moved back or recreated if there is none, or a different one; and the refs that
        could not be recreated."""
        repository, application = self.worktree.repository, self.application
        lost: list[str] = []
        location = nested.locate_at(repository.location.root, path)
        checkpoint = record["checkpoint"] if record["kind"] == "repository" else None
        holding = str(checkpoint) if checkpoint is not None and repository.exists(str(checkpoint)) else None
        # A repository with another hash algorithm has its checkpoints in its own store alone.
        own = str(checkpoint) if checkpoint is not None and not repository.hash.is_oid(str(checkpoint)) else holding
        if location is not None and holding is not None and not Repository(location).exists(holding):
            if not nested.move_aside(repository, path, self.saved):
                raise NotThereError("another repository is in its place, and cannot be moved away")
            application.on_revert(functools.partial(_bring_back, repository, path, self.saved))
            location = None
        if location is None and nested.reinstate(repository, path, holding=own):
            application.on_revert(functools.partial(_aside_again, repository, path))
            location = nested.locate_at(repository.location.root, path)
        if location is None:
            gone = record["kind"] == "submodule" and not nested.link_git_dir(repository, path, record)
            if gone and not record["refs"]:
                raise NotThereError("its git directory is gone")
            if gone or record["kind"] != "submodule":
                lost = nested_objects.recreate(repository, path, record)
            application.on_revert(functools.partial(_aside_again, repository, path))
            location = nested.locate_at(repository.location.root, path)
        return location, lost


def _aside_again(repository: Repository, path: bytes) -> None:
    nested.move_aside(repository, path, f"undone-{os.getpid()}")


def _go_back(worktree: OpenWorktree, metadata: Metadata, saved: str, run: Run) -> None:
    """Restore a nested repository to its state before the restore."""
    target = read_target(worktree.repository, saved)
    with state_dir.lock(worktree.location, "worktree", wait=True):
        stamp = times.name_stamp()
        move = head.original_head(worktree.location, saved, target, stamp)
        run(worktree, metadata, RestoreRequest("undo", saved, target, move, stamp, exact=target.complete))


# -- after an interrupted restore ---------------------------------------------------------------------------------


def end_journals(repository: Repository, found: Journal) -> None:
    """Remove the journals that the interrupted restore left in nested repositories, after it was repeated."""
    for checkpoint in (found.saved, found.target):
        for location, oid in _described(repository, checkpoint):
            inner = None
            with contextlib.suppress(DamagedFile):
                inner = journal.read(location)
            if inner is not None and inner.target == nested.read(repository, oid)["checkpoint"]:
                journal.remove(location)


def drop_branches(repository: Repository, found: Journal) -> None:
    """Delete the unused branches that the interrupted restore created in nested repositories."""
    for location, oid in _described(repository, found.target):
        record = nested.read(repository, oid)
        if record["checkpoint"] is not None:
            made = head.restore_branch(record["checkpoint"], found.stamp)
            head.delete_unused_branch(location, made, record["head"]["commit"])


def _described(repository: Repository, checkpoint: str) -> Iterator[tuple[Location, str]]:
    """The existing repositories that a checkpoint describes, each with the blob of its description."""
    for path, oid in read_target(repository, checkpoint).nested.items():
        location = nested.locate_at(repository.location.root, path)
        if location is not None:
            yield location, oid
