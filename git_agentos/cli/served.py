"""What the watch daemon loads in advance, so that it can do the work of a command at once."""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Sequence

from git_agentos.cli import entry
from git_agentos.git.location import Location
from git_agentos.guard import signing
from git_agentos.guard.setup import activation, init_record
from git_agentos.watch.service import Work

# What `checkpoint`, `status`, the hooks and `guard harness` import in the end, and the libraries that take longest.
_MODULES = (
    "cli.commands.checkpoint", "cli.commands.guard", "cli.commands.hook", "cli.commands.status", "cli.direct",
    "cli.authorization", "cli.crash", "cli.progress", "cli.render.json", "checkpoint.log_sync", "checkpoint.pick",
    "checkpoint.queries", "checkpoint.restore.commands", "git.dates", "git.objects.libgit2_store",
    "git.objects.plumbing", "git.refs.files", "git.refs.reftable", "guard.approval.approvals",
    "guard.enforcement.enforcer", "guard.harness.handler", "guard.harness.removed_settings",
    "guard.policy.commands.agentos", "guard.policy.operations", "guard.tampering", "hooks.judges", "hooks.pending",
    "hooks.recorders", "hooks.user_hooks_cache", "log", "worktree.journal", "workspace",
)  # fmt: skip


def load() -> Work:
    """Load them; what the daemon can do then."""
    for name in _MODULES:
        importlib.import_module(f"git_agentos.{name}")
    gc.collect()
    gc.freeze()  # the collector leaves all that alone from now on, so that forked processes share its memory
    return Work(signing.key(os.environ), entry.run, _saved)


def _saved(worktrees: Sequence[Location]) -> Sequence[Location]:
    """Those that are guarded; all of them where `init` was called in their repository."""
    if worktrees and init_record.is_watched(worktrees[0].common_dir):
        return worktrees
    return activation.enabled(worktrees)
