"""Our plugin package in the harnesses of a machine: whether each has it, and has it switched on in a worktree, as its
files say. Plugins have hooks of their own, beside those in settings.

Claude Code  `plugins/installed_plugins.json`, and `enabledPlugins` of its settings
Codex        `[plugins]` in `config.toml`; whether the hooks are trusted is not looked up
Gemini CLI   `extensions/git-agentos`, and the folders in `extensions/extension-enablement.json`; the last rule counts
Cursor       `plugins/local/git-agentos`
Copilot CLI  `enabledPlugins` of its settings; false is what is left of one that was removed
opencode     `plugin` (1.18) or `plugins` (2) of its configuration: a folder that has our hooks
"""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

from git_agentos.guard.harness import presence, settings_files
from git_agentos.guard.harness.requirements import json_of, object_in, toml_of
from git_agentos.util.named_tuple import NamedTuple

NAME = "git-agentos"
PROGRAM = "git-agentos"  # what a plugin's hooks start


class Plugin(NamedTuple):
    """Our plugin: where the harness has it (or where it is registered), and whether it is switched on in a worktree."""

    path: str
    is_on: bool


def installed(name: str, root: str, environment: Mapping[str, str]) -> Plugin | None:
    """The plugin of a harness, for the worktree at `root`; None where the harness does not have it."""
    return _FINDERS[name](presence.settings_folder(name, environment), root)


def _claude_code(folder: str, root: str) -> Plugin | None:
    listed = object_in(json_of(os.path.join(folder, "plugins", "installed_plugins.json")), "plugins")
    settings = [os.path.join(folder, "settings.json")]
    settings += [os.path.join(root, ".claude", each) for each in ("settings.json", "settings.local.json")]
    for key, entries in listed.items():
        if not _is_ours(key) or not isinstance(entries, list):
            continue
        for entry in entries:
            if isinstance(entry, dict) and entry.get("projectPath") in (None, root):
                said = [object_in(json_of(each), "enabledPlugins").get(key) for each in settings]
                is_on = next((each for each in reversed(said) if isinstance(each, bool)), False)
                return Plugin(str(entry.get("installPath", settings[0])), is_on)
    return None


def _codex(folder: str, root: str) -> Plugin | None:  # noqa: ARG001 (one form for all)
    path = os.path.join(folder, "config.toml")
    for key, entry in object_in(toml_of(path), "plugins").items():
        if _is_ours(key):
            return Plugin(path, isinstance(entry, dict) and entry.get("enabled") is not False)
    return None


def _gemini(folder: str, root: str) -> Plugin | None:
    path = os.path.join(folder, "extensions", NAME)
    if not os.path.isdir(path):
        return None
    rules = object_in(json_of(os.path.join(folder, "extensions", "extension-enablement.json")), NAME).get("overrides")
    is_on = True
    for rule in rules if isinstance(rules, list) else ():
        if isinstance(rule, str) and _covers(rule.removeprefix("!"), root):
            is_on = not rule.startswith("!")
    return Plugin(path, is_on)


def _covers(pattern: str, root: str) -> bool:
    """Whether a folder's path is `pattern`, or below it where that ends with `*`."""
    if pattern.endswith("*"):
        return f"{root}/".startswith(pattern[:-1])
    return root == pattern.rstrip("/")


def _cursor(folder: str, root: str) -> Plugin | None:  # noqa: ARG001 (one form for all)
    path = os.path.join(folder, "plugins", "local", NAME)
    return Plugin(path, True) if os.path.isdir(path) else None


def _copilot(folder: str, root: str) -> Plugin | None:  # noqa: ARG001 (one form for all)
    path = os.path.join(folder, "settings.json")
    for key, is_on in object_in(json_of(path), "enabledPlugins").items():
        if _is_ours(key) and is_on is True:
            return Plugin(path, True)
    return None


def _opencode(folder: str, root: str) -> Plugin | None:
    for place in (folder, root, os.path.join(root, ".opencode")):
        for name in ("opencode.json", "opencode.jsonc"):
            configuration = json_of(os.path.join(place, name))
            for entry in (*_texts(configuration.get("plugin")), *_texts(configuration.get("plugins"))):
                path = urllib.parse.unquote(entry.removeprefix("file://")).rstrip("/")
                if entry.startswith("file://") and settings_files.has_hooks(os.path.join(path, "hooks.js")):
                    return Plugin(path, True)
    return None


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _is_ours(key: str) -> bool:
    """Whether `key`, a plugin and its marketplace (`NAME@MARKETPLACE`), is ours."""
    return key.partition("@")[0] == NAME


_FINDERS: Mapping[str, Callable[[str, str], Plugin | None]] = {
    "claude-code": _claude_code,
    "codex": _codex,
    "gemini": _gemini,
    "cursor": _cursor,
    "copilot": _copilot,
    "opencode": _opencode,
}
