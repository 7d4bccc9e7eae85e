"""What a command can lose, not the command's name, decides whether an agent may run it in its own worktree.

Every operation has one effect, the widest of what it changes:

    nothing      it adds, or reads
    files        files of the worktree, the index
    ignored      files that git ignores, which a checkpoint holds only on request
    own-history  commits of the branch that is checked out
    shared-refs  branches, tags and other refs, which all worktrees share
    stash        the stash, which all worktrees share
    remote       another repository
    config       what git will do from now on
    elsewhere    files outside of the worktree, other worktrees
    unknown      it may change anything

An operation that would need approval, or is forbidden, is allowed after a checkpoint in the agent's own worktree if it
is *recoverable* (`is_recoverable`): the checkpoint brings all of it back, and the commits, refs and stash entries that
it takes away are the agent's own and not published. With `agentos.guard.preset = strict` it must also be limited to
files that it names and to commits that the agent made; with `recoverable` it need not. A key
`agentos.policy.<operation>` decides before either.
"""

from __future__ import annotations

from git_agentos.guard.configuration.settings import RECOVERABLE

NOTHING, FILES, IGNORED, OWN_HISTORY, SHARED_REFS, STASH, REMOTE, CONFIG, ELSEWHERE, UNKNOWN = (
    "nothing", "files", "ignored", "own-history", "shared-refs", "stash", "remote", "config", "elsewhere", "unknown",
)  # fmt: skip
EFFECTS = (NOTHING, FILES, IGNORED, OWN_HISTORY, SHARED_REFS, STASH, REMOTE, CONFIG, ELSEWHERE, UNKNOWN)

_IN_THE_WORKTREE = (FILES, IGNORED)
_SHARED = (OWN_HISTORY, SHARED_REFS, STASH)


def is_recoverable(effect: str, *, fully_saved: bool, own: bool, limited: bool, preset: str) -> bool:
    """Whether an operation in the agent's own worktree is allowed though its default is not.

    `fully_saved`: a checkpoint created before it holds all that it takes away. `own`, `limited`: as in
    `decision.Operation`; files of the agent's own worktree are its own.
    """
    is_own = effect in _IN_THE_WORKTREE or (effect in _SHARED and own)
    return fully_saved and is_own and (limited or preset == RECOVERABLE)
