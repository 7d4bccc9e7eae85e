"""The form that a timeline has on a remote if it is encrypted: a chain of bundles, which is only appended to.

    R <- E1 <- E2        all of the empty tree; R, which has no parents, is the beginning
          \\     \\
          D1    D2       the second parents: their trees have a bundle, encrypted, in pieces `0000.age`, `0001.age` …

A bundle (`git.bundle`) has one ref, the name that the timeline would have on the remote if it were not encrypted, and
the objects that are new in it. It continues the bundles before it, and commits of the branches and tags that the remote
had: these are the parents of its D, so that the remote keeps them, and that they come along when the chain is fetched.

The message of a D has the version of this form, and how many recipients there are. Nobody keeps a chain but the remote:
the last E, with its parents left out, is enough to append to it, and to fetch what comes after it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Sequence

from git_agentos.errors import AgentosError, CheckpointFormatError, RepositoryError
from git_agentos.git import bundle, quarantine, trees
from git_agentos.git.quarantine import Quarantine
from git_agentos.git.repository import parse_commit
from git_agentos.sync import encryption
from git_agentos.sync.encryption import Identity, NoKeyFits
from git_agentos.sync.names import RemoteTimeline
from git_agentos.util.named_tuple import NamedTuple

_VERSION = 1
_MESSAGE = "encrypted bundle of git-agentos\n\nAgentos-Bundle: {}\nAgentos-Recipients: {}\n"
_CHAIN = "encrypted bundles of git-agentos\n"
_WHO = "git-agentos <git-agentos>"  # nobody's name
_PIECE = 32 << 20  # bytes: many forges take no file of more than 100 MB
_PIECE_NAME = "%04d.age"
_PLAIN, _ENCRYPTED = "bundle", "bundle.age"


class End(NamedTuple):
    """The end of a chain: its last commit, and that commit raw, so that it can be written again."""

    tip: str
    raw: bytes


# -- appending ---------------------------------------------------------------------------------------------------------


class Contents(NamedTuple):
    """What a bundle has: what `tip`, a commit of the timeline, reaches, not `base`, which the bundles before have,
    and not `public`, the commits of the remote's branches and tags."""

    name: RemoteTimeline
    tip: str
    base: str | None
    public: Sequence[str]


def append(room: Quarantine, end: str | None, contents: Contents, recipients: Sequence[str]) -> End:
    """Append a bundle to the chain that ends with `end`, None: to a new one. Its new end, which is in the quarantine
    with all that it needs."""
    empty = room.repository.hash.empty_tree
    without = [*contents.public, *([] if contents.base is None else [contents.base])]
    ref = contents.name._replace(is_encrypted=False).on_remote
    continued = bundle.write(room, room.path(_PLAIN), ref, contents.tip, without)
    *pieces, tree = _write_encrypted(room, recipients)
    message = _MESSAGE.format(_VERSION, len(recipients))
    data = _commit(room, tree, _of_remote(room, continued, contents.base), message)
    previous = _commit(room, empty, [], _CHAIN).tip if end is None else end
    done = _commit(room, empty, [previous, data.tip], _CHAIN)
    # What a remote lists when it is asked, and what it says that it has when something is pushed, need not be the same.
    room.leave_out_parents(data.tip)
    _require_nothing_else(room, done.tip, {empty, *pieces, tree, data.tip, previous, done.tip})
    return done


def _write_encrypted(room: Quarantine, recipients: Sequence[str]) -> list[str]:
    """Encrypt the bundle that was written, and write it as blobs and, last, their tree."""
    with open(room.path(_PLAIN), "rb") as source, open(room.path(_ENCRYPTED), "wb") as target:
        encryption.encrypt(source, target, recipients)
    os.unlink(room.path(_PLAIN))
    made = []
    with open(room.path(_ENCRYPTED), "rb") as file:
        while piece := file.read(_PIECE):
            made.append(room.write("blob", piece))
    entries = {(_PIECE_NAME % number).encode("ascii"): (trees.REGULAR, oid) for number, oid in enumerate(made)}
    return [*made, room.write("tree", trees.serialise(entries))]


def _of_remote(room: Quarantine, continued: Iterable[str], base: str | None) -> list[str]:
    """The commits that a bundle continues and that the bundles before it do not have: so they are the remote's."""
    if base is None:
        return list(continued)
    wanted = "".join([*(f"{each}\n" for each in continued), f"^{base}\n"])
    found = set(room.git("rev-list", "--stdin", data=wanted.encode("ascii")).decode("ascii").split())
    return [each for each in continued if each in found]


def _commit(room: Quarantine, tree: str, parents: Iterable[str], message: str) -> End:
    stamp = f"{_WHO} {int(time.time())} +0000"
    lines = [
        f"tree {tree}",
        *(f"parent {each}" for each in parents),
        f"author {stamp}",
        f"committer {stamp}",
        "",
        message,
    ]
    raw = "\n".join(lines).encode("ascii")
    return End(room.write("commit", raw), raw)


def _require_nothing_else(room: Quarantine, tip: str, made: set[str]) -> None:
    """RepositoryError if a push of `tip` could transfer anything that was not encrypted, whatever the remote has."""
    rows = room.git("rev-list", "--objects", "--no-object-names", tip, "--")
    if not made.issuperset(rows.decode("ascii").split()):
        raise RepositoryError("more than the encrypted bundle would be pushed", "please report this as a bug")


# -- reading -----------------------------------------------------------------------------------------------------------


class Chain(NamedTuple):
    """What is to be read of a chain: its end, and the D of each bundle, oldest first."""

    end: End
    bundles: tuple[str, ...]


def unread(room: Quarantine, tip: str) -> Chain:
    """The bundles of a chain that was fetched into the quarantine, down to one of the commits whose parents are not
    here, or to its beginning. RepositoryError if it is no such chain."""
    empty = room.repository.hash.empty_tree
    out = room.git("rev-list", "--first-parent", "--no-commit-header", "--format=%H %T %P", tip, "--")
    rows = [line.split(" ") for line in out.decode("ascii").splitlines()]
    links = [[each for each in row if each] for row in rows]
    *links, beginning = links
    is_sound = len(beginning) == 2 and all(len(row) == 4 for row in links)
    if not is_sound or any(row[1] != empty for row in [*links, beginning]):
        raise RepositoryError("it is not a chain of encrypted bundles")
    raw = room.git("cat-file", "commit", tip)
    return Chain(End(tip, raw), tuple(row[3] for row in reversed(links)))


def read(
    room: Quarantine, bundles: Sequence[str], name: RemoteTimeline, by: Identity, reads: Callable[[int], None]
) -> str | None:
    """Decrypt bundles and write their objects to the quarantine; the commit of the timeline in the last one, None if
    there are none. `reads` is told the number of each, from 1 on. RepositoryError or CheckpointFormatError, which says
    what is wrong with one of them."""
    tip = None
    for number, oid in enumerate(bundles, 1):
        reads(number)
        try:
            tip = _read_one(room, oid, name, by)
        except NoKeyFits:
            raise
        except AgentosError as error:
            which = f"bundle {number} of {len(bundles)}"
            raise RepositoryError(f"{which} cannot be read: {error.message}", error.hint) from error
    return tip


def _read_one(room: Quarantine, oid: str, name: RemoteTimeline, by: Identity) -> str:
    commit = parse_commit(oid, room.git("cat-file", "commit", oid))
    version = re.search(rb"(?m)^Agentos-Bundle: ([0-9]{1,9})$", commit.message)
    if version is None:
        raise RepositoryError("it is no bundle of git-agentos")
    if int(version[1]) != _VERSION:
        raise CheckpointFormatError("a newer version of git-agentos has written it", "update git-agentos")
    with open(room.path(_ENCRYPTED), "wb") as file:
        for piece in _pieces(room, commit.tree):
            quarantine.run(room, ["cat-file", "blob", piece], stdout=file.fileno())
    plain = room.path(_PLAIN)
    with open(room.path(_ENCRYPTED), "rb") as source, open(plain, "wb") as target:
        encryption.decrypt(source, target, by)
    with open(plain, "rb") as file:
        header = bundle.read_header(file, room.repository.hash)
        if list(header.refs) != [name._replace(is_encrypted=False).on_remote]:
            raise RepositoryError("it was not encrypted as a part of this timeline")
        bundle.unpack(room, file, header)
    os.unlink(plain)
    return next(iter(header.refs.values()))


def _pieces(room: Quarantine, tree: str) -> list[str]:
    """The blobs of an encrypted bundle, in order."""
    try:
        entries = trees.parse(room.git("cat-file", "tree", tree), room.repository.hash.raw_length)
    except ValueError:
        entries = {}
    expected = [(_PIECE_NAME % number).encode("ascii") for number in range(len(entries))]
    if not entries or list(entries) != expected or any(mode != trees.REGULAR for mode, _ in entries.values()):
        raise RepositoryError("its tree has no encrypted bundle")
    return [oid for _, oid in entries.values()]
