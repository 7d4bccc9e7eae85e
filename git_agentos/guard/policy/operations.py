"""The canonical operations: what is decided about each unless configuration says otherwise, and the texts for messages.

The table (`operation_table`) is the one list of names: keys of `agentos.policy.<operation>`, rows of
docs/guard-operations.md (a test compares them), what the modules in `commands` may add, and the operations of other
programs (`assessment.shell_text`).

What a command can lose, not its name, decides whether an agent may run it in its own worktree.
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

from collections.abc import Container, Sequence

from git_agentos.guard.configuration.settings import RECOVERABLE, GuardSettings
from git_agentos.guard.decision import ALLOW, APPROVE, FORBID, RANK, Decision, Operation
from git_agentos.guard.operation_table import ALLOWED, APPROVED, EFFECT_ROWS, FORBIDDEN
from git_agentos.util.named_tuple import NamedTuple

NOTHING, FILES, IGNORED, OWN_HISTORY, SHARED_REFS, STASH, REMOTE, CONFIG, ELSEWHERE, UNKNOWN = (
    "nothing", "files", "ignored", "own-history", "shared-refs", "stash", "remote", "config", "elsewhere", "unknown",
)  # fmt: skip
EFFECTS = (NOTHING, FILES, IGNORED, OWN_HISTORY, SHARED_REFS, STASH, REMOTE, CONFIG, ELSEWHERE, UNKNOWN)

_IN_THE_WORKTREE = (FILES, IGNORED)
_SHARED = (OWN_HISTORY, SHARED_REFS, STASH)


class OperationSpec(NamedTuple):
    """One operation. `covers` are commands that are one, `reason` says what it does to work, `instead` the safe
    command; `saves`: a checkpoint is created first, `fully_saved`: it holds all that could be lost; `effect` is what
    the operation changes (`EFFECTS`)."""

    name: str
    default: str
    saves: bool
    fully_saved: bool
    covers: str
    reason: str
    instead: str
    effect: str


def _table() -> dict[str, OperationSpec]:
    found = {}
    rows = (line.split() for line in EFFECT_ROWS.strip().splitlines())
    effect_of = {name: effect for effect, *names in rows for name in names}
    for default, text in ((ALLOW, ALLOWED), (APPROVE, APPROVED), (FORBID, FORBIDDEN)):
        for line in text.strip().splitlines():
            name, kind, covers, reason, instead = (part.strip() for part in f"{line} ".split(" | ", 4))
            found[name] = OperationSpec(
                name, default, kind != "n", kind == "y", covers, reason, instead, effect_of.get(name, UNKNOWN)
            )
    return found


OPERATIONS = _table()


def rule_for(name: str, settings: GuardSettings | None, *, recoverable: bool = False) -> tuple[str, str]:
    """What is decided about one operation, and by what: its own name, or the configuration key that says so. A
    `recoverable` operation (`is_recoverable`) is allowed."""
    rule = settings.policy.get(name) if settings is not None else None
    if rule is not None:
        return rule.decision, rule.key
    return ALLOW if recoverable else OPERATIONS[name].default, name


def is_recoverable(operation: Operation, settings: GuardSettings) -> bool:
    """Whether an operation in an agent's own worktree is allowed because a checkpoint brings everything back."""
    known = OPERATIONS[operation.name]
    return (
        known.default != ALLOW
        and operation.name not in settings.policy
        and is_effect_recoverable(
            known.effect,
            fully_saved=known.fully_saved and settings.auto_on("beforeRisky"),
            own=operation.own,
            limited=operation.limited,
            preset=settings.preset,
        )
    )


def is_effect_recoverable(effect: str, *, fully_saved: bool, own: bool, limited: bool, preset: str) -> bool:
    """Whether an operation in the agent's own worktree is allowed though its default is not.

    `fully_saved`: a checkpoint created before it holds all that it takes away. `own`, `limited`: as in
    `decision.Operation`; files of the agent's own worktree are its own.
    """
    is_own = effect in _IN_THE_WORKTREE or (effect in _SHARED and own)
    return fully_saved and is_own and (limited or preset == RECOVERABLE)


def _strictest(found: Sequence[tuple[str, str]]) -> tuple[str, str | None]:
    worst = max(found, key=lambda each: RANK[each[0]], default=None)
    if worst is None:
        return ALLOW, None
    return worst[0], worst[1] if worst[0] != ALLOW or "." in worst[1] else None


def decide(
    operations: Sequence[Operation],
    settings: GuardSettings | None,
    *,
    reason: str | None = None,
    instead: str | None = None,
    recoverable: Container[Operation] = (),
) -> Decision:
    """What is decided about a command that does all of `operations`. The strictest of them gives the reason, unless one
    is given. Operations in `recoverable` are allowed unless configuration says otherwise."""

    def about(each: Operation) -> tuple[str, str]:
        return rule_for(each.name, settings, recoverable=each in recoverable)

    ordered = sorted(
        dict.fromkeys(operations),
        key=lambda each: (-RANK[about(each)[0]], -RANK[OPERATIONS[each.name].default]),
    )
    decided, rule = _strictest([about(each) for each in ordered])
    names = list(dict.fromkeys(each.name for each in ordered))
    if decided == ALLOW:
        return Decision(decided, names, rule)
    worst = OPERATIONS[ordered[0].name]
    subject = f" ({ordered[0].subject})" if ordered[0].subject else ""
    return Decision(decided, names, rule, reason or worst.reason + subject, instead or worst.instead or None)
