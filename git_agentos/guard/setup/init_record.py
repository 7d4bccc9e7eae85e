"""The record of what `git agentos init` has set up in a repository: `<common dir>/agentos/init.json`.

    hooks      what was installed before: `none`, `record`, or `save` (`hooks install --save`)
    harnesses  a harness whose hooks are in every worktree -> the worktrees that had them before
    trusted    the harnesses that were told to trust our hooks, outside of the repository
    watch      whether commands started a watch daemon before; null where `init` was told to start none

It is written before anything else is, and removed last: so `init` completes what a kill has left, and `init --remove`
takes back what was not there before. It is signed (`own_files`); one that is not counts as none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from git_agentos.guard.setup import own_files
from git_agentos.util import directories
from git_agentos.util.named_tuple import NamedTuple

NONE, RECORD, SAVE = "none", "record", "save"


class InitRecord(NamedTuple):
    """See the module."""

    hooks: str = NONE
    harnesses: Mapping[str, tuple[str, ...]] = {}
    trusted: tuple[str, ...] = ()
    watch: bool | None = None


def path_of(common_dir: str) -> str:
    return os.path.join(common_dir, "agentos", "init.json")


def read(common_dir: str) -> InitRecord | None:
    """The record; None where there is none, or it is not this user's."""
    try:
        body, is_signed = own_files.read_signed(path_of(common_dir), "init")
        if not is_signed:
            return None
        return InitRecord(
            str(body["hooks"]),
            {str(name): tuple(map(str, roots)) for name, roots in body["harnesses"].items()},
            tuple(map(str, body["trusted"])),
            None if body["watch"] is None else body["watch"] is True,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def write(common_dir: str, record: InitRecord) -> None:
    path = path_of(common_dir)
    directories.make_own(os.path.dirname(path))
    body = {
        "hooks": record.hooks,
        "harnesses": {name: list(roots) for name, roots in record.harnesses.items()},
        "trusted": list(record.trusted),
        "watch": record.watch,
    }
    own_files.write(path, own_files.signed_json("init", body), 0o644)


def remove(common_dir: str) -> None:
    own_files.remove(path_of(common_dir))


def is_watched(common_dir: str) -> bool:
    """Whether the watch daemon creates checkpoints in every worktree, guarded or not."""
    record = read(common_dir)
    return record is not None and record.watch is not None
