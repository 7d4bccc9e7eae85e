"""Which remote timelines are synchronised with."""

from __future__ import annotations

from git_agentos import config
from git_agentos.config import ConfigValues
from git_agentos.errors import UsageError
from git_agentos.git import refs

_DEFAULT = "origin"


def choose(values: ConfigValues, given: str | None) -> str:
    """The name of the remote: the one that is given, else `default`. UsageError where there is none."""
    return _choose(values, given, default(values), "there is no remote to synchronise with")


def of_fleets(values: ConfigValues, given: str | None) -> str:
    """The same for fleets: the one that is given, else `agentos.fleet.remote`, else `origin`, or the only one."""
    return _choose(values, given, config.fleet_remote(values) or _usual(values), "there is no remote for fleets")


def _choose(values: ConfigValues, given: str | None, usual: str | None, none: str) -> str:
    known = _names(values)
    name = given if given is not None else usual
    if name is None:
        hint = "git remote add origin URL" if not known else f"give one of them: {', '.join(known)}"
        raise UsageError(none if not known else "which remote is meant?", hint)
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
    return configured if configured is not None else _usual(values)


def _usual(values: ConfigValues) -> str | None:
    known = _names(values)
    return _DEFAULT if _DEFAULT in known else known[0] if len(known) == 1 else None


def _names(values: ConfigValues) -> list[str]:
    keys = (key for key in values if key.startswith("remote.") and key.endswith((".url", ".pushurl")))
    return sorted({key.removeprefix("remote.").rpartition(".")[0] for key in keys} - {""})


def _is_safe(name: str) -> bool:
    return not name.startswith("-") and refs.is_well_formed(f"refs/{name}/x")
