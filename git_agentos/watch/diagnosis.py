"""What `doctor` says of the watch daemon: what it cannot watch, and why none runs."""

from __future__ import annotations

from collections.abc import Iterator

from git_agentos import config
from git_agentos.config import ConfigValues
from git_agentos.errors import ConfigurationError
from git_agentos.findings import Finding
from git_agentos.git.location import Location
from git_agentos.watch import automatic, place
from git_agentos.watch.control import WatchStatus


def examine(location: Location, values: ConfigValues, status: WatchStatus) -> Iterator[Finding]:
    """All findings."""
    for read in (config.watch, config.watch_idle, config.periodic):
        try:
            read(values)
        except ConfigurationError as error:
            yield Finding("watch-configuration", "error", error.message, error.hint)
    if not status.running and automatic.has_given_up(location.common_dir):
        log = place.file(location.common_dir, "log")
        message = "the watch daemon has ended three times within ten minutes, and is not started again"
        yield Finding("watch-ended", "warning", message, f"its log is '{log}'; 'git agentos watch start' starts it")
    for each in status.worktrees:
        if not each["watching"]:
            yield Finding("not-watched", "info", f"'{each['path']}' is not watched: {each['reason']}")
