"""Loose objects: zlib of `<kind> SP <size> NUL <content>` at `objects/xx/yyyy…` (gitrepository-layout(5))."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence

from git_agentos.errors import RepositoryError
from git_agentos.git.hash_algorithm import HashAlgorithm
from git_agentos.git.objects.pack import deflate
from git_agentos.util import files

_ATTEMPTS = 10
_HEADER = 32  # bytes of the longest header
_BLOCK = 4096  # bytes of a file that surely contain the compressed header


def path(objects_dir: str, oid: str) -> str:
    """The file of a loose object."""
    return os.path.join(objects_dir, oid[:2], oid[2:])


def exists(objects_dir: str, oid: str) -> bool:
    """Whether one store has the object loose."""
    return os.path.exists(path(objects_dir, oid))


class LooseObjects:
    """The loose objects in some object stores. libgit2 does not read them: it waits forever for the end of a truncated
    one (libgit2 1.9)."""

    def __init__(self, stores: Sequence[str], hash_algorithm: HashAlgorithm) -> None:
        self._stores = stores
        self._hash = hash_algorithm

    def exists(self, oid: str) -> bool:
        return any(exists(store, oid) for store in self._stores)

    def read(self, oid: str) -> tuple[str, bytes] | None:
        """Kind and content of an object; None if it is not loose, RepositoryError if it is damaged."""
        for store in self._stores:
            try:
                found = read(store, oid)
            except (OSError, ValueError, zlib.error) as error:
                raise damaged(oid, str(error)) from error
            if found is not None:
                if self._hash.object_id(*found) != oid:
                    raise damaged(oid, "it has the content of another object")
                return found
        return None

    def header(self, oid: str) -> tuple[str, int] | None:
        """Kind and size of an object; None and RepositoryError as in `read`."""
        for store in self._stores:
            try:
                with open(path(store, oid), "rb") as file:
                    kind, size, _ = _header(zlib.decompressobj().decompress(file.read(_BLOCK), _HEADER))
                return kind, size
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, ValueError, zlib.error) as error:
                raise damaged(oid, str(error)) from error
        return None

    def with_prefix(self, prefix: str) -> Iterator[str]:
        """The oids that begin with a hex prefix of at least two digits."""
        folder, rest = prefix[:2], prefix[2:]
        for store in self._stores:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                for name in os.listdir(os.path.join(store, folder)):
                    if name.startswith(rest) and self._hash.is_oid(folder + name):
                        yield folder + name


def damaged(oid: str, reason: str) -> RepositoryError:
    """The error for an object that exists and cannot be read."""
    return RepositoryError(f"object {oid} cannot be read: {reason}", "git fsck shows details")


def read(objects_dir: str, oid: str) -> tuple[str, bytes] | None:
    """Kind and content of the loose object in one store; None if there is none. ValueError or zlib.error if it is
    damaged."""
    try:
        with open(path(objects_dir, oid), "rb") as file:
            data = zlib.decompress(file.read())
    except (FileNotFoundError, NotADirectoryError):
        return None
    kind, size, end = _header(data)
    if len(data) - end != size:
        raise ValueError("its size is not the one in its header")
    return kind, data[end:]


def _header(data: bytes) -> tuple[str, int, int]:
    """Kind, size, and where the content begins."""
    end = data.index(b"\0", 0, _HEADER)
    kind, _, size = data[:end].partition(b" ")
    return kind.decode("ascii"), int(size), end + 1


def write(objects_dir: str, objects: Mapping[str, tuple[str, bytes]]) -> None:
    """Write objects (oid -> kind and content) durably."""
    descriptors: list[int] = []
    try:
        for oid, (kind, data) in objects.items():
            header = b"%b %d\0" % (kind.encode(), len(data))
            descriptors.append(_write_one(objects_dir, oid, deflate(header + data)))
        # The last one first: its sync usually commits the others too.
        for descriptor in reversed(descriptors):
            files.sync(descriptor)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _write_one(objects_dir: str, oid: str, compressed: bytes) -> int:
    """Write one loose object under its name; the open descriptor, not yet synced."""
    folder = os.path.join(objects_dir, oid[:2])
    for attempt in range(_ATTEMPTS):
        temporary = os.path.join(folder, f"tmp_obj_{os.urandom(6).hex()}")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
        except FileNotFoundError:
            # The folder is new, or `git gc` has just removed it because it was empty.
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder)
            continue
        try:
            _write_all(descriptor, compressed)
            os.rename(temporary, os.path.join(folder, oid[2:]))
        except FileNotFoundError:
            os.close(descriptor)
            if attempt == _ATTEMPTS - 1:
                raise
            continue
        except BaseException:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        return descriptor
    raise FileNotFoundError(f"cannot create '{folder}': another process keeps removing it")


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
