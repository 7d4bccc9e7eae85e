"""What pytest reads of a project's configuration files.

Some files are pytest's own (`OWN_FILES`). Of others (`SHARED_FILES`) it reads a section, and the rest has no effect on
tests: `section` returns what counts, including plugins that a package registers (`pytest11`). A file that cannot be
parsed counts as a whole.
"""

from __future__ import annotations

import configparser
import json
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from git_agentos.util import files

OWN_FILES = ("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml")
_MIXED_FILES = ("pyproject.toml", "setup.cfg", "tox.ini")
SHARED_FILES = (*_MIXED_FILES, "entry_points.txt")
CONFIGURATION_FILES = (*OWN_FILES, *_MIXED_FILES)
_PLUGINS = "pytest11"
_INI_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "setup.cfg": ("tool:pytest", "pytest"),
    "tox.ini": ("pytest", "tool:pytest"),
    "entry_points.txt": (_PLUGINS,),
    "pytest.ini": ("pytest",),
    ".pytest.ini": ("pytest",),
}


@dataclass(frozen=True)
class Options:
    """What the project's configuration says: patterns for test files and test functions besides pytest's own; modules
    that pytest loads (`-p`); folders for sys.path; the modules of plugins that the project registers (`pytest11`)."""

    test_files: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()


def section(name: str, data: bytes) -> bytes | None:
    """What pytest reads of a file called `name`, in one form for all spellings; None for nothing."""
    try:
        found = _parse_toml(data) if name.endswith(".toml") else _parse_ini(name, data)
    except (ValueError, configparser.Error, RecursionError):
        return data
    return json.dumps(found, sort_keys=True, default=str).encode() if found else None


def read_options(root: str) -> Options:
    """The options of the project at `root`, of all of its configuration files together."""
    found: dict[str, list[str]] = {each.name: [] for each in fields(Options)}
    for name in CONFIGURATION_FILES:
        try:
            data = files.read(os.path.join(root, name), follow=True)
            options = _pytest_options(name, data)
            parsed = _parse_toml(data) if name.endswith(".toml") else _parse_ini(name, data)
        except (OSError, ValueError, configparser.Error, RecursionError):
            continue
        found["plugins"] += _registered_modules(parsed)
        found["test_files"] += _words(options.get("python_files"))
        found["functions"] += _words(options.get("python_functions"))
        found["folders"] += _words(options.get("pythonpath"))
        found["loaded"] += _loaded_modules(_words(options.get("addopts")))
    return Options(**{name: tuple(dict.fromkeys(values)) for name, values in found.items()})


def _loaded_modules(words: Sequence[str]) -> Iterable[str]:
    """The modules that options make pytest load: `-p NAME`, `-pNAME`."""
    for index, word in enumerate(words):
        if word == "-p" and index + 1 < len(words):
            yield words[index + 1]
        elif word.startswith("-p") and not word.startswith("-p="):
            yield word[2:]


def _registered_modules(parsed: Mapping[str, Any]) -> Iterable[str]:
    """The modules that the project registers as plugins."""
    for value in (parsed.get("plugins"), parsed.get("poetry")):
        if isinstance(value, dict):
            yield from (str(each).partition(":")[0] for each in value.values())
        elif isinstance(value, str):
            pairs = (line.partition("=") for line in value.splitlines())
            yield from (module.strip().partition(":")[0] for _, equals, module in pairs if equals)


def _pytest_options(name: str, data: bytes) -> Mapping[str, Any]:
    """pytest's options in a file."""
    if name.endswith(".toml"):
        body = tomllib.loads(data.decode())
        table = body.get("pytest") if name in OWN_FILES else _within(body, "tool", "pytest")
        if not isinstance(table, dict):
            return {}
        inner = table.get("ini_options")
        return {**table, **(inner if isinstance(inner, dict) else {})}
    options: dict[str, Any] = {}
    for each in _parse_ini(name, data).values():
        options |= each if isinstance(each, dict) else {}
    return options


def _parse_toml(data: bytes) -> Mapping[str, Any]:
    body = tomllib.loads(data.decode())
    found = {
        "pytest": _within(body, "tool", "pytest"),
        "plugins": _within(body, "project", "entry-points", _PLUGINS),
        "poetry": _within(body, "tool", "poetry", "plugins", _PLUGINS),
    }
    return {key: value for key, value in found.items() if value is not None}


def _parse_ini(name: str, data: bytes) -> Mapping[str, Any]:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    parser.read_string(data.decode())
    found: dict[str, Any] = {
        each: dict(parser.items(each)) for each in _INI_SECTIONS.get(name, ()) if parser.has_section(each)
    }
    if name == "setup.cfg" and parser.has_option("options.entry_points", _PLUGINS):
        found["plugins"] = parser.get("options.entry_points", _PLUGINS)
    return found


def _within(body: object, *keys: str) -> Any:
    for key in keys:
        body = body.get(key) if isinstance(body, dict) else None
    return body


def _words(value: object) -> Sequence[str]:
    if isinstance(value, str):
        return value.split()
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
