"""The checkpoint format, version 1: State <-> commits. This docstring is its specification.

A checkpoint is a commit C that `git stash apply --index` understands:

    C  tree      the worktree's state of all tracked paths
       parent 1  H  HEAD's commit (unborn HEAD: a parentless commit of the empty tree)
       parent 2  I  tree = the index (stage 0; an unmerged path takes stage 2), parent H
       parent 3  U  tree = untracked, not ignored files (may be empty), no parent
       parent 4  S  tree = what a stash cannot hold, no parent:
                      meta.json          below
                      stages/<n>/<path>  index stages 1-3 of unmerged paths
                      gitdir/<name>      files of the operation in progress, `refs/bisect/*` among them
                      gitdir-trees/<n>   trees that those files name (AUTO_MERGE)
                      ignored/<path>     ignored files that had to be saved; ignored files with ignore rules
                      rules/<name>       ignore rules outside the worktree: `exclude` (info/exclude), `users`
                      raw/<path>         the bytes on disk, if they cannot be computed from the blob
                      nested/<path>      JSON that describes a repository inside the worktree (see `nested`)
                      sparse-checkout    the patterns of a sparse checkout
                      log.jsonl          entries of the agent log since the previous checkpoint, if any: one JSON
                                         object per line, ASCII, as in `store.rows`
                      memory.jsonl       items of the working memory in the same way, as in `store.rows`
                      database/<name>    of a removed or archived worktree: log.jsonl and memory.jsonl with all rows,
                                         and issue_workflow.db, a copy of the workflow database
                      worktree.json      of such a worktree: its record (`worktree.record`)
                      runs/<path>        of such a worktree, and of a run when it begins and ends: evidence of runs

An entry may be in two checkpoints (created at the same moment): those with the same id are one entry.

C's message is the description, then the trailers Agentos-Format, Agentos-Agent, Agentos-Worktree, Agentos-Trigger, and,
if they are known, Agentos-Task and Agentos-Branch. The timeline commit J has C's message, the tree of C plus U, and the
parents previous J, C, and then commits that must be kept and that perhaps nothing else reaches: those of the operation
in progress, of nested repositories, and, of a worktree that is removed, those that only its reflog and refs reach.

meta.json (UTF-8 JSON; paths relative to the worktree root as `os.fsdecode` gives them, so a byte that is not UTF-8 is a
lone surrogate, escaped):

    format            1
    created_at        ISO 8601 UTC, milliseconds, Z
    nonce             random hex digits: two checkpoints of the same state at the same moment are two
    created_by, worktree, worktree_path, trigger, description, task_id, run_id, session_id, meta
    head              {"ref": full name or null, "commit": id or null}
    intent_to_add     {path: mode}
    assume_unchanged  [path]
    skip_worktree     [path, or directory with a trailing slash for everything below; "/" for all]
    not_present       [path] known not to exist, even if ignored: what a restore created after this checkpoint
    absent            the paths of skip_worktree that are not on disk, in the same form
    sparse            null or {"cone": bool, "index": bool}
    excludes_file     core.excludesFile if it is in the worktree, else null; absent: the rules were not recorded
    empty_directories [path]
    complete          true, only if it contains everything: all ignored files, all empty directories, and
    folders           {path: octal string} the permission bits of directories, if they are not what umask gives
    permissions       {path: octal string}, if they are not what umask gives
    umask             octal string
    crlf              [path] whose bytes on disk are the blob's with each LF as CRLF. If this key exists, the bytes of
                      every path in ignored/, staged_changes, unstaged_changes and untracked_files are known: those in
                      raw/, else by this list, else the blob's. They are restored without conversion
    as_stored         [path] unmodified files that git converts, and whose bytes on disk are the blob's
    line_ends         core.autocrlf and core.eol, if set: git checks out unmodified files by them
    filters           [name] of the filters that had a smudge or process command
    operation         null or its name
    skipped           [{"path", "reason"}]
    staged_changes, unstaged_changes, untracked_files   [path]
    state             SHA-1 over everything that makes the state; equal states have equal values
    restores          of the checkpoint before a restore, undo or rollback: the id that it restored; else null
    restored_part     if that was limited: {"paths": [path] or null, "no_branch": bool,
                      "keep_new": bool}; else null. With "hunks_of", chosen hunks of that checkpoint were restored:
                      `restores` then names a checkpoint with the trigger `hunks`, which is on no timeline, and is one
                      of the commits that J keeps: the state before with these hunks
    tool, git         versions

A reader refuses a higher `Agentos-Format` or `format`, and ignores keys that it does not know.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from git_agentos.checkpoint import renamed, state_fields
from git_agentos.checkpoint.model import Checkpoint, Metadata, Skipped, State
from git_agentos.errors import CheckpointFormatError, MissingObjectsError, UsageError
from git_agentos.git import trees
from git_agentos.git.repository import CommitData, Repository, Writer
from git_agentos.git.trees import Change
from git_agentos.util import times
from git_agentos.util.named_tuple import NamedTuple

FORMAT = 1
TRIGGERS = (
    "manual", "periodic", "before_risky", "milestone", "before_restore", "before_rollback", "before_merge",
    "after_commit", "after_checkout", "pre_commit", "task_complete", "phase_complete", "pre_run", "pre_step",
    "post_step", "before_remove", "archive",
)  # fmt: skip
# Of a checkpoint that is the target of a restore of chosen hunks. It is on no timeline, so it is not one of TRIGGERS.
HUNKS = "hunks"
_OPERATION_TREES = b"gitdir-trees"
# With these triggers, a checkpoint is created even if nothing has changed since the last one.
EVEN_IF_UNCHANGED = ("manual", "milestone")


class OpenCheckpoint(NamedTuple):
    """The commits of a checkpoint."""

    commit: CommitData
    head: str
    index_commit: str
    untracked: str
    metadata_commit: str
    meta: Mapping[str, Any]


def check_trigger(trigger: str) -> str:
    """Check that a trigger is known; else UsageError."""
    if trigger not in TRIGGERS:
        raise UsageError(f"'{trigger}' is not a trigger", f"one of: {', '.join(TRIGGERS)}")
    return trigger


# -- writing -------------------------------------------------------------------------------------------------------


def write(
    writer: Writer,
    state: State,
    metadata: Metadata,
    committer: bytes,
    versions: Mapping[str, str],
    attachments: Mapping[bytes, trees.Entry] = MappingProxyType({}),
) -> Checkpoint:
    """Write C and its trees; returns the checkpoint. `attachments` are further entries of S (`database/…`)."""
    now = datetime.now(UTC)
    seconds = int(now.timestamp())
    created_at = times.to_text(now)
    meta = {
        "format": FORMAT,
        "created_at": created_at,
        "nonce": os.urandom(8).hex(),
        "created_by": metadata.created_by,
        "worktree": metadata.worktree_id,
        "worktree_path": metadata.worktree_path,
        "trigger": metadata.trigger,
        "description": metadata.description,
        "task_id": metadata.task_id,
        "run_id": metadata.run_id,
        "session_id": metadata.session_id,
        "meta": dict(metadata.meta),
        "restores": metadata.restores,
        "restored_part": None if metadata.restored_part is None else dict(metadata.restored_part),
        **state_fields.to_fields(state),
        **state_fields.conversion_fields(state),
        "state": state_fields.digest(state),
        **versions,
    }
    message = _message(metadata, state.head.branch)
    unborn = state.head.commit is None
    writer.write_tree(b"")  # git fsck requires the empty tree as an object
    head = state.head.commit or writer.write_commit(writer.hash.empty_tree, [], b"unborn HEAD\n", committer, seconds)
    index = writer.write_commit(
        state.index_tree, [head], b"index" + (b" of an unborn branch" if unborn else b"") + b"\n", committer, seconds
    )
    untracked = writer.write_commit(state.untracked_tree, [], b"untracked files\n", committer, seconds)
    extra = writer.write_commit(
        _extra_tree(writer, state, meta, attachments), [], b"what a stash cannot hold\n", committer, seconds
    )
    oid = writer.write_commit(state.tree, [head, index, untracked, extra], message, committer, seconds)
    return describe(oid, meta)


def write_timeline_commit(writer: Writer, checkpoint: str, previous: str, state: State, committer: bytes) -> str:
    """Write J for a checkpoint on top of `previous`, with the message and time of C."""
    pins = [oid for oid in dict.fromkeys(state.pins) if oid not in (previous, checkpoint)]
    made = writer.pending_commit(checkpoint)
    return writer.write_commit(state.visible_tree, [previous, checkpoint, *pins], made.message, committer, made.time)


def _message(metadata: Metadata, branch: str | None) -> bytes:
    text = metadata.description.replace("\0", " ").strip() or f"{metadata.trigger.replace('_', ' ')} checkpoint"
    trailers = {
        "Agentos-Format": str(FORMAT),
        "Agentos-Agent": metadata.created_by,
        "Agentos-Worktree": metadata.worktree_id,
        "Agentos-Trigger": metadata.trigger,
        "Agentos-Task": metadata.task_id,
        "Agentos-Branch": branch,
    }
    lines = [f"{key}: {' '.join(value.split())}" for key, value in trailers.items() if value]
    return os.fsencode(text + "\n\n" + "\n".join(lines) + "\n")


def _extra_tree(writer: Writer, state: State, meta: Mapping[str, Any], attachments: Mapping[bytes, trees.Entry]) -> str:
    data = json.dumps(meta, sort_keys=True, indent=1).encode("ascii") + b"\n"
    entries = state_fields.extra_entries(state)
    changes: dict[bytes, Change] = {os.fsencode(name): entry for name, entry in entries.items()}
    changes[b"meta.json"] = (trees.REGULAR, writer.write("blob", data))
    changes.update(attachments)
    for name, oid in state.operation_trees.items():
        changes[_OPERATION_TREES + b"/" + os.fsencode(name)] = (trees.DIRECTORY, oid)
    return trees.edit(writer, writer.hash.empty_tree, changes)


# -- reading -------------------------------------------------------------------------------------------------------

_TRAILER = rb"(?m)^Agentos-Format: (\S+)$"


def version(commit: CommitData) -> int | None:
    """The format that a commit claims to have; None if it is not a checkpoint."""
    found = re.findall(_TRAILER, commit.message)
    if not found or (len(commit.parents) not in (2, 4) and not len(commit.parents) > 4):
        return None
    return int(found[-1]) if found[-1].isdigit() else 0


def _check_version(oid: str, found: object) -> None:
    if isinstance(found, int) and 1 <= found <= FORMAT:
        return
    if isinstance(found, int) and found > FORMAT:
        raise CheckpointFormatError(
            f"checkpoint {oid[:8]} has format {found}; this version of git-agentos reads up to {FORMAT}",
            "install a newer git-agentos",
        )
    raise CheckpointFormatError(f"checkpoint {oid[:8]} has a format that cannot be read")


def open_checkpoint(repository: Repository, oid: str) -> OpenCheckpoint:
    """Open a checkpoint: its commits and its metadata.

    Of one that was written again, under another id, the new one. Raises CheckpointFormatError if the commit is not a
    checkpoint or has a newer format, MissingObjectsError if objects are missing.
    """
    try:
        commit = repository.commit(oid)
    except MissingObjectsError:
        now = renamed.current(repository, oid)
        if now == oid:
            raise
        renamed.say(oid, now)
        commit = repository.commit(now)
    claimed = version(commit)
    if claimed is None or len(commit.parents) < 4:
        raise CheckpointFormatError(
            f"commit {oid[:8]} is not a checkpoint", "git agentos checkpoint list shows the checkpoints"
        )
    _check_version(oid, claimed)
    head, index, untracked, extra = commit.parents[:4]
    meta = _meta(repository, oid, extra)
    return OpenCheckpoint(commit, head, index, untracked, extra, meta)


def _meta(repository: Repository, oid: str, extra: str) -> Mapping[str, Any]:
    entry = repository.entries(repository.commit(extra).tree).get(b"meta.json")
    if entry is None:
        raise CheckpointFormatError(f"checkpoint {oid[:8]} has no meta.json")
    try:
        meta = json.loads(repository.blob(entry[1]).decode("ascii"))
        found = meta["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointFormatError(f"the metadata of checkpoint {oid[:8]} is damaged") from error
    _check_version(oid, found)
    return dict(meta)


def describe(oid: str, meta: Mapping[str, Any], *, unchanged: bool = False) -> Checkpoint:
    """The checkpoint that `meta` describes."""
    try:
        head = meta["head"]
        ref = head["ref"]
        staged, unstaged, untracked = meta["staged_changes"], meta["unstaged_changes"], meta["untracked_files"]
        return Checkpoint(
            id=oid,
            created_at=meta["created_at"],
            created_by=meta["created_by"],
            branch=ref.removeprefix("refs/heads/") if ref is not None else None,
            commit=head["commit"],
            worktree_path=meta["worktree_path"],
            task_id=meta["task_id"],
            description=meta["description"],
            trigger=meta["trigger"],
            staged_changes=staged,
            unstaged_changes=unstaged,
            untracked_files=untracked,
            skipped=[Skipped(item["path"], item["reason"]) for item in meta["skipped"]],
            stash_ref=oid if staged or unstaged or untracked or meta["operation"] else None,
            operation=meta["operation"],
            run_id=meta["run_id"],
            session_id=meta["session_id"],
            meta=meta["meta"],
            timeline=meta["worktree"],
            unchanged=unchanged,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise CheckpointFormatError(f"the metadata of checkpoint {oid[:8]} is damaged") from error


def read(repository: Repository, oid: str) -> Checkpoint:
    """The checkpoint with this id."""
    return describe(oid, open_checkpoint(repository, oid).meta)


def read_state(repository: Repository, oid: str) -> State:
    """The complete state in a checkpoint. Only the objects that this needs are read; others are not checked."""
    found = open_checkpoint(repository, oid)
    try:
        return state_fields.from_fields(found.meta, _read_extra(repository, found))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointFormatError(f"the metadata of checkpoint {oid[:8]} is damaged") from error


def _read_extra(repository: Repository, found: OpenCheckpoint) -> state_fields.Extra:
    """What the checkpoint holds of the state."""
    index_tree, untracked_tree = (repository.commit(each).tree for each in (found.index_commit, found.untracked))
    top = repository.entries(repository.commit(found.metadata_commit).tree)
    groups = {
        os.fsdecode(name): dict(trees.walk(repository, child))
        for name, (mode, child) in top.items()
        if mode == trees.DIRECTORY and name != _OPERATION_TREES
    }
    operation_trees = {}
    if _OPERATION_TREES in top:
        pinned = repository.entries(top[_OPERATION_TREES][1])
        operation_trees = {os.fsdecode(name): child for name, (_, child) in pinned.items()}
    patterns = top.get(b"sparse-checkout")
    return state_fields.Extra(
        index_tree, found.commit.tree, untracked_tree, groups, operation_trees, patterns and patterns[1]
    )


def read_attachment(repository: Repository, oid: str, path: bytes) -> bytes | None:
    """The contents of an attachment of a checkpoint; None if it does not have it."""
    entry = trees.find(repository, repository.commit(open_checkpoint(repository, oid).metadata_commit).tree, path)
    return repository.blob(entry[1]) if entry is not None and entry[0] != trees.DIRECTORY else None


def raw_paths(repository: Repository, oid: str) -> set[bytes]:
    """The paths whose bytes on disk a checkpoint stores in `raw/`."""
    top = repository.entries(repository.commit(open_checkpoint(repository, oid).metadata_commit).tree)
    return {path for path, _ in trees.walk(repository, top[b"raw"][1])} if b"raw" in top else set()


def with_visible_tree(repository: Repository, writer: Writer, state: State) -> State:
    """`state` with the tree of C plus U, which a checkpoint does not name (its timeline commit has it)."""
    others = dict(trees.walk(repository, state.untracked_tree))
    changes: dict[bytes, Change] = {**others}
    return state._replace(visible_tree=trees.edit(writer, state.tree, changes))
