"""What git really starts in a worktree, tried there: core.fsmonitor and core.hooksPath as git itself reads them,
whether these are the guard's, and whether git can start them. Nothing in the worktree or the repository changes.

    fsmonitor   git looks at the worktree's files; its trace tells whether it started our script
    hooks       git is to verify a ref (`place.PROBE_REF`): the reference-transaction hook refuses that, whoever asks
"""

from __future__ import annotations

import contextlib
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
from git_agentos.guard.setup import enable, place
from git_agentos.util import files

ON, OFF, BROKEN = "on", "off", "broken"
_PATIENCE = 30.0  # seconds
_NAMED_NO_HOOK = 2  # what the program of the hooks answers where no hook is named
_STARTS_PROGRAM = re.compile(r"\n\t(?:el)?if \[ -x (?P<python>.+) \]; then\n\t\t(?P<command>.+) \"\$@\"\n")


def broken_scripts(common_dir: str) -> str | None:
    """Why one of the placed scripts, or the Python that they start, cannot be run; None where all can. No process is
    started."""
    scripts = [place.fsmonitor(common_dir), *(os.path.join(place.hooks_dir(common_dir), name) for name in place.OURS)]
    reason = _is_no_file(place.shared(common_dir)) or next(filter(None, map(cannot_start, scripts)), None)
    if reason is not None:
        return reason
    found = _program(common_dir)
    if found is None or os.access(found[0], os.X_OK):
        return None
    return f"the Python that its hooks are run with is gone: '{found[0]}'"


def state(location: Location) -> str:
    """How the guard of a worktree stands, as far as files tell: ON, OFF or BROKEN (set, and git starts nothing, or
    something else). git is started only where a configuration file was edited in a way that may matter."""
    try:
        if not enable.is_enabled(location):
            return OFF
        acts = enable.is_in_force(location) and broken_scripts(location.common_dir) is None
        return ON if acts else BROKEN
    except (AgentosError, OSError):
        return BROKEN


def fsmonitor(location: Location, environment: Mapping[str, str]) -> str | None:
    """Why git does not start the guard's fsmonitor in this worktree; None where it does."""
    return _wrong_fsmonitor(location, _configured(location, environment)) or not_asked(location, environment)


def hooks(location: Location, environment: Mapping[str, str]) -> str | None:
    """Why git does not take its hooks from the guard's in this worktree; None where it does."""
    return _wrong_hooks(location, _configured(location, environment))


def overridden(location: Location, environment: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Why `core.fsmonitor` and `core.hooksPath`, as git reads them in this worktree, do not lead to the guard; None for
    one that does. One git process: for looking at many worktrees."""
    found = _configured(location, environment)
    return _wrong_fsmonitor(location, found), _wrong_hooks(location, found)


def not_refused(location: Location, environment: Mapping[str, str]) -> str | None:
    """Why the guard's hook for refs does not stop git in this worktree; None where it does. What git is told to do
    changes nothing if it is not stopped."""
    child = process.spawn(
        ["update-ref", "--stdin"], cwd=location.root, env=_environment(environment), stdin=process.PIPE, fixed=False
    )
    ref = f"{place.PROBE_REF}{os.urandom(6).hex()}"  # git locks it: another process may try at the same time
    code, _, err = process.finish(child, f"verify {ref}\n".encode())
    said = err.decode("utf-8", "replace").strip()
    if code != 0 and place.PROBE_REFUSED in said:
        return None
    words = f" (git said: {said.splitlines()[0]})" if said else ""
    return f"git did not ask it before a ref was changed{words}" if code == 0 else f"trying it failed{words}"


def _wrong_fsmonitor(location: Location, configured: Mapping[str, str]) -> str | None:
    script, value = place.fsmonitor(location.common_dir), configured.get("core.fsmonitor")
    if value is None:
        return "core.fsmonitor is not set"
    if value != enable.quoted(script):
        return f"core.fsmonitor is '{value}'"
    return cannot_start(script) or _is_no_file(place.shared(location.common_dir))


def _wrong_hooks(location: Location, configured: Mapping[str, str]) -> str | None:
    wanted, value = place.hooks_dir(location.common_dir), configured.get("core.hookspath")
    if value is None:
        return "core.hooksPath is not set"
    if os.path.realpath(os.path.join(location.root, os.path.expanduser(value))) != os.path.realpath(wanted):
        return f"core.hooksPath is '{value}'"
    wrong = _is_no_file(place.shared(location.common_dir))
    reasons = (wrong, *(cannot_start(os.path.join(wanted, name)) for name in place.OURS))
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


def cannot_start(path: str) -> str | None:
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


def _configured(location: Location, environment: Mapping[str, str]) -> dict[str, str]:
    """core.fsmonitor and core.hooksPath as git in this worktree reads them, by lower-cased key."""
    args = ["config", "-z", "--get-regexp", r"^core\.(fsmonitor|hookspath)$"]
    out = process.run(args, cwd=location.root, env=_environment(environment), ok=(0, 1), fixed=False)
    items = (os.fsdecode(item).partition("\n") for item in out.split(b"\0")[:-1])
    return {key: value if has_value else "true" for key, has_value, value in items}


def not_asked(location: Location, environment: Mapping[str, str]) -> str | None:
    """Why git, which looks at the worktree, does not get the script started: it reports what it starts (trace2)."""
    if not os.path.lexists(os.path.join(location.git_dir, "index")):
        return None  # nothing is tracked: there is nothing that git would ask about
    script = place.fsmonitor(location.common_dir)
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
    """Whether git could start the script, by what it reported; None where it did not try. (Its exit code may be that of
    the user's own, which it becomes.)"""
    numbers = set()
    found: bool | None = None
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8", errors="surrogateescape") as file:
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
