"""The checks of `doctor` on what checkpoints need: git, locks, journals, timelines and databases."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from git_agentos.checkpoint import deferred, format, journal, timeline
from git_agentos.config import Settings
from git_agentos.errors import AgentosError, DamagedDatabase, DamagedFile, RepositoryError
from git_agentos.findings import DOCTOR_FIX, Finding, Fixable, fixable
from git_agentos.git import lockfile, refs, version, worktrees
from git_agentos.git.location import Location
from git_agentos.git.objects.pack import KEEP_MARK
from git_agentos.git.repository import Repository
from git_agentos.store import database_path
from git_agentos.util import files, locks

_HOOK_EVENT = re.compile(r"hook\.(.+)\.event")


def examine(repository: Repository, settings: Settings) -> Iterator[Finding | Fixable]:
    """All findings. The fixes do not change anybody's work."""
    yield from _git(settings)
    yield from _interrupted(repository)
    yield from _stale(repository)
    yield from deferred_checkpoints(repository, settings)
    yield from _keep_files(repository, settings)
    yield from _names_in_the_way(repository)
    yield from _timelines(repository)
    yield from _databases(repository, settings)
    yield from _kept(repository)
    if settings.max_file_size == 0:
        yield Finding("no-size-limit", "info", "agentos.maxFileSize is 0: untracked files of any size are saved")


def _git(settings: Settings) -> Iterator[Finding]:
    text = version.read()
    try:
        version.require(text)
    except RepositoryError as error:
        yield Finding("old-git", "error", error.message, error.hint)
    names = [found[1] for key in settings.values if (found := _HOOK_EVENT.fullmatch(key)) is not None]
    if version.parse(text) == (2, 54) and names:
        message = (
            f"{text} runs the hooks that are configured ({', '.join(names)}) in the git commands of git-agentos, too"
        )
        yield Finding("configured-hooks", "warning", message, "git 2.55 can switch them off for these")


def _interrupted(repository: Repository) -> Iterator[Finding | Fixable]:
    for read in (journal.read, journal.read_last):
        try:
            found = read(repository.location)
        except DamagedFile as error:
            yield _damaged(error)
            continue
        except RepositoryError as error:
            yield Finding("damaged", "error", error.message, error.hint)
            continue
        if isinstance(found, journal.Journal):
            yield Finding(
                "interrupted",
                "error",
                f"a {found.command} to checkpoint {found.target[:8]} was interrupted",
                "git agentos recover finishes it; git agentos recover --abort aborts it",
            )


def _damaged(error: DamagedFile) -> Fixable:
    """A damaged file of the state folder. It names the interrupted restore, or what `undo` restores: checkpoints that
    still exist."""

    def move_away() -> str:
        return (
            f"moved to '{journal.set_aside(error.path)}';"
            " the state before a restore is the newest checkpoint with the trigger before_restore"
        )

    return fixable("damaged", "error", error.message, move_away, error.hint)


def _stale(repository: Repository) -> Iterator[Fixable]:
    """Locks of killed commands. Their scratch folders are removed by `worktree repair`."""
    location = repository.location
    for path in lockfile.find_stale(location):

        def remove(path: str = path) -> str:
            lockfile.remove_stale(location, candidates=[path])
            return ""

        yield fixable("stale-lock", "warning", f"'{path}' was left by a killed command", remove)


def deferred_checkpoints(repository: Repository, settings: Settings) -> Iterator[Finding | Fixable]:
    """Append what hooks have noted, in all worktrees, to the timelines; the notes that cannot be appended."""
    for where in _worktrees(repository, settings):
        try:
            problems = timeline.publish(Repository(where))
        except AgentosError as error:
            yield Finding(
                "deferred", "warning", f"a checkpoint is not on its timeline yet: {error.message}", error.hint
            )
            continue
        for path, reason in problems:

            def remove(path: str = path) -> str:
                os.unlink(path)
                return "the note was removed"

            message = f"'{path}' notes a checkpoint that cannot be put on its timeline: {reason}"
            yield fixable("deferred", "error", message, remove)


def _worktrees(repository: Repository, settings: Settings) -> list[Location]:
    core = settings.values.get("core.worktree", [None])[-1]
    return worktrees.list_existing(repository.location, core)


def _keep_files(repository: Repository, settings: Settings) -> Iterator[Fixable]:
    for path in stale_keep_files(repository, settings):

        def remove(path: str = path) -> str:
            os.unlink(path)
            return ""

        message = f"'{path}' was left by a killed checkpoint: git gc skips this pack"
        yield fixable("stale-keep", "warning", message, remove)


def stale_keep_files(repository: Repository, settings: Settings) -> Iterator[str]:
    """The keep files of packs that killed processes have left, and that no note of a hook needs."""
    needed = {name for where in _worktrees(repository, settings) for name in deferred.kept_packs(where)}
    folder = os.path.join(repository.objects_dir, "pack")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    for name in sorted(name for name in names if name.endswith(".keep") and name not in needed):
        path = os.path.join(folder, name)
        try:
            if files.read(path, limit=200) != KEEP_MARK or (descriptor := locks.try_open(path)) is None:
                continue  # git's, or its writer is alive
        except OSError:
            continue
        os.close(descriptor)
        yield path


def _names_in_the_way(repository: Repository) -> Iterator[Finding]:
    for name in ("restore", "agent", "agentos", "feat"):
        if refs.resolve(repository.location, f"refs/heads/{name}") is not None:
            yield Finding(
                "branch-in-the-way",
                "warning",
                f"a branch named '{name}' blocks every branch '{name}/…' that git-agentos creates",
                f"git branch -m {name} NEW-NAME",
            )


def _timelines(repository: Repository) -> Iterator[Finding | Fixable]:
    for ref, message in refs.damaged(repository.location, timeline.PREFIX).items():
        name = ref.removeprefix(timeline.PREFIX)

        def rebuild(name: str = name) -> str:
            newest = timeline.rebuild(repository, name)
            return f"it now ends at {newest[:8]}" if newest is not None else "it has no checkpoints now"

        hint = f"{DOCTOR_FIX} searches all objects for its newest checkpoint"
        yield fixable("timeline", "error", f"timeline '{name}': {message}", rebuild, hint)
    for name in timeline.all_names(repository.location):
        try:
            newest = timeline.newest(repository, name)
            if newest is not None:
                format.read(repository, newest.checkpoint)
        except AgentosError as error:
            yield Finding("timeline", "error", f"timeline '{name}': {error.message}", error.hint)


def _databases(repository: Repository, settings: Settings) -> Iterator[Finding]:
    """Workflow databases that cannot be read. The next command that uses a damaged one rebuilds it."""
    paths: dict[str, Location] = {}
    for where in _worktrees(repository, settings):
        paths.setdefault(database_path.path_of(where, settings.workflow_db), where)
    for path, where in paths.items():
        if not os.path.lexists(path):
            continue
        from git_agentos.store import database  # only if there is one: it imports sqlite3

        try:
            database_path.check(where, settings.workflow_db)
            with database.opened_to_read(path) as opened:
                database.check(opened)
        except database.NotSetUp:
            continue
        except DamagedDatabase as error:
            hint = f"git -C '{where.root}' agentos log rebuild moves it away, and rebuilds it from the checkpoints"
            yield Finding("database", "error", error.message, hint)
        except AgentosError as error:
            yield Finding("database", "error", error.message, error.hint)


def _kept(repository: Repository) -> Iterator[Finding]:
    """Nested repositories that restores moved away."""
    folder = os.path.join(repository.location.state_dir, "kept")
    if os.path.isdir(folder) and os.listdir(folder):
        yield Finding(
            "kept-repositories",
            "info",
            f"nested repositories that a restore moved away are kept in '{folder}'",
            "git agentos undo restores those of the last restore; delete what you do not need",
        )
