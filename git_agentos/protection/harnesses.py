"""The harnesses of this machine, and whether each asks the guard in a worktree, as far as can be found out without
running one: its settings, what it needs to read them, its version, and when it last called our hook there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from git_agentos.git.location import Location
from git_agentos.guard.diagnosis import probe
from git_agentos.guard.harness import plugins, presence, recording, requirements, settings_files
from git_agentos.guard.harness.adapters import HARNESSES
from git_agentos.guard.harness.plugins import Plugin
from git_agentos.util import times

NOT_INTEGRATED, INTEGRATED, BROKEN, UNTRIED = "not-integrated", "integrated", "broken", "untried"
_DETAIL = "commands are checked, edits saved"
_TRUST_PLUGINS = ("codex",)  # it trusts each hook of a plugin, and where it notes that is not known


@dataclass(frozen=True)
class HarnessState:
    """One harness on this machine, in one worktree.

    `program` is its program on PATH, and `version` the version of that; null where they are not known. `path` is the
    settings file with our hooks that it reads, and `plugin` where it has our plugin, or says that it has it. `state`:

        not-integrated   our hooks are not in its settings, and it does not have our plugin
        broken           they are, and start a program that does not exist
        disabled         its settings switch hooks off, or the plugin where it has nothing else
        not-trusted      it does not trust the folder, or our hooks
        not-headless     it asks for trust in a terminal, and reads no hooks where it cannot ask
        untried          it has not called our hook here yet, and its version is too old, or newer than what was tried,
                         or it may not trust the plugin's hooks
        integrated       nothing is in the way

    `detail` is that as a sentence, with what to do. `asked_at` is when it last called our hook in this worktree.
    """

    name: str
    program: str | None
    version: str | None
    state: str
    detail: str
    path: str | None = None
    asked_at: str | None = None
    plugin: str | None = None


def examine(
    location: Location, environment: Mapping[str, str], problems: Mapping[str, str] | None = None
) -> Iterator[HarnessState]:
    """Every harness that is on this machine, or integrated in the worktree at `location`. `problems` says by name why
    one could not be integrated."""
    home = environment.get("HOME") or os.path.expanduser("~")
    for name in HARNESSES:
        there = presence.of(name, environment)
        path = settings_files.effective(name, location.root, home)
        plugin = plugins.installed(name, location.root, environment)
        if there.program is None and there.folder is None and path is None and name not in (problems or {}):
            continue
        version = presence.version(there.program, environment) if there.program is not None else None
        last = recording.last_contact(name, location.git_dir)
        if path is None and plugin is not None:
            state, detail = _by_plugin(name, location, plugin, version, environment)
        else:
            state, detail = _state(name, location, path, version, environment)
        if state == UNTRIED and last is not None:
            state, detail = INTEGRATED, _DETAIL
        if problems and name in problems:
            state, detail = NOT_INTEGRATED, problems[name]
        asked_at = None if last is None else times.seconds_to_text(last.at)
        yield HarnessState(
            name, there.program, version, state, detail, path, asked_at, None if plugin is None else plugin.path
        )


def _state(
    name: str, location: Location, path: str | None, version: str | None, environment: Mapping[str, str]
) -> tuple[str, str]:
    if path is None:
        return NOT_INTEGRATED, "not integrated: git agentos init"
    broken = probe.harness_hook_problem(path)
    if broken is not None:
        return BROKEN, broken
    for each in requirements.examine(name, location.root, path, environment):
        return each.kind, each.sentence
    untried = presence.version_problem(name, version)
    return (INTEGRATED, _DETAIL) if untried is None else (UNTRIED, untried)


def _by_plugin(
    name: str, location: Location, plugin: Plugin, version: str | None, environment: Mapping[str, str]
) -> tuple[str, str]:
    """The state of a harness that has our hooks from the plugin alone. It is the user's, so no folder has to be
    trusted."""
    if not plugin.is_on:
        return requirements.DISABLED, f"our plugin is switched off here: switch it on in {name}"
    if shutil.which(plugins.PROGRAM, path=environment.get("PATH", os.defpath)) is None:
        return BROKEN, f"our plugin starts '{plugins.PROGRAM}', which is not on PATH: commands and edits are denied"
    for each in requirements.examine(name, location.root, plugin.path, environment):
        if each.kind == requirements.DISABLED:
            return each.kind, each.sentence
    untried = presence.version_problem(name, version)
    if untried is None and name in _TRUST_PLUGINS:
        untried = f"{name} runs the hooks of our plugin once they are trusted: '/hooks' in {name}"
    return (INTEGRATED, f"{_DETAIL}, by the plugin") if untried is None else (UNTRIED, untried)
