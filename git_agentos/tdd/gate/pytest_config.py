"""What pytest reads of a project's configuration files.

Some files are pytest's own (`WHOLE`); of others it reads a part (`PARTS`), and the rest may change without a test
noticing: `part` cuts out what counts, plugins that a package brings (`pytest11`) included. A file that cannot be parsed
counts as a whole.
"""

from __future__ import annotations

import configparser
import json
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

WHOLE = ("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml")
PARTS = ("pyproject.toml", "setup.cfg", "tox.ini", "entry_points.txt")
_PLUGINS = "pytest11"
_MOST = 4 << 20
_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "setup.cfg": ("tool:pytest", "pytest"),
    "tox.ini": ("pytest", "tool:pytest"),
    "entry_points.txt": (_PLUGINS,),
    "pytest.ini": ("pytest",),
    ".pytest.ini": ("pytest",),
}


@dataclass(frozen=True)
class Names:
    """What the project's configuration names: patterns for test files and test functions beside pytest's own; the
    modules that pytest is to load (`-p`); folders for sys.path; and the modules of plugins that the project itself is
    (`pytest11`)."""

    files: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()


def part(name: str, data: bytes) -> bytes | None:
    """What pytest reads of a file called `name`, in one form for all that mean the same; None for nothing."""
    try:
        found = _toml(data) if name.endswith(".toml") else _ini(name, data)
    except (ValueError, configparser.Error, RecursionError):
        return data
    return json.dumps(found, sort_keys=True, default=str).encode() if found else None


def names(root: str) -> Names:
    """The patterns of the project at `root`, of all of its configuration files together."""
    found: dict[str, list[str]] = {each.name: [] for each in fields(Names)}
    for name in (*WHOLE, *PARTS[:3]):
        try:
            with open(os.path.join(root, name), "rb") as file:
                data = file.read(_MOST)
            options = _options(name, data)
            found["plugins"] += _modules(_toml(data) if name.endswith(".toml") else _ini(name, data))
        except (OSError, ValueError, configparser.Error, RecursionError):
            continue
        found["files"] += _words(options.get("python_files"))
        found["functions"] += _words(options.get("python_functions"))
        found["paths"] += _words(options.get("pythonpath"))
        found["loaded"] += _loaded(list(_words(options.get("addopts"))))
    return Names(**{name: tuple(dict.fromkeys(values)) for name, values in found.items()})


def _loaded(words: Sequence[str]) -> Iterable[str]:
    """The modules that options have pytest load: `-p NAME`, `-pNAME`."""
    for at, word in enumerate(words):
        if word == "-p" and at + 1 < len(words):
            yield words[at + 1]
        elif word.startswith("-p") and not word.startswith("-p="):
            yield word[2:]


def _modules(found: Mapping[str, Any]) -> Iterable[str]:
    """The modules that the project registers as plugins."""
    for value in (found.get("plugins"), found.get("poetry")):
        if isinstance(value, dict):
            yield from (str(each).partition(":")[0] for each in value.values())
        elif isinstance(value, str):
            pairs = (line.partition("=") for line in value.splitlines())
            yield from (module.strip().partition(":")[0] for _, equals, module in pairs if equals)


def _options(name: str, data: bytes) -> Mapping[str, Any]:
    """pytest's options in a file."""
    if name.endswith(".toml"):
        body = tomllib.loads(data.decode())
        table = body.get("pytest") if name in WHOLE else _within(body, "tool", "pytest")
        if not isinstance(table, dict):
            return {}
        inner = table.get("ini_options")
        return {**table, **(inner if isinstance(inner, dict) else {})}
    found: dict[str, Any] = {}
    for section in _ini(name, data).values():
        found |= section if isinstance(section, dict) else {}
    return found


def _toml(data: bytes) -> Mapping[str, Any]:
    body = tomllib.loads(data.decode())
    found = {
        "pytest": _within(body, "tool", "pytest"),
        "plugins": _within(body, "project", "entry-points", _PLUGINS),
        "poetry": _within(body, "tool", "poetry", "plugins", _PLUGINS),
    }
    return {key: value for key, value in found.items() if value is not None}


def _ini(name: str, data: bytes) -> Mapping[str, Any]:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    parser.read_string(data.decode())
    found: dict[str, Any] = {
        section: dict(parser.items(section)) for section in _SECTIONS.get(name, ()) if parser.has_section(section)
    }
    if name == "setup.cfg" and parser.has_option("options.entry_points", _PLUGINS):
        found["plugins"] = parser.get("options.entry_points", _PLUGINS)
    return found


def _within(body: object, *keys: str) -> Any:
    for key in keys:
        body = body.get(key) if isinstance(body, dict) else None
    return body


def _words(value: object) -> Iterable[str]:
    if isinstance(value, str):
        return value.split()
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
