"""The error tree, and what each error means to the user.

    AgentosError                 exit 1   base; `kind`, `message`, `hint`
      UsageError                 exit 2   the command line or a value on it is malformed
      PolicyError                exit 3   policy forbids the command, or it needs approval
      ConflictError              exit 4   there is a conflict to resolve
      RepositoryError            exit 1   not a repository, bare, refused by git
        DamagedFile              exit 1   a file below the git directory is damaged
        UnsupportedRepository    exit 1   a repository feature that libgit2 does not support
      DamagedFile              exit 1   a file that this tool wrote cannot be read; `git agentos doctor --fix` fixes it
      GitCommandError            exit 1   a git command failed
      ConfigurationError         exit 1   a setting has an invalid value
        UnreadableConfiguration  exit 1   git cannot read its configuration
      StorageError               exit 1   the object store or the worktree cannot be written
      LockedError                exit 1   another process holds the lock
      CheckpointNotFound         exit 1   the id is unknown, ambiguous, or in another timeline
      CheckpointFormatError      exit 1   a commit that is not a checkpoint, or of a newer format
      MissingObjectsError        exit 1   objects of the checkpoint are not in the object store
      IncompleteCaptureError     exit 1   the state cannot be saved completely
      RestoreError               exit 1   a restore was refused or reverted
        InterruptedRestore       exit 1   a restore was interrupted: `git agentos recover` first
        ChangedState             exit 1   the state is not the one that the caller expects to be replaced
      WorktreeError              exit 1   a worktree cannot be created, found, completed or removed
      RunError                   exit 1   a run cannot be started, found, resumed, rolled back or accepted
      UiError                    exit 1   the terminal interface cannot be started
      FleetError                 exit 1   a fleet cannot be submitted, found or read, or its remote cannot be reached
      McpError                   exit 1   the MCP server cannot be started, or cannot give an answer
      TddError                   exit 1   a workflow cannot be started, found or resumed, or tests cannot be run
      ContextError               exit 1   a file that must not be sent to a model (also a ValueError)
      GuardError                 exit 1   the guard, its hooks or a request for approval cannot be set up, found or read
      DatabaseError              exit 1   the workflow database cannot be used
        DamagedDatabase          exit 1   it is damaged, or not a database; it can be moved aside and rebuilt
      WorkflowConfigurationError exit 1   there is no path for the workflow database (also a RuntimeError)

A message is in git's style: lower case, no full stop, the subject in single quotes; `hint` is the next step. Errors are
caught only where something can be done about them; `cli.entry` prints all others.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

# The end of a hint if a command was refused before it changed anything.
UNCHANGED = "nothing was changed"


class AgentosError(Exception):
    """Base of all errors that users see; `str(error)` is the message without the hint."""

    kind = "error"
    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(AgentosError):
    kind = "usage"
    exit_code = 2


class PolicyError(AgentosError):
    kind = "policy"
    exit_code = 3


class ConflictError(AgentosError):
    kind = "conflict"
    exit_code = 4


class RepositoryError(AgentosError):
    kind = "repository"


class UnsupportedRepository(RepositoryError):
    kind = "unsupported-repository"


class DamagedFile(RepositoryError):
    """A file of git-agentos or git below the git directory is damaged; `path` is the file."""

    def __init__(self, path: str, reason: str, hint: str) -> None:
        super().__init__(f"'{path}' is damaged: {reason}", hint)
        self.path = path


class GitCommandError(AgentosError):
    """A git command failed; `status` is its exit code, `stderr` its output on stderr."""

    kind = "git"

    def __init__(self, message: str, hint: str | None = None, *, status: int = 1, stderr: str = "") -> None:
        super().__init__(message, hint)
        self.status = status
        self.stderr = stderr


class ConfigurationError(AgentosError):
    kind = "configuration"


class UnreadableConfiguration(ConfigurationError):
    """git itself cannot read its configuration in a folder."""


class StorageError(AgentosError):
    kind = "storage"


class LockedError(AgentosError):
    kind = "locked"


class CheckpointNotFound(AgentosError):
    kind = "checkpoint-not-found"


class CheckpointFormatError(AgentosError):
    kind = "checkpoint-format"


class MissingObjectsError(AgentosError):
    kind = "missing-objects"


class IncompleteCaptureError(AgentosError):
    kind = "incomplete-capture"


class RestoreError(AgentosError):
    kind = "restore"


class InterruptedRestore(RestoreError):
    kind = "interrupted"


class ChangedState(RestoreError):
    kind = "changed"


class WorktreeError(AgentosError):
    kind = "worktree"


class RunError(AgentosError):
    kind = "run"


class FleetError(AgentosError):
    kind = "fleet"


class TddError(AgentosError):
    kind = "tdd"


class UiError(AgentosError):
    kind = "ui"


class McpError(AgentosError):
    kind = "mcp"


class ContextError(AgentosError, ValueError):
    kind = "context"


class GuardError(AgentosError):
    kind = "guard"


class DatabaseError(AgentosError):
    kind = "database"


class DamagedDatabase(DatabaseError):
    """`inode` (number, device) identifies the damaged file, since another can take its `path`."""

    kind = "damaged-database"

    def __init__(self, path: str, reason: str, inode: tuple[int, int] | None = None) -> None:
        super().__init__(
            f"the workflow database '{path}' is damaged: {reason}",
            "git agentos log rebuild rebuilds it from the checkpoints",
        )
        self.path = path
        self.reason = reason
        self.inode = inode


class WorkflowConfigurationError(AgentosError, RuntimeError):
    kind = "workflow-configuration"


class AgentosWarning(UserWarning):
    """An error that does not change the result. It is reported by `warnings.warn`; a command prints it on stderr."""


@contextlib.contextmanager
def converted_storage_errors() -> Iterator[None]:
    """Raise an OSError as a StorageError."""
    try:
        yield
    except OSError as error:
        raise storage_error(error) from error


# What to do about an error of a write, by its number.
_REMEDIES = {
    errno.ENOSPC: "free some space and try again",
    errno.EDQUOT: "free some space and try again",
    errno.EROFS: "make it writable and try again",
    errno.EBUSY: "close what has it open and try again",
    errno.ETXTBSY: "close what has it open and try again",
    errno.EACCES: "check the permissions",
    errno.EPERM: "check the permissions",
}


def storage_error(error: OSError) -> StorageError:
    """The StorageError for an OSError that a write raised."""
    # Of a rename, name the target.
    name = error.filename2 or error.filename
    where = f" '{os.fsdecode(name)}'" if isinstance(name, str | bytes) else ""
    remedy = _REMEDIES.get(error.errno or 0)
    hint = UNCHANGED if remedy is None else f"{UNCHANGED}; {remedy}"
    if error.errno == errno.ENOSPC:
        return StorageError(f"no space left to write{where}", hint)
    if error.errno == errno.EDQUOT:
        return StorageError(f"the disk quota is used up: cannot write{where}", hint)
    return StorageError(f"cannot write{where}: {system_reason(error)}", hint)


def without_unchanged(hint: str | None) -> str | None:
    """A hint without the words that nothing was changed: for a caller that knows that something was."""
    lines = ["; ".join(each for each in line.split("; ") if each != UNCHANGED) for line in (hint or "").splitlines()]
    return "\n".join(filter(None, lines)) or None


def system_reason(error: OSError) -> str:
    """What the system says about an error: `no such file or directory`."""
    return (error.strerror or str(error)).lower()
