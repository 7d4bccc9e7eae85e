"""The guard's settings: policy and switches, from configuration that an agent's worktree cannot set.

    agentos.guard.mode            strict (default): what policy does not allow is stopped; save: it is saved, and runs
    agentos.guard.preset          strict (default), recoverable: what an agent may do in its own worktree because it can
                                  be undone (`policy.effects`)
    agentos.guard.everyone        true: people's commands are saved too (nothing of theirs is ever stopped)
    agentos.policy.<operation>    allow, approve or forbid (docs/guard-operations.md has the names)
    agentos.protected             branches (glob patterns) that agents neither commit to, move nor push to; those in the
                                  record of a run's worktree count as well (`guard.boundary`)
    agentos.auto.<trigger>        switches of the automatic checkpoints, all on
    agentos.approvalKey           a file: who can read it may grant and deny
    agentos.approvalExpiry        how long a grant holds (`90`, `30m`, `1h`, `2d`); 1 hour

All of them are taken from the system's, the user's and the repository's shared configuration and what these include
from outside of any worktree: never from `git -c` and GIT_CONFIG_*, a worktree's own configuration, or a file that a
commit could bring along. Which files are the user's says the environment of `guard exec` or of this process, not that
of the command. Aliases and remotes are git's, and are as git would see them.

One git process reads it all, since it is read inside of other people's git commands.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from git_agentos.errors import ConfigurationError, UnreadableConfiguration
from git_agentos.git import process, worktrees
from git_agentos.guard import ancestry, boundary
from git_agentos.guard.decision import ALLOW, APPROVE, FORBID
from git_agentos.util import durations

STRICT, SAVE = "strict", "save"
RECOVERABLE = "recoverable"  # a preset; `policy.effects` says what it means
AUTO = ("beforeRisky", "afterCommit", "beforeMerge", "onTaskComplete", "onPhaseComplete")
DEFAULT_EXPIRY = 3600.0

_LONGEST_EXPIRY = 10 * 365 * 86400.0
# What says which files are the system's and the user's configuration.
PLACES = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "")


class Entry(NamedTuple):
    """One value of git's configuration. `scope` and `origin` are what `git config --show-scope --show-origin` say; the
    key's first and last part are in lower case; `value` is None where a key stands alone, which means true."""

    scope: str
    origin: str
    key: str
    value: str | None


class Rule(NamedTuple):
    """A decision about an operation, and the configuration key that makes it."""

    decision: str
    key: str


class Remote(NamedTuple):
    """What a remote's configuration says of pushes and fetches to it."""

    mirror: bool = False
    push: tuple[str, ...] = ()
    fetch: tuple[str, ...] = ()


class GuardSettings(NamedTuple):
    """What the guard needs from the configuration where a command runs.

    `own_branch` is that of the run that is at work, which is not protected from it; None where none is. `policy` is
    keyed by operation; `auto` has the switches that are set, by name in lower case (`auto_on` asks them);
    `approval_expiry` is in seconds; `values` (by key) and `entries` are everything that git sees, in its order.
    """

    mode: str = STRICT
    preset: str = STRICT
    everyone: bool = False
    policy: Mapping[str, Rule] = {}
    protected: tuple[str, ...] = ()
    own_branch: str | None = None
    auto: Mapping[str, bool] = {}
    approval_key: str | None = None
    approval_expiry: float = DEFAULT_EXPIRY
    aliases: Mapping[str, str] = {}
    remotes: Mapping[str, Remote] = {}
    values: Mapping[str, Sequence[str]] = {}
    entries: tuple[Entry, ...] = ()

    def is_protected(self, branch: str) -> bool:
        """Whether a branch (short) is protected from the one who is at work."""
        return branch != self.own_branch and boundary.matches(branch, self.protected)

    def auto_on(self, name: str) -> bool:
        """Whether the automatic trigger `name` (one of `AUTO`) is switched on."""
        return self.auto.get(name.lower(), True)


def read(
    cwd: str, environment: Mapping[str, str], options: Sequence[str] = (), *, trust_local: bool = True
) -> GuardSettings:
    """The settings of a git command in `cwd`; `options` are git's own options that come before its subcommand.

    With `trust_local=False` a repository's own configuration decides nothing about the guard: where a command is sent
    to another repository than the one it stands in, it could be one that was made for that.
    ConfigurationError for a value that is none, UnreadableConfiguration where git itself cannot read its configuration.
    """
    env = {**process.without_harmful_traces(environment), "LC_ALL": "C"}
    entries = deciding = _list(cwd, env, options)
    trusted = _trusted()
    if any(trusted.get(name) != environment.get(name) for name in PLACES):
        # `HOME=/tmp/x git …` would bring a policy of its own.
        env = {key: value for key, value in env.items() if key not in PLACES}
        env |= {name: trusted[name] for name in PLACES if name in trusted}
        deciding = _list(cwd, env, options)
    scopes = ("system", "global", "local") if trust_local else ("system", "global")
    ours = [entry for entry in deciding if entry.key.startswith("agentos.") and entry.scope in scopes]
    if ours:
        ours = _own(ours, cwd, env, options)
    found = interpret(entries, ours)
    bounds = boundary.of(cwd, os.getpid())
    return found._replace(protected=(*found.protected, *bounds.patterns), own_branch=bounds.own)


def _trusted() -> Mapping[str, str]:
    """The environment that says which configuration is the user's: that of `guard exec`, or this process's own; not
    what a command line sets for itself."""
    return ancestry.environment_of_guard_exec(os.getpid()) or process.environment()


def _list(cwd: str, env: Mapping[str, str], options: Sequence[str]) -> tuple[Entry, ...]:
    """Everything that git's configuration has for a command."""
    args = [*options, "config", "--list", "-z", "--show-scope", "--show-origin"]
    status, out, err = process.finish(process.spawn(args, cwd=cwd, env=env, fixed=False))
    if status != 0:
        raise UnreadableConfiguration(str(process.failure(["config"], status, err)))
    return _entries(out)


def interpret(entries: Sequence[Entry], ours: Sequence[Entry]) -> GuardSettings:
    """The settings that git's configuration makes; `ours` are those entries that may decide about the guard."""
    values: dict[str, list[str]] = {}
    for entry in entries:
        values.setdefault(entry.key, []).append("true" if entry.value is None else entry.value)
    last = {entry.key: entry for entry in ours}
    mode = _one_of(last.get("agentos.guard.mode"), (STRICT, SAVE), "agentos.guard.mode") or STRICT
    preset = _one_of(last.get("agentos.guard.preset"), (STRICT, RECOVERABLE), "agentos.guard.preset") or STRICT
    everyone = last.get("agentos.guard.everyone")
    prefix, switch = "agentos.policy.", "agentos.auto."
    policy = {
        key.removeprefix(prefix): Rule(_one_of(entry, (ALLOW, APPROVE, FORBID), key) or FORBID, key)
        for key, entry in last.items()
        if key.startswith(prefix)
    }
    key_file = last.get("agentos.approvalkey")
    return GuardSettings(
        mode=mode,
        preset=preset,
        everyone=_boolean(everyone) if everyone is not None else False,
        policy=policy,
        protected=tuple(
            pattern
            for entry in ours
            if entry.key == "agentos.protected"
            for pattern in (entry.value or "").replace(",", " ").split()
        ),
        auto={key.removeprefix(switch): _boolean(entry) for key, entry in last.items() if key.startswith(switch)},
        approval_key=os.path.expanduser(key_file.value or "") or None if key_file is not None else None,
        approval_expiry=_expiry(last.get("agentos.approvalexpiry")),
        aliases={key.removeprefix("alias."): found[-1] for key, found in values.items() if key.startswith("alias.")},
        remotes=_remotes(values),
        values=values,
        entries=tuple(entries),
    )


def _own(ours: Sequence[Entry], cwd: str, env: Mapping[str, str], options: Sequence[str]) -> list[Entry]:
    """Those entries that are not from a file inside of a worktree, which a commit could have brought."""
    args = [*options, "rev-parse", "--path-format=absolute", "--git-common-dir", "--show-toplevel"]
    status, out, _ = process.finish(process.spawn(args, cwd=cwd, env=env, fixed=False))
    lines = [os.path.realpath(os.fsdecode(line)) for line in out.split(b"\n") if line]
    if not lines:
        return list(ours)  # outside of any repository
    common_dir = lines[0]
    # git names the files of a repository relative to where it went itself: the top, or a bare repository.
    top = lines[1] if status == 0 and len(lines) > 1 else common_dir
    return [entry for entry in ours if worktrees.is_own_file(entry.origin, top, common_dir)]


def _remotes(values: Mapping[str, Sequence[str]]) -> dict[str, Remote]:
    found: dict[str, Remote] = {}
    for key, texts in values.items():
        section, _, rest = key.partition(".")
        name, _, variable = rest.rpartition(".")
        if section != "remote" or not name:
            continue
        remote = found.get(name, Remote())
        if variable == "mirror":
            # A word that is no boolean makes git itself stop.
            remote = remote._replace(mirror=texts[-1].lower() not in _FALSE)
        elif variable == "push":
            remote = remote._replace(push=tuple(texts))
        elif variable == "fetch":
            remote = remote._replace(fetch=tuple(texts))
        found[name] = remote
    return found


def _one_of(entry: Entry | None, words: Sequence[str], key: str) -> str | None:
    if entry is None:
        return None
    text = (entry.value or "").strip().lower()
    if text not in words:
        raise ConfigurationError(f"bad value '{entry.value or ''}' for '{key}'", f"give one of: {', '.join(words)}")
    return text


def _boolean(entry: Entry) -> bool:
    text = "true" if entry.value is None else entry.value.strip().lower()
    if text not in _TRUE + _FALSE:
        raise ConfigurationError(f"bad boolean value '{entry.value}' for '{entry.key}'")
    return text in _TRUE


def _expiry(entry: Entry | None) -> float:
    if entry is None:
        return DEFAULT_EXPIRY
    seconds = durations.seconds(entry.value or "")
    if seconds is None:
        raise ConfigurationError(
            f"bad value '{entry.value or ''}' for 'agentos.approvalExpiry'", "give seconds, or 30m, 1h, 2d"
        )
    return min(seconds, _LONGEST_EXPIRY)


def _entries(out: bytes) -> tuple[Entry, ...]:
    fields = [os.fsdecode(field) for field in out.split(b"\0")]
    found = []
    for n in range(0, len(fields) - 2, 3):
        scope, origin, text = fields[n : n + 3]
        key, has_value, value = text.partition("\n")
        found.append(Entry(scope, origin, key, value if has_value else None))
    return tuple(found)
