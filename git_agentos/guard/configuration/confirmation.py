"""Settings that make the guard weaker count once a person has confirmed them (`git agentos guard confirm`).

Agents can write to the files from which git reads configuration. Therefore a value that makes the guard weaker than
before (`strictness` has the table) is *pending*: until somebody who may also grant confirms it, the previous value
counts. A value that makes it stricter counts at once, and is noted, so that taking it away again is pending too.

    <configuration folder>/git-agentos/confirmed.json

holds what was confirmed or noted: key, value, the file and the scope of it, and the repository unless it is one of the
user's own configuration files. It is one JSON object with a MAC by the user's key, beside that key, and is read once
for a command. In a sandbox, where there is no key, it counts because it cannot be written there.

The system's configuration counts at once if this user can neither write nor replace that file.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from git_agentos.errors import AgentosError, GuardError
from git_agentos.git.configuration import Entry
from git_agentos.guard import signing
from git_agentos.guard.configuration import strictness
from git_agentos.process import mounts
from git_agentos.util import files, times
from git_agentos.util.named_tuple import NamedTuple

FILE = "confirmed.json"
_KIND, _NAME = "settings", "confirmed"
_LIMIT = 4 << 20  # bytes
_SCOPES = ("system", "global", "local")


class Setting(NamedTuple):
    """Where a value is set. `repository` is the common git directory, empty for the user's and the system's own files;
    `source` is the path of the file."""

    repository: str
    scope: str
    source: str
    key: str


class Known(NamedTuple):
    """The values that were confirmed there, or noted: then `by` is None. `at` is a time in ISO 8601, UTC."""

    values: tuple[str, ...]
    by: str | None = None
    at: str | None = None


class Unconfirmed(NamedTuple):
    """A value that does not count yet; None is a key that was removed. `source` is the path of its file."""

    key: str
    value: str | None
    source: str


class Confirmation(NamedTuple):
    """The settings that do not count yet, and those that were confirmed; the fields are the keys of JSON kind
    `confirm`."""

    pending: list[Unconfirmed]
    confirmed: list[Unconfirmed]


class Place(NamedTuple):
    """Where a command reads configuration: `top` is the folder from which git names files, `common_dir` its repository
    (None outside of one), `user_files` the user's own configuration files; `local`: the repository's own configuration
    may decide."""

    top: str
    common_dir: str | None
    user_files: tuple[str, ...]
    local: bool = True
    system: bool = True


class Applied(NamedTuple):
    """The entries that count, what is pending, and what has to be noted (None: forgotten)."""

    entries: list[Entry]
    pending: tuple[Unconfirmed, ...] = ()
    changes: Mapping[Setting, Known | None] = {}
    settings: tuple[tuple[Setting, str | None], ...] = ()


Record = Mapping[Setting, Known]


# -- what counts -------------------------------------------------------------------------------------------------------


def apply(entries: Sequence[Entry], known: Record, place: Place) -> Applied:
    """Which of `entries` (in git's order, all from files that may decide) count."""
    rest = [each for each in entries if not strictness.counts(each.key)]
    keys = dict.fromkeys(each.key for each in entries if strictness.counts(each.key))
    keys |= dict.fromkeys(each.key for each in known if _is_read(each, place))
    collected = _Collected({}, [])
    for key in keys:
        stand = list(_standing(key, entries, known, place))
        found = (
            _patterns(stand, place, collected) if key == strictness.PROTECTED else _value(key, stand, place, collected)
        )
        if found is not None:
            rest.append(found)
    pending = tuple(
        Unconfirmed(strictness.name(setting.key), value, setting.source) for setting, value in collected.pending
    )
    return Applied(rest, pending, collected.changes, tuple(collected.pending))


class _Standing(NamedTuple):
    """What one file says about a key: the values in it now, and what is known of it."""

    setting: Setting
    live: tuple[Entry, ...]
    known: Known | None


class _Collected(NamedTuple):
    changes: dict[Setting, Known | None]
    pending: list[tuple[Setting, str | None]]


def _standing(key: str, entries: Sequence[Entry], known: Record, place: Place) -> Iterator[_Standing]:
    """The places that say something about a key, in the order in which git reads them; first what was taken out."""
    live: dict[Setting, list[Entry]] = {}
    for each in entries:
        if each.key == key:
            setting = _setting(each, place)
            values = live.pop(setting, [])  # the last value of a file has its place in git's order
            live[setting] = [*values, each]
    gone = [each for each in known if each.key == key and each not in live and _is_read(each, place)]
    for scope in _SCOPES:
        yield from (_Standing(each, (), known[each]) for each in gone if each.scope == scope)
    yield from (_Standing(each, tuple(values), known.get(each)) for each, values in live.items())


def _value(key: str, stand: Sequence[_Standing], place: Place, collected: _Collected) -> Entry | None:
    """The entry that counts for a key of which the last value wins; None where the default does."""
    current: Entry | None = None
    for setting, live, known in sorted(stand, key=lambda each: _SCOPES.index(each.setting.scope)):
        last = live[-1] if live else None
        now = _text(last) if last is not None else _text(current)
        before = known.values[-1] if known is not None and known.values else None
        holds = before if before is not None else _text(current)
        if last is not None and (now == before or not strictness.is_readable(key, now) or _is_fixed(setting, place)):
            current = last
        elif strictness.loosens(key, holds, now):
            collected.pending.append((setting, None if last is None else now))
            if before is not None:
                current = Entry(setting.scope, f"file:{setting.source}", key, before)
        elif last is None:
            collected.changes[setting] = None
        else:
            current = last
            confirmed = known is not None and known.by is not None
            if confirmed or not strictness.loosens(key, None, now):
                collected.changes[setting] = Known((now or "",), *(known[1:] if known is not None else ()))
    return current


def _patterns(stand: Sequence[_Standing], place: Place, collected: _Collected) -> Entry | None:
    """One entry with the patterns of all files, and with those that were removed."""
    found: list[str] = []
    for setting, live, known in stand:
        now = strictness.patterns(each.value or "" for each in live)
        before = list(known.values) if known is not None else []
        missing = [each for each in before if each not in now]
        if missing and not _is_fixed(setting, place):
            collected.pending.append((setting, " ".join(now) or None))
            now += missing
        if set(now) != set(before):
            collected.changes[setting] = Known(tuple(now), *(known[1:] if known is not None else ()))
        found += now
    if not found:
        return None
    return Entry("local", "", strictness.PROTECTED, " ".join(dict.fromkeys(found)))


def _setting(entry: Entry, place: Place) -> Setting:
    name = entry.origin.partition(":")[2]
    folder, base = os.path.split(os.path.join(place.top, name))
    source = os.path.join(os.path.realpath(folder), base)
    of_user = entry.scope == "system" or (entry.scope == "global" and source in place.user_files)
    return Setting("" if of_user else place.common_dir or "", entry.scope, source, entry.key)


def _is_read(setting: Setting, place: Place) -> bool:
    """Whether a file that no longer sets a key would be read here if it did."""
    if setting.scope == "global" and not setting.repository:
        return setting.source in place.user_files
    if setting.scope == "local" and not place.local:
        return False
    return bool(setting.repository) and setting.repository == place.common_dir


def _is_fixed(setting: Setting, place: Place) -> bool:
    """Whether it is set in a file of the system that this user can neither write nor replace."""
    if setting.scope != "system" or not place.system or os.geteuid() == 0:
        return False
    path = setting.source
    with contextlib.suppress(OSError):
        while True:
            found = os.lstat(path)
            if found.st_uid == os.geteuid() or found.st_mode & 0o022:
                return False
            if path == os.path.dirname(path):
                return True
            path = os.path.dirname(path)
    return False


def _text(entry: Entry | None) -> str | None:
    if entry is None:
        return None
    return "true" if entry.value is None else entry.value


# -- messages ----------------------------------------------------------------------------------------------------------


def format_setting(each: Unconfirmed) -> str:
    """A setting as text: `agentos.guard.mode = save`."""
    return f"{each.key} (removed)" if each.value is None else f"{each.key} = {each.value}"


def notice(pending: Sequence[Unconfirmed]) -> str:
    """The message at the next guarded operation; empty where nothing is pending."""
    if not pending:
        return ""
    shown = ", ".join(f"{format_setting(each)} (in '{each.source}')" for each in pending[:3])
    more = f" and {len(pending) - 3} more" if len(pending) > 3 else ""
    return f"not confirmed, so the stricter value holds: {shown}{more} (git agentos guard confirm, by a person)"


# -- what is known -----------------------------------------------------------------------------------------------------


def load(environment: Mapping[str, str]) -> dict[Setting, Known]:
    """What was confirmed and noted by this user; nothing if the file may not be ours."""
    folder = signing.folder(environment)
    try:
        data = files.read(os.path.join(folder, FILE), limit=_LIMIT)
    except OSError:
        return {}  # most users have none
    import json  # not loaded where there is nothing to read

    try:
        document = json.loads(data)
        key = signing.key(environment, make=False)
        if not isinstance(document, dict):
            return {}
        if key is None:
            return _read(document) if mounts.is_read_only(folder) else {}
        return _read(document) if signing.verify_document(_KIND, _NAME, document, key) else {}
    except (OSError, ValueError, RecursionError, GuardError):
        return {}


def problem(environment: Mapping[str, str]) -> str | None:
    """What is wrong with the record, in a sentence; None if nothing is."""
    path = os.path.join(signing.folder(environment), FILE)
    if not os.path.lexists(path) or signing.problem(environment) is not None:
        return None
    try:
        if files.read_object(path, limit=_LIMIT).get("values") == [] or load(environment):
            return None
    except (OSError, ValueError):
        pass
    return f"'{path}' was not written by git-agentos, or with another key: nothing in it counts"


def note(changes: Mapping[Setting, Known | None], environment: Mapping[str, str]) -> None:
    """Note what is stricter now. Errors are ignored: nothing that was decided depends on it."""
    with contextlib.suppress(OSError, AgentosError):
        if changes and signing.key(environment, make=False) is not None:
            _change(changes, environment, wait=False)


def confirm(pending: Sequence[tuple[Setting, str | None]], environment: Mapping[str, str], *, by: str) -> None:
    """Let pending values count from now on. GuardError if the record cannot be signed."""

    if signing.key(environment) is None:
        raise GuardError(
            "the key that settings are confirmed with cannot be read or made",
            "it is 'git-agentos/key' in your configuration folder; git agentos doctor --fix replaces a damaged one",
        )
    at = times.now_text()
    _change({setting: _confirmed(setting, value, by, at) for setting, value in pending}, environment, wait=True)


def confirmed(known: Record, place: Place) -> list[Unconfirmed]:
    """What a person has confirmed of the settings that are read here."""
    return [
        Unconfirmed(strictness.name(setting.key), " ".join(each.values), setting.source)
        for setting, each in known.items()
        if each.by is not None and each.values and (setting.scope == "system" or _is_read(setting, place))
    ]


def _confirmed(setting: Setting, value: str | None, by: str, at: str) -> Known | None:
    if value is None:
        return None
    values = strictness.patterns([value]) if setting.key == strictness.PROTECTED else [value]
    return Known(tuple(values), by, at)


def _change(changes: Mapping[Setting, Known | None], environment: Mapping[str, str], *, wait: bool) -> None:
    import json

    from git_agentos.util import locks

    folder = signing.folder(environment)
    with locks.hold(os.path.join(folder, f"{_NAME}.turn"), wait=wait):
        known = {**load(environment), **changes}
        values = [
            {**setting._asdict(), **each._asdict()}
            for setting, each in sorted(known.items())
            if each is not None and (not setting.repository or os.path.isdir(setting.repository))
        ]
        key = signing.key(environment, make=False)
        document = signing.sign_document(_KIND, _NAME, {"values": values}, key)
        files.replace(os.path.join(folder, FILE), json.dumps(document).encode("ascii"), mode=0o600)


def _read(document: Mapping[str, Any]) -> dict[Setting, Known]:
    found = {}
    for each in document["values"] if isinstance(document.get("values"), list) else ():
        with contextlib.suppress(KeyError, TypeError):
            setting = Setting(*(str(each[name]) for name in Setting._fields))
            found[setting] = Known(tuple(str(value) for value in each["values"]), each["by"], each["at"])
    return {setting: each for setting, each in found.items() if setting.scope in _SCOPES}
