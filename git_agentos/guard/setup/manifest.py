"""The record of what the guard has set in a repository's configuration: `<common dir>/agentos/guard/manifest.json`.

    common      the common git directory at that time: scripts and settings name it
    shared      extensions.worktreeConfig in the common configuration, where it was not set before
    main        the settings that this moved to the main worktree's config.worktree (git-worktree(1): core.bare,
                core.worktree)
    worktrees   a worktree (`key_of`) -> what was added to its config.worktree
    people      what `hooks install` has added for the whole repository

It is written before the settings are, and changed only under the lock of the worktrees. It is signed (`own_files`).

After the repository was moved, copied or restored from a backup, `common` and the inodes in the keys are old. `read`
maps the paths to where the repository is now, so that a copy never changes a file of the original. It finds a worktree
by its name, where its configuration still has our block, or its entry has the same time. The settings stay as recorded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from git_agentos.errors import GuardError
from git_agentos.guard.setup import config_edit, own_files, scripts
from git_agentos.guard.setup.config_edit import ConfigEdit
from git_agentos.util.named_tuple import NamedTuple

_VERSION = 1
MAIN = "."


class Manifest(NamedTuple):
    """See the module. `repository` are the edits of `people`; `signed` tells whether this user has signed the file
    (true where there is none)."""

    common: str
    shared: ConfigEdit | None = None
    main: ConfigEdit | None = None
    worktrees: Mapping[str, ConfigEdit] = {}
    repository: tuple[ConfigEdit, ...] = ()
    signed: bool = True

    @property
    def empty(self) -> bool:
        return not (self.worktrees or self.repository or self.shared)

    @property
    def edits(self) -> tuple[ConfigEdit, ...]:
        """All edits, in the order in which they are applied."""
        all_ = (self.main, self.shared, *self.worktrees.values(), *self.repository)
        return tuple(each for each in all_ if each is not None)


def path_of(common_dir: str) -> str:
    return os.path.join(scripts.folder(common_dir), "manifest.json")


def read(common_dir: str) -> Manifest:
    """The manifest; an empty one where nothing is set. GuardError for a damaged file."""
    path = path_of(common_dir)
    try:
        body, is_signed = own_files.read_signed(path, "guard")
        manifest = Manifest(
            str(body["common"]),
            _edit(body["shared"]),
            _edit(body["main"]),
            {key: config_edit.from_document(each) for key, each in body["worktrees"].items()},
            tuple(config_edit.from_document(each) for each in body["people"]),
            is_signed,
        )
        manifest = _relocate(manifest, common_dir)
        if not is_signed and not all(_is_guards_file(each, common_dir) for each in manifest.edits):
            raise ValueError("a file in which the guard sets nothing")
        return manifest
    except FileNotFoundError:
        return Manifest(common_dir)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise GuardError(
            f"the guard's record '{path}' is damaged", "run git agentos guard enable in each worktree"
        ) from error


def write(common_dir: str, manifest: Manifest) -> None:
    """Write the manifest durably; an empty one removes the file."""
    path = path_of(common_dir)
    if manifest.empty:
        own_files.remove(path)
        return
    body = {
        "version": _VERSION,
        "common": manifest.common,
        "shared": None if manifest.shared is None else manifest.shared.document(),
        "main": None if manifest.main is None else manifest.main.document(),
        "worktrees": {key: each.document() for key, each in manifest.worktrees.items()},
        "people": [each.document() for each in manifest.repository],
    }
    own_files.write(path, own_files.signed_json("guard", body), 0o644)


def key_of(common_dir: str, git_dir: str) -> str | None:
    """The key of a worktree in the manifest: git's name for it, and what tells it from a later one with that name; `.`
    for the main worktree, None for one that does not exist.

    git writes `commondir` once, when it creates the entry.
    """
    if git_dir == common_dir:
        return MAIN
    try:
        status = os.lstat(os.path.join(git_dir, "commondir"))
    except OSError:
        return None
    return f"{os.path.basename(git_dir)} {status.st_ino}-{status.st_mtime_ns}"


def _relocate(manifest: Manifest, common_dir: str) -> Manifest:
    """The manifest with paths and keys as they are now."""
    if manifest.common != common_dir:
        before = manifest.common + os.sep

        def relocate(edit: ConfigEdit) -> ConfigEdit:
            is_inside = edit.path.startswith(before)
            return edit._replace(path=os.path.join(common_dir, edit.path[len(before) :])) if is_inside else edit

        manifest = manifest._replace(
            shared=manifest.shared and relocate(manifest.shared),
            main=manifest.main and relocate(manifest.main),
            worktrees={key: relocate(each) for key, each in manifest.worktrees.items()},
            repository=tuple(map(relocate, manifest.repository)),
        )
    worktrees = {}
    for key, edit in manifest.worktrees.items():
        now = key_of(common_dir, os.path.dirname(edit.path))
        is_new = now is not None and now not in manifest.worktrees
        if now is not None and is_new and (_has_block(edit) or _has_same_time(key, now)):
            worktrees[now] = edit
        else:
            worktrees[key] = edit
    return manifest._replace(worktrees=worktrees)


def _has_same_time(key: str, now: str) -> bool:
    """Whether two keys have the same time, as after a copy that keeps times, perhaps in whole seconds."""
    before, after = (each.rpartition("-")[2] for each in (key, now))
    return before == after or (after.endswith("000000000") and before[:-9] == after[:-9])


def _is_guards_file(edit: ConfigEdit, common_dir: str) -> bool:
    """Whether the guard may set something in this file."""
    folder, name = os.path.split(edit.path)
    if name == "config.worktree":
        return folder == common_dir or os.path.dirname(folder) == os.path.join(common_dir, "worktrees")
    return edit.path in (os.path.join(common_dir, "config"), os.path.join(scripts.folder(common_dir), "people.config"))


def _has_block(edit: ConfigEdit) -> bool:
    try:
        return edit.block in (config_edit.read(edit.path) or b"")
    except (OSError, GuardError):
        return False


def _edit(document: dict[str, Any] | None) -> ConfigEdit | None:
    return None if document is None else config_edit.from_document(document)
