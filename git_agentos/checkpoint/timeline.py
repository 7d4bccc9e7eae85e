"""The timeline: one append-only chain of checkpoints for each worktree, `refs/agentos/timelines/<worktree id>`.

It begins with a parentless commit of the empty tree; each commit J after it has the parents previous J and C (the
checkpoint), so a first-parent walk never runs into the project's history. It moves only by compare-and-swap. Where
checkpoints were forgotten, a J has a carrier in C's place (`carrier`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator

from git_agentos.checkpoint import carrier, deferred, format, renamed
from git_agentos.config import AGENT_ID
from git_agentos.errors import (
    AgentosError,
    CheckpointFormatError,
    CheckpointNotFound,
    LockedError,
    MissingObjectsError,
    RepositoryError,
    UsageError,
)
from git_agentos.git import consolidation, gc, refs, state_dir
from git_agentos.git.location import Location
from git_agentos.git.objects.pack import remove_keep
from git_agentos.git.repository import CommitData, Repository, Writer
from git_agentos.util import files
from git_agentos.util.named_tuple import NamedTuple

PREFIX = "refs/agentos/timelines/"
FETCHED = "refs/agentos/remotes/"  # timelines of other clones (`sync`), which are named by their refs, in full
MAIN = "main"
_SHORTEST = 4
_ATTEMPTS = 1000
_NTH = r"@\{([0-9]{1,9})\}"


class TimelineEntry(NamedTuple):
    """One step of a timeline: the timeline commit and its checkpoint (with `is_carrier`, its carrier)."""

    timeline: str
    commit: str
    checkpoint: str
    is_carrier: bool = False


def worktree_id(location: Location) -> str:
    """The id of a worktree: `main`; the recorded id of an agent's worktree; or git's name for a linked worktree, if
    that is a well-formed id.

    A linked worktree whose name is `main`, or not a well-formed id, gets an id that is derived from its name.
    """
    if location.is_main:
        return MAIN
    name = _recorded(location) or location.worktree_name
    if name != MAIN and re.fullmatch(AGENT_ID, name) and not name.endswith((".lock", ".")) and ".." not in name:
        return name
    return "wt-" + hashlib.sha1(os.fsencode(name), usedforsecurity=False).hexdigest()[:12]


def _recorded(location: Location) -> str | None:
    """The id that `worktree create` recorded."""
    try:
        text = files.read(os.path.join(location.state_dir, "id"), limit=1 << 16).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return text if re.fullmatch(AGENT_ID, text) else None


def refname(timeline: str) -> str:
    """The ref of a timeline."""
    return timeline if timeline.startswith(FETCHED) else PREFIX + timeline


def tip(location: Location, timeline: str) -> str | None:
    """The newest timeline commit; None before the first checkpoint."""
    return refs.resolve(location, refname(timeline))


def all_names(location: Location) -> list[str]:
    """The ids of all timelines of the repository whose refs can be read; `doctor` names the others."""
    return [name.removeprefix(PREFIX) for name in refs.list_refs(location, PREFIX, skip_broken=True)]


def rebuild(repository: Repository, name: str) -> str | None:
    """Point a timeline whose ref is damaged at its newest commit in the object store, or delete it if there is none.

    Returns the commit. This reads every object in the store, so it is only for repairs. Of two that are as new, it is
    the one that was written later: `forget` writes timeline commits again.
    """
    found: dict[str, tuple[int, int]] = {}
    followed: set[str] = set()
    line = f"\nAgentos-Worktree: {name}\n".encode()
    out = repository.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)", "--unordered")
    for oid in (row.split()[0].decode() for row in out.splitlines() if row.endswith(b" commit")):
        with contextlib.suppress(RepositoryError, MissingObjectsError):
            commit = repository.commit(oid)
            if line not in commit.message + b"\n" or len(commit.parents) < 2:
                continue
            if carrier.is_carrier(commit) or format.version(repository.commit(commit.parents[1])) is not None:
                found[oid] = (commit.time, repository.authored(oid))
                followed.add(commit.parents[0])
    newest = max(found.keys() - followed, key=lambda oid: (found[oid], oid), default=None)
    refs.repair(repository.location, PREFIX + name, newest)
    return newest


def append(
    repository: Repository, writer: Writer, timeline: str, committer: bytes, seconds: int, make: Callable[[str], str]
) -> str | None:
    """Append the commit that `make(previous)` writes; its id. A lock orders our own processes, so few attempts are
    needed.

    In a hook of a git command that has locked all refs, the commit is noted durably, for `publish`: then None.
    """
    location = repository.location
    if refs.are_locked_by_caller(location):
        commit = make(_previous(writer, timeline, tip(location, timeline), committer, seconds))
        with gc.objects_in_use(location):
            writer.rewrite_missing()
            deferred.note(location, timeline, commit, committer, writer.keep_without_ref())
        return None
    with _turn(location, writer):
        _publish(repository)
        return _append(repository, writer, timeline, committer, seconds, make)


@contextlib.contextmanager
def _turn(location: Location, writer: Writer) -> Iterator[None]:
    """The lock on this worktree's timeline.

    If it is free, the checkpoint is synced while it is held, together with the timeline's commit. If it is not, or
    others would wait for long, the checkpoint is synced before.
    """
    with contextlib.ExitStack() as held:
        is_held = False
        if writer.is_light:
            with contextlib.suppress(LockedError):
                held.enter_context(state_dir.lock(location, "timeline", wait=False))
                is_held = True
        if not is_held:
            writer.flush()
            held.enter_context(state_dir.lock(location, "timeline"))
        yield


def _append(
    repository: Repository, writer: Writer, timeline: str, committer: bytes, seconds: int, make: Callable[[str], str]
) -> str:
    location = repository.location
    name = PREFIX + timeline

    def whole() -> None:
        # A ref must never point at objects that a gc has deleted or is about to delete, not even until
        # `rewrite_missing` below: other git commands would fail on it.
        if not gc.is_pruning(location):
            writer.rewrite_missing()
        if gc.is_pruning(location):
            writer.repack_with_keep()

    for _ in range(_ATTEMPTS):
        old = refs.resolve(location, name)
        new = make(_previous(writer, timeline, old, committer, seconds))
        writer.flush()
        try:
            with gc.objects_in_use(location):
                refs.update(location, name, new, old, ready=whole)
        except (refs.RefMoved, MissingObjectsError):
            continue
        writer.rewrite_missing()
        gc.wait_for_prune(location, writer.rewrite_missing)
        return new
    raise LockedError(f"cannot append to the timeline '{timeline}': other processes keep updating it", "try again")


def _previous(writer: Writer, timeline: str, newest: str | None, committer: bytes, seconds: int) -> str:
    """The commit that the next one is on top of: the newest, or the first of a new timeline."""
    if newest is not None:
        return newest
    return writer.write_commit(writer.hash.empty_tree, [], f"timeline of {timeline}\n".encode(), committer, seconds)


# -- what hooks could not append ---------------------------------------------------------------------------------------


def publish(repository: Repository) -> list[tuple[str, str]]:
    """Append the checkpoints of a worktree that hooks have noted (`deferred`), each once and in their order.

    The notes that stay, because they are damaged or their objects are missing: path and reason. LockedError if refs
    cannot be changed now.
    """
    location = repository.location
    if not deferred.paths(location):
        return []
    if refs.are_locked_by_caller(location):
        raise LockedError("the refs are locked by the git command that has called this hook", "try again after it")
    with state_dir.lock(location, "timeline"):
        return _publish(repository)


def _publish(repository: Repository) -> list[tuple[str, str]]:
    problems = []
    for path in deferred.paths(repository.location):
        try:
            found = deferred.read(path)
            _publish_one(repository, found)
            keeps = [os.path.join(repository.objects_dir, "pack", os.path.basename(name)) for name in found.keep]
            for keep in keeps:
                remove_keep(keep)
            consolidation.note_packs(repository, [keep.removesuffix(".keep") for keep in keeps])
            os.unlink(path)
        except LockedError:
            raise
        except (AgentosError, OSError, ValueError) as error:
            problems.append((path, str(error)))
    return problems


def _publish_one(repository: Repository, found: deferred.Append) -> None:
    """Append a noted commit, unless it is on the timeline. ValueError if it is no commit of the timeline."""
    if not repository.hash.is_oid(found.commit) or not re.fullmatch(AGENT_ID, found.timeline):
        raise ValueError(f"it names no commit ('{found.commit}') or no timeline ('{found.timeline}')")
    commit = repository.commit(found.commit)
    line = f"\nAgentos-Worktree: {found.timeline}\n".encode()
    if len(commit.parents) < 2 or line not in commit.message:
        raise ValueError(f"{found.commit} is no commit of the timeline '{found.timeline}'")
    before, *kept = commit.parents
    checkpoint = format.open_checkpoint(repository, kept[0]).commit
    needed = {commit.tree, checkpoint.tree, *kept, *checkpoint.parents}
    missing = needed - repository.exists_on_disk(needed) - {repository.hash.empty_tree}
    if missing:
        raise MissingObjectsError(f"object {min(missing)} is missing from the object store")
    for link in walk(repository, found.timeline):
        if link.checkpoint == kept[0]:
            return
        if link.commit == before:
            break
    with repository.writer() as writer:

        def on_top_of(previous: str) -> str:
            return writer.write_commit(commit.tree, [previous, *kept], commit.message, committer, commit.time)

        committer = os.fsencode(found.committer)
        _append(repository, writer, found.timeline, committer, commit.time, on_top_of)


# -- reading -----------------------------------------------------------------------------------------------------------


def walk(repository: Repository, timeline: str, *, carriers: bool = False) -> Iterator[TimelineEntry]:
    """The entries of a timeline, newest first; with `carriers`, those too that stand for forgotten checkpoints. In one
    that was fetched, an earlier checkpoint may come later: what was held back when it was pushed."""
    links = entries(repository, timeline, tip(repository.location, timeline))
    wanted = (link for link in links if carriers or not link.is_carrier)
    return _by_time(repository, wanted) if timeline.startswith(FETCHED) else wanted


def entries(repository: Repository, timeline: str, newest: str | None) -> Iterator[TimelineEntry]:
    """The entries of a timeline that ends at the commit `newest`, newest first, those too that stand for forgotten
    checkpoints."""
    for commit in commits(repository, newest):
        yield TimelineEntry(timeline, commit.oid, commit.parents[1], carrier.is_carrier(commit))


def commits(repository: Repository, newest: str | None) -> Iterator[CommitData]:
    """The commits of a timeline (J) that ends at `newest`, newest first, without its root."""
    oid = newest
    while oid is not None:
        commit = repository.commit(oid)
        if len(commit.parents) < 2:
            return
        yield commit
        oid = commit.parents[0]


def _by_time(repository: Repository, links: Iterable[TimelineEntry]) -> Iterator[TimelineEntry]:
    """Entries by the time of their checkpoints, newest first. Commits have whole seconds: within one, the metadata is
    read."""
    groups: dict[int, list[TimelineEntry]] = {}
    for link in links:
        groups.setdefault(repository.commit(link.commit).time, []).append(link)

    def created_at(link: TimelineEntry) -> str:
        if link.is_carrier:
            return ""
        return str(format.open_checkpoint(repository, link.checkpoint).meta.get("created_at"))

    for _, group in sorted(groups.items(), reverse=True):
        yield from sorted(group, key=created_at, reverse=True) if len(group) > 1 else group


def is_link(repository: Repository, oid: str) -> bool:
    """Whether a commit is one of a timeline (J): not whether it still is on it. False if it cannot be read."""
    with contextlib.suppress(RepositoryError, MissingObjectsError):
        commit = repository.commit(oid)
        if len(commit.parents) > 1 and b"\nAgentos-" in commit.message:
            return carrier.is_carrier(commit) or repository.commit(commit.parents[1]).message == commit.message
    return False


def newest(repository: Repository, timeline: str) -> TimelineEntry | None:
    return next(walk(repository, timeline), None)


def find(repository: Repository, spec: str, timelines: list[str]) -> TimelineEntry:
    """The checkpoint that `spec` names within these timelines: `latest`, `@{N}`, or a prefix of its id.

    With several timelines, `latest` and `@{N}` count by time. Raises CheckpointNotFound if the id is unknown, ambiguous
    or in another timeline, CheckpointFormatError if the commit is not a checkpoint.
    """
    nth = re.fullmatch(_NTH, spec)
    if spec == "latest" or nth is not None:
        n = int(nth[1]) if nth is not None else 0
        for position, link in enumerate(_merged(repository, timelines)):
            if position == n:
                return link
        raise _too_few(timelines, n)
    prefix = spec.lower()
    if len(prefix) < _SHORTEST or not repository.hash.can_be_prefix(prefix):
        raise UsageError(
            f"'{spec}' is not a checkpoint id",
            f"give {_SHORTEST} to {repository.hash.hex_length} hex digits of an id, 'latest' or '@{{N}}'",
        )
    found = {
        link.checkpoint: link
        for name in timelines
        for link in walk(repository, name)
        if link.checkpoint.startswith(prefix)
    }
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        candidates = ", ".join(sorted(oid[:12] for oid in found)[:5])
        raise CheckpointNotFound(f"'{spec}' is ambiguous: {candidates}", "give more digits")
    again = _renamed(repository, prefix, timelines)
    if again is not None:
        return again
    raise _unknown(repository, spec, prefix, timelines)


def _renamed(repository: Repository, prefix: str, timelines: list[str]) -> TimelineEntry | None:
    """The checkpoint on these timelines whose former id begins with `prefix`, with a warning."""
    known = renamed.read(repository.location)
    former = {old: renamed.newest(repository, known, old) for old in known if old.startswith(prefix)}
    if not former:
        return None
    links = {link.checkpoint: link for name in timelines for link in walk(repository, name)}
    found = {new: old for old, new in former.items() if new in links}
    if len(found) > 1:
        candidates = ", ".join(sorted(oid[:12] for oid in found)[:5])
        raise CheckpointNotFound(f"'{prefix}' is ambiguous: {candidates}", "give more digits")
    for new, old in found.items():
        renamed.say(old, new)
        return links[new]
    return None


def _merged(repository: Repository, timelines: list[str]) -> Iterator[TimelineEntry]:
    if len(timelines) == 1:
        yield from walk(repository, timelines[0])
        return
    links = [
        (repository.commit(link.commit).time, -n, link)
        for name in timelines
        for n, link in enumerate(walk(repository, name))
    ]
    yield from (link for _, _, link in sorted(links, key=lambda item: item[:2], reverse=True))


def _too_few(timelines: list[str], n: int) -> Exception:
    one = len(timelines) == 1
    where = f"timeline '{timelines[0]}'" if one else "these timelines"
    if n == 0:
        return CheckpointNotFound(f"there is no checkpoint on {where} yet", "git agentos checkpoint creates one")
    message = f"{where} {'has' if one else 'have'} no checkpoint @{{{n}}}"
    return CheckpointNotFound(message, "git agentos checkpoint list shows the checkpoints")


def _unknown(repository: Repository, spec: str, prefix: str, timelines: list[str]) -> Exception:
    mark = b'"checkpoint_id":"' + prefix.encode()
    for link in (each for name in timelines for each in walk(repository, name, carriers=True) if each.is_carrier):
        if mark in carrier.read(repository, link.checkpoint).log:
            return CheckpointNotFound(
                f"checkpoint '{spec}' was forgotten", "git agentos log list shows what is still known of it"
            )
    others = [name for name in all_names(repository.location) if name not in timelines]
    for name in others:
        if any(link.checkpoint.startswith(prefix) for link in walk(repository, name)):
            return CheckpointNotFound(
                f"checkpoint '{spec}' belongs to '{name}', not to this worktree",
                f"to use that one, add --agent {name}, or --all",
            )
    try:
        commits = repository.commits_with_prefix(prefix)
    except RepositoryError:
        commits = []
    for oid in commits:
        if format.version(repository.commit(oid)) is None:
            return CheckpointFormatError(
                f"'{spec}' is a commit but not a checkpoint", "git agentos checkpoint list shows the checkpoints"
            )
        format.open_checkpoint(repository, oid)  # raises for a newer format
    return CheckpointNotFound(
        f"no checkpoint '{spec}' in this worktree", "git agentos checkpoint list shows the checkpoints"
    )
