"""The backend for refs in files: HEAD and refs, read and changed by compare-and-swap.

This is done here, and not by libgit2 or `git update-ref`, for two reasons: locks must be provably ours after the
process is killed (see `lockfile`), and no hook may run. The protocol is git's: create `<ref>.lock`, check the current
value, rename. Our own refs have no reflog; HEAD and branches get one if git would write one (gitrepository-layout(5)).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable, Iterator

from git_agentos.errors import AgentosError, RepositoryError, system_reason
from git_agentos.git import filesystem, lockfile, process
from git_agentos.git.hash_algorithm import is_any_oid
from git_agentos.git.location import Location
from git_agentos.git.refs.model import PER_WORKTREE, Head, ReflogEntry, RefMoved, is_per_worktree
from git_agentos.util import files

_PATIENCE = 15.0
_LONGEST = 1 << 16  # bytes of HEAD
_LARGEST_LOG = 1 << 32  # bytes


def _directory(location: Location, name: str) -> str:
    """The directory that holds a ref's file: the worktree's own for HEAD, pseudo refs and per-worktree refs."""
    return location.git_dir if is_per_worktree(name) else location.common_dir


def _path(location: Location, name: str) -> str:
    return os.path.join(_directory(location, name), name)


def read_head(location: Location) -> Head:
    path = os.path.join(location.git_dir, "HEAD")
    try:
        content = os.fsencode(os.readlink(path)) if os.path.islink(path) else _read(path)
    except FileNotFoundError as error:
        raise RepositoryError("HEAD is missing", "git fsck shows details") from error
    except OSError as error:
        reason = system_reason(error)
        raise RepositoryError(f"HEAD cannot be read: {reason}", "git fsck shows details") from error
    if content.startswith(b"ref:"):
        name = os.fsdecode(content[4:].strip())
        return Head(name, resolve(location, name))
    if content.startswith(b"refs/"):
        name = os.fsdecode(content.strip())
        return Head(name, resolve(location, name))
    text = content.strip().decode("ascii", "replace")
    if not location.hash.is_oid(text):
        raise RepositoryError("HEAD is damaged", "git fsck shows details")
    return Head(None, text)


def _read(path: str) -> bytes:
    # O_NONBLOCK: do not block on a pipe. Symbolic links are followed: old versions of git wrote symbolic refs so.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(found):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        if not stat.S_ISREG(found):
            raise OSError(errno.EINVAL, "not a regular file", path)
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def resolve(location: Location, name: str) -> str | None:
    try:
        return _resolve(location, name)
    except OSError as error:
        reason = system_reason(error)
        raise RepositoryError(f"the ref '{name}' cannot be read: {reason}", "git fsck shows details") from error


def _resolve(location: Location, name: str) -> str | None:
    for _ in range(6):
        try:
            content = _read(_path(location, name))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            # The ref is packed. It is read again in case a pack-refs ran between the first two reads.
            packed = _packed(location).get(name)
            if packed is not None:
                return packed
            try:
                content = _read(_path(location, name))
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None
        if content.startswith(b"ref:"):
            name = os.fsdecode(content[4:].strip())
            continue
        text = content.strip()[: location.hash.hex_length].decode("ascii", "replace")
        if location.hash.is_oid(text):
            return text
        raise RepositoryError(f"the ref '{name}' is damaged", "git fsck shows details")
    raise RepositoryError(f"the symbolic ref '{name}' is circular")


def target(location: Location, name: str) -> str:
    for _ in range(6):
        try:
            content = _read(_path(location, name))
        except OSError:
            break
        if not content.startswith(b"ref:"):
            break
        name = os.fsdecode(content[4:].strip())
    return name


def _packed(location: Location) -> dict[str, str]:
    try:
        data = _read(os.path.join(location.common_dir, "packed-refs"))
    except FileNotFoundError:
        return {}
    found = {}
    for line in data.split(b"\n"):
        if line and line[:1] not in b"#^":
            oid, _, name = line.partition(b" ")
            text = oid.decode("ascii", "replace")
            if location.hash.is_oid(text):
                found[os.fsdecode(name)] = text
    return found


def list_refs(location: Location, prefix: str, *, skip_broken: bool) -> dict[str, str]:
    # The files first: `git pack-refs` writes packed-refs before it removes them.
    loose: dict[str, str | None] = {}
    for name, _ in _loose_files(location, prefix):
        try:
            loose[name] = resolve(location, name)
        except RepositoryError:
            if not skip_broken:
                raise
            loose[name] = None
    found = {name: oid for name, oid in _packed(location).items() if name.startswith(prefix)} | loose
    return {name: oid for name, oid in sorted(found.items()) if oid is not None}


def symbolic(location: Location) -> dict[str, str]:
    found = {}
    for name, path in _loose_files(location, "refs/"):
        with contextlib.suppress(FileNotFoundError):
            content = os.fsencode(os.readlink(path)) if os.path.islink(path) else _read(path)
            if content.startswith(b"ref:") or os.path.islink(path):
                found[name] = os.fsdecode(content.removeprefix(b"ref:").strip())
    return dict(sorted(found.items()))


def _loose_files(location: Location, prefix: str) -> Iterator[tuple[str, str]]:
    """The refs below `prefix` that have a file of their own, with its path."""
    top = _path(location, prefix)
    for folder, _, names in os.walk(top):
        for file in names:
            if not file.endswith(".lock"):
                path = os.path.join(folder, file)
                yield prefix + os.path.relpath(path, top), path


def same_name(location: Location, name: str) -> str | None:
    """An existing ref, or folder of refs, that the file system takes for the new ref `name` or for a folder above it,
    although it is spelled in another way."""
    names = filesystem.names_of_refs(location)
    if names.are_distinct:
        return None
    wanted = os.fsencode(name).split(b"/")
    prefix = "/".join(name.split("/")[:2]) + "/"
    for each in [*_packed(location), *(found for found, _ in _loose_files(location, prefix))]:
        parts = os.fsencode(each).split(b"/")
        for n, (one, other) in enumerate(zip(wanted, parts, strict=False), 1):
            if one != other:
                if names.key(one) == names.key(other):
                    return os.fsdecode(b"/".join(parts[:n]))
                break
    return None


def is_file(name: str) -> bool:
    return not name.startswith("refs/")


def root_refs(location: Location) -> dict[str, str]:
    del location  # all are files
    return {}


def own_refs(location: Location) -> dict[str, str]:
    return {name: oid for prefix in PER_WORKTREE for name, oid in list_refs(location, prefix, skip_broken=True).items()}


def _lock(location: Location, path: str) -> lockfile.LockFile:
    return lockfile.acquire(location, path, patience=_PATIENCE)


@contextlib.contextmanager
def transaction(
    location: Location, name: str, new: str, old: str | None, reflog: ReflogEntry | None
) -> Iterator[Callable[[], None]]:
    path = _path(location, name)
    held = _lock(location, path)
    waiting = True
    try:
        actual = resolve(location, name)
        if actual != old:
            raise RefMoved(name, actual)
        os.write(held.descriptor, new.encode() + b"\n")
        if os.path.isdir(path) and not os.path.islink(path):
            _remove_empty(path)
        # What the caller checks before the commit is checked as late as possible.
        os.fsync(held.descriptor)

        def commit() -> None:
            nonlocal waiting
            waiting = False
            lockfile.commit(held, path, is_synced=True)
            if reflog is not None:
                _log_update(location, name, old, new, reflog)

        yield commit
    finally:
        if waiting:
            lockfile.release(held)


def damaged(location: Location, prefix: str) -> dict[str, str]:
    found = {}
    for name, _ in _loose_files(location, prefix):
        try:
            resolve(location, name)
        except RepositoryError as error:
            found[name] = error.message
    return found


def are_locked_by_caller(location: Location) -> bool:
    """False: each ref has a lock of its own."""
    del location
    return False


def repair(location: Location, name: str, new: str | None) -> None:
    target = _path(location, name)
    held = _lock(location, target)
    try:
        if new is None:
            os.unlink(target)
        else:
            os.write(held.descriptor, new.encode() + b"\n")
    except BaseException:
        lockfile.release(held)
        raise
    if new is None:
        lockfile.release(held)
    else:
        lockfile.commit(held, target)


def _remove_empty(folder: str) -> None:
    """Remove the empty directories that git leaves behind, so that a ref of that name can be created."""
    for top, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(top)


def set_head(location: Location, head: Head, reflog: ReflogEntry) -> None:
    before = read_head(location)
    held = _lock(location, os.path.join(location.git_dir, "HEAD"))
    try:
        if head.ref is not None:
            os.write(held.descriptor, b"ref: " + os.fsencode(head.ref) + b"\n")
        else:
            assert head.commit is not None
            os.write(held.descriptor, head.commit.encode() + b"\n")
    except BaseException:
        lockfile.release(held)
        raise
    lockfile.commit(held, os.path.join(location.git_dir, "HEAD"))
    _log(location, "HEAD", before.commit, head.commit, reflog)


def has_head(location: Location) -> bool:
    path = os.path.join(location.git_dir, "HEAD")
    return is_head_file(path) and not _names_no_branch(path)


def _names_no_branch(path: str) -> bool:
    """Whether a HEAD is a symbolic ref to anything but a branch, as the beginning of one is."""
    target = os.fsencode(os.readlink(path)) if os.path.islink(path) else files.read(path, limit=_LONGEST).strip()
    return target.startswith((b"ref:", b"refs/")) and not target.removeprefix(b"ref:").strip().startswith(
        b"refs/heads/"
    )


def is_head_file(path: str) -> bool:
    """Whether the file at `path` can be a HEAD: a symbolic ref or an id."""
    try:
        text = os.fsencode(os.readlink(path)) if os.path.islink(path) else files.read(path, limit=_LONGEST).strip()
    except OSError:
        return False
    if text.startswith(b"ref:"):
        text = text[4:].strip()
    return (text.startswith(b"refs/") and b"\0" not in text) or is_any_oid(text.decode("ascii", "replace"))


def rebuild_head(location: Location, head: Head) -> None:
    text = f"ref: {head.ref}\n" if head.ref is not None else f"{head.commit}\n"
    files.replace(os.path.join(location.git_dir, "HEAD"), os.fsencode(text))


def delete(location: Location, name: str, *, with_log: bool) -> None:
    if name in _packed(location):
        raise RepositoryError(f"the ref '{name}' is packed and cannot be removed file by file")
    held = _lock(location, _path(location, name))
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_path(location, name))
        if with_log:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(_log_path(location, name))
    finally:
        lockfile.release(held)


def drop(location: Location, name: str, old: str | None) -> None:
    """Remove a ref, packed or not, with its reflog, if it is at `old` or gone already; RefMoved otherwise.

    As in git, the packed value is removed first, so that it never becomes visible without the file.
    """
    held = _lock(location, _path(location, name))
    try:
        actual = resolve(location, name)
        if actual not in (old, None):
            raise RefMoved(name, actual)
        if name in _packed(location):
            _drop_packed(location, name)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_path(location, name))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_log_path(location, name))
    finally:
        lockfile.release(held)


def _drop_packed(location: Location, name: str) -> None:
    """Rewrite packed-refs without a ref."""
    target = os.path.join(location.common_dir, "packed-refs")
    held = _lock(location, target)
    try:
        kept = []
        dropping = False
        for line in _read(target).splitlines(keepends=True):
            if not line.startswith(b"^"):  # the commit of the annotated tag in the line before
                dropping = line[:1] != b"#" and line.rstrip(b"\n").partition(b" ")[2] == os.fsencode(name)
            if not dropping:
                kept.append(line)
        data = memoryview(b"".join(kept))
        while data:
            data = data[os.write(held.descriptor, data) :]
    except BaseException:
        lockfile.release(held)
        raise
    lockfile.commit(held, target)


# -- reflogs ----------------------------------------------------------------------------------------------------------


def read_log(location: Location, name: str) -> list[bytes]:
    try:
        data = files.read(_log_path(location, name), limit=_LARGEST_LOG, follow=True)
    except OSError:
        return []
    return data.removesuffix(b"\n").split(b"\n") if data else []


def logs(location: Location) -> dict[str, list[bytes]]:
    return {name: read_log(location, name) for name, _ in _log_files(location)}


def shortened_logs(location: Location, since: int) -> list[str]:
    found = []
    for name, path in _log_files(location):
        with contextlib.suppress(OSError):
            if os.lstat(path).st_ctime_ns >= since and not _begins(read_log(location, name)):
                found.append(name)
    return found


def _begins(lines: list[bytes]) -> bool:
    """Whether a reflog has the line of the ref's beginning."""
    return bool(lines) and not lines[0].split(b" ")[0].strip(b"0")


def _log_files(location: Location) -> Iterator[tuple[str, str]]:
    """Each ref with a reflog, and the path of that."""
    for git_dir in dict.fromkeys([location.git_dir, location.common_dir]):
        top = os.path.join(git_dir, "logs")
        for folder, _, names in os.walk(top):
            for path in (os.path.join(folder, name) for name in sorted(names) if not name.endswith(".lock")):
                name = os.path.relpath(path, top)
                if not os.path.islink(path) and _directory(location, name) == git_dir:
                    yield name, path


def _log_path(location: Location, name: str) -> str:
    return os.path.join(_directory(location, name), "logs", name)


def _log_update(location: Location, name: str, old: str | None, new: str, reflog: ReflogEntry) -> None:
    """Log that a ref was moved; as in git, for HEAD too if it is on that branch."""
    _log(location, name, old, new, reflog)
    if name.startswith("refs/heads/"):
        with contextlib.suppress(RepositoryError):
            if read_head(location).ref == name:
                _log(location, "HEAD", old, new, reflog)


def _log(location: Location, name: str, old: str | None, new: str | None, reflog: ReflogEntry) -> None:
    """Append to a reflog, as git does: if it exists, or core.logAllRefUpdates creates one. Reflog writes are best
    effort."""
    path = _log_path(location, name)
    if old is None and new is None:
        return
    if not os.path.exists(path) and not _begins_log(location, name):
        return
    stamp = f"{reflog.who} {int(time.time())} +0000"
    line = f"{old or location.hash.zero} {new or location.hash.zero} {stamp}\t{reflog.reason}\n"
    with contextlib.suppress(OSError):  # nothing depends on a reflog
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
        try:
            os.write(descriptor, os.fsencode(line))
        finally:
            os.close(descriptor)


def _begins_log(location: Location, name: str) -> bool:
    """Whether git creates a reflog for a ref that has none (core.logAllRefUpdates in git-config(1)). The repository has
    a worktree, so it does not count as bare."""
    args = ["config", "--get", "core.logAllRefUpdates"]
    try:
        found = process.run(args, cwd=location.root, env=location.environment(), ok=(0, 1))
    except AgentosError:
        return False
    value = found.decode("utf-8", "replace").strip().lower()
    if value == "always":
        return True
    if value in ("false", "no", "off", "0"):
        return False
    return name == "HEAD" or name.startswith(("refs/heads/", "refs/remotes/", "refs/notes/"))
