"""Names of fleets and of their tasks, and the refs that they have.

    refs/agentos/fleet/<fleet>/tasks             on the remote: the tasks
    refs/agentos/fleet/<fleet>/live/<task>       what a task that runs has reached
    refs/agentos/fleet/<fleet>/results/<task>    the result of a task
    refs/agentos/fleet/<fleet>/end               all results, once the fleet was ended
    refs/agentos/fleets/<remote>/<fleet>/…       here: the same as they were when they were last fetched

Nothing else below `refs/agentos/fleet/` is a name: a remote can have anything there.
"""

from __future__ import annotations

import hashlib
import re

from git_agentos import config
from git_agentos.config import AGENT_ID
from git_agentos.run import context as run_context
from git_agentos.util.named_tuple import NamedTuple

PREFIX = "refs/agentos/fleet/"
FETCHED = "refs/agentos/fleets/"
TASKS, LIVE, RESULTS, END = "tasks", "live", "results", "end"  # kinds of refs
LONGEST = 60  # characters of an id
_HASH = 12  # digits, where the id of a run is shortened
_REF = re.compile(rf"({AGENT_ID})/(?:({TASKS}|{END})|({LIVE}|{RESULTS})/({AGENT_ID}))")


class FleetRef(NamedTuple):
    """A ref of a fleet: `kind` is one of those above; `task` is None for `tasks` and `end`."""

    fleet: str
    kind: str
    task: str | None = None

    @property
    def on_remote(self) -> str:
        """The ref on the remote."""
        return f"{PREFIX}{self._path}"

    def fetched_from(self, remote: str) -> str:
        """The ref here, as it was when it was last fetched from a remote."""
        return f"{FETCHED}{remote}/{self._path}"

    @property
    def _path(self) -> str:
        return f"{self.fleet}/{self.kind}" + (f"/{self.task}" if self.task is not None else "")


def tasks_ref(fleet: str) -> str:
    """The ref of a fleet's tasks on the remote."""
    return FleetRef(fleet, TASKS).on_remote


def live_ref(fleet: str, task: str) -> str:
    """The ref on the remote of what a task that runs has reached."""
    return FleetRef(fleet, LIVE, task).on_remote


def result_ref(fleet: str, task: str) -> str:
    """The ref of a task's result on the remote."""
    return FleetRef(fleet, RESULTS, task).on_remote


def end_ref(fleet: str) -> str:
    """The ref on the remote of a fleet that was ended."""
    return FleetRef(fleet, END).on_remote


def fetched_ref(remote: str, ref: str) -> str:
    """The ref here for a ref of the remote, which is one of a fleet."""
    return f"{FETCHED}{remote}/{ref.removeprefix(PREFIX)}"


def parse(ref: str) -> FleetRef | None:
    """The ref of a fleet on the remote that a full name is; None for any other."""
    return _parse(ref.removeprefix(PREFIX)) if ref.startswith(PREFIX) else None


def parse_fetched(ref: str) -> tuple[str, FleetRef] | None:
    """The remote and the ref of a fleet that a ref here is; None for any other. A remote's name may have slashes."""
    if not ref.startswith(FETCHED):
        return None
    parts = ref.removeprefix(FETCHED).split("/")
    for length in (3, 2):  # fleet/live/task, fleet/tasks
        found = _parse("/".join(parts[-length:])) if len(parts) > length else None
        if found is not None:
            return "/".join(parts[:-length]), found
    return None


def check_fleet_id(fleet: str, *, source: str = "FLEET") -> str:
    """A well-formed id of a fleet; UsageError otherwise."""
    return config.well_formed(fleet, "a fleet id", source=source, longest=LONGEST)


def check_task_id(task: str, *, source: str = "TASK") -> str:
    """A well-formed id of a task; UsageError otherwise."""
    return config.well_formed(task, "a task id", source=source, longest=LONGEST)


def run_id(fleet: str, task: str) -> str:
    """The id of a task's run, wherever it runs, and of no other task's: `<fleet>-<task>`, with a hash where that could
    be another one's, and shortened where it is too long."""
    whole = f"{fleet}-{task}"
    if run_context.is_id(whole) and "-" not in fleet:
        return whole
    digits = hashlib.sha256(f"{fleet}/{task}".encode()).hexdigest()[:_HASH]
    return f"{whole[: LONGEST - _HASH - 1].rstrip('.-_')}-{digits}"


def branch(fleet: str, task: str) -> str:
    """The short name of the branch that a task's work is collected into: `fleet/<fleet>/<task>`."""
    return f"fleet/{fleet}/{task}"


def _parse(text: str) -> FleetRef | None:
    found = _REF.fullmatch(text)
    if found is None or not _is_safe(found[1]) or (found[4] is not None and not _is_safe(found[4])):
        return None
    return FleetRef(found[1], found[2] or found[3], found[4])


def _is_safe(part: str) -> bool:
    return len(part) <= LONGEST and not part.endswith((".lock", ".")) and ".." not in part
