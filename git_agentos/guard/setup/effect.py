"""What git would really start in a worktree: core.fsmonitor and core.hooksPath as git itself reads them there, whether
these are the guard's, and whether they can be started. `probe` tries the scripts elsewhere; this looks at the place.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping

from git_agentos import processes
from git_agentos.errors import AgentosError
from git_agentos.git import process
from git_agentos.git.location import Location
from git_agentos.guard.setup import configfile, enable, place
from git_agentos.util import files

ON, OFF, BROKEN = "on", "off", "broken"
_PATIENCE = 30.0  # seconds
_NAMED_NO_HOOK = 2  # what the program of the hooks answers where no hook is named
_STARTS_PROGRAM = re.compile(r"\n\tif \[ -x (?P<python>.+) \]; then\n\t\t(?P<command>.+) \"\$@\"\n")


def broken_scripts(common_dir: str) -> str | None:
    """Why one of the placed scripts, or the Python that they start, cannot be run; None where all can. No process is
    started."""
    scripts = [place.fsmonitor(common_dir), *(os.path.join(place.hooks_dir(common_dir), name) for name in place.OURS)]
    reason = _is_no_file(place.shared(common_dir)) or next(filter(None, map(_cannot_start, scripts)), None)
    if reason is not None:
        return reason
    found = _program(common_dir)
    if found is None or os.access(found[0], os.X_OK):
        return None
    return f"the Python that its hooks are run with is gone: '{found[0]}'"


def state(location: Location) -> str:
    """How the guard of a worktree stands, as far as files tell: ON, OFF or BROKEN (set, and git starts nothing, or
    something else)."""
    path = os.path.join(location.git_dir, "config.worktree")
    try:
        if not enable.is_enabled(location) and not configfile.mentions(path, enable.COMMENT):
            return OFF
        leads_here = configfile.says(path, enable.values(location))
        return ON if leads_here and broken_scripts(location.common_dir) is None else BROKEN
    except (AgentosError, OSError):
        return BROKEN


def fsmonitor(location: Location, environment: Mapping[str, str]) -> str | None:
    """Why git does not start the guard's fsmonitor in this worktree; None where it does."""
    script = place.fsmonitor(location.common_dir)
    wrong = _cannot_start(script) or _is_no_file(place.shared(location.common_dir))
    if wrong is not None:
        return wrong
    value = _configured(location, environment, "core.fsmonitor")
    if value != enable.quoted(script):
        return "core.fsmonitor is not set" if value is None else f"core.fsmonitor is '{value}'"
    return _not_asked(location, environment, script)


def hooks(location: Location, environment: Mapping[str, str]) -> str | None:
    """Why git does not start the guard's hooks in this worktree; None where it does."""
    wanted = place.hooks_dir(location.common_dir)
    value = _configured(location, environment, "core.hooksPath")
    if value is None:
        return "core.hooksPath is not set"
    if os.path.realpath(os.path.join(location.root, os.path.expanduser(value))) != os.path.realpath(wanted):
        return f"core.hooksPath is '{value}'"
    wrong = _is_no_file(place.shared(location.common_dir))
    reasons = (wrong, *(_cannot_start(os.path.join(wanted, name)) for name in place.OURS))
    return next(filter(None, reasons), None)


def program(common_dir: str, environment: Mapping[str, str]) -> str | None:
    """Why the placed scripts cannot start our program, which decides and saves; None where they can, or where they are
    not there."""
    found = _program(common_dir)
    if found is None or place.changed(common_dir):
        return None  # not what was placed: that is said of it, and it is not run
    python, command = found
    argv = ["sh", "-c", command]
    if not os.access(python, os.X_OK):
        other = shutil.which("git-agentos", path=environment.get("PATH"))
        if other is None:
            return f"the Python that its hooks are run with is gone: '{python}'"
        argv = [other, "hook"]
    ended = processes.run(argv, cwd="/", env=process.environment(base=environment), timeout=_PATIENCE)
    if ended.code == _NAMED_NO_HOOK:
        return None
    said = ended.output.decode("utf-8", "replace").strip().splitlines()
    return f"the program of its hooks fails ({python}): {said[-1] if said else f'exit code {ended.code}'}"


def _program(common_dir: str) -> tuple[str, str] | None:
    """The Python that the placed scripts start, and with which words for sh; None where they do not say."""
    try:
        text = files.read(place.shared(common_dir)).decode("utf-8", "surrogateescape")
        found = _STARTS_PROGRAM.search(text)
        return None if found is None else (shlex.split(found["python"])[0], found["command"])
    except (OSError, ValueError, IndexError):
        return None


def _is_no_file(path: str) -> str | None:
    """What is in the place of a file; None where a file is."""
    if not os.path.lexists(path):
        return f"'{path}' is not there"
    return None if os.path.isfile(path) else f"'{path}' is not a file"


def _cannot_start(path: str) -> str | None:
    """Why the system cannot run a script; None where it can."""
    wrong = _is_no_file(path)
    if wrong is not None:
        return wrong
    if not os.access(path, os.X_OK):
        return f"'{path}' cannot be run: it is not executable, or its file system is mounted with noexec"
    with open(path, "rb") as file:
        first = file.readline(1000)
    words = first[2:].split() if first.startswith(b"#!") else []
    if not words:
        return f"'{path}' is not a script that can be run"
    interpreter = os.fsdecode(words[0])
    return None if os.access(interpreter, os.X_OK) else f"'{path}' cannot be run: '{interpreter}' cannot"


def _configured(location: Location, environment: Mapping[str, str], key: str) -> str | None:
    """A value as git in this worktree reads it."""
    env = _environment(environment)
    out = process.run(["config", "-z", "--get", key], cwd=location.root, env=env, ok=(0, 1), fixed=False)
    return os.fsdecode(out.removesuffix(b"\0")) if out else None


def _not_asked(location: Location, environment: Mapping[str, str], script: str) -> str | None:
    """Why git, which looks at the worktree, does not get the script started: it reports what it starts (trace2)."""
    with tempfile.TemporaryDirectory(prefix="agentos-") as folder:
        events = os.path.join(folder, "events")
        env = {**_environment(environment), "GIT_TRACE2_EVENT": events}
        args = ["--no-optional-locks", "diff-files", "--quiet", "--", ".git/nothing"]
        child = process.spawn(args, cwd=location.root, env=env, fixed=False)
        _, _, err = process.finish(child)
        started = _started(events, script)
    if started is None:
        said = err.decode("utf-8", "replace").strip().splitlines()
        return f"git did not start it (git said: {said[0]})" if said else "git did not start it"
    return None if started else f"git cannot run '{script}'"


def _started(path: str, script: str) -> bool | None:
    """Whether git could start the script, by what it reported; None where it did not try."""
    found: bool | None = None
    numbers = set()
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            event = json.loads(line)
            if event.get("event") == "child_start" and any(script in str(each) for each in event.get("argv", ())[:1]):
                numbers.add(event.get("child_id"))
                found = True
            elif event.get("event") == "child_exit" and event.get("child_id") in numbers and event.get("pid") == -1:
                return False
    return found


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    return process.environment(base=environment)
