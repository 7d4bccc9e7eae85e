"""The checks of one worktree: its entry (`<common dir>/worktrees/<name>`), its folder, its record and its index.

Each finding is fixed before the next check runs (`findings`). What is rebuilt is first moved out of the way
(`damaged`). The codes are those of `doctor`; `worktree repair` leaves `worktree-` out.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from shlex import quote

from git_agentos.checkpoint import journal
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, WorktreeError
from git_agentos.findings import Finding, Fixable, reason_of, repairable
from git_agentos.git import refs, worktrees
from git_agentos.process import deletion, occupants
from git_agentos.util import files, times
from git_agentos.worktree import damaged, index_repair, layout, record, removal_checks, revival, trash
from git_agentos.worktree.record import Record

_INITIALIZING = "initializing"
_LONGEST = 1 << 16


def check_entry(context: OpenWorktree, git_dir: str, id_: str) -> Iterator[Finding | Fixable]:
    """What is wrong with the agent's worktree `id_`, whose entry is `git_dir`."""
    one = _Entry(context, git_dir, id_)
    for check in (one.trashed, one.common_dir, one.head, one.record, one.folder, one.index, one.interrupted_restore):
        yield from check()


def check_initializing(git_dir: str, id_: str, places: list[str]) -> Iterator[Finding | Fixable]:
    """A killed `git worktree add` leaves its entry locked, and half-made. `places` are where a git may work."""
    path = os.path.join(git_dir, "locked")
    try:
        if files.read(path, limit=_LONGEST).strip() != _INITIALIZING.encode():
            return
    except OSError:
        return
    reason = occupants.why_not_stale(path, places)
    if reason is not None:
        message = f"the worktree '{id_}' is being made: {reason}"
        yield Finding("worktree-initializing", "warning", message, "wait for it")
        return
    root = worktrees.root_or_none(git_dir)

    def unlock_or_remove() -> str:
        if os.path.lexists(os.path.join(git_dir, "index")) or not _has_no_files(root):
            os.unlink(path)
            return "it is unlocked, its files may not all be there"
        if root is not None and os.path.isdir(root):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(root, ".git"))
            os.rmdir(root)
        deletion.remove_folder(git_dir)
        return "nothing was in it yet, and it is removed"

    message = f"'git worktree add' was killed while it made the worktree '{id_}'"
    yield repairable(id_, "worktree-initializing", "warning", message, unlock_or_remove)


class _Entry:
    """One worktree that is checked."""

    def __init__(self, context: OpenWorktree, git_dir: str, id_: str) -> None:
        self.context = context
        self.git_dir = git_dir
        self.id = id_
        self.location = context.location.worktree("", git_dir)

    def path(self, name: str) -> str:
        return os.path.join(self.git_dir, name)

    def rebuild_file(self, name: str, text: str) -> str:
        """Write a file again; returns, as text, where its former content is kept."""
        kept = damaged.set_aside(self.context.location, self.path(name))
        files.replace(self.path(name), os.fsencode(text))
        return damaged.describe(kept)

    # -- a removal that was killed ---------------------------------------------------------------------------------

    def trashed(self) -> Iterator[Fixable]:
        """A removal that was killed, and whose journal was lost, may have moved the folder into the trash."""
        folder, root = trash.marked(self.git_dir), worktrees.root_or_none(self.git_dir)
        if folder is None or root is None or os.path.lexists(root) or not os.path.isdir(folder):
            return
        if os.path.basename(os.path.dirname(folder)) != trash.FOLDER:
            return

        def move_back() -> str:
            os.rename(folder, root)
            trash.unmark(self.git_dir)
            return "it was moved back"

        message = f"the folder of the worktree '{self.id}' is in the trash: '{folder}'"
        yield repairable(self.id, "worktree-interrupted", "error", message, move_back)

    # -- what git needs to see an entry at all ---------------------------------------------------------------------

    def common_dir(self) -> Iterator[Fixable]:
        if worktrees.leads_to_common_dir(self.git_dir, self.context.location.common_dir):
            return

        def rewrite() -> str:
            return "it does again" + self.rebuild_file("commondir", "../..\n")

        message = f"the entry of the worktree '{self.id}' does not say to which repository it belongs"
        yield repairable(self.id, "worktree-damaged-entry", "error", message, rewrite)

    def head(self) -> Iterator[Fixable]:
        if refs.has_head(self.location):
            return

        def rebuild() -> str:
            head, words = self._last_head()
            kept = damaged.set_aside(self.context.location, self.path("HEAD"))
            refs.rebuild_head(self.location, head)
            return f"it is {words} again" + damaged.describe(kept)

        message = f"HEAD of the worktree '{self.id}' is missing or damaged"
        yield repairable(self.id, "worktree-damaged-head", "error", message, rebuild)

    def _last_head(self) -> tuple[refs.Head, str]:
        """HEAD as the newest checkpoint has it, else on the worktree's own branch."""
        with contextlib.suppress(AgentosError):
            last = revival.ended(self.context, self.id).last
            if last.branch is None and last.commit is not None:
                return refs.Head(None, last.commit), f"at {last.commit[:8]}"
            if last.branch is not None:
                return refs.Head(layout.HEADS + last.branch, None), f"on branch '{last.branch}'"
        branch = record.BRANCHES + self.id
        with contextlib.suppress(AgentosError):
            known = record.read(self.git_dir) or record.record_from_timeline(self.context.repository, self.id)
            branch = known.branch if known is not None else branch
        return refs.Head(layout.HEADS + branch, None), f"on branch '{branch}'"

    # -- the record ------------------------------------------------------------------------------------------------

    def record(self) -> Iterator[Fixable]:
        try:
            known = record.read(self.git_dir)
        except WorktreeError:
            known = None
        if known is not None and record.id_of(self.git_dir) == known.id:
            return

        def rebuild() -> str:
            kept = [damaged.set_aside(self.context.location, self.path("agentos/id"))]
            if known is None:
                kept.append(damaged.set_aside(self.context.location, self.path("agentos/worktree.json")))
            record.write(self.git_dir, known or self._rebuilt_record())
            return "it was rebuilt from its checkpoints" + damaged.describe(*kept)

        message = f"the record of the worktree '{self.id}' is missing or damaged"
        yield repairable(self.id, "worktree-damaged-record", "error", message, rebuild)

    def _rebuilt_record(self) -> Record:
        try:
            known = revival.last_record(self.context, self.id)
        except AgentosError:
            head = refs.read_head(self.location)
            branch = head.branch or record.BRANCHES + self.id
            commit = head.commit or ""
            known = Record(self.id, branch, "", commit, commit, times.now_text(), self.context.agent)
        return replace(known, id=self.id, path=worktrees.root_or_none(self.git_dir) or known.path)

    # -- the folder ------------------------------------------------------------------------------------------------

    def folder(self) -> Iterator[Finding | Fixable]:
        """The folder and the entry point at each other."""
        here, git_dir = self.context.location, self.git_dir
        root = worktrees.root_or_none(git_dir)
        if here.git_dir == git_dir and (root is None or os.path.realpath(root) != here.root):
            yield self._moved(here.root)
        elif root is not None and os.path.islink(root) and worktrees.is_linked(root, git_dir):
            yield self._moved(os.path.realpath(root))
        elif root is None or os.path.islink(root) or removal_checks.is_missing(root):
            found = self._search()
            yield self._moved(found) if found is not None else self._missing(root)
        else:
            owner = worktrees.find_other_owner(root, git_dir, here.common_dir)
            yield from self._disconnected(root) if owner is None else [self._taken(root, owner)]

    def _taken(self, root: str, owner: str) -> Finding | Fixable:
        """The folder belongs to something else by now."""
        found = self._search() or self._search_copy(root)
        if found is not None:
            return self._moved(found)
        message = f"'{root}' is no longer the worktree '{self.id}': {owner}"
        hint = (
            f"move that away, then bring the worktree's folder back; if it is gone for good,"
            f" 'git agentos worktree repair {self.id}' says then what is saved"
        )
        return Finding("worktree-folder-taken", "error", message, hint)

    def _disconnected(self, root: str) -> Iterator[Fixable]:
        if worktrees.is_linked(root, self.git_dir):
            return

        def relink() -> str:
            kept = damaged.set_aside(self.context.location, os.path.join(root, ".git"))
            worktrees.relink(self.git_dir, root)
            return "relinked" + damaged.describe(kept)

        message = f"'{os.path.join(root, '.git')}' does not point to the worktree '{self.id}' of this repository"
        yield repairable(self.id, "worktree-disconnected", "warning", message, relink)

    def _moved(self, root: str) -> Fixable:
        is_recorded = worktrees.root_or_none(self.git_dir) is not None

        def update_path() -> str:
            kept = None if is_recorded else damaged.set_aside(self.context.location, self.path("gitdir"))
            worktrees.relink(self.git_dir, root)
            return "path updated" + damaged.describe(kept)

        if is_recorded:
            message = f"the worktree '{self.id}' was moved to '{root}'"
            return repairable(self.id, "worktree-moved", "warning", message, update_path)
        message = f"the entry of the worktree '{self.id}' does not say where its folder is: it is '{root}'"
        return repairable(self.id, "worktree-damaged-entry", "error", message, update_path)

    def _missing(self, root: str | None) -> Finding:
        where = f": '{root}'" if root is not None else ", and its entry does not say where it was"
        hint = "if it was moved, run 'git agentos worktree repair' in it; if it is on a disk, mount that\n"
        what = ""
        with contextlib.suppress(AgentosError):
            last = revival.find_last_state(self.context, self.id, self.location)
            what = f" as checkpoint {last.source[:8]} has it" if last is not None else ""
        hint += f"if it is gone for good: git agentos worktree remove {self.id}, then\n"
        hint += f"git agentos worktree create {self.id} --revive brings it back{what}"
        message = f"the folder of the worktree '{self.id}' is missing{where}"
        return Finding("worktree-missing-folder", "warning", message, hint)

    def _search(self) -> str | None:
        """Where the folder is now, if there is exactly one that says it belongs to this entry."""
        paths = [
            layout.path_of(self.context.location, self.context.settings, self.id),
            worktrees.root_or_none(self.git_dir),
        ]
        with contextlib.suppress(WorktreeError):
            known = record.read(self.git_dir)
            paths.append(known.path if known is not None else None)
        found = set()
        for parent in {os.path.dirname(path) for path in paths if path}:
            with contextlib.suppress(OSError):
                for entry in os.scandir(parent):
                    if entry.is_dir(follow_symlinks=False) and _names_entry(entry.path, self.git_dir):
                        found.add(os.path.realpath(entry.path))
        return found.pop() if len(found) == 1 else None

    def _search_copy(self, root: str) -> str | None:
        """Where the folder is if repository and worktrees were copied: the entry still leads to the original's, and the
        copy lies in the same place beside this repository, where no entry of the original leads."""
        theirs = worktrees.read_gitfile(root)
        if theirs is None or os.path.basename(theirs) != os.path.basename(self.git_dir):
            return None
        original = os.path.dirname(os.path.dirname(theirs))
        folder = os.path.join(self.context.location.common_dir, os.path.relpath(root, os.path.realpath(original)))
        folder = os.path.realpath(folder)
        if not os.path.isdir(folder) or os.path.samefile(folder, root) or not worktrees.is_linked(folder, theirs):
            return None
        owner = worktrees.root_or_none(theirs)
        return folder if owner is not None and os.path.realpath(owner) == os.path.realpath(root) else None

    # -- the index, and a restore ----------------------------------------------------------------------------------

    def index(self) -> Iterator[Fixable]:
        root = worktrees.root_or_none(self.git_dir) or self.git_dir
        yield from index_repair.check(self.context, self.location._replace(root=root), self.id, required=True)

    def interrupted_restore(self) -> Iterator[Finding]:
        folder = quote(worktrees.root_or_none(self.git_dir) or self.git_dir)
        try:
            found = journal.read(self.location)
        except (AgentosError, OSError) as error:
            message = f"the journal of a restore in the worktree '{self.id}' cannot be read: {reason_of(error)[0]}"
            yield Finding("worktree-interrupted-restore", "error", message, f"git -C {folder} agentos doctor --fix")
            return
        if found is not None:
            message = f"a {found.command} in the worktree '{self.id}' was interrupted"
            yield Finding("worktree-interrupted-restore", "error", message, f"git -C {folder} agentos recover")


def _names_entry(folder: str, git_dir: str) -> bool:
    """Whether the `.git` file of a folder names this entry, wherever the repository was when it was written."""
    target = worktrees.read_gitfile(folder)
    if target is None:
        return False
    if os.path.isdir(target):
        return os.path.realpath(target) == os.path.realpath(git_dir)
    return os.path.basename(target) == os.path.basename(git_dir) and (
        os.path.basename(os.path.dirname(target)) == "worktrees"
    )


def _has_no_files(root: str | None) -> bool:
    """Whether there is nothing in a worktree's folder but what `git worktree add` begins with."""
    try:
        return root is None or set(os.listdir(root)) <= {".git"}
    except FileNotFoundError:
        return True
    except OSError:
        return False
