"""The harnesses of this machine, and whether each asks the guard in a worktree, as far as can be found out without
running one: its settings, what it needs to read them, its version, and when it last called our hook there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from git_agentos.git.location import Location
from git_agentos.guard.diagnosis import probe
from git_agentos.guard.harness import presence, recording, requirements, settings_files
from git_agentos.guard.harness.adapters import HARNESSES
from git_agentos.util import times

NOT_INTEGRATED, INTEGRATED, BROKEN, UNTRIED = "not-integrated", "integrated", "broken", "untried"


@dataclass(frozen=True)
class HarnessState:
    """One harness on this machine, in one worktree.

    `program` is its program on PATH, and `version` the version of that; null where they are not known. `path` is the
    settings file with our hooks that it reads. `state`:

        not-integrated   our hooks are not in its settings
        broken           they are, and start a program that does not exist
        disabled         its settings switch hooks off
        not-trusted      it does not trust the folder, or our hooks
        not-headless     it asks for trust in a terminal, and reads no hooks where it cannot ask
        untried          its version is too old, or newer than what was tried, and it has not called our hook here yet
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


def examine(
    location: Location, environment: Mapping[str, str], problems: Mapping[str, str] | None = None
) -> Iterator[HarnessState]:
    """Every harness that is on this machine, or integrated in the worktree at `location`. `problems` says by name why
    one could not be integrated."""
    home = environment.get("HOME") or os.path.expanduser("~")
    for name in HARNESSES:
        there = presence.of(name, environment)
        path = settings_files.effective(name, location.root, home)
        if there.program is None and there.folder is None and path is None and name not in (problems or {}):
            continue
        version = presence.version(there.program, environment) if there.program is not None else None
        last = recording.last_contact(name, location.git_dir)
        state, detail = _state(name, location, path, version, environment, has_asked=last is not None)
        if problems and name in problems:
            state, detail = NOT_INTEGRATED, problems[name]
        asked_at = None if last is None else times.seconds_to_text(last.at)
        yield HarnessState(name, there.program, version, state, detail, path, asked_at)


def _state(
    name: str,
    location: Location,
    path: str | None,
    version: str | None,
    environment: Mapping[str, str],
    *,
    has_asked: bool,
) -> tuple[str, str]:
    if path is None:
        return NOT_INTEGRATED, "not integrated: git agentos init"
    broken = probe.harness_hook_problem(path)
    if broken is not None:
        return BROKEN, broken
    for each in requirements.examine(name, location.root, path, environment):
        return each.kind, each.sentence
    untried = presence.version_problem(name, version)
    if untried is not None and not has_asked:
        return UNTRIED, untried
    return INTEGRATED, "commands are checked, edits saved"
