"""The scan of a worktree that git has just checked out, and in which nothing has changed since.

Nothing differs from the commit, so git need not run. It would read every file again, because their stat data is as
young as the index (racy-git in git's technical documentation).
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from git_agentos.git import index_entries, version
from git_agentos.git.location import Location
from git_agentos.git.scan import Scan, ScanResult
from git_agentos.util.values import parse_boolean

# With other values, a checkout may write files that differ from the commit, leave files out, or mark entries.
_USUAL = {
    "core.symlinks": True,
    "core.filemode": True,
    "core.ignorecase": False,
    "core.precomposeunicode": False,
    "core.ignorestat": False,
    "core.sparsecheckout": False,
}


class FreshCheckout(Scan):
    """A scan that finds no difference, without starting git."""

    def __init__(self, location: Location, commit: str, config: Mapping[str, list[str]]) -> None:
        self.location = location
        self.index_stamp = index_entries.stamp(location)
        self._commit = commit
        self._config_values = dict(config)

    def discard(self) -> None:
        """Do nothing: there is no process to stop."""

    def read(self) -> ScanResult:
        git_version = version.read()
        version.require(git_version)
        return ScanResult(self._commit, tracks_attributes=True, config=self.config(), git_version=git_version)


def start_scan(location: Location, commit: str, config: Mapping[str, list[str]]) -> Scan:
    """The scan of such a worktree, at this commit and with this configuration. git scans it if the file system or the
    configuration may have made files differ from the commit."""
    usual = all(key not in config or parse_boolean(config[key][-1]) is usual for key, usual in _USUAL.items())
    # git has recorded the properties of the file system that the repository is on; case sensitivity can differ from
    # folder to folder.
    probed = os.stat(location.root).st_dev == os.stat(location.common_dir).st_dev
    folds_case = os.path.lexists(os.path.join(location.root, ".GIT"))
    if not usual or not probed or folds_case or index_entries.may_have_gitlinks(location.git_dir):
        return Scan(location)
    return FreshCheckout(location, commit, config)
