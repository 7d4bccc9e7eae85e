"""Running git: one way to start it, one environment, one error.

Standard library only: it is imported before pygit2 on the hot path.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence

from git_agentos.errors import GitCommandError, RepositoryError
from git_agentos.git import gitfile

PIPE = subprocess.PIPE

# The folder of the shim that `guard exec` puts first on PATH, in any repository. The guard decides about agents'
# commands there; our own git commands do not use it.
SHIM_FOLDER = "/agentos/guard/bin"

_SHIM_BEGINS = b"#!/bin/sh\n# git-agentos: "
_BEHIND = rb"(?m)^guard_behind='(.*)'$"

# A hook or an alias starts us with the variables of *its* repository; in another tree they would make git
# read the wrong index or write to the wrong object store (pre-commit's `no_git_env`, for the same reason).
# GIT_CONFIG_* stay: they carry the user's `git -c`, and GIT_SSH etc. are about transport, not location.
LOCATION_VARIABLES = frozenset(
    {
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_COMMON_DIR",
        "GIT_OBJECT_DIRECTORY",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_NAMESPACE",
        "GIT_PREFIX",
        "GIT_QUARANTINE_PATH",
        "GIT_SHALLOW_FILE",
        "GIT_GRAFT_FILE",
        "GIT_REPLACE_REF_BASE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_LITERAL_PATHSPECS",
        "GIT_GLOB_PATHSPECS",
        "GIT_NOGLOB_PATHSPECS",
        "GIT_ICASE_PATHSPECS",
        "GIT_EXTERNAL_DIFF",
        "GIT_DEFAULT_HASH",
        "GIT_DEFAULT_REF_FORMAT",
        "GIT_REFERENCE_BACKEND",
        "GIT_ATTR_SOURCE",
    }
)

# All events of githooks(5). Hooks that the configuration names (`hook.<name>.command`, since git 2.54) are not in the
# folder that core.hooksPath names; since git 2.55, `hook.<event>.enabled` switches them off. git 2.54 knows no such
# switch (`doctor` says so), and older ones ignore it.
HOOK_EVENTS = (
    "applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg "
    "post-commit pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive post-update "
    "reference-transaction push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman "
    "p4-changelist p4-prepare-changelist p4-post-changelist p4-pre-submit post-index-change"
).split()

# git's output must not depend on the user's settings: no pager, no colours, no translated messages, and no fsmonitor,
# which is a program that the repository chooses and that answers instead of the file system. checkStat and trustctime
# have their strict values, because a minimal comparison hides changes.
FIXED_CONFIG = (
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.checkStat=default",
    "-c",
    "core.trustctime=true",
    "-c",
    "core.hooksPath=/dev/null",
    *(word for event in HOOK_EVENTS for word in ("-c", f"hook.{event}.enabled=false")),
    "-c",
    "core.quotePath=false",
    "-c",
    "advice.graftFileDeprecated=false",
)

# Of what git says: the longest line, and how much is kept for the message of an error.
LONGEST_LINE = KEPT = 64 << 10

# git's messages if the index, or the shared one of a split index, is damaged (read-cache.c, split-index.c).
_DAMAGED_INDEX = (
    r"index file (open failed|smaller than expected|corrupt)|unable to map index file|bad index (version|file)"
    r"|broken index, expect|unknown index entry format|malformed name field in the index"
)
REPAIR_INDEX = (
    "'git agentos worktree repair' rebuilds it from the newest checkpoint or HEAD; no file of the worktree changes"
)


def environment(extra: Mapping[str, str] | None = None, *, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a git whose repository is given explicitly, plus `extra`."""
    source = os.environ if base is None else base
    env = {key: value for key, value in without_harmful_traces(source).items() if key not in LOCATION_VARIABLES}
    env["LC_ALL"] = "C"
    env["GIT_TERMINAL_PROMPT"] = "0"
    # Our pathspecs are paths, never patterns.
    env["GIT_LITERAL_PATHSPECS"] = "1"
    # With replacement objects, a checkpoint would record objects that do not exist without them.
    env["GIT_NO_REPLACE_OBJECTS"] = "1"
    if extra:
        env.update(extra)
    return env


def require_no_quarantine() -> None:
    """RepositoryError in a `pre-receive` hook: there git allows no change of refs, since objects are in quarantine."""
    if os.environ.get("GIT_QUARANTINE_PATH"):
        raise RepositoryError(
            "git allows no change of refs in a pre-receive hook (the pushed objects are in quarantine)",
            "use a post-receive hook",
        )


def without_harmful_traces(env: Mapping[str, str]) -> dict[str, str]:
    """The environment without traces (GIT_TRACE and others) that git would append to a file in a worktree or a git
    directory. Our own git commands, which check whether a command does that, or save the file first, must not do it
    themselves."""
    return {key: value for key, value in env.items() if not (key.startswith("GIT_TRACE") and _is_in_repository(value))}


def _is_in_repository(path: str) -> bool:
    """Whether an absolute path is in a worktree or in a git directory."""
    if not os.path.isabs(path):
        return False
    real = os.path.realpath(path)
    return ".git" in real.split(os.sep) or gitfile.find(os.path.dirname(real)) is not None


def user_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment for a user's program in another folder: without the variables that name a repository, and without
    those for our own git commands."""
    return {key: value for key, value in os.environ.items() if key not in LOCATION_VARIABLES} | dict(extra)


def spawn(  # noqa: PLR0913 - as subprocess.Popen
    args: Sequence[str | bytes],
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | None = None,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
    neutral_config: bool = True,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start `git ARGS`; the caller reaps it. RepositoryError if git would wait for a named pipe.

    `pass_fds` are descriptors that git keeps open while it runs (a lock that must outlive us). `neutral_config=False`
    does not override the user's configuration: for reading it, and for the user's own commands (`pick`).
    """
    if cwd is None and env is not None:
        # Not the current directory, which may be gone.
        cwd = env.get("GIT_WORK_TREE")
    _refuse_pipes(cwd or os.curdir, (os.environ if env is None else env).get("GIT_DIR"))
    try:
        return subprocess.Popen(
            ["git", *(FIXED_CONFIG if neutral_config else ()), *args],
            executable=program((os.environ if env is None else env).get("PATH", os.defpath)),
            cwd=cwd,
            env=environment() if env is None else env,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=tuple(pass_fds),
        )
    except FileNotFoundError as error:
        if cwd is not None and not os.path.isdir(cwd):
            raise RepositoryError(f"cannot change to '{cwd}': no such directory") from error
        raise RepositoryError("git is not on the PATH", "install git 2.38 or later") from error
    except NotADirectoryError as error:
        raise RepositoryError(f"cannot change to '{cwd}': not a directory") from error


def _refuse_pipes(cwd: str, git_dir: str | None) -> None:
    """RepositoryError if a named pipe is in the place of a file that every git command reads."""
    if git_dir is None:
        found = gitfile.find(cwd)
        git_dir = None if found is None else found[1]
    pipe = None if git_dir is None else gitfile.pipe_in(os.path.join(cwd, git_dir))
    if pipe is not None:
        raise RepositoryError(
            f"'{pipe}' is a named pipe: git would wait for it forever",
            "move it away; 'git agentos doctor' shows how to rebuild the missing file",
        )


def program(path: str) -> str | None:
    """The first git on `path` after the guard's shims; None if no shim comes first."""
    passed = False
    for folder in path.split(os.pathsep):
        found = os.path.join(folder, "git")
        if not folder or not os.access(found, os.X_OK) or os.path.isdir(found):
            continue
        behind = behind_shim(found)
        if behind is None:
            return found if passed else None
        if behind:
            return behind
        passed = True
    return None


def behind_shim(path: str) -> str | None:
    """The git that a shim at `path` starts: empty if that is the next one on PATH; None if it is not a shim."""
    try:
        with open(path, "rb") as file:
            data = file.read(len(_SHIM_BEGINS))
            if data != _SHIM_BEGINS:
                return None
            data += file.read()
    except OSError:
        return None
    match = re.search(_BEHIND, data)
    return os.fsdecode(match[1].replace(b"'\\''", b"'")) if match else ""


def finish(process: subprocess.Popen[bytes], data: bytes | None = None) -> tuple[int, bytes, bytes]:
    """Feed `data`, wait, and return exit code, stdout and stderr."""
    out, err = process.communicate(data)
    return process.returncode, out, err


def finish_shown(process: subprocess.Popen[bytes], output: Callable[[str], None]) -> tuple[int, bytes, bytes]:
    """Wait for a git that reads nothing, and give its progress to `output`, line by line; exit code, stdout (which must
    be short), and the end of stderr without the progress."""
    assert process.stdout is not None and process.stderr is not None
    kept, line = b"", b""
    try:
        while data := process.stderr.read1(8192):  # type: ignore[attr-defined]  # a pipe is buffered
            kept = (kept + data)[-KEPT:]
            *lines, line = re.split(rb"[\r\n]", line + data)
            line = line[-LONGEST_LINE:]
            for each in lines:
                if each.strip():
                    output(each.decode("utf-8", "replace").rstrip())
        out = process.stdout.read()
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        process.stdout.close()
        process.stderr.close()
    # What is progress is no reason for a failure.
    err = b"\n".join(each for each in re.split(rb"[\r\n]+", kept) if b"% (" not in each)
    return process.wait(), out, err


def run(  # noqa: PLR0913 - as subprocess.run
    args: Sequence[str | bytes],
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    data: bytes | None = None,
    ok: Sequence[int] = (0,),
    neutral_config: bool = True,
    pass_fds: Sequence[int] = (),
) -> bytes:
    """Run `git ARGS` and return its stdout; any exit code outside `ok` is a GitCommandError."""
    stdin = subprocess.PIPE if data is not None else None
    process = spawn(args, cwd=cwd, env=env, stdin=stdin, neutral_config=neutral_config, pass_fds=pass_fds)
    status, out, err = finish(process, data)
    if status not in ok:
        raise failure(args, status, err)
    return out


def failure(args: Sequence[str | bytes], status: int, err: bytes) -> GitCommandError:
    """The error for a git command that ended with `status`, in git's own words."""
    from git_agentos.util import git_command_line

    text = err.decode("utf-8", "replace").strip()
    name = git_command_line.parse(["git", *map(os.fsdecode, args)]).command or "command"
    lines = [line for line in text.splitlines() if line.strip()]
    # Warnings and hints come before the error, and git may end by saying no more than which command has failed.
    said = [each for each in lines if each != f"fatal: {name} failed"]
    reason = next((each for kind in ("fatal: ", "error: ") for each in said if each.startswith(kind)), None)
    reason = reason or next(iter(lines), f"exit code {status}")
    if reason.endswith(":"):  # what it names is on a line of its own
        reason += "".join(f" {each.strip()}" for each in lines[lines.index(reason) + 1 :][:1])
    for prefix in ("fatal: ", "error: "):
        reason = reason.removeprefix(prefix)
    if re.search(_DAMAGED_INDEX, text):
        return GitCommandError(f"git cannot read the index: {reason}", REPAIR_INDEX, status=status, stderr=text)
    return GitCommandError(f"git {name} failed: {reason}", status=status, stderr=text)
