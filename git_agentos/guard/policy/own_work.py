"""What is the agent's own: its worktree, the commits that were made there, and the branches and tags that it made.

Commits and names of others never count as own, and neither does what is not known:

* the worktree is an agent's, and the caller's by `ownership`;
* a commit was made in this worktree if the worktree's HEAD log has an entry that made it, by the committer and at the
  time that the commit itself has, and no other worktree's HEAD log has one;
* a branch is the one that the worktree was recorded with, one that this became by `branch -m`, or one that was made
  here; a tag is one that was made here, and moved by nobody else. `hooks/reference-transaction` notes what git commands
  in this worktree make and move, in `<git dir>/agentos/made`: `<new oid> <full name> [<old oid>]` a line.

A commit is published if a ref other than the agent's own reaches it, or the HEAD of another worktree.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from git_agentos.errors import RepositoryError
from git_agentos.git import refs, worktrees
from git_agentos.git.location import Location
from git_agentos.guard import identity, ownership
from git_agentos.guard.ownership import Caller
from git_agentos.guard.policy.facts import Facts
from git_agentos.util import files
from git_agentos.util.named_tuple import NamedTuple

MADE = "made"  # in the worktree's folder `agentos`
_HEADS = "refs/heads/"
_LONGEST = 32 << 20  # bytes of a log
_MOST = 1000  # commits that one command takes away
# `old new Name <email> seconds zone<TAB>message`, where the message is that of a command that makes commits.
_MAKING = re.compile(
    rb"([0-9a-f]+) ([0-9a-f]+) (.*)\t(?:commit(?: \([a-z-]+\))?|cherry-pick|revert|am|"
    rb"(?:rebase|pull)\b[^(:]*\((?:pick|squash|fixup|reword|edit|merge|continue)\)|(?:merge|pull)\b.*: Merge made by)"
    # Moves of HEAD to an existing commit, though GIT_REFLOG_ACTION calls them something else.
    rb"(?!.*: (?:[Ff]ast-forward|updating HEAD|moving from .* to .*)\Z)[: ]"
)
_FROM_HEAD = re.compile(r"(?:HEAD|@)((?:~\d*|\^1?)*)\Z")
_RENAMED = re.compile(rb"\tBranch: renamed (refs/heads/\S+) to (refs/heads/\S+)\Z")
# `git agentos restore` makes a branch for the state that it restores.
_RESTORED = re.compile(rb"[0-9a-f]+ ([0-9a-f]+) .*\tagentos restore: moving from .* to (\S+)\Z")
# Refs that do not publish commits: those of the stash, of the agent's own operations, and of git-agentos.
_PRIVATE = ("refs/stash", "refs/bisect/*", "refs/rewritten/*", "refs/worktree/*", "refs/agentos/*")


class BranchMove(NamedTuple):
    """A branch (full name) that moves from one commit to another."""

    name: str
    old: str
    new: str


class EarlierCommands(NamedTuple):
    """What commands before this one, in the same text, will have done to the worktree.

    They make `commits` on top of HEAD, and these `tags` (full names), or HEAD may have moved by then. They leave
    `stashed` new entries in the stash.
    """

    commits: int = 0
    tags: frozenset[str] = frozenset()
    moves_head: bool = False
    stashed: int = 0


NO_EARLIER_COMMANDS = EarlierCommands()


class OwnWork:
    """Answers about the worktree in which a command works, for the one who gives the command."""

    def __init__(self, facts: Facts, caller: Caller | None, before: EarlierCommands = NO_EARLIER_COMMANDS) -> None:
        self._facts = facts
        self._caller = caller
        self._before = before
        self.stashed = before.stashed

    @cached_property
    def is_own_worktree(self) -> bool:
        """Whether the command works in an agent's worktree that is the caller's own."""
        facts, caller = self._facts, self._caller
        if caller is None or caller.identity.agent is None or facts.redirected or facts.root is None:
            return False
        return (
            len(facts.git_dirs) == 2
            and facts.git_dirs[0] != facts.git_dirs[1]
            and identity.worktree_agent_id(facts.git_dirs[0]) is not None
            and bool(self._record)
            and ownership.owns_folder(caller, facts.folder)
        )

    @cached_property
    def may_rewrite(self) -> bool:
        """Whether the commits of the branch are the agent's to rewrite. A run's evidence names its commits."""
        return self.is_own_worktree and not self._before.moves_head and self._record.get("run_id") is None

    @cached_property
    def _record(self) -> dict[str, object]:
        return ownership.read_record(self._facts.git_dirs[0]) if self._facts.git_dirs else {}

    # -- commits ---------------------------------------------------------------------------------------------------

    def below_head(self) -> str:
        """The parents of the commit that HEAD will be at, among the commits that exist now."""
        return "HEAD" if self._before.commits else "HEAD^@"

    def before_earlier_commands(self, revision: str) -> str | None:
        """What a revision will name, among the commits that exist now: a revision that counts from HEAD counts the
        commits that are made before, and HEAD stands for these. None if it is not known."""
        steps = _FROM_HEAD.match(revision)
        if not self._before.commits or (steps is None and not re.search(r"HEAD|@", revision)):
            return revision
        if steps is None:
            return None
        count = sum(int(each[1:] or 1) for each in re.findall(r"[~^]\d*", steps[1])) - self._before.commits
        return f"HEAD~{count}" if count > 0 else "HEAD"

    def loses_only_own(self, old: str, new: Sequence[str], moving: Iterable[str] = ()) -> bool:
        """Whether all commits that `old` reaches and `new` do not were made in this worktree and are not published;
        `moving` are refs (full names) that move from `old` to `new`, beside the branch that is checked out."""
        if not self.may_rewrite:
            return False
        lost = self._commits(old, new)
        if lost is None or not self._were_made_here(lost):
            return False
        return not lost or self._commits(old, new, not_in=self._others(moving)) == lost

    def gains_only_own(self, old: str, new: str) -> bool:
        """Whether all commits that `new` reaches and `old` does not were made in this worktree."""
        gained = self._commits(new, [old])
        return gained is not None and self._were_made_here(gained)

    def _commits(self, tip: str, without: Sequence[str], *, not_in: Sequence[str] = ()) -> list[str] | None:
        """The commits that `tip` reaches and `without` do not; None if that is not known, or there are too many."""
        args = ["rev-list", f"--max-count={_MOST + 1}", tip, "--not", *without, *not_in]
        status, out = self._facts.git(*args, "--")
        found = out.decode("ascii", "replace").split()
        return found if status == 0 and len(found) <= _MOST else None

    def _were_made_here(self, commits: Sequence[str]) -> bool:
        if not commits:
            return True
        if not all(self._made_commits.get(oid) for oid in commits) or self._made_elsewhere.intersection(commits):
            return False
        data = "".join(f"{oid}\n" for oid in commits).encode()
        args = ("rev-list", "--no-walk=unsorted", "--stdin", "--no-commit-header", "--date=raw")
        status, out = self._facts.git(*args, "--format=%H %cn <%ce> %cd", data=data)
        if status != 0:
            return False
        committers = dict(line.split(b" ", 1) for line in out.splitlines() if b" " in line)
        return all(committers.get(oid.encode()) in self._made_commits[oid] for oid in commits)

    def _others(self, moving: Iterable[str]) -> list[str]:
        """Arguments of `rev-list` for everything that others may rely on."""
        facts = self._facts
        own = {*moving, *self._own_names}
        own |= {_HEADS + name for name in (facts.branch, self.rebased) if name is not None}
        return [*(f"--exclude={name}" for name in (*_PRIVATE, *sorted(own))), "--glob=refs/*", *self._other_heads()]

    def _other_heads(self) -> list[str]:
        """The commits that other worktrees have checked out."""
        status, out = self._facts.git("worktree", "list", "--porcelain", "-z")
        found = []
        for block in out.split(b"\0\0") if status == 0 else ():
            fields = dict(line.partition(b" ")[::2] for line in block.split(b"\0"))
            if os.path.realpath(os.fsdecode(fields.get(b"worktree", b""))) != self._facts.root and b"HEAD" in fields:
                found.append(fields[b"HEAD"].decode("ascii", "replace"))
        return [oid for oid in found if oid.strip("0")]

    @cached_property
    def rebased(self) -> str | None:
        """The branch (short) that a rebase in progress is going to move."""
        for folder in ("rebase-merge", "rebase-apply"):
            with contextlib.suppress(OSError):
                name = os.fsdecode(_read(os.path.join(self._facts.git_dirs[0], folder, "head-name")).strip())
                if name.startswith(_HEADS):
                    return name.removeprefix(_HEADS)
        return None

    # -- names -----------------------------------------------------------------------------------------------------

    def is_own_branch(self, name: str) -> bool:
        """Whether a branch (short) is the agent's own."""
        return self.may_rewrite and _HEADS + name in self._own_names

    def drops_only_own_branch(self, name: str) -> bool:
        """Whether a branch (short) is the agent's own, was never sent to a remote, and keeps no commits of others."""
        if not self.is_own_branch(name) or self.is_sent(name):
            return False
        kept = self._commits(_HEADS + name, [], not_in=self._others([_HEADS + name]))
        return kept is not None and self._were_made_here(kept)

    def is_sent(self, name: str) -> bool:
        """Whether a remote has a branch of this name (short), as far as is known here."""
        return self._facts.remote_branch(name) is not None

    def is_own_tag(self, name: str) -> bool:
        """Whether a tag (short) was made in this worktree, has not changed, and only names a commit: the message of an
        annotated tag is in no checkpoint."""
        full = f"refs/tags/{name}"
        if full in self._before.tags:
            return self.is_own_worktree
        return self.is_own_worktree and full in self._own_names and self._facts.ref(full) == self._facts.commit(full)

    @cached_property
    def _own_names(self) -> frozenset[str]:
        """The full names of the branches and tags that are the agent's own."""
        if not self.is_own_worktree:
            return frozenset()
        is_own_branch = self._record.get("branch")
        recorded = _HEADS + is_own_branch if isinstance(is_own_branch, str) else None
        made = dict(self._made_names)
        for renamed in filter(None, (_RENAMED.search(line) for line in self._log)):
            before, after = os.fsdecode(renamed[1]), os.fsdecode(renamed[2])
            if before == recorded:
                recorded = after
            if before in made:
                made[after] = made[before]
        # If somebody else has made the name again, its value, or the beginning of its log, differs.
        found = {name for name, value in made.items() if self._value(name) == value}
        return frozenset(found if recorded is None else {*found, recorded})

    @cached_property
    def _made_names(self) -> dict[str, str]:
        """The branches and tags that were made in this worktree, and their values then."""
        found: dict[str, str] = {}
        for line in _lines(os.path.join(self._facts.git_dirs[0], "agentos", MADE)):
            new, name, old = (*os.fsdecode(line).split(" "), "", "", "")[:3]
            if not old or found.get(name) == old:
                found[name] = new
        for restored in filter(None, (_RESTORED.match(line) for line in self._log)):
            found[_HEADS + os.fsdecode(restored[2])] = restored[1].decode("ascii")
        return found

    def _value(self, name: str) -> str | None:
        """The present value of a tag, or the first value of a branch."""
        if name.startswith("refs/tags/"):
            return self._facts.ref(name)
        # While git renames a branch, its log has another name.
        lines = self._log_of(name) or self._log_of("refs/.tmp-renamed-log")
        return lines[0].split(b" ")[1].decode("ascii", "replace") if lines and lines[0].count(b" ") > 1 else None

    # -- logs ------------------------------------------------------------------------------------------------------

    @cached_property
    def _log(self) -> list[bytes]:
        return self._log_of("HEAD")

    def _log_of(self, name: str, git_dir: str | None = None) -> list[bytes]:
        """The lines of a reflog, of this worktree or of another one."""
        if self._location is None:
            return []
        here = self._location
        return refs.read_log(here if git_dir is None else here.worktree("", git_dir), name)

    @cached_property
    def _location(self) -> Location | None:
        """This worktree, to read refs in it; None if the repository is not supported."""
        own, common = self._facts.git_dirs
        try:
            return Location.read("", own, common)
        except RepositoryError:
            return None

    @cached_property
    def _made_commits(self) -> dict[str, set[bytes]]:
        """The commits that were made in this worktree, with committers and times."""
        found: dict[str, set[bytes]] = {}
        for line in self._log:
            made = _MAKING.match(line)
            if made is not None:
                found.setdefault(made[2].decode("ascii"), set()).add(made[3])
        return found

    @cached_property
    def _made_elsewhere(self) -> frozenset[str]:
        """The commits that were made in other worktrees."""
        mine, common = self._facts.git_dirs
        git_dirs = (common, *worktrees.linked_git_dirs(common))
        made = (_MAKING.match(line) for each in git_dirs if each != mine for line in self._log_of("HEAD", each))
        return frozenset(each[2].decode("ascii") for each in made if each is not None)


def _read(path: str) -> bytes:
    return files.read(path, limit=_LONGEST)


def _lines(path: str) -> list[bytes]:
    try:
        return _read(path).splitlines()
    except OSError:
        return []
