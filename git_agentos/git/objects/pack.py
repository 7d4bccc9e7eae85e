"""Writing a pack and its version 2 index: gitformat-pack(5), with ids and checksums of the repository's hash algorithm.

The pack gets its name when it is complete, with a keep file that protects it until a ref points at its objects. git
prunes what a killed writer leaves (`tmp_pack_*`, `tmp_idx_*`).
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from git_agentos.git.hash_algorithm import HashAlgorithm
from git_agentos.util import files, locks

_CHUNK = 1 << 20
_KINDS = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}
_ATTEMPTS = 10
KEEP_MARK = b"git-agentos: a checkpoint is being written\n"


class FileChanged(Exception):
    """A file grew or shrank while it was being read."""


def deflate(data: bytes) -> bytes:
    """`data` as a zlib stream, with a window no larger than necessary: setting up and clearing the usual 256 KiB takes
    several times as long as compressing a source file."""
    window = min(15, max(9, len(data).bit_length()))
    stream = zlib.compressobj(1, zlib.DEFLATED, window, min(8, window - 7))
    return stream.compress(data) + stream.flush()


class Pack:
    """One pack that is being written, with its index."""

    def __init__(self, folder: str, hash_algorithm: HashAlgorithm) -> None:
        os.makedirs(folder, exist_ok=True)
        self._hash = hash_algorithm
        self._folder = folder
        self._path = os.path.join(folder, f"tmp_pack_{os.urandom(6).hex()}")
        self._file = open(self._path, "xb+", buffering=1 << 18)  # noqa: SIM115 (closed by finish or abandon)
        self._offset = 12
        self._entries: dict[str, tuple[int, int]] = {}  # oid -> crc32, offset
        self._file.write(struct.pack(">4sII", b"PACK", 2, 0))
        self.name = ""  # known when it is complete

    def __contains__(self, oid: str) -> bool:
        return oid in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def oids(self) -> Iterable[str]:
        return self._entries.keys()

    @property
    def size(self) -> int:
        """Its bytes so far, without the checksum."""
        return self._offset

    def add(self, kind: str, oid: str, data: bytes) -> None:
        encoded = _pack_header(_KINDS[kind], len(data)) + deflate(data)
        self._file.write(encoded)
        self._entries[oid] = (zlib.crc32(encoded), self._offset)
        self._offset += len(encoded)

    def add_stream(self, descriptor: int, size: int) -> str:
        start = self._offset
        digest = self._hash.new(b"blob %d\0" % size)
        deflate = zlib.compressobj(1)
        header = _pack_header(3, size)
        crc, written = zlib.crc32(header), len(header)
        self._file.write(header)
        seen = 0
        for chunk in _chunks(descriptor):
            seen += len(chunk)
            if seen > size:
                break
            digest.update(chunk)
            encoded = deflate.compress(chunk)
            crc, written = zlib.crc32(encoded, crc), written + len(encoded)
            self._file.write(encoded)
        if seen != size:
            self._file.seek(start)
            self._file.truncate()
            raise FileChanged
        encoded = deflate.flush()
        crc, written = zlib.crc32(encoded, crc), written + len(encoded)
        self._file.write(encoded)
        oid = digest.hexdigest()
        if oid in self._entries:
            self._file.seek(start)
            self._file.truncate()
        else:
            self._entries[oid] = (crc, start)
            self._offset += written
        return oid

    def finish(self) -> tuple[str, int]:
        """Complete pack and index under their names; the keep file and the descriptor that locks it."""
        digest = self._hash.new()
        self._file.seek(8)
        self._file.write(struct.pack(">I", len(self._entries)))
        self._file.seek(0)
        while chunk := self._file.read(_CHUNK):
            digest.update(chunk)
        self._file.write(digest.digest())
        self._file.flush()
        files.set_mode(self._file.fileno(), 0o444)
        os.fsync(self._file.fileno())
        self.name = f"pack-{digest.hexdigest()}"
        base = os.path.join(self._folder, self.name)
        index = self._index(digest.digest())
        keep = -1
        try:
            ready = self._write("tmp_idx_", lambda file: file.write(index))
            keep = os.open(base + ".keep", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            locks.acquire(keep, shared=True)
            os.write(keep, KEEP_MARK)
            self._place(base + ".pack", self._path, "tmp_pack_", self._copy)
            self._place(base + ".idx", ready, "tmp_idx_", lambda file: file.write(index))
        except BaseException:
            self.abandon()
            if keep >= 0:
                with contextlib.suppress(OSError):
                    os.unlink(base + ".keep")
                os.close(keep)
            raise
        self._file.close()
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            files.sync(folder)
        finally:
            os.close(folder)
        return base + ".keep", keep

    def _place(self, target: str, ready: str, prefix: str, write: Callable[[BinaryIO], object]) -> None:
        """Rename the complete file `ready` to its final name.

        A prune without a grace period removes unfinished packs and indexes, also ours, once. Then `write` writes the
        file again.
        """
        for attempt in range(_ATTEMPTS):
            try:
                os.rename(ready, target)
                return
            except BaseException as error:
                with contextlib.suppress(OSError):
                    os.unlink(ready)
                if not isinstance(error, FileNotFoundError) or attempt == _ATTEMPTS - 1:
                    raise
            ready = self._write(prefix, write)

    def _write(self, prefix: str, write: Callable[[BinaryIO], object]) -> str:
        """An unfinished file in the packs' folder; its path."""
        path = os.path.join(self._folder, prefix + os.urandom(6).hex())
        try:
            with open(path, "xb") as file:
                write(file)
                file.flush()
                files.set_mode(file.fileno(), 0o444)
                os.fsync(file.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise
        return path

    def _copy(self, into: BinaryIO) -> None:
        """Copy the pack, which is still open here even if its name was removed."""
        self._file.seek(0)
        import shutil  # few packs are copied, and it takes long to import

        shutil.copyfileobj(self._file, into, _CHUNK)

    def _index(self, pack_digest: bytes) -> bytes:
        rows = sorted((bytes.fromhex(oid), crc, offset) for oid, (crc, offset) in self._entries.items())
        fanout = [0] * 256
        for oid, _, _ in rows:
            fanout[oid[0]] += 1
        total = 0
        for n in range(256):
            total += fanout[n]
            fanout[n] = total
        large = [offset for _, _, offset in rows if offset >= 0x80000000]
        ranks = {offset: n for n, offset in enumerate(large)}
        data = b"".join(
            (
                b"\xfftOc",
                struct.pack(">I256I", 2, *fanout),
                b"".join(oid for oid, _, _ in rows),
                struct.pack(f">{len(rows)}I", *(crc for _, crc, _ in rows)),
                struct.pack(f">{len(rows)}I", *(0x80000000 | ranks[o] if o in ranks else o for _, _, o in rows)),
                struct.pack(f">{len(large)}Q", *large),
                pack_digest,
            )
        )
        return data + self._hash.new(data).digest()

    def abandon(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)


def remove_keep(path: str) -> None:
    """Remove a keep file, if it is there and ours."""
    with contextlib.suppress(OSError):
        if path.endswith(".keep") and files.read(path, limit=len(KEEP_MARK)) == KEEP_MARK:
            os.unlink(path)


def _pack_header(kind: int, size: int) -> bytes:
    byte = (kind << 4) | (size & 15)
    size >>= 4
    out = bytearray()
    while size:
        out.append(byte | 0x80)
        byte = size & 0x7F
        size >>= 7
    out.append(byte)
    return bytes(out)


def _chunks(descriptor: int) -> Iterator[bytes]:
    while chunk := os.read(descriptor, _CHUNK):
        yield chunk
