"""Files in the object store, kept by a ref that points at a tree, without a commit or a history.

`git clean` and `rm` in a worktree cannot remove them. `git show REF:PATH` prints one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from git_agentos.errors import AgentosError, LockedError, RepositoryError
from git_agentos.git import consolidation, gc, refs, trees
from git_agentos.git.location import Location
from git_agentos.git.repository import Repository, Writer

Files = Mapping[bytes, trees.Entry]
_ATTEMPTS = 20


def open_store(location: Location) -> Repository:
    """The repository that all worktrees share: it exists even if the worktree `location` is gone."""
    top = location.common_dir.removesuffix("/.git")
    return Repository(location.worktree(top, location.common_dir))


def names(location: Location, prefix: str) -> list[str]:
    """The names of the refs below `prefix`, without the prefix; damaged ones are left out."""
    return [name.removeprefix(prefix) for name in refs.list_refs(location, prefix, skip_broken=True)]


def files(repository: Repository, name: str) -> Files:
    """The files of a ref by path; empty if there is no such ref, or it cannot be read."""
    try:
        oid = refs.resolve(repository.location, name)
        if oid is None or repository.kind(oid) != "tree":
            return {}
        return files_of(repository, oid)
    except AgentosError:
        return {}


def files_of(repository: Repository, tree: str) -> Files:
    """The files of a tree by path; what is no regular file, or has a path that leads elsewhere, is left out."""
    found = dict(trees.walk(repository, tree))
    return {path: entry for path, entry in found.items() if entry[0] == trees.REGULAR and _is_plain(path)}


def put(repository: Repository, name: str, make: Callable[[Writer], Files]) -> None:
    """Make a ref hold exactly the files that `make` returns, durably. The next gc removes its former files."""
    location = repository.location
    with repository.writer() as writer:
        tree = trees.build(writer, make(writer))
        writer.flush()
        for _ in range(_ATTEMPTS):
            try:
                old = refs.resolve(location, name)
            except RepositoryError:  # the ref is damaged
                refs.repair(location, name, None)
                continue
            if old == tree:
                return
            try:
                with gc.objects_in_use(location):
                    refs.update(location, name, tree, old, ready=writer.rewrite_missing)
            except refs.RefMoved:
                continue
            consolidation.note(repository, writer)
            return
    raise LockedError(f"cannot set the ref '{name}': other processes keep updating it", "try again")


def delete(location: Location, name: str) -> None:
    """Remove a ref, if it exists."""
    for _ in range(_ATTEMPTS):
        old = refs.resolve(location, name)
        if old is None:
            return
        try:
            refs.drop(location, name, old)
        except refs.RefMoved:
            continue
        return


def _is_plain(path: bytes) -> bool:
    """Whether a path stays below the folder to which it is written: a tree can be from anywhere."""
    return not any(part in (b"", b".", b"..") or b"\0" in part for part in path.split(b"/"))
