"""One run of a command: in which directory, as which agent, with which output, and its workspace."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from git_agentos.cli import prescan
from git_agentos.cli.output import Output
from git_agentos.errors import AgentosError, RepositoryError
from git_agentos.util.progress import SILENT
from git_agentos.watch import place

if TYPE_CHECKING:
    from git_agentos.cli.status_line import OperationProgress
    from git_agentos.git.scan import Scan
    from git_agentos.util.progress import Progress
    from git_agentos.workspace import Workspace

# These refuse to work after an interrupted restore, or finish it: no warning is needed.
_HANDLE_INTERRUPTED = ("restore", "undo", "rollback", "pick", "recover")
# These report an interrupted restore and a changed guard in their own text.
_REPORTING = ("status", "doctor")


class Invocation:
    """One run of a command. `words` is its command line; `scan` is git's scan if it was started before the parser."""

    def __init__(self, output: Output, scan: Scan | None = None, words: Sequence[str] = ()) -> None:
        self.output = output
        self.words = tuple(words)
        self.agent: str | None = None
        self.directories: list[str] = []
        self.subcommand: str | None = None
        self.after_dashes: list[str] = []
        self._scan = scan
        self._is_scan_given = False
        self._interruption_checked = False
        self._guard_checked = False
        self._progress: OperationProgress | None = None

    @property
    def directory(self) -> str:
        return prescan.join(self.directories)

    def path(self, path: str) -> str:
        """A path argument, which is relative to `-C PATH`."""
        return os.path.join(self.directory, path)

    def paths(self, paths: Sequence[str] | None) -> list[str]:
        """The PATH arguments, including those after `--`."""
        return [*(paths or ()), *self.after_dashes]

    def workspace(self) -> Workspace:
        """Open the workspace at `-C PATH`, acting as `--as ID`, and warn of what is wrong in it."""
        from git_agentos.workspace import open_workspace

        scan = None if self._is_scan_given else self._scan
        workspace = open_workspace(self.directory, agent=self.agent, scan=scan, progress=self.progress)
        self._is_scan_given = True
        self._warn_of_interruption(workspace)
        self._warn_of_tampering(workspace)
        self._warn_of_budget(workspace)
        self._restore_harness_settings(workspace)
        self._keep_watching(workspace)
        return workspace

    @property
    def progress(self) -> Progress:
        """What shows how far the command is, where somebody can see it."""
        if self._progress is None:
            output = self.output
            if output.json or output.quiet or output.terminal_width() is None:
                return SILENT
            from git_agentos.cli.status_line import OperationProgress

            self._progress = OperationProgress(output)
            output.draws(self._progress)
        return self._progress

    def close(self) -> None:
        """Stop a scan that nobody has read, and show no progress any more."""
        self.output.end_progress()
        if self._scan is not None:
            self._scan.discard()

    @property
    def _command(self) -> str | None:
        return prescan.prescan(self.words).command

    def _warn_of_interruption(self, workspace: Workspace) -> None:
        """Warn if a restore was interrupted in this worktree, unless the command itself deals with it."""
        command = self._command
        if (
            self._interruption_checked
            or command in _HANDLE_INTERRUPTED
            or (command in _REPORTING and not self.output.json)
        ):
            return
        self._interruption_checked = True
        from git_agentos.checkpoint import journal

        try:
            interrupted = journal.interrupted_command(workspace.context.repository.location)
        except RepositoryError as error:
            self.output.warn(error.message, error.hint or "'git agentos doctor' shows details")
            return
        if interrupted is not None:
            self.output.warn(
                f"an interrupted {interrupted} left this worktree between two states",
                "'git agentos recover' finishes it, 'git agentos recover --abort' aborts it",
            )

    def _warn_of_tampering(self, workspace: Workspace) -> None:
        """Warn if the guard of this worktree was tampered with, and log it, whatever the command is."""
        location = workspace.context.location
        marks = (os.path.join(location.git_dir, "config.worktree"), os.path.join(location.shared_state_dir, "guard"))
        if self._guard_checked or not any(map(os.path.lexists, marks)):
            return
        self._guard_checked = True
        from git_agentos.guard import tampering

        message = tampering.report(location, workspace.agent, os.environ)
        if message is not None and self._command not in _REPORTING:
            self.output.warn(message, tampering.HINT)

    def _warn_of_budget(self, workspace: Workspace) -> None:
        """Warn if more room is taken than agentos.diskBudget allows."""
        from git_agentos.checkpoint import upkeep  # `creation` has it

        if self._command not in _REPORTING and upkeep.over_budget(workspace.context.location) is not None:
            self.output.warn("checkpoints take more room than agentos.diskBudget allows", upkeep.BUDGET_HINT)

    def _keep_watching(self, workspace: Workspace) -> None:
        """Start the watch daemon again if one is wanted and has ended."""
        context = workspace.context
        values, common_dir = context.settings.values, context.location.common_dir
        is_wanted = "agentos.watch" in values or os.path.lexists(place.file(common_dir, "wanted"))
        if self._command == "watch" or not is_wanted:
            return
        from git_agentos.watch import automatic

        message = automatic.keep_running(context.location, values, os.environ)
        if message is not None:
            self.output.warn(message, "'git agentos doctor' says where its log is, 'git agentos watch start' starts it")

    def _restore_harness_settings(self, workspace: Workspace) -> None:
        """Write a harness's guard hooks again if somebody has removed them from its settings."""
        from git_agentos.guard import signing

        if not os.path.isdir(os.path.join(signing.folder(os.environ), "integrations")):
            return
        from git_agentos.guard.harness import removed_settings

        try:
            for name, path in removed_settings.restore(workspace.context.location.root, os.environ):
                self.output.warn(
                    f"the guard hooks of {name} were missing from '{path}': they were written again",
                    f"'git agentos guard integrate {name} --remove' removes them",
                )
        except (AgentosError, OSError):
            return  # `doctor` reports it
