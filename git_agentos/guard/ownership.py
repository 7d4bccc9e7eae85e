"""Whose a worktree is: which worktrees an agent may change as its own.

An agent's own worktree is the one that it was started for. Of the process that acts and those above it, the outermost
that is an agent's decides: by `AGENTOS_AGENT_ID` (or `guard exec`) if that names an agent's worktree, else by the
folder that it works in. If these two are worktrees of different agents, the process has no worktree of its own. So an
agent that changes to another agent's folder, or sets another agent's id, does not gain that worktree. Worktrees that an
agent has made are its own as well, and those made from these.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

from git_agentos.errors import AgentosError
from git_agentos.git import gitfile, location, process, worktrees
from git_agentos.guard import ancestry, identity
from git_agentos.guard.identity import Identity
from git_agentos.process import table
from git_agentos.util import directories, files
from git_agentos.util.named_tuple import NamedTuple

_MAKER = "made-by"  # in the folder `agentos` of a worktree that plain git has made
_DEEPEST = 16  # worktrees made by an agent in a worktree made by an agent …


class Caller(NamedTuple):
    """Who asks: `identity`, and the `environment`, the folder (None if it is not known) and the process from which it
    asks."""

    identity: Identity
    environment: Mapping[str, str]
    cwd: str | None
    pid: int


class _Claim(NamedTuple):
    """One process of an agent: the id in its environment, and the git directory of the folder that it works in."""

    agent: str | None
    git_dir: str | None


def owns(caller: Caller, git_dir: str) -> bool:
    """Whether the worktree with this git directory is the caller's own."""
    home, makers = _own_worktree(caller, gitfile.common_dir(git_dir))
    for _ in range(_DEEPEST):
        if git_dir == home:
            return True
        made_by = _made_by(git_dir)
        if made_by is None:
            return False
        if made_by in makers:
            return True
        above = _managed(gitfile.common_dir(git_dir)).get(made_by)
        if above is None:
            return False
        git_dir = above
    return False


def is_others(caller: Caller, git_dir: str) -> bool:
    """Whether a worktree belongs to somebody else: to the repository in which the caller has its own worktree, or to an
    agent in any repository. A repository that the caller has made for itself elsewhere belongs to nobody else."""
    if owns(caller, git_dir):
        return False
    common_dir = gitfile.common_dir(git_dir)
    home, _ = _own_worktree(caller, common_dir)
    return identity.worktree_agent_id(git_dir) is not None or home is None or gitfile.common_dir(home) == common_dir


def record_maker(caller: Caller, git_dir: str) -> None:
    """Record that the caller has made this worktree with plain git, so that it is the caller's own. OSError if that
    cannot be written."""
    _, makers = _own_worktree(caller, gitfile.common_dir(git_dir))
    if makers:
        folder = directories.make_own(os.path.join(git_dir, "agentos"))
        files.replace(os.path.join(folder, _MAKER), min(makers).encode("ascii", "replace") + b"\n", mode=0o600)


def owns_id(caller: Caller, folder: str, id_: str) -> bool:
    """Whether the agent's worktree `id_`, in the repository of `folder`, is the caller's own. A worktree that does not
    exist belongs to the agent that has its name."""
    found = locate_worktree(caller, folder)
    if found is None:
        return False
    git_dir = _managed(found.common_dir).get(id_)
    return owns(caller, git_dir) if git_dir is not None else id_ == caller.identity.agent


def owns_folder(caller: Caller, folder: str) -> bool:
    """Whether the worktree in which a command in `folder` works is the caller's own, both its git directory and its
    files. Outside of repositories nothing belongs to others."""
    at_folder = gitfile.find(folder)
    found = locate_worktree(caller, folder)
    if found is None:
        # If variables contradict the folder, nothing is the caller's own.
        contradicts = any(name in caller.environment for name in location.LEADING)
        return not contradicts and (at_folder is None or owns(caller, at_folder[1]))
    is_whole = gitfile.find(found.root) == (found.root, found.git_dir)
    return is_whole and owns(caller, found.git_dir) and (at_folder is None or owns(caller, at_folder[1]))


def is_run_worktree(caller: Caller, folder: str) -> bool:
    """Whether a command in `folder` works in the worktree of a run."""
    found = locate_worktree(caller, folder)
    return found is not None and (identity.worktree_agent_id(found.git_dir) or "").startswith("run-")


def locate_worktree(caller: Caller, folder: str) -> location.Location | None:
    """The worktree in which a command in `folder` works. GIT_DIR, GIT_WORK_TREE and core.worktree may name another one
    than that of the folder."""
    given = {name: caller.environment[name] for name in process.LOCATION_VARIABLES if name in caller.environment}
    env = process.environment(given, base=caller.environment)
    with contextlib.suppress(AgentosError, OSError, ValueError):
        return location.locate(folder, environment=env)
    return None


def _own_worktree(caller: Caller, common_dir: str) -> tuple[str | None, set[str]]:
    """The git directory of the caller's own worktree, and the ids by which it makes others."""
    managed = _managed(common_dir)
    for claim in reversed(list(_claims(caller))):
        named = managed.get(claim.agent) if claim.agent is not None else None
        home = named or claim.git_dir
        is_managed = claim.git_dir is not None and identity.worktree_agent_id(claim.git_dir) is not None
        if named is not None and is_managed and claim.git_dir != named:
            return None, set()  # one agent's id in another agent's worktree: it may be either
        if home is not None:
            ids = {claim.agent, identity.worktree_agent_id(home)} - {None, "main"}
            return home, {each for each in ids if each is not None}
    return None, set()


def _claims(caller: Caller) -> Iterator[_Claim]:
    """The processes of agents, from the one that acts to the outermost."""
    own = caller.identity.agent if caller.identity.source in ("environment", "as", "harness", "worktree") else None
    yield from _claim(own, caller.environment, caller.cwd)
    for pid in table.parents(caller.pid):
        environment = table.environment(pid) or {}
        yield from _claim(None, environment, ancestry.started_in(pid))


def _claim(agent: str | None, environment: Mapping[str, str], cwd: str | None) -> Iterator[_Claim]:
    agent = agent or environment.get("AGENTOS_AGENT_ID") or environment.get(ancestry.MARKER) or None
    git_dir = identity.find_git_dir(cwd) if cwd is not None else None
    if agent is not None or (git_dir is not None and identity.worktree_agent_id(git_dir) is not None):
        yield _Claim(agent, git_dir)


def _managed(common_dir: str) -> dict[str, str]:
    """The git directories of the agents' worktrees, by id."""
    found = {}
    for git_dir in worktrees.linked_git_dirs(common_dir):
        id_ = identity.worktree_agent_id(git_dir)
        if id_ is not None:
            found[id_] = os.path.realpath(git_dir)
    return found


def read_record(git_dir: str) -> dict[str, Any]:
    """The record of an agent's worktree (`worktree.record`); empty if there is none, or it is damaged."""
    try:
        return files.read_object(os.path.join(git_dir, "agentos", "worktree.json"), limit=1 << 20)
    except (OSError, ValueError):
        return {}


def _made_by(git_dir: str) -> str | None:
    """Who made a worktree; None if that is not known, and for the person's own."""
    found = read_record(git_dir).get("created_by") or _recorded_maker(git_dir)
    return found if isinstance(found, str) and found != "main" else None


def _recorded_maker(git_dir: str) -> str | None:
    with contextlib.suppress(OSError):
        return files.read(os.path.join(git_dir, "agentos", _MAKER), limit=1 << 12).decode("ascii", "replace").strip()
    return None
