"""Read checkpoints and the worktree: lists, searches, differences, files, the status. Nothing is changed."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence

from git_agentos.checkpoint import checkout, format, journal, operation, timeline
from git_agentos.checkpoint.capture.request import CaptureRequest
from git_agentos.checkpoint.capture.state import capture_state
from git_agentos.checkpoint.model import Checkpoint, State
from git_agentos.checkpoint.nested import NestedOptions
from git_agentos.checkpoint.own_bytes import OwnBytes
from git_agentos.checkpoint.timeline import TimelineEntry
from git_agentos.config import Settings
from git_agentos.errors import (
    AgentosWarning,
    CheckpointFormatError,
    CheckpointNotFound,
    DamagedFile,
    MissingObjectsError,
    RepositoryError,
)
from git_agentos.git import hunks, merge_tree, refs, state_dir, trees
from git_agentos.git.hunks import FilePatch, HunkKind
from git_agentos.git.repository import Repository, Writer
from git_agentos.git.scan import Scan
from git_agentos.util.named_tuple import NamedTuple


class HunkHeader(NamedTuple):
    """One hunk of a file: `number` counts from 1, in the order of the patch; `kind` is one of `hunks.HunkKind`;
    `header` is its first line in the patch, None of a file as a whole."""

    number: int
    kind: str
    header: str | None


class FileChange(NamedTuple):
    """One path that differs: `status` is git's letter (A, M, D, T)."""

    path: str
    status: str
    hunks: tuple[HunkHeader, ...] = ()


class Diff(NamedTuple):
    """The difference of two states of the visible worktree; `to` is None for the current state. `patch` is git's."""

    from_: str
    to: str | None
    files: tuple[FileChange, ...]
    patch: bytes


class FileDifference(NamedTuple):
    """How one file differs from a checkpoint: its patch from there to the current state, its entries in both (None if
    it is missing), and, if there are hunks of text, its current content as git stores it."""

    patch: FilePatch
    then: trees.Entry | None
    now: trees.Entry | None
    content: bytes | None


class Comparison(NamedTuple):
    """Two trees compared: the files that differ, and the patch. `others` are the paths of further files, with git's
    letters: they are not in the patch, since only so many were asked for."""

    files: tuple[FilePatch, ...]
    patch: bytes
    others: tuple[tuple[bytes, str], ...] = ()


class _Now(NamedTuple):
    """The tree of the current state, and the writer that has its objects."""

    writer: Writer
    tree: str


class FileContent(NamedTuple):
    """One file of a checkpoint, with the bytes that it had in the worktree; `mode` is git's, in octal."""

    checkpoint: str
    path: str
    mode: str
    size: int
    content: bytes


class Interrupted(NamedTuple):
    """A restore that was killed: `phase` is `journalled`."""

    kind: str
    checkpoint: str
    saved: str
    phase: str


class Status(NamedTuple):
    """The status of a worktree; counts are numbers of paths. `interrupted_worktrees` (the ids of those on which a
    command was killed) and `pending_approvals` (`guard.approval.approvals.Approval`) are of the whole repository; the
    workspace fills them in."""

    agent: str
    branch: str | None
    commit: str | None
    worktree_path: str
    dirty: bool
    staged: int
    unstaged: int
    untracked: int
    conflicted: int
    operation: str | None
    last_checkpoint: Checkpoint | None
    pending_approvals: Sequence[object]
    interrupted: Interrupted | None
    interrupted_worktrees: Sequence[str] = ()


def list_checkpoints(
    repository: Repository,
    own: str,
    agent: str | None,
    *,
    every: bool,
    among: Mapping[str, str] | None = None,
) -> Iterator[Checkpoint]:
    """Checkpoints, newest first: of the timeline `own`; with `agent`, those that it created; with `every`, all, or with
    both, those that `agent` created or that were created in its worktree.

    `among` are other timelines than those of this repository, by worktree id; `own` is then one of them.
    Agents may share a worktree: an agent that has created no checkpoint is given those of its worktree.
    CheckpointNotFound if neither a timeline nor a checkpoint has the name `agent`.
    """
    if agent is None and not every:
        for link in timeline.walk(repository, own):
            yield format.read(repository, link.checkpoint)
        return
    names = among if among is not None else {name: name for name in timeline.all_names(repository.location)}
    found = []
    for name, chain in names.items():
        try:
            for n, link in enumerate(timeline.walk(repository, chain)):
                item = format.read(repository, link.checkpoint)
                if agent is None or agent in (item.created_by, item.timeline):
                    found.append((item.created_at, -n, item))
        except (RepositoryError, MissingObjectsError, CheckpointFormatError) as error:
            if len(names) == 1:
                raise
            warnings.warn(AgentosWarning(f"timeline '{name}': {error.message}"), stacklevel=2)
    if agent is not None and not every:
        own_ones = [row for row in found if row[2].created_by == agent]
        found = own_ones or found
    if agent is not None and not found and agent not in names:
        raise unknown_agent(agent)
    yield from (item for _, _, item in sorted(found, key=lambda row: row[:2], reverse=True))


def unknown_agent(agent: str) -> CheckpointNotFound:
    return CheckpointNotFound(
        f"there is no agent or worktree '{agent}' with checkpoints here",
        "git agentos checkpoint list --all shows those of all agents",
    )


def search_text(item: Checkpoint) -> Iterator[str]:
    """The texts that a search compares."""
    yield item.description
    yield item.task_id or ""
    yield from (f"{key}={value}" for key, value in item.meta.items())
    yield from item.staged_changes
    yield from item.unstaged_changes
    yield from item.untracked_files


def diff(repository: Repository, older: TimelineEntry, newer: TimelineEntry, paths: Sequence[str]) -> Diff:
    """What changed in the visible worktree between two checkpoints."""
    trees_ = [repository.commit(link.commit).tree for link in (older, newer)]
    found = _compare(repository, trees_[0], trees_[1], paths)
    return Diff(older.checkpoint, newer.checkpoint, tuple(map(_file_change, found.files)), found.patch)


def compare_with_previous(repository: Repository, link: TimelineEntry, most: int) -> Comparison | None:
    """What changed in the visible worktree since the entry before it on the timeline; the patch of `most` files. None
    of the first entry."""
    commit = repository.commit(link.commit)
    before = repository.commit(commit.parents[0])
    if len(before.parents) < 2:  # the root of the timeline
        return None
    return _compare(repository, before.tree, commit.tree, (), most=most)


def compare_with_commit(repository: Repository, link: TimelineEntry, commit: str | None, most: int) -> Comparison:
    """What a checkpoint's visible worktree has on top of a commit (None: of nothing); the patch of `most` files."""
    return _compare(repository, repository.commit_tree(commit), repository.commit(link.commit).tree, (), most=most)


def compare(repository: Repository, older: TimelineEntry, newer: TimelineEntry, most: int) -> Comparison:
    """What changed in the visible worktree between two checkpoints; the patch of `most` files."""
    trees_ = [repository.commit(link.commit).tree for link in (older, newer)]
    return _compare(repository, trees_[0], trees_[1], (), most=most)


def compare_commits(repository: Repository, older: str | None, newer: str, most: int) -> Comparison:
    """What changed between two commits (None: from nothing); the patch of `most` files."""
    return _compare(repository, repository.commit_tree(older), repository.commit_tree(newer), (), most=most)


def compare_with_now(repository: Repository, settings: Settings, older: TimelineEntry, most: int) -> Comparison:
    """What changed in the visible worktree since a checkpoint; the patch of `most` files."""
    with _compared_with_now(repository, settings, older, (), None, most) as (found, _):
        return found


def diff_with_now(
    repository: Repository, settings: Settings, older: TimelineEntry, paths: Sequence[str], scan: Scan | None
) -> Diff:
    """What changed in the visible worktree since a checkpoint."""
    with _compared_with_now(repository, settings, older, paths, scan) as (found, _):
        return Diff(older.checkpoint, None, tuple(map(_file_change, found.files)), found.patch)


def differences_from_now(
    repository: Repository, settings: Settings, older: TimelineEntry, paths: Sequence[str], scan: Scan | None
) -> tuple[FileDifference, ...]:
    """The hunks by which files of the visible worktree differ from a checkpoint, as `diff_with_now` prints them.
    Repositories in the worktree are not among them."""
    old_tree = repository.commit(older.commit).tree
    with _compared_with_now(repository, settings, older, paths, scan) as (found, at):
        return tuple(
            FileDifference(each, then, now, _text_now(at, each, now))
            for each in found.files
            for then, now in [(_file_at(at.writer, tree, each.path) for tree in (old_tree, at.tree))]
            if trees.GITLINK not in (then and then[0], now and now[0])
        )


def _file_at(writer: Writer, tree: str, path: bytes) -> trees.Entry | None:
    entry = trees.find(writer, tree, path)
    return None if entry is None or entry[0] == trees.DIRECTORY else entry


def _text_now(at: _Now, file: FilePatch, now: trees.Entry | None) -> bytes | None:
    """The content of a file that hunks of text are taken back in."""
    if now is None or not any(each.kind is HunkKind.TEXT for each in file.hunks):
        return None
    return at.writer.repository.git("cat-file", "blob", now[1], env=at.writer.environment)


@contextlib.contextmanager
def _compared_with_now(
    repository: Repository,
    settings: Settings,
    older: TimelineEntry,
    paths: Sequence[str],
    scan: Scan | None,
    most: int | None = None,
) -> Iterator[tuple[Comparison, _Now]]:
    old_tree = repository.commit(older.commit).tree
    with merge_tree.discarding_writer(repository) as writer:
        state = capture_state(
            repository, writer, settings, scan, CaptureRequest(nested=NestedOptions(import_objects=False))
        )
        writer.flush()
        yield (
            _compare(repository, old_tree, state.visible_tree, paths, writer.environment, most),
            _Now(writer, state.visible_tree),
        )


def _compare(
    repository: Repository,
    old_tree: str,
    new_tree: str,
    paths: Sequence[str],
    env: Mapping[str, str] | None = None,
    most: int | None = None,
) -> Comparison:
    """The changed files, and the patch: of the first `most` of them."""
    limit = ["--", *paths] if paths else []
    names = repository.git(
        "diff-tree", "-r", "-z", "--name-status", "--no-renames", old_tree, new_tree, *limit, env=env
    )
    fields = names.split(b"\0")
    changed = [(fields[n + 1], fields[n].decode()) for n in range(0, len(fields) - 1, 2)]
    others = changed[most:] if most is not None else []
    if others:
        changed = changed[:most]
        limit = ["--", *(os.fsdecode(path) for path, _ in changed)]
    if not changed:
        return Comparison((), b"", tuple(others))
    patch = repository.git(
        "diff-tree", "-r", "-p", "--binary", "--no-ext-diff", "--no-textconv", old_tree, new_tree, *limit, env=env
    )
    return Comparison(hunks.parse(patch, changed), patch, tuple(others))


def _file_change(file: FilePatch) -> FileChange:
    headers = (each.header.partition(b"\n")[0] for each in file.hunks)
    rows = enumerate(zip(file.hunks, headers, strict=True), 1)
    numbered = tuple(HunkHeader(n, str(each.kind), os.fsdecode(header) or None) for n, (each, header) in rows)
    return FileChange(os.fsdecode(file.path), file.status, numbered)


def read_file(repository: Repository, settings: Settings, link: TimelineEntry, path: str) -> FileContent:
    """A file of a checkpoint, with the bytes that it had in the worktree."""
    state = format.read_state(repository, link.checkpoint)
    wanted = os.fsencode(path)
    entry = trees.find(repository, repository.commit(link.commit).tree, wanted) or state.ignored.get(wanted)
    if entry is None or entry[0] in (trees.DIRECTORY, trees.GITLINK):
        what = "a directory" if entry is not None else "not"
        raise CheckpointNotFound(
            f"'{path}' is {what} in checkpoint {link.checkpoint[:8]}",
            f"git agentos checkpoint show {link.checkpoint[:8]} lists what changed in it",
        )
    content = _content(repository, settings, state, wanted, entry)
    return FileContent(link.checkpoint, path, f"{entry[0]:06o}", len(content), content)


def _content(repository: Repository, settings: Settings, state: State, path: bytes, entry: trees.Entry) -> bytes:
    own = OwnBytes(state).of(path, entry[1])
    if own is not None:
        return own.read(repository)
    if entry[0] != trees.SYMLINK:
        with state_dir.scratch(repository.location) as folder, repository.writer() as writer:
            whole = format.with_visible_tree(repository, writer, state)
            found = checkout.converted(writer, whole, [path], settings.values, folder)
            if path in found:
                with open(found[path], "rb") as file:
                    return file.read()
    return repository.blob(entry[1])


def status(repository: Repository, agent: str, own: str, scan: Scan) -> Status:
    """The status of the worktree."""
    location = repository.location
    scanned = scan.read()
    head = refs.read_head(location)
    newest = None
    try:
        link = timeline.newest(repository, own)
        newest = format.read(repository, link.checkpoint) if link is not None else None
    except (RepositoryError, MissingObjectsError, CheckpointFormatError) as error:
        warnings.warn(AgentosWarning(f"timeline '{own}': {error.message}"), stacklevel=2)
    found = None
    try:
        found = journal.read(location)
    except DamagedFile as error:
        warnings.warn(AgentosWarning(f"{error.message} (see git agentos doctor)"), stacklevel=2)
    working = operation.name_of(operation.read(location))
    staged = sum(1 for change in scanned.changed if change.staged != ".")
    unstaged = sum(1 for change in scanned.changed if change.unstaged != ".")
    untracked = len(scanned.untracked) + len(scanned.nested)
    return Status(
        agent=agent,
        branch=head.branch,
        commit=head.commit,
        worktree_path=location.root,
        dirty=bool(staged or unstaged or untracked or scanned.unmerged or working),
        staged=staged,
        unstaged=unstaged,
        untracked=untracked,
        conflicted=len(scanned.unmerged),
        operation=working,
        last_checkpoint=newest,
        pending_approvals=[],
        interrupted=Interrupted(found.command, found.target, found.saved, "journalled") if found is not None else None,
    )
