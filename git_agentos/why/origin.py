"""Where the lines of a file came into the versions that a timeline has of it.

Lines are followed back from version to version, as git diff pairs them, and through renames. A content that was there
before counts as that version: a restore, a checkout or a stash brings nothing new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from git_agentos.errors import MissingObjectsError, RepositoryError
from git_agentos.git import line_diff, trees
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.why.versions import History, Version

_MOST_RENAMED = 100  # files that are compared, where one may have been renamed
_ALIKE = 0.5  # the share of lines that a renamed file still has


class Origin(NamedTuple):
    """Where a line comes from: it came between the checkpoints `before` (-1: the beginning) and `position`.

    With `by_commit`, HEAD moved there and the line is in its commit, so it may come from anywhere. With `returned`, the
    file had had such a line before, and not right before.
    """

    before: int
    position: int
    by_commit: bool = False
    returned: bool = False


class Pending(NamedTuple):
    """Lines of a version that are followed: line of the version -> lines of what was asked for."""

    path: bytes
    version: int
    lines: dict[int, list[int]]


class Tracer:
    """Follows lines back in one timeline."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._repository = history.repository
        self._contents: dict[str, bytes] = {}

    def trace(self, content: bytes, path: bytes, lines: Iterable[int], before: int | None = None) -> dict[int, Origin]:
        """Line -> its origin, for lines of a file whose content is not in the timeline itself, but comes after it.

        With `before`, it comes after the checkpoint at this position. Lines without an origin are new.
        """
        if before is None:
            before = len(self._history.positions) - 1
        index = self._at(path, before)
        if index is None:
            return {}
        older = self._content(self._history.versions(path)[index].blob)
        same = line_diff.common(older, content)
        wanted: dict[int, list[int]] = {}
        for line in lines:
            if line in same:
                wanted.setdefault(same[line], []).append(line)
        found: dict[int, Origin] = {}
        pending = Pending(path, index, wanted)
        while pending.lines:
            pending = self._step(pending, found)
        return found

    def _at(self, path: bytes, position: int) -> int | None:
        """The index of the version at a position, or of the last one before."""
        versions = self._history.versions(path)
        return max((n for n, each in enumerate(versions) if each.position <= position), default=None)

    def _step(self, pending: Pending, found: dict[int, Origin]) -> Pending:
        """Follow lines to the version before; what is new in this one has its origin here."""
        history = self._history
        versions = history.versions(pending.path)
        blob = versions[pending.version].blob
        index = next(n for n, each in enumerate(versions) if each.blob == blob)
        version = versions[index]
        content = self._content(blob)
        older = self._older(pending.path, index)
        same = line_diff.common(self._content(older[2]), content) if older is not None else {}
        followed: dict[int, list[int]] = {}
        new: dict[int, list[int]] = {}
        for line, wanted in pending.lines.items():
            if line in same:
                followed.setdefault(same[line], []).extend(wanted)
            else:
                new[line] = wanted
        self._place(pending.path, version, new, found, older[2] if older is not None else None)
        if older is None:
            return Pending(pending.path, index, {})
        return Pending(older[0], older[1], followed)

    def _older(self, path: bytes, index: int) -> tuple[bytes, int, str] | None:
        """Path, index and blob of the version before, or of the file that was renamed to this one."""
        history = self._history
        versions = history.versions(path)
        position = versions[index].position
        if position > 0 and history.entry(history.positions[position - 1].tree, path) is None:
            renamed = self._renamed_from(versions[index])
            before = self._at(renamed, position - 1) if renamed is not None else None
            if renamed is not None and before is not None:
                return renamed, before, history.versions(renamed)[before].blob
        return (path, index - 1, versions[index - 1].blob) if index > 0 else None

    def _renamed_from(self, version: Version) -> bytes | None:
        """The file that was renamed to one with this version, right before it."""
        positions, repository, position = self._history.positions, self._repository, version.position
        delta = trees.diff(repository, positions[position - 1].tree, positions[position].tree)
        gone = [
            (name, old)
            for name, (old, new) in sorted(delta.items())
            if new is None and old is not None and old[0] in (trees.REGULAR, trees.EXECUTABLE)
        ]
        for name, old in gone:
            if old[1] == version.blob:
                return name
        content = self._content(version.blob)
        lines = len(line_diff.split(content))
        best, share = None, _ALIKE
        for name, old in gone[:_MOST_RENAMED]:
            other = self._content(old[1])
            most = max(lines, len(line_diff.split(other)))
            alike = len(line_diff.common(other, content)) / most if most else 0.0
            if alike > share:
                best, share = name, alike
        return best

    def _place(
        self,
        path: bytes,
        version: Version,
        new: Mapping[int, list[int]],
        found: dict[int, Origin],
        older: str | None,
    ) -> None:
        """Give lines that are new in a version their origin; `older` is the blob of the version before."""
        if not new:
            return
        position, content = version.position, self._content(version.blob)
        committed = self._committed(path, position, content)
        texts = line_diff.split(content)
        beside = set(line_diff.split(self._content(older))) if older is not None else set()
        seen = self._first_seen(path)
        for line, wanted in new.items():
            returned = texts[line] not in beside and seen.get(texts[line], position) < position
            origin = Origin(position - 1, position, line in committed, returned)
            found.update(dict.fromkeys(wanted, origin))

    def _committed(self, path: bytes, position: int, content: bytes) -> Mapping[int, int]:
        """The lines of a version that are in HEAD's commit, if HEAD has moved there."""
        history = self._history
        head = history.positions[position].head
        if head is None or not history.head_moved(position):
            return {}
        try:
            entry = history.entry(self._repository.commit_tree(head), path)
        except (MissingObjectsError, RepositoryError):
            return dict.fromkeys(range(len(line_diff.split(content))), 0)
        if entry is None or entry[0] not in (trees.REGULAR, trees.EXECUTABLE):
            return {}
        return line_diff.common(self._content(entry[1]), content)

    def _first_seen(self, path: bytes) -> Mapping[bytes, int]:
        """Text of a line -> the position of the first version that had it."""
        if path not in self._seen:
            seen: dict[bytes, int] = {}
            for version in self._history.versions(path):
                for text in set(line_diff.split(self._content(version.blob))):
                    seen.setdefault(text, version.position)
            self._seen[path] = seen
        return self._seen[path]

    @cached_property
    def _seen(self) -> dict[bytes, Mapping[bytes, int]]:
        return {}

    def _content(self, blob: str) -> bytes:
        if blob not in self._contents:
            self._contents[blob] = self._repository.blob(blob)
        return self._contents[blob]
