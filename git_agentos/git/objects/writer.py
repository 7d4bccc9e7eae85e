"""Writing objects so that they are on disk when a checkpoint is reported.

Few objects are written loose, others as one pack (docs/decisions/022-small-packs.md). Nothing is visible before
`flush`; after it every object has been fsynced. git prunes what a killed writer leaves (`tmp_obj_*`, `tmp_pack_*`).

`loose` and `pack` have the formats.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType

from git_agentos.git.hash_algorithm import HashAlgorithm
from git_agentos.git.objects import loose
from git_agentos.git.objects.pack import Pack
from git_agentos.util.named_tuple import NamedTuple

_LOOSE_LIMIT = 4  # up to here each object is a file to sync; a pack takes three syncs, however many it has
# What is kept in memory until `flush`.
_BUFFER_OBJECTS = 1000
_BUFFER_BYTES = 16 << 20
_LIGHT = 1 << 20  # bytes that are written and synced in some milliseconds


class WrittenPack(NamedTuple):
    """A pack by its name (`pack-` and a checksum), how many objects it has, and its bytes."""

    name: str
    objects: int
    size: int


class ObjectWriter:
    """Collects the objects of one checkpoint and writes them together.

    `exists` says whether the store has an object already (a wrong "no" only causes a second copy), `on_disk` which of
    several exist on disk. Use it as a context manager. If it ends without `flush`, nothing is visible. When it ends
    after `flush`, the packs' keep files are removed, so end it only after a ref points at the objects.
    """

    def __init__(
        self,
        objects_dir: str,
        hash_algorithm: HashAlgorithm,
        exists: Callable[[str], bool],
        on_disk: Callable[[Iterable[str]], set[str]],
    ) -> None:
        self._dir = objects_dir
        self.hash = hash_algorithm
        self._exists = exists
        self._on_disk = on_disk
        self._found: dict[str, tuple[str, bytes]] = {}
        self._found_bytes = 0
        self._relied: dict[str, Callable[[], object]] = {}
        self._pending: dict[str, tuple[str, bytes]] = {}
        self._pending_bytes = 0
        self._trees: dict[str, bytes] = {}
        self._pack: Pack | None = None
        self._packed: set[str] = set()
        self._keeps: list[tuple[str, int]] = []
        self._flushed: dict[str, tuple[str, bytes]] = {}
        self._written_packs: list[WrittenPack] = []

    def __enter__(self) -> ObjectWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pack is not None:
            self._pack.abandon()
        for keep, descriptor in self._keeps:
            with contextlib.suppress(OSError):
                os.unlink(keep)
            os.close(descriptor)

    def write(self, kind: str, data: bytes, again: Callable[[str], object] | None = None) -> str:
        """Add an object; its oid.

        For an object that is in the store already, the data is kept for `rewrite_missing`; or, if the data is large and
        `again` (called with the oid) can write it again, only that function.
        """
        oid = self.hash.object_id(kind, data)
        if kind == "tree":
            self._trees[oid] = data
        if self._has(oid):
            return oid
        if self._exists(oid):
            if again is not None and self._found_bytes + len(data) > _BUFFER_BYTES:
                self.depend_on(oid, functools.partial(again, oid))
            elif oid not in self._found:
                self._found[oid] = (kind, data)
                self._found_bytes += len(data)
            return oid
        if self._pack is not None:
            self._pack.add(kind, oid, data)
            return oid
        self._pending[oid] = (kind, data)
        self._pending_bytes += len(data)
        if len(self._pending) > _BUFFER_OBJECTS or self._pending_bytes > _BUFFER_BYTES:
            self._open_pack()
        return oid

    def _has(self, oid: str) -> bool:
        """Whether this writer has written or collected the object."""
        if oid in self._pending or oid in self._flushed or oid in self._packed:
            return True
        return self._pack is not None and oid in self._pack

    def depend_on(self, oid: str, again: Callable[[], object]) -> None:
        """Depend on an object in the store; `again` rewrites it if a concurrent prune has removed it."""
        self._relied[oid] = again

    def pending_tree(self, oid: str) -> bytes | None:
        """A tree written through this writer, whether it is on disk yet or not."""
        return self._trees.get(oid)

    def write_stream(self, descriptor: int, size: int) -> str:
        """Add a blob of `size` bytes from an open file without holding it in memory.

        Raises FileChanged if the size of the file changes. Streams go to the pack, whose entries do not need the oid
        before the content.
        """
        return self._open_pack().add_stream(descriptor, size)

    def _open_pack(self) -> Pack:
        if self._pack is None:
            self._pack = Pack(os.path.join(self._dir, "pack"), self.hash)
            for oid, (kind, data) in self._pending.items():
                self._pack.add(kind, oid, data)
            self._pending.clear()
            self._pending_bytes = 0
        return self._pack

    def flush(self) -> None:
        """Write everything collected so far to disk durably."""
        if len(self._pending) > _LOOSE_LIMIT:
            self._open_pack()
        if self._pack is not None:
            pack, self._pack = self._pack, None
            self._finish(pack)
            self._packed.update(pack.oids)
        if self._pending:
            loose.write(self._dir, self._pending)
            self._flushed.update(self._pending)
            self._pending = {}
            self._pending_bytes = 0

    def _finish(self, pack: Pack) -> None:
        self._keeps.append(pack.finish())
        self._written_packs.append(WrittenPack(pack.name, len(pack), pack.size))

    @property
    def is_light(self) -> bool:
        """Whether `flush` takes milliseconds."""
        return self._pending_bytes + (self._pack.size if self._pack is not None else 0) <= _LIGHT

    @property
    def collected(self) -> list[str]:
        """The oids of the objects that `flush` will write."""
        return [*self._pending, *(self._pack.oids if self._pack is not None else ())]

    @property
    def loose(self) -> list[str]:
        """The oids of the loose objects that were written."""
        return list(self._flushed)

    @property
    def packs(self) -> list[WrittenPack]:
        """The packs that were written, but for those of `keep_without_ref`."""
        return list(self._written_packs)

    def repack_with_keep(self) -> None:
        """Write everything, existing objects included, into a pack with a keep file.

        Call this while a prune is running: it removes loose objects that no ref reached when it listed the refs, but
        never packs.
        """
        self.flush()
        self.rewrite_missing()
        relied = {oid: found for oid in self._relied if (found := loose.read(self._dir, oid)) is not None}
        self._pack_and_keep({**relied, **self._found, **self._flushed})

    def keep_without_ref(self) -> list[str]:
        """Write everything into packs whose keep files stay when this writer ends: for objects that no ref reaches yet.
        The paths of the keep files, which the caller removes when a ref reaches the objects.

        Large objects that were in the store already (`depend_on`) are left where they are.
        """
        self.flush()
        self._pack_and_keep({**self._found, **self._flushed})
        keeps, self._keeps = self._keeps, []
        self._written_packs = []  # they must stay as they are
        for _, descriptor in keeps:
            os.close(descriptor)
        return [path for path, _ in keeps]

    def _pack_and_keep(self, objects: Mapping[str, tuple[str, bytes]]) -> None:
        """Write a pack with a keep file."""
        if not objects:
            return
        pack = Pack(os.path.join(self._dir, "pack"), self.hash)
        try:
            for oid, (kind, data) in objects.items():
                pack.add(kind, oid, data)
            self._finish(pack)
        except BaseException:
            pack.abandon()
            raise

    def rewrite_missing(self) -> None:
        """Rewrite objects that a concurrent prune has removed before a ref pointed at them.

        This covers objects that were written, and those that were found in the store and may have been unreachable.
        """
        wanted = {**self._found, **self._flushed}
        there = self._on_disk([*wanted, *self._relied])
        lost = {oid: item for oid, item in wanted.items() if oid not in there}
        if lost:
            loose.write(self._dir, lost)
        for oid, again in self._relied.items():
            if oid not in there:
                again()
        if self._pending or self._pack is not None:
            self.flush()
