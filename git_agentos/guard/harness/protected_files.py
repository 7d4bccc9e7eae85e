"""The files by which a harness is told to ask the guard: hooks, plugins, and settings that switch hooks off.

Whoever writes to them, moves or removes them can have the harness ask nobody any more, in one word (`disableAllHooks`)
or by an empty file. So they are not an agent's to change, whatever is written.
"""

from __future__ import annotations

import os

_MARK = b"guard harness"
# Below a worktree or a home folder, in lower case: some file systems do not tell the difference.
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
    """Whether a file (absolute) is one that a harness is told by what it asks."""
    return any(_is_named_so(each) for each in {os.path.normpath(path), os.path.realpath(path)}) or _is_marked(path)


def contains_protected(folder: str) -> bool:
    """Whether there is such a file below a folder, or it is one itself: whoever removes the folder removes it."""
    if is_protected(folder):
        return True
    names = [each.split("/") for each in (*_FILES, *_FOLDERS)]
    last = os.path.basename(os.path.normpath(folder)).lower()
    for parts in names:
        tails = [parts[n + 1 :] for n, part in enumerate(parts) if part == last] + [parts]
        if any(tail and os.path.lexists(os.path.join(folder, *tail)) for tail in tails):
            return True
    return False


def _is_named_so(path: str) -> bool:
    parts = "/" + path.replace(os.sep, "/").lower().strip("/")
    return parts.endswith(tuple(f"/{name}" for name in _FILES)) or any(f"/{name}/" in f"{parts}/" for name in _FOLDERS)


def _is_marked(path: str) -> bool:
    """Whether a file has our hooks in it, wherever it is."""
    if not path.endswith((".json", ".js")) or not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return _MARK in file.read(1 << 20)
    except OSError:
        return False
