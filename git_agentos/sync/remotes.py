"""Which remote timelines are synchronised with."""

from __future__ import annotations

from git_agentos import config
from git_agentos.config import ConfigValues
from git_agentos.errors import UsageError
from git_agentos.git import refs

_DEFAULT = "origin"


def choose(values: ConfigValues, given: str | None) -> str:
    """The name of the remote: the one that is given, else `default`. UsageError where there is none."""
    known = _names(values)
    name = given if given is not None else default(values)
    if name is None:
        hint = "git remote add origin URL" if not known else f"give one of them: {', '.join(known)}"
        raise UsageError("there is no remote to synchronise with" if not known else "which remote is meant?", hint)
    if name not in known:
        raise UsageError(
            f"there is no remote '{name}'", f"git remote add {name} URL adds it" if _is_safe(name) else "git remote -v"
        )
    if not _is_safe(name):
        raise UsageError(f"the remote '{name}' has a name that refs cannot have", "git remote rename")
    return name


def default(values: ConfigValues) -> str | None:
    """The remote without further words: `agentos.sync.remote`, else `origin`, else the only one that there is."""
    configured = config.sync_remote(values)
    if configured is not None:
        return configured
    known = _names(values)
    return _DEFAULT if _DEFAULT in known else known[0] if len(known) == 1 else None


def _names(values: ConfigValues) -> list[str]:
    keys = (key for key in values if key.startswith("remote.") and key.endswith((".url", ".pushurl")))
    return sorted({key.removeprefix("remote.").rpartition(".")[0] for key in keys} - {""})


def _is_safe(name: str) -> bool:
    return not name.startswith("-") and refs.is_well_formed(f"refs/{name}/x")
