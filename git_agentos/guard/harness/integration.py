"""Putting our hooks into a harness's settings, and taking them out again.

What is in the file stays where it is: our entries are added behind those of others, and only ours are taken away. What
the file was before is recorded (`backup`), so that one that nobody has edited since comes back byte for byte, and one
that was not there goes. In a worktree git ignores what we wrote (`exclude`).
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from git_agentos.errors import AgentosError, GuardError
from git_agentos.git import gitfile
from git_agentos.git.location import Location, locate
from git_agentos.guard import harness
from git_agentos.guard.harness import backup, exclude, opencode, requirements
from git_agentos.guard.harness.backup import Backup
from git_agentos.guard.setup import scripts
from git_agentos.guard.shell import syntax
from git_agentos.util import files

_MARK = harness.MARK.decode()


@dataclass(frozen=True)
class Integrated:
    """What was done; the fields are the keys of JSON kind `guard-integrate`.

    `path` is the settings' file; `integrated` tells whether our hooks are in it now, `changed` whether it was written;
    `note` is what the user has to do for the harness to notice; `settings` what has to be in the file, where that was
    asked for (`--print`), else None. `needs` is what keeps the harness from reading it as things are now.
    """

    harness: str
    path: str
    integrated: bool
    changed: bool
    note: str
    settings: str | None = None
    needs: list[str] = field(default_factory=list)


def wanted(name: str) -> str:
    """What has to be in the settings, as a text of its own."""
    module = harness.module(name)
    if module is opencode:
        return opencode.plugin(_command(name))
    return _dumped(module.settings(_command(name), _closed(name)), 2).decode()


def printed(name: str, root: str, environment: Mapping[str, str], *, user: bool = False) -> Integrated:
    """What has to be in the settings below `root`, and whether our hooks are in there."""
    path = harness.settings_paths(name, root, user=user)[0]
    needs = requirements.needs(name, root, path, environment)
    return Integrated(name, path, harness.asks(path), False, harness.module(name).NOTE, wanted(name), needs)


def add(name: str, root: str, environment: Mapping[str, str], *, user: bool = False) -> Integrated:
    """Put our hooks into the settings below `root` (a worktree, or with `user` the home folder).

    GuardError where the file is not understood, or where shell text could not be read: it is left as it is.
    """
    if syntax.program() is None:  # every command would be denied
        raise syntax.missing()
    paths = harness.settings_paths(name, root, user=user)
    changed = [_install(name, each, root, environment) for each in paths]
    if not user:
        for each in paths:
            if (location := _location(each)) is not None:
                exclude.add(location, each, root, environment)
    needs = requirements.needs(name, root, paths[0], environment)
    return Integrated(name, paths[0], True, any(changed), harness.module(name).NOTE, None, needs)


def remove(name: str, root: str, environment: Mapping[str, str], *, user: bool = False) -> Integrated:
    """Take our hooks out of the settings below `root`."""
    paths = harness.settings_paths(name, root, user=user)
    locations = [None if user else _location(each) for each in paths]
    changed = [_uninstall(name, each, root, environment) for each in paths]
    for each, location in zip(paths, locations, strict=True):
        if location is not None:
            exclude.remove(location, each, root, environment)
    return Integrated(name, paths[0], False, any(changed), harness.module(name).NOTE)


def missing(root: str, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The harnesses that were integrated in the worktree at `root` and do not ask there any more, and the file that
    lacks our hooks."""
    if not os.path.isdir(backup.folder(environment)):
        return
    for name in harness.NAMES:
        for path in harness.settings_paths(name, root):
            known = backup.load(path, environment)
            is_users = known is not None and known.harness == name and root in known.users
            if is_users and not harness.asks(path) and backup.is_of_this_worktree(path, root, environment):
                yield name, path
                break


def put_back(root: str, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Write the settings again that somebody has removed since (`git clean`, `git stash --all`); which these were.

    A file that is there without our hooks is left: somebody may have edited it on purpose, and `doctor` tells it.
    """
    for name, path in list(missing(root, environment)):
        if not os.path.lexists(path):
            add(name, root, environment)
            yield name, path


def _location(path: str) -> Location | None:
    """The worktree that a settings file is in; None outside of one."""
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    if gitfile.find(folder) is None:
        return None
    try:
        return locate(folder, use_environment=False)
    except AgentosError:
        return None


def _install(name: str, path: str, root: str, environment: Mapping[str, str]) -> bool:
    """Put our hooks into one file for the worktree at `root`; whether it was written."""
    module = harness.module(name)
    before = _content(path)
    if module is opencode:
        after = wanted(name).encode()
        if before not in (None, after) and not _is_ours(before or b""):
            raise GuardError(
                f"'{path}' is there, and is not ours", "move it away; 'guard integrate --print' prints ours"
            )
    else:
        known = _read(path, before)
        merged = _merged(_without(known), module.settings(_command(name), _closed(name)))
        after = before if merged == known and before is not None else _dumped(merged, _indent(before))
    known_backup = backup.load(path, environment)
    users = tuple(dict.fromkeys((*(known_backup.users if known_backup is not None else ()), root)))
    if after != before:
        if known_backup is not None and known_backup.after == backup.digest(before):
            original = known_backup.before  # ours is renewed: what was there before it is still that
        else:
            # What is recorded is without any hooks of ours: those of an earlier installation would come back else.
            original = _without_ours(name, path, before, known_backup)
        backup.save(path, Backup(original, backup.digest(after), name, users), environment)
        _write(path, after)
    elif known_backup is None or known_backup.users != users or known_backup.harness != name:
        original = known_backup.before if known_backup is not None else _without_ours(name, path, before, None)
        digest = known_backup.after if known_backup is not None else None
        backup.save(path, Backup(original, digest, name, users), environment)
    return after != before


def _uninstall(name: str, path: str, root: str, environment: Mapping[str, str]) -> bool:
    """Take our hooks out of one file, unless another worktree needs them; whether it was written."""
    before = _content(path)
    known = backup.load(path, environment)
    others = tuple(each for each in known.users if each != root and os.path.isdir(each)) if known is not None else ()
    if known is not None and others:
        backup.save(path, known._replace(users=others), environment)
        return False
    if before is None or not _is_ours(before):
        backup.drop(path, environment)
        return False
    if known is not None and known.after == backup.digest(before) and not _is_ours(known.before or b""):
        after = known.before
    else:
        after = _without_ours(name, path, before, known)
    if after is None:
        os.unlink(path)
        _remove_empty_folders(path, harness.top_of(name, path))
    else:
        _write(path, after)
    backup.drop(path, environment)
    return True


def _without_ours(name: str, path: str, data: bytes | None, known: Backup | None) -> bytes | None:
    """What is in a file beside our hooks; None where it would not be there. `known` is its record."""
    if data is None or not _is_ours(data):
        return data
    if harness.module(name) is opencode:
        return None if known is None or _is_ours(known.before or b"") else known.before
    rest = _without(_read(path, data))
    empty = not {key: value for key, value in rest.items() if key != "version" and value != {}}
    return None if empty and (known is None or known.before is None) else _dumped(rest, _indent(data))


# -- the command -------------------------------------------------------------------------------------------------------


def _command(name: str) -> str:
    """How a harness starts us, for sh."""
    return f"{scripts.command()} {_MARK}{shlex.quote(name)}"


def _closed(name: str) -> str:
    """The same, blocking where we cannot be started: to every harness, exit code 2 means that."""
    return f"{_command(name)} || {{ echo 'git-agentos could not decide: the hook failed' >&2; exit 2; }}"


# -- settings ----------------------------------------------------------------------------------------------------------


def _read(path: str, data: bytes | None) -> dict[str, Any]:
    if data is None or not data.strip():
        return {}
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise GuardError(
            f"'{path}' is not JSON: {error}",
            "it was not changed; 'guard integrate --print' prints what has to be in it",
        ) from error
    hooks = found.get("hooks", {}) if isinstance(found, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(entries, list) for entries in hooks.values()):
        raise GuardError(
            f"'{path}' has hooks in a form that is not known here",
            "it was not changed; 'guard integrate --print' prints what has to be in it",
        )
    return dict(found)


def _merged(known: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(known)
    for key, value in ours.items():
        if key != "hooks":
            made.setdefault(key, value)
    hooks = dict(known.get("hooks", {}))
    for event, entries in ours["hooks"].items():
        hooks[event] = [*hooks.get(event, []), *entries]
    made["hooks"] = hooks
    return made


def _without(known: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without our entries, and without what is empty since they are gone."""
    hooks = {}
    for event, entries in known.get("hooks", {}).items():
        rest = [left for entry in entries for left in _others(entry)]
        if rest or not entries:
            hooks[event] = rest
    made = dict(known)
    if hooks or not known.get("hooks"):
        if "hooks" in known:
            made["hooks"] = hooks
    else:
        del made["hooks"]
    return made


def _others(entry: Any) -> list[Any]:
    """An entry, if anything of it is not ours."""
    if not isinstance(entry, dict):
        return [entry]
    if any(isinstance(entry.get(key), str) and _MARK in entry[key] for key in ("command", "bash")):
        return []
    inner = entry.get("hooks")
    if isinstance(inner, list):
        rest = [left for each in inner for left in _others(each)]
        if not rest and inner:
            return []
        return [{**entry, "hooks": rest}]
    return [entry]


def _is_ours(data: bytes) -> bool:
    return _MARK.encode() in data


def _indent(data: bytes | None) -> int | str:
    """The indentation that a file has; two blanks where there is none."""
    for line in (data or b"").decode("utf-8", "replace").splitlines():
        rest = line.lstrip(" \t")
        if rest and rest != line:
            blank = line[: len(line) - len(rest)]
            return "\t" if blank.startswith("\t") else len(blank)
    return 2


def _dumped(body: Mapping[str, Any], indent: int | str) -> bytes:
    return (json.dumps(body, indent=indent, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")


# -- files -------------------------------------------------------------------------------------------------------------


def _content(path: str) -> bytes | None:
    """The bytes of a settings' file, also by a link; GuardError where it is no file."""
    try:
        return files.read(os.path.realpath(path))
    except FileNotFoundError:
        return None
    except (files.NotRegularError, files.TooLargeError) as error:
        raise GuardError(f"'{path}' is {error.strerror}", "move it away; it was not changed") from None


def _write(path: str, data: bytes) -> None:
    """Replace the file; a link stays one, and what it leads to is replaced."""
    real = os.path.realpath(path)
    os.makedirs(os.path.dirname(real), exist_ok=True)
    files.replace(real, data)


def _remove_empty_folders(path: str, top: str) -> None:
    """Remove the folders that were made for a file, as far as nothing else is in them."""
    folder = os.path.dirname(path)
    while folder.startswith(top + os.sep):
        try:
            os.rmdir(folder)
        except OSError:
            return
        folder = os.path.dirname(folder)
