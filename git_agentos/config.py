"""Settings: one typed accessor for each `agentos.*` key of git's configuration and each AGENTOS_* variable."""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Mapping, Sequence

from git_agentos.errors import AgentosWarning, ConfigurationError, UsageError
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.values import parse_boolean, parse_days, parse_duration, parse_size

DEFAULT_MAX_FILE_SIZE = 100 << 20
DEFAULT_MAX_UNTRACKED = 50_000
MOST_PORTS = 1000  # of one worktree
DEFAULT_RETENTION = "within=7d hourly=720 daily=365"
LONGEST_ID = 64
AGENT_ID = rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_ID - 1}}}"
_LONGEST_RETENTION = 1000 * 365  # days; a longer time means forever

# Commands: `worktree.user_command` reads them, with their origin.
# If it is set, nobody can decide for agents, with a key neither: what a page in a browser starts gets it (`ui.web`).
NO_DECISIONS = "AGENTOS_NO_DECISIONS"
SETUP = "agentos.setup"
TEARDOWN = "agentos.teardown"
# A command that is taken from the user's own files alone (`notification`).
NOTIFY = "agentos.notify"
# The folder of the clones in which workers of fleets work, on this machine.
FLEET_DIR = "AGENTOS_FLEET_DIR"
# What is pushed without being asked for: taken from the user's own configuration, as well.
SYNC_AUTO = "agentos.sync.auto"
# To whom what is pushed is encrypted, and the file with the key that decrypts: from there, as well.
SYNC_ENCRYPT_TO = "agentos.sync.encryptTo"
SYNC_IDENTITY = "agentos.sync.identity"

# The ports of a worktree, for commands in it (`worktree.ports`).
PORT_BASE, PORT_COUNT = "AGENTOS_PORT_BASE", "AGENTOS_PORT_COUNT"

ConfigValues = Mapping[str, list[str]]


class Settings(NamedTuple):
    """What the domain needs from the configuration of one worktree.

    `max_file_size` is in bytes, 0 for no limit; `include_ignored` are gitignore patterns; `committer` is
    `Name <email>` as bytes; `file_mode` is git's core.fileMode. `workflow_db` is AGENTOS_WORKFLOW_DB, empty if it is
    unset; `log_retention` is how many days log entries are kept in the database, 0 forever.
    """

    max_file_size: int
    include_ignored: tuple[str, ...]
    committer: bytes
    file_mode: bool
    values: ConfigValues
    workflow_db: str = ""
    log_retention: int = 0


def settings(values: ConfigValues, environment: Mapping[str, str]) -> Settings:
    """Read the settings out of git's configuration (lower-cased key -> values)."""
    return Settings(
        max_file_size=max_file_size(values),
        include_ignored=tuple(p for value in values.get("agentos.includeignored", ()) for p in value.split("\n") if p),
        committer=_committer(values, environment),
        file_mode=boolean(values, "core.filemode", default=True),
        values=values,
        workflow_db=environment.get("AGENTOS_WORKFLOW_DB", "").strip(),
        log_retention=_days(values, "agentos.logretention") if "agentos.logretention" in values else 0,
    )


def max_file_size(values: Mapping[str, Sequence[str]]) -> int:
    """agentos.maxFileSize in bytes, 0 for no limit."""
    return _size(values, "agentos.maxfilesize", DEFAULT_MAX_FILE_SIZE)


def max_untracked(values: ConfigValues) -> int:
    """agentos.maxUntracked: the number of untracked files above which `checkpoint` warns; 0 for never."""
    text = values.get("agentos.maxuntracked", [""])[-1].strip()
    if not text:
        return DEFAULT_MAX_UNTRACKED
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    # Only a warning: a bad value must not prevent a checkpoint.
    message = f"bad value '{text[:40]}' for 'agentos.maxUntracked': give a number, 0 for no warning"
    warnings.warn(AgentosWarning(message), stacklevel=2)
    return DEFAULT_MAX_UNTRACKED


def boolean(values: ConfigValues, key: str, *, default: bool) -> bool:
    """A boolean as git reads it; anything else is a ConfigurationError."""
    if key not in values:
        return default
    found = parse_boolean(values[key][-1])
    if found is None:
        raise ConfigurationError(f"bad boolean value '{values[key][-1].lower()}' for '{key}'")
    return found


def _size(values: Mapping[str, Sequence[str]], key: str, default: int) -> int:
    if key not in values:
        return default
    found = parse_size(values[key][-1])
    if found is None:
        raise ConfigurationError(
            f"bad value '{values[key][-1]}' for 'agentos.maxFileSize'", "give bytes, or a number with k, m or g"
        )
    return found


def worktree_root(values: ConfigValues) -> str | None:
    """agentos.worktreeRoot, the template of paths for worktrees, `~` expanded; None if it is unset or empty."""
    return os.path.expanduser(values.get("agentos.worktreeroot", [""])[-1]) or None


def run_base(values: ConfigValues) -> str | None:
    """agentos.runBase, the branch, tag or commit from which runs start; None if it is unset or empty."""
    return values.get("agentos.runbase", [""])[-1] or None


def run_cleanup(values: ConfigValues) -> bool:
    """agentos.runCleanup: whether worktree and branch of a run that has ended are removed."""
    return boolean(values, "agentos.runcleanup", default=False)


def tdd_agent(values: ConfigValues) -> str | None:
    """agentos.tdd.agent: the default of `tdd run --agent`; None if it is unset or empty."""
    return values.get("agentos.tdd.agent", [""])[-1] or None


def tdd_python(values: ConfigValues) -> str | None:
    """agentos.tdd.python, the interpreter that runs tests, `~` expanded; None if it is unset or empty."""
    return os.path.expanduser(values.get("agentos.tdd.python", [""])[-1]) or None


def tdd_pass_environment(values: ConfigValues) -> tuple[str, ...]:
    """agentos.tdd.passEnvironment: variables that are passed to tests although their names look secret."""
    return tuple(" ".join(values.get("agentos.tdd.passenvironment", ())).replace(",", " ").split())


def tdd_lint(values: ConfigValues) -> str | None:
    """agentos.tdd.lint, shell text that must exit with 0; None if it is unset or empty."""
    return values.get("agentos.tdd.lint", [""])[-1] or None


def tdd_agent_timeout(values: ConfigValues) -> float | None:
    """agentos.tdd.agentTimeout: the time limit of an agent's call, in seconds; None for no limit."""
    text = values.get("agentos.tdd.agenttimeout", [""])[-1].strip().lower()
    if text in ("", "0"):
        return None
    seconds = parse_duration(text)
    if not seconds:
        raise ConfigurationError(
            f"bad value '{text}' for 'agentos.tdd.agentTimeout'", "give a time such as 90s, 30m or 2h; 0 is no limit"
        )
    return seconds


def pool(values: ConfigValues) -> int:
    """agentos.pool: how many worktrees are kept prepared."""
    text = values.get("agentos.pool", ["0"])[-1].strip()
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise ConfigurationError(f"bad value '{text}' for 'agentos.pool'", "give a number; 0 keeps none")
    return int(text)


def link(values: ConfigValues) -> tuple[str, ...]:
    """agentos.link: gitignore patterns of what `worktree create` brings from the worktree in which it is called."""
    patterns = tuple(p for value in values.get("agentos.link", ()) for p in value.split("\n") if p)
    for each in patterns:
        if ".." in each.split("/"):
            raise ConfigurationError(f"bad pattern '{each}' in 'agentos.link'", "a pattern is for paths in a worktree")
    return patterns


def ports(values: ConfigValues) -> int:
    """agentos.ports: how many ports each worktree gets."""
    text = values.get("agentos.ports", ["0"])[-1].strip()
    if not text.isascii() or not text.isdigit() or len(text) > 4 or int(text) > MOST_PORTS:
        raise ConfigurationError(
            f"bad value '{text}' for 'agentos.ports'", f"give a number up to {MOST_PORTS}; 0 is none"
        )
    return int(text)


def cleanup_after(values: ConfigValues) -> float | None:
    """agentos.cleanupAfter: after how many idle seconds `worktree cleanup` archives a worktree; None for never."""
    return _time(values, "agentos.cleanupAfter", "30d", none="never")


def notify_idle(values: ConfigValues) -> float | None:
    """agentos.notifyIdle: after how many idle seconds of a worktree `agentos.notify` is told; None for never."""
    return _time(values, "agentos.notifyIdle", "10m", none="never")


def retention(values: ConfigValues) -> str:
    """agentos.retention: the rules by which automatic checkpoints are kept (`retention.rules`)."""
    return values.get("agentos.retention", [DEFAULT_RETENTION])[-1]


def disk_budget(values: ConfigValues) -> int | None:
    """agentos.diskBudget in bytes; None for no limit."""
    text = values.get("agentos.diskbudget", ["none"])[-1].strip().lower()
    if text in ("", "none", "0"):
        return None
    found = parse_size(text)
    if found is None:
        raise ConfigurationError(
            f"bad value '{text}' for 'agentos.diskBudget'", "give bytes, or a number with k, m or g, or 'none'"
        )
    return found


def watch(values: Mapping[str, Sequence[str]]) -> str:
    """agentos.watch: whether the watch daemon is started by commands (`auto`: by those that say so)."""
    text = values.get("agentos.watch", ["auto"])[-1].strip().lower()
    if text == "auto":
        return text
    found = parse_boolean(text)
    if found is None:
        raise ConfigurationError(f"bad value '{text}' for 'agentos.watch'", "give auto, true or false")
    return "true" if found else "false"


def watch_idle(values: ConfigValues) -> float | None:
    """agentos.watchIdle: after how many seconds without work the watch daemon ends; None for never."""
    return _time(values, "agentos.watchIdle", "30m", none="0")


def periodic(values: ConfigValues) -> float | None:
    """agentos.auto.periodic: after how many seconds of changes the watch daemon saves them; None for never."""
    return _time(values, "agentos.auto.periodic", "5m", none="off")


def sync_remote(values: ConfigValues) -> str | None:
    """agentos.sync.remote, the remote of `sync`; None if it is unset or empty."""
    return values.get("agentos.sync.remote", [""])[-1].strip() or None


def fleet_remote(values: ConfigValues) -> str | None:
    """agentos.fleet.remote, the remote of fleets; None if it is unset or empty."""
    return values.get("agentos.fleet.remote", [""])[-1].strip() or None


def fleet_remote_wait(values: ConfigValues) -> float:
    """agentos.fleet.remoteWait: for how many seconds a worker waits for a remote that cannot be reached."""
    return _seconds_from_0(values, "agentos.fleet.remoteWait", "24h")


def fleet_live_interval(values: ConfigValues) -> float:
    """agentos.fleet.liveInterval: how many seconds there are at least between two times that a worker tells the remote
    how far its task has come."""
    return _seconds_from_0(values, "agentos.fleet.liveInterval", "2s")


def fleet_history(values: ConfigValues) -> str:
    """agentos.fleet.history: how much of the history a worker's clone has: `shallow` (the bases of tasks, and what is
    newer) or `full`."""
    text = values.get("agentos.fleet.history", ["shallow"])[-1].strip().lower() or "shallow"
    if text not in ("shallow", "full"):
        raise ConfigurationError(f"bad value '{text}' for 'agentos.fleet.history'", "give shallow or full")
    return text


def sync_host(values: ConfigValues) -> str | None:
    """agentos.sync.host, the name of this clone among those that `sync` knows; None if it is unset or empty."""
    return values.get("agentos.sync.host", [""])[-1].strip() or None


def sync_auto(values: ConfigValues) -> str:
    """agentos.sync.auto: when checkpoints are pushed without a command: `off`, `complete` or `periodic`."""
    text = values.get(SYNC_AUTO.lower(), ["off"])[-1].strip().lower() or "off"
    if text not in ("off", "complete", "periodic"):
        raise ConfigurationError(f"bad value '{text}' for '{SYNC_AUTO}'", "give off, complete or periodic")
    return text


def _time(values: ConfigValues, key: str, default: str, *, none: str) -> float | None:
    """A time in seconds; None for the word `none`."""
    text = values.get(key.lower(), [default])[-1].strip().lower()
    if text == none:
        return None
    seconds = parse_duration(text)
    if not seconds:
        raise ConfigurationError(f"bad value '{text}' for '{key}'", f"give a time such as 90s, 30m or 2h, or '{none}'")
    return seconds


def _seconds_from_0(values: ConfigValues, key: str, default: str) -> float:
    text = values.get(key.lower(), [default])[-1].strip()
    seconds = 0.0 if text == "0" else parse_duration(text)
    if seconds is None:
        raise ConfigurationError(f"bad value '{text}' for '{key}'", "give a time such as 90s, 30m or 2h, or 0")
    return seconds


def _days(values: ConfigValues, key: str) -> int:
    text = values[key][-1].strip().lower()
    if text in ("keep", "never", "forever", ""):
        return 0
    found = parse_days(text)
    if found is None:
        # Only a warning: a bad value must not prevent a checkpoint.
        warnings.warn(
            AgentosWarning(
                f"bad value '{text[:40]}' for 'agentos.logRetention': log entries are kept;"
                " give 'keep', or a number of days such as 90d"
            ),
            stacklevel=2,
        )
        return 0
    return math.ceil(found) if found <= _LONGEST_RETENTION else 0


def _committer(values: ConfigValues, environment: Mapping[str, str]) -> bytes:
    """The committer, by git's own precedence; `git-agentos` if none is configured."""

    def first(variable: str, *keys: str) -> str | None:
        if environment.get(variable):
            return environment[variable]
        return next((values[key][-1] for key in keys if values.get(key, [""])[-1]), None)

    name = first("GIT_COMMITTER_NAME", "committer.name", "user.name") or "git-agentos"
    email = first("GIT_COMMITTER_EMAIL", "committer.email", "user.email") or "git-agentos@localhost"
    # git removes these characters from names: they delimit the fields of a commit header.
    clean = [re.sub(r"[<>\n\0]", "", part).strip() for part in (name, email)]
    return os.fsencode(f"{clean[0] or 'git-agentos'} <{clean[1]}>")


def agent_id(text: str, *, source: str) -> str:
    """Check that an agent id is well formed; else a UsageError that names its `source`."""
    return well_formed(text, "an agent id", source=source)


def well_formed(text: str, what: str, *, source: str, longest: int = LONGEST_ID) -> str:
    """Check that an id has the form of an agent id; else a UsageError that says `what` it is not."""
    if (
        not re.fullmatch(AGENT_ID, text[:LONGEST_ID])
        or text.endswith((".lock", "."))
        or ".." in text
        or len(text) > longest
    ):
        shown = text if len(text) <= LONGEST_ID else f"{text[:LONGEST_ID]}..."
        raise UsageError(
            f"'{shown}' ({source}) is not {what}",
            f"use up to {longest} letters, digits, '.', '_' and '-', beginning with a letter or digit",
        )
    return text


def identity(environment: Mapping[str, str]) -> str | None:
    """AGENTOS_AGENT_ID, checked; None if it is unset or empty."""
    text = environment.get("AGENTOS_AGENT_ID")
    return agent_id(text, source="AGENTOS_AGENT_ID") if text else None


def mock_llm(environment: Mapping[str, str]) -> bool:
    """AGENTOS_MOCK_LLM: whether a script replaces the model, unless `--agent` is given."""
    return parse_boolean(environment.get("AGENTOS_MOCK_LLM", "").strip()) is True


def mock_script(environment: Mapping[str, str]) -> str | None:
    """AGENTOS_MOCK_SCRIPT: the path of that script; None if it is unset or empty."""
    return environment.get("AGENTOS_MOCK_SCRIPT") or None
