"""The state that a restore of chosen hunks leads to: the current one, but for the chosen parts of some files.

The restore of it is a restore of paths like any other: so that a killed one can be recovered, the state is written as a
checkpoint (`format.HUNKS`) that is not on the timeline itself, but kept by the checkpoint of the state before.

Nothing but the worktree's files changes, as with `git restore --patch`: the index stays as it is.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from git_agentos.checkpoint import checkout, format
from git_agentos.checkpoint.capture import contents
from git_agentos.checkpoint.model import State
from git_agentos.checkpoint.own_bytes import Form, OwnBytes
from git_agentos.checkpoint.restore import index_plan
from git_agentos.checkpoint.restore.choice import Choice, FileChoice
from git_agentos.checkpoint.restore.difference import absent_paths
from git_agentos.config import Settings
from git_agentos.errors import UNCHANGED, RestoreError
from git_agentos.git import hunks, state_dir, trees
from git_agentos.git.hunks import Hunk, HunkKind
from git_agentos.git.repository import Writer
from git_agentos.git.trees import Entry
from git_agentos.util import files


@dataclass
class Mixture:
    """The state that a choice leads to from the state `now`. `made` are the blobs that were written for it."""

    writer: Writer
    settings: Settings
    now: State
    choice: Choice
    made: set[str] = field(default_factory=set)

    def state(self) -> State:
        """The state. RestoreError if a chosen file has changed since its hunks were read, or cannot be written."""
        self._check()
        self.writer.flush()
        current = {each.path: each.difference.now for each in self.choice.files if each.difference.now is not None}
        now = contents.with_unseen(self.writer.repository, self.writer, self.settings, self.now, current)
        result = _without_own_bytes(now, self.choice.paths)
        entries = {each.path: self._entry(each) for each in self.choice.files}
        result = _with_entries(self.writer, result, entries)
        for each in self.choice.files:
            entry = entries[each.path]
            if entry is None:
                continue
            result = _with_permissions(result, each, now, self.choice.then)
            if entry[0] in (trees.REGULAR, trees.EXECUTABLE):
                result = _with_form(result, each.path, entry, self._form(result, each, entry, now))
        return result

    # -- checks -----------------------------------------------------------------------------------------------

    def _check(self) -> None:
        absent = absent_paths(self.writer, self.now)
        removed = {each.path for each in self.choice.files if each.has(HunkKind.ADDITION)}
        for each in self.choice.files:
            path, name = each.path, os.fsdecode(each.path)
            entry = trees.find(self.writer, self.now.visible_tree, path)
            if path in absent:
                raise RestoreError(f"'{name}' is not in the sparse checkout", f"restore it as a whole; {UNCHANGED}")
            if entry is not None and entry[0] == trees.DIRECTORY and each.difference.now is None:
                below = {path + b"/" + inner for inner, _ in trees.walk(self.writer, entry[1])}
                if below - removed:
                    raise _in_the_way(name, min(below - removed))
            elif entry != each.difference.now:
                raise RestoreError(
                    f"'{name}' has changed since its hunks were read", f"look at them again; {UNCHANGED}"
                )
            if each.difference.now is None:
                above = path
                while above := above.rpartition(b"/")[0]:
                    found = trees.find(self.writer, self.now.visible_tree, above)
                    if found is not None and found[0] != trees.DIRECTORY and above not in removed:
                        raise _in_the_way(name, above)

    # -- one file ---------------------------------------------------------------------------------------------

    def _entry(self, file: FileChoice) -> Entry | None:
        """The file's entry in the state; None if it is removed."""
        then, now = file.difference.then, file.difference.now
        if file.is_whole or then is None or now is None:
            return then
        mode = then[0] if file.has(HunkKind.MODE) else now[0]
        if file.has(HunkKind.BINARY):
            return mode, then[1]
        texts = _texts(file)
        if not texts:
            return mode, now[1]
        assert file.difference.content is not None
        return mode, self._blob(_taken_back(file, file.difference.content))

    def _form(self, state: State, file: FileChoice, entry: Entry, now: State) -> Form:
        """The bytes that the file has on disk in the state."""
        if file.is_whole or file.difference.now is None or file.has(HunkKind.BINARY):
            return self._known(self.choice.then, file.path, entry[1])
        content = file.difference.content
        if not _texts(file) or content is None:
            return self._known(now, file.path, entry[1])
        try:
            on_disk = _read(os.path.join(os.fsencode(self.writer.repository.location.root), file.path))
        except OSError as error:
            raise _changing(file.path) from error
        if hunks.same_lines(content, on_disk):
            return Form(self._blob(_taken_back(file, content, on_disk)))
        found = self._checked_out(state, file.path)
        if found is None:
            raise _changing(file.path)
        return found

    def _known(self, state: State, path: bytes, oid: str) -> Form:
        """The bytes of a file that is in `state`."""
        return OwnBytes(state).of(path, oid) or self._checked_out(state, path) or Form(oid)

    def _checked_out(self, state: State, path: bytes) -> Form | None:
        """What git checks out at `path` in a state; None if it does not convert the file."""
        with state_dir.scratch(self.writer.repository.location) as folder:
            self.writer.flush()
            whole = (
                state if state.visible_tree else format.with_visible_tree(self.writer.repository, self.writer, state)
            )
            found = checkout.converted(self.writer, whole, [path], self.settings.values, folder)
            return Form(self._blob(_read(found[path]))) if path in found else None

    def _blob(self, data: bytes) -> str:
        oid = self.writer.write("blob", data)
        self.made.add(oid)
        return oid


def _read(path: bytes) -> bytes:
    return files.read(path, limit=os.lstat(path).st_size)


def _texts(file: FileChoice) -> list[Hunk]:
    return [each for each in file.hunks if each.kind is HunkKind.TEXT]


def _taken_back(file: FileChoice, content: bytes, on_disk: bytes | None = None) -> bytes:
    try:
        return hunks.take_back(content, _texts(file), on_disk)
    except hunks.NotApplicableError as error:
        name = os.fsdecode(file.path)
        raise RestoreError(f"the edited hunks of '{name}' do not fit together", UNCHANGED) from error


def _in_the_way(name: str, other: bytes) -> RestoreError:
    return RestoreError(
        f"'{name}' cannot be restored: '{os.fsdecode(other)}' is in the way",
        f"choose its removal, too, or move it away; {UNCHANGED}",
    )


def _changing(path: bytes) -> RestoreError:
    return RestoreError(f"'{os.fsdecode(path)}' changes while its hunks are restored", f"try again; {UNCHANGED}")


# -- the state -----------------------------------------------------------------------------------------------------


def _without_own_bytes(state: State, paths: Collection[bytes]) -> State:
    """`state`, which does not know the bytes and the permission bits of the files at `paths`."""
    return state._replace(
        raw={path: oid for path, oid in state.raw.items() if path not in paths},
        crlf=state.crlf.difference(paths),
        as_stored=state.as_stored.difference(paths),
        permissions={path: bits for path, bits in state.permissions.items() if path not in paths},
    )


def _with_form(state: State, path: bytes, entry: Entry, form: Form) -> State:
    """`state`, which knows that the file has these bytes."""
    if form.oid != entry[1]:
        return state._replace(raw={**state.raw, path: form.oid})
    if form.crlf:
        return state._replace(crlf=state.crlf | {path})
    return state._replace(as_stored=state.as_stored | {path})


def _with_permissions(state: State, file: FileChoice, now: State, then: State) -> State:
    """`state` with the permission bits of the side that the file's mode is taken from."""
    side = then if file.is_whole or file.difference.now is None or file.has(HunkKind.MODE) else now
    if file.path not in side.permissions:
        return state
    return state._replace(permissions={**state.permissions, file.path: side.permissions[file.path]})


def _with_entries(writer: Writer, state: State, entries: Mapping[bytes, Entry | None]) -> State:
    """`state` with these entries in the worktree; each is tracked if the index has it."""
    tracked = {path for path in entries if index_plan.holds(writer, state, path) or path in state.intent_to_add}
    others = {path: entry for path, entry in entries.items() if path not in tracked}
    untracked = {*state.untracked, *(path for path, entry in others.items() if entry is not None)}
    untracked -= {path for path, entry in others.items() if entry is None}
    unstaged = set(state.unstaged) - tracked
    unstaged |= {path for path in tracked if trees.find(writer, state.index_tree, path) != entries[path]}
    gone = {path for path, entry in entries.items() if entry is None}
    filled = trees.folders_above(entries.keys() - gone)
    return state._replace(
        tree=trees.edit(writer, state.tree, {path: entries[path] for path in tracked}),
        untracked_tree=trees.edit(writer, state.untracked_tree, others),
        visible_tree=trees.edit(writer, state.visible_tree, entries),
        unstaged=sorted(unstaged),
        untracked=sorted(untracked),
        not_present=sorted({*state.not_present, *gone}),
        empty_directories=[path for path in state.empty_directories if path not in filled],
    )
