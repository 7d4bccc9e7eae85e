"""Finishing or aborting a fast-forward that was interrupted, by its journal; and aborting one that has failed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import replace

from git_agentos.checkpoint import journal as restore_journal
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.checkpoint.restore import commands
from git_agentos.checkpoint.restore.request import RestoreOptions
from git_agentos.errors import WorktreeError, converted_storage_errors
from git_agentos.git import ignore, lockfile, refs, state_dir, trees, worktrees
from git_agentos.git.location import Location
from git_agentos.git.trees import Entry
from git_agentos.worktree import journal, record
from git_agentos.worktree.journal import WorktreeJournal
from git_agentos.worktree.layout import HEADS
from git_agentos.worktree.local_changes import Delta, mode_of, parents


def recover(context: OpenWorktree, interrupted: WorktreeJournal) -> str:
    """Finish or abort a killed fast-forward; what was done, in words. The journal, which must have been taken over, is
    removed.

    Where the branch has moved, everything was in place; where it is at its old tip, what was changed is restored from
    the checkpoint; where it was moved elsewhere meanwhile, nothing is touched.
    """
    fields = interrupted.fields
    try:
        ref, old, new, saved = (str(fields[key]) for key in ("ref", "old", "new", "saved"))
        location = context.location.worktree(str(fields["root"]), str(fields["git_dir"]))
    except KeyError as error:
        path = interrupted.path
        raise WorktreeError(f"the record of an interrupted merge '{path}' is damaged", "remove it") from error
    location = _present_location(context, location)
    inner = context.in_worktree(location)
    lockfile.remove_stale(location)
    state_dir.remove_abandoned(location)
    tip = refs.resolve(location, ref)
    target = ref.removeprefix(HEADS)
    words = f"'{target}' was moved elsewhere meanwhile, nothing had to be changed"
    if tip == new or (tip is not None and tip != old and context.repository.is_ancestor(new, tip)):
        words = f"the merge into '{target}' is complete"
        if fields.get("base"):
            with converted_storage_errors():
                record_sync(inner, interrupted)
    elif tip == old and refs.read_head(location).ref == ref:
        with converted_storage_errors():
            abort_fast_forward(inner, saved, old, new)
        words = f"'{target}' is as it was before the merge"
    journal.remove(interrupted)
    return words


def record_sync(inner: OpenWorktree, done: WorktreeJournal) -> None:
    """Record that a branch was brought up to its base: for `undo`, and in the record of its worktree."""
    location, fields = inner.location, done.fields
    shift = [fields["ref"], fields["old"], fields["new"]]
    saved = str(fields["saved"])
    restore_journal.write_last(location, restore_journal.LastRestore("sync", saved, saved, shifts=[shift]))
    known = record.read(location.git_dir)
    if known is not None:
        record.write(location.git_dir, replace(known, synced_sha=str(fields["base"])))


def _present_location(context: OpenWorktree, location: Location) -> Location:
    """The worktree may have been moved since; its git directory has not."""
    if location.git_dir == context.location.git_dir:
        return context.location
    if not os.path.isdir(location.root) and location.git_dir != location.common_dir:
        location = location._replace(root=worktrees.root_of(location.git_dir))
    if not os.path.isdir(location.root):
        raise WorktreeError(
            f"the worktree '{location.root}', in which a merge was interrupted, is not there",
            "bring the folder back and try again",
        )
    return location


def abort_fast_forward(inner: OpenWorktree, saved: str, old: str, new: str) -> None:
    """Restore what differs between two commits from the checkpoint `saved`, in index and files."""
    location = inner.location
    with inner.repository.writer() as writer:
        delta = trees.diff(writer, inner.repository.commit_tree(old), inner.repository.commit_tree(new))
    root = os.fsencode(location.root)
    created = [path for path, (before, _) in delta.items() if before is None]
    left = [path for path in created if mode_of(os.path.join(root, path))]
    _remove_hidden(inner, left, delta)
    gone = {path for path in created if not mode_of(os.path.join(root, path))}
    paths = [path for path in delta if path not in gone]
    staged = _staged(inner, gone)
    last = restore_journal.read_last(location)
    if paths or staged:
        options = RestoreOptions(paths=[*paths, *staged])
        commands.restore(inner, inner.metadata(), saved, options)
    # `undo` restores the state before the user's last restore, not one in the middle of a merge.
    if last is not None:
        restore_journal.write_last(location, last)
    else:
        restore_journal.forget_last(location)


def _remove_hidden(inner: OpenWorktree, paths: Sequence[bytes], delta: Delta) -> None:
    """Remove new files that are not in the index yet and that ignore rules hide: a restore would not see them."""
    if not paths:
        return
    root = os.fsencode(inner.location.root)
    for path in ignore.ignored_among(inner.repository, paths):
        after = delta[path][1]
        with contextlib.suppress(OSError):
            if after is not None and _holds(inner, path, after):
                os.unlink(os.path.join(root, path))
                for parent in parents(path):
                    os.rmdir(os.path.join(root, parent))  # ends at the first that is not empty


def _holds(inner: OpenWorktree, path: bytes, entry: Entry) -> bool:
    """Whether the file on disk is what git has written there, whole or up to where it was killed."""
    full = os.path.join(os.fsencode(inner.location.root), path)
    wanted = inner.repository.blob(entry[1])
    if os.path.islink(full):
        return os.readlink(full) == wanted
    with open(full, "rb") as file:
        return wanted.startswith(file.read(len(wanted) + 1))


def _staged(inner: OpenWorktree, paths: set[bytes]) -> list[bytes]:
    """Those of `paths` that the index has."""
    if not paths:
        return []
    entries = inner.repository.git("ls-files", "-z").split(b"\0")
    return sorted(paths.intersection(entries))
