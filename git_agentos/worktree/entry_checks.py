"""What can be wrong with one worktree's entry (`<common dir>/worktrees/<name>`) and with its folder, check by check.

A check yields a `Fault`: what was found, and how it is mended, if it can be. Each is mended before the next check
looks. What is made anew is first moved out of the way (`damaged`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from shlex import quote
from typing import NamedTuple

from git_agentos.checkpoint import journal
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, WorktreeError
from git_agentos.git import refs, worktrees
from git_agentos.git.location import Location
from git_agentos.process import deletion, lock_holders
from git_agentos.util import files
from git_agentos.worktree import damaged, index_repair, last_state, layout, pruned, record, removal, trash
from git_agentos.worktree.occupied import taken_by
from git_agentos.worktree.pruned import Pruned
from git_agentos.worktree.record import Record

_INITIALIZING = "initializing"
_LONGEST = 1 << 16


class Fault(NamedTuple):
    """One thing that is wrong: `code` says what, `id` with which worktree (None: with the whole repository).

    `fix` mends it and says in words what was done; where it is None, `hint` says what to do.
    """

    id: str | None
    code: str
    message: str
    fix: Callable[[], str] | None = None
    hint: str | None = None


def faults(context: OpenWorktree, git_dir: str, id_: str) -> Iterator[Fault]:
    """What is wrong with the managed worktree `id_`, whose entry is `git_dir`."""
    one = _Entry(context, git_dir, id_)
    for check in (one.trashed, one.common_dir, one.head, one.record, one.connection, one.index, one.journal):
        yield from check()


def initializing(git_dir: str, id_: str, places: list[str]) -> Iterator[Fault]:
    """A killed `git worktree add` leaves its entry locked, and half-made. `places` is where a git may be at work."""
    path = os.path.join(git_dir, "locked")
    try:
        if files.read(path, limit=_LONGEST).strip() != _INITIALIZING.encode():
            return
    except OSError:
        return
    reason = lock_holders.why_not_stale(path, places)
    if reason is not None:
        yield Fault(id_, "initializing", f"the worktree '{id_}' is being made: {reason}", hint="wait for it")
        return
    message = f"'git worktree add' was killed while it made the worktree '{id_}'"
    root = worktrees.root_or_none(git_dir)

    def fix() -> str:
        if os.path.lexists(os.path.join(git_dir, "index")) or not _is_bare_folder(root):
            os.unlink(path)
            return "it is unlocked, its files may not all be there"
        if root is not None and os.path.isdir(root):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(root, ".git"))
            os.rmdir(root)
        deletion.remove_folder(git_dir)
        return "nothing was in it yet, and it is gone"

    yield Fault(id_, "initializing", message, fix)


def pruned_fault(context: OpenWorktree, one: Pruned) -> Fault:
    """A worktree whose entry was pruned while its folder was away."""
    message = (
        f"the entry of the worktree '{one.id}' was removed (git worktree prune), and its folder is there: '{one.root}'"
    )
    return Fault(one.id, "pruned-entry", message, lambda: pruned.bring_back(context, one))


def index_faults(context: OpenWorktree, location: Location, id_: str, *, wanted: bool = True) -> Iterator[Fault]:
    """An index that git cannot read; `wanted`: also one that is not there."""
    found = index_repair.examine(context, location, id_, wanted=wanted)
    if found is not None:
        yield Fault(id_, "damaged-index", found.message, found.fix)


class _Entry:
    """One worktree that is looked over."""

    def __init__(self, context: OpenWorktree, git_dir: str, id_: str) -> None:
        self.context = context
        self.git_dir = git_dir
        self.id = id_
        self.location = Location("", git_dir, context.location.common_dir)

    def path(self, name: str) -> str:
        return os.path.join(self.git_dir, name)

    def put(self, name: str, text: str) -> str:
        """Make a file anew; where what stood there is kept, as words."""
        kept = damaged.set_aside(self.context.location, self.path(name))
        record.put(self.path(name), text)
        return f"; what stood there is kept in '{kept}'" if kept is not None else ""

    # -- on its way out --------------------------------------------------------------------------------------------

    def trashed(self) -> Iterator[Fault]:
        """A removal that was killed, and whose intent was lost, may have moved the folder into the trash."""
        folder, root = trash.marked(self.git_dir), worktrees.root_or_none(self.git_dir)
        if folder is None or root is None or os.path.lexists(root) or not os.path.isdir(folder):
            return
        if os.path.basename(os.path.dirname(folder)) != trash.FOLDER:
            return

        def fix() -> str:
            os.rename(folder, root)
            trash.unmark(self.git_dir)
            return "it is back in its place"

        yield Fault(self.id, "interrupted", f"the folder of the worktree '{self.id}' is in the trash: '{folder}'", fix)

    # -- what git needs to see an entry at all ---------------------------------------------------------------------

    def common_dir(self) -> Iterator[Fault]:
        if worktrees.leads_to_common_dir(self.git_dir, self.context.location.common_dir):
            return
        message = f"the entry of the worktree '{self.id}' does not say to which repository it belongs"
        yield Fault(self.id, "damaged-entry", message, lambda: "it does again" + self.put("commondir", "../..\n"))

    def head(self) -> Iterator[Fault]:
        if worktrees.is_head(self.path("HEAD")):
            return

        def fix() -> str:
            text, words = self._last_head()
            return f"it is {words} again" + self.put("HEAD", text)

        yield Fault(self.id, "damaged-head", f"HEAD of the worktree '{self.id}' is missing or damaged", fix)

    def _last_head(self) -> tuple[str, str]:
        """HEAD as the newest checkpoint has it, else on the worktree's own branch."""
        with contextlib.suppress(AgentosError):
            last = last_state.ended(self.context, self.id).last
            if last.branch is None and last.commit is not None:
                return last.commit + "\n", f"at {last.commit[:8]}"
            if last.branch is not None:
                return f"ref: {layout.HEADS}{last.branch}\n", f"on branch '{last.branch}'"
        branch = record.BRANCHES + self.id
        with contextlib.suppress(AgentosError):
            known = record.read(self.git_dir) or record.record_from_timeline(self.context.repository, self.id)
            branch = known.branch if known is not None else branch
        return f"ref: {layout.HEADS}{branch}\n", f"on branch '{branch}'"

    # -- the record ------------------------------------------------------------------------------------------------

    def record(self) -> Iterator[Fault]:
        """The record, made anew from what the checkpoints know."""
        try:
            known = record.read(self.git_dir)
        except WorktreeError:
            known = None
        if known is not None and record.id_of(self.git_dir) == known.id:
            return

        def fix() -> str:
            kept = [damaged.set_aside(self.context.location, self.path("agentos/id"))]
            if known is None:
                kept.append(damaged.set_aside(self.context.location, self.path("agentos/worktree.json")))
            record.write(self.git_dir, known or self._remade())
            names = ", ".join(f"'{each}'" for each in kept if each is not None)
            return "it was made anew from its checkpoints" + (f"; what stood there is kept in {names}" if names else "")

        yield Fault(self.id, "damaged-record", f"the record of the worktree '{self.id}' is missing or damaged", fix)

    def _remade(self) -> Record:
        try:
            known = last_state.last_record(self.context, self.id)
        except AgentosError:
            head = refs.read_head(self.location)
            branch = head.branch or record.BRANCHES + self.id
            commit = head.commit or ""
            known = Record(self.id, branch, "", commit, commit, record.now(), self.context.agent)
        return replace(known, id=self.id, path=worktrees.root_or_none(self.git_dir) or known.path)

    # -- the folder ------------------------------------------------------------------------------------------------

    def connection(self) -> Iterator[Fault]:
        """The folder and the entry know each other."""
        here, git_dir = self.context.location, self.git_dir
        root = worktrees.root_or_none(git_dir)
        if here.git_dir == git_dir and (root is None or os.path.realpath(root) != here.root):
            yield self._moved(here.root)
            return
        if root is not None and os.path.islink(root) and worktrees.is_linked(root, git_dir):
            yield self._moved(os.path.realpath(root))
            return
        if root is not None and not os.path.islink(root) and not removal.is_lost(root):
            taken = taken_by(root, git_dir, here.common_dir)
            if taken is None:
                yield from self._disconnected(root)
                return
            found = self._search() or self._copied(root)
            message = f"'{root}' is no longer the worktree '{self.id}': {taken}"
            hint = (
                f"move that away, then bring the worktree's folder back; if it is gone for good,"
                f" 'git agentos worktree repair {self.id}' says then what is saved"
            )
            yield self._moved(found) if found is not None else Fault(self.id, "folder-taken", message, hint=hint)
            return
        found = self._search()
        yield self._moved(found) if found is not None else self._missing(root)

    def _disconnected(self, root: str) -> Iterator[Fault]:
        if worktrees.is_linked(root, self.git_dir):
            return

        def fix() -> str:
            kept = damaged.set_aside(self.context.location, os.path.join(root, ".git"))
            worktrees.relink(self.git_dir, root)
            return "it does again" + (f"; what stood there is kept in '{kept}'" if kept is not None else "")

        message = f"'{root}' did not know that it is the worktree '{self.id}' of this repository"
        yield Fault(self.id, "disconnected", message, fix)

    def _moved(self, root: str) -> Fault:
        whole = worktrees.root_or_none(self.git_dir) is not None

        def fix() -> str:
            kept = None if whole else damaged.set_aside(self.context.location, self.path("gitdir"))
            worktrees.relink(self.git_dir, root)
            return "it is known there now" + (f"; what stood there is kept in '{kept}'" if kept is not None else "")

        if not whole:
            message = f"the entry of the worktree '{self.id}' does not say where its folder is: it is '{root}'"
            return Fault(self.id, "damaged-entry", message, fix)
        return Fault(self.id, "moved", f"the worktree '{self.id}' was moved to '{root}'", fix)

    def _missing(self, root: str | None) -> Fault:
        where = f": '{root}'" if root is not None else ", and its entry does not say where it was"
        hint = "if it was moved, run 'git agentos worktree repair' in it; if it is on a disk, mount that\n"
        what = ""
        with contextlib.suppress(AgentosError):
            last = last_state.find(self.context, self.id, self.location)
            what = f" as checkpoint {last.source[:8]} has it" if last is not None else ""
        hint += f"if it is gone for good: git agentos worktree remove {self.id}, then\n"
        hint += f"git agentos worktree create {self.id} --revive brings it back{what}"
        return Fault(self.id, "missing-folder", f"the folder of the worktree '{self.id}' is missing{where}", hint=hint)

    def _search(self) -> str | None:
        """Where the folder went, if there is exactly one that says it belongs to this entry."""
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
                    if entry.is_dir(follow_symlinks=False) and _claims(entry.path, self.git_dir):
                        found.add(os.path.realpath(entry.path))
        return found.pop() if len(found) == 1 else None

    def _copied(self, root: str) -> str | None:
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

    def index(self) -> Iterator[Fault]:
        root = worktrees.root_or_none(self.git_dir) or self.git_dir
        yield from index_faults(self.context, self.location._replace(root=root), self.id)

    def journal(self) -> Iterator[Fault]:
        where = worktrees.root_or_none(self.git_dir) or self.git_dir
        try:
            found = journal.read(self.location)
        except (AgentosError, OSError) as error:
            told = error.message if isinstance(error, AgentosError) else f"'{error.filename}': {error.strerror}"
            message = f"the journal of a restore in the worktree '{self.id}' cannot be read: {told}"
            hint = f"git -C {quote(where)} agentos doctor --fix"
            yield Fault(self.id, "interrupted-restore", message, hint=hint)
            return
        if found is not None:
            message = f"a {found.command} in the worktree '{self.id}' was interrupted"
            hint = f"git -C {quote(where)} agentos recover"
            yield Fault(self.id, "interrupted-restore", message, hint=hint)


def _claims(folder: str, git_dir: str) -> bool:
    """Whether a folder says that it is the worktree of this entry, wherever the repository was then."""
    target = worktrees.read_gitfile(folder)
    if target is None:
        return False
    if os.path.isdir(target):
        return os.path.realpath(target) == os.path.realpath(git_dir)
    return os.path.basename(target) == os.path.basename(git_dir) and (
        os.path.basename(os.path.dirname(target)) == "worktrees"
    )


def _is_bare_folder(root: str | None) -> bool:
    """Whether there is nothing in a worktree's folder but what `git worktree add` begins with."""
    try:
        return root is None or set(os.listdir(root)) <= {".git"}
    except FileNotFoundError:
        return True
    except OSError:
        return False
