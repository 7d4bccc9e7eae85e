"""Which paths belong to a state: changed, untracked and ignored files, links, repositories and directories."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from git_agentos.checkpoint import nested
from git_agentos.checkpoint.capture.contents import Contents
from git_agentos.checkpoint.capture.request import CaptureRequest
from git_agentos.checkpoint.disk import Disk
from git_agentos.checkpoint.model import Skipped, SkipReason
from git_agentos.checkpoint.paths import is_allowed
from git_agentos.config import Settings
from git_agentos.git import filters, ignore, trees
from git_agentos.git.repository import Repository, Writer
from git_agentos.git.scan import ScanResult
from git_agentos.git.trees import Change, Entry
from git_agentos.util.named_tuple import NamedTuple

if TYPE_CHECKING:
    from git_agentos.checkpoint.capture.listing import Listing


class Paths(NamedTuple):
    """The paths to read: changed tracked files (path -> the mode that git reports), untracked and ignored ones.

    `links` are gitlinks, with the commit that is checked out; `repositories` ignored repositories; `unmodified` files
    to read although git does not report them as modified, with their entries in the index.
    """

    in_worktree: Mapping[bytes, int]
    links: Mapping[bytes, Change]
    untracked: Sequence[bytes]
    ignored: Sequence[bytes]
    repositories: Sequence[bytes]
    unmodified: Mapping[bytes, Entry]


class Selection:
    """The selection of one capture; `skipped` are paths that it leaves out."""

    def __init__(
        self,
        contents: Contents,
        settings: Settings,
        scanned: ScanResult,
        request: CaptureRequest,
        outside: ignore.Outside,
    ) -> None:
        self.contents = contents
        self.repository: Repository = contents.repository
        self.writer: Writer = contents.writer
        self.settings = settings
        self.scanned = scanned
        self.request = request
        self.outside = outside
        self.skipped: list[Skipped] = []
        self.listing: Listing | None = None

    def paths(self, index_tree: str, stages: Iterable[bytes]) -> Paths:
        """The paths to read."""
        scanned = self.scanned
        in_worktree, links = self._worktree_paths()
        untracked = self._storable(scanned.untracked)
        seen = [*in_worktree, *untracked, *(change.path for change in scanned.changed)]
        ignored, repositories = self._ignored_paths(index_tree, self._ignored_attributes(seen, index_tree))
        known = {*in_worktree, *untracked, *ignored, *stages}
        unmodified_entries = {**self._reread(known, index_tree), **scanned.unseen}
        return Paths(in_worktree, links, untracked, ignored, repositories, unmodified_entries)

    def _worktree_paths(self) -> tuple[dict[bytes, int], dict[bytes, Change]]:
        """Tracked files to read (path -> the mode git reports), and gitlinks with the commit that is checked out."""
        files: dict[bytes, int] = {}
        links: dict[bytes, Change] = {}
        for change in self.scanned.changed:
            if change.unstaged in "MTA" and change.worktree_mode != trees.GITLINK:
                files[change.path] = change.worktree_mode
            elif change.unstaged in "MTA":
                commit = nested.head_commit(self.repository.location.root, change.path) or change.index_oid
                if commit is not None:
                    links[change.path] = (trees.GITLINK, commit)
        for conflict in self.scanned.unmerged:
            if conflict.worktree_mode == trees.GITLINK:
                commit = nested.head_commit(self.repository.location.root, conflict.path)
                links[conflict.path] = (trees.GITLINK, commit) if commit else conflict.stages[1]
            elif conflict.worktree_mode:
                files[conflict.path] = conflict.worktree_mode
        return files, links

    def _storable(self, paths: Iterable[bytes]) -> list[bytes]:
        limit = self.settings.max_file_size if not self.request.complete else 0
        kept = []
        for path in paths:
            if not is_allowed(path):
                self.skipped.append(Skipped(os.fsdecode(path), SkipReason.NOT_ALLOWED))
                continue
            if limit and path not in self.request.ignored:
                with contextlib.suppress(OSError):
                    found = os.lstat(self.contents.at(path))
                    if stat.S_ISREG(found.st_mode):
                        if found.st_size > limit:
                            self.skipped.append(Skipped(os.fsdecode(path), SkipReason.TOO_LARGE))
                            continue
                        self.contents.looked_at[path] = found
            kept.append(path)
        return kept

    def _ignored_attributes(self, seen: Sequence[bytes], index_tree: str) -> set[bytes]:
        """Ignored attributes files, at the top and beside changed files: they affect what git reports and checks
        out."""
        visible = {*seen, *self.scanned.untracked}
        return {
            path
            for path in filters.attribute_files(self.repository, seen, self.scanned.config)
            if self.contents.is_file(path)
            and path not in visible
            and is_allowed(path)
            and os.access(self.contents.at(path), os.R_OK)
            and trees.find(self.writer, index_tree, path) is None
        }

    def _ignored_paths(self, index_tree: str, paths: set[bytes]) -> tuple[list[bytes], list[bytes]]:
        """Ignored files to save, `paths` among them, and ignored repositories."""
        paths |= set(self._readable([*self.request.revealed, *self._hidden_rules(index_tree)]))
        repositories: set[bytes] = set()
        if self.settings.include_ignored:
            paths |= set(ignore.matching(self.repository, self.settings.include_ignored))
        if self.request.complete:
            walked = self.list_directories()
            names = set(walked.names)
            if walked.tracked is not None:
                names |= trees.diff(self.writer, index_tree, walked.tracked).keys()
            paths |= set(self._readable(self._not_in_index(names, index_tree) - set(self.scanned.untracked)))
            repositories = set(walked.repositories) - {*self.scanned.nested, *self.scanned.gitlinks}
        elif self.request.everything_ignored:
            files, inner = ignore.untracked_files(self.repository)
            paths |= set(self._readable(set(files) - set(self.scanned.untracked)))
            repositories = set(inner) - set(self.scanned.nested)
        paths -= set(self.scanned.untracked)
        # Files that an operation is about to overwrite must be saved whatever their size.
        saved = [*self._storable(sorted(paths - self.request.ignored)), *sorted(self.request.ignored)]
        repositories |= self.request.repositories - {*self.scanned.nested, *self.scanned.gitlinks}
        return saved, sorted(repositories)

    def _hidden_rules(self, index_tree: str) -> set[bytes]:
        """Ignored files with ignore rules; core.excludesFile can be one."""
        path = self.outside.users_path
        if path is None or not self.contents.is_file(path) or path in self.scanned.untracked or not is_allowed(path):
            return set(self.scanned.hidden_rules)
        return {*self.scanned.hidden_rules, *self._not_in_index([path], index_tree)}

    def _not_in_index(self, names: Iterable[bytes], index_tree: str) -> set[bytes]:
        """The files that are not in the index, as `ls-files --others` would list them."""
        apart = {change.path for change in self.scanned.changed if change.unstaged == "A"}
        apart |= {conflict.path for conflict in self.scanned.unmerged}
        folders: dict[bytes, Mapping[bytes, Entry]] = {}
        found = set()
        for path in names:
            folder, _, name = path.rpartition(b"/")
            if folder not in folders:
                entry = trees.find(self.writer, index_tree, folder) if folder else (trees.DIRECTORY, index_tree)
                inside = entry is not None and entry[0] == trees.DIRECTORY
                folders[folder] = self.writer.entries(entry[1]) if entry is not None and inside else {}
            there = folders[folder].get(name)
            if (there is None or there[0] == trees.DIRECTORY) and path not in apart:
                found.add(path)
        return found

    def _readable(self, paths: Iterable[bytes]) -> list[bytes]:
        """The files that can be read; the caller decides what to do about the others."""
        readable = []
        for path in sorted(paths):
            full = self.contents.at(path)
            if os.access(full, os.R_OK) or os.path.islink(full) or not os.path.lexists(full):
                readable.append(path)
            else:
                self.skipped.append(Skipped(os.fsdecode(path), SkipReason.UNREADABLE))
        return readable

    def _reread(self, seen: set[bytes], index_tree: str) -> dict[bytes, Entry]:
        """Files to read although git calls them unmodified, with their entries in the index."""
        changed = {change.path for change in self.scanned.changed if change.unstaged != "."}
        found: dict[bytes, Entry] = {}
        disk = Disk(self.contents.root)
        for path in sorted(self.request.reread - seen - changed):
            entry = trees.find(self.writer, index_tree, path)
            there = disk.mode(path)
            if entry is None or entry[0] == trees.DIRECTORY or there is None or stat.S_ISDIR(there):
                continue
            found[path] = entry
        return found

    # -- directories --------------------------------------------------------------------------------------------

    def list_directories(self) -> Listing:
        if self.listing is None:
            from git_agentos.checkpoint.capture import listing  # a plain checkpoint lists no directories

            self.listing = self.request.listing or listing.list_directories(self.repository.location.root)
        return self.listing

    def empty_directories(self, walked: Listing | None) -> list[bytes]:
        found = set(self.scanned.empty_directories)
        if walked is None and self.request.everything_ignored:
            walked = self.list_directories()
        if walked is not None:
            found = found.union(walked.empty) - self.scanned.gitlinks.keys()
        return sorted(path for path in found if is_allowed(path))

    def modes_of_folders(self, walked: Listing) -> dict[bytes, int]:
        usual = 0o777 & ~self.contents.umask
        return {path: each.mode for path, each in walked.folders.items() if each.mode != usual}
