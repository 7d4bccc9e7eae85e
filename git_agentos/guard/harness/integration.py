"""Our hooks in a harness's settings: added, removed, and looked for.

Entries of git-agentos are added behind those of others, and only ours are removed. The content before is backed up
(`backup`): a file that nobody has edited since becomes what it was, byte for byte, and one that did not exist is
removed. git ignores what we write in a worktree (`exclude`).
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from git_agentos.errors import AgentosError, GuardError
from git_agentos.git import gitfile
from git_agentos.git.location import Location, locate
from git_agentos.guard.harness import adapters, backup, exclude, requirements, settings_files
from git_agentos.guard.harness.adapters import HARNESSES
from git_agentos.guard.harness.backup import Backup
from git_agentos.guard.harness.row import Harness
from git_agentos.guard.setup import launcher
from git_agentos.guard.shell import syntax
from git_agentos.util import files

_MARK = settings_files.MARK.decode()
_COMMAND_LINE = b"const COMMAND = "
_PRINT = "'guard integrate --print' prints what has to be in it"


@dataclass(frozen=True)
class Integration:
    """How a harness's settings are after `guard integrate`; the fields are the keys of JSON kind `guard-integrate`.

    `path` is the settings file; `integrated` tells whether our hooks are in it now, `changed` whether it was written;
    `note` is what the user has to do so that the harness reads it; `settings` what has to be in the file, for
    `--print`, else None. `needs` is what keeps the harness from reading it as things are now.
    """

    harness: str
    path: str
    integrated: bool
    changed: bool
    note: str
    settings: str | None = None
    needs: list[str] = field(default_factory=list)


def settings_text(name: str, command: str | None = None) -> str:
    """What has to be in the settings of a harness, as the content of a file. `command` answers its hook: by default the
    one of this installation."""
    harness = adapters.get(name)
    command = _command(name) if command is None else command
    if harness.settings is None:
        return _plugin(harness, command)
    return _to_json(harness.settings(command, _blocking(command)), 2).decode()


def preview(name: str, root: str, environment: Mapping[str, str], *, user: bool = False) -> Integration:
    """What has to be in the settings below `root`, and whether our hooks are in there."""
    path = settings_files.paths(name, root, user=user)[0]
    needs = requirements.unmet(name, root, path, environment)
    has_hooks = settings_files.has_hooks(path)
    return Integration(name, path, has_hooks, False, adapters.get(name).note, settings_text(name), needs)


def add(name: str, root: str, environment: Mapping[str, str], *, user: bool = False) -> Integration:
    """Add our hooks to the settings below `root` (a worktree, or with `user` the home folder).

    GuardError where the file has an unknown form, which leaves it as it is, or where shell text could not be read.
    """
    if syntax.program() is None:  # every command would be denied
        raise syntax.missing()
    paths = settings_files.paths(name, root, user=user)
    changed = [_install(name, path, root, environment) for path in paths]
    if not user:
        for path in paths:
            if (location := _location(path)) is not None:
                exclude.add(location, path, root, environment)
    needs = requirements.unmet(name, root, paths[0], environment)
    return Integration(name, paths[0], True, any(changed), adapters.get(name).note, None, needs)


def remove(name: str, root: str, environment: Mapping[str, str], *, user: bool = False) -> Integration:
    """Remove our hooks from the settings below `root`."""
    paths = settings_files.paths(name, root, user=user)
    locations = [None if user else _location(path) for path in paths]
    changed = [_uninstall(name, path, root, environment) for path in paths]
    for path, location in zip(paths, locations, strict=True):
        if location is not None:
            exclude.remove(location, path, root, environment)
    return Integration(name, paths[0], False, any(changed), adapters.get(name).note)


def require_inside(name: str, root: str) -> None:
    """GuardError where a settings file leads out of its worktree, by a link that a commit may have brought: nobody has
    asked for what is there to be written."""
    path = settings_files.leading_out(name, root)
    if path is not None:
        hint = f"remove the link, or git agentos guard integrate {name}, which follows it"
        raise GuardError(f"'{path}' leads out of the worktree", hint)


def to_write(name: str, root: str) -> list[str]:
    """The settings files that `add` would write in the worktree at `root`. GuardError as there."""
    if syntax.program() is None:
        raise syntax.missing()
    harness = adapters.get(name)
    contents = {path: content(path) for path in settings_files.paths(name, root)}
    return [path for path, before in contents.items() if _with_ours(harness, path, before) != before]


def to_remove(name: str, roots: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The settings files from which `remove`, called for all these worktrees, would remove our hooks."""
    found = []
    for path in dict.fromkeys(path for root in roots for path in settings_files.paths(name, root)):
        saved = backup.load(path, environment)
        users = saved.users if saved is not None else ()
        if settings_files.has_hooks(path) and not any(each not in roots and os.path.isdir(each) for each in users):
            found.append(path)
    return found


def is_edited(path: str, environment: Mapping[str, str]) -> bool:
    """Whether somebody has edited a settings file since we wrote it: then only our hooks are removed from it."""
    saved = backup.load(path, environment)
    return saved is None or (saved.after is not None and saved.after != backup.digest(content(path)))


def missing(root: str, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The harnesses that were integrated in the worktree at `root` and lack our hooks now, each with the file that
    lacks them."""
    if not os.path.isdir(backup.folder(environment)):
        return
    for name in HARNESSES:
        for path in settings_files.paths(name, root):
            saved = backup.load(path, environment)
            is_needed = saved is not None and saved.harness == name and root in saved.users
            if (
                is_needed
                and not settings_files.has_hooks(path)
                and backup.is_younger_than_worktree(path, root, environment)
            ):
                yield name, path
                break


def lacking(name: str, path: str) -> list[str]:
    """The events for which a settings file with our hooks has none, though `add` would write one: those of an earlier
    version of git-agentos. Of a plugin, its file where it is not as `add` would write it."""
    harness, data = adapters.get(name), content(path) or b""
    if not _is_ours(data):
        return []
    if harness.settings is None:
        ours = _plugin(harness, "").encode().splitlines()
        is_same = [line for line in data.splitlines() if not line.startswith(_COMMAND_LINE)] == [
            line for line in ours if not line.startswith(_COMMAND_LINE)
        ]
        return [] if is_same else [os.path.basename(path)]
    hooks = _parse(path, data).get("hooks", {})
    return [event for event in harness.settings("", "")["hooks"] if not _has_ours(hooks.get(event, []))]


def _has_ours(entries: Sequence[Any]) -> bool:
    return any(_others(entry) != [entry] for entry in entries)


def _location(path: str) -> Location | None:
    """The worktree that a settings file is in; None where it is in none."""
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
    """Add our hooks to one file for the worktree at `root`; whether it was written."""
    before = content(path)
    after = _with_ours(adapters.get(name), path, before)
    saved = backup.load(path, environment)
    users = tuple(dict.fromkeys((*(saved.users if saved is not None else ()), root)))
    if after != before:
        if saved is not None and saved.after == backup.digest(before):
            original = saved.before  # our hooks are updated: the content before them is the same
        else:
            # The backup has no hooks of git-agentos: else a later removal would restore those of an earlier
            # installation.
            original = _without_ours(name, path, before, saved)
        backup.save(path, Backup(original, backup.digest(after), name, users), environment)
        _write(path, after)
    elif saved is None or saved.users != users or saved.harness != name:
        original = saved.before if saved is not None else _without_ours(name, path, before, None)
        digest = saved.after if saved is not None else None
        backup.save(path, Backup(original, digest, name, users), environment)
    return after != before


def _uninstall(name: str, path: str, root: str, environment: Mapping[str, str]) -> bool:
    """Remove our hooks from one file, unless another worktree needs them; whether it was written."""
    before = content(path)
    saved = backup.load(path, environment)
    others = tuple(each for each in saved.users if each != root and os.path.isdir(each)) if saved is not None else ()
    if saved is not None and others:
        backup.save(path, saved._replace(users=others), environment)
        return False
    if before is None or not _is_ours(before):
        if before is None and saved is not None and saved.before is None:
            _remove_empty_folders(path, settings_files.folder_of(name, path))  # of an addition that was killed
        backup.drop(path, environment)
        return False
    if saved is not None and saved.after == backup.digest(before) and not _is_ours(saved.before or b""):
        after = saved.before
    else:
        after = _without_ours(name, path, before, saved)
    if after is None:
        os.unlink(path)
        _remove_empty_folders(path, settings_files.folder_of(name, path))
    else:
        _write(path, after)
    backup.drop(path, environment)
    return True


def _with_ours(harness: Harness, path: str, before: bytes | None) -> bytes:
    """The content of a file with our hooks."""
    if harness.settings is None:
        after = _plugin(harness, _command(harness.name)).encode()
        if before not in (None, after) and not _is_ours(before or b""):
            raise GuardError(f"'{path}' exists, and is not ours", "move it away; 'guard integrate --print' prints ours")
        return after
    present = _parse(path, before)
    command = _command(harness.name)
    ours = harness.settings(command, _blocking(command))
    merged = _merge(_remove_ours(present), ours)
    return before if before is not None and merged == present else _to_json(merged, _indent(before))


def _without_ours(name: str, path: str, data: bytes | None, saved: Backup | None) -> bytes | None:
    """The content of a file without our hooks; None where it would not exist. `saved` is its backup."""
    if data is None or not _is_ours(data):
        return data
    if adapters.get(name).settings is None:
        return None if saved is None or _is_ours(saved.before or b"") else saved.before
    rest = _remove_ours(_parse(path, data))
    is_empty = not {key: value for key, value in rest.items() if key != "version" and value != {}}
    return None if is_empty and (saved is None or saved.before is None) else _to_json(rest, _indent(data))


# -- the command -------------------------------------------------------------------------------------------------------


def _command(name: str) -> str:
    """The command of a hook, for sh."""
    return f"{launcher.command()} {_MARK}{shlex.quote(name)}"


def _blocking(command: str) -> str:
    """The same, but it blocks where our program cannot be started: to every harness, exit code 2 means that."""
    return f"{command} || {{ echo 'git-agentos could not decide: the hook failed' >&2; exit 2; }}"


def _plugin(harness: Harness, command: str) -> str:
    """The plugin of a harness that has plugins."""
    with open(os.path.join(os.path.dirname(__file__), harness.plugin), encoding="utf-8") as file:
        return file.read().replace("@COMMAND@", json.dumps(command))


# -- settings ----------------------------------------------------------------------------------------------------------


def _parse(path: str, data: bytes | None) -> dict[str, Any]:
    if data is None or not data.strip():
        return {}
    try:
        settings = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise GuardError(f"'{path}' is not JSON: {error}", f"it was not changed; {_PRINT}") from error
    hooks = settings.get("hooks", {}) if isinstance(settings, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(entries, list) for entries in hooks.values()):
        raise GuardError(f"'{path}' has hooks in an unknown form", f"it was not changed; {_PRINT}")
    return dict(settings)


def _merge(settings: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(settings)
    for key, value in ours.items():
        if key != "hooks":
            merged.setdefault(key, value)
    hooks = dict(settings.get("hooks", {}))
    for event, entries in ours["hooks"].items():
        hooks[event] = [*hooks.get(event, []), *entries]
    merged["hooks"] = hooks
    return merged


def _remove_ours(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without our entries, and without what is empty when they are removed."""
    hooks = {}
    for event, entries in settings.get("hooks", {}).items():
        rest = [other for entry in entries for other in _others(entry)]
        if rest or not entries:
            hooks[event] = rest
    result = dict(settings)
    if hooks or not settings.get("hooks"):
        if "hooks" in settings:
            result["hooks"] = hooks
    else:
        del result["hooks"]
    return result


def _others(entry: Any) -> list[Any]:
    """What of an entry is not ours: the entry, a part of it, or nothing."""
    if not isinstance(entry, dict):
        return [entry]
    if any(isinstance(entry.get(key), str) and _MARK in entry[key] for key in ("command", "bash")):
        return []
    inner = entry.get("hooks")
    if isinstance(inner, list):
        rest = [other for each in inner for other in _others(each)]
        if not rest and inner:
            return []
        return [{**entry, "hooks": rest}]
    return [entry]


def _is_ours(data: bytes) -> bool:
    return settings_files.MARK in data


def _indent(data: bytes | None) -> int | str:
    """The indentation in a file; two spaces where there is none."""
    for line in (data or b"").decode("utf-8", "replace").splitlines():
        rest = line.lstrip(" \t")
        if rest and rest != line:
            blank = line[: len(line) - len(rest)]
            return "\t" if blank.startswith("\t") else len(blank)
    return 2


def _to_json(body: Mapping[str, Any], indent: int | str) -> bytes:
    return (json.dumps(body, indent=indent, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")


# -- files -------------------------------------------------------------------------------------------------------------


def content(path: str) -> bytes | None:
    """The bytes of a settings file, which may be a link; None where there is none, GuardError where it is not a
    file."""
    try:
        return files.read(os.path.realpath(path))
    except FileNotFoundError:
        return None
    except (files.NotRegularError, files.TooLargeError) as error:
        raise GuardError(f"'{path}' is {error.strerror}", "move it away; it was not changed") from None


def _write(path: str, data: bytes) -> None:
    """Replace the file; where it is a link, the file that the link leads to."""
    real = os.path.realpath(path)
    os.makedirs(os.path.dirname(real), exist_ok=True)
    files.replace(real, data)


def _remove_empty_folders(path: str, top: str) -> None:
    """Remove the empty folders between a removed file and `top`; some may be gone, of a removal that was killed."""
    folder = os.path.dirname(path)
    while folder.startswith(top + os.sep):
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            pass
        except OSError:
            return
        folder = os.path.dirname(folder)
