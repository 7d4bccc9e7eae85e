"""What must hold before a worktree is removed: no process works in it, nothing else lies in it, and git can read it."""

from __future__ import annotations

import os
import time
from shlex import quote

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import UNCHANGED, LockedError, WorktreeError
from git_agentos.git import gitfile, index_damage, refs, stale_locks, worktrees
from git_agentos.git.location import Location
from git_agentos.process import mounts, occupants
from git_agentos.util import files, locks
from git_agentos.worktree import journal, layout, record
from git_agentos.worktree.record import AgentWorktree

_LOCK_TIMEOUT = 2.0  # seconds that another git has to release a lock
_RECORDER_TIMEOUT = 5.0  # seconds: a recorder that has just been started needs far less
_RECORDER_INTERVAL = 0.02
_MAX_LISTED = 10


def check(context: OpenWorktree, id_: str, *, delete_branch: bool = False) -> None:
    """WorktreeError or LockedError where the worktree `id_` cannot be removed now; nothing is changed."""
    worktree = record.find(context.location.common_dir, id_)
    wait_for_recorders(worktree.git_dir)
    check_worktree(context.location, worktree, journal.ARCHIVE, delete_branch=delete_branch)


def check_worktree(
    location: Location, worktree: AgentWorktree, operation: str, *, delete_branch: bool, stoppable: bool = False
) -> bool:
    """WorktreeError or LockedError where the worktree cannot be removed from the one at `location`; else whether its
    folder is missing. With `stoppable`, only processes that started this one are in the way."""
    _check_not_current(location, worktree, operation)
    _check_not_locked(worktree)
    _check_not_a_link(worktree)
    _check_readable(worktree)
    if delete_branch:
        _check_branch_unused(location, worktree)
    if is_missing(worktree.root):
        return True
    check_folder(worktree)
    _check_nothing_inside(location, worktree)
    refuse_processes(worktree.root, worktree.id, stoppable=stoppable)
    _remove_stale_locks(location, worktree)
    return False


def is_missing(root: str) -> bool:
    """Whether the folder of a worktree is not there: nothing, something else, or (a disk that is not mounted) a folder
    with nothing in it but what this tool puts there."""
    if not is_folder(root):
        return True
    try:
        return set(os.listdir(root)) <= {".agentos"}
    except OSError:
        return False


def is_folder(path: str) -> bool:
    """Whether a folder is there, and not a link to one."""
    return os.path.isdir(path) and not os.path.islink(path)


def check_folder(worktree: AgentWorktree) -> None:
    """WorktreeError where the folder belongs to something else by now."""
    owner = worktrees.find_other_owner(worktree.root, worktree.git_dir, worktree.common_dir)
    if owner is not None:
        raise WorktreeError(
            f"'{worktree.root}' is no longer the worktree '{worktree.id}': {owner}",
            f"git agentos worktree repair {worktree.id}; {UNCHANGED}",
        )


def wait_for_recorders(git_dir: str) -> None:
    """Wait until the process that records the last command in a worktree (`hooks.pending`) has ended: it is ours, so
    the user need not end it.

    The caller may hold no lock, since a recorder takes some. A killed recorder leaves its note, so the wait is limited.
    """
    notes, lock = (os.path.join(git_dir, "agentos", name) for name in ("recording", "recording.turn"))
    deadline = time.monotonic() + _RECORDER_TIMEOUT
    while os.path.isdir(notes) and os.listdir(notes) and time.monotonic() < deadline:
        time.sleep(_RECORDER_INTERVAL)
    if os.path.isfile(lock):
        with locks.hold(lock):
            pass


def refuse_processes(root: str, id_: str, *, stoppable: bool = False) -> None:
    """WorktreeError where a live process works in the folder; with `stoppable`, only one that started this one."""
    found = [each for each in occupants.find(root) if each.ancestor or not stoppable]
    if not found:
        return
    first = found[0]
    shell = next((each for each in found if each.ancestor and each.how == "cwd"), None)
    if shell is not None:
        raise WorktreeError(
            f"you are in the worktree '{id_}': the current directory of {shell.name}, which started this command,"
            f" is '{shell.path}'",
            f"cd elsewhere, then try again; {UNCHANGED}",
        )
    listed = "\n".join(f"process {each.pid}: {each.name} ({_describe(each)})" for each in found[:_MAX_LISTED])
    raise WorktreeError(
        f"a process works in the worktree '{id_}': {first.pid} ({first.name})"
        + (f" and {len(found) - 1} more" if len(found) > 1 else ""),
        f"{listed}\nend it, then try again; {UNCHANGED}",
    )


def _check_not_current(location: Location, worktree: AgentWorktree, operation: str) -> None:
    if location.git_dir == worktree.git_dir:
        main = quote(layout.main_folder(location))
        raise WorktreeError(
            f"'{worktree.id}' is the worktree that you are in",
            f"run it from another one: git -C {main} agentos worktree {operation} {worktree.id}",
        )


def _check_not_locked(worktree: AgentWorktree) -> None:
    locked = os.path.join(worktree.git_dir, "locked")
    if os.path.lexists(locked):
        reason = os.fsdecode(files.read(locked, limit=gitfile.LONGEST, follow=True)).strip()
        raise WorktreeError(
            f"the worktree '{worktree.id}' is locked" + (f": {reason}" if reason else ""),
            f"to unlock it: git worktree unlock {quote(worktree.root)}; {UNCHANGED}",
        )


def _check_not_a_link(worktree: AgentWorktree) -> None:
    root = worktree.root
    if os.path.islink(root) and worktrees.is_linked(root, worktree.git_dir):
        raise WorktreeError(
            f"'{root}' is a symbolic link: the worktree '{worktree.id}' lies in '{os.path.realpath(root)}'",
            f"git agentos worktree repair {worktree.id}; {UNCHANGED}",
        )


def _check_readable(worktree: AgentWorktree) -> None:
    head, index = (os.path.join(worktree.git_dir, name) for name in ("HEAD", "index"))
    damaged = worktrees.unreadable_file(worktree.git_dir)
    if damaged is None and not refs.has_head(worktree.location):
        damaged = head
    if damaged is None and os.path.lexists(index) and index_damage.is_damaged(worktree.location):
        damaged = index
    if damaged is not None:
        raise WorktreeError(
            f"the worktree '{worktree.id}' is damaged: '{damaged}'",
            f"git agentos worktree repair {worktree.id}; {UNCHANGED}",
        )


def _check_branch_unused(location: Location, worktree: AgentWorktree) -> None:
    for user in worktrees.branch_users(location, worktree.ref, except_git_dir=worktree.git_dir):
        raise WorktreeError(
            f"the branch '{worktree.record.branch}' is {layout.describe_use(user)}",
            f"run it without --delete-branch; {UNCHANGED}",
        )


def _check_nothing_inside(location: Location, worktree: AgentWorktree) -> None:
    """No other worktree and no mount lies in the folder."""
    inside = layout.worktree_inside(location, worktree.root, except_git_dir=worktree.git_dir)
    if inside is not None:
        raise WorktreeError(
            f"another worktree lies inside of '{worktree.id}': '{inside}'",
            f"move it away first (git worktree move), or remove it; {UNCHANGED}",
        )
    mounted = mounts.mounted_below(worktree.root)
    if mounted:
        message = f"a file system is mounted inside of '{worktree.id}': '{mounted[0]}'"
        raise WorktreeError(message, f"umount it; {UNCHANGED}")


def _remove_stale_locks(location: Location, worktree: AgentWorktree) -> None:
    """Remove the locks of killed gits in the worktree; LockedError where a git holds the index."""
    inner = location.worktree(worktree.root, worktree.git_dir)
    candidates = [*stale_locks.of_worktree(inner), *stale_locks.of_ref(inner, worktree.ref)]
    held = stale_locks.remove(location, candidates, patience=_LOCK_TIMEOUT)
    lock = os.path.join(worktree.git_dir, "index.lock")
    reason = held.get(lock)
    if reason is not None and os.path.lexists(lock):
        raise LockedError(
            f"a git command is at work in the worktree '{worktree.id}' (index.lock exists, and {reason})",
            f"try again when it has finished; {UNCHANGED}",
        )


def _describe(process: occupants.Occupant) -> str:
    verbs = {"cwd": "stands in", "root": "has as its root", "exe": "runs from", "mapped": "has mapped files of"}
    return f"{verbs.get(process.how, 'has open')} {process.path}"
