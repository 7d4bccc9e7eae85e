"""The files that make a harness call our hook: hooks, plugins, and settings that switch hooks off.

One word in them (`disableAllHooks`), or an empty file in their place, switches the guard off. So an agent may not
write, move or remove them, whatever the new content is.
"""

from __future__ import annotations

import os

_MARK = b"guard harness"
# Below a worktree or a home folder, in lower case, since some file systems ignore case.
_FILES = (
    ".claude/settings.json", ".claude/settings.local.json", ".claude/managed-settings.json", ".claude.json",
    ".codex/hooks.json", ".codex/config.toml", ".gemini/settings.json", ".cursor/hooks.json", ".copilot/config.json",
    ".copilot/settings.json", ".github/copilot/settings.json", ".github/copilot/settings.local.json",
    ".opencode/opencode.json", ".opencode/opencode.jsonc", "opencode.json", "opencode.jsonc",
    ".config/opencode/opencode.json", ".config/opencode/opencode.jsonc", ".config/opencode/config.json",
)  # fmt: skip
_FOLDERS = (
    ".claude/hooks", ".codex/hooks", ".gemini/hooks", ".cursor/hooks", ".github/hooks", ".copilot/hooks",
    ".opencode/plugin", ".opencode/plugins", ".config/opencode/plugin", ".config/opencode/plugins",
)  # fmt: skip


def is_protected(path: str) -> bool:
    """Whether a file (absolute) is one of them."""
    return any(_has_protected_name(each) for each in {os.path.normpath(path), os.path.realpath(path)}) or (
        _has_our_hook(path)
    )


def contains_protected(folder: str) -> bool:
    """Whether a folder is or contains one of them: to remove the folder removes the file."""
    if is_protected(folder):
        return True
    names = [each.split("/") for each in (*_FILES, *_FOLDERS)]
    last = os.path.basename(os.path.normpath(folder)).lower()
    for parts in names:
        tails = [parts[n + 1 :] for n, part in enumerate(parts) if part == last] + [parts]
        if any(tail and os.path.lexists(os.path.join(folder, *tail)) for tail in tails):
            return True
    return False


def _has_protected_name(path: str) -> bool:
    parts = "/" + path.replace(os.sep, "/").lower().strip("/")
    return parts.endswith(tuple(f"/{name}" for name in _FILES)) or any(f"/{name}/" in f"{parts}/" for name in _FOLDERS)


def _has_our_hook(path: str) -> bool:
    """Whether a file has our hook in it, wherever the file is."""
    if not path.endswith((".json", ".js")) or not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return _MARK in file.read(1 << 20)
    except OSError:
        return False
