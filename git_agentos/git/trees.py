"""Tree objects as bytes: parse, edit, list.

libgit2's TreeBuilder takes names as UTF-8 text only, and git's names are bytes, so trees are parsed and
written here. The format (git's `tree.c`): entries `<octal mode> SP <name> NUL <raw oid>`, sorted by name
as bytes, where a directory's name counts as if it ended with a slash. A raw oid has as many bytes as the repository's
hash algorithm gives it.

An edit reads and writes only the trees above a changed path, so its cost is proportional to the number of changes.
`find` looks up one path at a time, so the sources cache parsed trees (`Parsed`): a folder with thousands of files is
parsed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from git_agentos.git.hash_algorithm import HashAlgorithm

DIRECTORY = 0o040000
REGULAR = 0o100644
EXECUTABLE = 0o100755
SYMLINK = 0o120000
GITLINK = 0o160000

Entry = tuple[int, str]  # mode, hex oid
Change = Entry | None  # None removes the path


class TreeSource(Protocol):
    """A source of trees: raw by `read_tree`, parsed (and cached) by `entries`. The empty tree need not exist for it."""

    @property
    def hash(self) -> HashAlgorithm: ...

    def read_tree(self, oid: str, /) -> bytes: ...

    def entries(self, oid: str, /) -> Mapping[bytes, Entry]: ...


class TreeStore(TreeSource, Protocol):
    """A source of trees that also writes them."""

    def write_tree(self, data: bytes, /) -> str: ...


def parse(data: bytes, raw_length: int) -> dict[bytes, Entry]:
    """The entries of a raw tree with oids of so many bytes, in its order."""
    entries: dict[bytes, Entry] = {}
    position, end = 0, len(data)
    while position < end:
        space = data.index(b" ", position)
        nul = data.index(b"\0", space)
        mode = int(data[position:space], 8)
        position = nul + 1 + raw_length
        entries[data[space + 1 : nul]] = (mode, data[nul + 1 : position].hex())
    return entries


def folders_above(paths: Iterable[bytes]) -> set[bytes]:
    """All folders above `paths`; `b""`, the root, is always among them."""
    found = {b""}
    for path in paths:
        folder = path.rpartition(b"/")[0]
        while folder not in found:
            found.add(folder)
            folder = folder.rpartition(b"/")[0]
    return found


class Parsed:
    """A cache of parsed trees, by oid. Objects never change, so entries never expire.

    It holds at most `_MOST_ENTRIES` entries, and drops the least recently used trees; a few stay whatever their size.
    """

    _MOST_ENTRIES = 400_000
    _FEWEST_TREES = 16

    def __init__(self, raw_length: int) -> None:
        self._raw_length = raw_length
        self._trees: dict[str, dict[bytes, Entry]] = {}
        self._entries = 0

    def get(self, oid: str, read: Callable[[str], bytes]) -> Mapping[bytes, Entry]:
        """The entries of a tree, which `read` reads if it is not in the cache.

        The cache does not keep `read`, a method of the cache's owner: in a cycle of references, the owner would not end
        its `git cat-file` as soon as it is not needed any more.
        """
        found = self._trees.pop(oid, None)
        if found is None:
            found = parse(read(oid), self._raw_length)
            self._entries += len(found)
        self._trees[oid] = found  # the newest is last
        while self._entries > self._MOST_ENTRIES and len(self._trees) > self._FEWEST_TREES:
            self._entries -= len(self._trees.pop(next(iter(self._trees))))
        return found


def serialise(entries: Mapping[bytes, Entry]) -> bytes:
    """The raw tree of `entries`, sorted as git sorts."""

    def order(item: tuple[bytes, Entry]) -> bytes:
        return item[0] + b"/" if item[1][0] == DIRECTORY else item[0]

    return b"".join(
        b"%o %b\0%b" % (mode, name, bytes.fromhex(oid)) for name, (mode, oid) in sorted(entries.items(), key=order)
    )


class _Node:
    """The changes at and below one name."""

    __slots__ = ("below", "change", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self.change: Change = None
        self.below: dict[bytes, _Node] = {}


def edit(store: TreeStore, base: str, changes: Mapping[bytes, Change]) -> str:
    """The oid of `base` with `changes` applied; directories that become empty vanish.

    A path may turn from file to directory or back: setting `a` replaces everything below it, and setting `a/b`
    replaces a file `a`. A gitlink or file at `a` stays if the only changes below it are removals.
    """
    if not changes:
        return base
    top: dict[bytes, _Node] = {}
    for path, change in changes.items():
        level = top
        *parents, name = path.split(b"/")
        for part in parents:
            level = level.setdefault(part, _Node()).below
        node = level.setdefault(name, _Node())
        node.is_set, node.change = True, change
    return _edit(store, base, top) or store.write_tree(b"")


class _Folder:
    """A tree that is being changed; `parent` is None at the top. There is no recursion: folders may be a thousand
    levels deep."""

    __slots__ = ("base", "before", "changes", "entries", "has_other", "name", "parent")

    def __init__(
        self, base: str | None, changes: dict[bytes, _Node], parent: _Folder | None, name: bytes, has_other: bool
    ) -> None:
        self.base = base
        self.changes = changes
        self.parent = parent
        self.name = name
        self.has_other = has_other  # the parent has a folder, or will have nothing, at this name

    def begin(self, store: TreeStore) -> list[_Folder]:
        """Apply the changes in this folder itself; returns its subfolders that change."""
        self.entries = parse(store.read_tree(self.base), store.hash.raw_length) if self.base is not None else {}
        self.before = dict(self.entries)
        below = []
        for name, node in self.changes.items():
            if node.is_set and node.change is not None:
                self.entries[name] = node.change
                continue
            old = self.entries.get(name)
            if node.below:
                subtree = old[1] if old is not None and old[0] == DIRECTORY else None
                below.append(_Folder(subtree, node.below, self, name, subtree is not None or node.is_set))
            elif old is not None and old[0] != DIRECTORY:
                del self.entries[name]
        return below

    def finish(self, store: TreeStore) -> str | None:
        """Write the folder and add it to its parent; None if it is empty."""
        oid = None
        if self.entries:
            unchanged = self.base is not None and self.entries == self.before
            oid = self.base if unchanged else store.write_tree(serialise(self.entries))
        if self.parent is not None:
            if oid is not None:
                self.parent.entries[self.name] = (DIRECTORY, oid)
            elif self.has_other:
                self.parent.entries.pop(self.name, None)
        return oid


def _edit(store: TreeStore, base: str, changes: dict[bytes, _Node]) -> str | None:
    top = _Folder(base, changes, None, b"", False)
    folders = [top]
    for folder in folders:  # the list grows: parents come before their subfolders
        folders += folder.begin(store)
    for folder in reversed(folders[1:]):
        folder.finish(store)
    return top.finish(store)


def walk(store: TreeSource, oid: str, prefix: bytes = b"") -> Iterator[tuple[bytes, Entry]]:
    """Every path that is not a directory, with its entry, in tree order."""
    raw_length = store.hash.raw_length
    above = [(prefix, iter(parse(store.read_tree(oid), raw_length).items()))]
    while above:
        prefix, entries = above[-1]
        for name, (mode, child) in entries:
            if mode == DIRECTORY:
                above.append((prefix + name + b"/", iter(parse(store.read_tree(child), raw_length).items())))
                break
            yield prefix + name, (mode, child)
        else:
            above.pop()


def find(store: TreeSource, oid: str, path: bytes) -> Entry | None:
    """The entry at `path`, which may be a directory; None if there is none."""
    entry: Entry = (DIRECTORY, oid)
    for part in path.split(b"/"):
        if entry[0] != DIRECTORY:
            return None
        found = store.entries(entry[1]).get(part)
        if found is None:
            return None
        entry = found
    return entry


def diff(store: TreeSource, old: str, new: str) -> dict[bytes, tuple[Entry | None, Entry | None]]:
    """Path -> (old entry, new entry) of all files, symlinks and gitlinks that differ.

    Subtrees with equal oids are not read.
    """
    raw_length = store.hash.raw_length
    found: dict[bytes, tuple[Entry | None, Entry | None]] = {}
    waiting: list[tuple[str | None, str | None, bytes]] = [(old, new, b"")]
    while waiting:
        one, other, prefix = waiting.pop()
        if one == other:
            continue
        before = parse(store.read_tree(one), raw_length) if one is not None else {}
        after = parse(store.read_tree(other), raw_length) if other is not None else {}
        for name in before.keys() | after.keys():
            a, b = before.get(name), after.get(name)
            if a == b:
                continue
            path = prefix + name
            a_tree = a[1] if a is not None and a[0] == DIRECTORY else None
            b_tree = b[1] if b is not None and b[0] == DIRECTORY else None
            a_leaf = a if a_tree is None else None
            b_leaf = b if b_tree is None else None
            if a_leaf is not None or b_leaf is not None:
                found[path] = (a_leaf, b_leaf)
            if a_tree is not None or b_tree is not None:
                waiting.append((a_tree, b_tree, path + b"/"))
    return found


def build(store: TreeStore, files: Mapping[bytes, Entry]) -> str:
    """The tree of exactly these files."""
    return edit(store, store.hash.empty_tree, files) if files else store.write_tree(b"")
