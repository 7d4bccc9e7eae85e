"""The checkpoint before one command: created when the enforcer asks for it, and what it could not hold."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from git_agentos.errors import AgentosError, IncompleteCaptureError
from git_agentos.git.location import Location
from git_agentos.git.scan import Scan
from git_agentos.guard import messages
from git_agentos.guard.call import Call
from git_agentos.guard.decision import Assessment, SaveScope
from git_agentos.guard.identity import Identity
from git_agentos.util.named_tuple import NamedTuple

if TYPE_CHECKING:
    from git_agentos.checkpoint.model import Checkpoint, Skipped
    from git_agentos.checkpoint.open_worktree import OpenWorktree
    from git_agentos.guard.configuration.settings import GuardSettings


FSMONITOR, HOOK, SHIM, HARNESS = ("fsmonitor", "hook", "shim", "harness")


class LayerCall(NamedTuple):
    """How a layer asks for a command.

    `name` is the layer (`FSMONITOR`, `HOOK`, `SHIM` or `HARNESS`); `pid` is the process that the command is, or will be
    (the shim becomes git). With `on_wait`, a command that needs approval waits for it, and `on_wait` is called with a
    message first. With `hold`, a grant is found and not used, and nothing is saved yet: for a command that runs
    together with others or not at all. In a git hook, `hook_caller` is the git process that called it, `targets`
    are the commits to which refs are about to be moved, and `location` is its worktree.
    """

    name: str
    pid: int
    settings: GuardSettings
    on_wait: Callable[[str], None] | None = None
    hold: bool = False
    hook_caller: int | None = None
    targets: Sequence[str] = ()
    location: Location | None = None


class SavePlan(NamedTuple):
    """What the checkpoint holds: `ignored` files that the command may lose, files of any size (`whole`). `complete`:
    no checkpoint is created rather than one that does not hold everything."""

    ignored: bool
    whole: bool
    complete: bool


RUNS = SavePlan(ignored=True, whole=True, complete=True)
RUNS_ANYWAY = SavePlan(ignored=True, whole=True, complete=False)
ALLOWED = SavePlan(ignored=True, whole=False, complete=False)
STOPPED = SavePlan(ignored=False, whole=False, complete=False)


class Safeguard:
    """Creates the checkpoint before `call` in the worktree at `location`.

    `incomplete` says why the checkpoint does not hold everything, or could not be created; `unreadable`: the reason is
    something in the worktree that cannot be read. `notes` are lines for the message.
    """

    def __init__(
        self, call: Call, assessment: Assessment, identity: Identity, location: Location | None, layer: LayerCall
    ) -> None:
        self.call = call
        self.identity = identity
        self.location = location
        self.layer = layer.name
        self.scope = assessment.save
        self.operations = assessment.decision.operations
        self.is_on = layer.settings.auto_on("beforeRisky", person=identity.agent is None)
        self.checkpoint: Checkpoint | None = None
        self.incomplete = ""
        self.unreadable = False
        self.notes: list[str] = []
        self._context: OpenWorktree | None = None

    def context(self) -> OpenWorktree | None:
        """The worktree, opened when it is needed: pygit2 is not imported before."""
        return self._opened(self.location) if self.location is not None else None

    def _opened(self, location: Location, scan: Scan | None = None) -> OpenWorktree:
        if self._context is None:
            from git_agentos.guard.enforcement import saving

            self._context = saving.context_at(location, self.identity.agent, self.call.environment, scan)
        return self._context

    def create(self, plan: SavePlan) -> None:
        """Create the checkpoint, if one is wanted, and set `incomplete`."""
        if self.scope is None or not self.is_on or (plan is STOPPED and self.checkpoint is not None):
            return
        try:
            self.create_of(self.scope, plan)
        except (AgentosError, OSError) as error:
            self.incomplete = str(error)
            self.unreadable = isinstance(error, IncompleteCaptureError)
            self.notes.append(f"no checkpoint could be created: {messages.printable(str(error))}")

    def create_of(self, scope: SaveScope, plan: SavePlan) -> None:
        """Create a checkpoint that holds `scope`. AgentosError or OSError if that fails."""
        if self.location is None:
            self.incomplete = "the worktree that it works in is not known"
            return
        with Scan(self.location) as scan:  # git scans while Python imports what a checkpoint needs
            self._create_by(self._opened(self.location, scan), scope, plan, scan)

    def _create_by(self, context: OpenWorktree, scope: SaveScope, plan: SavePlan, scan: Scan) -> None:
        from git_agentos.checkpoint.model import SkipReason
        from git_agentos.guard.enforcement import saving

        cleans = any(name.startswith("clean") for name in self.operations)

        def is_needed(item: Skipped) -> bool:
            is_ours = cleans or item.kind is not SkipReason.OTHER_WORKTREE
            return is_ours and scope.may_touch(os.fsencode(item.path))

        metadata = context.metadata(
            trigger=saving.TRIGGER,
            description=f"before {messages.command_line(self.call.argv)}",
            meta={"command": messages.command_line(self.call.argv, most=2000), "layer": self.layer},
        )
        scope_now = scope if plan.ignored else SaveScope(commits=scope.commits)
        with self.collect_warnings():
            needed = is_needed if plan.complete else None
            saved = saving.save(context, scope_now, metadata, whole=plan.whole, needed=needed, scan=scan)
        if saved.checkpoint is not None:
            self.checkpoint = saved.checkpoint
        missing = [item for item in saved.skipped if is_needed(item)]
        if missing and plan is not STOPPED:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            self.incomplete = messages.printable(f"'{missing[0].path}'{more} ({missing[0].reason})")

    @contextlib.contextmanager
    def collect_warnings(self) -> Iterator[None]:
        """Warnings that are raised inside become notes."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        self.notes += [f"warning: {messages.printable(str(each.message))}" for each in caught]
