"""Timelines of other hosts: checked before a ref here leads to them, and found by `--host`.

Everything in them was written by somebody else. A timeline is taken only if it continues what was fetched before, and
if each new checkpoint is one of that timeline, whose metadata says what its commits say. What a restore makes of paths,
of the operation in progress and of nested repositories it checks itself, for any checkpoint.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from git_agentos.checkpoint import format, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, CheckpointFormatError, CheckpointNotFound, RepositoryError
from git_agentos.git import refs, trees
from git_agentos.git.repository import Repository
from git_agentos.sync import names, remotes
from git_agentos.sync.names import RemoteTimeline

_MOST_METADATA = 64 << 20  # bytes
_LINES = frozenset((b"log.jsonl", b"memory.jsonl"))
_TEXTS = ("created_by", "worktree", "worktree_path", "trigger", "description")
_MAYBE_TEXTS = ("task_id", "run_id", "session_id", "operation")
_LISTS = ("staged_changes", "unstaged_changes", "untracked_files")
_HEADS = "refs/heads/"


# -- checking ----------------------------------------------------------------------------------------------------------


def take(repository: Repository, remote: str, name: RemoteTimeline, tip: str) -> int:
    """Set the ref of a fetched timeline to `tip`, whose objects are here; how many checkpoints are new.

    RepositoryError or CheckpointFormatError where it is not what it should be; the ref is then left as it was.
    """
    ref = name.fetched_from(remote)
    old = refs.resolve(repository.location, ref)
    new = check(repository, name, tip, old)
    refs.update(repository.location, ref, tip, old)
    return new


def check(repository: Repository, name: RemoteTimeline, tip: str, old: str | None) -> int:
    """Check a chain down to `old`; how many checkpoints are new."""
    count, below = 0, tip
    for commit in timeline.commits(repository, tip):
        if commit.oid == old:
            return count
        if not _is_carrier(repository, commit.parents[1]):
            check_checkpoint(repository, commit.parents[1], name.timeline)
            count += 1
        below = commit.parents[0]
    first = repository.commit(below)
    if below != old and old is not None:
        raise RepositoryError(f"the timeline '{name.name}' of '{name.host}' does not continue what was fetched before")
    if first.parents or first.tree != repository.hash.empty_tree:
        raise RepositoryError(f"'{name.on_remote}' is not a timeline")
    return count


def check_checkpoint(repository: Repository, oid: str, worktree: str) -> None:
    """CheckpointFormatError unless a commit is a checkpoint of the worktree with this id, with sound metadata."""
    commit = repository.commit(oid)
    if len(commit.parents) >= 4:
        entry = repository.entries(repository.commit(commit.parents[3]).tree).get(b"meta.json")
        if entry is not None and repository.size(entry[1]) > _MOST_METADATA:
            raise CheckpointFormatError(f"the metadata of checkpoint {oid[:8]} is larger than any can be")
    found = format.open_checkpoint(repository, oid)
    problem = _problem(found.meta, worktree) or _other_head(repository, found)
    if problem is not None:
        raise CheckpointFormatError(f"the metadata of checkpoint {oid[:8]} is not sound: {problem}")


def _problem(meta: Mapping[str, Any], worktree: str) -> str | None:
    """What is wrong with the values themselves."""
    for key in (*_TEXTS, "created_at"):
        if not isinstance(meta.get(key), str):
            return f"'{key}' is no text"
    for key in _MAYBE_TEXTS:
        if not isinstance(meta.get(key), str | None):
            return f"'{key}' is no text"
    if any(not _is_list_of_texts(meta.get(key)) for key in _LISTS):
        return "paths are no list"
    skipped, more, head = meta.get("skipped"), meta.get("meta"), meta.get("head")
    if not isinstance(skipped, list) or any(not _is_mapping_of_texts(each, "path", "reason") for each in skipped):
        return "'skipped' is no list of paths"
    if not _is_mapping_of_texts(more):
        return "'meta' has no texts"
    if not isinstance(head, dict) or any(not isinstance(head.get(key), str | None) for key in ("ref", "commit")):
        return "'head' has no commit"
    if meta["worktree"] != worktree:
        return f"it is of the worktree '{meta['worktree'][:80]}'"
    if meta["trigger"] not in format.TRIGGERS:
        return "its trigger is unknown"
    try:
        if datetime.fromisoformat(meta["created_at"]).tzinfo is None:
            return "its time is in no time zone"
    except ValueError:
        return "its time is no time"
    ref = head["ref"]
    return None if ref is None or (ref.startswith(_HEADS) and refs.is_well_formed(ref)) else "its HEAD is on no branch"


def _other_head(repository: Repository, found: format.OpenCheckpoint) -> str | None:
    """Whether the metadata names another commit than the one that the checkpoint is on top of."""
    head = repository.commit(found.head)
    index = repository.commit(found.index_commit)
    unborn = not head.parents and head.tree == repository.hash.empty_tree and found.meta["head"]["commit"] is None
    if found.meta["head"]["commit"] != found.head and not unborn:
        return "HEAD is another commit than its own"
    return None if index.parents == (found.head,) else "its index is that of another commit"


def _is_carrier(repository: Repository, oid: str) -> bool:
    """Whether a commit carries only log and memory of checkpoints that were forgotten."""
    commit = repository.commit(oid)
    entries = repository.entries(commit.tree)
    return not commit.parents and set(entries) <= _LINES and all(each[0] == trees.REGULAR for each in entries.values())


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_mapping_of_texts(value: object, *keys: str) -> bool:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        return False
    return all(key in value for key in keys)


# -- finding -----------------------------------------------------------------------------------------------------------


def of_host(context: OpenWorktree, host: str) -> dict[str, str]:
    """Worktree id -> timeline, of a host whose timelines were fetched: of each the newest generation.

    `host` is a name, or the beginning of the only one that begins so. CheckpointNotFound if there is none.
    """
    found: dict[str, list[tuple[bool, str, RemoteTimeline, str]]] = {}
    preferred = remotes.default(context.settings.values)
    for ref in refs.list_refs(context.location, timeline.FETCHED, skip_broken=True):
        parsed = names.parse_fetched(ref)
        if parsed is not None:
            remote, name = parsed
            found.setdefault(name.host, []).append((remote == preferred, remote, name, ref))
    hosts = [host] if host in found else sorted(each for each in found if host and each.startswith(host))
    if len(hosts) != 1:
        raise _unknown_host(host, hosts)
    rows = found[hosts[0]]
    # One remote: a timeline there and on another one need not be the same.
    chosen = max(rows, key=lambda row: (row[0], row[1]))[1]
    newest: dict[str, tuple[int, str]] = {}
    for _, remote, name, ref in rows:
        if remote == chosen and name.generation > newest.get(name.timeline, (0, ""))[0]:
            newest[name.timeline] = (name.generation, ref)
    return {id_: ref for id_, (_, ref) in sorted(newest.items())}


def one(context: OpenWorktree, host: str, worktree: str) -> str:
    """The timeline of one worktree of a host; CheckpointNotFound if there is none."""
    known = of_host(context, host)
    if worktree not in known:
        raise _unknown_timeline(host, worktree, known)
    return known[worktree]


def find(context: OpenWorktree, spec: str, host: str, agent: str | None, *, every: bool) -> timeline.TimelineEntry:
    """The checkpoint that `spec` names in a host's timeline: that of `agent`, by default that with the id of this
    worktree, or with `every` all. It is checked again: a ref may have been set by hand."""
    known = of_host(context, host)
    wanted = agent or context.worktree_id
    if not every and wanted not in known:
        raise _unknown_timeline(host, wanted, known)
    among = list(known.values()) if every else [known[wanted]]
    try:
        entry = timeline.find(context.repository, spec, among)
    except CheckpointNotFound as error:
        raise CheckpointNotFound(_reworded(error, host), _HINT_ALL.format(host=host)) from error
    parsed = names.parse_fetched(entry.timeline)
    assert parsed is not None
    check_checkpoint(context.repository, entry.checkpoint, parsed[1].timeline)
    return entry


_HINT_ALL = "git agentos checkpoint list --all --host {host} shows those of all its worktrees"


def _reworded(error: AgentosError, host: str) -> str:
    """The message of an error with the host's name in place of the ref."""
    return re.sub(rf"'{re.escape(timeline.FETCHED)}[^']*/timelines/([^'/]+)'", rf"'\1' of '{host}'", error.message)


def _unknown_host(host: str, hosts: Iterable[str]) -> CheckpointNotFound:
    several = ", ".join(f"'{each}'" for each in hosts)
    if several:
        return CheckpointNotFound(f"'{host}' is the beginning of several hosts: {several}", "give more of its name")
    return CheckpointNotFound(
        f"no timeline of a host '{host}' was fetched", "git agentos sync --fetch fetches them, and lists their hosts"
    )


def _unknown_timeline(host: str, worktree: str, known: Mapping[str, str]) -> CheckpointNotFound:
    there = ", ".join(list(known)[:10])
    return CheckpointNotFound(
        f"there is no timeline '{worktree}' of the host '{host}'", f"--agent ID chooses another one: {there}"
    )
