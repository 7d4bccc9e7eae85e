"""The guard's settings: policy and switches, from configuration that an agent's worktree cannot set.

    agentos.guard.mode            strict (default): what policy does not allow is stopped; save: it is saved, and runs
    agentos.guard.preset          strict (default), recoverable: what an agent may do in its own worktree because it can
                                  be undone (`policy.operations`)
    agentos.guard.everyone        true: save before people's commands too (these are never stopped)
    agentos.policy.<operation>    allow, approve or forbid (docs/guard-operations.md has the names)
    agentos.protected             branches (glob patterns) that agents neither commit to, move nor push to; those in the
                                  record of a run's worktree count as well (`run_protection`)
    agentos.auto.<trigger>        switches of the automatic checkpoints, all on
    agentos.approvalKey           a file: who can read it may grant and deny
    agentos.approvalExpiry        how long a grant is valid (`90`, `30m`, `1h`, `2d`); 1 hour

All of them come from the system's, the user's and the repository's shared configuration and from files that these
include from outside of any worktree: never from `git -c` and GIT_CONFIG_*, a worktree's own configuration, or a file
that a commit could bring. The environment of `guard exec` or of this process, not that of the command, says which files
are the user's. Aliases and remotes are read as git reads them.

What makes the guard weaker counts once a person has confirmed it (`confirmation`).

One git process reads everything, since this runs inside of other people's git commands.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from git_agentos.errors import ConfigurationError, GitCommandError, GuardError, UnreadableConfiguration
from git_agentos.git import configuration, gitfile, process, worktrees
from git_agentos.git.configuration import Entry
from git_agentos.guard import ancestry
from git_agentos.guard.configuration import confirmation, run_protection
from git_agentos.guard.configuration.confirmation import Applied, Confirmation, Place, Unconfirmed
from git_agentos.guard.configuration.strictness import DEFAULT_EXPIRY
from git_agentos.guard.decision import ALLOW, APPROVE, FORBID
from git_agentos.process import table
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.values import parse_boolean, parse_duration

__all__ = [
    "PLACES", "SAVE", "STRICT", "Entry", "GuardSettings", "Remote", "Rule", "Unconfirmed",
    "confirm", "interpret", "read", "review", "user_files",
]  # fmt: skip

STRICT, SAVE = "strict", "save"
RECOVERABLE = "recoverable"  # a preset; `policy.operations` says what it means
_SECTIONS = ("agentos.guard.", "agentos.policy.", "agentos.protected", "agentos.auto.", "agentos.approval")
_PERIODIC = "agentos.auto.periodic"  # the watch daemon's (`config.periodic`)
_LONGEST_EXPIRY = 10 * 365 * 86400.0
# Variables that say which files are the system's and the user's configuration.
PLACES = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")


class Rule(NamedTuple):
    """A decision about an operation, and the configuration key that makes it."""

    decision: str
    key: str


class Remote(NamedTuple):
    """What a remote's configuration says about pushes and fetches."""

    mirror: bool = False
    push: tuple[str, ...] = ()
    fetch: tuple[str, ...] = ()


class GuardSettings(NamedTuple):
    """What the guard needs of the configuration where a command runs.

    `own_branch` is the branch of the run that the command works for, which is not protected from it; None outside of a
    run. `policy` is keyed by operation; `auto` has the switches that are set, by name in lower case (`auto_on` reads
    them); `approval_expiry` is in seconds; `values` (by key) and `entries` are everything that git sees, in its order.
    `pending` does not count for agents until a person confirms it: `auto_of_people` are the switches as they are set.
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
    pending: tuple[Unconfirmed, ...] = ()
    auto_of_people: Mapping[str, bool] = {}

    def is_protected(self, branch: str) -> bool:
        """Whether a branch (short) is protected from the caller."""
        return branch != self.own_branch and run_protection.is_protected(branch, self.protected)

    def auto_on(self, name: str, *, person: bool = False) -> bool:
        """Whether the automatic trigger `name` (one of `AUTO`) is switched on, for an agent or for a person."""
        return (self.auto_of_people if person else self.auto).get(name.lower(), True)


def read(
    cwd: str, environment: Mapping[str, str], options: Sequence[str] = (), *, trust_local: bool = True
) -> GuardSettings:
    """The settings of a git command in `cwd`; `options` are git's own options before the subcommand.

    With `trust_local=False` a repository's own configuration decides nothing about the guard: a command that is
    redirected to another repository could name one that was made for that.

    ConfigurationError for an invalid value, UnreadableConfiguration if git itself cannot read its configuration.
    """
    entries, applied, ours, place = _read(cwd, environment, options, trust_local=trust_local)
    if place is not None and applied.changes:
        confirmation.note(applied.changes, _trusted())
    found = interpret(entries, applied.entries)
    bounds = run_protection.read_run_protection(cwd, table.own_pid())
    return found._replace(
        protected=(*found.protected, *bounds.patterns),
        own_branch=bounds.branch,
        pending=applied.pending,
        auto_of_people=_switches({entry.key: entry for entry in ours}),
    )


def review(cwd: str, environment: Mapping[str, str]) -> Confirmation:
    """The settings that make the guard weaker where `cwd` is: those that are pending, and those that were confirmed."""
    _, applied, _, place = _read(cwd, environment, (), trust_local=True)
    place = place or _place(cwd, process.environment(base=environment), ())
    known = confirmation.load(environment)
    return Confirmation(list(applied.pending), confirmation.confirmed(known, place))


def confirm(cwd: str, environment: Mapping[str, str], keys: Sequence[str], *, by: str) -> Confirmation:
    """Confirm the pending settings, or only those of `keys`. GuardError where nothing is pending for one of them, or
    there is no key to sign the confirmation."""
    pending = _read(cwd, environment, (), trust_local=True)[1].settings
    if keys:
        wanted = {key.lower() for key in keys}
        pending = tuple(each for each in pending if each[0].key.lower() in wanted)
        missing = wanted - {each.key.lower() for each, _ in pending}
        if missing:
            raise GuardError(
                f"no setting waits for confirmation for '{min(missing)}'", "git agentos guard confirm --list"
            )
    if pending:
        confirmation.confirm(pending, environment, by=by)
    return review(cwd, environment)


def _read(
    cwd: str, environment: Mapping[str, str], options: Sequence[str], *, trust_local: bool
) -> tuple[tuple[Entry, ...], Applied, Sequence[Entry], Place | None]:
    """Everything that git sees, which of the guard's settings count, these settings as they are set, and where. Cheap
    if nothing is set and nothing was ever confirmed."""
    env = {**process.without_harmful_traces(environment), "LC_ALL": "C"}
    entries = deciding = _list(cwd, env, options)
    trusted = _trusted()
    if any(trusted.get(name) != environment.get(name) for name in PLACES):
        # `HOME=/tmp/x git …` would bring a policy of its own.
        env = {key: value for key, value in env.items() if key not in PLACES}
        env |= {name: trusted[name] for name in PLACES if name in trusted}
        deciding = _list(cwd, env, options)
    scopes = ("system", "global", "local") if trust_local else ("system", "global")
    ours: Sequence[Entry] = [each for each in deciding if _is_of_guard(each.key) and each.scope in scopes]
    known = confirmation.load(trusted)
    if not ours and not _concerns(known, cwd, env, options):
        return entries, Applied([]), (), None
    place = _place(cwd, env, options)._replace(local=trust_local)
    ours = _own(ours, place)
    return entries, confirmation.apply(ours, known, place), ours, place


def _trusted() -> Mapping[str, str]:
    """The environment that says which configuration is the user's: that of `guard exec`, or this process's own. A
    command line cannot change it."""
    return ancestry.environment_of_guard_exec(table.own_pid()) or process.environment()


def _list(cwd: str, env: Mapping[str, str], options: Sequence[str]) -> tuple[Entry, ...]:
    """Everything that git's configuration has for a command."""
    try:
        return configuration.read_with_origins(cwd, env, options)
    except GitCommandError as error:
        raise UnreadableConfiguration(str(error)) from error


def interpret(entries: Sequence[Entry], ours: Sequence[Entry]) -> GuardSettings:
    """The settings in git's configuration; `ours` are those entries that may decide about the guard."""
    values: dict[str, list[str]] = {}
    for entry in entries:
        values.setdefault(entry.key, []).append("true" if entry.value is None else entry.value)
    last = {entry.key: entry for entry in ours}
    mode = _one_of(last.get("agentos.guard.mode"), (STRICT, SAVE), "agentos.guard.mode") or STRICT
    preset = _one_of(last.get("agentos.guard.preset"), (STRICT, RECOVERABLE), "agentos.guard.preset") or STRICT
    everyone = last.get("agentos.guard.everyone")
    prefix = "agentos.policy."
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
        auto=_switches(last),
        approval_key=os.path.expanduser(key_file.value or "") or None if key_file is not None else None,
        approval_expiry=_expiry(last.get("agentos.approvalexpiry")),
        aliases={key.removeprefix("alias."): found[-1] for key, found in values.items() if key.startswith("alias.")},
        remotes=_remotes(values),
        values=values,
        entries=tuple(entries),
    )


def _is_of_guard(key: str) -> bool:
    """Whether a key (in lower case) is one of the guard's settings: with others, nothing has to be looked at."""
    return key.startswith(_SECTIONS) and key != _PERIODIC


def _own(ours: Sequence[Entry], place: Place) -> Sequence[Entry]:
    """The entries that do not come from a file inside of a worktree, which a commit could have brought."""
    if place.common_dir is None:
        return ours
    common_dir = place.common_dir
    return [entry for entry in ours if worktrees.is_trusted_config_origin(entry.origin, place.top, common_dir)]


def _concerns(known: confirmation.Record, cwd: str, env: Mapping[str, str], options: Sequence[str]) -> bool:
    """Whether anything was confirmed or noted for the files that a command reads, found without git if possible."""
    if not known or options or "GIT_DIR" in env or "GIT_COMMON_DIR" in env:
        return bool(known)
    found = gitfile.find(cwd)
    common_dir = gitfile.common_dir(found[1]) if found is not None else None
    files = _normalized(user_files(env))
    return any(each.repository == common_dir or each.source in files for each in known)


def _place(cwd: str, env: Mapping[str, str], options: Sequence[str]) -> Place:
    """Where a command reads configuration; `env` says which files are the user's."""
    args = [*options, "rev-parse", "--path-format=absolute", "--git-common-dir", "--show-toplevel"]
    status, out, _ = process.finish(process.spawn(args, cwd=cwd, env=env, neutral_config=False))
    lines = [os.path.realpath(os.fsdecode(line)) for line in out.split(b"\n") if line]
    common_dir = lines[0] if lines else None
    # git prints the files of a repository relative to the top, or to a bare repository.
    top = lines[1] if status == 0 and len(lines) > 1 else common_dir or cwd
    return Place(top, common_dir, _normalized(user_files(env)), system="GIT_CONFIG_SYSTEM" not in env)


def _normalized(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(os.path.join(os.path.realpath(os.path.dirname(each)), os.path.basename(each)) for each in paths)


def user_files(environment: Mapping[str, str]) -> list[str]:
    """The files of the user's git configuration, by git-config(1), in git's order; they need not exist."""
    if "GIT_CONFIG_GLOBAL" in environment:
        return [os.path.expanduser(environment["GIT_CONFIG_GLOBAL"])]
    home = environment.get("HOME", "")
    base = environment.get("XDG_CONFIG_HOME") or (os.path.join(home, ".config") if home else "")
    found = [os.path.join(base, "git", "config")] if base else []
    return [*found, os.path.join(home, ".gitconfig")] if home else found


def _switches(last: Mapping[str, Entry]) -> dict[str, bool]:
    prefix = "agentos.auto."
    return {key.removeprefix(prefix): _boolean(entry) for key, entry in last.items() if key.startswith(prefix)}


def _remotes(values: Mapping[str, Sequence[str]]) -> dict[str, Remote]:
    found: dict[str, Remote] = {}
    for key, texts in values.items():
        section, _, rest = key.partition(".")
        name, _, variable = rest.rpartition(".")
        if section != "remote" or not name:
            continue
        remote = found.get(name, Remote())
        if variable == "mirror":
            # git itself rejects a value that is not a boolean.
            remote = remote._replace(mirror=parse_boolean(texts[-1]) is not False)
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
    found = parse_boolean("true" if entry.value is None else entry.value.strip())
    if found is None:
        raise ConfigurationError(f"bad boolean value '{entry.value}' for '{entry.key}'")
    return found


def _expiry(entry: Entry | None) -> float:
    if entry is None:
        return DEFAULT_EXPIRY
    seconds = parse_duration(entry.value or "")
    if seconds is None:
        raise ConfigurationError(
            f"bad value '{entry.value or ''}' for 'agentos.approvalExpiry'", "give seconds, or 30m, 1h, 2d"
        )
    return min(seconds, _LONGEST_EXPIRY)
