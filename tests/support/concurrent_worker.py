"""One process of many: `python -m tests.support.concurrent_worker VERB WHERE COUNT [ID…]`.

It says `ready`, waits for its stdin to close, and does its work; then it prints one JSON list, an item for each turn:
`{"id": …}` or `{"error": message, "kind": …}`.

    checkpoint   COUNT checkpoints
    restore      COUNT restores, going round the given ids
    write        rewrites the files below WHERE in place until it is killed, COUNT bytes each
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sys
from pathlib import Path


def consistent(number: int, size: int) -> bytes:
    """A content of `size` bytes that ends with a line that proves it whole."""
    line = b"%d\n" % number
    body = (line * (size // len(line) + 1))[: size - 66]
    return body + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n"


def is_consistent(data: bytes) -> bool:
    return hashlib.sha256(data[:-66]).hexdigest().encode() == data[-65:-1]


def _write(where: Path, size: int) -> None:
    for number in itertools.count():
        for name in sorted(os.listdir(where)):
            if not name.startswith("."):
                # One write of the whole: at rest the file is consistent at every moment.
                descriptor = os.open(where / name, os.O_WRONLY)
                os.pwrite(descriptor, consistent(number, size), 0)
                os.close(descriptor)


def main() -> None:
    from git_agentos import open_workspace
    from git_agentos.errors import AgentosError

    verb, where, count, ids = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    print("ready", flush=True)
    sys.stdin.read()
    if verb == "write":
        _write(where, count)
    done: list[dict[str, str]] = []
    for number in range(count):
        try:
            if verb == "checkpoint":
                done.append({"id": open_workspace(where).checkpoint(f"{os.getpid()} {number}").id})
            else:
                done.append({"id": open_workspace(where).restore(ids[number % len(ids)]).checkpoint})
        except AgentosError as error:
            done.append({"error": error.message, "kind": error.kind})
    print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main()
