"""What is wrong with a repository's set-up, and what to do about it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from git_agentos.checkpoint import format, journal, timeline
from git_agentos.config import Settings
from git_agentos.errors import AgentosError, DamagedDatabase, DamagedFile, RepositoryError
from git_agentos.git import lockfile, process, refs, state_dir, worktrees
from git_agentos.git.location import Location
from git_agentos.git.objects import KEEP_MARK
from git_agentos.git.repository import Repository
from git_agentos.store import location as store
from git_agentos.util import files, locks

_OLDEST_GIT = (2, 38)


@dataclass(frozen=True)
class Finding:
    """One thing worth knowing: `severity` is `error`, `warning` or `info`; `fixed` tells that it was mended."""

    code: str
    severity: str
    message: str
    hint: str | None
    fixed: bool


def examine(repository: Repository, settings: Settings, *, fix: bool) -> Iterator[Finding]:
    """All findings; with `fix`, what can be mended without touching anybody's work is."""
    yield from _git()
    yield from _interrupted(repository, fix=fix)
    yield from _stale(repository, fix=fix)
    yield from _keep_files(repository, fix=fix)
    yield from _names_in_the_way(repository)
    yield from _timelines(repository, fix=fix)
    yield from _databases(repository, settings)
    yield from _kept(repository)
    if settings.max_file_size == 0:
        yield Finding(
            "no-size-limit", "info", "agentos.maxFileSize is 0: untracked files of any size are saved", None, False
        )


def _git() -> Iterator[Finding]:
    text = process.run(["version"]).decode("ascii", "replace").strip()
    match = re.search(r"(\d+)\.(\d+)", text)
    if match is None or (int(match[1]), int(match[2])) < _OLDEST_GIT:
        yield Finding("old-git", "error", f"{text} is too old", "install git 2.38 or later", False)


def _interrupted(repository: Repository, *, fix: bool) -> Iterator[Finding]:
    for read in (journal.read, journal.read_last):
        try:
            found = read(repository.location)
        except DamagedFile as error:
            yield _damaged(error, fix=fix)
            continue
        except RepositoryError as error:
            yield Finding("damaged", "error", error.message, error.hint, False)
            continue
        if isinstance(found, journal.Journal):
            yield Finding(
                "interrupted",
                "error",
                f"a {found.command} to checkpoint {found.target[:8]} was interrupted",
                "git agentos recover finishes it; git agentos recover --abort goes back",
                False,
            )


def _damaged(error: DamagedFile, *, fix: bool) -> Finding:
    """A file of the state folder. It says what was interrupted, or what `undo` goes back to; both are checkpoints."""
    if not fix:
        return Finding("damaged", "error", error.message, error.hint, False)
    aside = journal.set_aside(error.path)
    hint = "the state before a restore is the newest checkpoint with the trigger before_restore"
    return Finding("damaged", "error", f"{error.message}; it is at '{aside}' now", hint, True)


def _stale(repository: Repository, *, fix: bool) -> Iterator[Finding]:
    location = repository.location
    if fix:
        for path in [*lockfile.remove_stale(location), *state_dir.remove_abandoned(location)]:
            yield Finding("stale-lock", "warning", f"'{path}' was left by a killed command", None, True)
        return
    for path in lockfile.find_stale(location):
        yield Finding(
            "stale-lock", "warning", f"'{path}' was left by a killed command", "git agentos doctor --fix", False
        )


def _keep_files(repository: Repository, *, fix: bool) -> Iterator[Finding]:
    folder = os.path.join(repository.objects_dir, "pack")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    for name in sorted(name for name in names if name.endswith(".keep")):
        path = os.path.join(folder, name)
        try:
            if files.read(path, limit=200) != KEEP_MARK or (descriptor := locks.try_open(path)) is None:
                continue  # it is git's, or its writer is alive
        except OSError:
            continue
        os.close(descriptor)
        if fix:
            os.unlink(path)
        message = f"'{path}' was left by a killed checkpoint: git gc passes the pack over"
        yield Finding("stale-keep", "warning", message, None if fix else "git agentos doctor --fix", fix)


def _names_in_the_way(repository: Repository) -> Iterator[Finding]:
    for name in ("restore", "agent", "agentos", "feat"):
        if refs.resolve(repository.location, f"refs/heads/{name}") is not None:
            yield Finding(
                "branch-in-the-way",
                "warning",
                f"a branch named '{name}' blocks every branch '{name}/…' that git-agentos makes",
                f"git branch -m {name} NEW-NAME",
                False,
            )


def _timelines(repository: Repository, *, fix: bool) -> Iterator[Finding]:
    for ref, message in refs.damaged(repository.location, timeline.PREFIX).items():
        name = ref.removeprefix(timeline.PREFIX)
        hint = "git agentos doctor --fix looks for its newest checkpoint among all objects"
        if not fix:
            yield Finding("timeline", "error", f"timeline '{name}': {message}", hint, False)
            continue
        try:
            found = timeline.rebuild(repository, name)
        except (AgentosError, OSError) as error:
            yield Finding("timeline", "error", f"timeline '{name}': {message}; {error}", hint, False)
            continue
        ends = f"it ends at {found[:8]} now" if found is not None else "it has no checkpoint any more"
        yield Finding("timeline", "error", f"timeline '{name}': {message}; {ends}", None, True)
    for name in timeline.all_names(repository.location):
        try:
            newest = timeline.newest(repository, name)
            if newest is not None:
                format.read(repository, newest.checkpoint)
        except AgentosError as error:
            yield Finding("timeline", "error", f"timeline '{name}': {error.message}", error.hint, False)


def _databases(repository: Repository, settings: Settings) -> Iterator[Finding]:
    """Workflow databases that cannot be read. A damaged one is mended by the next command that uses it."""
    core = settings.values.get("core.worktree", [None])[-1]
    paths: dict[str, Location] = {}
    for where in worktrees.living(repository.location, core):
        paths.setdefault(store.file_of(where, settings.workflow_db), where)
    for path, where in paths.items():
        if not os.path.lexists(path):
            continue
        from git_agentos.store import database  # only where there is one: it loads sqlite3

        try:
            store.check_place(where, settings.workflow_db)
            with database.opened_to_read(path) as opened:
                database.check(opened)
        except database.NotSetUp:
            continue
        except DamagedDatabase as error:
            hint = f"git -C '{where.root}' agentos log rebuild moves it aside, and makes it again from the checkpoints"
            yield Finding("database", "error", error.message, hint, False)
        except AgentosError as error:
            yield Finding("database", "error", error.message, error.hint, False)


def _kept(repository: Repository) -> Iterator[Finding]:
    folder = os.path.join(repository.location.state_dir, "kept")
    if os.path.isdir(folder) and os.listdir(folder):
        yield Finding(
            "kept-repositories",
            "info",
            f"nested repositories that a restore moved away are kept in '{folder}'",
            "git agentos undo brings the last ones back; remove what you do not want",
            False,
        )
