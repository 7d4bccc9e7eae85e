"""Aborting the creation of a worktree: everything that it has made is removed, as its journal says.

`empty_fields` documents the fields of the journal.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from git_agentos.checkpoint import timeline
from git_agentos.errors import WorktreeError
from git_agentos.git import process, refs, worktrees
from git_agentos.git.location import Location
from git_agentos.guard.setup import activation
from git_agentos.process import deletion, occupants
from git_agentos.worktree import journal, layout, record
from git_agentos.worktree.journal import WorktreeJournal


def empty_fields(path: str, entries: Sequence[str]) -> dict[str, Any]:
    """The journal's fields for a creation that makes the folder `path` and an entry that is not in `entries`, no more.

    `parents` are the folders above that are made, outermost first; `branch` the ref that is made, `timeline` where its
    timeline was before; `exclude` the line that is added to `info/exclude`; `worktree_config` tells that
    extensions.worktreeConfig is set, `guard` that the guard is brought into the repository; `claimed` is the prepared
    worktree that is taken.
    """
    return {
        "path": path,
        "entries": list(entries),
        "parents": [],
        "branch": None,
        "timeline": None,
        "exclude": None,
        "worktree_config": False,
        "guard": False,
        "claimed": None,
    }


def abort_creation(location: Location, begun: WorktreeJournal) -> None:
    """Remove everything that an unfinished creation made, and then its journal. The lock on worktrees must be held.

    Every step may have been done before, or never: this can be repeated.
    """
    fields = begun.fields
    if "path" in fields:
        path = fields["path"]
        _refuse_others(location, path)
        _remove(path)
        for git_dir in _entries_made(location, path, fields):
            activation.unregister(location, git_dir)
            _remove(git_dir)
        if fields.get("guard"):
            activation.remove_if_unused(location)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(location.common_dir, "worktrees"))
        if fields["branch"] is not None:
            _set_back(location, fields["branch"], None)
        _set_back(location, timeline.PREFIX + begun.id, fields["timeline"])
        if fields["worktree_config"]:
            _disable_worktree_config(location)
        for parent in reversed(fields["parents"]):
            with contextlib.suppress(OSError):
                os.rmdir(parent)
        if fields["exclude"] is not None and not os.path.lexists(os.path.dirname(path)):
            layout.remove_exclude(location, fields["exclude"])
    journal.remove(begun)


def recover(location: Location, interrupted: WorktreeJournal) -> str:
    """Abort a killed creation, unless all was done but for the end; what was done, in words. The journal, which must
    have been taken over, is removed."""
    path = interrupted.fields.get("path")
    for git_dir in worktrees.linked_git_dirs(location.common_dir):
        # The record is written last: where there is one, damaged or not, an agent may have worked there since.
        if worktrees.root_or_none(git_dir) == path and record.has_record(git_dir):
            journal.remove(interrupted)
            return "it is complete"
    processes = occupants.find(path) if path is not None and os.path.isdir(path) else []
    if processes:
        first = processes[0]
        raise WorktreeError(f"process {first.pid} ({first.name}) works in '{path}'", "end it, then repair again")
    abort_creation(location, interrupted)
    return "what had been made of it is removed"


def _refuse_others(location: Location, path: str) -> None:
    """WorktreeError where a folder that is to be removed holds more than the worktree that was being made."""
    others = [location.common_dir, *map(worktrees.root_or_none, worktrees.linked_git_dirs(location.common_dir))]
    inside = next((each for each in others if each is not None and each != path and layout.is_inside(each, path)), None)
    if not os.path.isabs(path) or inside is not None or os.path.isfile(os.path.join(path, ".git", "HEAD")):
        raise WorktreeError(
            f"'{path}' is not a worktree that was being made", "look at it, and remove it and the record by hand"
        )


def _entries_made(location: Location, path: str, fields: Mapping[str, Any]) -> list[str]:
    """The entries for `path` that were not there before: git may have been killed before it wrote where they belong.

    That of a claimed worktree was there, and has been moved.
    """
    found = []
    before = set(fields["entries"])
    claimed = fields["claimed"]
    if claimed is not None and not os.path.lexists(claimed["path"]):
        before.discard(claimed["name"])
    for git_dir in worktrees.linked_git_dirs(location.common_dir):
        name = os.path.basename(git_dir)
        if name in before:
            continue
        try:
            root = worktrees.root_of(git_dir)
        except OSError:
            # git's name for the entry is the folder's, with a number where that is taken.
            if name.removeprefix(os.path.basename(path)).isdigit() or name == os.path.basename(path):
                found.append(git_dir)
            continue
        if root == path or (claimed is not None and name == claimed["name"]):
            found.append(git_dir)
    return found


def _set_back(location: Location, name: str, old: str | None) -> None:
    """A ref that we made or moved, as it was; what was packed meanwhile is git's to change."""
    value = refs.resolve(location, name)
    if old is not None:
        if value != old:
            refs.update(location, name, old, value)
        return
    refs.drop(location, name, value)


def _disable_worktree_config(location: Location) -> None:
    """Unset `extensions.worktreeConfig`, which a sparse checkout set, unless it is used by now."""
    folders = [location.common_dir, *worktrees.linked_git_dirs(location.common_dir)]
    if not any(os.path.exists(os.path.join(folder, "config.worktree")) for folder in folders):
        args = ["config", "--file", os.path.join(location.common_dir, "config"), "--unset", "extensions.worktreeConfig"]
        process.run(args, env=location.environment(), ok=(0, 5))


def _remove(path: str) -> None:
    if os.path.lexists(path) and not deletion.remove_folder(path):
        raise WorktreeError(f"'{path}' cannot be removed")
