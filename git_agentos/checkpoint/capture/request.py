"""The request for a capture."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from git_agentos.checkpoint.nested import NestedOptions
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.progress import SILENT

if TYPE_CHECKING:
    from git_agentos.checkpoint.capture.listing import Listing
    from git_agentos.checkpoint.capture.observer import CaptureObserver
    from git_agentos.util.progress import Progress


class CaptureRequest(NamedTuple):
    """What a capture holds beyond the visible state, and how it treats repositories inside the worktree.

    `ignored` names ignored files to save, whatever their size; `revealed` ignored files that are saved unless they are
    too large; `repositories` ignored repositories. `everything_ignored` takes all ignored files and repositories.
    `complete` takes, beyond these, files of any size, all directories and their permission bits. `reread` names files
    that are read even if git calls them unmodified. `listing` is a listing of the worktree's directories that was just
    made, `permissions` the bits that files had before they were made readable for this capture.

    `nested` says how repositories inside are treated. `observer` is told what git has found, `progress` how
    far the capture is.
    """

    ignored: frozenset[bytes] = frozenset()
    revealed: frozenset[bytes] = frozenset()
    repositories: frozenset[bytes] = frozenset()
    everything_ignored: bool = False
    complete: bool = False
    reread: frozenset[bytes] = frozenset()
    listing: Listing | None = None
    permissions: Mapping[bytes, int] = MappingProxyType({})
    nested: NestedOptions = NestedOptions()
    observer: CaptureObserver | None = None
    progress: Progress = SILENT

    def for_inner(self) -> CaptureRequest:
        """The request for a repository inside the worktree."""
        none: frozenset[bytes] = frozenset()
        return self._replace(
            ignored=none,
            revealed=none,
            repositories=none,
            reread=none,
            listing=None,
            permissions={},
            observer=None,
            nested=self.nested._replace(inside_another=True),
        )
