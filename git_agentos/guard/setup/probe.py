"""Which layers of the guard act in a worktree, found out by trying them there, with its configuration and with the
environment as it is. Nothing in the worktree or the repository changes (`effect` says how).

    fsmonitor   git starts the placed script when it looks at the worktree's files
    hook        git asks the placed hook about a ref, and the hook refuses
    shim        the placed `git` is the first on PATH, as below `guard exec`
    harness     the settings that a harness reads have our hook in them, and it can be started

A script that is not the one that was placed counts as one that does not act: nobody knows what it does.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from git_agentos.errors import AgentosError
from git_agentos.git.location import Location
from git_agentos.guard.setup import effect, scripts
from git_agentos.util import files

FSMONITOR, HOOK, SHIM, HARNESS = LAYERS = ("fsmonitor", "hook", "shim", "harness")
_AGENT = "probe"
# The command of ours in a harness's settings: a string of JSON or JavaScript.
_HOOK_COMMAND = re.compile(r'"((?:[^"\\\n]|\\.)*guard harness (?:[^"\\\n]|\\.)*)"')


@dataclass(frozen=True)
class Layer:
    """One layer: `acts` tells whether it would stop a command here, `reason` why not (null where it would)."""

    name: str
    acts: bool
    reason: str | None = None


def try_layers(location: Location, environment: Mapping[str, str]) -> list[Layer]:
    """Try each layer in this worktree."""
    found = try_hooks(location, environment)
    for name, tried in ((SHIM, _shim), (HARNESS, _harness)):
        try:
            found.append(tried(location, environment))
        except (AgentosError, OSError) as error:
            found.append(Layer(name, False, f"it could not be tried: {error}"))
    return found


def try_hooks(location: Location, environment: Mapping[str, str]) -> list[Layer]:
    """Try the layers that git itself starts."""
    try:
        edited = _edited(location.common_dir)
        first, second = effect.overridden(location, environment)
        second = second or edited[HOOK] or effect.not_refused(location, environment)
        first = first or edited[FSMONITOR] or effect.not_asked(location, environment)
        if second is not None and first is None:
            # The hook has not shown that the program of both can be started.
            first = effect.program(location.common_dir, environment)
    except (AgentosError, OSError) as error:
        first = second = f"it could not be tried: {error}"
    return [Layer(FSMONITOR, first is None, first), Layer(HOOK, second is None, second)]


def first_on_path(location: Location, environment: Mapping[str, str]) -> Layer:
    """Whether the shim is the git that a command started from here would get."""
    wanted = os.path.join(scripts.shim_dir(location.common_dir), "git")
    found = shutil.which("git", path=environment.get("PATH"))
    if found is not None and os.path.realpath(found) == os.path.realpath(wanted):
        return Layer(SHIM, True)
    if "AGENTOS_GUARD" in environment:
        return Layer(SHIM, False, f"'{found}' comes before it on PATH")
    return Layer(SHIM, False, "it works below `git agentos guard exec -- COMMAND`, and this was not run by it")


def _edited(common_dir: str) -> dict[str, str | None]:
    """Why the scripts of a layer cannot be relied on: they are not what was placed."""
    paths = scripts.changed_files(common_dir)
    if paths == [scripts.digests_path(common_dir)]:
        paths = scripts.differing_files(common_dir)
    found: dict[str, str | None] = {FSMONITOR: None, HOOK: None, SHIM: None}
    for path in paths:
        name, folder = os.path.basename(path), os.path.basename(os.path.dirname(path))
        whose = (SHIM,) if folder == "bin" else (FSMONITOR, HOOK) if name == scripts.SHARED else (HOOK,)
        for each in (FSMONITOR,) if name == scripts.FSMONITOR else whose:
            found[each] = f"'{path}' is not what git-agentos placed there"
    return found


def _shim(location: Location, environment: Mapping[str, str]) -> Layer:
    shim = os.path.join(scripts.shim_dir(location.common_dir), "git")
    reason = effect.cannot_start(shim) or _edited(location.common_dir)[SHIM]
    return first_on_path(location, environment) if reason is None else Layer(SHIM, False, reason)


def _harness(location: Location, environment: Mapping[str, str]) -> Layer:
    from git_agentos.guard.assessment import assessor
    from git_agentos.guard.call import Call
    from git_agentos.guard.harness import settings_files
    from git_agentos.guard.identity import Identity

    folders = (location.root, environment.get("HOME") or os.path.expanduser("~"))
    paths = settings_files.integrated(*folders)
    if not paths:
        return Layer(HARNESS, False, "no harness asks it here: `git agentos guard integrate NAME` makes one ask")
    reason = next(filter(None, map(_hook_is_gone, paths)), None)
    if reason is None:
        try:
            assessor.assess_text("git status", Call((), location.root, environment), Identity(_AGENT, "environment"))
        except AgentosError as error:
            reason = error.message
    return Layer(HARNESS, reason is None, reason)


def _hook_is_gone(path: str) -> str | None:
    """Why the hook in a harness's settings cannot be started. It is not run: anybody may have written that file."""
    text = files.read(path).decode("utf-8", "replace")
    for quoted in _HOOK_COMMAND.findall(text):
        try:
            program = shlex.split(json.loads(f'"{quoted}"'))[0]
        except (ValueError, IndexError):
            return f"the hook in '{path}' is no command: integrate it again"
        if shutil.which(program) is None:
            return f"the hook in '{path}' starts '{program}', which is not there: integrate it again"
    return None
