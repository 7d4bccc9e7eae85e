"""Putting our hooks into a harness's settings, and taking them out again.

What is in the file stays where it is: our entries are added behind those of others, and only ours are taken away. What
the file was before is kept in the user's configuration folder (`<folder>/integrations/`), so that one that nobody has
edited since comes back byte for byte, and one that was not there goes.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from git_agentos.errors import GuardError
from git_agentos.guard import harness, signing
from git_agentos.guard.harness import opencode
from git_agentos.guard.setup import place
from git_agentos.guard.shell import syntax
from git_agentos.util import files

_MARK = harness.MARK.decode()
# What a file was before we wrote to it (None: not there), and the sum of what it was after.
Kept = tuple[bytes | None, str | None]


@dataclass(frozen=True)
class Integrated:
    """What was done; the fields are the keys of JSON kind `guard-integrate`.

    `path` is the settings' file; `integrated` tells whether our hooks are in it now, `changed` whether it was written;
    `note` is what the user has to do for the harness to notice; `settings` what has to be in the file, where that was
    asked for (`--print`), else None.
    """

    harness: str
    path: str
    integrated: bool
    changed: bool
    note: str
    settings: str | None = None


def wanted(name: str) -> str:
    """What has to be in the settings, as a text of its own."""
    module = harness.module(name)
    if module is opencode:
        return opencode.plugin(_command(name))
    return _dumped(module.settings(_command(name), _closed(name)), 2).decode()


def printed(name: str, root: str, *, user: bool = False) -> Integrated:
    """What has to be in the settings below `root`, and whether our hooks are in there."""
    module = harness.module(name)
    path = os.path.join(root, module.USER if user else module.PROJECT)
    return Integrated(name, path, harness.asks(path), False, module.NOTE, wanted(name))


def add(name: str, root: str, environment: Mapping[str, str], *, user: bool = False) -> Integrated:
    """Put our hooks into the settings below `root` (a worktree, or with `user` the home folder).

    GuardError where the file is not understood, or where shell text could not be read: it is left as it is.
    """
    if syntax.program() is None:  # every command would be denied
        raise syntax.missing()
    module = harness.module(name)
    path = os.path.join(root, module.USER if user else module.PROJECT)
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
    if after == before:
        return Integrated(name, path, True, False, module.NOTE)
    kept = _kept(path, environment)
    if kept is None or kept[1] != _sum(before):
        # What is kept is without any hooks of ours: those of an earlier installation would come back else.
        _keep(path, _without_ours(name, path, before, kept), after, environment)
    else:
        _keep(path, kept[0], after, environment)  # ours is renewed: what was there before it is still that
    _write(path, after)
    return Integrated(name, path, True, True, module.NOTE)


def remove(name: str, root: str, environment: Mapping[str, str], *, user: bool = False) -> Integrated:
    """Take our hooks out of the settings below `root`."""
    module = harness.module(name)
    path = os.path.join(root, module.USER if user else module.PROJECT)
    before = _content(path)
    kept = _kept(path, environment)
    if before is None or (not _is_ours(before)):
        _forget(path, environment)
        return Integrated(name, path, False, False, module.NOTE)
    if kept is not None and kept[1] == _sum(before) and not _is_ours(kept[0] or b""):
        after = kept[0]
    else:
        after = _without_ours(name, path, before, kept)
    if after is None:
        os.unlink(path)
        _leave_empty_folder(path, root)
    else:
        _write(path, after)
    _forget(path, environment)
    return Integrated(name, path, False, True, module.NOTE)


def _without_ours(name: str, path: str, data: bytes | None, kept: Kept | None) -> bytes | None:
    """What is in a file beside our hooks; None where it would not be there. `kept` is what is known of it."""
    if data is None or not _is_ours(data):
        return data
    if harness.module(name) is opencode:
        return None if kept is None or _is_ours(kept[0] or b"") else kept[0]
    rest = _without(_read(path, data))
    empty = not {key: value for key, value in rest.items() if key != "version" and value != {}}
    return None if empty and (kept is None or kept[0] is None) else _dumped(rest, _indent(data))


# -- the command -------------------------------------------------------------------------------------------------------


def _command(name: str) -> str:
    """How a harness starts us, for sh."""
    return f"{place.command()} {_MARK}{shlex.quote(name)}"


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


def _leave_empty_folder(path: str, root: str) -> None:
    """Remove the folders that were made for a file, as far as nothing else is in them."""
    folder = os.path.dirname(path)
    while folder.startswith(root + os.sep):
        try:
            os.rmdir(folder)
        except OSError:
            return
        folder = os.path.dirname(folder)


def _sum(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def _record(path: str, environment: Mapping[str, str]) -> str:
    name = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:24]
    return os.path.join(signing.folder(environment), "integrations", f"{name}.json")


def _kept(path: str, environment: Mapping[str, str]) -> Kept | None:
    """What the file was before we wrote to it; None where we did not, or the record of it is damaged."""
    try:
        found = json.loads(files.read(_record(path, environment)))
        before, after = found["before"], found["after"]
        if not isinstance(after, str | None):
            return None
        return (base64.b64decode(before) if before is not None else None), after
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _keep(path: str, before: bytes | None, after: bytes, environment: Mapping[str, str]) -> None:
    record = _record(path, environment)
    os.makedirs(os.path.dirname(record), mode=0o700, exist_ok=True)
    body = {
        "path": path,
        "before": base64.b64encode(before).decode() if before is not None else None,
        "after": _sum(after),
    }
    place.write(record, _dumped(body, 1), 0o600)


def _forget(path: str, environment: Mapping[str, str]) -> None:
    with contextlib.suppress(OSError):
        os.unlink(_record(path, environment))
