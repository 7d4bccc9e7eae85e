"""Protected branches: a run never commits to, moves or merges into one.

The guard refuses it in the run's worktree (the patterns are in the worktree's record, beside `agentos.protected`); and
what got past the guard is found here, by comparing the branches before and after a step.

Who moved a branch follows from what the move leaves behind. The run did, where the branch has new commits that were
made in the run's worktree. Somebody else did, where another worktree has the branch checked out and moved along (by its
reflog of HEAD), or where git-agentos did it: a merge, or a branch set back. The run did, where no usual git command
explains the move: no entry in a reflog that is kept, or an entry without a message; a branch that is checked out
elsewhere; lost commits. Else, as for a branch that was fast-forwarded and is checked out nowhere (by `fetch`, or a push
to here), somebody else did.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, RepositoryError, RunError
from git_agentos.git import process, refs, worktrees
from git_agentos.git.location import Location
from git_agentos.git.refs import reflog
from git_agentos.git.refs.reflog import Entry
from git_agentos.git.repository import Repository
from git_agentos.guard import identity
from git_agentos.guard.configuration import run_protection, settings
from git_agentos.guard.decision import SaveScope
from git_agentos.guard.enforcement import saving
from git_agentos.run import snapshot
from git_agentos.run.context import WorkspaceContext, worktree_id
from git_agentos.util.values import is_hex

_HEADS = "refs/heads/"
_OURS = "agentos"
_USUAL = ("main", "master")


def protected_patterns(context: OpenWorktree, given: Sequence[str] | None) -> list[str]:
    """The patterns in force (`main`, `release/*`): those of `agentos.protected`, or else the remote's default branch,
    `main` and `master`; and always those given."""
    known = settings.read(context.location.root, process.environment()).protected
    return list(dict.fromkeys([*(known or [*_default_branches(context), *_USUAL]), *(given or ())]))


def _default_branches(context: OpenWorktree) -> list[str]:
    """The default branches of the remotes, as far as they are known here."""
    out = context.repository.git("for-each-ref", "--format=%(refname)%00%(symref)", "refs/remotes/*/HEAD")
    found = []
    for line in os.fsdecode(out).splitlines():
        name, _, target = line.partition("\0")
        prefix = name.removesuffix("HEAD")
        if target.startswith(prefix):
            found.append(target.removeprefix(prefix))
    return found


def protected_heads(location: Location, protected: Sequence[str]) -> Mapping[str, str]:
    """Full name -> commit of every protected branch; one that is damaged is not among them."""
    return only_protected(branch_heads(location), protected)


def only_protected(branches: Mapping[str, str], protected: Sequence[str]) -> dict[str, str]:
    """Those branches that are protected."""
    return {
        name: oid for name, oid in branches.items() if run_protection.is_protected(name.removeprefix(_HEADS), protected)
    }


def branch_heads(location: Location) -> Mapping[str, str]:
    """Full name -> commit of every branch; one that is damaged is not among them."""
    try:
        return refs.list_refs(location, _HEADS)
    except RepositoryError:  # one is damaged: git leaves it out
        out = Repository(location).git("for-each-ref", "--format=%(objectname) %(refname)", _HEADS)
        pairs = (line.partition(" ") for line in os.fsdecode(out).splitlines())
        return {name: oid for oid, _, name in pairs}


def other_refs(location: Location) -> Mapping[str, str]:
    """Full name -> commit of every ref that is neither a branch nor ours, without damaged ones."""
    found = refs.list_refs(location, "refs/", skip_broken=True)
    return {name: oid for name, oid in found.items() if not name.startswith((_HEADS, "refs/agentos/"))}


def moved(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The names of the refs that are not where they were."""
    return [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]


def check_branches(
    context: OpenWorktree, run: WorkspaceContext, before: Mapping[str, str], protected: Sequence[str]
) -> list[str]:
    """What the run did to protected branches since `before`, for people, without branches that somebody else moved.
    Branches that only the run moved are set back, by compare-and-swap; the run's timeline keeps commits that this
    leaves without a branch."""
    now = protected_heads(context.location, protected)
    own = _HEADS + run.branch_name
    names = [name for name in moved(before, now) if name != own]
    found = []
    if names:
        check = _BranchCheck(context, run)
        found = [text for name in names if (text := check.judge(name, before.get(name), now.get(name))) is not None]
    on = _current_branch(context.location, run)
    if on is not None and on != run.branch_name and run_protection.is_protected(on, protected):
        found.append(f"its worktree is on the protected branch '{on}'")
    return found


class _BranchCheck:
    """Finds out who moved branches, and sets back those that the run moved."""

    def __init__(self, context: OpenWorktree, run: WorkspaceContext) -> None:
        self._context = context
        self._run = run
        location = context.location
        own = _git_dir(location, run)
        self._made = {
            each.new
            for each in (_reflog_of_head(location.worktree("", own)) if own is not None else ())
            if reflog.is_made_there(each)
        }
        self._others = [each for each in worktrees.list_existing(location) if each.git_dir != own]

    def judge(self, name: str, old: str | None, new: str | None) -> str | None:
        """What the run did to a branch that was at `old` and is at `new`; None where it was not the run."""
        by_run = self._has_run_commits(old, new)
        along = [each.root for each in self._others if _moved_by_checkout(each, name, old, new)]
        if not by_run and (along or not self._is_unexplained(name, old, new)):
            return None
        branch = name.removeprefix(_HEADS)
        what = _describe(branch, old, new)
        if new is None and self._leads_nowhere(name):
            what = f"the protected branch '{branch}' was damaged"
        if along:
            # The files there were updated too; to move only the branch would make that work look undone.
            return f"{what}, and '{along[0]}' with it: left as it is"
        problem = self._set_back(name, old, new)
        return f"{what}: set back" if problem is None else f"{what}: not set back ({problem})"

    def _has_run_commits(self, old: str | None, new: str | None) -> bool:
        """Whether the branch has new commits that the run made."""
        if new is None or not self._made:
            return False
        if new in self._made:
            return True
        args = [
            "rev-list",
            "--ignore-missing",
            new,
            *([f"^{old}"] if old is not None else []),
            f"^{self._run.base_sha}",
        ]
        out = self._context.repository.git(*args, ok=(0, 128))
        return not self._made.isdisjoint(out.decode("ascii", "replace").split())

    def _is_unexplained(self, name: str, old: str | None, new: str | None) -> bool:
        """Whether no usual git command explains the move."""
        if old is None:
            return False  # a new branch, without commits of the run
        if new is None or not self._is_there(new):
            return True
        if not self._is_there(old):
            return False  # it was damaged before
        entries = reflog.parse(refs.read_log(self._context.location, name))
        last = _entry_leading_to(entries, old, new)
        if last is not None and last.message.startswith(_OURS):
            return False
        standing = [each for each in self._others if _head(each) == name]
        if standing:
            # A move made there is in the reflog, if one is kept.
            return all(_last_entry_is(_reflog_of_head(each), old) for each in standing)
        if last is not None:
            return not last.message or not self._context.repository.is_ancestor(old, new)
        return _last_entry_is(entries, old) or not self._context.repository.is_ancestor(old, new)

    def _set_back(self, name: str, old: str | None, new: str | None) -> str | None:
        """Move the branch back; why not, where that fails."""
        location = self._context.location
        who = os.fsdecode(self._context.settings.committer)
        try:
            if new is None:
                new = self._remove_damaged(name)
            elif self._is_there(new):
                self._keep(new)
            if old is not None:
                refs.update(location, name, old, new, refs.ReflogEntry(f"{_OURS}: protected branch set back", who))
            elif _current_branch(location, self._run) == name.removeprefix(_HEADS):
                return "the run's worktree is on it"
            else:
                refs.drop(location, name, new)
        except refs.RefMoved:
            return "it has been moved again"
        except (AgentosError, OSError) as error:
            return str(error)
        return None

    def _remove_damaged(self, name: str) -> str | None:
        """Remove a branch that is damaged; the commit that packed refs have for the branch then."""
        location = self._context.location
        if self._leads_nowhere(name):
            refs.repair(location, name, None)
        return refs.resolve(location, name)

    def _leads_nowhere(self, name: str) -> bool:
        """Whether a branch without a commit is there: it is damaged, or symbolic."""
        location = self._context.location
        return name in refs.damaged(location, _HEADS) or name in refs.symbolic(location)

    def _is_there(self, oid: str) -> bool:
        return is_hex(oid) and self._context.repository.exists(oid)

    def _keep(self, commit: str) -> None:
        """Have a timeline keep a commit: the run's, or that of the current worktree where the run's is gone."""
        try:
            inner = snapshot.run_context(self._context, self._run)
        except RunError:
            inner = self._context
        metadata = inner.metadata(trigger=saving.TRIGGER, description="before a protected branch is set back", meta={})
        saving.save(inner, SaveScope(commits=(commit,)), metadata, whole=False)


def _describe(branch: str, old: str | None, new: str | None) -> str:
    if new is None:
        return f"the protected branch '{branch}' was deleted"
    if old is None:
        return f"the protected branch '{branch}' was made, at {new[:8]}"
    return f"the protected branch '{branch}' was moved from {old[:8]} to {new[:8]}"


def _git_dir(location: Location, run: WorkspaceContext) -> str | None:
    """git's entry of the run's worktree; None where it is gone."""
    id_ = worktree_id(run.run_id)
    return next(
        (each for each in worktrees.linked_git_dirs(location.common_dir) if identity.worktree_agent_id(each) == id_),
        None,
    )


def _current_branch(location: Location, run: WorkspaceContext) -> str | None:
    """The short name of the branch that the run's worktree has checked out."""
    git_dir = _git_dir(location, run)
    ref = _head(location.worktree(run.worktree_path, git_dir)) if git_dir is not None else None
    return ref.removeprefix(_HEADS) if ref is not None else None


def _head(location: Location) -> str | None:
    """The ref that HEAD of a worktree is on."""
    try:
        return refs.read_head(location).ref
    except (AgentosError, OSError):
        return None


def _moved_by_checkout(location: Location, name: str, old: str | None, new: str | None) -> bool:
    """Whether a worktree that has the branch checked out moved along, by a command with a reflog message."""
    if new is None or old is None:
        return False
    entries = _reflog_of_head(location)
    last = _entry_leading_to(entries, old, new)
    if last is None or not last.message:
        return False
    left = f"checkout: moving from {name.removeprefix(_HEADS)} to "
    return _head(location) == name or any(each.message.startswith(left) for each in entries[entries.index(last) :])


def _last_entry_is(entries: Sequence[Entry], commit: str) -> bool:
    """Whether the last entry with a message of a reflog leads to a commit."""
    described = [each for each in entries if each.message]
    return bool(described) and described[-1].new == commit


def _reflog_of_head(location: Location) -> list[Entry]:
    return reflog.parse(refs.read_log(location, "HEAD"))


def _entry_leading_to(entries: Sequence[Entry], old: str | None, new: str | None) -> Entry | None:
    """The entry that led to `new`, after the last that led to `old`; None where there is none."""
    for each in reversed(entries):
        if each.new == new:
            return each
        if each.new == old:
            return None
    return None
