"""Whose work went into which merge.

Two sources say so. The commits on branches: a merge of our own (`worktree merge`, `run accept`) names its agents in
trailers, squashed or not; any other has as a further parent a commit that the agent made. And the working memory
(`memory merge`), which knows merges that are on no branch any more, and those that no commit shows: squashed by hand,
or fast-forwarded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from git_agentos import memory
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.git import refs
from git_agentos.git.repository import Repository
from git_agentos.history import CommitRange, commit_time
from git_agentos.report.lanes import MERGE, Mark
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.worktree import layout

_TRAILER = "Agentos-Agent"
_FIELDS = ("%H", "%P", "%at", "%s", f"%(trailers:key={_TRAILER},valueonly,separator=%x20)")


class _Commit(NamedTuple):
    """A commit on a branch: `agents` are those that its trailers name."""

    oid: str
    parents: list[str]
    at: str
    subject: str
    agents: list[str]


def of_agents(context: OpenWorktree, ranges: Mapping[str, CommitRange]) -> tuple[dict[str, list[Mark]], bool]:
    """The merges that the work of each agent went into, each once; and whether the memory could be read as a whole."""
    found: dict[str, dict[str, Mark]] = {agent: {} for agent in ranges}
    commits = {each.oid: each for each in _commits(context, ranges.values())}
    owners = _owners(commits, ranges)
    for commit in commits.values():
        agents = {agent for parent in commit.parents[1:] for agent in owners.get(parent, ())}
        # `run accept` names the run in the commit of its work, too, which is no merge.
        is_merge, own = len(commit.parents) > 1, owners.get(commit.oid, set())
        agents |= {agent for agent in commit.agents if is_merge or agent not in own}
        for agent in agents & found.keys():
            found[agent][commit.oid] = Mark(commit.at, MERGE, commit.oid, commit.subject)
    read = memory.read(context, every=True)
    read.report(empty=False)
    for item in reversed(read.rows):
        if item.kind != "merge" or item.commit is None:
            continue
        text = f"merged into {item.target}"
        for agent in item.sources:
            if agent in found:
                found[agent].setdefault(item.commit, Mark(item.created_at, MERGE, item.commit, text))
    return {agent: list(marks.values()) for agent, marks in found.items()}, read.complete


def _commits(context: OpenWorktree, ranges: Iterable[CommitRange]) -> Iterator[_Commit]:
    """The commits on branches and of agents since the oldest base, newest first."""
    known = [each for each in ranges if each.tip is not None]
    if not known:
        return
    repository = context.repository
    tips = {each.tip for each in known if each.tip is not None}
    tips |= set(refs.list_refs(context.location, layout.HEADS, skip_broken=True).values())
    base = _oldest(repository, known)
    words = "\n".join([*sorted(tips), *([f"^{base}"] if base is not None else [])]) + "\n"
    args = ["log", "-z", "--stdin", "--no-show-signature", "--encoding=UTF-8", "--format=" + "%n".join(_FIELDS)]
    for record in repository.git(*args, data=words.encode("ascii")).split(b"\0"):
        lines = os.fsdecode(record).removeprefix("\n").split("\n")
        if len(lines) >= len(_FIELDS):
            oid, parents, seconds, subject, agents = lines[: len(_FIELDS)]
            yield _Commit(oid, parents.split(), commit_time(seconds), subject, agents.split())


def _oldest(repository: Repository, ranges: Iterable[CommitRange]) -> str | None:
    """The commit at which all of these had begun; None where there is none."""
    oldest = None
    for base in dict.fromkeys(each.base for each in ranges):
        if base is None or not repository.exists(base):
            return None
        oldest = base if oldest is None else repository.merge_base(oldest, base)
        if oldest is None:
            return None
    return oldest


def _owners(commits: Mapping[str, _Commit], ranges: Mapping[str, CommitRange]) -> dict[str, set[str]]:
    """Whose line of first parents each commit is on. What an agent has merged into its branch is another's work."""
    found: dict[str, set[str]] = {}
    for agent, (tip, base) in ranges.items():
        oid = tip
        while oid is not None and oid != base and oid in commits:
            found.setdefault(oid, set()).add(agent)
            oid = next(iter(commits[oid].parents), None)
    return found
