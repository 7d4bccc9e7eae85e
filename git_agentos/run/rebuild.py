"""Rebuilding a run's worktree where it is damaged or missing, so that it can be saved and rolled back:

    folder              missing: made; a file, a link or another worktree in its place: renamed, beside it
    `.git` in it        missing or wrong: written; a repository that was made there: set aside
    git's entry         missing: made, with HEAD on the run's branch and the branch's index; what of it is damaged
                        (HEAD, index, the path to the repository): set aside, and made again
    the branch          unreadable, or at a commit that is missing: set aside
    locks               those of processes that are proven to have ended are removed
    config.worktree     as it was recorded; an edited one is set aside

Nothing is deleted: what is set aside is in `<git dir>/agentos/kept/`. The rollback that follows saves
what can be read; what cannot is named in `not_saved`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from git_agentos.checkpoint import journal
from git_agentos.checkpoint.model import Skipped
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, GitCommandError, MissingObjectsError, RepositoryError, RunError
from git_agentos.git import (
    configuration,
    dates,
    lockfile,
    process,
    refs,
    stale_locks,
    state_dir,
    worktrees,
)
from git_agentos.git.location import Location
from git_agentos.git.refs import reflog
from git_agentos.guard.setup import activation
from git_agentos.run import baseline, evidence_store
from git_agentos.run.baseline import Baseline
from git_agentos.run.context import WorkspaceContext, worktree_id
from git_agentos.store import database_path
from git_agentos.util import directories, times
from git_agentos.worktree import layout, record
from git_agentos.worktree.record import AgentWorktree, Record

# Settings of a sparse checkout: state of the worktree, which the rollback itself restores.
_SPARSE = ("core.sparsecheckout", "core.sparsecheckoutcone", "index.sparse")
_MISSING = "it was missing: what was in it could not be saved"


@dataclass
class Rebuilt:
    """The worktree as it is now: `inner` is the acting context in it (None in a dry run that would have to rebuild it).

    `recreated`: its folder or git's entry was missing; `damaged`: that, or anything else of it had to be corrected. The
    save has to keep `commits`.
    """

    inner: OpenWorktree | None = None
    recreated: bool = False
    damaged: bool = False
    not_saved: list[Skipped] = field(default_factory=list)
    commits: list[str] = field(default_factory=list)
    baseline: Baseline | None = None


def rebuild_worktree(context: OpenWorktree, run: WorkspaceContext, *, dry_run: bool) -> Rebuilt:
    """Rebuild the run's worktree as far as it is damaged."""
    return _Rebuilding(context, run, dry_run=dry_run).rebuild()


def restore_config(rebuilt: Rebuilt, inner: OpenWorktree, run: WorkspaceContext) -> None:
    """After the rollback: restore the worktree's own configuration as it was recorded, and the guard, which is enabled
    exactly if the run is guarded; where that is not known, what there is of it is updated."""
    location, known = inner.location, rebuilt.baseline
    if known is not None and not baseline.is_config_recorded(location, known):
        baseline.restore_config(location, known)
    try:
        is_enabled = activation.is_enabled(location)
    except AgentosError:
        is_enabled = True  # it cannot be read, so it is enabled again
    if _begun(inner, run).get("guard", is_enabled):
        activation.enable(location)
    elif is_enabled:
        activation.disable(location)
    if rebuilt.recreated or known is None:
        baseline.record(inner)


def set_aside(location: Location, path: str, what: str) -> str:
    """Move a file or folder into the worktree's git directory; its new path."""
    folder = directories.make_own(os.path.join(location.git_dir, "agentos"))
    folder = directories.make_own(os.path.join(folder, "kept"))
    target = os.path.join(folder, f"{what}-{times.name_stamp()}-{os.urandom(2).hex()}")
    shutil.move(path, target)
    return target


def unlock(
    location: Location, run: WorkspaceContext, *, killed: bool = False, patience: float = stale_locks.PATIENCE
) -> dict[str, str]:
    """Remove the locks that killed processes left in a run's worktree and on its branch: ours, and git's where all
    processes that may have made them have ended (`stale_locks`). With `killed`, processes of the run were ended: what
    else they may have locked is looked for, in repositories inside of the worktree and in what all worktrees share. The
    git locks that stay, and why."""
    lockfile.remove_stale(location)
    candidates = [*stale_locks.of_worktree(location), *stale_locks.of_ref(location, layout.HEADS + run.branch_name)]
    if killed:
        candidates += stale_locks.of_repositories_inside(location)
        candidates += stale_locks.shared(location, dates.parse(location, run.created_at).timestamp())
    found = stale_locks.remove(location, candidates, patience=patience)
    return {path: reason for path, reason in found.items() if reason is not None and os.path.lexists(path)}


class _WouldChange(Exception):
    """A dry run has found something to correct."""


class _Rebuilding:
    def __init__(self, context: OpenWorktree, run: WorkspaceContext, *, dry_run: bool) -> None:
        self.context = context
        self.run = run
        self.dry_run = dry_run
        self.common = context.location.common_dir
        self.id = worktree_id(run.run_id)
        self.ref = layout.HEADS + run.branch_name
        self.result = Rebuilt()
        self.folder_made = False  # its folder had to be made
        self.location: Location

    def rebuild(self) -> Rebuilt:
        try:
            with worktrees.lock(self.context.location):
                git_dir = self._entry()
                root = self._folder(git_dir)
                if git_dir is None:
                    git_dir = self._make_entry(root)
                self.location = self.context.location.worktree(root, git_dir)
                self._connect()
                self._move_inner_worktrees()
                self._own_folder()
                self._record()
                self._locks()
                self._branch()
                self._head()
            self.result.baseline = baseline.read(self.location)
            self._configuration()
            self._index()
            self._checkout_files()
        except _WouldChange:
            return self.result
        self.result.inner = self._inner()
        return self.result

    # -- small things ----------------------------------------------------------------------------------------------

    def _require_write(self) -> None:
        """Something is about to be rebuilt."""
        self.result.damaged = True
        if self.dry_run:
            raise _WouldChange

    def _add_not_saved(self, path: str, reason: str) -> None:
        self.result.not_saved.append(Skipped(path, reason))

    def _set_aside(self, path: str, what: str, reason: str) -> None:
        self._add_not_saved(what, f"{reason}: it is at '{set_aside(self.location, path, what)}' now")

    # -- the folder and the entry ----------------------------------------------------------------------------------

    def _entry(self) -> str | None:
        """git's entry of the worktree, found by its id, else by its folder; None where there is none."""
        entries = list(worktrees.linked_git_dirs(self.common))
        for git_dir in entries:
            if record.id_of(git_dir) == self.id:
                return git_dir
        for git_dir in entries:
            # What we had written into it is gone.
            named = os.path.basename(git_dir) == self.id or self._is_on_branch(git_dir)
            if named and record.id_of(git_dir) is None and worktrees.root_or_none(git_dir) == self.run.worktree_path:
                return git_dir
        return None

    def _is_on_branch(self, git_dir: str) -> bool:
        with contextlib.suppress(RepositoryError):
            return refs.read_head(self.context.location.worktree("", git_dir)).ref == self.ref
        return False

    def _folder(self, git_dir: str | None) -> str:
        """The worktree's folder, which exists afterwards."""
        root = self.run.worktree_path
        if git_dir is not None:
            moved = worktrees.root_or_none(git_dir)
            if moved is not None and os.path.isdir(moved) and not os.path.islink(moved) and _leads_to(moved, git_dir):
                return os.path.realpath(moved)
        if os.path.islink(root) or (os.path.lexists(root) and not os.path.isdir(root)):
            self._move_aside(root, "something else was in the place of the worktree's folder")
        elif os.path.isdir(root) and self._is_foreign(root, git_dir):
            self._move_aside(root, "another worktree was in the place of this one's folder")
        if not os.path.lexists(root):
            self._require_write()
            self.result.recreated = self.folder_made = True
            self._add_not_saved(root, "the folder was missing: what was in no commit and not staged could not be saved")
            os.makedirs(root)
        return root

    def _is_foreign(self, root: str, git_dir: str | None) -> bool:
        """Whether the folder is another worktree, with an entry that leads to it."""
        target = worktrees.read_gitfile(root)
        if target is None or not os.path.isdir(target) or git_dir == target:
            return False
        return worktrees.root_or_none(target) == root and record.id_of(target) != self.id

    def _move_aside(self, path: str, why: str) -> None:
        """Rename what is in the folder's place; links are not followed."""
        self._require_write()
        target = f"{path}.aside-{times.name_stamp()}-{os.urandom(2).hex()}"
        foreign = worktrees.read_gitfile(path) if not os.path.islink(path) and os.path.isdir(path) else None
        os.rename(path, target)
        if foreign is not None and worktrees.root_or_none(foreign) == path:
            worktrees.relink(foreign, target)
        self._add_not_saved(path, f"{why}: it is at '{target}' now")

    def _make_entry(self, root: str) -> str:
        """An entry for the folder, on the run's branch."""
        self._require_write()
        self.result.recreated = True
        self._add_not_saved("HEAD, index", "git's entry of the worktree was missing: what it knew could not be saved")
        folder = os.path.join(self.common, "worktrees")
        os.makedirs(folder, exist_ok=True)
        name = base = os.path.basename(root)
        n = 0
        while os.path.lexists(os.path.join(folder, name)):
            n += 1
            name = f"{base}{n}"
        git_dir = os.path.join(folder, name)
        os.mkdir(git_dir)
        worktrees.write_entry(self.context.location.worktree(root, git_dir), refs.Head(self.ref, None))
        record.name(git_dir, self.id)
        return git_dir

    def _connect(self) -> None:
        """Link the folder and the entry to each other, and the entry to its repository."""
        location = self.location
        dot_git = os.path.join(location.root, ".git")
        if os.path.islink(dot_git) or os.path.isdir(dot_git):
            self._require_write()
            kept = set_aside(location, dot_git, "dot-git")
            self._add_not_saved(dot_git, f"it was not the worktree's own: it is at '{kept}' now")
        if not _leads_to(location.root, location.git_dir) or worktrees.root_or_none(location.git_dir) != location.root:
            self._require_write()
            worktrees.relink(location.git_dir, location.root)
        if not worktrees.leads_to_common_dir(location.git_dir, location.common_dir):
            self._require_write()
            worktrees.write_common_dir(location.git_dir)

    def _move_inner_worktrees(self) -> None:
        """Move other worktrees of the repository, which were made inside of this one, beside it: no checkpoint holds
        them."""
        for git_dir in worktrees.linked_git_dirs(self.common):
            root = worktrees.root_or_none(git_dir)
            if git_dir == self.location.git_dir or root is None or not layout.is_inside(root, self.location.root):
                continue
            if os.path.isdir(root) and not os.path.islink(root) and _leads_to(root, git_dir):
                self._require_write()
                target = f"{self.location.root}.{os.path.basename(root)}-{times.name_stamp()}-{os.urandom(2).hex()}"
                os.rename(root, target)
                worktrees.relink(git_dir, target)
                self._add_not_saved(root, f"another worktree of this repository: it is at '{target}' now")

    def _own_folder(self) -> None:
        """Set aside what has the name of our own folder in the worktree and is no folder."""
        path = os.path.join(self.location.root, ".agentos")
        if os.path.islink(path) or (os.path.lexists(path) and not os.path.isdir(path)):
            self._require_write()
            kept = set_aside(self.location, path, "dot-agentos")
            self._add_not_saved(path, f"it was no folder: it is at '{kept}' now")
        if os.path.isdir(path) and not os.path.lexists(os.path.join(path, ".gitignore")) and not self.dry_run:
            with contextlib.suppress(AgentosError):
                database_path.ensure_folder(self.location.root)  # git would see it otherwise

    def _record(self) -> None:
        """Write the worktree's record, where it is missing or damaged."""
        git_dir = self.location.git_dir
        with contextlib.suppress(AgentosError):
            known = record.read(git_dir)
            if known is not None and known.id == self.id and record.id_of(git_dir) == self.id:
                return
        self._require_write()
        run, begun = self.run, _begun(self.context, self.run)
        made = Record(
            id=self.id,
            branch=run.branch_name,
            path=run.worktree_path,
            base_ref=run.base_ref,
            base_sha=run.base_sha,
            created_at=run.created_at,
            created_by=self.context.agent,
            task=run.task_id,
            protected=[str(each) for each in begun.get("protected") or ()],
            run_id=run.run_id,
        )
        record.write(git_dir, made)

    # -- what git keeps in the entry -------------------------------------------------------------------------------

    def _locks(self) -> None:
        if not self.dry_run:
            unlock(self.location, self.run)
            state_dir.remove_abandoned(self.location)
            journal.remove_unfinished(self.location)

    def _branch(self) -> None:
        """Set aside the run's branch, where it cannot be read."""
        path = os.path.join(self.location.common_dir, self.ref)
        try:
            present = refs.resolve(self.location, self.ref)
            if present is None or self._has(present):
                return
            reason = f"it led to {present[:8]}, which is not there"
        except RepositoryError:
            reason = "it could not be read"
        self._require_write()
        if os.path.isfile(path) and not os.path.islink(path):
            reason += f": it is at '{set_aside(self.location, path, 'branch')}' now"
        self._add_not_saved(self.ref, reason)
        try:
            present = refs.resolve(self.location, self.ref)
        except RepositoryError:
            refs.repair(self.context.location, self.ref, None)
        else:
            if present is not None and not self._has(present):
                refs.drop(self.context.location, self.ref, present)
        self.result.commits += self._last_commits()

    def _head(self) -> None:
        """Put HEAD on the run's branch, where it leads neither to a branch nor to an existing commit."""
        path = os.path.join(self.location.git_dir, "HEAD")
        try:
            found = refs.read_head(self.location)
            valid = found.ref is None or found.ref.startswith(layout.HEADS)
            if valid and (found.commit is None or self._has(found.commit)):
                return
            reason = "it led to a commit that is not there"
        except (AgentosError, OSError):
            reason = "it could not be read"
        self._require_write()
        if os.path.lexists(path):
            self._set_aside(path, "HEAD", reason)
        else:
            self._add_not_saved("HEAD", _MISSING)
        refs.rebuild_head(self.location, refs.Head(self.ref, None))
        self.result.commits += self._last_commits()

    def _index(self) -> None:
        """Make the index again, where git cannot read it."""
        path, known = os.path.join(self.location.git_dir, "index"), self.result.baseline
        is_file = os.path.isfile(path) and not os.path.islink(path)
        if is_file and self._can_read_index():
            return
        self._require_write()
        if is_file:
            self._set_aside(path, "index", "git could not read it")
        else:
            if os.path.lexists(path):
                set_aside(self.location, path, "index")
            self._add_not_saved("index", _MISSING)
        if known is not None:
            # Entries that are unchanged keep their stat data: their files need not be read.
            shutil.copyfile(known.copy, path)
            if self._can_read_index():
                # No entry is older than this file, so git trusts none. (With time 0 it would trust each.)
                os.utime(path, (1, 1))
                return
            os.unlink(path)
            self.result.baseline = None
        commit = refs.read_head(self.location).commit or self.run.base_sha
        process.run(["read-tree", commit], cwd=self.location.root, env=self.location.environment())

    def _can_read_index(self) -> bool:
        with contextlib.suppress(GitCommandError):
            process.run(["ls-files", "--unmerged", "-z"], cwd=self.location.root, env=self.location.environment())
            return True
        return False

    def _checkout_files(self) -> None:
        """Check out the files of a folder that was missing, as the index has them."""
        if self.folder_made:
            args = ["checkout-index", "--all", "--force", "--quiet", "--index"]
            with contextlib.suppress(GitCommandError):  # a filter fails, or conflicts are left out
                process.run(args, cwd=self.location.root, env=self.location.environment())

    def _has(self, commit: str) -> bool:
        try:
            return self.context.repository.read(commit)[0] == "commit"
        except (MissingObjectsError, RepositoryError):
            return False

    def _last_commits(self) -> list[str]:
        """The last commits of the branch and of HEAD by their reflogs."""
        found = []
        for name in (self.ref, "HEAD"):
            for each in reversed(reflog.parse(refs.read_log(self.location, name))):
                if each.new.strip("0") and self._has(each.new):
                    found.append(each.new)
                    break
        return found

    # -- its configuration -----------------------------------------------------------------------------------------

    def _configuration(self) -> None:
        """Restore the worktree's own settings, which decide how files are read and written from here on. Those of a
        sparse checkout are state, which the rollback itself restores."""
        path, known = baseline.config_path(self.location), self.result.baseline
        values: Mapping[str, list[str]] = {}
        try:
            values = configuration.read_file(path)
        except AgentosError:
            if known is None:
                self._require_write()
                self._set_aside(path, "config.worktree", "git could not read it")
        if known is None or self.dry_run or baseline.is_config_recorded(self.location, known):
            return
        if os.path.lexists(path):
            self._set_aside(path, "config.worktree", "it was edited")
        baseline.restore_config(self.location, known)
        for key in _SPARSE:
            if key in values:
                process.run(["config", "--file", path, key, values[key][-1]], cwd=self.location.root)

    def _inner(self) -> OpenWorktree:
        managed = record.read(self.location.git_dir)
        if managed is None:
            raise RunError(f"the worktree of run '{self.run.run_id}' has no record", "try again")
        there = AgentWorktree(managed, self.location.git_dir, self.location.root, self.common)
        return self.context.in_worktree(there.location)


def _leads_to(root: str, git_dir: str) -> bool:
    return not os.path.islink(os.path.join(root, ".git")) and worktrees.is_linked(root, git_dir)


def _begun(context: OpenWorktree, run: WorkspaceContext) -> Mapping[str, Any]:
    """The event `begun` of the run; empty where the record does not have it any more."""
    with contextlib.suppress(AgentosError, OSError):
        return evidence_store.open_to_read(context.location, run.run_id).state().begun or {}
    return {}
