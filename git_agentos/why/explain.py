"""A file, line by line: which commit, checkpoint and turn each line comes from.

The worktree's own timeline is asked first: its versions of the file say between which two checkpoints a line came, and
the turns who was at work then (`origin`, `windows`). Lines that came with commits may have been written in another
worktree: then the timelines of those in whose history the commit was made, or its like before a rebase, are asked in
the same way. A turn is named only if no other can have written the line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cached_property

from git_agentos import log
from git_agentos.checkpoint import creation, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import CheckpointNotFound, MissingObjectsError, RepositoryError, UsageError
from git_agentos.git import line_diff, merge_tree, refs, trees
from git_agentos.turns import record
from git_agentos.turns.listing import Turn
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.progress import phase
from git_agentos.why import commits
from git_agentos.why.commits import Arrivals, Blamed, Reflog
from git_agentos.why.origin import Origin, Tracer
from git_agentos.why.versions import History
from git_agentos.why.windows import Log, Windows


class Line(NamedTuple):
    """One line; the fields are the keys in the JSON kind `why`.

    `commit` is the commit that git blame names (None: it is not committed), `checkpoint` the first one with the line in
    the timeline in which it was written (None: it is in none yet, or older than all). `turn` is the turn that wrote it,
    with its session and prompt; None if no turn did, or that cannot be told. `created_at` is the time of the
    checkpoint, else of the commit.
    """

    line: int
    text: str
    commit: str | None
    checkpoint: str | None
    agent_id: str | None
    session_id: str | None
    turn: str | None
    prompt: str | None
    created_at: str | None


class Why(NamedTuple):
    """Where the lines of a file come from; the fields are the keys of the JSON kind `why`."""

    path: str
    lines: list[Line]


def why(worktree: OpenWorktree, path: bytes, line: int | None = None) -> Why:
    """Where the lines of a file in the worktree come from, or only one of them, counted from 1.

    CheckpointNotFound if there is no such file, or git ignores it; UsageError if it has no such line.
    """
    content = _content(worktree, path)
    texts = line_diff.split(content)
    name = os.fsdecode(path)
    if line is not None and not 1 <= line <= len(texts):
        raise UsageError(f"'{name}' has no line {line}", f"it has {len(texts)}")
    wanted = range(len(texts)) if line is None else [line - 1]
    with phase(worktree.progress, "Searching where lines come from"):
        found = _Explanation(worktree, path, content, wanted, None if line is None else line - 1)
        return Why(name, [found.line(n, texts[n]) for n in wanted])


def _content(worktree: OpenWorktree, path: bytes) -> bytes:
    """The file as git would store it."""
    with merge_tree.discarding_writer(worktree.repository) as writer:
        state = creation.preview_worktree(worktree, writer)
        entry = trees.find(writer, state.visible_tree, path)
        name = os.fsdecode(path)
        if entry is None:
            raise CheckpointNotFound(f"there is no file '{name}' in the worktree, or git ignores it")
        if entry[0] not in (trees.REGULAR, trees.EXECUTABLE):
            raise UsageError(f"'{name}' is not a regular file")
        writer.flush()
        return worktree.repository.git("cat-file", "blob", entry[1], env=writer.environment)


class _Knowledge:
    """What the timeline of one worktree knows."""

    def __init__(self, worktree: OpenWorktree, name: str, known: Log) -> None:
        self.history = History(worktree.repository, name)
        self.tracer = Tracer(self.history)
        self._lines: dict[bytes, frozenset[bytes]] = {}
        self.windows = Windows(self.history, known)
        self.head = self._head(worktree)
        self.arrivals = Arrivals(self.history, self.head)

    def _head(self, worktree: OpenWorktree) -> str | None:
        """The commit of the worktree's HEAD; of its last branch, if the worktree is gone."""
        for where in worktree.all_worktrees():
            if timeline.worktree_id(where) == self.history.name:
                return refs.read_head(where).commit
        ref = self.history.newest_ref()
        return refs.resolve(worktree.location, ref) if ref is not None else None

    def newest(self, path: bytes) -> bytes:
        """The file at a path as the newest checkpoint has it; empty where there is none."""
        return self.history.newest(path)

    def newest_lines(self, path: bytes) -> frozenset[bytes]:
        if path not in self._lines:
            self._lines[path] = frozenset(line_diff.split(self.newest(path)))
        return self._lines[path]

    def turn_of(self, origin: Origin) -> Turn | None:
        """The turn of a line that did not come with a commit."""
        return None if origin.returned else self.windows.turn_between(origin.before, origin.position)


class _Explanation:
    """The lines `wanted` of a file; `only` is the only one."""

    def __init__(
        self, worktree: OpenWorktree, path: bytes, content: bytes, wanted: Iterable[int], only: int | None
    ) -> None:
        self._worktree = worktree
        self._repository = worktree.repository
        self._path = path
        self._blamed = commits.blame(worktree.repository, path, only)
        self._here = self._knowledge(worktree.worktree_id)
        self._reflog = Reflog(worktree.repository)
        self._origins = self._here.tracer.trace(content, path, wanted)
        self._traces: dict[tuple[str, str, bytes], Mapping[int, Origin]] = {}

    def line(self, number: int, text: bytes) -> Line:
        """One line, counted from 0."""
        blamed = self._blamed.get(number)
        origin = self._origins.get(number)
        commit = blamed.commit if blamed is not None else None
        known, turn = self._here, None
        if origin is not None and (not origin.by_commit or self._was_made_here(origin)):
            turn = known.turn_of(origin)
            typed = known.history.positions[origin.position].said("event") == "edit"
            if turn is not None and not typed and self._is_from_elsewhere(text, commit):
                turn = None
        elif blamed is not None and (origin is None or origin.by_commit):
            origin = None
            found = self._written_elsewhere(blamed)
            if found is not None:
                known, origin, turn = found
        created_at = commits.time_of(self._repository, commit) if commit is not None else None
        result = Line(
            line=number + 1,
            text=os.fsdecode(text.removesuffix(b"\n")),
            commit=commit,
            checkpoint=None,
            agent_id=None,
            session_id=None,
            turn=None,
            prompt=None,
            created_at=created_at,
        )
        if origin is None:
            return result
        position = known.history.positions[origin.position]
        result = result._replace(checkpoint=position.checkpoint, created_at=position.created_at)
        if turn is not None:
            return result._replace(agent_id=turn.agent_id, session_id=turn.session_id, turn=turn.id, prompt=turn.prompt)
        if position.said("harness") is None and not origin.returned:
            session = position.meta.get("session_id")
            return result._replace(agent_id=position.meta.get("created_by"), session_id=session)
        return result

    # -- lines that came with commits ----------------------------------------------------------------------------------

    def _was_made_here(self, origin: Origin) -> bool:
        """Whether the commits that came with a line were made in this worktree, from what was in it."""
        positions = self._here.history.positions
        head = positions[origin.position].head
        if origin.before < 0 or head is None:
            return False
        return self._reflog.made_between(positions[origin.before].head, head)

    def _is_from_elsewhere(self, text: bytes, commit: str | None) -> bool:
        """Whether a line that a command may have brought was written in another worktree: by a squash merge, a patch, a
        copy, an entry of the stash. One that is there because it was committed here does not count."""
        for known in self._others:
            content = known.newest(self._path)
            if text not in known.newest_lines(self._path):
                continue
            if commit is not None and known.head is not None and self._is_ancestor(commit, known.head):
                continue
            lines = [n for n, each in enumerate(line_diff.split(content)) if each == text]
            origins = known.tracer.trace(content, self._path, lines).values()
            if any(each.before >= 0 and not each.by_commit for each in origins):
                return True
        return False

    def _is_ancestor(self, older: str, newer: str) -> bool:
        try:
            return self._repository.is_ancestor(older, newer)
        except (MissingObjectsError, RepositoryError):
            return False

    def _written_elsewhere(self, blamed: Blamed) -> tuple[_Knowledge, Origin, Turn] | None:
        """The timeline, the origin and the turn of a line that another worktree committed; None if no turn of another
        worktree wrote it, or more than one may have."""
        found = {}
        for known in self._others:
            traced = self._traced(known, blamed)
            if traced is not None:
                found[traced[2].id] = traced
        return next(iter(found.values())) if len(found) == 1 else None

    def _traced(self, known: _Knowledge, blamed: Blamed) -> tuple[_Knowledge, Origin, Turn] | None:
        key = (known.history.name, blamed.commit, blamed.path)
        if key not in self._traces:
            self._traces[key] = self._trace(known, blamed.commit, blamed.path)
        origin = self._traces[key].get(blamed.line)
        if origin is None or origin.by_commit:
            return None
        turn = known.turn_of(origin)
        return None if turn is None else (known, origin, turn)

    def _trace(self, known: _Knowledge, commit: str, path: bytes) -> Mapping[int, Origin]:
        """The origins, in another worktree's timeline, of the lines that a file has in a commit."""
        position = known.arrivals.position_of(commit)
        if position is None:
            return {}
        try:
            entry = trees.find(self._repository, self._repository.commit_tree(commit), path)
            if entry is None or entry[0] == trees.DIRECTORY:
                return {}
            content = self._repository.blob(entry[1])
        except (MissingObjectsError, RepositoryError):
            return {}
        lines = range(len(line_diff.split(content)))
        return known.tracer.trace(content, path, lines, before=position)

    @cached_property
    def _others(self) -> list[_Knowledge]:
        """The timelines of the other worktrees in which there were turns."""
        names = dict.fromkeys(each.worktree for each in self._log.turns)
        return [self._knowledge(name) for name in names if name != self._worktree.worktree_id]

    def _knowledge(self, name: str) -> _Knowledge:
        return _Knowledge(self._worktree, name, self._log)

    # -- the log -------------------------------------------------------------------------------------------------------

    @cached_property
    def _log(self) -> Log:
        found = log.read(self._worktree, kinds=(record.TYPE,), every=True, newest_first=False)
        found.report(empty=False)
        return Log.of(found.rows)
