"""What `agentos.retention` and `agentos.diskBudget` say, applied to the checkpoints that were created automatically.

The budget is enforced an hour after it was exceeded: until then commands warn (`checkpoint.upkeep`).
"""

from __future__ import annotations

import contextlib
import os
import time

from git_agentos import config
from git_agentos.checkpoint import timeline, upkeep
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.retention import forgetting, plan, protection, rules, storage
from git_agentos.retention.forgetting import Forgotten, Request
from git_agentos.retention.rules import Rules
from git_agentos.util import directories, files

_GRACE = 3500.0  # seconds between the warning and the deletion: a little less than an hour
_WORTH = 8  # a pack is written again only for an eighth of its objects: it may be large, and this is done every hour


def apply(context: OpenWorktree) -> Forgotten:
    """Forget what the rules and the budget say. ConfigurationError or UsageError for a bad setting."""
    names = sorted(timeline.all_names(context.location))
    wanted = rules.parse(config.retention(context.settings.values))
    done = Forgotten((), (), ())
    if wanted is not None:
        done = forgetting.forget(context, Request(names, rules=wanted), worth=_WORTH)
    more = _keep_budget(context, names)
    if more is None:
        return done
    gone = set(more.forgotten)
    return done._replace(
        forgotten=(*done.forgotten, *more.forgotten),
        kept=tuple(oid for oid in done.kept or more.kept if oid not in gone),
        protected=done.protected or more.protected,
        freed_bytes=done.freed_bytes + more.freed_bytes,
        unreachable=(*done.unreachable, *more.unreachable),
    )


def _keep_budget(context: OpenWorktree, names: list[str]) -> Forgotten | None:
    """Warn that the budget is exceeded; or, if that was done an hour ago, forget the oldest automatic checkpoints."""
    path = upkeep.budget_mark(context.location)
    budget = config.disk_budget(context.settings.values)
    taken = 0 if budget is None else storage.measure(context, names).total_bytes
    if budget is None or taken <= budget:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return None
    since = _since(path)
    if since is None or time.time() - since < _GRACE:
        if since is None:
            directories.make_own(context.location.shared_state_dir)
            files.create(path, f"{taken}\n".encode())
        return None
    oldest = _oldest(context, names, taken - budget)
    if not oldest:
        return None
    done = forgetting.forget(context, Request(names, oldest), worth=_WORTH)
    if taken - done.freed_bytes <= budget:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    return done


def _since(path: str) -> float | None:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return None


def _oldest(context: OpenWorktree, names: list[str], wanted: int) -> list[str]:
    """The oldest checkpoints that nothing protects, as many as are needed to free so many bytes."""
    repository = context.repository
    needed, blocked = protection.needed(context), protection.busy(context.location)
    plans = [found for name in names if name not in blocked and (found := plan.read(repository, name)) is not None]
    ages = []
    for each in plans:
        free = plan.by_rules(each, Rules({}), needed).forgotten
        ages += [
            (link.commit.time, -n, link.checkpoint) for n, link in enumerate(each.links) if link.checkpoint in free
        ]
    ordered = [oid for _, _, oid in sorted(ages)]
    held = storage.held(repository, plans, context.progress)
    low, high = 0, len(ordered)  # the fewest that free enough
    while low < high:
        middle = (low + high) // 2
        if sum(each.freed_by(frozenset(ordered[:middle])) for each in held) < wanted:
            low = middle + 1
        else:
            high = middle
    return ordered[:low]
