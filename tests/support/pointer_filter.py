"""A filter like git-lfs: the repository holds pointers, a folder holds the content.

`pointer_filter.py STORE clean|smudge` filters stdin to stdout; `pointer_filter.py STORE process` speaks git's
long-running protocol (gitattributes(5), "Long Running Filter Process").
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import BinaryIO

_HEAD = b"pointer v1\n"


def clean(store: Path, data: bytes) -> bytes:
    if data.startswith(_HEAD):
        return data
    digest = hashlib.sha256(data).hexdigest()
    store.mkdir(exist_ok=True)
    (store / digest).write_bytes(data)
    return _HEAD + b"oid %s\nsize %d\n" % (digest.encode(), len(data))


def smudge(store: Path, data: bytes) -> bytes:
    if not data.startswith(_HEAD):
        return data
    return (store / data.split()[3].decode()).read_bytes()


def _read_packet(stream: BinaryIO) -> bytes | None:
    length = stream.read(4)
    if len(length) < 4:
        raise SystemExit(0)
    size = int(length, 16)
    return None if size == 0 else stream.read(size - 4)


def _read_list(stream: BinaryIO) -> list[bytes]:
    packets = []
    while (packet := _read_packet(stream)) is not None:
        packets.append(packet)
    return packets


def _write_list(stream: BinaryIO, packets: list[bytes]) -> None:
    stream.writelines(b"%04x" % (len(packet) + 4) + packet for packet in packets)
    stream.write(b"0000")
    stream.flush()


def process(store: Path, source: BinaryIO, sink: BinaryIO) -> None:
    _read_list(source)
    _write_list(sink, [b"git-filter-server\n", b"version=2\n"])
    _read_list(source)
    _write_list(sink, [b"capability=clean\n", b"capability=smudge\n"])
    while True:
        request = dict(line.rstrip(b"\n").split(b"=", 1) for line in _read_list(source))
        data = b"".join(_read_list(source))
        result = (clean if request[b"command"] == b"clean" else smudge)(store, data)
        _write_list(sink, [b"status=success\n"])
        _write_list(sink, [result[at : at + 65000] for at in range(0, len(result), 65000)])
        _write_list(sink, [])


def main() -> None:
    store, verb = Path(sys.argv[1]), sys.argv[2]
    if verb == "process":
        process(store, sys.stdin.buffer, sys.stdout.buffer)
    else:
        data = sys.stdin.buffer.read()
        sys.stdout.buffer.write(clean(store, data) if verb == "clean" else smudge(store, data))


if __name__ == "__main__":
    main()
