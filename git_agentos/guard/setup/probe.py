"""Which layers of the guard really act here, found out by trying them: destructive commands on a scratch repository.

The scratch lies in the worktree's own git directory, on the same file system, and goes when it is over. Its scripts are
the ones that lie in this repository, as they are, with the paths in them leading to the scratch: one that was edited,
or that lacks its exec bit, shows. So does all that comes from elsewhere: git itself, the user's configuration and
environment, our Python.

    fsmonitor   `git reset --hard` over an edited file: it fails, and the file is as it was
    hook        `git branch -D` of a branch with a commit of its own: it fails, and the branch is there
    shim        `git stash drop`, by the git that is first on PATH below `guard exec`: it fails, and the stash is there
    harness     `git reset --hard` as a harness would ask about it: it is not allowed

That the scripts work is not enough: `effect` finds out whether git starts them in the worktree itself.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from git_agentos import processes
from git_agentos.errors import AgentosError
from git_agentos.git import locks, process
from git_agentos.git.location import Location, locate
from git_agentos.guard.setup import effect, enable, place
from git_agentos.util import files

FSMONITOR, HOOK, SHIM, HARNESS = LAYERS = ("fsmonitor", "hook", "shim", "harness")
_AGENT = "probe"
_TEXT = b"not committed\n"
_PATIENCE = 60.0  # seconds


@dataclass(frozen=True)
class Layer:
    """One layer: `acts` tells whether it stopped what it was tried with, `reason` why not (null where it did)."""

    name: str
    acts: bool
    reason: str | None = None


class Scratch:
    """A repository to break things in, with the guard on in its only worktree."""

    def __init__(self, folder: str, environment: Mapping[str, str]) -> None:
        self.root = os.path.join(folder, "try")
        self.file = os.path.join(self.root, "file")
        # What would lead git elsewhere is out; who acts is an agent, who is strictly guarded.
        self.environment = process.environment({"AGENTOS_AGENT_ID": _AGENT}, base=environment)
        del self.environment["GIT_LITERAL_PATHSPECS"], self.environment["GIT_NO_REPLACE_OBJECTS"]
        self.location: Location

    def make(self, scripts: str) -> None:
        """The repository, one commit, something to lose; and the scripts that lie in the common git directory
        `scripts`."""
        os.mkdir(self.root)
        self._plain("init", "--quiet", "--template=", "--initial-branch=main", self.root)
        for key, value in {
            "user.name": "probe",
            "user.email": "probe@localhost",
            "commit.gpgSign": "false",
            "agentos.guard.mode": "strict",
            "agentos.policy.reset-hard": "forbid",
            "agentos.policy.branch-delete": "forbid",
            "agentos.policy.stash-drop": "forbid",
        }.items():
            self._plain("config", key, value)
        self.location = locate(self.root, inherit=False)
        self._write(b"committed\n")
        self._plain("add", "file")
        self._plain("commit", "--quiet", "-m", "probe")
        self._plain("checkout", "--quiet", "-b", "kept")
        self._plain("commit", "--quiet", "--allow-empty", "-m", "of its own")
        self._plain("checkout", "--quiet", "main")
        self._write(b"stashed\n")
        self._plain("stash", "--quiet")
        self._write(_TEXT)
        enable.enable(self.location)
        self._bring(scripts)

    def _bring(self, source: str) -> None:
        """Put the scripts of the other repository in the place of the fresh ones."""
        target = self.location.common_dir
        for name in ("hooks", "bin"):
            there, here = os.path.join(place.folder(source), name), os.path.join(place.folder(target), name)
            shutil.rmtree(here)
            os.mkdir(here)
            for each in os.listdir(there) if os.path.isdir(there) else ():
                with contextlib.suppress(OSError):
                    data = files.read(os.path.join(there, each))
                    with open(os.path.join(here, each), "wb") as new:
                        new.write(data.replace(os.fsencode(source), os.fsencode(target)))
                    shutil.copymode(os.path.join(there, each), os.path.join(here, each))
        place.record(self.location)

    def _write(self, data: bytes) -> None:
        with open(self.file, "wb") as file:
            file.write(data)

    def _plain(self, *args: str) -> None:
        kind = {"GIT_DEFAULT_REF_FORMAT": "files", "GIT_DEFAULT_HASH": "sha1"}  # whatever is configured for new ones
        process.run(args, cwd=self.root, env=process.environment(kind))

    def git(self, *args: str) -> tuple[int, str]:
        """Run git as an agent would; its exit code and what it said."""
        status, out, err = process.finish(process.spawn(args, cwd=self.root, env=self.environment, fixed=False))
        return status, (err or out).decode("utf-8", "replace").strip()

    def shim(self, *args: str) -> tuple[int, str]:
        """Run the shim as it is run below `guard exec`; as `git`."""
        folder = place.shim_dir(self.location.common_dir)
        path = os.pathsep.join([folder, self.environment.get("PATH", os.defpath)])
        argv = [os.path.join(folder, "git"), *args]
        ended = processes.run(argv, cwd=self.root, env={**self.environment, "PATH": path}, timeout=_PATIENCE)
        return -1 if ended.code is None else ended.code, ended.output.decode("utf-8", "replace").strip()

    @property
    def intact(self) -> bool:
        with open(self.file, "rb") as file:
            return file.read() == _TEXT


def try_layers(location: Location, environment: Mapping[str, str]) -> list[Layer]:
    """Try what lies in this repository."""
    try:
        with locks.scratch(location) as folder:
            scratch = Scratch(folder, environment)
            scratch.make(location.common_dir)
            return [_in_place(each, location, environment) for each in _tried(scratch, location, environment)]
    except (AgentosError, OSError) as error:
        return [Layer(name, False, f"it could not be tried: {error}") for name in LAYERS]


def _in_place(layer: Layer, location: Location, environment: Mapping[str, str]) -> Layer:
    """A layer that was tried on the scratch repository does not act where git does not start it, or it cannot start our
    program."""
    if not layer.acts or layer.name not in (FSMONITOR, HOOK):
        return layer
    look = effect.fsmonitor if layer.name == FSMONITOR else effect.hooks
    reason = look(location, environment) or effect.program(location.common_dir, environment)
    return layer if reason is None else Layer(layer.name, False, reason)


def _tried(scratch: Scratch, location: Location, environment: Mapping[str, str]) -> Iterator[Layer]:
    status, said = scratch.git("reset", "--quiet", "--hard", "HEAD")
    if scratch.intact and status != 0:
        yield Layer(FSMONITOR, True)
    else:
        yield Layer(FSMONITOR, False, _why(said, "git did not ask it before it changed a file"))
    status, said = scratch.git("branch", "--quiet", "-D", "kept")
    kept = scratch.git("rev-parse", "--verify", "--quiet", "refs/heads/kept")[0] == 0
    if kept and status != 0:
        yield Layer(HOOK, True)
    else:
        yield Layer(HOOK, False, _why(said, "git did not ask it before a branch was deleted"))
    yield _shim(scratch, location, environment)
    yield _harness(scratch, location, environment)


def _shim(scratch: Scratch, location: Location, environment: Mapping[str, str]) -> Layer:
    shim = os.path.join(place.shim_dir(scratch.location.common_dir), "git")
    if not os.access(shim, os.X_OK):
        return Layer(SHIM, False, f"'{os.path.join(place.shim_dir(location.common_dir), 'git')}' cannot be run")
    status, said = scratch.shim("stash", "drop", "--quiet")
    kept = scratch.git("rev-parse", "--verify", "--quiet", "refs/stash")[0] == 0
    if not kept or status == 0:
        return Layer(SHIM, False, _why(said, "it let through what it must stop"))
    return first_on_path(location, environment)


def first_on_path(location: Location, environment: Mapping[str, str]) -> Layer:
    """Whether the shim is the git that a command started from here would get."""
    wanted = os.path.join(place.shim_dir(location.common_dir), "git")
    found = shutil.which("git", path=environment.get("PATH"))
    if found is not None and os.path.realpath(found) == os.path.realpath(wanted):
        return Layer(SHIM, True)
    if "AGENTOS_GUARD" in environment:
        return Layer(SHIM, False, f"'{found}' comes before it on PATH")
    return Layer(SHIM, False, "it works below `git agentos guard exec -- COMMAND`, and this was not run by it")


def _harness(scratch: Scratch, location: Location, environment: Mapping[str, str]) -> Layer:
    from git_agentos.guard import commands, harness
    from git_agentos.guard.call import Call
    from git_agentos.guard.decision import ALLOW
    from git_agentos.guard.identity import Who

    try:
        call = Call((), scratch.root, scratch.environment)
        found = commands.judge_text("cd . && git reset --hard", call, Who(_AGENT, "environment"))
    except AgentosError as error:
        return Layer(HARNESS, False, error.message)
    if found.decision.decision == ALLOW:
        return Layer(HARNESS, False, "shell text that must be stopped is allowed")
    if not harness.integrated((location.root, environment.get("HOME") or os.path.expanduser("~"))):
        return Layer(HARNESS, False, "no harness asks it here: `git agentos guard integrate NAME` makes one ask")
    return Layer(HARNESS, True)


def _why(said: str, otherwise: str) -> str:
    first = next((line for line in said.splitlines() if line.strip()), "")
    return f"{otherwise} (git said: {first})" if first else otherwise
