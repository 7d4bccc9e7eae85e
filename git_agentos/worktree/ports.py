"""A block of ports for each worktree, which no other worktree of the user has.

    <configuration folder>/git-agentos/ports.json     {"version", "blocks": [{"git_dir", "base", "count"}]}
    <configuration folder>/git-agentos/ports.lock     flock(2): one process at a time reserves a block

A block belongs to git's entry of a worktree (`git_dir`), and is free again when that is gone, however it went: nothing
has to be given back. While a whole repository is missing, as on a disk that is not mounted, its blocks are only taken
when there are no others. The records of the repository's worktrees count as well, so a file that is lost or damaged
is made again.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import socket
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from git_agentos import config
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, AgentosWarning, WorktreeError, system_reason
from git_agentos.git.location import Location
from git_agentos.guard import signing
from git_agentos.util import directories, files, locks
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.worktree import record
from git_agentos.worktree.record import Record

# Above the ports of usual services, below those that systems give to outgoing connections.
FIRST, LAST = 20000, 32767
VARIABLES = (config.PORT_BASE, config.PORT_COUNT)
_FILE, _LOCK = "ports.json", "ports.lock"
_VERSION = 1


class Block(NamedTuple):
    """The ports from `base` to `end - 1` of the worktree with the entry `git_dir`."""

    git_dir: str
    base: int
    end: int

    def overlaps(self, other: Block) -> bool:
        return self.base < other.end and other.base < self.end


@dataclass(frozen=True)
class WorktreeEnvironment:
    """The JSON kind `worktree-env`: the variables that commands in the worktree `id` get."""

    id: str
    variables: dict[str, str]


def environment(context: OpenWorktree, id_: str | None = None) -> WorktreeEnvironment:
    """The variables of the agent's worktree `id_`, by default of `context`; WorktreeError where there is none."""
    common_dir, git_dir = context.location.common_dir, context.location.git_dir
    known = record.read(git_dir) if id_ is None else record.find(common_dir, id_).record
    if known is None:
        raise WorktreeError("this is no agent's worktree", "git agentos worktree env ID")
    return WorktreeEnvironment(known.id, variables(known))


def reserve(location: Location, git_dir: str, count: int, environment: Mapping[str, str], wanted: int | None) -> int:
    """Reserve `count` ports for the worktree with the entry `git_dir` of the repository at `location`; the first.

    No other worktree has one of them, and no program listens on one now. `wanted` is the first port to try.
    WorktreeError where there is no such block, or it cannot be written down.
    """
    folder = signing.folder(environment)
    try:
        directories.make(folder)
        with locks.hold(os.path.join(folder, _LOCK)):
            path = os.path.join(folder, _FILE)
            known = [each for each in _known(path, location) if each.git_dir != git_dir]
            base = _find(known, count, wanted)
            if base is None:
                known = [each for each in known if os.path.isdir(each.git_dir)]
                base = _find(known, count, wanted)
            if base is None:
                raise WorktreeError(
                    f"no {count} ports in a row are free between {FIRST} and {LAST}",
                    "archive worktrees that are not needed any more, or lower agentos.ports",
                )
            _write(path, [*known, Block(git_dir, base, base + count)])
            return base
    except OSError as error:
        raise WorktreeError(
            f"no ports can be reserved: '{folder}': {system_reason(error)}",
            "make it writable, or leave agentos.ports out (git -c agentos.ports=0 agentos ...)",
        ) from error


def variables(known: Record | None) -> dict[str, str]:
    """What commands in a worktree get in their environment: its ports, if it has some."""
    if known is None or known.port_base is None:
        return {}
    return dict(zip(VARIABLES, (str(known.port_base), str(known.port_count)), strict=True))


def variables_of(git_dir: str) -> dict[str, str]:
    """The same of the worktree with this git directory; a damaged record says nothing."""
    with contextlib.suppress(AgentosError):
        return variables(record.read(git_dir))
    return {}


def without(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without the ports of the worktree in which the caller is."""
    return {key: value for key, value in environment.items() if key not in VARIABLES}


def _known(path: str, location: Location) -> list[Block]:
    """The blocks that are not free: those in the file, and those of this repository's records."""
    own = [
        Block(each.git_dir, each.record.port_base, each.record.port_base + each.record.port_count)
        for each in record.agent_worktrees(location.common_dir)
        if each.record.port_base is not None and is_possible(each.record.port_base, each.record.port_count)
    ]
    names = {each.git_dir for each in own}
    kept = [each for each in _read(path) if each.git_dir not in names and _is_used(each)]
    # Of a repository that was moved, the file has the block by its old name.
    return [*own, *(each for each in kept if os.path.isdir(each.git_dir) or not _has_block(own, each))]


def is_possible(base: int, count: int) -> bool:
    """Whether a worktree can have got these ports: a record can come from elsewhere, and agents can write to it."""
    return 0 < count <= config.MOST_PORTS and FIRST <= base <= LAST - count + 1


def _has_block(blocks: Iterable[Block], other: Block) -> bool:
    return any((each.base, each.end) == (other.base, other.end) for each in blocks)


def _is_used(block: Block) -> bool:
    """Whether a worktree has the block, or may have it: its repository is missing."""
    common_dir = os.path.dirname(os.path.dirname(block.git_dir))
    return record.id_of(block.git_dir) is not None or not os.path.isdir(common_dir)


def _find(known: list[Block], count: int, wanted: int | None) -> int | None:
    """The first port of a free block."""
    first: list[int] = [] if wanted is None or not is_possible(wanted, count) else [wanted]
    for base in itertools.chain(first, range(FIRST, LAST - count + 2, count)):
        block = Block("", base, base + count)
        if not any(each.overlaps(block) for each in known) and all(_is_free(base + n) for n in range(count)):
            return base
    return None


def _is_free(port: int) -> bool:
    """Whether no program has a TCP port, on any address."""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as one:
                if family == socket.AF_INET6:
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                one.bind((address, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            # The system has no such addresses.
    return True


def _read(path: str) -> list[Block]:
    """The blocks in the file; of one that is damaged none, with a warning."""
    found = []
    try:
        rows = files.read_object(path)["blocks"]
        for row in rows:
            base, count, git_dir = row["base"], row["count"], row["git_dir"]
            if not (type(base) is int and type(count) is int and isinstance(git_dir, str)):
                raise TypeError("it has no ports")
            if not is_possible(base, count):
                raise ValueError("its ports are not ours")
            found.append(Block(git_dir, base, base + count))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError):
        kept = f"{path}.damaged"
        with contextlib.suppress(OSError):
            os.replace(path, kept)
        message = f"'{path}' was damaged, and is made again: other repositories may have the same ports"
        warnings.warn(AgentosWarning(message), stacklevel=2)
        return []
    return found


def _write(path: str, blocks: Iterable[Block]) -> None:
    rows = [
        {"git_dir": each.git_dir, "base": each.base, "count": each.end - each.base}
        for each in sorted(blocks, key=lambda each: each.base)
    ]
    body = {"version": _VERSION, "blocks": rows}
    files.replace(path, json.dumps(body, indent=1).encode("ascii") + b"\n", mode=0o600)
