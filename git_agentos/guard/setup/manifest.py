"""What the guard has set in a repository's configuration: `<common dir>/agentos/guard/manifest.json`.

    common      the common git directory, where it was: scripts and values name it
    shared      extensions.worktreeConfig in the common configuration, where it was not set before
    main        what that moved to the main worktree's config.worktree (git-worktree(1): core.bare, core.worktree)
    worktrees   a worktree (`key_of`) -> what was added to its config.worktree
    people      what `hooks install` added for everybody

It is written before what it tells of, and changed only while the worktrees' turn is held. It is
signed, as `files.json` is.

After the repository was moved, copied or restored from a backup, `common` and the inodes in the keys are those of
before. `read` maps the paths to where the repository is now, so that a copy never changes a file of the original, and
finds the worktrees by name where their configuration still has our block, or their entry was made at the same time. The
values stay as they were set.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from git_agentos.errors import GuardError
from git_agentos.guard.setup import config_edit, scripts
from git_agentos.guard.setup.config_edit import Added
from git_agentos.util import files

_VERSION = 1
MAIN = "."


class Manifest(NamedTuple):
    """See the module's docstring. `signed` tells that this user's key signed it (true of an empty one)."""

    common: str
    shared: Added | None = None
    main: Added | None = None
    worktrees: Mapping[str, Added] = {}
    people: tuple[Added, ...] = ()
    signed: bool = True

    @property
    def empty(self) -> bool:
        return not (self.worktrees or self.people or self.shared)


def path_of(common_dir: str) -> str:
    return os.path.join(scripts.folder(common_dir), "manifest.json")


def read(common_dir: str) -> Manifest:
    """What was set; an empty manifest where nothing was. GuardError for a damaged file."""
    path = path_of(common_dir)
    try:
        document = json.loads(files.read(path))
        body = document["guard"]
        found = Manifest(
            str(body["common"]),
            _added(body["shared"]),
            _added(body["main"]),
            {key: config_edit.from_document(each) for key, each in body["worktrees"].items()},
            tuple(config_edit.from_document(each) for each in body["people"]),
            scripts.is_signed(path, _canonical(body), document["mac"]),
        )
        found = _here(found, common_dir)
        if not found.signed and not all(_is_configuration(each, common_dir) for each in _every(found)):
            raise ValueError("a file that the guard sets nothing in")
        return found
    except FileNotFoundError:
        return Manifest(common_dir)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise GuardError(
            f"the guard's record '{path}' is damaged", "git agentos guard enable, in each worktree, makes it again"
        ) from error


def write(common_dir: str, manifest: Manifest) -> None:
    """Put it down, durably; an empty one is no file."""
    path = path_of(common_dir)
    if manifest.empty:
        scripts.remove(path)
        return
    body = {
        "version": _VERSION,
        "common": manifest.common,
        "shared": _document(manifest.shared),
        "main": _document(manifest.main),
        "worktrees": {key: each.document() for key, each in manifest.worktrees.items()},
        "people": [each.document() for each in manifest.people],
    }
    text = json.dumps({"guard": body, "mac": scripts.sign(_canonical(body))}, indent=1) + "\n"
    scripts.write(path, text.encode("ascii"), 0o644)


def key_of(common_dir: str, git_dir: str) -> str | None:
    """What a worktree is called here: git's name for it and what tells it from a later one of that name, `.` for the
    main one; None where it is not there.

    git writes `commondir` once, when it makes the entry.
    """
    if git_dir == common_dir:
        return MAIN
    try:
        found = os.lstat(os.path.join(git_dir, "commondir"))
    except OSError:
        return None
    return f"{os.path.basename(git_dir)} {found.st_ino}-{found.st_mtime_ns}"


def _here(found: Manifest, common_dir: str) -> Manifest:
    """The manifest with paths and keys as they are now."""
    if found.common != common_dir:
        before = found.common + os.sep

        def here(added: Added) -> Added:
            inside = added.path.startswith(before)
            return added._replace(path=os.path.join(common_dir, added.path[len(before) :])) if inside else added

        found = found._replace(
            shared=found.shared and here(found.shared),
            main=found.main and here(found.main),
            worktrees={key: here(each) for key, each in found.worktrees.items()},
            people=tuple(map(here, found.people)),
        )
    worktrees = {}
    for key, added in found.worktrees.items():
        now = key_of(common_dir, os.path.dirname(added.path))
        if now is not None and now not in found.worktrees and (_has_block(added) or _same_time(key, now)):
            worktrees[now] = added
        else:
            worktrees[key] = added
    return found._replace(worktrees=worktrees)


def _same_time(key: str, now: str) -> bool:
    """Whether two keys are those of one worktree before and after a copy that keeps times, perhaps in whole seconds."""
    before, after = (each.rpartition("-")[2] for each in (key, now))
    return before == after or (after.endswith("000000000") and before[:-9] == after[:-9])


def _every(found: Manifest) -> list[Added]:
    return [each for each in (found.shared, found.main, *found.worktrees.values(), *found.people) if each is not None]


def _is_configuration(added: Added, common_dir: str) -> bool:
    """Whether the guard sets anything in a file of this name."""
    folder, name = os.path.split(added.path)
    if name == "config.worktree":
        return folder == common_dir or os.path.dirname(folder) == os.path.join(common_dir, "worktrees")
    return added.path in (os.path.join(common_dir, "config"), os.path.join(scripts.folder(common_dir), "people.config"))


def _has_block(added: Added) -> bool:
    try:
        return added.block in (config_edit.read(added.path) or b"")
    except (OSError, GuardError):
        return False


def _added(document: dict[str, Any] | None) -> Added | None:
    return None if document is None else config_edit.from_document(document)


def _document(added: Added | None) -> dict[str, Any] | None:
    return None if added is None else added.document()


def _canonical(body: Any) -> bytes:
    return json.dumps(body, sort_keys=True).encode("ascii")
