"""bubblewrap, which makes the sandboxes of the guard and of tdd: where it is, and whether it works here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence

from git_agentos.errors import AgentosError
from git_agentos.process import programs


def find(environment: Mapping[str, str], error: type[AgentosError]) -> str:
    """Where bubblewrap is on PATH; `error` where it is missing."""
    found = shutil.which("bwrap", path=environment.get("PATH", os.defpath))
    if found is None:
        raise error(
            "there is no bubblewrap, which makes the sandbox",
            "install it (the package is called bubblewrap), or leave --sandbox out",
        )
    return found


def require(words: Sequence[str], environment: Mapping[str, str], error: type[AgentosError]) -> None:
    """Make a sandbox with `words` and run nothing in it; `error` where that fails. Many systems do not allow it to
    their users, and do not say so before."""
    ended = programs.run([*words, "/bin/sh", "-c", ":"], cwd="/", env=environment)
    if ended.code != 0:
        lines = ended.output.decode("utf-8", "replace").strip().splitlines()
        why = lines[-1].removeprefix("bwrap: ") if lines else f"exit code {ended.code}"
        raise error(f"bubblewrap cannot make a sandbox here: {why}", "leave --sandbox out, or allow user namespaces")
