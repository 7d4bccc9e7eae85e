"""Operations, decisions and assessments: the vocabulary of the guard.

An operation is a canonical name for what a command does, however it is spelled: `reset-hard` for `git reset --hard`,
`git-reset --har` and `git -C . reset --hard`. The names are the keys of `agentos.policy.<operation>`, so they are git
variable names: lower-case letters, digits and dashes.
"""

from __future__ import annotations

from collections.abc import Sequence

from git_agentos.util.named_tuple import NamedTuple

ALLOW, APPROVE, FORBID = "allow", "approve", "forbid"
RANK = {ALLOW: 0, APPROVE: 1, FORBID: 2}


class Operation(NamedTuple):
    """What a command does. `subject` is what it acts on, for messages (`refs/heads/main`, `3 files`; may be empty).

    `own`: the commits, refs and stash entries that it takes away were made in this worktree and are not published.
    `limited`: it takes away only files that it names, and brings in no commit that others made. Both are false where
    that is not known; `policy.operations` decides by them.
    """

    name: str
    subject: str = ""
    own: bool = False
    limited: bool = False


class SaveScope(NamedTuple):
    """What must be saved before a command runs, beside the visible working state.

    `ignored` are ignored files that it may overwrite or delete, relative to the worktree's root; `everything_ignored`
    stands for all of them. `commits` are ids of commits that no ref may reach afterwards. `repositories` are ignored
    folders that are repositories; `left_out` says which ignored files are too many or too large to be saved. `touches`
    are the files and folders that the command may change, relative to the root; None if it may change any.
    """

    ignored: frozenset[bytes] = frozenset()
    everything_ignored: bool = False
    commits: Sequence[str] = ()
    repositories: frozenset[bytes] = frozenset()
    left_out: str = ""
    touches: frozenset[bytes] | None = None

    def may_touch(self, path: bytes) -> bool:
        """Whether the command may change this file, or something below this folder."""
        if self.touches is None:
            return True
        path = path.rstrip(b"/")
        return any(
            path == each or path.startswith(each + b"/") or each.startswith(path + b"/") for each in self.touches
        )

    def joined(self, other: SaveScope) -> SaveScope:
        """What must be saved before both commands."""
        anywhere = self.touches is None or other.touches is None
        return SaveScope(
            self.ignored | other.ignored,
            self.everything_ignored or other.everything_ignored,
            tuple(dict.fromkeys((*self.commits, *other.commits))),
            self.repositories | other.repositories,
            "; ".join(dict.fromkeys(text for text in (self.left_out, other.left_out) if text)),
            None if anywhere else (self.touches or frozenset()) | (other.touches or frozenset()),
        )


class Decision(NamedTuple):
    """What is decided about a command; the fields are the keys of JSON kind `decision`.

    `decision` is `allow`, `approve` or `forbid`; `operations` are names, the strictest first; `rule` is what decided
    (`reset-hard`, or the configuration key if one did); `reason` and `instead` (the safe command to use) are for
    people, null if the command is allowed; `checkpoint` is the id of the checkpoint that was created, null if none was.
    """

    decision: str
    operations: list[str]
    rule: str | None = None
    reason: str | None = None
    instead: str | None = None
    checkpoint: str | None = None


class Assessment(NamedTuple):
    """What is known about a command before it runs: the decision, and what acting on it takes.

    `save` is what must be saved before the command runs or is stopped, None if it cannot lose anything. `fully_saved`:
    a checkpoint with `save` holds everything that the command would lose, so `agentos.guard.mode = save` may let it
    run. `root` is the worktree that the command works in, None outside of one. `relies_on_checkpoint`: the command is
    allowed only because a checkpoint with `save` brings everything back (`policy.operations`), so it stops if that
    checkpoint cannot be created or is not complete. `operations` are those of one git command; `moves_head`: HEAD may
    be at another commit afterwards, apart from a commit that the command makes.
    """

    decision: Decision
    save: SaveScope | None = None
    fully_saved: bool = False
    root: str | None = None
    relies_on_checkpoint: bool = False
    operations: tuple[Operation, ...] = ()
    moves_head: bool = False


def strictest(decisions: Sequence[Decision]) -> Decision:
    """The first of the strictest decisions, with the operations of all."""
    found = max(decisions, key=lambda each: RANK[each.decision])
    names = (name for each in (found, *decisions) for name in each.operations)
    return found._replace(operations=list(dict.fromkeys(names)))
