"""What is to be forgotten inside of checkpoints: paths, and texts. What of it is in which object."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from git_agentos.checkpoint import carrier, format
from git_agentos.errors import AgentosError, UsageError
from git_agentos.git import all_objects, ignore, trees
from git_agentos.git.repository import Repository, parse_commit
from git_agentos.retention.secret_texts import Secrets
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.progress import SILENT, counted

if TYPE_CHECKING:
    from git_agentos.util.progress import Progress

# Trees that this tool keeps by a ref, and writes again whenever something is added.
_OWN_TREES: tuple[frozenset[bytes], ...] = (frozenset({b"events.jsonl"}), frozenset({b"rows.json", b"place.json"}))


class Wanted(NamedTuple):
    """What is to be forgotten: paths that match one of `globs`, the patterns of gitignore(5) from the top of a
    worktree; and whatever has one of `secrets` in it."""

    globs: tuple[str, ...] = ()
    secrets: tuple[bytes, ...] = ()


class Redaction:
    """What is to be forgotten, and where it is. `affected` are all objects with a secret that were seen, `leftovers`
    commits and trees of this tool, some of which nothing reaches any more."""

    def __init__(self, repository: Repository, wanted: Wanted) -> None:
        for glob in wanted.globs:
            if not glob.strip() or glob.startswith("!") or "\n" in glob or "\0" in glob:
                raise UsageError(f"'{glob}' is not a pattern of paths", "give one as in .gitignore, without '!'")
        self._repository = repository
        self._globs = wanted.globs
        self.wanted = wanted
        self.secrets = Secrets(wanted.secrets)
        self.affected: dict[str, str] = {}
        self.leftovers: set[str] = set()
        self._seen: set[str] = set()
        self._matching: dict[bytes, bool] = {}

    @property
    def has_globs(self) -> bool:
        """Whether paths are to be forgotten."""
        return bool(self._globs)

    def scan(self, progress: Progress = SILENT) -> None:
        """Look through all objects. Without secrets, only commits and trees are read."""
        wanted = {"commit", "tree", "tag", "blob"} if self.secrets else {"commit", "tree"}
        oids = [oid for oid, kind in all_objects.kinds(self._repository) if kind in wanted and oid not in self._seen]
        contents = all_objects.read(self._repository, oids, overlap=self.secrets.longest)
        for each in counted(progress, "Searching objects", contents, len(oids)):
            self._seen.add(each.oid)
            if self.secrets.is_in(each.data):
                self.affected[each.oid] = each.kind
            if self._is_leftover(each):
                self.leftovers.add(each.oid)

    def _is_leftover(self, found: all_objects.Content) -> bool:
        if found.kind == "commit":
            if b"\nAgentos-" not in found.data:
                return False
            commit = parse_commit(found.oid, found.data)
            return carrier.is_carrier(commit) or format.version(commit) is not None
        if found.kind == "tree":
            names = trees.parse(found.data, self._repository.hash.raw_length).keys()
            return any(own <= names for own in _OWN_TREES)
        return False

    def has_secret(self, oid: str) -> bool:
        """Whether a blob has a secret in it; false if it cannot be read."""
        if oid not in self._seen:
            self._seen.add(oid)
            try:
                kind, data = self._repository.read(oid)
            except AgentosError:
                return False
            if self.secrets.is_in(data):
                self.affected[oid] = kind
        return oid in self.affected

    def matching(self, paths: Collection[bytes]) -> set[bytes]:
        """The paths that are to be forgotten by their names."""
        unknown = [path for path in paths if path not in self._matching]
        if unknown:
            found = self._by_globs(unknown)
            self._matching.update((path, path in found or self.secrets.is_in(path)) for path in unknown)
        return {path for path in paths if self._matching[path]}

    def _by_globs(self, paths: Sequence[bytes]) -> Iterable[bytes]:
        return ignore.matching_among(self._repository, paths, self._globs) if self._globs else ()
