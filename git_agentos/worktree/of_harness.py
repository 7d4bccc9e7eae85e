"""The worktrees that a harness makes for itself and removes: they are ours, as those of `worktree create`.

Nobody is asked for approval, since nothing can be lost by either, and a harness can remove only what it has made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from git_agentos.errors import WorktreeError
from git_agentos.git.location import locate
from git_agentos.guard.enforcement import saving
from git_agentos.util import directories, locks
from git_agentos.worktree import creation, layout, record, removal, status

_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9._-]+")


def create(name: str, cwd: str, agent: str, environment: Mapping[str, str]) -> str:
    """The path of the worktree `name` in the repository at `cwd`, made by `agent`: a new one, or the one that exists;
    an archived one comes back. Characters that no id has become hyphens. AgentosError as `creation.create`."""
    location = locate(cwd, use_environment=False)
    context = saving.context_at(location, agent, environment)
    id_ = _NOT_IN_IDS.sub("-", name).strip("-.")
    # A harness may call two hooks at once: neither may name a folder that the other has not made yet.
    with locks.hold(os.path.join(directories.make_own(location.shared_state_dir), "harness.turn")):
        known = {each.id: each.state for each in status.list_worktrees(context).worktrees}
        if known.get(id_, status.ARCHIVED) == status.ARCHIVED:
            creation.create(context, id_, revive=id_ in known)
    return status.path(context, id_)


def archive(path: str, agent: str, environment: Mapping[str, str]) -> None:
    """Archive the worktree at `path`, which `agent` has made or is; nothing if it is no agent's."""
    location = locate(path, use_environment=False)
    known = record.read(location.git_dir)
    if known is None:
        return
    if agent not in (known.created_by, known.id):
        raise WorktreeError(
            f"'{agent}' has not made the worktree '{known.id}'", f"git agentos worktree archive {known.id}"
        )
    main = locate(layout.main_folder(location), use_environment=False)
    removal.archive(saving.context_at(main, None, environment), known.id)
