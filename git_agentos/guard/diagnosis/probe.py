"""Whether the layers of the guard act in a worktree: tried there, with its configuration and the current environment.
Nothing in the worktree or the repository changes.

    fsmonitor   git examines the worktree's files; its trace shows whether it has started our script
    hook        git is to verify a ref (`scripts.PROBE_REF`), which our reference-transaction hook always refuses
    shim        the placed `git` is the first on PATH, as below `guard exec`
    harness     a harness's settings have our hook, and its program exists

A script that differs from what was placed counts as one that does not act: what it does is not known. The functions
that return `str | None` return why something does not work, or None where it does.
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
from dataclasses import dataclass

from git_agentos.errors import AgentosError
from git_agentos.git import process, version
from git_agentos.git.location import Location
from git_agentos.guard.enforcement.safeguard import FSMONITOR, HARNESS, HOOK, SHIM
from git_agentos.guard.harness.row import ELSEWHERE
from git_agentos.guard.setup import activation, scripts
from git_agentos.process import programs
from git_agentos.util import files
from git_agentos.util.values import parse_boolean

ON, OFF, BROKEN = "on", "off", "broken"
_TIMEOUT = 30.0  # seconds
_NO_HOOK_NAMED = 2  # the exit code of the hooks' program where it is started without a hook's name
_PROGRAM = re.compile(r"\n\t(?:el)?if \[ -x (?P<python>.+) \]; then\n\t\t(?P<command>.+) \"\$@\"\n")
# The command of our hook in a harness's settings: a string of JSON or JavaScript.
_HOOK_COMMAND = re.compile(r'"((?:[^"\\\n]|\\.)*guard harness (?:[^"\\\n]|\\.)*)"')


@dataclass(frozen=True)
class Layer:
    """One layer: `acts` tells whether it would stop a command here, `reason` why not (null where it would)."""

    name: str
    acts: bool
    reason: str | None = None


# -- layers ------------------------------------------------------------------------------------------------------------


def try_layers(location: Location, environment: Mapping[str, str]) -> list[Layer]:
    """Try each layer in this worktree."""
    layers = try_hooks(location, environment)
    for name, try_layer in ((SHIM, _try_shim), (HARNESS, _try_harness)):
        try:
            layers.append(try_layer(location, environment))
        except (AgentosError, OSError) as error:
            layers.append(Layer(name, False, f"it could not be tried: {error}"))
    return layers


def try_hooks(location: Location, environment: Mapping[str, str]) -> list[Layer]:
    """Try the layers that git itself starts."""
    try:
        changed = _changed_scripts(location.common_dir)
        fsmonitor, hook = config_problems(location, environment)
        hook = hook or changed[HOOK] or hook_problem(location, environment)
        fsmonitor = fsmonitor or changed[FSMONITOR] or fsmonitor_problem(location, environment)
        if hook is not None and fsmonitor is None:
            # The program of both has not been started by the hook.
            fsmonitor = program_problem(location.common_dir, environment)
    except (AgentosError, OSError) as error:
        fsmonitor = hook = f"it could not be tried: {error}"
    return [Layer(FSMONITOR, fsmonitor is None, fsmonitor), Layer(HOOK, hook is None, hook)]


def shim_on_path(location: Location, environment: Mapping[str, str]) -> Layer:
    """Whether the shim is the first git on PATH."""
    shim = os.path.join(scripts.shim_dir(location.common_dir), "git")
    git = shutil.which("git", path=environment.get("PATH"))
    if git is not None and os.path.realpath(git) == os.path.realpath(shim):
        return Layer(SHIM, True)
    if "AGENTOS_GUARD" in environment:
        return Layer(SHIM, False, f"'{git}' comes before it on PATH")
    return Layer(SHIM, False, "this was not started by 'git agentos guard exec'")


def _try_shim(location: Location, environment: Mapping[str, str]) -> Layer:
    shim = os.path.join(scripts.shim_dir(location.common_dir), "git")
    reason = _start_problem(shim) or _changed_scripts(location.common_dir)[SHIM]
    return shim_on_path(location, environment) if reason is None else Layer(SHIM, False, reason)


def _try_harness(location: Location, environment: Mapping[str, str]) -> Layer:
    from git_agentos.guard.assessment import assessor
    from git_agentos.guard.call import Call
    from git_agentos.guard.harness import settings_files
    from git_agentos.guard.identity import Identity

    home = environment.get("HOME") or os.path.expanduser("~")
    paths = settings_files.integrated(location.root, home)
    if not paths:
        return Layer(HARNESS, False, "no harness is integrated here: run git agentos guard integrate NAME")
    reason = next(filter(None, map(harness_hook_problem, paths)), None)
    if reason is None:
        try:
            call = Call((), location.root, environment)
            assessor.assess_text("git status", call, Identity("probe", "environment"))
        except AgentosError as error:
            reason = error.message
    return Layer(HARNESS, reason is None, reason)


def harness_hook_problem(path: str) -> str | None:
    """Why the hook in a harness's settings cannot be started. It is not run, since anybody may have written the
    file."""
    text = files.read(path).decode("utf-8", "replace")
    for quoted in _HOOK_COMMAND.findall(text):
        try:
            program = shlex.split(json.loads(f'"{quoted}"').removeprefix(ELSEWHERE))[0]
        except (ValueError, IndexError):
            return f"the hook in '{path}' is not a command: integrate the harness again"
        if shutil.which(program) is None:
            return f"the hook in '{path}' starts '{program}', which does not exist: integrate the harness again"
    return None


def _changed_scripts(common_dir: str) -> dict[str, str | None]:
    """Why the scripts of a layer cannot be relied on, by layer: one of them was changed."""
    paths = scripts.changed_files(common_dir)
    if paths == [scripts.digests_path(common_dir)]:
        paths = scripts.differing_files(common_dir)
    reasons: dict[str, str | None] = {FSMONITOR: None, HOOK: None, SHIM: None}
    for path in paths:
        name = os.path.basename(path)
        if os.path.basename(os.path.dirname(path)) == "bin":
            layers: tuple[str, ...] = (SHIM,)
        elif name == scripts.SHARED:
            layers = (FSMONITOR, HOOK)
        else:
            layers = (FSMONITOR,) if name == scripts.FSMONITOR else (HOOK,)
        for layer in layers:
            reasons[layer] = f"'{path}' is not what git-agentos placed there"
    return reasons


# -- what files tell ---------------------------------------------------------------------------------------------------


def state(location: Location) -> str:
    """The state of the guard in a worktree, as far as files tell: ON, OFF or BROKEN (set, but git starts nothing, or
    something else). git is started only where a configuration file was edited in a way that may matter."""
    try:
        if not activation.is_enabled(location):
            return OFF
        acts = activation.is_effective(location) and _script_problem(location.common_dir) is None
        return ON if acts else BROKEN
    except (AgentosError, OSError):
        return BROKEN


def _script_problem(common_dir: str) -> str | None:
    """Why one of the placed scripts, or the Python that they start, cannot be run. No process is started."""
    paths = [scripts.fsmonitor(common_dir), *_hook_paths(common_dir)]
    reason = _file_problem(scripts.common_script(common_dir)) or next(filter(None, map(_start_problem, paths)), None)
    if reason is not None:
        return reason
    program = _program(common_dir)
    if program is None or os.access(program[0], os.X_OK):
        return None
    return f"the Python of its hooks does not exist: '{program[0]}'"


def _hook_paths(common_dir: str) -> list[str]:
    return [os.path.join(scripts.hooks_dir(common_dir), name) for name in scripts.OURS]


def _file_problem(path: str) -> str | None:
    if not os.path.lexists(path):
        return f"'{path}' does not exist"
    return None if os.path.isfile(path) else f"'{path}' is not a file"


def _start_problem(path: str) -> str | None:
    """Why the system cannot run a script."""
    problem = _file_problem(path)
    if problem is not None:
        return problem
    if not os.access(path, os.X_OK):
        return f"'{path}' cannot be run: it is not executable, or its file system is mounted with noexec"
    with open(path, "rb") as file:
        first = file.readline(1000)
    words = first[2:].split() if first.startswith(b"#!") else []
    if not words:
        return f"'{path}' is not a script"
    interpreter = os.fsdecode(words[0])
    return None if os.access(interpreter, os.X_OK) else f"'{path}' cannot be run: '{interpreter}' cannot"


# -- what git does -----------------------------------------------------------------------------------------------------


def config_problems(location: Location, environment: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Why `core.fsmonitor` and `core.hooksPath`, as git reads them in this worktree, do not lead to the guard. It takes
    one git process."""
    args = ["config", "-z", "--get-regexp", r"^(core\.(fsmonitor|hookspath)|hook\..*\.enabled)$"]
    env = process.environment(base=environment)
    out = process.run(args, cwd=location.root, env=env, ok=(0, 1), neutral_config=False)
    items = (os.fsdecode(item).partition("\n") for item in out.split(b"\0")[:-1])
    actual = {key: value if has_value else "true" for key, has_value, value in items}
    return (
        _fsmonitor_config_problem(location, actual.get("core.fsmonitor")),
        _hooks_config_problem(location, actual.get("core.hookspath")) or _switched_off(actual),
    )


def _switched_off(actual: Mapping[str, str]) -> str | None:
    """Which of our hooks the configuration switches off with all hooks of its event (git 2.55)."""
    keys = (f"hook.{event}.enabled" for event in scripts.OURS)
    off = [key for key in keys if parse_boolean(actual.get(key, "true")) is False]
    if not off or version.parse(version.read()) < (2, 55):
        return None
    return f"{off[0]} is '{actual[off[0]]}'"


def _fsmonitor_config_problem(location: Location, value: str | None) -> str | None:
    script = scripts.fsmonitor(location.common_dir)
    if value is None:
        return "core.fsmonitor is not set"
    if value != activation.fsmonitor_value(script):
        return f"core.fsmonitor is '{value}'"
    return _start_problem(script) or _file_problem(scripts.common_script(location.common_dir))


def _hooks_config_problem(location: Location, value: str | None) -> str | None:
    hooks_dir = scripts.hooks_dir(location.common_dir)
    if value is None:
        return "core.hooksPath is not set"
    if os.path.realpath(os.path.join(location.root, os.path.expanduser(value))) != os.path.realpath(hooks_dir):
        return f"core.hooksPath is '{value}'"
    reasons = (
        _file_problem(scripts.common_script(location.common_dir)),
        *map(_start_problem, _hook_paths(location.common_dir)),
    )
    return next(filter(None, reasons), None)


def hook_problem(location: Location, environment: Mapping[str, str]) -> str | None:
    """Why the guard's hook for refs does not stop git in this worktree. The command that git is given changes nothing,
    even where it is not stopped."""
    child = process.spawn(
        ["update-ref", "--stdin"],
        cwd=location.root,
        env=process.environment(base=environment),
        stdin=process.PIPE,
        neutral_config=False,
    )
    ref = f"{scripts.PROBE_REF}{os.urandom(6).hex()}"  # git locks it: another process may try at the same time
    code, _, err = process.finish(child, f"verify {ref}\n".encode())
    message = err.decode("utf-8", "replace").strip()
    if code != 0 and scripts.PROBE_REFUSED in message:
        return None
    output = f" (git: {message.splitlines()[0]})" if message else ""
    return f"git did not run it before a ref was changed{output}" if code == 0 else f"trying it failed{output}"


def fsmonitor_problem(location: Location, environment: Mapping[str, str]) -> str | None:
    """Why git does not start our script when it examines the worktree: its trace (trace2) shows what it starts."""
    if not os.path.lexists(os.path.join(location.git_dir, "index")):
        return None  # nothing is tracked, so git has no reason to start it
    script = scripts.fsmonitor(location.common_dir)
    with tempfile.TemporaryDirectory(prefix="agentos-") as folder:
        trace = os.path.join(folder, "events")
        env = {**process.environment(base=environment), "GIT_TRACE2_EVENT": trace}
        args = ["--no-optional-locks", "diff-files", "--quiet", "--", ".git/nothing"]
        child = process.spawn(args, cwd=location.root, env=env, neutral_config=False)
        _, _, err = process.finish(child)
        started = _was_started(trace, script)
    if started is None:
        message = err.decode("utf-8", "replace").strip().splitlines()
        return f"git did not start it (git: {message[0]})" if message else "git did not start it"
    return None if started else f"git cannot run '{script}'"


def _was_started(trace: str, script: str) -> bool | None:
    """Whether git could start the script, by its trace; None where it did not try. (The script's exit code may be that
    of the user's fsmonitor.)"""
    numbers = set()
    started: bool | None = None
    with contextlib.suppress(FileNotFoundError), open(trace, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            event = json.loads(line)
            if event.get("event") == "child_start" and any(script in str(each) for each in event.get("argv", ())[:1]):
                numbers.add(event.get("child_id"))
                started = True
            elif event.get("event") == "child_exit" and event.get("child_id") in numbers and event.get("pid") == -1:
                return False
    return started


def program_problem(common_dir: str, environment: Mapping[str, str]) -> str | None:
    """Why the placed scripts cannot start our program, which decides and saves. None also where they do not exist."""
    program = _program(common_dir)
    if program is None or scripts.changed_files(common_dir):
        return None  # changed scripts are another problem, and are not run
    python, command = program
    argv = ["sh", "-c", command]
    if not os.access(python, os.X_OK):
        installed = shutil.which("git-agentos", path=environment.get("PATH"))
        if installed is None:
            return f"the Python of its hooks does not exist: '{python}'"
        argv = [installed, "hook"]
    ended = programs.run(argv, cwd="/", env=process.environment(base=environment), timeout=_TIMEOUT)
    if ended.code == _NO_HOOK_NAMED:
        return None
    output = ended.output.decode("utf-8", "replace").strip().splitlines()
    return f"the program of its hooks fails ({python}): {output[-1] if output else f'exit code {ended.code}'}"


def _program(common_dir: str) -> tuple[str, str] | None:
    """The Python that the placed scripts start, and the command for sh; None where the scripts do not tell."""
    try:
        text = files.read(scripts.common_script(common_dir)).decode("utf-8", "surrogateescape")
        match = _PROGRAM.search(text)
        return None if match is None else (shlex.split(match["python"])[0], match["command"])
    except (OSError, ValueError, IndexError):
        return None
