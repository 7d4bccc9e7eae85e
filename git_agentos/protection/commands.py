"""`git agentos init`: set up what protects a repository, and take it back.

    set_up      the record, then the hooks, the harnesses' settings in each worktree, what a harness must be told
                outside of the repository, the watch daemon
    take_back   the reverse; the record is removed last

Both can be killed at any moment and called again. Worktrees of runs are left alone: their content is evidence.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from git_agentos import config
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, GuardError, WorktreeError, system_reason
from git_agentos.git import version
from git_agentos.git.location import Location
from git_agentos.guard.harness import adapters, exclude, integration, presence, settings_files, trust
from git_agentos.guard.setup import activation, init_record, repository_hooks, scripts
from git_agentos.guard.setup.init_record import InitRecord
from git_agentos.protection import layers, suggestions
from git_agentos.protection.layers import Layer
from git_agentos.protection.suggestions import Suggestion
from git_agentos.util import directories, files, locks
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.progress import counted, phase
from git_agentos.watch import automatic, control
from git_agentos.worktree import pool
from git_agentos.worktree import record as records


@dataclass(frozen=True)
class Protection:
    """What `init` found and did; the fields are the keys of JSON kind `init`.

    `layers` are as they were looked at afterwards. `written` and `removed` are files outside of our own folder in the
    git directory that were changed, or of which our part was removed; of those in `edited`, which somebody has edited
    since, only that part. `not_written` are files outside of the repository for which nobody has consented.
    `is_set_up` tells whether `init` is in force now, `dry_run` that nothing was changed.
    """

    layers: list[Layer]
    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)
    not_written: list[str] = field(default_factory=list)
    suggestions: list[Suggestion] = field(default_factory=list)
    is_set_up: bool = False
    dry_run: bool = False


class Wishes(NamedTuple):
    """What to set up. `harnesses` are names; None for those that are found on this machine. `consents` is asked before
    a file outside of the repository is written, with what would be written there, and why."""

    harnesses: Sequence[str] | None = None
    watch: bool = True
    consents: Callable[[str, str], bool] = lambda _path, _why: False


def set_up(context: OpenWorktree, environment: Mapping[str, str], wishes: Wishes, *, dry_run: bool) -> Protection:
    """Set up what is missing; with `dry_run`, only say what that would be."""
    location = context.location
    version.require(version.read(location.root))
    names = [adapters.get(each).name for each in wishes.harnesses] if wishes.harnesses is not None else None
    if names is None:
        names = [each.name for each in presence.found(environment)]
    with _turn(context, environment, dry_run=dry_run):
        done = _SetUp(context, environment, dry_run=dry_run)
        done.begin(names, watch=wishes.watch)
        done.install_hooks()
        done.integrate(names)
        done.tell_harnesses(names, wishes.consents)
        if wishes.watch:
            done.watch()
        return Protection(
            _examine(context, environment, done.problems),
            written=list(dict.fromkeys(done.written)),
            not_written=done.not_written,
            suggestions=suggestions.find(context),
            is_set_up=init_record.read(location.common_dir) is not None,
            dry_run=dry_run,
        )


def take_back(context: OpenWorktree, environment: Mapping[str, str], *, dry_run: bool) -> Protection:
    """Remove what `set_up` has added, and nothing else. Where it was never called, nothing is done."""
    location = context.location
    with _turn(context, environment, dry_run=dry_run):
        record = init_record.read(location.common_dir)
        removed: list[str] = []
        edited: list[str] = []
        if record is not None:
            done = _TakeBack(context, environment, record, dry_run=dry_run)
            done.harnesses()
            done.hooks()
            removed, edited = done.removed, done.edited
            if not dry_run:
                init_record.remove(location.common_dir)
        return Protection(
            _examine(context, environment, {}),
            removed=list(dict.fromkeys(removed)),
            edited=list(dict.fromkeys(edited)),
            is_set_up=init_record.read(location.common_dir) is not None,
            dry_run=dry_run,
        )


@contextlib.contextmanager
def _turn(context: OpenWorktree, environment: Mapping[str, str], *, dry_run: bool) -> Iterator[None]:
    """Nobody else sets up or takes back meanwhile; what one that was killed has not finished writing is gone."""
    if dry_run:
        yield
        return
    folder = directories.make_own(context.location.shared_state_dir)
    with locks.hold(os.path.join(folder, "init.turn")):
        paths = [trust.path_of(environment), exclude.path_of(context.location)]
        for each in context.all_worktrees():
            paths += [path for name in adapters.HARNESSES for path in settings_files.paths(name, each.root)]
        for folder in dict.fromkeys(map(os.path.dirname, paths)):
            files.remove_unfinished(folder)
        yield


class _SetUp:
    """The steps of `set_up`. `written` are the files, `problems` says by name why a harness or the daemon could not be
    set up."""

    def __init__(self, context: OpenWorktree, environment: Mapping[str, str], *, dry_run: bool) -> None:
        self._context, self._environment, self._dry_run = context, environment, dry_run
        self._location = context.location
        self.written: list[str] = []
        self.not_written: list[str] = []
        self.problems: dict[str, str] = {}

    def begin(self, names: Sequence[str], *, watch: bool) -> None:
        """Write the record: what will be set up, and what was there before."""
        if self._dry_run:
            return
        common_dir = self._location.common_dir
        before = init_record.read(common_dir)
        record = before or InitRecord(hooks=_hooks_now(self._location))
        harnesses = dict(record.harnesses)
        for name in names:
            if name not in harnesses:
                harnesses[name] = tuple(
                    each.root
                    for each in _worktrees(self._context)
                    if settings_files.have_hooks(settings_files.paths(name, each.root))
                )
        record = record._replace(harnesses=harnesses)
        if watch and record.watch is None:
            record = record._replace(watch=automatic.is_wanted(common_dir))
        if record != before:
            init_record.write(common_dir, record)

    def install_hooks(self) -> None:
        location = self._location
        if not _are_hooks_as_wanted(location):
            self.written += repository_hooks.settings_files(location)
            if not self._dry_run:
                with phase(self._context.progress, "Installing hooks"):
                    repository_hooks.install(location, save=True)

    def integrate(self, names: Sequence[str]) -> None:
        """Add our hooks to the settings of these harnesses in each worktree."""
        every = [(name, each) for name in names for each in _worktrees(self._context)]
        for name, each in counted(self._context.progress, "Integrating agent programs", every):
            try:
                integration.require_inside(name, each.root)
                paths = settings_files.paths(name, each.root)
                changed = integration.to_write(name, each.root)
                if not all(exclude.has_pattern(each, path) for path in paths if _is_below(path, each.root)):
                    changed.append(exclude.path_of(each))
                if not self._dry_run:
                    integration.add(name, each.root, self._environment)
                self.written += changed
            except (AgentosError, OSError) as error:
                self.problems.setdefault(name, _reason(error))

    def tell_harnesses(self, names: Sequence[str], consents: Callable[[str, str], bool]) -> None:
        """Have harnesses trust our hooks, if whoever gives the command consents."""
        for name in names:
            for each in _worktrees(self._context):
                try:
                    self._tell(name, each.root, consents)
                except (AgentosError, OSError) as error:
                    self.problems.setdefault(name, _reason(error))

    def _tell(self, name: str, root: str, consents: Callable[[str, str], bool]) -> None:
        offer = trust.offer(name, root, self._environment, planned=self._dry_run)
        if offer is None or offer.path in self.not_written or name in self.problems:
            return
        if not consents(offer.path, offer.why):
            self.not_written.append(offer.path)
            return
        if not self._dry_run:
            self._note_trust(name)
            trust.give(name, root, self._environment)
        self.written.append(offer.path)

    def _note_trust(self, name: str) -> None:
        record = init_record.read(self._location.common_dir)
        if record is not None and name not in record.trusted:
            init_record.write(self._location.common_dir, record._replace(trusted=(*record.trusted, name)))

    def watch(self) -> None:
        values = self._context.settings.values
        try:
            if config.watch(values) == "false":
                self.problems[layers.FILES] = "'agentos.watch' is false"
            elif not self._dry_run:
                with phase(self._context.progress, "Starting the watch daemon"):
                    control.start(self._location)
        except AgentosError as error:
            self.problems[layers.FILES] = error.message


class _TakeBack:
    """The steps of `take_back`."""

    def __init__(
        self, context: OpenWorktree, environment: Mapping[str, str], record: InitRecord, *, dry_run: bool
    ) -> None:
        self._context, self._environment, self._record, self._dry_run = context, environment, record, dry_run
        self.removed: list[str] = []
        self.edited: list[str] = []

    def harnesses(self) -> None:
        location = self._context.location
        worktrees = self._context.all_worktrees()
        for name in self._record.trusted:
            for each in worktrees:
                if trust.is_given(name, each.root, self._environment):
                    self._note(trust.path_of(self._environment), edited=trust.is_edited(self._environment))
                    if not self._dry_run:
                        trust.take_back(name, each.root, self._environment)
        for name, before in self._record.harnesses.items():
            if name not in adapters.HARNESSES:
                continue
            roots = [each.root for each in worktrees if each.root not in before]
            for path in integration.to_remove(name, roots, self._environment):
                self._note(path, edited=integration.is_edited(path, self._environment))
            had, edited = exclude.patterns(location), exclude.is_edited(location, self._environment)
            if not self._dry_run:
                for root in counted(self._context.progress, "Removing hooks from settings", roots):
                    integration.remove(name, root, self._environment)
            if had and (self._dry_run or exclude.patterns(location) != had):
                self._note(exclude.path_of(location), edited=edited)

    def hooks(self) -> None:
        location = self._context.location
        if not self._dry_run and self._record.watch is False:
            with phase(self._context.progress, "Stopping the watch daemon"):
                control.stop(location)
        if self._record.hooks == init_record.SAVE or not _is_installed(location):
            return
        if self._record.hooks == init_record.RECORD:
            if not self._dry_run:
                repository_hooks.install(location, save=False)
            return
        edited = repository_hooks.edited_files(location)
        for path in repository_hooks.settings_files(location):
            self._note(path, edited=path in edited)
        if not self._dry_run:
            with phase(self._context.progress, "Removing hooks"):
                repository_hooks.uninstall(location)

    def _note(self, path: str, *, edited: bool) -> None:
        self.removed.append(path)
        if edited:
            self.edited.append(path)


def _examine(context: OpenWorktree, environment: Mapping[str, str], problems: Mapping[str, str]) -> list[Layer]:
    with phase(context.progress, "Checking what is protected"):
        return layers.examine(context, environment, problems)


def _worktrees(context: OpenWorktree) -> list[Location]:
    """The worktrees in which harnesses are integrated: not those of runs, and not those that nobody uses yet."""
    found = []
    for each in context.all_worktrees():
        with contextlib.suppress(WorktreeError):
            record = records.read(each.git_dir)
            if not (record is not None and record.run_id) and not pool.is_prepared(each.git_dir):
                found.append(each)
    return found


def _hooks_now(location: Location) -> str:
    if not _is_installed(location):
        return init_record.NONE
    return init_record.SAVE if repository_hooks.saves(location) else init_record.RECORD


def _is_installed(location: Location) -> bool:
    try:
        return repository_hooks.is_installed(location)
    except GuardError:
        return True  # its record is damaged


def _are_hooks_as_wanted(location: Location) -> bool:
    try:
        return (
            repository_hooks.saves(location)
            and not scripts.changed_files(location.common_dir)
            and not scripts.outdated(location.common_dir)
            and not activation.tampered(location)
        )
    except GuardError:
        return False


def _is_below(path: str, root: str) -> bool:
    return path.startswith(root + os.sep)


def _reason(error: AgentosError | OSError) -> str:
    return error.message if isinstance(error, AgentosError) else f"'{error.filename}': {system_reason(error)}"
