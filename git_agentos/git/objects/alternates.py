"""Where a store has its objects: its own folder, and those that `info/alternates` names (gitrepository-layout(5))."""

from __future__ import annotations

import os


def folders(objects_dir: str) -> list[str]:
    """An object store and its alternates, recursively, each once."""
    found = [objects_dir]
    for store in found:
        for line in _lines(store):
            path = os.path.normpath(os.path.join(store, os.fsdecode(line)))
            if path not in found:
                found.append(path)
    return found


def _lines(store: str) -> list[bytes]:
    try:
        with open(os.path.join(store, "info", "alternates"), "rb") as file:
            return [line for line in file.read().splitlines() if line and not line.startswith(b"#")]
    except OSError:
        return []
