"""One worktree, and what can be done with its states. Deprecated as an API: use `git_agentos.open_repository`.

    workspace = open_workspace(".")
    saved = workspace.checkpoint("before the experiment")
    workspace.restore(saved.id)
    workspace.undo()

Methods return frozen values and raise subclasses of `git_agentos.errors.AgentosError`; nothing prints. Paths of
files are text relative to the worktree root (`os.fsdecode`); ids are full hex strings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from git_agentos import config
from git_agentos.checkpoint import format, timeline
from git_agentos.checkpoint.model import Checkpoint
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.checkpoint.paths import inside_worktree
from git_agentos.checkpoint.timeline import TimelineEntry
from git_agentos.errors import UsageError
from git_agentos.git import configuration, state_dir, worktrees
from git_agentos.git.location import Location, locate
from git_agentos.git.repository import Repository
from git_agentos.git.scan import Scan
from git_agentos.guard import authorize
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.progress import SILENT

if TYPE_CHECKING:
    from git_agentos.checkpoint.model import Skipped
    from git_agentos.checkpoint.pick import Pick
    from git_agentos.checkpoint.queries import (
        Diff,
        FileChange,
        FileContent,
        FileDifference,
        HunkHeader,
        Interrupted,
        Status,
    )
    from git_agentos.checkpoint.restore.choice import Chooser
    from git_agentos.checkpoint.restore.commands import Recovery
    from git_agentos.checkpoint.restore.request import Restoration, RestoreOptions
    from git_agentos.findings import Finding
    from git_agentos.util.progress import Progress

# Most of the time of a checkpoint is start-up, so modules that it does not need are imported where they are used. These
# modules define the result types.
_HOMES = {
    "Diff": "checkpoint.queries",
    "FileChange": "checkpoint.queries",
    "FileContent": "checkpoint.queries",
    "HunkHeader": "checkpoint.queries",
    "Finding": "findings",
    "Interrupted": "checkpoint.queries",
    "Pick": "checkpoint.pick",
    "Recovery": "checkpoint.restore.commands",
    "Restoration": "checkpoint.restore.request",
    "Skipped": "checkpoint.model",
    "Status": "checkpoint.queries",
}


class Timelines(NamedTuple):
    """Where a checkpoint is looked for."""

    agent: str | None = None
    every: bool = False
    host: str | None = None


if not TYPE_CHECKING:  # otherwise mypy would accept any name

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        return getattr(importlib.import_module(f"git_agentos.{_HOMES[name]}"), name)


class Workspace:
    """One worktree of one repository, and the agent that acts in it."""

    def __init__(
        self, location: Location, scan: Scan | None, start: str, agent: str | None, progress: Progress = SILENT
    ) -> None:
        self._progress = progress
        self._scan = scan
        self._start = start
        self._location = location
        state_dir.refuse_planted(location)
        self._settings = config.settings(
            scan.config() if scan is not None else configuration.read(location), os.environ
        )
        self._repository = Repository(location)
        self._timeline = timeline.worktree_id(location)
        if agent is not None:
            self._agent = config.agent_id(agent, source="agent")
        else:
            self._agent = config.identity(os.environ) or self._timeline

    @property
    def root(self) -> str:
        """The absolute path of the worktree's top."""
        return self._location.root

    @property
    def agent(self) -> str:
        """The id of the agent that creates checkpoints."""
        return self._agent

    @property
    def timeline(self) -> str:
        """The worktree's id, which names its timeline."""
        return self._timeline

    @property
    def context(self) -> OpenWorktree:
        """The open worktree, for the functions of `git_agentos.worktree`, `git_agentos.log` and
        `git_agentos.memory`."""
        return OpenWorktree(self._repository, self._settings, self._agent, self._timeline, self._progress)

    # -- saving ---------------------------------------------------------------------------------------------

    @authorize.entry("checkpoint")
    def checkpoint(
        self,
        description: str = "",
        *,
        trigger: str = "manual",
        task_id: str | None = None,
        meta: Mapping[str, str] | None = None,
        run_id: str | None = None,
        session_id: str | None = None,
    ) -> Checkpoint:
        """Save the complete working state; nothing in it changes.

        With an automatic `trigger` (any but `manual` and `milestone`), if nothing has changed, the newest checkpoint is
        returned, with `unchanged` set.
        """
        from git_agentos.checkpoint import creation
        from git_agentos.checkpoint.capture.observer import CaptureObserver
        from git_agentos.checkpoint.capture.request import CaptureRequest

        self._record_pending(None, every=False)
        watching = CaptureObserver(config.max_untracked(self._settings.values), os.path.expanduser("~"))
        request = CaptureRequest(observer=watching)
        metadata = self.context.metadata(
            trigger=trigger,
            description=description,
            task_id=task_id,
            run_id=run_id,
            session_id=session_id,
            meta=dict(meta or {}),
        )
        created = creation.create_checkpoint(self.context, metadata, scan=self._started(), request=request)
        return created.checkpoint

    # -- reading --------------------------------------------------------------------------------------------

    def checkpoints(  # noqa: PLR0913 - the options of the command, documented
        self,
        *,
        limit: int | None = None,
        since: str | None = None,
        task_id: str | None = None,
        trigger: str | None = None,
        agent: str | None = None,
        all_timelines: bool = False,
        host: str | None = None,
    ) -> list[Checkpoint]:
        """Checkpoints, newest first: this worktree's; with `agent`, those it created (if none: its worktree's); or all.

        With `host`, here and below: of the timelines that were fetched from that host.
        `since` is a time as git reads it (`2 hours ago`, ISO 8601).
        """
        after = None if since is None else self.moment(since)
        if trigger is not None:
            format.check_trigger(trigger)
        found: list[Checkpoint] = []
        _check_limit(limit)
        for item in self._walk(agent, all_timelines, host):
            if limit is not None and len(found) >= limit:
                break
            if after is not None and datetime.fromisoformat(item.created_at) < after:
                continue
            if (task_id is None or item.task_id == task_id) and (trigger is None or item.trigger == trigger):
                found.append(item)
        return found

    def find(
        self, spec: str, *, agent: str | None = None, all_timelines: bool = False, host: str | None = None
    ) -> Checkpoint:
        """The checkpoint that `spec` names: `latest`, `@{N}`, or at least 4 digits of its id."""
        return format.read(self._repository, self._link(spec, agent, all_timelines, host).checkpoint)

    def search(
        self,
        text: str,
        *,
        limit: int | None = None,
        agent: str | None = None,
        all_timelines: bool = False,
        host: str | None = None,
    ) -> list[Checkpoint]:
        """Checkpoints in whose description, task, metadata or changed paths `text` occurs (case does not matter)."""
        from git_agentos.checkpoint import queries

        _check_limit(limit)
        wanted = text.casefold()
        found: list[Checkpoint] = []
        for item in self._walk(agent, all_timelines, host):
            if limit is not None and len(found) >= limit:
                break
            if any(wanted in part.casefold() for part in queries.search_text(item)):
                found.append(item)
        return found

    def diff(
        self,
        older: str,
        newer: str | None = None,
        paths: Sequence[str] = (),
        *,
        agent: str | None = None,
        all_timelines: bool = False,
        host: str | None = None,
    ) -> Diff:
        """The changes of the visible worktree from checkpoint `older` to `newer`, or to the current state."""
        from git_agentos.checkpoint import queries

        first = self._link(older, agent, all_timelines, host)
        inner = [os.fsdecode(path) for path in self._inside(paths)]
        if newer is None:
            return queries.diff_with_now(self._repository, self._settings, first, inner, self._started())
        return queries.diff(self._repository, first, self._link(newer, agent, all_timelines, host), inner)

    def differences(self, older: str, *, agent: str | None = None) -> tuple[FileDifference, ...]:
        """The hunks by which the current state differs from checkpoint `older`, as `diff` has them and `restore` takes
        their numbers."""
        from git_agentos.checkpoint import queries

        link = self._link(older, agent, False, None)
        return queries.differences_from_now(self._repository, self._settings, link, (), self._started())

    def read_file(
        self, spec: str, *, agent: str | None = None, all_timelines: bool = False, host: str | None = None
    ) -> FileContent:
        """The file that `ID:PATH` names, with the bytes that it had in the worktree."""
        from git_agentos.checkpoint import queries

        name, colon, path = spec.partition(":")
        if not colon or not path:
            raise UsageError(f"'{spec}' does not name a file", "give ID:PATH")
        link = self._link(name, agent, all_timelines, host)
        return queries.read_file(self._repository, self._settings, link, path)

    # -- restoring ------------------------------------------------------------------------------------------

    @authorize.entry("restore", named=("spec", "paths"))
    def restore(  # noqa: PLR0913 - the options of the command, documented
        self,
        spec: str,
        paths: Sequence[str] = (),
        *,
        branch: str | None = None,
        no_branch: bool = False,
        worktree: str | None = None,
        keep_new: bool = False,
        hunks: Sequence[str] = (),
        choose: Chooser | None = None,
        dry_run: bool = False,
        agent: str | None = None,
        all_timelines: bool = False,
        host: str | None = None,
        expected: str | None = None,
        idempotency_key: str | None = None,
    ) -> Restoration:
        """Restore the state of a checkpoint, on a new branch; with `no_branch` or `paths`, HEAD does not move.

        `worktree` restores into a new worktree of that name instead, and does not change this one. `hunks`, each
        `PATH:N[,N...]`, restores nothing but these hunks of `diff(spec, paths=[PATH])`; or `choose` is given the files
        that differ (those at `paths`), and returns what is chosen of their hunks.

        The state before is saved and named in the result; `undo` restores it. ChangedState if that state is not
        `expected` (the `state` of a dry run). A second call with the same `idempotency_key` does nothing and returns
        the result of the first.
        """
        from git_agentos.checkpoint.restore import commands, idempotency

        if branch is not None:
            if no_branch or paths:
                raise UsageError("--branch cannot be combined with --no-branch or paths")
            from git_agentos.worktree import layout

            layout.check_branch_name(self.context, branch)
        inside = self._inside(paths) if paths else None
        call = None
        if idempotency_key is not None:
            arguments = {
                "id": spec, "paths": [os.fsdecode(each) for each in inside or ()], "branch": branch,
                "no_branch": no_branch, "keep_new": keep_new, "agent": agent, "all": all_timelines, "host": host,
                "expected": expected, "hunks": list(hunks),
            }  # fmt: skip
            call = idempotency.call(idempotency_key, "restore", arguments)
        where = Timelines(agent, all_timelines, host)
        if hunks or choose is not None:
            if branch is not None or worktree is not None or keep_new or (hunks and (paths or choose is not None)):
                raise UsageError("hunks cannot be combined with another branch, a worktree, 'keep_new' or paths")
            options = commands.RestoreOptions(dry_run=dry_run, expected=expected, call=call)
            return self._restore_hunks(self._link(spec, *where), options, hunks, paths, choose)
        checkpoint = self._link(spec, *where).checkpoint
        if worktree is not None:
            given = branch is not None or expected is not None or idempotency_key is not None
            if no_branch or paths or given or keep_new or dry_run:
                raise UsageError("--worktree cannot be combined with other options or paths")
            from git_agentos.worktree import creation

            self._discard()
            return creation.create_from_checkpoint(self.context, checkpoint, worktree)
        options = commands.RestoreOptions(
            paths=inside,
            branch=branch,
            no_branch=no_branch,
            keep_new=keep_new,
            dry_run=dry_run,
            expected=expected,
            call=call,
        )
        return self._restore(checkpoint, options, f"restored checkpoint {checkpoint[:8]}")

    def _restore_hunks(
        self,
        link: TimelineEntry,
        options: RestoreOptions,
        hunks: Sequence[str],
        paths: Sequence[str],
        choose: Chooser | None,
    ) -> Restoration:
        from git_agentos.checkpoint import queries
        from git_agentos.checkpoint.restore import choice, commands

        wanted = choice.parse([(self._inside([path])[0], numbers) for path, numbers in map(choice.words, hunks)])
        inner = [os.fsdecode(path) for path in (wanted or self._inside(paths))]
        self._refuse_interrupted()
        if (earlier := commands.done_before(self._location, options)) is not None:
            return earlier
        found = queries.differences_from_now(self._repository, self._settings, link, inner, self._started())
        if not wanted.keys() <= {each.patch.path for each in found}:
            # What there is instead.
            found = queries.differences_from_now(self._repository, self._settings, link, (), None)
        files = choose(found) if choose is not None else choice.numbered(link.checkpoint, found, wanted)
        if not files:
            return commands.nothing_restored(self.context, link.checkpoint, dry_run=options.dry_run)
        options = commands.of_hunks(self.context, link.checkpoint, files, options)
        return self._restore(link.checkpoint, options, f"restored hunks of checkpoint {link.checkpoint[:8]}")

    def _restore(self, checkpoint: str, options: RestoreOptions, summary: str) -> Restoration:
        from git_agentos.checkpoint.restore import commands, idempotency

        try:
            done = commands.restore(self.context, self.context.metadata(), checkpoint, options, scan=self._started())
        except idempotency.AlreadyDone as earlier:
            return earlier.result
        if not options.dry_run:
            details = {"paths": [os.fsdecode(path) for path in options.paths]} if options.paths is not None else {}
            self._note(summary, done, details)
        return done

    @authorize.entry("undo")
    def undo(
        self, *, dry_run: bool = False, expected: str | None = None, idempotency_key: str | None = None
    ) -> Restoration:
        """Restore the state before the last restore or undo, HEAD's branch included; a second undo undoes the first.
        `expected` and `idempotency_key` as in `restore`."""
        self._discard()
        from git_agentos.checkpoint.restore import commands, idempotency

        call = None
        if idempotency_key is not None:
            call = idempotency.call(idempotency_key, "undo", {"expected": expected})
        options = commands.RestoreOptions(dry_run=dry_run, expected=expected, call=call)
        try:
            done = commands.undo(self.context, self.context.metadata(), options)
        except idempotency.AlreadyDone as earlier:
            return earlier.result
        if not dry_run:
            self._note(f"undid the last restore: went back to checkpoint {done.checkpoint[:8]}", done, {})
        return done

    @authorize.entry("recover")
    def recover(self, *, abort: bool = False) -> Recovery:
        """Finish an interrupted restore, or with `abort` restore the state before it; remove our stale locks."""
        self._discard()
        from git_agentos.checkpoint.restore import commands

        done = commands.recover(self.context, self.context.metadata(), abort=abort)
        if done.checkpoint is not None:
            what = "finished an interrupted restore of" if done.outcome == "finished" else "went back to"
            self._note(f"{what} checkpoint {done.checkpoint[:8]}", done, {"outcome": done.outcome})
        return done

    @authorize.entry("pick")
    def pick(self, commits: Sequence[str]) -> Pick:
        """Cherry-pick commits after a `before_risky` checkpoint; the result says whether there is a conflict."""
        self._discard()
        self._refuse_interrupted()
        from git_agentos.checkpoint import pick

        return pick.pick(self.context, self.context.metadata(), commits)

    @authorize.entry("pick")
    def pick_continue(self) -> Pick:
        """Continue after conflicts were resolved and added."""
        self._discard()
        self._refuse_interrupted()
        from git_agentos.checkpoint import pick

        return pick.resume(self.context, self.context.metadata())

    @authorize.entry("pick")
    def pick_abort(self) -> Pick:
        """Abort an unfinished pick."""
        self._discard()
        self._refuse_interrupted()
        from git_agentos.checkpoint import pick

        return pick.abort(self.context, self.context.metadata())

    # -- status ---------------------------------------------------------------------------------------------

    def status(self) -> Status:
        """Agent, branch, changes, the last checkpoint, and interrupted commands."""
        from git_agentos.checkpoint import queries

        started = self._started() or Scan(self._location)
        self._record_pending(None, every=False)
        now = queries.status(self._repository, self._agent, self._timeline, started)
        if os.path.isdir(os.path.join(self._location.shared_state_dir, "approvals")):
            from git_agentos.guard.approval import approvals

            waiting = approvals.pending(self._location.common_dir, os.environ)
            now = now._replace(pending_approvals=waiting)
        if not os.path.isdir(os.path.join(self._location.shared_state_dir, "worktrees")):
            return now  # there never was an agent's worktree here
        from git_agentos.worktree import journal

        return now._replace(interrupted_worktrees=[each.id for each in journal.interrupted(self._location)])

    @authorize.entry("doctor")
    def doctor(self, *, fix: bool = False) -> tuple[Finding, ...]:
        """Problems of this repository's set-up, with hints; with `fix`, those are fixed that can be fixed safely."""
        from git_agentos import findings
        from git_agentos.checkpoint import doctor
        from git_agentos.guard.diagnosis import checks as guard
        from git_agentos.worktree import repair

        self._discard()
        # Worktrees and their locks first: what is fixed here is not reported again.
        found = repair.report(self.context, fix=fix)
        found += guard.examine(self._location, os.environ, fix=fix)
        return (*findings.report(doctor.examine(self._repository, self._settings), fix=fix), *found)

    # -- inside ---------------------------------------------------------------------------------------------

    def _started(self) -> Scan | None:
        """The scan that was started when the workspace was opened; None after the first call."""
        scan, self._scan = self._scan, None
        return scan

    def _discard(self) -> None:
        scan = self._started()
        if scan is not None:
            scan.discard()

    def _note(self, summary: str, done: Restoration | Recovery, details: dict[str, Any]) -> None:
        """Log what was restored, if there is a log; sqlite3 is not imported otherwise."""
        if not self.context.has_database:
            return
        from git_agentos import log

        files = [*done.changed, *done.removed]
        details = {"saved": done.saved, "branch": done.branch, **details, "files": len(files)}
        log.try_add(
            self.context,
            "action",
            summary,
            details=details,
            files=files[: log.MOST_FILES],
            checkpoint_id=done.checkpoint,
        )

    def _refuse_interrupted(self) -> None:
        from git_agentos.checkpoint.restore import commands

        commands.refuse_interrupted(self._location)

    def _timelines(self, agent: str | None, every: bool) -> list[str]:
        if every:
            return timeline.all_names(self._location)
        return [self._timeline] if agent is None else [agent]

    def _record_pending(self, agent: str | None, every: bool) -> None:
        """Record the pending checkpoints of git commands that have ended (`hooks.pending`)."""
        from git_agentos.hooks import pending

        if agent in (None, self._timeline) and not every:
            pending.record(self._location)
            return
        for location in worktrees.list_existing(self._location):
            if every or timeline.worktree_id(location) == agent:
                pending.record(location)

    def _link(self, spec: str, agent: str | None, every: bool, host: str | None) -> TimelineEntry:
        if host is not None:
            from git_agentos.sync import fetched

            return fetched.find(self.context, spec, host, agent, every=every)
        self._record_pending(agent, every)
        if agent is not None and agent not in timeline.all_names(self._location):
            from git_agentos.checkpoint import queries

            raise queries.unknown_agent(agent)
        return timeline.find(self._repository, spec, self._timelines(agent, every))

    def _walk(self, agent: str | None, every: bool, host: str | None) -> Iterator[Checkpoint]:
        from git_agentos.checkpoint import queries

        if host is not None:
            from git_agentos.sync import fetched

            known = fetched.of_host(self.context, host)
            own = fetched.one(self.context, host, self._timeline) if agent is None and not every else ""
            return queries.list_checkpoints(self._repository, own, agent, every=every, among=known)
        self._record_pending(agent, every)
        return queries.list_checkpoints(self._repository, self._timeline, agent, every=every)

    def moment(self, text: str) -> datetime:
        """The time that `text` means, as git reads it: `2 hours ago`, ISO 8601. UsageError if it is not a time."""
        from git_agentos.git import dates

        return dates.parse(self._location, text)

    def relative(self, paths: Sequence[str]) -> list[str]:
        """Paths as given where this workspace was opened, relative to the worktree's root."""
        return [os.fsdecode(path) for path in self._inside(paths)]

    def _inside(self, paths: Sequence[str]) -> list[bytes]:
        return [inside_worktree(self.root, self._start, path) for path in paths]


def open_workspace(
    path: str | os.PathLike[str] = ".",
    *,
    agent: str | None = None,
    scan: Scan | None = None,
    progress: Progress = SILENT,
) -> Workspace:
    """The workspace of the worktree that `path` is in. Deprecated: use `git_agentos.open_repository`.

    `agent` is the acting agent; by default AGENTOS_AGENT_ID, else the worktree's own id. `scan` was started for this
    path before; `progress` is told how far an operation is.

    Raises RepositoryError outside a worktree, UnsupportedRepository if libgit2 cannot open it.
    """
    start = os.path.realpath(os.fspath(path))
    location = scan.location if scan is not None else locate(os.fspath(path))
    return Workspace(location, scan, start, agent, progress)


def _check_limit(limit: int | None) -> None:
    if limit is not None and limit < 0:
        raise UsageError("the number of checkpoints cannot be negative")


__all__ = [
    "Checkpoint", "Diff", "FileChange", "FileContent", "Finding", "HunkHeader", "Interrupted", "Pick", "Recovery",
    "Restoration", "Skipped", "Status", "Workspace", "open_workspace",
]  # fmt: skip
