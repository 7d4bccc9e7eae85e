"""Hooks of ours that a harness is told to trust.

Codex runs a hook only if its hash is in the user's `config.toml`, where '/hooks' in Codex puts it:

    [hooks.state."<path of the hooks.json>:<event>:<group>:<hook>"]
    trusted_hash = "sha256:…"

Ours are a block at the end of that file. Its backup (`backup`) lists the `hooks.json` of each repository whose hooks
are in there; with the last one, the file becomes what it was, to the byte. What TOML reads in the file is compared
before it is replaced: all that others have set stays.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from git_agentos.errors import GuardError
from git_agentos.guard.harness import backup, integration, own_block, presence, requirements, settings_files
from git_agentos.guard.harness.backup import Backup
from git_agentos.guard.harness.own_block import OwnBlock
from git_agentos.util.named_tuple import NamedTuple

_CODEX = "codex"
_BLOCK = OwnBlock(b"# git-agentos: hooks of git-agentos that 'git agentos init' has trusted\n", b"# git-agentos: end\n")
_WHY = "codex runs only hooks that are trusted there by their hash"


class Offer(NamedTuple):
    """What can be done so that a harness trusts our hooks: the file that is written, outside of the repository, and
    why."""

    path: str
    why: str


def path_of(environment: Mapping[str, str]) -> str:
    """The file."""
    return os.path.join(presence.settings_folder(_CODEX, environment), "config.toml")


def offer(name: str, root: str, environment: Mapping[str, str], *, planned: bool = False) -> Offer | None:
    """What would have harness `name` trust our hooks in the worktree at `root`; None where it need not be told, or is
    not set up. With `planned`, our hooks need not be in its settings yet. GuardError where it cannot be done."""
    if name != _CODEX or not os.path.isdir(presence.settings_folder(name, environment)):
        return None
    path, now, hooks = path_of(environment), _content(environment), _hooks_file(root)
    known = _states(_parse(now))
    missing = {key: digest for key, digest in requirements.codex_hooks(hooks) if _state_hash(known, key) != digest}
    if planned and not settings_files.has_hooks(hooks):
        missing = {f"{hooks}:": ""}
    if not missing:
        return None
    others = _BLOCK.without(now)
    _check(path, others, missing, _with_block(others, missing))
    return Offer(path, _WHY)


def give(name: str, root: str, environment: Mapping[str, str]) -> None:
    """Have harness `name` trust our hooks in the worktree at `root`. GuardError where its file cannot be extended; it
    is left as it is then."""
    if name == _CODEX:
        users = _users(environment)
        hooks = _hooks_file(root)
        _write([*(each for each in users if each != hooks), hooks], environment)


def take_back(name: str, root: str, environment: Mapping[str, str]) -> None:
    """Undo `give`."""
    if is_given(name, root, environment):
        _write([each for each in _users(environment) if each != _hooks_file(root)], environment)


def is_given(name: str, root: str, environment: Mapping[str, str]) -> bool:
    """Whether `give` was called for the worktree at `root`."""
    return name == _CODEX and _hooks_file(root) in _users(environment)


def is_edited(environment: Mapping[str, str]) -> bool:
    """Whether somebody has edited the file since we wrote it: then only our block is removed from it."""
    saved = backup.load(path_of(environment), environment)
    return saved is not None and not _BLOCK.is_unedited(saved, _content(environment))


def _hooks_file(root: str) -> str:
    """The `hooks.json` that Codex reads in a worktree."""
    return settings_files.paths(_CODEX, root)[0]


def _users(environment: Mapping[str, str]) -> list[str]:
    saved = backup.load(path_of(environment), environment)
    return list(saved.users) if saved is not None else []


def _write(users: Sequence[str], environment: Mapping[str, str]) -> None:
    """Replace our block by one for the hooks of `users`."""
    path = path_of(environment)
    before = _content(environment)
    saved = backup.load(path, environment)
    original = _BLOCK.original(saved, before)
    if not original and saved is not None and saved.before is None:
        original = None  # there was no file
    others = _states(_parse(original))
    ours = {
        key: digest
        for each in users
        for key, digest in requirements.codex_hooks(each)
        if _state_hash(others, key) != digest
    }
    after = _with_block(original, ours)
    _check(path, original, ours, after)
    kept = Backup(original, users=tuple(users)) if users else None
    own_block.write(path, before, after, kept, environment)


def _with_block(original: bytes | None, ours: Mapping[str, str]) -> bytes | None:
    if not ours:
        return original
    tables = "".join(f"[hooks.state.{_quoted(key)}]\ntrusted_hash = {_quoted(ours[key])}\n" for key in ours)
    return _BLOCK.append(original, tables.encode())


def _check(path: str, original: bytes | None, ours: Mapping[str, str], after: bytes | None) -> None:
    """GuardError unless what TOML reads in the file is what it was, and our hashes."""
    wanted = _parse(original)
    if ours:
        hooks = wanted.setdefault("hooks", {})
        states = hooks.setdefault("state", {}) if isinstance(hooks, dict) else None
        if not isinstance(states, dict) or not states.keys().isdisjoint(ours):
            raise _not_changed(path)
        states.update({key: {"trusted_hash": digest} for key, digest in ours.items()})
    try:
        found = tomllib.loads((after or b"").decode("utf-8"))
    except ValueError:
        raise _not_changed(path) from None
    if found != wanted:
        raise _not_changed(path)


def _not_changed(path: str) -> GuardError:
    return GuardError(f"our hooks cannot be added to those that '{path}' trusts", "trust them with '/hooks' in codex")


def _content(environment: Mapping[str, str]) -> bytes | None:
    return integration.content(path_of(environment))


def _parse(data: bytes | None) -> dict[str, Any]:
    """What is in the file; GuardError where that cannot be read."""
    try:
        return tomllib.loads((data or b"").decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise GuardError(f"codex's 'config.toml' is not TOML: {error}", "it was not changed") from None


def _states(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    hooks = settings.get("hooks")
    states = hooks.get("state") if isinstance(hooks, dict) else None
    return states if isinstance(states, dict) else {}


def _state_hash(states: Mapping[str, Any], key: str) -> object:
    state = states.get(key)
    return state.get("trusted_hash") if isinstance(state, dict) else None


def _quoted(text: str) -> str:
    """A string of TOML. JSON's escapes are TOML's as well, but for those of characters above U+FFFF."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
