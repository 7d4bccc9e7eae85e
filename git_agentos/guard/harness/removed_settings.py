"""Settings of harnesses that somebody has removed with our hooks in them (`git clean`, `git stash --all`).

Each command looks for them, so what is needed to write them again is imported only where one is missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from git_agentos.guard.harness import backup, settings_files
from git_agentos.guard.harness.adapters import HARNESSES


def restore(root: str, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Write the settings below the worktree at `root` again that were removed; yield each harness and file.

    A file without our hooks is left, since somebody may have edited it on purpose: `doctor` reports it. Errors as those
    of `integration.add`.
    """
    paths = (path for name in HARNESSES for path in settings_files.paths(name, root))
    if not any(not os.path.lexists(path) and os.path.lexists(backup.record_path(path, environment)) for path in paths):
        return
    from git_agentos.guard.harness import integration

    for name, path in list(integration.missing(root, environment)):
        if not os.path.lexists(path) and settings_files.leading_out(name, root) is None:
            integration.add(name, root, environment)
            yield name, path
