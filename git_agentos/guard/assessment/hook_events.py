"""What git tells a hook: updates of refs, the refs of a push, the staged files of a commit.

A hook sees what a command does, whatever its command line says. What the command line explains already (a `rebase`
moves its branch) is not an operation of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from git_agentos.guard.assessment.git_command import LOOK, GitCommandReader
from git_agentos.guard.decision import Operation
from git_agentos.guard.policy.commands.refs import AGENTOS_REFS
from git_agentos.guard.policy.own_work import BranchMove
from git_agentos.util.named_tuple import NamedTuple

# Operations whose purpose is to move the branch they work on away from its commits.
_MOVES_BRANCH = frozenset(
    "commit-amend rebase reset-hard reset-soft reset-mixed reset-merge reset-keep pull am skip abort continue filter "
    "branch-force branch-reset branch-rename ref-rewrite fetch-force import import-force merge cherry-pick "
    "revert".split()
)
# Operations that delete refs, or rename them.
_DELETES_REFS = frozenset({"branch-delete", "tag-delete", "ref-delete", "branch-rename", "notes-change"})
# Commands that pack refs: what looks like a deletion only removes a copy.
_PACKS_REFS = ("gc", "maintenance", "pack-refs", "refs")
# Refs that git moves as a part of other operations.
_INTERNAL_REFS = ("refs/remotes/", "refs/bisect/", "refs/rewritten/", "refs/worktree/")
_HEADS, _TAGS = "refs/heads/", "refs/tags/"


class RefUpdate(NamedTuple):
    """One line of a reference transaction. `old` and `new` are as git gives them to the hook: all zeros for no value.

    A deletion often has zeros on both sides.
    """

    name: str
    old: str
    new: str

    @property
    def is_deletion(self) -> bool:
        return not self.new.strip("0")


def read_ref_updates(reader: GitCommandReader, updates: Sequence[RefUpdate]) -> None:
    """Read the command, and what a reference transaction does beyond what the command is known to do."""
    if reader.is_git:
        reader.moves = list(_branch_moves(reader, updates))
        reader.read()
        if reader.line.command in _PACKS_REFS:
            return
    names = {each.name for each in reader.operations}
    _keep_pruned(reader, updates)
    for update in updates:
        reader.operations += _operations_of(reader, update, names)


def _branch_moves(reader: GitCommandReader, updates: Sequence[RefUpdate]) -> Iterator[BranchMove]:
    """The branches that move from one commit to another."""
    for update in updates:
        old = reader.facts.ref(update.name) if update.name.startswith(_HEADS) else None
        if old is not None and not update.is_deletion and not update.new.startswith("ref:") and old != update.new:
            yield BranchMove(update.name, old, update.new)


def _keep_pruned(reader: GitCommandReader, updates: Sequence[RefUpdate]) -> None:
    """Commits that only remote-tracking refs hold go into a checkpoint before these refs are deleted."""
    deleted = [each.name for each in updates if each.name.startswith("refs/remotes/") and each.is_deletion]
    commits = reader.facts.commits_only_in(frozenset(deleted)) if deleted else []
    if commits:
        reader.require_checkpoint(commits=commits)


def _operations_of(reader: GitCommandReader, update: RefUpdate, names: Collection[str]) -> Iterator[Operation]:
    """The operations that an update is; `names` are those that the command is known to do."""
    name, facts = update.name, reader.facts
    if name == "refs/stash" and reader.line.command != "stash" and update.is_deletion:
        yield Operation("ref-delete", name)
    if name == "refs/stash" or name.startswith(_INTERNAL_REFS) or not name.startswith("refs/"):
        return  # the command says what HEAD and ORIG_HEAD are moved for
    old = facts.ref(name)
    if old is None and update.is_deletion:
        return
    if name.startswith(AGENTOS_REFS):
        if old is not None:
            yield Operation("agentos-refs", name)
        return
    if name.startswith("refs/replace/"):
        yield Operation("replace", name)
        return
    branch = name.removeprefix(_HEADS) if name.startswith(_HEADS) else None
    if branch is not None and old is not None and facts.is_protected(branch):
        yield Operation("protected-branch", branch)
    if update.is_deletion:
        if _DELETES_REFS.isdisjoint(names):
            operation = "branch-delete" if branch is not None else "tag-delete" if _TAGS in name else "ref-delete"
            yield Operation(operation, name)
    elif update.new.startswith("ref:"):
        if "symbolic-ref" not in names:
            yield Operation("symbolic-ref", name)
    elif old is not None and old != update.new and _MOVES_BRANCH.isdisjoint(names):
        yield from _operations_of_move(reader, update, old, names)


def _operations_of_move(
    reader: GitCommandReader, update: RefUpdate, old: str, names: Collection[str]
) -> Iterator[Operation]:
    """The operation of moving a ref away from `old`, which the command does not explain."""
    if update.name.startswith(_TAGS):
        if "tag-move" not in names and "fetch" not in names:
            yield Operation("tag-move", update.name)
    elif not reader.facts.is_ancestor(old, update.new):
        yield Operation("ref-rewrite", update.name)


def read_push(reader: GitCommandReader, lines: Sequence[str], remote: str) -> None:
    """Read the command, and what `pre-push` is given of it (`LOCAL-REF OID REMOTE-REF OID`)."""
    if reader.is_git:
        reader.read()
        if reader.operations == [LOOK]:
            return  # a dry run
    facts = reader.facts
    reader.operations.append(Operation("push", remote))
    for line in lines:
        words = line.split()
        if len(words) != 4:
            continue
        _, new, name, old = words
        branch = name.removeprefix(_HEADS)
        if not new.strip("0"):
            reader.operations.append(Operation("push-delete", name))
        elif old.strip("0") and (name.startswith(_TAGS) or not facts.is_ancestor(old, new)):
            reader.operations.append(Operation("push-force", name))
        if facts.is_protected(branch):
            reader.operations.append(Operation("protected-branch", branch))


def read_commit(reader: GitCommandReader) -> None:
    """Read the command, the branch that it commits on, and what is staged."""
    if reader.is_git:
        reader.read()
    facts = reader.facts
    if facts.branch is not None and facts.is_protected(facts.branch):
        reader.operations.append(Operation("protected-branch", facts.branch))
    staged = facts.staged_below(".agentos")
    if staged:
        reader.operations.append(Operation("commit-agentos", staged[0].decode("utf-8", "replace")))
