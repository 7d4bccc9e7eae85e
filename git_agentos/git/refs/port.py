"""The port for refs: what can be done with them, and which backend serves a repository."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from git_agentos.errors import AgentosError, MissingObjectsError, RepositoryError
from git_agentos.git import process, repository_format
from git_agentos.git.location import Location
from git_agentos.git.refs.model import Head, ReflogEntry


class Backend(Protocol):
    """A module with these functions; the functions of this module, which have the same names, document them."""

    def read_head(self, location: Location, /) -> Head: ...
    def resolve(self, location: Location, name: str, /) -> str | None: ...
    def target(self, location: Location, name: str, /) -> str: ...
    def list_refs(self, location: Location, prefix: str, /, *, skip_broken: bool) -> dict[str, str]: ...
    def symbolic(self, location: Location, /) -> dict[str, str]: ...
    def is_file(self, name: str, /) -> bool: ...
    def root_refs(self, location: Location, /) -> dict[str, str]: ...
    def own_refs(self, location: Location, /) -> dict[str, str]: ...
    def same_name(self, location: Location, name: str, /) -> str | None: ...
    def transaction(
        self, location: Location, name: str, new: str, old: str | None, reflog: ReflogEntry | None, /
    ) -> AbstractContextManager[Callable[[], None]]: ...
    def are_locked_by_caller(self, location: Location, /) -> bool: ...
    def set_head(self, location: Location, head: Head, reflog: ReflogEntry, /) -> None: ...
    def has_head(self, location: Location, /) -> bool: ...
    def rebuild_head(self, location: Location, head: Head, /) -> None: ...
    def delete(self, location: Location, name: str, /, *, with_log: bool) -> None: ...
    def drop(self, location: Location, name: str, old: str | None, /) -> None: ...
    def damaged(self, location: Location, prefix: str, /) -> dict[str, str]: ...
    def repair(self, location: Location, name: str, new: str | None, /) -> None: ...
    def read_log(self, location: Location, name: str, /) -> list[bytes]: ...
    def logs(self, location: Location, /) -> dict[str, list[bytes]]: ...
    def shortened_logs(self, location: Location, since: int, /) -> list[str]: ...


def _backend(location: Location) -> Backend:
    # Each is imported when it is needed: a command has one repository.
    if location.format.refs == repository_format.FILES:
        from git_agentos.git.refs import files

        return files
    from git_agentos.git.refs import reftable

    return reftable


def _to_write(location: Location) -> Backend:
    """The backend, for a change. RepositoryError in a pre-receive hook, and where another process has moved the refs to
    another format (`git refs migrate`) since the repository was located: a backend would not see what git sees."""
    process.require_no_quarantine()
    if repository_format.read(location.common_dir).refs != location.format.refs:
        raise RepositoryError("the repository's refs have another format since this command began", "try again")
    return _backend(location)


# -- reading ----------------------------------------------------------------------------------------------------------


def read_head(location: Location) -> Head:
    """The current HEAD."""
    return _backend(location).read_head(location)


def has_head(location: Location) -> bool:
    """Whether there is a HEAD that can be read: a symbolic ref or an id, which need not lead to anything."""
    return _backend(location).has_head(location)


def resolve(location: Location, name: str) -> str | None:
    """The oid of a ref, through symbolic refs; None if it does not exist. RepositoryError if it cannot be read."""
    return _backend(location).resolve(location, name)


def target(location: Location, name: str) -> str:
    """The name of the ref to which a symbolic ref points; of any other ref, its own name."""
    return _backend(location).target(location, name)


def is_symbolic(location: Location, name: str) -> bool:
    """Whether a ref is symbolic."""
    return target(location, name) != name


def list_refs(location: Location, prefix: str, *, skip_broken: bool = False) -> dict[str, str]:
    """Name -> oid of every ref below `prefix` (which ends with a slash). RepositoryError if one is damaged; with
    `skip_broken`, damaged ones are left out."""
    return _backend(location).list_refs(location, prefix, skip_broken=skip_broken)


def symbolic(location: Location) -> dict[str, str]:
    """Name -> target of every symbolic ref below `refs/`, dangling ones included."""
    return _backend(location).symbolic(location)


def is_file(location: Location, name: str) -> bool:
    """Whether a ref outside of `refs/` (`ORIG_HEAD`, `CHERRY_PICK_HEAD`) is a file of that name in the worktree's git
    directory."""
    return _backend(location).is_file(name)


def root_refs(location: Location) -> dict[str, str]:
    """Name -> oid of the worktree's refs outside of `refs/` that are not files (`is_file`), without HEAD."""
    return _backend(location).root_refs(location)


def own_refs(location: Location) -> dict[str, str]:
    """Name -> oid of the refs that this worktree has for itself, without HEAD and without those that are files in its
    git directory."""
    return _backend(location).own_refs(location)


def damaged(location: Location, prefix: str) -> dict[str, str]:
    """Name -> error message of every ref below `prefix` that cannot be read."""
    return _backend(location).damaged(location, prefix)


def read_log(location: Location, name: str) -> list[bytes]:
    """The lines of a reflog, oldest first, in the form of git's files (`reflog` parses them); empty if there is none,
    or it cannot be read."""
    return _backend(location).read_log(location, name)


def logs(location: Location) -> dict[str, list[bytes]]:
    """Ref -> lines (as of `read_log`) of every reflog, of this worktree and of those that worktrees share."""
    return _backend(location).logs(location)


def shortened_logs(location: Location, since: int) -> list[str]:
    """The refs whose reflogs may have lost their first lines since a time (ns since the epoch). Where a backend cannot
    know when lines were lost, refs whose reflogs were written since and do not begin with the first commit."""
    return _backend(location).shortened_logs(location, since)


def check_spelling(
    location: Location,
    name: str,
    error: type[AgentosError] = RepositoryError,
    hint: str = "choose another name",
    *,
    kind: str = "ref",
    prefix: str = "",
) -> None:
    """`error` if the file system takes another ref for the new ref `name`; it calls both a `kind`, without `prefix`."""
    other = _backend(location).same_name(location, name)
    if other is not None:
        one, two = (each.removeprefix(prefix) for each in (other, name))
        raise error(f"a {kind} '{one}' exists already, and this file system takes '{two}' for the same name", hint)


# -- changing ---------------------------------------------------------------------------------------------------------


def update(
    location: Location,
    name: str,
    new: str,
    old: str | None,
    reflog: ReflogEntry | None = None,
    ready: Callable[[], None] | None = None,
) -> None:
    """Set a ref to `new` if it is at `old` (None: if it does not exist); RefMoved otherwise.

    With `reflog`, a line is added to its reflog, and to HEAD's where HEAD is on that branch. `ready` is called just
    before the ref moves, and writes again what has been deleted of `new` (without it: MissingObjectsError); if it
    raises, the ref does not move.
    """
    try:
        _update(location, name, new, old, reflog, ready)
    except MissingObjectsError:
        # A gc has deleted `new`, and git does not prepare the change of a ref to an object that is gone.
        if ready is None:
            raise
        ready()
        _update(location, name, new, old, reflog, ready)


def _update(
    location: Location,
    name: str,
    new: str,
    old: str | None,
    reflog: ReflogEntry | None,
    ready: Callable[[], None] | None,
) -> None:
    with transaction(location, name, new, old, reflog) as commit:
        if ready is not None:
            ready()
        commit()


def transaction(
    location: Location, name: str, new: str, old: str | None, reflog: ReflogEntry | None = None
) -> AbstractContextManager[Callable[[], None]]:
    """Lock a ref that is at `old`, and yield the function that sets it to `new`; if that is not called, the ref does
    not move. RefMoved if it is not at `old`. No other ref may be changed meanwhile: a lock may hold all of them."""
    backend = _to_write(location)
    if old is None:
        check_spelling(location, name)
    return backend.transaction(location, name, new, old, reflog)


def are_locked_by_caller(location: Location) -> bool:
    """Whether no shared ref can be changed before the git command ends that has called this process, as a hook: it
    has locked all of them."""
    return _backend(location).are_locked_by_caller(location)


def set_head(location: Location, head: Head, *, reason: str, who: str) -> None:
    """Point HEAD at a branch (born or not), or at a commit."""
    if head.ref is None and head.commit is None:
        raise ValueError("a detached HEAD needs a commit")
    _to_write(location).set_head(location, head, ReflogEntry(reason, who))


def rebuild_head(location: Location, head: Head) -> None:
    """Make HEAD again where it is missing or damaged, in an entry that may have nothing else."""
    _to_write(location).rebuild_head(location, head)


def delete(location: Location, name: str, *, with_log: bool = False) -> None:
    """Remove a ref that is not packed, with its reflog if `with_log`: a per-worktree ref, or one just created."""
    _to_write(location).delete(location, name, with_log=with_log)


def drop(location: Location, name: str, old: str | None) -> None:
    """Remove a ref, packed or not, with its reflog, if it is at `old` or gone already; RefMoved otherwise."""
    _to_write(location).drop(location, name, old)


def repair(location: Location, name: str, new: str | None) -> None:
    """Set a ref that cannot be read to `new`, or remove it."""
    _to_write(location).repair(location, name, new)
